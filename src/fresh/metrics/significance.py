"""Whether one model is better than another, or was lucky: paired tests, Welch's test over seeds, Holm's correction."""

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from itertools import product

import numpy as np
from numpy.typing import ArrayLike, NDArray

from fresh._optional import optional_import
from fresh.metrics.bootstrap import N_RESAMPLES, check_classes, check_numbered, interval
from fresh.metrics.estimate import Interval
from fresh.metrics.resampling import ClassCounts, Kinds, Numbers, Values, check_sizes, resampled, shared

N_PERMUTATIONS = 10_000
"""Random swaps where not all can be tried."""
MOST_OUTCOMES = 100_000
"""Swaps that lead to the same counts are one outcome; up to so many outcomes, all are tried."""
NOISE = 1e-12
"""Figures that differ by less are equal."""


@dataclass(frozen=True, slots=True)
class Comparison:
    """Two models on the same documents."""

    measure: str
    first: float
    second: float
    difference: Interval
    """The first figure less the second, with its paired bootstrap interval."""
    p: float
    """How often swapping the answers of the two at random gives a difference as large, in either direction."""
    exact: bool
    """Whether all swaps were counted, not a random sample of them."""
    n_discordant: int
    """Documents, or texts, on which a swap changes anything."""
    by_text: bool = False
    """Whether texts were drawn and swapped whole, since several documents have one."""

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
    texts: ArrayLike | None = None,
) -> Comparison:
    """Compare the accuracy of two models, from numbered labels.

    All swaps are counted. Where each document is a text of its own, that is a sign test.

    :param texts: Number of the text of each document, where several have one; then whole texts are drawn and swapped.
    """
    wanted, one, two = check_numbered(gold, first, second)
    check_sizes(len(wanted), n_resamples)
    signs = (one == wanted).astype(np.int64) - (two == wanted)
    kinds = Kinds.of(signs, texts=texts)
    is_main = np.bincount(kinds.kind, weights=kinds.cells[:, 0])  # of the first model in one text of each kind
    sizes = np.bincount(kinds.kind)
    draws = [block @ is_main / (block @ sizes) for block in kinds.draw(n_resamples, seed)]
    right = int((one == wanted).sum()), int((two == wanted).sum())
    return Comparison(
        "accuracy",
        right[0] / len(wanted),
        right[1] / len(wanted),
        interval((right[0] - right[1]) / len(wanted), np.concatenate(draws)),
        _swap_test(is_main.astype(np.int64), kinds.counts),
        exact=True,
        n_discordant=int(kinds.counts[is_main != 0].sum()),
        by_text=shared(texts, len(wanted)) is not None,
    )


def _swap_test(is_main: Numbers, counts: Numbers) -> float:
    """Compute how often swapping whole texts at random leaves one model as far ahead, in either direction.

    :param leads: Documents by which the first model is ahead in a text of each kind.
    :param counts: Texts of each kind.
    """
    if (np.abs(is_main) <= 1).all():
        return _sign_test(*(int(counts[is_main == sign].sum()) for sign in (1, -1)))
    chances = np.ones(1)  # of each lead, from the lowest there can be to the highest
    for size in np.unique(np.abs(is_main[is_main != 0])).tolist():
        n_texts = int(counts[np.abs(is_main) == size].sum())
        steps = np.zeros(2 * size * n_texts + 1)
        steps[:: 2 * size] = _halves(n_texts)
        chances = np.convolve(chances, steps)
    highest = len(chances) // 2
    as_large = np.abs(np.arange(-highest, highest + 1)) >= abs(int(is_main @ counts))
    return min(1.0, float(chances[as_large].sum()))


def _sign_test(n_first: int, n_second: int) -> float:
    """Compute how probable so uneven a division is when each document falls to either side by the toss of a coin."""
    total = n_first + n_second
    tail, ways = 0, 1  # ways to choose so many documents, each from the one before: thousands take no time
    for count in range(min(n_first, n_second) + 1):
        tail += ways
        ways = ways * (total - count) // (count + 1)
    return float(min(1.0, 2 * tail / 2**total))


