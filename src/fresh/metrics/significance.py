"""Significance tests: paired permutation tests on documents, Welch's test over seeds, Holm's correction."""

import math
import warnings
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from itertools import product

import numpy as np

from fresh.metrics import bootstrap
from fresh.metrics.bootstrap import N_RESAMPLES, ClassCounts, Floats, Interval, Kinds, Labels, Texts

# Random permutations, where there are too many to enumerate.
N_PERMUTATIONS = 10_000
# Permutations with the same counts are one outcome; up to this many outcomes are enumerated.
MAX_OUTCOMES = 100_000
# Figures that differ by less are equal: sums in another order differ by rounding.
NOISE = 1e-12


@dataclass(frozen=True, slots=True)
class Comparison:
    """A paired comparison of two models on the same documents, or on the texts that documents share."""

    measure: str
    first: float
    second: float
    difference: Interval
    """The first figure minus the second, with its paired bootstrap interval."""
    p: float
    """Share of the permutations of the models' predictions with at least this difference, in either direction."""
    exact: bool
    """Whether all permutations were enumerated rather than sampled."""
    n_discordant: int
    """Number of documents, or texts, whose permutation changes anything."""
    by_text: bool = False


def compare_accuracy(
    gold: Labels, first: Labels, second: Labels, n_resamples: int = N_RESAMPLES, seed: int = 0, texts: Texts = None
) -> Comparison:
    """Compare the accuracy of two models from numbered labels by an exact test."""
    labels, one, two = bootstrap.check_labels(gold, first, second)
    kinds = Kinds.of((one == labels).astype(np.int64) - (two == labels), texts=texts)
    leads = np.bincount(kinds.kind, weights=kinds.cells[:, 0])  # of the first model in one text of each kind
    sizes = np.bincount(kinds.kind)
    draws = [block @ leads / (block @ sizes) for block in bootstrap.resample_counts(kinds.counts, n_resamples, seed)]
    # A swap of the predictions of a text turns its lead round. So the total lead of all swaps is distributed as the
    # convolution of the distributions of texts with equal leads; with one document for each text, it is the sign test.
    probabilities = np.ones(1)  # of each total, from the lowest possible to the highest
    for size in np.unique(np.abs(leads[leads != 0]).astype(np.int64)).tolist():
        n_texts = int(kinds.counts[np.abs(leads) == size].sum())
        steps = np.zeros(2 * size * n_texts + 1)
        steps[:: 2 * size] = _coin_probabilities(n_texts)
        probabilities = np.convolve(probabilities, steps)
    highest = len(probabilities) // 2
    as_large = np.abs(np.arange(-highest, highest + 1)) >= abs(leads @ kinds.counts)
    return Comparison(
        "accuracy",
        float((one == labels).mean()),
        float((two == labels).mean()),
        bootstrap.percentile_interval(np.concatenate(draws)),
        min(1.0, float(probabilities[as_large].sum())),
        exact=True,
        n_discordant=int(kinds.counts[leads != 0].sum()),
        by_text=int(kinds.counts.sum()) < len(labels),
    )


