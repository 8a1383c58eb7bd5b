import functools
import json
import math
import re
from collections.abc import Sequence
from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fresh.document import Mask, Saliency
from fresh.selection.discretizers import (
    DISCRETIZERS,
    Contiguous,
    Discretizer,
    GlobalContiguous,
    GlobalTopK,
    LearnedContiguous,
    LearnedTopK,
    Threshold,
    TopK,
    _budgets,
    budget,
    discretizer_from_dict,
    discretizer_to_dict,
)
from slow_discretize import as_words, exact, kept, mass, slow_budget, slow_top_k, slow_window
from strategies import any_numbers, ratios, saliencies, saliency

CORPORA = st.lists(saliencies(max_words=6), min_size=1, max_size=5)
PER_INSTANCE: tuple[Discretizer, ...] = (
    TopK(0.3),
    Contiguous(0.3),
    Threshold(0.5),
    LearnedTopK(0.2, 1.0),
    LearnedContiguous(0.2, 0.5),
)
EVERY: tuple[Discretizer, ...] = (
    *PER_INSTANCE,
    *(LearnedTopK(0.1, None), LearnedContiguous(0.1, None)),
    *(GlobalTopK(0.3), GlobalContiguous(0.3), GlobalTopK(0.3, 0), GlobalContiguous(0.3, 0.3)),
)


# The budget


@pytest.mark.parametrize(
    ("n_words", "ratio", "expected"),
    [(100, 0.07, 7), (17, 0.2, 4), (10, 0.3, 3), (1, 0.01, 1), (25, 0.28, 7), (3, 1.0, 3), (5, 0, 1), (0, 0.5, 0)],
)
def test_the_budget_is_rounded_up_in_exact_arithmetic(n_words: int, ratio: float, expected: int) -> None:
    assert budget(n_words, ratio) == expected