def compare_macro_f1(
    gold: ArrayLike,
    first: ArrayLike,
    second: ArrayLike,
    n_classes: int,
    n_resamples: int = N_RESAMPLES,
    seed: int = 0,
    texts: ArrayLike | None = None,
) -> Comparison:
    """Compare the macro-F1 of two models, from numbered labels.

    :param n_classes: The mean is taken over the classes below this number; others count only against them.
    :param texts: Number of the text of each document, where several have one; then whole texts are drawn and swapped.
    """
    check_classes(n_classes)
    wanted, one, two = check_numbered(gold, first, second)
    check_sizes(len(wanted), n_resamples)
    swaps = _Swaps.of(Kinds.of(wanted, one, two, texts=texts), n_classes)
    figures = swaps.figures(swaps.counts[None])
    drawn = [swaps.figures(block) for block in resampled(swaps.counts, n_resamples, seed)]
    return Comparison(
        "macro-F1",
        float(figures[0][0]),
        float(figures[1][0]),
        interval(float((figures[0] - figures[1])[0]), np.concatenate([ours - theirs for ours, theirs in drawn])),
        swaps.exact_p() if swaps.few else swaps.sampled_p(seed),
        exact=swaps.few,
        n_discordant=int(swaps.counts[swaps.discordant].sum()),
        by_text=shared(texts, len(wanted)) is not None,
    )


def _halves(n: int) -> Values:
    """Compute how probable each number of heads is in n throws of a coin."""
    logs = np.array([math.lgamma(n + 1) - math.lgamma(k + 1) - math.lgamma(n - k + 1) for k in range(n + 1)])
    return np.asarray(np.exp(logs - n * math.log(2)))


@dataclass(frozen=True, slots=True, eq=False)
class _Swaps:
    """What the difference in macro-F1 becomes when the answers of two models are swapped on some texts.

    Texts with the same gold labels and the same answers are alike: only how many of them are swapped matters.
    """

    first: ClassCounts
    """Of one text of each kind, with the answers of the first model. Shapes: (kinds, classes)."""
    second: ClassCounts
    """The same for the second model."""
    counts: Numbers
    """Texts of each kind."""
    discordant: NDArray[np.bool_]
    """Which kinds a swap changes."""

    @classmethod
    def of(cls, kinds: Kinds, n_classes: int) -> "_Swaps":
        """Count for both models, from gold label, first and second answer."""
        differ = np.bincount(kinds.kind, weights=kinds.cells[:, 1] != kinds.cells[:, 2]) > 0
        first, second = (kinds.count_classes(n_classes, answer) for answer in (1, 2))
        return cls(first, second, kinds.counts, differ)

    @property
    def few(self) -> bool:
        """Whether all outcomes can be tried."""
        return math.prod(int(count) + 1 for count in self.counts[self.discordant]) <= MOST_OUTCOMES

    def exact_p(self) -> float:
        """Try all outcomes, each with its probability."""
        counts = self.counts[self.discordant]
        outcomes = np.array(list(product(*(range(int(count) + 1) for count in counts))), dtype=np.int64)
        chances = [_halves(n) for n in map(int, counts)]
        weights = np.ones(len(outcomes))
        for place, chance in enumerate(chances):
            weights *= chance[outcomes[:, place]]
        return min(1.0, float(weights[self.as_large(outcomes)].sum()))

    def sampled_p(self, seed: int) -> float:
        """Draw outcomes; the one that was seen counts as one of them, so that p is never 0."""
        counts = self.counts[self.discordant]
        generator = np.random.default_rng(seed)
        outcomes = generator.binomial(counts, 0.5, size=(N_PERMUTATIONS, len(counts)))
        return (1 + int(self.as_large(outcomes).sum())) / (1 + N_PERMUTATIONS)

    def figures(self, draws: Numbers) -> tuple[Values, Values]:
        """Compute the macro-F1 of both models in each resample. Shapes: (resamples,)."""
        return self.first.times(draws).macro_f1, self.second.times(draws).macro_f1

    def as_large(self, outcomes: Numbers) -> NDArray[np.bool_]:
        """Say which outcomes give a difference at least as large as no swap does.

        :param outcomes: How many texts of each discordant kind are swapped. Shape: (outcomes, kinds).
        """
        moved = outcomes.astype(np.float64)
        found = moved @ (self.second.found - self.first.found)[self.discordant]
        given = moved @ (self.second.given - self.first.given)[self.discordant]
        one, two = (model.times(self.counts[None]) for model in (self.first, self.second))
        seen = one.macro_f1 - two.macro_f1
        ours = ClassCounts(one.found + found, one.wanted, one.given + given).macro_f1
        theirs = ClassCounts(two.found - found, two.wanted, two.given - given).macro_f1
        return np.asarray(np.abs(ours - theirs) >= np.abs(seen) - NOISE)


