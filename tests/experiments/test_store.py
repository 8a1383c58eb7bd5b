import errno
import fcntl
import json
import re
import subprocess
import sys
import threading
from pathlib import Path
from typing import Any

import pytest

from fresh.errors import ConfigError
from fresh.experiments.store import FAILURE, REPORT, VERSION, BusyError, RunStore

FIGURES = {"macro-F1": 0.5}


@pytest.fixture
def runs(tmp_path: Path) -> RunStore:
    return RunStore(tmp_path / "runs")


def test_a_run_is_done_when_its_report_is_there(runs: RunStore) -> None:
    assert runs.read_report("key") is None
    runs.save_report("key", {"figures": FIGURES})
    assert runs.read_report("key") == {"version": VERSION, "figures": FIGURES}
    assert [place.name for place in runs.run_folder("key").iterdir()] == [REPORT]


def test_a_run_that_succeeds_is_no_longer_a_failure(runs: RunStore) -> None:
    assert runs.read_failure("key") is None
    runs.save_failure("key", "ValueError: no", "line 1")
    assert runs.read_failure("key") == "ValueError: no"
    assert json.loads((runs.run_folder("key") / FAILURE).read_text(encoding="utf-8"))["where"] == "line 1"
    runs.save_report("key", {"figures": FIGURES})
    assert runs.read_failure("key") is None
    runs.save_failure("key", "again", "")
    runs.clear_failure("key")
    runs.clear_failure("key")
    assert runs.read_failure("key") is None


DAMAGED = ["", "{", '{"version": 1', "[1]", "null", "{}", '{"version": 1}', '{"version": 1, "figures": 3}', "\udcff"]
DAMAGED += ['{"version": 1, "figures": {}}', '{"version": 1, "figures": {"macro-F1": "high"}}']
DAMAGED += ['{"version": 1, "figures": {"macro-F1": null}}', '{"version": 1, "figures": {"macro-F1": true}}']
DAMAGED += ['{"version": 1, "figures": {"macro-F1": 0.5}, "seconds": "long"}']
DAMAGED += ['{"version": 2, "figures": {}}', '{"version": 2, "figures": {"macro-F1": 0.5}, "times": 3}']
DAMAGED += ['{"version": 2, "figures": {"macro-F1": 0.5}, "times": {"explain seconds": "long"}}']


@pytest.mark.parametrize("text", DAMAGED)
def test_a_damaged_report_is_no_report_and_broken(text: str, runs: RunStore) -> None:
    runs.run_folder("key").mkdir(parents=True)
    (runs.run_folder("key") / REPORT).write_bytes(text.encode("utf-8", "surrogateescape"))
    assert runs.read_report("key") is None
    assert runs.damaged_report("key") == runs.run_folder("key") / REPORT


def test_a_report_of_version_1_is_read_with_its_times_apart(runs: RunStore) -> None:
    old = {"version": 1, "figures": {**FIGURES, "explain seconds": 0.5}, "notes": [], "seconds": 2.0}
    old |= {"shared seconds": 4.5, "machine": {}, "finished": "2026-01-01"}
    runs.run_folder("key").mkdir(parents=True)
    (runs.run_folder("key") / REPORT).write_text(json.dumps(old), encoding="utf-8")
    times = {"seconds": 2.0, "shared seconds": 4.5, "explain seconds": 0.5, "finished": "2026-01-01"}
    now = {"version": VERSION, "figures": FIGURES, "notes": [], "machine": {}, "times": times}
    assert runs.read_report("key") == now
    runs.save_report("key", now)
    assert runs.read_report("key") == now


def test_a_report_of_another_version_is_done_again_and_not_broken(runs: RunStore) -> None:
    runs.save_report("key", {"figures": FIGURES, "version": VERSION + 1})
    assert (runs.read_report("key"), runs.damaged_report("key")) == (None, None)
    assert runs.damaged_report("nothing there") is None


