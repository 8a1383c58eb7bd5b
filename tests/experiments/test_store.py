import contextlib
import errno
import fcntl
import json
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

import fresh.experiments.store
from experiments import full_disk
from fresh.errors import ConfigError
from fresh.experiments.store import FAILURE, REPORT, VERSION, BusyError, Heartbeat, RunStore

METRICS = {"macro-F1": 0.5}


def write_report(store: RunStore, text: str) -> None:
    store.run_folder("key").mkdir(parents=True)
    (store.run_folder("key") / REPORT).write_bytes(text.encode("utf-8", "surrogateescape"))


def test_a_run_is_done_when_its_report_is_there(store: RunStore) -> None:
    assert store.read_report("key") is None
    store.save_report("key", {"figures": METRICS})
    assert store.read_report("key") == {"version": VERSION, "figures": METRICS}
    assert [path.name for path in store.run_folder("key").iterdir()] == [REPORT]
    store.save_report("key", {"figures": METRICS, "version": VERSION + 1})  # not damaged, but of another version
    assert (store.read_report("key"), store.damaged_report("key")) == (None, None)
    assert store.damaged_report("nothing there") is None


def test_a_run_that_succeeds_is_no_longer_a_failure(store: RunStore) -> None:
    assert store.read_failure("key") is None
    store.save_failure("key", "ValueError: no", "line 1")
    assert store.read_failure("key") == "ValueError: no"
    assert json.loads((store.run_folder("key") / FAILURE).read_text(encoding="utf-8"))["where"] == "line 1"
    store.save_report("key", {"figures": METRICS})
    assert store.read_failure("key") is None
    store.save_failure("key", "again", "")
    for _ in range(2):
        store.clear_failure("key")
        assert store.read_failure("key") is None


@pytest.mark.parametrize(
    "text",
    [
        *("", "{", '{"version": 1', "[1]", "null", "{}", '{"version": 1}', '{"version": 1, "figures": 3}', "\udcff"),
        *('{"version": 1, "figures": {}}', '{"version": 1, "figures": {"macro-F1": "high"}}'),
        *('{"version": 1, "figures": {"macro-F1": null}}', '{"version": 1, "figures": {"macro-F1": true}}'),
        '{"version": 1, "figures": {"macro-F1": 0.5}, "seconds": "long"}',
        *('{"version": 2, "figures": {}}', '{"version": 2, "figures": {"macro-F1": 0.5}, "times": 3}'),
        '{"version": 2, "figures": {"macro-F1": 0.5}, "times": {"explain seconds": "long"}}',
    ],
)
def test_a_damaged_report_does_not_count(text: str, store: RunStore) -> None:
    write_report(store, text)
    assert store.read_report("key") is None
    assert store.damaged_report("key") == store.run_folder("key") / REPORT


def test_a_report_of_version_1_is_upgraded(store: RunStore) -> None:
    old = {"version": 1, "figures": {**METRICS, "explain seconds": 0.5}, "notes": [], "seconds": 2.0}
    write_report(store, json.dumps({**old, "shared seconds": 4.5, "machine": {}, "finished": "2026-01-01"}))
    times = {"seconds": 2.0, "shared seconds": 4.5, "explain seconds": 0.5, "finished": "2026-01-01"}
    now = {"version": VERSION, "figures": METRICS, "notes": [], "machine": {}, "times": times}
    assert store.read_report("key") == now
    store.save_report("key", now)
    assert store.read_report("key") == now


def test_a_full_disk_leaves_no_report(store: RunStore) -> None:
    with full_disk(), pytest.raises(OSError, match="No space left on device"):
        store.save_report("key", {"figures": METRICS})
    assert store.read_report("key") is None
    assert list(store.run_folder("key").iterdir()) == []


def test_seconds_add_up_over_interruptions(store: RunStore) -> None:
    store.shared_folder("support-1").mkdir(parents=True)
    store.add_seconds("support-1", 3.0)
    store.add_seconds("support-1", 1.5)
    assert (store.read_seconds("support-1"), store.read_seconds("support-2")) == (4.5, 0.0)
    (store.shared_folder("support-1") / "seconds.json").write_text('{"seconds": "long"}', encoding="utf-8")
    assert store.read_seconds("support-1") == 0.0


def test_only_one_process_can_claim_a_task_until_it_ends(store: RunStore) -> None:
    with store.claim("key"), store.claim("other"), pytest.raises(BusyError, match=r"^key$"), store.claim("key"):
        pass
    code = (
        "import sys, pathlib; from fresh.experiments.store import RunStore\n"
        "with RunStore(pathlib.Path(sys.argv[1])).claim('key'): print('mine', flush=True); sys.stdin.read()"
    )
    command = [sys.executable, "-c", code, str(store.path)]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "mine\n"
        with pytest.raises(BusyError), store.claim("key"):
            pass
        process.kill()
    with store.claim("key"):
        pass


def test_a_disk_without_locks_does_not_look_like_a_busy_task(store: RunStore, monkeypatch: pytest.MonkeyPatch) -> None:
    def flock(*_arguments: Any) -> None:
        raise OSError(errno.ENOLCK, "No locks available")

    monkeypatch.setattr(fcntl, "flock", flock)
    with pytest.raises(OSError, match="No locks available"), store.claim("key"):
        pass


PLANNED: dict[str, Any] = {"key": "a", "row": "ours", "corpus": "sst", "seed": 0, "settings": {"ratio": 0.1}}


def test_a_plan_is_read_back(store: RunStore) -> None:
    store.write_plan("main", "A try.", [PLANNED], {"x": "ratio"})
    store.write_plan("again", "", [], {})
    assert store.experiments() == ["again", "main"]
    assert store.read_plan("main") == {"name": "main", "about": "A try.", "figure": {"x": "ratio"}, "runs": [PLANNED]}


def test_several_threads_may_write_a_plan_at_once(store: RunStore) -> None:
    planned = [{**PLANNED, "key": f"{number}"} for number in range(500)]

    def write(_number: int) -> Any:
        store.write_plan("main", "", planned, {})
        return store.read_plan("main")["runs"]

    with ThreadPoolExecutor(4) as pool:
        assert all(read == planned for read in pool.map(write, range(40)))


def test_a_missing_plan_is_refused(store: RunStore) -> None:
    with pytest.raises(ConfigError, match=r"holds no experiment main\. There are: none yet"):
        store.read_plan("main")
    store.write_plan("other", "", [], {})
    with pytest.raises(ConfigError, match=r"holds no experiment main\. There are: other\."):
        store.read_plan("main")


@pytest.mark.parametrize(
    "text",
    [
        *("", "{", "[]", "{}", '{"runs": []}', '{"runs": 3, "figure": {}}', '{"runs": [3], "figure": {}}'),
        '{"runs": [{"key": "a"}], "figure": {}}',
        '{"runs": [{"key": "a", "row": "b", "corpus": "c", "seed": 0, "settings": 1}], "figure": {}}',
    ],
)
def test_a_damaged_plan_is_refused(text: str, store: RunStore) -> None:
    store.write_plan("main", "", [], {})
    (store.path / "plans/main.json").write_text(text, encoding="utf-8")
    with pytest.raises(ConfigError, match=r"The plan of main in .* is damaged.*`fresh run`"):
        store.read_plan("main")


# The progress of running tasks


def test_progress_is_shown_until_the_task_ends(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(fresh.experiments.store, "HEARTBEAT_SECONDS", 0.0)
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
    monkeypatch.setattr(fresh.experiments.store, "write_text", lambda _path, text: written.append(text))
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