def compare_macro_f1(
    gold: Labels,
    first: Labels,
    second: Labels,
    n_classes: int,
    n_resamples: int = N_RESAMPLES,
    seed: int = 0,
    texts: Texts = None,
) -> Comparison:
    """Compare the macro-F1 of two models from numbered labels.

    :param n_classes: Averages the classes below this number; other labels count as errors only.
    """
    labels, *answers = bootstrap.check_labels(gold, first, second)
    kinds = Kinds.of(labels, *answers, texts=texts)
    a, b = (kinds.count_classes(n_classes, column) for column in (1, 2))  # of one text of each kind
    one, two = (model.total(kinds.counts[None]) for model in (a, b))
    blocks = bootstrap.resample_counts(kinds.counts, n_resamples, seed)
    draws = np.concatenate([a.total(block).macro_f1 - b.total(block).macro_f1 for block in blocks])
    # Texts with the same labels and predictions are alike: only the number of swapped texts of each kind matters. So
    # far more swaps can be enumerated than by scipy.stats.permutation_test, which swaps documents one by one.
    differ = np.bincount(kinds.kind, weights=kinds.cells[:, 1] != kinds.cells[:, 2]) > 0
    n_texts = kinds.counts[differ]
    exact = math.prod(n + 1 for n in n_texts.tolist()) <= MAX_OUTCOMES
    if exact:
        swapped = np.array(list(product(*(range(n + 1) for n in n_texts.tolist()))), dtype=np.int64)
    else:
        swapped = np.random.default_rng(seed).binomial(n_texts, 0.5, size=(N_PERMUTATIONS, len(n_texts)))
    # NumPy multiplies matrices of integers without BLAS. Shapes: (outcomes, kinds) @ (kinds, classes).
    correct = swapped.astype(np.float64) @ (b.correct - a.correct)[differ]
    predicted = swapped.astype(np.float64) @ (b.predicted - a.predicted)[differ]
    after = (
        ClassCounts(one.correct + correct, one.gold, one.predicted + predicted).macro_f1
        - ClassCounts(two.correct - correct, two.gold, two.predicted - predicted).macro_f1
    )
    as_large = np.abs(after) >= np.abs(draws[0]) - NOISE
    if exact:
        probabilities = np.ones(len(swapped))
        for n, column in zip(n_texts.tolist(), swapped.T, strict=True):
            probabilities *= _coin_probabilities(n)[column]
        p = min(1.0, float(probabilities[as_large].sum()))
    else:
        # The observed outcome counts as one of them, so that p is never 0 (Phipson and Smyth, 2010).
        p = (1 + int(as_large.sum())) / (1 + N_PERMUTATIONS)
    return Comparison(
        "macro-F1",
        float(one.macro_f1[0]),
        float(two.macro_f1[0]),
        bootstrap.percentile_interval(draws),
        p,
        exact,
        n_discordant=int(n_texts.sum()),
        by_text=int(kinds.counts.sum()) < len(labels),
    )


def _coin_probabilities(n: int) -> Floats:
    """Compute the probability of each number of heads in n tosses of a fair coin."""
    from scipy import stats

    return np.asarray(stats.binom.pmf(np.arange(n + 1), n, 0.5))


@dataclass(frozen=True, slots=True)
class Welch:
    """Welch's t-test of two models' means over seeds; None where there is no test."""

    difference: float
    """The first mean minus the second."""
    t: float | None
    degrees: float | None
    """Degrees of freedom (Welch-Satterthwaite)."""
    p: float | None
    """Two-sided."""
    note: str = ""
    """Why there is no test."""


def welch(first: Iterable[float], second: Iterable[float]) -> Welch:
    """Compare the figures of two models, one for each seed, by Welch's t-test."""
    from scipy import stats

    one, two = (np.array(list(figures), dtype=np.float64) for figures in (first, second))
    if not len(one) or not len(two):
        raise ValueError("There are no figures to compare. Give at least one seed of each model.")
    wrong = [number for number in (*one, *two) if not math.isfinite(number)]
    if wrong:
        raise ValueError(f"Figures must be finite numbers, got {wrong[0]}. Leave failed seeds out.")
    difference, note = float(one.mean() - two.mean()), ""
    if min(len(one), len(two)) < 2:
        note = f"there are {len(one)} and {len(two)} seeds, and the test needs two of each. Train with more seeds."
    elif max(np.ptp(row) / max(1, abs(row).max()) for row in (one, two)) <= NOISE:
        note = "all seeds of each model gave the same figure, so there is no variance to test against."
    if note:
        return Welch(difference, None, None, None, note)
    # scipy warns if all seeds of one model agree, which is fine if those of the other model do not.
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", RuntimeWarning)
        test = stats.ttest_ind(one, two, equal_var=False)
    return Welch(difference, float(test.statistic), float(test.df), float(test.pvalue))


@dataclass(frozen=True, slots=True)
class AdjustedP:
    """A p value before and after the correction for the number of comparisons."""

    name: str
    p: float
    adjusted: float
    n_comparisons: int
    correction: str = "Holm"


def holm(comparisons: Mapping[str, float]) -> list[AdjustedP]:
    """Correct p values for the number of comparisons, which may depend on each other (Holm, 1979).

    :param comparisons: The p value of each comparison by name.
    """
    adjusted: dict[str, float] = {}
    lowest = 0.0
    for n_done, name in enumerate(sorted(comparisons, key=lambda name: comparisons[name])):
        # No adjusted p may be smaller than that of a smaller p.
        lowest = max(lowest, min(1.0, (len(comparisons) - n_done) * comparisons[name]))
        adjusted[name] = lowest
    return [AdjustedP(name, p, adjusted[name], len(comparisons)) for name, p in comparisons.items()]
