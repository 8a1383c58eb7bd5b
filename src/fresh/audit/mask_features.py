"""The shape of a mask in numbers: how many words it keeps and where, never which words they are."""

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from fresh.document import Mask

Features = NDArray[np.float64]

N_PLACES = 10
"""Parts of a document in which kept words are counted."""
MODULI = (2, 3, 4)
"""Remainders of counts are features, since a label can hide in them."""
MOST_COUNTS = 20
"""Numbers of kept words that become a feature of their own, the most frequent ones."""
LEAST = 5
"""Masks that must keep so many words for this number to become a feature."""


def shape_features(masks: Sequence[Mask]) -> Features:
    """Describe each mask: length, first and last kept word, runs, gaps, where the kept words lie.

    The length of the document is not among them, but the share kept and relative places hang together with it.

    :return: One row a mask. Shape: (masks, features).
    """
    return np.hstack([length_features(masks), np.array([_place_features(mask) for mask in masks], dtype=np.float64)])


def length_features(masks: Sequence[Mask]) -> Features:
    """Describe only how many words each mask keeps: number, share, remainders.

    :return: One row a mask. Shape: (masks, features).
    """
    kept = _kept_counts(masks)
    return np.column_stack([kept, [mask.ratio for mask in masks], _remainders(kept)])


def count_features(masks: Sequence[Mask]) -> Features:
    """Mark which frequent number of words each mask keeps, one column for each, for what knows no steps.

    :return: One row a mask. Shape: (masks, frequent numbers).
    """
    kept = _kept_counts(masks)
    counts, frequencies = np.unique(kept, return_counts=True)
    order = np.argsort(-frequencies, kind="stable")
    frequent = counts[order][: min(MOST_COUNTS, int((frequencies >= LEAST).sum()))]
    return np.asarray(kept[:, None] == frequent, dtype=np.float64)


def _kept_counts(masks: Sequence[Mask]) -> NDArray[np.int64]:
    """Count the words that each mask keeps."""
    return np.array([mask.kept.sum() for mask in masks], dtype=np.int64)


def document_features(masks: Sequence[Mask]) -> Features:
    """Describe only how long each document is: to see what a mask would give away without choosing anything.

    :return: One row a mask. Shape: (masks, features).
    """
    return _number_features(np.array([len(mask) for mask in masks], dtype=np.int64))


def shown_features(masks: Sequence[Mask]) -> Features:
    """Describe only the number of words shown, which a predictor can count; the share of the document it cannot know.

    :return: One row a mask. Shape: (masks, features).
    """
    return _number_features(_kept_counts(masks))


def _number_features(counts: NDArray[np.int64]) -> Features:
    """Describe numbers of words: themselves, their logarithms, their remainders."""
    return np.column_stack([counts, np.log1p(counts), _remainders(counts)])


def _remainders(counts: NDArray[np.int64]) -> Features:
    """Divide by small numbers and mark what is left, one column for each remainder."""
    columns = [counts % modulus == rest for modulus in MODULI for rest in range(modulus - (modulus == 2))]
    return np.column_stack(columns).astype(np.float64)


def _place_features(mask: Mask) -> list[float]:
    """Describe where one mask keeps words; a mask that keeps none is all zeros."""
    kept = np.flatnonzero(mask.kept)
    if not len(kept):
        return [0.0] * (N_PLACES + 19)
    first, last, n_words = int(kept[0]), int(kept[-1]), len(mask)
    steps = np.diff(kept)
    gaps = steps[steps > 1] - 1  # dropped words between two runs
    ends = np.concatenate([[-1], np.flatnonzero(steps > 1), [len(kept) - 1]])
    runs = np.diff(ends)
    return [
        *(1, first, last, n_words - 1 - last, last - first + 1),
        *(first / n_words, (last + 1) / n_words, float(kept.mean() + 0.5) / n_words),
        *(first % 2, last % 2, first == 0, last == n_words - 1),
        *(len(runs), len(runs) % 2, float(runs.mean()), int(runs.max())),
        *((float(gaps.mean()), int(gaps.max()), float(gaps.std())) if len(gaps) else (0, 0, 0)),
        *(np.bincount(kept * N_PLACES // n_words, minlength=N_PLACES) / len(kept)).tolist(),
    ]
