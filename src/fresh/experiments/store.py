"""The folder of runs: reports, failures, plans, and the locks and the progress of running tasks."""

import fcntl
import json
import shutil
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Self, TypeGuard

from fresh._io import write_text
from fresh.errors import ConfigError, FreshError
from fresh.progress import Advance

REPORT, FAILURE, PLANS = "report.json", "failed.json", "plans"
SECONDS_FILE = "seconds.json"
TIMES = "times"
"""Key of a report with the durations and the end of its run. Equal runs on one machine differ only here."""
DURATIONS = ("seconds", "shared seconds", "explain seconds")
PLAN_FIELDS = {"key", "row", "corpus", "seed", "settings"}  # what a plan says about a run
VERSION = 2
"""Version of reports. Version 1, which had durations among the metrics, is read too; runs of others are repeated."""
READABLE = (1, VERSION)
HEARTBEAT_SECONDS = 2.0  # minimum number of seconds between two heartbeats
CLOCK_SLACK = 1.0  # seconds by which the clock of the file system may be slow


class StoreDeletedError(FreshError, ValueError):
    """The folder of runs was deleted while runs were in progress."""


class BusyError(Exception):
    """Another process is working on this task."""


class Heartbeat:
    """Shows the progress of a task, in a file that exists only while the block lasts."""

    def __init__(self, path: Path) -> None:
        self.path, self.last = path, 0.0

    def __enter__(self) -> Self:
        self.remove()
        return self

    def __exit__(self, *_error: object) -> None:
        self.remove()

    def say(self, line: str) -> None:
        """Ignore a message."""

    @contextmanager
    def task(self, name: str, total: int | None) -> Iterator[Advance]:
        """Start a piece of work, and report how much of it is done."""
        n_done = 0

        def advance(steps: int, _note: str) -> None:
            nonlocal n_done
            n_done += steps
            if time.monotonic() - self.last >= HEARTBEAT_SECONDS:
                self._write(f"{name} {n_done / total:.0%}" if total else name)

        self._write(f"{name} 0%" if total else name)
        yield advance

    def _write(self, text: str) -> None:
        self.last = time.monotonic()
        with suppress(OSError):  # a full disk must not stop the task
            self.path.parent.mkdir(exist_ok=True)
            write_text(self.path, text)

    def remove(self) -> None:
        """Delete the file, perhaps that of a worker that was killed."""
        with suppress(OSError):
            self.path.unlink(missing_ok=True)

    def read(self, since: float = 0.0) -> str:
        """Read the progress; empty if there is none since the task started, as after a worker was killed."""
        try:
            return self.path.read_text(encoding="utf-8") if self.path.stat().st_mtime >= since - CLOCK_SLACK else ""
        except (OSError, ValueError):
            return ""


