"""For how long runs were at work, by the times in their reports."""

from collections.abc import Sequence
from datetime import datetime

from result_tables import CORPORA, markdown_table

from fresh.experiments.results import RunResult
from fresh.experiments.store import TIMES

PAUSE = 180.0
"""Seconds without a run that end a period; in shorter gaps, support models and scores are computed."""


def card_time(results: Sequence[RunResult]) -> str:
    """Tabulate the duration of each period, from its first to its last run, by the times in the reports."""
    found = {corpus: periods([run for run in results if run.corpus == corpus and run.report]) for corpus in CORPORA}
    seconds_of = {CORPORA[corpus]: [round(end - start) for start, end in spans] for corpus, spans in found.items()}
    rows = [
        [name, str(len(seconds)), " + ".join(f"{one:,}" for one in seconds), f"{sum(seconds):,}"]
        for name, seconds in seconds_of.items()
    ]
    n_all = sum(map(sum, seconds_of.values()))
    return markdown_table(["corpus", "periods", "seconds of each", "total"], [*rows, ["all", "", "", f"{n_all:,}"]])


def periods(results: Sequence[RunResult]) -> list[tuple[float, float]]:
    """Put runs together that were done in one go."""
    ends = [datetime.fromisoformat(run.report[TIMES]["finished"]).timestamp() for run in results]
    spans = sorted((end - run.report[TIMES]["seconds"], end) for run, end in zip(results, ends, strict=True))
    found: list[tuple[float, float]] = []
    for start, end in spans:
        if found and start - found[-1][1] < PAUSE:
            found[-1] = found[-1][0], max(found[-1][1], end)
        else:
            found.append((start, end))
    return found
