"""How far people agree: raw, and corrected for chance (Krippendorff's alpha, Fleiss' kappa)."""

import math
from collections import Counter
from collections.abc import Callable, Iterator, Sequence

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]
Ratings = Sequence[Sequence[int]]
"""What people answered, item by item: one number an answer, in no order."""


def alpha(ratings: Ratings, metric: str = "nominal") -> float | None:
    """Compute Krippendorff's alpha: 1 for full agreement, 0 for what chance gives, below for less.

    Krippendorff (2011), with any number of answers an item; items with a single answer do not count.

    :param metric: How far answers are apart: nominal (the same or not), ordinal (ranks), or interval (their distance).
    :return: Nothing where all answers are the same, or nobody can be compared: then there is nothing to agree about.
    """
    pairable = [list(item) for item in ratings if len(item) > 1]
    values = sorted({answer for item in pairable for answer in item})
    if len(values) < 2:
        return None
    places = {value: place for place, value in enumerate(values)}
    coincidences = np.zeros((len(values), len(values)))
    for item in pairable:
        counts = np.bincount([places[answer] for answer in item], minlength=len(values)).astype(np.float64)
        coincidences += (np.outer(counts, counts) - np.diag(counts)) / (len(item) - 1)
    totals = coincidences.sum(axis=1)
    distances = METRICS[metric](np.array(values, dtype=np.float64), totals)
    observed = float((coincidences * distances).sum())
    expected = float((np.outer(totals, totals) * distances).sum()) / (float(totals.sum()) - 1)
    return 1 - observed / expected


def _nominal(values: Floats, _totals: Floats) -> Floats:
    """Tell the same from all others."""
    return np.asarray(values[:, None] != values, dtype=np.float64)


def _interval(values: Floats, _totals: Floats) -> Floats:
    """Square the distance."""
    return np.asarray((values[:, None] - values) ** 2)


def _ordinal(_values: Floats, totals: Floats) -> Floats:
    """Square the number of answers from the middle of one value to the middle of the other."""
    middles = np.cumsum(totals) - totals / 2
    return np.asarray((middles[:, None] - middles) ** 2)


METRICS: dict[str, Callable[[Floats, Floats], Floats]] = {
    "nominal": _nominal,
    "ordinal": _ordinal,
    "interval": _interval,
}


def fleiss(ratings: Ratings, n_raters: int) -> float | None:
    """Compute Fleiss' kappa (1971) over the items that have just so many answers.

    :return: Nothing where all answers are the same, or no item has so many.
    """
    if n_raters < 2:
        return None
    full = [Counter(item) for item in ratings if len(item) == n_raters]
    pooled = sum(full, Counter())
    if len(pooled) < 2:
        return None
    observed = sum(_pairwise_agreement(list(counts.elements())) for counts in full) / len(full)
    expected = sum((count / pooled.total()) ** 2 for count in pooled.values())
    return (observed - expected) / (1 - expected)


def _pairwise_agreement(item: Sequence[int]) -> float:
    """Compute the share of pairs of answers that are the same."""
    n = len(item)
    return sum(count * (count - 1) for count in Counter(item).values()) / (n * (n - 1))


def raw_agreement(ratings: Ratings) -> float | None:
    """Compute the mean share of an item's answers that are the most frequent one, as the paper reports.

    Items with a single answer do not count; nothing if that leaves none.
    """
    shares = [max(Counter(item).values()) / len(item) for item in ratings if len(item) > 1]
    return sum(shares) / len(shares) if shares else None


def raw_agreement_by_chance(n_raters: int, chances: Sequence[float]) -> float:
    """Compute what raw agreement is for people who throw dice: for 3 of them and 2 labels alike, 3 of 4.

    :param chances: How probable each answer is.
    """
    total = 0.0
    for counts in _divisions(n_raters, len(chances)):
        ways = math.factorial(n_raters) / math.prod(map(math.factorial, counts))
        total += ways * math.prod(c**n for c, n in zip(chances, counts, strict=True)) * max(counts) / n_raters
    return total


def _divisions(n: int, n_parts: int) -> Iterator[tuple[int, ...]]:
    """List all ways to divide a number into parts, in their order."""
    if n_parts == 1:
        yield (n,)
        return
    for first in range(n + 1):
        for rest in _divisions(n - first, n_parts - 1):
            yield first, *rest