def test_a_full_disk_leaves_nothing_that_looks_done(runs: RunStore, monkeypatch: pytest.MonkeyPatch) -> None:
    write = Path.write_text

    def full(path: Path, text: str, *args: Any, **more: Any) -> int:
        write(path, text[:10], *args, **more)
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(Path, "write_text", full)
    with pytest.raises(OSError, match="No space left on device"):
        runs.save_report("key", {"figures": FIGURES})
    assert runs.read_report("key") is None
    assert list(runs.run_folder("key").iterdir()) == []


def test_only_one_can_claim_a_thing(runs: RunStore) -> None:
    with runs.claim("key"):
        with pytest.raises(BusyError, match=r"^key$"), runs.claim("key"):
            pass
        with runs.claim("other"):
            pass
    with runs.claim("key"):
        pass


def test_a_claim_ends_with_its_process(runs: RunStore) -> None:
    code = (
        "import sys, pathlib; from fresh.experiments.store import Runs\n"
        "with Runs(pathlib.Path(sys.argv[1])).claimed('key'): print('mine', flush=True); sys.stdin.read()"
    )
    command = [sys.executable, "-c", code, str(runs.path)]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "mine\n"
        with pytest.raises(BusyError), runs.claim("key"):
            pass
        process.kill()
    with runs.claim("key"):
        pass


def test_a_lock_that_cannot_be_had_at_all_is_not_taken_for_a_busy_one(
    runs: RunStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    def flock(*_given: Any) -> None:
        raise OSError(errno.ENOLCK, "No locks available")

    monkeypatch.setattr(fcntl, "flock", flock)
    with pytest.raises(OSError, match="No locks available"), runs.claim("key"):
        pass


PLANNED: dict[str, Any] = {"key": "a", "row": "ours", "corpus": "sst", "seed": 0, "settings": {"ratio": 0.1}}


def test_a_plan_is_read_back(runs: RunStore) -> None:
    runs.write_plan("main", "A try.", [PLANNED], {"x": "ratio"})
    runs.write_plan("again", "", [], {})
    assert runs.experiments() == ["again", "main"]
    assert runs.read_plan("main") == {"name": "main", "about": "A try.", "figure": {"x": "ratio"}, "runs": [PLANNED]}


def test_several_may_write_the_same_plan_at_once(runs: RunStore) -> None:
    planned = [{**PLANNED, "key": f"{number}"} for number in range(500)]
    problems: list[BaseException] = []

    def write() -> None:
        try:
            for _ in range(10):
                runs.write_plan("main", "", planned, {})
                assert runs.read_plan("main")["runs"] == planned
        except BaseException as error:  # noqa: BLE001 - told below
            problems.append(error)

    threads = [threading.Thread(target=write) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert problems == []


def test_a_plan_that_is_not_there(runs: RunStore) -> None:
    none = f"{runs.path} holds no experiment main. There are: none yet; `fresh run` makes one."
    with pytest.raises(ConfigError, match=f"^{re.escape(none)}$"):
        runs.read_plan("main")
    runs.write_plan("other", "", [], {})
    with pytest.raises(ConfigError, match=r"holds no experiment main\. There are: other\.$"):
        runs.read_plan("main")


@pytest.mark.parametrize(
    "text",
    [
        "",
        "{",
        "[]",
        "{}",
        '{"runs": 3, "figure": {}}',
        '{"runs": [3], "figure": {}}',
        '{"runs": [{"key": "a"}], "figure": {}}',
        '{"runs": [{"key": "a", "row": "b", "corpus": "c", "seed": 0, "settings": 1}], "figure": {}}',
        '{"runs": []}',
    ],
)
def test_a_damaged_plan_is_called_so(text: str, runs: RunStore) -> None:
    runs.write_plan("main", "", [], {})
    (runs.path / "plans/main.json").write_text(text, encoding="utf-8")
    told = f"The plan of main in {runs.path} is damaged. `fresh run` with its file mends it."
    with pytest.raises(ConfigError, match=f"^{re.escape(told)}$"):
        runs.read_plan("main")
