"""Overlap of two rationales of the same documents, and what random words would have."""

from functools import lru_cache

import numpy as np

from fresh.metrics.bootstrap import Flags, Floats, Ints


def measure_overlap(first: Flags, second: Flags, n_words: Ints) -> tuple[Floats, Floats]:
    """Compute the intersection over union of two rationales of each document; 1 if both are empty.

    :param first: Whether each word is kept, one document after the other. Shape: (words of all documents,)
    :return: The overlap, and its expected value for random words, as many in each rationale. Shapes: (documents,)
    """
    document = np.repeat(np.arange(len(n_words)), n_words)
    counts = [np.bincount(document[flags], minlength=len(n_words)) for flags in (first & second, first, second)]
    n_both, n_first, n_second = counts
    sizes = zip(n_words.tolist(), n_first.tolist(), n_second.tolist(), strict=True)
    return _share(n_both, n_first + n_second - n_both), np.array([_expect(*size) for size in sizes])


@lru_cache(maxsize=100_000)
def _expect(n_words: int, n_first: int, n_second: int) -> float:
    from scipy import stats

    n_both = np.arange(max(0, n_first + n_second - n_words), min(n_first, n_second) + 1)
    share = _share(n_both, n_first + n_second - n_both)
    return float(stats.hypergeom.pmf(n_both, n_words, n_first, n_second) @ share)


def _share(n_both: Ints, n_either: Ints) -> Floats:
    return np.divide(n_both, n_either, out=np.ones(len(n_both)), where=n_either > 0)
