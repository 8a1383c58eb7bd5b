"""The folder of all runs: which are done, which failed, and who works on what."""

import fcntl
import json
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeGuard

from fresh._io import write_text
from fresh.errors import ConfigError

REPORT, FAILED, PLAN = "report.json", "failed.json", "plans"
SECONDS = "seconds.json"
TIMES = "times"
"""Where a report says how long a run took and when it ended. Equal runs on one machine are equal in all else."""
DURATIONS = ("seconds", "shared seconds", "explain seconds")
PLANNED = {"key", "row", "corpus", "seed", "settings"}
"""What a plan says of a run."""
VERSION = 2
"""Of the form of reports. Version 1, which had times among figures, is read as well; runs of others are done again."""
READABLE = (1, VERSION)


class _GoneError(ValueError):
    """The folder of runs was deleted."""


class BusyError(Exception):
    """Somebody else works on it just now."""


@dataclass(frozen=True, slots=True)
class RunStore:
    """A folder with one folder a run, what runs share, and a plan for each experiment."""

    path: Path

    def of(self, key: str) -> Path:
        """Name the folder of a run."""
        return self.path / "runs" / key

    def shared(self, key: str) -> Path:
        """Name the folder of work that several runs share."""
        return self.path / "shared" / key

    def pulse(self, key: str) -> Path:
        """Name the file in which whoever is at a task tells how far it has come."""
        return self.path / "pulse" / key

    @contextmanager
    def claimed(self, key: str, patient: bool = False) -> Iterator[None]:
        """Work on something alone; the claim ends with the process, however that ends.

        :param patient: Wait until nobody else works on it.
        :raises BusyError: If somebody else works on it.
        """
        place = self.path / "claims" / key
        place.parent.mkdir(parents=True, exist_ok=True)
        with place.open("a") as file:
            try:
                fcntl.flock(file, fcntl.LOCK_EX | (0 if patient else fcntl.LOCK_NB))
            except BlockingIOError as error:
                raise BusyError(key) from error
            yield

    def report(self, key: str) -> dict[str, Any] | None:
        """Read the report of a run that is done, in the form of now."""
        found = read_record(self.of(key) / REPORT)
        if found is None or found.get("version") not in READABLE or not _has_figures(found):
            return None
        return _with_times_apart(found)

    def broken(self, key: str) -> Path | None:
        """Name the report of a run if it is there, but not one; those of other versions are none of these."""
        place = self.of(key) / REPORT
        found = read_record(place) or {}
        known = found.get("version", VERSION) in READABLE
        return place if place.exists() and known and not _has_figures(found) else None

    def failure(self, key: str) -> str | None:
        """Read why a run failed, if it did."""
        found = read_record(self.of(key) / FAILED)
        return None if found is None else str(found.get("error", ""))

    def finish(self, key: str, report: Mapping[str, Any]) -> None:
        """Write the report of a run, which makes it done."""
        self.of(key).mkdir(parents=True, exist_ok=True)
        write_text(self.of(key) / REPORT, json.dumps({"version": VERSION, **report}, indent=1))
        (self.of(key) / FAILED).unlink(missing_ok=True)

    def fail(self, key: str, error: str, where: str) -> None:
        """Write down why a run failed."""
        self.of(key).mkdir(parents=True, exist_ok=True)
        write_text(self.of(key) / FAILED, json.dumps({"error": error, "where": where}, indent=1))

    def took(self, key: str, seconds: float) -> None:
        """Write down how long shared work took, beside what it took before it was broken off."""
        write_text(self.shared(key) / SECONDS, json.dumps({"seconds": self.seconds(key) + seconds}))

    def seconds(self, key: str) -> float:
        """Read how long shared work took; 0 where nobody wrote it down, or not as a number."""
        found = (read_record(self.shared(key) / SECONDS) or {}).get("seconds")
        return float(found) if _is_number(found) else 0.0

    def forget_failure(self, key: str) -> None:
        """Let a run that failed be tried again."""
        (self.of(key) / FAILED).unlink(missing_ok=True)

    def write_plan(
        self, name: str, about: str, planned: Sequence[Mapping[str, Any]], figure: Mapping[str, Any]
    ) -> None:
        """Write down which runs make up an experiment, and how its rows are called."""
        place = self.path / PLAN / f"{name}.json"
        place.parent.mkdir(parents=True, exist_ok=True)
        told = {"name": name, "about": about, "figure": figure, "runs": list(planned)}
        with self.claimed(f"{PLAN}-{name}", patient=True):
            write_text(place, json.dumps(told, indent=1))

    def check_there(self, names: Sequence[str]) -> None:
        """Make sure that plans which were written are still there.

        :raises GoneError: If one is not, and so, most likely, much else.
        """
        lost = [name for name in names if not (self.path / PLAN / f"{name}.json").exists()]
        if lost:
            raise _GoneError(
                f"{self.path} was deleted, or moved, while runs were being done: the plan of {', '.join(lost)} is not "
                "there any more. What was under way is broken off. Give the same command again to begin anew."
            )

    def planned(self, name: str) -> set[str]:
        """List the keys of the runs that are planned, as far as the plan can be read."""
        listed = (read_record(self.path / PLAN / f"{name}.json") or {}).get("runs")
        return {str(run.get("key")) for run in listed if isinstance(run, dict)} if isinstance(listed, list) else set()

    def plans(self) -> list[str]:
        """List the experiments that are here."""
        return sorted(place.stem for place in (self.path / PLAN).glob("*.json"))

    def plan(self, name: str) -> dict[str, Any]:
        """Read the plan of an experiment."""
        found = read_record(self.path / PLAN / f"{name}.json")
        if name in self.plans() and (found is None or not _is_plan(found)):
            raise ConfigError(f"The plan of {name} in {self.path} is damaged. `fresh run` with its file mends it.")
        if found is None:
            known = ", ".join(self.plans()) or "none yet; `fresh run` makes one"
            raise ConfigError(f"{self.path} holds no experiment {name}. There are: {known}.")
        return found