def test_the_budget_is_right_for_every_ratio_of_two_decimals() -> None:
    for percent in range(1, 101):
        assert [budget(n, percent / 100) for n in range(1, 300)] == [-(-n * percent // 100) for n in range(1, 300)]


@given(st.lists(st.integers(0, 10**12), max_size=20), ratios() | st.floats(0, 1))
def test_budgets_agree_with_the_budget(n_words: list[int], ratio: float) -> None:
    expected = [slow_budget(n, ratio) if n else 0 for n in n_words]
    assert _budgets(np.array(n_words, dtype=np.int64), ratio).tolist() == expected
    assert [budget(n, ratio) for n in n_words] == expected


# Each document by itself


@pytest.mark.parametrize(
    ("discretizer", "scores", "words"),
    [
        (TopK(0.5), [0.1, 0.4, 0.2, 0.3], [1, 3]),
        (TopK(0.5), [-1.0], [0]),
        (TopK(0.5), [-3.0, -1.0, -2.0], [1, 2]),
        (TopK(0.5), [0.0, 1.0, 1.0, 1.0], [1, 2]),  # the earlier word wins a tie
        (TopK(0.5), [-0.0, 0.0, -0.0, 0.0], [0, 1]),
        (Contiguous(0.5), [0.0, 0.9, 0.8, 0.1], [1, 2]),
        (Contiguous(0.5), [-5.0, -4.0, -1.0, -2.0], [2, 3]),
        (Contiguous(0.4), [0.1] * 5, [0, 1]),  # a tie that rounding hides: the sum of the second and third is larger
        (Contiguous(0.5), [1.0, 1.0 + 1e-14], [1]),  # a real difference is no tie
        (Threshold(0.5), [0.5, 0.4, 0.6], [0, 2]),
        (Threshold(0.5), [0.1, 0.2, 0.2], [1]),
    ],
)
def test_words_by_hand(discretizer: Discretizer, scores: list[float], words: list[int]) -> None:
    assert kept(discretizer.select([saliency(scores)])) == [words]


@given(CORPORA | st.lists(saliencies(any_numbers()), max_size=4), ratios())
def test_top_k_is_the_best_subset(corpus: list[Saliency], ratio: float) -> None:
    expected = [slow_top_k(exact(s), slow_budget(len(s), ratio)) for s in corpus]
    assert kept(TopK(ratio).select(corpus)) == expected


@pytest.mark.parametrize("discretizer", PER_INSTANCE)
@pytest.mark.parametrize("n_words", [1, 40, 3000])
def test_many_documents_are_cut_as_each_alone(discretizer: Discretizer, n_words: int) -> None:
    drawn = np.random.default_rng(0).integers(-3, 4, size=(2**18 // (n_words + 1000), n_words)) / 8
    documents = [saliency(row) for row in drawn.tolist()]
    masks = discretizer.select(documents)
    assert masks == [discretizer.select([document])[0] for document in documents]


def test_masks_are_made_from_flags_in_a_row() -> None:
    flags = np.array([True, False, False])
    masks = Mask.from_flags(flags, [2, 0, 1])
    flags[:] = True
    assert [mask.kept.tolist() for mask in masks] == [[True, False], [], [False]]
    for wrong in (flags[:2], flags[None], flags.astype(np.int64)):
        with pytest.raises(ValueError, match="3 booleans in a row"):
            Mask.from_flags(wrong, [2, 0, 1])  # type: ignore[arg-type]


@given(CORPORA, ratios())
def test_contiguous_is_the_best_window(corpus: list[Saliency], ratio: float) -> None:
    expected = as_words([exact(s) for s in corpus], [slow_budget(len(s), ratio) for s in corpus])
    assert kept(Contiguous(ratio).select(corpus)) == expected


@given(st.lists(st.integers(-9, 30), min_size=1, max_size=60), ratios(), st.sampled_from((10, 7, 1000, 3e20, 1e-300)))
def test_windows_of_decimals_tie_as_exact_sums_do(numerators: list[int], ratio: float, unit: float) -> None:
    [mask] = Contiguous(ratio).select([saliency([numerator / unit for numerator in numerators])])
    whole = [Fraction(numerator) for numerator in numerators]
    assert mask.spans == (slow_window(whole, slow_budget(len(whole), ratio)),)


@given(saliencies(any_numbers(), max_words=20), ratios())
def test_contiguous_finds_a_best_window_of_any_numbers(scores: Saliency, ratio: float) -> None:
    [mask] = Contiguous(ratio).select([scores])
    [window] = mask.spans
    k = slow_budget(len(scores), ratio)
    noise = 4 * (len(scores) + 1) * Fraction(2) ** -52 * sum(map(abs, exact(scores)))
    assert window[1] - window[0] == k
    assert mass(exact(scores), window) >= mass(exact(scores), slow_window(exact(scores), k)) - noise


@given(CORPORA, st.integers(-4, 6))
def test_a_threshold_is_a_filter(corpus: list[Saliency], cutoff: int) -> None:
    rows = [s.scores.tolist() for s in corpus]
    expected = [[w for w, s in enumerate(row) if s >= cutoff or w == row.index(max(row))] for row in rows]
    assert kept(Threshold(cutoff).select(corpus)) == expected


@pytest.mark.parametrize("discretizer", PER_INSTANCE)
@given(corpus=st.lists(saliencies(any_numbers(), min_words=0, max_words=12), max_size=6))
def test_other_documents_do_not_matter(discretizer: Discretizer, corpus: list[Saliency]) -> None:
    small = [saliency((s.scores / 2.0**64).tolist()) for s in corpus]
    assert discretizer.select(small) == [mask for s in small for mask in discretizer.select([s])]


# Laws of all discretizers


@pytest.mark.parametrize("discretizer", EVERY)
@given(corpus=st.lists(saliencies(st.floats(-1e300, 1e300), max_words=12), max_size=6))
def test_every_document_gets_a_mask_of_its_length_with_a_word_in_it(
    discretizer: Discretizer, corpus: list[Saliency]
) -> None:
    masks = discretizer.select(corpus)
    assert [len(mask) for mask in masks] == [len(scores) for scores in corpus]
    assert all(mask.kept.any() for mask in masks)


@pytest.mark.parametrize("discretizer", EVERY)
def test_a_document_without_words_gets_an_empty_mask(discretizer: Discretizer) -> None:
    masks = discretizer.select([saliency([]), saliency([1.0]), saliency([])])
    assert [len(mask) for mask in masks] == [0, 1, 0]
    assert discretizer.select([]) == []


@given(st.sampled_from(EVERY) | st.builds(LearnedTopK, st.just(0.1), any_numbers()))
def test_every_discretizer_survives_json_to_the_digit(discretizer: Discretizer) -> None:
    record = json.loads(json.dumps(discretizer_to_dict(discretizer), allow_nan=False))
    assert discretizer_from_dict(record) == discretizer


def test_records_of_discretizers() -> None:
    assert list(DISCRETIZERS) == ["top_k", "contiguous", "global_top_k", "global_contiguous", "threshold"]
    assert discretizer_to_dict(TopK(0.2)) == {"name": "top_k", "ratio": 0.2}
    assert discretizer_from_dict({"name": "global_top_k", "ratio": 0.2}) == GlobalTopK(0.2)


# Errors


@pytest.mark.parametrize("kind", [TopK, Contiguous, GlobalTopK, GlobalContiguous])
@pytest.mark.parametrize("ratio", [0, -0.1, 1.1, math.nan, math.inf, "0.2", None, True])
def test_a_bad_ratio_is_refused(kind: type[Any], ratio: object) -> None:
    with pytest.raises(ValueError, match=f"^ratio must be in \\(0, 1\\], got {re.escape(repr(ratio))}\\.$"):
        kind(ratio)


@pytest.mark.parametrize("kind", [GlobalTopK, GlobalContiguous])
@pytest.mark.parametrize("minimum", [-0.1, 0.3, math.nan, "0.1"])
def test_a_bad_minimum_is_refused(kind: type[Any], minimum: object) -> None:
    with pytest.raises(ValueError, match=f"^minimum must be in \\[0, 0\\.2\\], got {re.escape(repr(minimum))}\\.$"):
        kind(0.2, minimum)


@pytest.mark.parametrize("cutoff", [math.nan, math.inf, "high"])
def test_a_bad_cutoff_is_refused(cutoff: Any) -> None:
    for make in (Threshold, functools.partial(LearnedTopK, 0.1), functools.partial(LearnedContiguous, 0.1)):
        with pytest.raises(ValueError, match=f"^cutoff must be a finite number, got {re.escape(repr(cutoff))}\\.$"):
            make(cutoff)


def test_a_custom_discretizer_cannot_be_saved() -> None:
    class KeepAll:
        def select(self, saliencies: Sequence[Saliency]) -> list[Mask]:
            return [Mask.full(len(scores)) for scores in saliencies]

    with pytest.raises(TypeError, match=r"^KeepAll cannot be saved\. There are: top_k, "):
        discretizer_to_dict(KeepAll())
