import contextlib
import time
from pathlib import Path

import pytest

import fresh.experiments.heartbeat
from fresh.experiments.heartbeat import Heartbeat


def test_progress_is_shown_until_the_task_ends(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(fresh.experiments.heartbeat, "HEARTBEAT_SECONDS", 0.0)
    heartbeat, seen = Heartbeat(tmp_path / "pulse"), list[str]()
    heartbeat.path.write_text("network 99%")  # of a worker that was killed
    with contextlib.suppress(ZeroDivisionError), heartbeat:
        seen.append(heartbeat.read())
        with heartbeat.task("scores of train", 8) as advance:
            seen.append(heartbeat.read())
            for steps in (3, 5):
                advance(steps, "a note")
                seen.append(heartbeat.read())
        with heartbeat.task("something", None) as advance:
            advance(1 // 0, "")
    assert seen == ["", "scores of train 0%", "scores of train 38%", "scores of train 100%"]
    assert not heartbeat.path.exists()


def test_a_heartbeat_is_not_written_too_often(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    written: list[str] = []
    monkeypatch.setattr(fresh.experiments.heartbeat, "write_text", lambda _path, text: written.append(text))
    monkeypatch.setattr(time, "monotonic", lambda: 7.0)
    for name, total in (("network", 100), ("scores", None)):  # each new piece of work is written
        with Heartbeat(tmp_path / "pulse").task(name, total) as advance:
            advance(3, "")
            advance(4, "")
    assert written == ["network 0%", "scores"]


def test_a_heartbeat_that_cannot_be_written_stops_nothing(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("a file where a folder should be")
    for path in (tmp_path / "gone" / "pulse" / "key", tmp_path / "file" / "key"):
        with Heartbeat(path) as heartbeat, heartbeat.task("network", 2) as advance:
            advance(2, "")
    assert not (tmp_path / "gone").exists()
    assert (tmp_path / "file").is_file()