@dataclass(frozen=True, slots=True)
class RunStore:
    """A folder with one folder for each run, the work that runs share, and a plan for each experiment."""

    path: Path

    def run_folder(self, key: str) -> Path:
        """Return the folder of a run."""
        return self.path / "runs" / key

    def shared_folder(self, key: str) -> Path:
        """Return the folder of work that several runs share."""
        return self.path / "shared" / key

    def heartbeat(self, key: str) -> Heartbeat:
        """Return the file in which a worker writes the progress of a task."""
        return Heartbeat(self.path / "pulse" / key)

    @contextmanager
    def claim(self, key: str, wait: bool = False) -> Iterator[None]:
        """Hold the lock of a task; if another process holds it, wait or raise a `BusyError`."""
        path = self.path / "claims" / key
        path.parent.mkdir(parents=True, exist_ok=True)
        # flock, not a lock file: the kernel releases it however the process ends, so that no stale lock is left.
        with path.open("a") as file:
            try:
                fcntl.flock(file, fcntl.LOCK_EX | (0 if wait else fcntl.LOCK_NB))
            except BlockingIOError as error:
                raise BusyError(key) from error
            yield

    def remove_shared(self, key: str) -> None:
        """Delete work that runs share, unless another process is using it."""
        with suppress(BusyError), self.claim(key):
            shutil.rmtree(self.shared_folder(key), ignore_errors=True)

    def read_report(self, key: str) -> dict[str, Any] | None:
        """Read the report of a finished run, in the current form."""
        report = read_record(self.run_folder(key) / REPORT)
        if report is None or report.get("version") not in READABLE or not _has_metrics(report):
            return None
        if report["version"] == VERSION:
            return report
        # Version 1 had durations among the metrics, so that equal runs looked different.
        metrics, names = report["figures"], (*DURATIONS, "finished")
        times = {name: part.pop(name) for part in (report, metrics) for name in names if name in part}
        return {**report, "version": VERSION, TIMES: times}

    def damaged_report(self, key: str) -> Path | None:
        """Return the path of a report if it cannot be read; a report of another version is not damaged."""
        path = self.run_folder(key) / REPORT
        report = read_record(path) or {}
        is_known = report.get("version", VERSION) in READABLE
        return path if path.exists() and is_known and not _has_metrics(report) else None

    def save_report(self, key: str, report: Mapping[str, Any]) -> None:
        """Write the report of a run, which marks the run as finished."""
        # Written as a whole or not at all: a report that exists is complete, however a worker was killed.
        self.run_folder(key).mkdir(parents=True, exist_ok=True)
        write_text(self.run_folder(key) / REPORT, json.dumps({"version": VERSION, **report}, indent=1))
        self.clear_failure(key)

    def read_failure(self, key: str) -> str | None:
        """Read why a run failed, if it did."""
        failure = read_record(self.run_folder(key) / FAILURE)
        return None if failure is None else str(failure.get("error", ""))

    def save_failure(self, key: str, error: str, where: str) -> None:
        """Write why a run failed, with the traceback."""
        self.run_folder(key).mkdir(parents=True, exist_ok=True)
        write_text(self.run_folder(key) / FAILURE, json.dumps({"error": error, "where": where}, indent=1))

    def clear_failure(self, key: str) -> None:
        """Delete the failure of a run, so that the run is tried again."""
        (self.run_folder(key) / FAILURE).unlink(missing_ok=True)

    def add_seconds(self, key: str, seconds: float) -> None:
        """Add to the duration of shared work, which may have been interrupted before."""
        write_text(self.shared_folder(key) / SECONDS_FILE, json.dumps({"seconds": self.read_seconds(key) + seconds}))

    def read_seconds(self, key: str) -> float:
        """Read the duration of shared work; 0 if it is unknown."""
        seconds = (read_record(self.shared_folder(key) / SECONDS_FILE) or {}).get("seconds")
        return float(seconds) if _is_number(seconds) else 0.0

    def plan_file(self, name: str) -> Path:
        """Return the file with the plan of an experiment."""
        return self.path / PLANS / f"{name}.json"

    def write_plan(self, name: str, about: str, runs: Sequence[Mapping[str, Any]], figure: Mapping[str, Any]) -> None:
        """Write the `PLAN_FIELDS` of all runs of an experiment, and what `fresh plot` draws by default."""
        self.plan_file(name).parent.mkdir(parents=True, exist_ok=True)
        plan = {"name": name, "about": about, "figure": figure, "runs": list(runs)}
        # Several processes may start the same experiment at once, and would write the same temporary file.
        with self.claim(f"{PLANS}-{name}", wait=True):
            write_text(self.plan_file(name), json.dumps(plan, indent=1))

    def check_plans(self, names: Sequence[str]) -> None:
        """Raise unless all plans still exist; if one does not, the whole folder was probably deleted."""
        if missing := ", ".join(name for name in names if not self.plan_file(name).exists()):
            hint = "Unfinished runs were stopped. To start again, repeat the same command."
            raise StoreDeletedError(f"{self.path} was deleted or moved: the plan of {missing} is missing. {hint}")

    def experiments(self) -> list[str]:
        """List the experiments in this folder."""
        return sorted(path.stem for path in (self.path / PLANS).glob("*.json"))

    def planned_keys(self, name: str) -> set[str]:
        """List the keys of the runs of an experiment; empty if it has no plan, or a damaged one."""
        plan = read_record(self.plan_file(name))
        return {str(run["key"]) for run in plan["runs"]} if plan is not None and _is_plan(plan) else set()

    def read_plan(self, name: str) -> dict[str, Any]:
        """Read the plan of an experiment."""
        plan = read_record(self.plan_file(name))
        if name in self.experiments() and (plan is None or not _is_plan(plan)):
            raise ConfigError(f"The plan of {name} in {self.path} is damaged. To repair it, repeat `fresh run`.")
        if plan is None:
            known = ", ".join(self.experiments()) or "none yet; `fresh run` creates one"
            raise ConfigError(f"{self.path} holds no experiment {name}. There are: {known}.")
        return plan


def check_folder(path: Path) -> None:
    """Refuse a folder of runs whose path is a file, or is inside one."""
    parent = next(place for place in (path, *path.parents) if place.exists())
    if not parent.is_dir():
        raise ConfigError(f"{path} cannot be a folder of runs, because {parent} is a file. Choose another folder.")


def read_record(path: Path) -> dict[str, Any] | None:
    """Read a JSON object; None if there is none or it is damaged."""
    try:
        record = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return None
    return record if isinstance(record, dict) else None


def _has_metrics(report: Mapping[str, Any]) -> bool:
    metrics, times = report.get("figures"), report.get(TIMES, report)
    if not isinstance(metrics, dict) or not metrics or not isinstance(times, dict):
        return False
    return all(map(_is_number, (*metrics.values(), *(times[name] for name in DURATIONS if name in times))))


def _is_number(value: Any) -> TypeGuard[int | float]:
    return isinstance(value, int | float) and not isinstance(value, bool)


def _is_plan(plan: Mapping[str, Any]) -> bool:
    runs = plan.get("runs")
    if not isinstance(runs, list) or not isinstance(plan.get("figure"), dict):
        return False
    return all(
        isinstance(run, dict) and isinstance(run.get("settings"), dict) and run.keys() >= PLAN_FIELDS for run in runs
    )
