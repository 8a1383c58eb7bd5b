"""The tables of proof.md: paired tests over seeds, with Holm's correction over all rows of a table."""

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import product
from statistics import fmean
from typing import NamedTuple

import numpy as np
from result_tables import CORPORA, MISSING, few_of, markdown_table
from scipy import stats

from fresh.experiments.results import MAIN_METRIC, RunResult
from fresh.experiments.significance import signed
from fresh.metrics import holm
from fresh.metrics.bootstrap import short

BY_SEED = Mapping[int, Mapping[str, float]]
MIN_SEEDS = 3  # for an interval and a test
OWN, INDEPENDENT = "own", "independent"
SCORERS = {
    "attention": "attention",
    "gradient": "gradient",
    "attention x gradient, for": "attention × gradient",
    "attention x gradient, both": "attention × gradient, both",
    "integrated gradients, for": "integrated gradients",
    "integrated gradients, both": "integrated gradients, both",
}
"""The beginning of a row in the grid, and its name on the page."""


class Pairs(NamedTuple):
    """Two measures of the same seeds."""

    corpus: str
    name: str
    first: list[float]
    second: list[float]
    few: str

    @property
    def p(self) -> float:
        """The p value of a paired t-test; nan for fewer than three seeds, or where all pairs are equal."""
        differences = np.subtract(self.first, self.second)
        is_testable = len(differences) >= MIN_SEEDS and np.ptp(differences) > 0
        return float(stats.ttest_1samp(differences, 0).pvalue) if is_testable else math.nan

    def cells(self, adjusted: float | None) -> list[str]:
        """Both means, their difference with its 95 % interval, and p."""
        differences, n = np.subtract(self.first, self.second), len(self.first)
        if adjusted is None:
            interval, p = signed(differences.mean()), MISSING
        else:
            low, high = stats.t.interval(0.95, n - 1, differences.mean(), stats.sem(differences))
            interval = f"{signed(differences.mean())} ({signed(low)} to {signed(high)})"
            p = short(adjusted) if adjusted >= 0.001 else "< .001"
        return [short(fmean(self.first)), short(fmean(self.second)), interval, p]


def readers(results: Sequence[RunResult]) -> str:
    """Lay out what the predictor and an independent reader understand of the same rationales."""

    def pair(row: str, corpus: str) -> Pairs | None:
        own = _by_seed(results, f"{row}, {OWN}", corpus)
        return _pair(results, corpus, row, own, own, MAIN_METRIC, "reader macro-F1")

    return _tabulate(["predictor", "independent reader"], pair)


def independent(results: Sequence[RunResult]) -> str:
    """Lay out what models lose whose predictor is an independent reader."""

    def pair(row: str, corpus: str) -> Pairs | None:
        own, other = (_by_seed(results, f"{row}, {kind}", corpus) for kind in (OWN, INDEPENDENT))
        return _pair(results, corpus, row, other, own, MAIN_METRIC, MAIN_METRIC)

    return _tabulate(["independent predictor", "own predictor"], pair)


def evidence(results: Sequence[RunResult]) -> str:
    """Lay out what words for or against the answer tell, and words for it."""

    def pair(row: str, corpus: str) -> Pairs | None:
        if not row.endswith(", both"):
            return None
        both, one = (_by_seed(results, f"{name}, {OWN}", corpus) for name in (row, row.replace(", both", ", for")))
        return _pair(results, corpus, row, both, one, MAIN_METRIC, MAIN_METRIC)

    return _tabulate(["both", "for"], pair)


def asked(results: Sequence[RunResult]) -> str:
    """Lay out accuracy with words for the predicted class, for its runner-up, and for a random class."""
    measures = ("accuracy", "accuracy (runner-up)", "accuracy (random class)")
    rows: list[list[str]] = []
    for (corpus, row), kind in product(_cells(), (OWN, INDEPENDENT)):
        runs = _by_seed(results, f"{row}, {kind}", corpus)
        values = [[run[name] for run in runs.values() if name in run] for name in measures]
        if all(values):
            few = few_of(len(runs), _n_seeds(results, corpus))
            rows.append([CORPORA[corpus], SCORERS[row] + few, kind, *(short(fmean(some)) for some in values)])
    heads = ["corpus", "words of", "predictor", "the predicted class", "its runner-up", "a random class"]
    return markdown_table(heads, rows)


def _cells() -> Iterator[tuple[str, str]]:
    return ((corpus, row) for corpus in CORPORA for row in SCORERS)


def _n_seeds(results: Sequence[RunResult], corpus: str) -> int:
    return len({run.seed for run in results if run.corpus == corpus})


def _by_seed(results: Sequence[RunResult], row: str, corpus: str) -> BY_SEED:
    return {run.seed: run.metrics for run in results if (run.row, run.corpus) == (row, corpus) and run.metrics}


def _pair(
    results: Sequence[RunResult], corpus: str, row: str, first: BY_SEED, second: BY_SEED, one: str, other: str
) -> Pairs | None:
    seeds = sorted(first.keys() & second.keys())
    if not seeds:
        return None
    few = few_of(len(seeds), _n_seeds(results, corpus))
    return Pairs(corpus, row, [first[s][one] for s in seeds], [second[s][other] for s in seeds], few)


def _tabulate(heads: Sequence[str], pair: Callable[[str, str], Pairs | None]) -> str:
    found = [pairs for corpus, row in _cells() if (pairs := pair(row, corpus)) is not None]
    tested = {f"{number}": pairs.p for number, pairs in enumerate(found) if not math.isnan(pairs.p)}
    adjusted = {item.name: item.adjusted for item in holm(tested)}
    rows = [
        [CORPORA[pairs.corpus], SCORERS[pairs.name] + pairs.few, *pairs.cells(adjusted.get(f"{number}"))]
        for number, pairs in enumerate(found)
    ]
    return markdown_table(["corpus", "words of", *heads, "difference (95 %)", "p (Holm)"], rows)
