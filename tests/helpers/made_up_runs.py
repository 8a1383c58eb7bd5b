"""Folders of invented runs, for tests of tables and figures."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from fresh.experiments.results import RunResult
from fresh.experiments.store import RunStore


@dataclass(frozen=True, slots=True)
class Made:
    row: str
    value: float | None = None  # its macro-F1; none if it is not done
    seed: int = 0
    corpus: str = "sst"
    settings: Mapping[str, Any] = field(default_factory=dict)
    metrics: Mapping[str, float] = field(default_factory=dict)
    failure: str | None = None
    key: str = ""

    @property
    def folder(self) -> str:
        return self.key or f"{self.corpus}-{self.row}-{self.seed}".replace("/", "-")

    @property
    def about(self) -> dict[str, Any]:
        settings = {"method": "fresh", "seed": self.seed, **self.settings}
        return {"key": self.folder, "row": self.row, "corpus": self.corpus, "seed": self.seed, "settings": settings}

    @property
    def measured(self) -> dict[str, float]:
        return {"macro-F1": self.value, **self.metrics} if self.value is not None else {}


def write(folder: Path, made: Iterable[Made], name: str = "main", figure: Mapping[str, Any] | None = None) -> Path:
    """Write a folder of runs as `fresh run` would."""
    runs, listed = RunStore(folder), list(made)
    runs.write_plan(name, "", [run.about for run in listed], figure or {})
    for run in listed:
        if run.failure is not None:
            runs.save_failure(run.folder, run.failure, "")
        elif run.value is not None:
            report = {"figures": run.measured, "times": {"seconds": 2.0}, "notes": []}
            runs.save_report(run.folder, report)
    return folder


def results(made: Iterable[Made]) -> list[RunResult]:
    return [
        RunResult(**run.about, metrics=run.measured, failure=run.failure, report={"version": 1} if run.measured else {})
        for run in made
    ]


def seeds(row: str, *values: float | None, **about: Any) -> list[Made]:
    """Make one run for each value, with seeds from 0."""
    return [Made(row, value, seed, **about) for seed, value in enumerate(values)]


def encoder_runs(encoder: str, row: str, *values: float, **settings: Any) -> list[Made]:
    about = {"encoder": encoder, **settings}
    return [Made(row, value, n, settings=about, key=f"{row} {about} {n}") for n, value in enumerate(values)]


TWO_ENCODERS = [
    *encoder_runs("small", "full text", 0.6, 0.8, method="full_text"),
    *encoder_runs("small", "ours", 0.5, 0.5, learning_rate=0.1),
    *encoder_runs("small", "theirs", 0.4, 0.5),
    *encoder_runs("large", "full text", 0.9, 0.9, method="full_text"),
    *encoder_runs("large", "ours", 0.6, 0.8, learning_rate=0.2, recording=False),
]