@dataclass(frozen=True, slots=True)
class Welch:
    """Whether the means over seeds of two models differ, by Welch's t-test; the first less the second."""

    difference: float
    t: float | None
    degrees: float | None
    """Degrees of freedom, by Welch and Satterthwaite."""
    p: float | None
    """Two-sided; none where the test cannot be made."""
    note: str = ""
    """Why it cannot be made."""

    def __str__(self) -> str:
        if self.t is None:
            return f"difference {self.difference:+.3f}; no Welch's t-test: {self.note}"
        return f"difference {self.difference:+.3f}, Welch's t({self.degrees:.1f}) = {self.t:.2f}, p = {self.p:.4f}"


def welch(first: Iterable[float], second: Iterable[float]) -> Welch:
    """Compare a figure over the seeds of one model with that over the seeds of another."""
    one, two = (_check_figures(figures) for figures in (first, second))
    difference = float(one.mean() - two.mean())
    if min(len(one), len(two)) < 2:
        note = f"there are {len(one)} and {len(two)} seeds, and one seed does not show how much chance does. Train two."
        return Welch(difference, None, None, None, note)
    if max(np.ptp(one) / max(1, abs(one).max()), np.ptp(two) / max(1, abs(two).max())) <= NOISE:
        note = "all seeds of a model gave the same figure, for both models. Chance shows nowhere."
        return Welch(difference, None, None, None, note)
    parts = one.var(ddof=1) / len(one), two.var(ddof=1) / len(two)
    t = difference / math.sqrt(sum(parts))
    shares = parts[0] / sum(parts), parts[1] / sum(parts)  # of 1, so that small variances do not vanish when squared
    degrees = 1 / (shares[0] ** 2 / (len(one) - 1) + shares[1] ** 2 / (len(two) - 1))
    special = optional_import("scipy.special", "sklearn", "Welch's t-test")
    return Welch(difference, t, float(degrees), float(2 * special.stdtr(degrees, -abs(t))))


def _check_figures(figures: Iterable[float]) -> Values:
    """Refuse figures over which there is no mean."""
    row = np.array(list(figures), dtype=np.float64)
    if not len(row):
        raise ValueError("There are no figures to compare. Give at least one seed of each model.")
    if not np.isfinite(row).all():
        raise ValueError(f"Figures must be finite numbers, got {row[~np.isfinite(row)][0]}. Leave failed seeds out.")
    return row


@dataclass(frozen=True, slots=True)
class _Adjusted:
    """The p of one of several comparisons, before and after the correction for their number."""

    name: str
    p: float
    adjusted: float
    n_comparisons: int
    correction: str = "Holm"


def holm(comparisons: Mapping[str, float]) -> list[_Adjusted]:
    """Correct p values for the number of comparisons, as Holm (1979) does.

    The smallest p is multiplied by the number of comparisons, the next by one less, and so on; none falls below the one
    before it. Holds whether or not the comparisons depend on each other.

    :param comparisons: The p of each comparison, by name.
    """
    for name, p in comparisons.items():
        if not 0 <= p <= 1:
            raise ValueError(f"The p of {name!r} must be from 0 to 1, got {p}.")
    adjusted: dict[str, float] = {}
    least = 0.0
    for place, name in enumerate(sorted(comparisons, key=lambda name: comparisons[name])):
        least = max(least, min(1.0, (len(comparisons) - place) * comparisons[name]))
        adjusted[name] = least
    return [_Adjusted(name, p, adjusted[name], len(comparisons)) for name, p in comparisons.items()]
