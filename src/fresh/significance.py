"""Whether one model is better than another, or was lucky: paired tests, Welch's test over seeds, Holm's correction."""

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from itertools import product

import numpy as np
from numpy.typing import ArrayLike

from fresh.extras import load_extra
from fresh.uncertainty import (
    N_RESAMPLES,
    Interval,
    Numbers,
    Values,
    check_classes,
    check_numbered,
    check_sizes,
    count_cells,
    interval,
    macro_f1_from_counts,
    macro_f1_of,
    resampled,
)

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
    """Documents on which a swap changes anything."""

    def __str__(self) -> str:
        kind = "exact" if self.exact else f"{N_PERMUTATIONS:,} random swaps"
        return f"{self.measure}: difference {self.difference}, paired permutation test p = {self.p:.4f} ({kind})"


def compare_accuracy(
    gold: ArrayLike, first: ArrayLike, second: ArrayLike, n_resamples: int = N_RESAMPLES, seed: int = 0
) -> Comparison:
    """Compare the accuracy of two models, from numbered labels.

    Swapping matters only where one of the two is right, so that the permutation test is a sign test, always exact.
    """
    wanted, one, two = check_numbered(gold, first, second)
    check_sizes(len(wanted), n_resamples)
    signs, counts = count_cells((one == wanted).astype(np.int64) - (two == wanted))
    draws = np.concatenate([block @ signs[:, 0] for block in resampled(counts, n_resamples, seed)]) / len(wanted)
    right = int((one == wanted).sum()), int((two == wanted).sum())
    only_first, only_second = (int(counts[signs[:, 0] == sign].sum()) for sign in (1, -1))
    return Comparison(
        "accuracy",
        right[0] / len(wanted),
        right[1] / len(wanted),
        interval((right[0] - right[1]) / len(wanted), draws),
        sign_test(only_first, only_second),
        exact=True,
        n_discordant=only_first + only_second,
    )


def sign_test(n_first: int, n_second: int) -> float:
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
) -> Comparison:
    """Compare the macro-F1 of two models, from numbered labels.

    :param n_classes: The mean is taken over the classes below this number; others count only against them.
    """
    check_classes(n_classes)
    wanted, one, two = check_numbered(gold, first, second)
    check_sizes(len(wanted), n_resamples)
    cells, counts = count_cells(wanted, one, two)
    draws = np.concatenate([f1_difference(block, cells, n_classes) for block in resampled(counts, n_resamples, seed)])
    [value] = f1_difference(counts[None], cells, n_classes)
    [figure_one] = macro_f1_of(counts[None], cells[:, 0], cells[:, 1], n_classes)
    [figure_two] = macro_f1_of(counts[None], cells[:, 0], cells[:, 2], n_classes)
    discordant = cells[:, 1] != cells[:, 2]
    swaps = Swaps(cells, counts, n_classes)
    exact = math.prod(int(count) + 1 for count in counts[discordant]) <= MOST_OUTCOMES
    return Comparison(
        "macro-F1",
        float(figure_one),
        float(figure_two),
        interval(float(value), draws),
        swaps.exact_p() if exact else swaps.sampled_p(seed),
        exact=exact,
        n_discordant=int(counts[discordant].sum()),
    )


def f1_difference(draws: Numbers, cells: Numbers, n_classes: int) -> Values:
    """Compute how far the first model's macro-F1 is above the second's, for each resample."""
    one = macro_f1_of(draws, cells[:, 0], cells[:, 1], n_classes)
    return one - macro_f1_of(draws, cells[:, 0], cells[:, 2], n_classes)


def halves(n: int) -> Values:
    """Compute how probable each number of heads is in n throws of a coin."""
    logs = np.array([math.lgamma(n + 1) - math.lgamma(k + 1) - math.lgamma(n - k + 1) for k in range(n + 1)])
    return np.asarray(np.exp(logs - n * math.log(2)))


@dataclass(frozen=True, slots=True)
class Swaps:
    """What the difference in macro-F1 becomes when the answers of two models are swapped on some documents.

    Documents with the same gold label and the same two answers are alike: only how many of them are swapped matters.
    """

    cells: Numbers
    """Gold label and both answers, one combination a row."""
    counts: Numbers
    n_classes: int

    def exact_p(self) -> float:
        """Try all outcomes, each with its probability."""
        counts = self.counts[self.discordant]
        outcomes = np.array(list(product(*(range(int(count) + 1) for count in counts))), dtype=np.int64)
        chances = [halves(n) for n in map(int, counts)]
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

    @property
    def discordant(self) -> np.ndarray[tuple[int], np.dtype[np.bool_]]:
        """Which combinations a swap changes."""
        return np.asarray(self.cells[:, 1] != self.cells[:, 2])

    def as_large(self, outcomes: Numbers) -> np.ndarray[tuple[int], np.dtype[np.bool_]]:
        """Say which outcomes give a difference at least as large as no swap does.

        :param outcomes: How many documents of each discordant combination are swapped. Shape: (outcomes, combinations).
        """
        classes = np.arange(self.n_classes)
        gold, one, two = (self.cells[:, [column]] == classes for column in range(3))  # (combinations, classes)
        moved = outcomes.astype(np.float64)
        found = moved @ ((gold & two).astype(np.float64) - (gold & one))[self.discordant]
        given = moved @ (two.astype(np.float64) - one)[self.discordant]
        weights = self.counts.astype(np.float64)
        first = macro_f1_from_counts(weights @ (gold & one) + found, weights @ gold + weights @ one + given)
        second = macro_f1_from_counts(weights @ (gold & two) - found, weights @ gold + weights @ two - given)
        [seen] = f1_difference(self.counts[None], self.cells, self.n_classes)
        return np.asarray(np.abs(first - second) >= abs(seen) - NOISE)


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
    one, two = (check_figures(figures) for figures in (first, second))
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
    special = load_extra("scipy.special", "sklearn", "Welch's t-test")
    return Welch(difference, t, float(degrees), float(2 * special.stdtr(degrees, -abs(t))))


def check_figures(figures: Iterable[float]) -> Values:
    """Refuse figures over which there is no mean."""
    row = np.array(list(figures), dtype=np.float64)
    if not len(row):
        raise ValueError("There are no figures to compare. Give at least one seed of each model.")
    if not np.isfinite(row).all():
        raise ValueError(f"Figures must be finite numbers, got {row[~np.isfinite(row)][0]}. Leave failed seeds out.")
    return row


@dataclass(frozen=True, slots=True)
class Adjusted:
    """The p of one of several comparisons, before and after the correction for their number."""

    name: str
    p: float
    adjusted: float
    n_comparisons: int
    correction: str = "Holm"


def holm(comparisons: Mapping[str, float]) -> list[Adjusted]:
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
    return [Adjusted(name, p, adjusted[name], len(comparisons)) for name, p in comparisons.items()]
