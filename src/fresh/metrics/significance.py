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
    check_classes,
    check_labels,
    check_sizes,
    check_texts,
    percentile_interval,
    resample_counts,
)

N_PERMUTATIONS = 10_000
"""Random permutations if not all can be enumerated."""
MAX_OUTCOMES = 100_000
"""Permutations with the same counts are one outcome; up to this many outcomes are enumerated."""
NOISE = 1e-12
"""Figures that differ by less are equal."""


@dataclass(frozen=True, slots=True)
class Comparison:
    """The comparison of two models on the same documents."""

    measure: str
    first: float
    second: float
    difference: Interval
    """The first figure less the second, with its paired bootstrap interval."""
    p: float
    """Share of the permutations of the two models' predictions with a difference as large, in either direction."""
    exact: bool
    """Whether all permutations were enumerated, not sampled."""
    n_discordant: int
    """Documents, or texts, for which a permutation changes anything."""
    by_text: bool = False
    """Whether whole texts were drawn and permuted, because several documents share one."""

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
    """Compare the accuracy of two models, from numbered labels, by an exact test."""
    labels, one, two = check_labels(gold, first, second)
    check_sizes(len(labels), n_resamples)
    kinds = Kinds.of((one == labels).astype(np.int64) - (two == labels), texts=texts)
    leads = np.bincount(kinds.kind, weights=kinds.cells[:, 0])  # of the first model in one text of each kind
    sizes = np.bincount(kinds.kind)
    draws = [block @ leads / (block @ sizes) for block in kinds.draw(n_resamples, seed)]
    n_right = int((one == labels).sum()), int((two == labels).sum())
    return Comparison(
        "accuracy",
        n_right[0] / len(labels),
        n_right[1] / len(labels),
        percentile_interval((n_right[0] - n_right[1]) / len(labels), np.concatenate(draws)),
        _accuracy_p(leads.astype(np.int64), kinds.counts),
        exact=True,
        n_discordant=int(kinds.counts[leads != 0].sum()),
        by_text=check_texts(texts, len(labels)) is not None,
    )


def _accuracy_p(leads: Ints, counts: Ints) -> float:
    """Compute how often a permutation of whole texts leaves one model as far ahead, in either direction.

    :param leads: Documents by which the first model is ahead in a text of each kind.
    :param counts: Number of texts of each kind.
    """
    from scipy import stats

    # With one document a text, this is a sign test.
    if (np.abs(leads) <= 1).all():
        n_first, n_second = (int(counts[leads == sign].sum()) for sign in (1, -1))
        return float(stats.binomtest(n_first, n_first + n_second).pvalue) if n_first + n_second else 1.0
    # The distribution of the sum of leads is the convolution of those of texts with one lead. No permutation is drawn.
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
    """Compare the macro-F1 of two models, from numbered labels.

    :param n_classes: The classes below this number are averaged; others count only against them.
    """
    check_classes(n_classes)
    labels, one, two = check_labels(gold, first, second)
    check_sizes(len(labels), n_resamples)
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
    """Compute the probability of each number of heads in n throws of a fair coin."""
    from scipy import stats

    return np.asarray(stats.binom.pmf(np.arange(n + 1), n, 0.5))


@dataclass(frozen=True, slots=True, eq=False)
class _Swaps:
    """The difference in macro-F1 when the predictions of two models are swapped on some texts.

    Texts with the same gold labels and predictions are alike, so that only the number of swapped texts of each kind
    matters. scipy.stats.permutation_test would permute documents one by one, and enumerate far less.
    """

    first: ClassCounts
    """Counts of one text of each kind, with the predictions of the first model. Shapes: (kinds, classes)."""
    second: ClassCounts
    """The same for the second model."""
    counts: Ints
    """Number of texts of each kind."""
    discordant: Flags
    """The kinds that a swap changes."""

    @classmethod
    def of(cls, kinds: Kinds, n_classes: int) -> "_Swaps":
        """Count for both models, from gold label, first and second prediction."""
        differ = np.bincount(kinds.kind, weights=kinds.cells[:, 1] != kinds.cells[:, 2]) > 0
        first, second = (kinds.count_classes(n_classes, answer) for answer in (1, 2))
        return cls(first, second, kinds.counts, differ)

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
        """Sample outcomes; the observed one counts as one of them, so that p is never 0."""
        counts = self.counts[self.discordant]
        generator = np.random.default_rng(seed)
        outcomes = generator.binomial(counts, 0.5, size=(N_PERMUTATIONS, len(counts)))
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
        # Sums in another order differ by rounding: a tie must count as at least as large.
        return np.asarray(np.abs(first - second) >= np.abs(observed) - NOISE)


@dataclass(frozen=True, slots=True)
class Welch:
    """Welch's t-test of the means over seeds of two models; the first less the second."""

    difference: float
    t: float | None
    degrees: float | None
    """Degrees of freedom, by Welch and Satterthwaite."""
    p: float | None
    """Two-sided; None if there is no test."""
    note: str = ""
    """Why there is no test."""

    def __str__(self) -> str:
        if self.t is None:
            return f"difference {self.difference:+.3f}; no Welch's t-test: {self.note}"
        return f"difference {self.difference:+.3f}, Welch's t({self.degrees:.1f}) = {self.t:.2f}, p = {self.p:.4f}"


def welch(first: Iterable[float], second: Iterable[float]) -> Welch:
    """Compare a figure over the seeds of one model with that over the seeds of another."""
    from scipy import stats

    one, two = (_check_figures(figures) for figures in (first, second))
    difference = float(one.mean() - two.mean())
    if min(len(one), len(two)) < 2:
        note = f"there are {len(one)} and {len(two)} seeds, and the test needs two of each. Train with more seeds."
        return Welch(difference, None, None, None, note)
    if max(np.ptp(one) / max(1, abs(one).max()), np.ptp(two) / max(1, abs(two).max())) <= NOISE:
        note = "all seeds of each model gave the same figure, so there is no variance to test against."
        return Welch(difference, None, None, None, note)
    # scipy warns if the seeds of one model all agree, which is fine as long as those of the other do not.
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
    """The p of one of several comparisons, before and after the correction for their number."""

    name: str
    p: float
    adjusted: float
    n_comparisons: int
    correction: str = "Holm"


def holm(comparisons: Mapping[str, float]) -> list[AdjustedP]:
    """Correct p values for the number of comparisons, which may depend on each other (Holm, 1979).

    :param comparisons: The p of each comparison, by name.
    """
    for name, p in comparisons.items():
        if not 0 <= p <= 1:
            raise ValueError(f"The p of {name!r} must be in [0, 1], got {p}.")
    adjusted: dict[str, float] = {}
    lowest = 0.0
    for place, name in enumerate(sorted(comparisons, key=lambda name: comparisons[name])):
        lowest = max(lowest, min(1.0, (len(comparisons) - place) * comparisons[name]))
        adjusted[name] = lowest
    return [AdjustedP(name, p, adjusted[name], len(comparisons)) for name, p in comparisons.items()]
