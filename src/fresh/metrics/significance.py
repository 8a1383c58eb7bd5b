"""Significance tests: paired permutation tests on documents, Welch's test over seeds, Holm's correction."""

import math
import warnings
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from itertools import product

import numpy as np
from numpy.typing import ArrayLike

from fresh.metrics.bootstrap import (
    N_RESAMPLES,
    ClassCounts,
    Flags,
    Floats,
    Interval,
    Ints,
    Kinds,
    Texts,
    check_labels,
    check_texts,
    percentile_interval,
    resample_counts,
)

# Random permutations, where there are too many to enumerate.
N_PERMUTATIONS = 10_000
# Permutations with the same counts are one outcome; up to this many outcomes are enumerated.
MAX_OUTCOMES = 100_000
# Figures that differ by less are equal: sums in another order differ by rounding.
NOISE = 1e-12


@dataclass(frozen=True, slots=True)
class Comparison:
    """A paired comparison of two models on the same documents."""

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
    """Whether whole texts were resampled and permuted, because several documents share one."""

    def __str__(self) -> str:
        kind = "exact" if self.exact else f"{N_PERMUTATIONS:,} random swaps"
        whole = " of whole texts" if self.by_text else ""
        return f"{self.measure}: difference {self.difference}, paired permutation test{whole} p = {self.p:.4f} ({kind})"


def compare_accuracy(
    gold: ArrayLike,
    first: ArrayLike,
    second: ArrayLike,
    n_resamples: int = N_RESAMPLES,
    seed: int = 0,
    texts: Texts = None,
) -> Comparison:
    """Compare the accuracy of two models from numbered labels by an exact test."""
    labels, one, two = check_labels(gold, first, second)
    kinds = Kinds.of((one == labels).astype(np.int64) - (two == labels), texts=texts)
    leads = np.bincount(kinds.kind, weights=kinds.cells[:, 0])  # of the first model in one text of each kind
    sizes = np.bincount(kinds.kind)
    draws = [block @ leads / (block @ sizes) for block in resample_counts(kinds.counts, n_resamples, seed)]
    return Comparison(
        "accuracy",
        float((one == labels).mean()),
        float((two == labels).mean()),
        percentile_interval(float(leads @ kinds.counts) / len(labels), np.concatenate(draws)),
        _accuracy_p(leads.astype(np.int64), kinds.counts),
        exact=True,
        n_discordant=int(kinds.counts[leads != 0].sum()),
        by_text=check_texts(texts, len(labels)) is not None,
    )


def _accuracy_p(leads: Ints, counts: Ints) -> float:
    """Compute the probability that a permutation of whole texts leaves one model as far ahead, in either direction.

    :param leads: Number of documents by which the first model leads in a text of each kind.
    :param counts: Number of texts of each kind.
    """
    # The distribution of the sum of leads is the convolution of the distributions of texts with equal leads. With one
    # document for each text, this is the sign test.
    probabilities = np.ones(1)  # of each lead, from the lowest possible to the highest
    for size in np.unique(np.abs(leads[leads != 0])).tolist():
        n_texts = int(counts[np.abs(leads) == size].sum())
        steps = np.zeros(2 * size * n_texts + 1)
        steps[:: 2 * size] = _coin_probabilities(n_texts)
        probabilities = np.convolve(probabilities, steps)
    highest = len(probabilities) // 2
    as_large = np.abs(np.arange(-highest, highest + 1)) >= abs(int(leads @ counts))
    return min(1.0, float(probabilities[as_large].sum()))


def compare_macro_f1(
    gold: ArrayLike,
    first: ArrayLike,
    second: ArrayLike,
    n_classes: int,
    n_resamples: int = N_RESAMPLES,
    seed: int = 0,
    texts: Texts = None,
) -> Comparison:
    """Compare the macro-F1 of two models from numbered labels.

    :param n_classes: Averages the classes below this number; other labels count as errors only.
    """
    labels, one, two = check_labels(gold, first, second)
    swaps = _Swaps.of(Kinds.of(labels, one, two, texts=texts), n_classes)
    figures = swaps.figures(swaps.counts[None])
    draws = [swaps.figures(block) for block in resample_counts(swaps.counts, n_resamples, seed)]
    return Comparison(
        "macro-F1",
        float(figures[0][0]),
        float(figures[1][0]),
        percentile_interval(float((figures[0] - figures[1])[0]), np.concatenate([a - b for a, b in draws])),
        swaps.exact_p() if swaps.can_enumerate else swaps.sampled_p(seed),
        exact=swaps.can_enumerate,
        n_discordant=int(swaps.counts[swaps.discordant].sum()),
        by_text=check_texts(texts, len(labels)) is not None,
    )


def _coin_probabilities(n: int) -> Floats:
    """Compute the probability of each number of heads in n tosses of a fair coin."""
    from scipy import stats

    return np.asarray(stats.binom.pmf(np.arange(n + 1), n, 0.5))


