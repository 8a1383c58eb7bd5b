import io
from collections.abc import Sequence

import pytest
from rich.console import Console

from fresh.progress import Terminal


@pytest.mark.parametrize(
    ("times", "left"), [([100.0], "0:31:40"), ([100.0, 300.0], "0:45:00"), ([400.0, 800.0, 1200.0], "1:53:20")]
)
def test_a_bar_shows_the_time_left_even_if_a_step_takes_minutes(times: Sequence[float], left: str) -> None:
    now, shown, terminal = 0.0, io.StringIO(), Terminal()
    terminal.console = Console(file=shown, width=100, get_time=lambda: now)
    with terminal.task("support model", 20) as advance:
        for moment in times:
            now = moment
            advance(1, "")
    assert f"{len(times)}/20 {left}" in shown.getvalue()
