"""The discretizers by their definition: every subset, every window, every step from scratch."""

import itertools
from collections.abc import Sequence
from decimal import ROUND_CEILING, Decimal
from fractions import Fraction

import numpy as np

from fresh.document import Mask, Saliency

Kept = list[list[int]]


def kept(masks: Sequence[Mask]) -> Kept:
    return [np.flatnonzero(mask.kept).tolist() for mask in masks]


def exact(scores: Saliency) -> list[Fraction]:
    return [Fraction(score) for score in scores.scores.tolist()]


def slow_budget(n_words: int, ratio: float) -> int:
    wanted = (n_words * Decimal(str(ratio))).to_integral_value(ROUND_CEILING)
    return min(n_words, max(1, int(wanted)))


def slow_top_k(scores: Sequence[Fraction], k: int) -> list[int]:
    subsets = itertools.combinations(range(len(scores)), k)
    return list(min(subsets, key=lambda subset: (-sum(scores[word] for word in subset), subset)))


def mass(scores: Sequence[Fraction], window: tuple[int, int]) -> Fraction:
    return sum(scores[slice(*window)], Fraction())


def slow_window(scores: Sequence[Fraction], k: int) -> tuple[int, int]:
    windows = [(start, start + k) for start in range(len(scores) - k + 1)]
    return min(windows, key=lambda window: (-mass(scores, window), window))


def slow_gain(scores: Sequence[Fraction], k: int) -> Fraction:
    return mass(scores, slow_window(scores, k + 1)) - mass(scores, slow_window(scores, k))


def slow_global_top_k(corpus: Sequence[list[Fraction]], ratio: float, minimum: float) -> Kept:
    chosen = [slow_top_k(scores, slow_budget(len(scores), minimum)) for scores in corpus]
    while sum(map(len, chosen)) < slow_budget(sum(map(len, corpus)), ratio):
        left = [(-s, d, w) for d, scores in enumerate(corpus) for w, s in enumerate(scores) if w not in chosen[d]]
        _, document, word = min(left)
        chosen[document].append(word)
    return [sorted(words) for words in chosen]


def slow_global_contiguous(
    corpus: Sequence[list[Fraction]], ratio: float, minimum: float
) -> tuple[list[int], list[Fraction]]:
    lengths = [slow_budget(len(scores), minimum) for scores in corpus]
    gains: list[Fraction] = []
    while sum(lengths) < slow_budget(sum(map(len, corpus)), ratio):
        open_ends = [d for d, scores in enumerate(corpus) if lengths[d] < len(scores)]
        gain, document = min((-slow_gain(corpus[d], lengths[d]), d) for d in open_ends)
        lengths[document] += 1
        gains.append(-gain)
    return lengths, gains


def as_words(corpus: Sequence[list[Fraction]], lengths: Sequence[int]) -> Kept:
    return [list(range(*slow_window(scores, k))) for scores, k in zip(corpus, lengths, strict=True)]
