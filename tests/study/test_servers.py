"""Where a study is, and several servers on one."""

import threading
import time
from contextlib import closing
from pathlib import Path

import pytest
from sqlalchemy import text

from fresh.study.store import Store, create_study, open_study
from studies import plan, two_ways


def write_on(store: Store, ended: threading.Event) -> None:
    """Write without a pause, each time as long as on a slow disk."""
    while not ended.is_set():
        with store.write_session() as session:
            session.execute(text("SELECT 1"))
            time.sleep(0.05)


def wait_to_write(store: Store) -> float:
    """Write once, after a pause, and say how long it took."""
    time.sleep(0.06)
    start = time.monotonic()
    with store.write_session() as session:
        session.execute(text("UPDATE study SET paused = NOT paused"))
    return time.monotonic() - start


def test_a_busy_server_lets_another_write(tmp_path: Path) -> None:
    """SQLite's own way to wait let the other starve, for longer than it is willing to wait: "database is locked"."""
    create_study(tmp_path, plan(two_ways())).close()
    ended = threading.Event()
    with closing(open_study(tmp_path)) as busy, closing(open_study(tmp_path)) as other:
        threads = [threading.Thread(target=write_on, args=(busy, ended)) for _ in range(3)]
        for thread in threads:
            thread.start()
        waits = [wait_to_write(other) for _ in range(8)]
        ended.set()
        for thread in threads:
            thread.join()
    assert sum(waits) < 25, "Far from a minute for each, after which it would give up."


@pytest.mark.parametrize("name", ["a b", "what?mode=ro", "50%20", "#1", "ü"])
def test_a_study_is_made_in_the_folder_that_was_named(tmp_path: Path, name: str) -> None:
    create_study(tmp_path / name, plan(two_ways())).close()
    assert [path.name for path in tmp_path.iterdir()] == [name]
    with closing(open_study(tmp_path / name)) as store:
        assert store.conditions == ("human", "full")