@dataclass(frozen=True, slots=True, eq=False)
class _Swaps:
    """The difference in macro-F1 when the predictions of two models are swapped on some texts."""

    # Not scipy.stats.permutation_test: it permutes documents one by one. Texts with the same labels and predictions
    # are alike, so that only the number of swapped texts of each kind matters, and far more can be enumerated.
    first: ClassCounts
    """Counts of one text of each kind with the first model's predictions. Shapes: (kinds, classes)."""
    second: ClassCounts
    """The same for the second model."""
    counts: Ints
    """Number of texts of each kind."""
    discordant: Flags
    """The kinds that a swap changes."""

    @classmethod
    def of(cls, kinds: Kinds, n_classes: int) -> "_Swaps":
        differ = np.bincount(kinds.kind, weights=kinds.cells[:, 1] != kinds.cells[:, 2]) > 0
        return cls(kinds.count_classes(n_classes, 1), kinds.count_classes(n_classes, 2), kinds.counts, differ)

    @property
    def can_enumerate(self) -> bool:
        return math.prod(int(count) + 1 for count in self.counts[self.discordant]) <= MAX_OUTCOMES

    def exact_p(self) -> float:
        """Enumerate all outcomes, each with its probability."""
        counts = self.counts[self.discordant]
        outcomes = np.array(list(product(*(range(int(count) + 1) for count in counts))), dtype=np.int64)
        weights = np.ones(len(outcomes))
        for place, n_texts in enumerate(counts.tolist()):
            weights *= _coin_probabilities(n_texts)[outcomes[:, place]]
        return min(1.0, float(weights[self._as_large(outcomes)].sum()))

    def sampled_p(self, seed: int) -> float:
        """Sample outcomes."""
        counts = self.counts[self.discordant]
        generator = np.random.default_rng(seed)
        outcomes = generator.binomial(counts, 0.5, size=(N_PERMUTATIONS, len(counts)))
        # The observed outcome counts as one of them, so that p is never 0 (Phipson and Smyth, 2010).
        return (1 + int(self._as_large(outcomes).sum())) / (1 + N_PERMUTATIONS)

    def figures(self, draws: Ints) -> tuple[Floats, Floats]:
        """Compute the macro-F1 of both models in each resample. Shapes: (resamples,)."""
        return self.first.total(draws).macro_f1, self.second.total(draws).macro_f1

    def _as_large(self, outcomes: Ints) -> Flags:
        """Find the outcomes with a difference at least as large as the observed one.

        :param outcomes: Number of swapped texts of each discordant kind. Shape: (outcomes, kinds).
        """
        n_swapped = outcomes.astype(np.float64)
        correct = n_swapped @ (self.second.correct - self.first.correct)[self.discordant]
        predicted = n_swapped @ (self.second.predicted - self.first.predicted)[self.discordant]
        one, two = (model.total(self.counts[None]) for model in (self.first, self.second))
        observed = one.macro_f1 - two.macro_f1
        first = ClassCounts(one.correct + correct, one.gold, one.predicted + predicted).macro_f1
        second = ClassCounts(two.correct - correct, two.gold, two.predicted - predicted).macro_f1
        return np.asarray(np.abs(first - second) >= np.abs(observed) - NOISE)


@dataclass(frozen=True, slots=True)
class Welch:
    """Welch's t-test of two models' means over seeds."""

    difference: float
    """The first mean minus the second."""
    t: float | None
    degrees: float | None
    """Degrees of freedom (Welch-Satterthwaite)."""
    p: float | None
    """Two-sided; None if there is no test."""
    note: str = ""
    """Why there is no test."""

    def __str__(self) -> str:
        if self.t is None:
            return f"difference {self.difference:+.3f}; no Welch's t-test: {self.note}"
        return f"difference {self.difference:+.3f}, Welch's t({self.degrees:.1f}) = {self.t:.2f}, p = {self.p:.4f}"


def welch(first: Iterable[float], second: Iterable[float]) -> Welch:
    """Compare the figures of two models, one for each seed, by Welch's t-test."""
    from scipy import stats

    one, two = (_check_figures(figures) for figures in (first, second))
    difference = float(one.mean() - two.mean())
    if min(len(one), len(two)) < 2:
        note = f"there are {len(one)} and {len(two)} seeds, and the test needs two of each. Train with more seeds."
        return Welch(difference, None, None, None, note)
    if max(np.ptp(one) / max(1, abs(one).max()), np.ptp(two) / max(1, abs(two).max())) <= NOISE:
        note = "all seeds of each model gave the same figure, so there is no variance to test against."
        return Welch(difference, None, None, None, note)
    # scipy warns if all seeds of one model agree, which is fine if those of the other model do not.
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", RuntimeWarning)
        test = stats.ttest_ind(one, two, equal_var=False)
    return Welch(difference, float(test.statistic), float(test.df), float(test.pvalue))


def _check_figures(figures: Iterable[float]) -> Floats:
    row = np.array(list(figures), dtype=np.float64)
    if not len(row):
        raise ValueError("There are no figures to compare. Give at least one seed of each model.")
    if not np.isfinite(row).all():
        raise ValueError(f"Figures must be finite numbers, got {row[~np.isfinite(row)][0]}. Leave failed seeds out.")
    return row


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
        lowest = max(lowest, min(1.0, (len(comparisons) - n_done) * comparisons[name]))
        adjusted[name] = lowest
    return [AdjustedP(name, p, adjusted[name], len(comparisons)) for name, p in comparisons.items()]
