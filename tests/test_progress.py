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


@pytest.mark.parametrize("is_terminal", [True, False])
def test_a_log_has_a_line_for_each_note(is_terminal: bool) -> None:
    shown, terminal = io.StringIO(), Terminal()
    terminal.console = Console(file=shown, width=100, force_terminal=is_terminal)
    with terminal.task("support model", 4) as advance:
        for note in ("dev F1 0.5", "", "dev F1 0.5", "dev F1 0.6"):
            advance(1, note)
    lines = [line.rstrip() for line in shown.getvalue().splitlines() if line.startswith("support model: ")]
    assert lines == ([] if is_terminal else ["support model: dev F1 0.5", "support model: dev F1 0.6"])