def check_place(path: Path) -> None:
    """Refuse a folder of runs where a file is, or inside one."""
    there = next(place for place in (path, *path.parents) if place.exists())
    if not there.is_dir():
        raise ConfigError(f"{path} cannot be a folder of runs, since {there} is a file. Choose another folder.")


def _has_figures(report: Mapping[str, Any]) -> bool:
    """Say whether a report has figures, and numbers wherever there must be one."""
    figures, times = report.get("figures"), report.get(TIMES, report)
    if not isinstance(figures, dict) or not figures or not isinstance(times, dict):
        return False
    numbers = (*figures.values(), *(times[name] for name in DURATIONS if name in times))
    return all(_is_number(number) for number in numbers)


def _with_times_apart(report: dict[str, Any]) -> dict[str, Any]:
    """Bring a report of version 1 into the form of now."""
    if report["version"] == VERSION:
        return report
    figures = report["figures"]
    times = {name: part.pop(name) for part in (report, figures) for name in (*DURATIONS, "finished") if name in part}
    return {**report, "version": VERSION, TIMES: times}


def _is_number(value: Any) -> TypeGuard[int | float]:
    """Say whether something from a file is a number."""
    return isinstance(value, int | float) and not isinstance(value, bool)


def _is_plan(plan: Mapping[str, Any]) -> bool:
    """Say whether a plan has a figure, and runs of which all is said that must be."""
    runs = plan.get("runs")
    if not isinstance(runs, list) or not isinstance(plan.get("figure"), dict):
        return False
    return all(
        isinstance(run, dict) and isinstance(run.get("settings"), dict) and run.keys() >= PLANNED for run in runs
    )


def read_record(path: Path) -> dict[str, Any] | None:
    """Read a JSON object, if there is one."""
    try:
        found = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return None
    return found if isinstance(found, dict) else None
