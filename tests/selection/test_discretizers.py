import itertools
import json
import math
import re
import runpy
from collections.abc import Sequence
from decimal import ROUND_CEILING, Decimal
from fractions import Fraction
from functools import partial
from pathlib import Path
from typing import Any
from unittest.mock import patch

import numpy as np
import pytest
from hypothesis import assume, given
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
    _growing_windows,
    budget,
    discretizer_from_dict,
    discretizer_to_dict,
)
from strategies import any_numbers, numbers, ratios, saliencies, saliency

CORPORA = st.lists(saliencies(max_words=6), min_size=1, max_size=5)
MANY = st.lists(saliencies(st.integers(-2, 3).map(float) | numbers(), max_words=5), min_size=6, max_size=24)
BENCHMARK = Path(__file__).parents[2] / "benchmarks" / "discretizers.py"
PER_INSTANCE: tuple[Discretizer, ...] = (
    TopK(0.3),
    Contiguous(0.3),
    Threshold(0.5),
    LearnedTopK(0.2, 1.0),
    LearnedContiguous(0.2, 0.5),
)
NOT_FINITE = (math.nan, math.inf)
GLOBAL, LEARNED = (GlobalTopK, GlobalContiguous), (LearnedTopK, LearnedContiguous)
EVERY: tuple[Discretizer, ...] = (
    *PER_INSTANCE,
    *(LearnedTopK(0.1, None), LearnedContiguous(0.1, None)),
    *(GlobalTopK(0.3), GlobalContiguous(0.3), GlobalTopK(0.3, 0), GlobalContiguous(0.3, 0.3)),
)


# The discretizers by their definition: every subset, every window, every step from scratch

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


# The budget


@pytest.mark.parametrize(
    ("n_words", "ratio", "expected"),
    [(100, 0.07, 7), (17, 0.2, 4), (10, 0.3, 3), (1, 0.01, 1), (25, 0.28, 7), (3, 1.0, 3), (5, 0, 1), (0, 0.5, 0)],
)
def test_the_budget_is_rounded_up_in_exact_arithmetic(n_words: int, ratio: float, expected: int) -> None:
    assert budget(n_words, ratio) == expected


@given(st.integers(0, 10**12), ratios() | st.floats(0, 1))
def test_the_budget_agrees_with_decimals(n_words: int, ratio: float) -> None:
    assert budget(n_words, ratio) == slow_budget(n_words, ratio)


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


@pytest.mark.parametrize("discretizer", PER_INSTANCE)
@given(corpus=st.lists(saliencies(any_numbers(), min_words=0, max_words=12), max_size=6))
def test_other_documents_do_not_matter(discretizer: Discretizer, corpus: list[Saliency]) -> None:
    small = [saliency((s.scores / 2.0**64).tolist()) for s in corpus]
    assert discretizer.select(small) == [mask for s in small for mask in discretizer.select([s])]


# A budget for all documents together


@pytest.mark.parametrize(
    ("discretizer", "corpus", "words"),
    [
        (GlobalTopK(0.5, 0.25), [[0.9, 0.8, 0.7, 0.6], [0.1, 0.2, 0.3, 0.75]], [[0, 1, 2], [3]]),
        (GlobalTopK(0.5, 0.5), [[0.9, 0.8, 0.7, 0.6], [0.1, 0.2, 0.3, 0.75]], [[0, 1], [2, 3]]),
        # Minima: 5 and 3. Gains: the first document 1 then 4, the second 2 then 0.
        (GlobalContiguous(0.5, 0), [[5.0, 1.0, 4.0], [3.0, 2.0, 0.0]], [[0], [0, 1]]),
        (GlobalContiguous(0.66, 0), [[5.0, 1.0, 4.0], [3.0, 2.0, 0.0]], [[0, 1], [0, 1]]),
        (GlobalContiguous(0.83, 0), [[5.0, 1.0, 4.0], [3.0, 2.0, 0.0]], [[0, 1, 2], [0, 1]]),
        (GlobalContiguous(0.5, 0), [[5.0, 0.0, 4.0, 4.0]], [[2, 3]]),  # a longer window may be elsewhere
        # The earlier document wins a tie, also where the words before equal gains differ.
        (GlobalTopK(0.6, 0), [[1.0, 1.0]] * 3, [[0, 1], [0], [0]]),
        (GlobalContiguous(0.6, 0), [[1.0, 1.0]] * 3, [[0, 1], [0], [0]]),
        (GlobalContiguous(0.83, 0.3), [[0.1, 0.2, 0.3, 0.1], [0.7, 0.1]], [[0, 1, 2, 3], [0]]),
    ],
)
def test_words_of_several_documents_by_hand(
    discretizer: GlobalTopK | GlobalContiguous, corpus: list[list[float]], words: Kept
) -> None:
    assert kept(discretizer.select([saliency(scores) for scores in corpus])) == words


@pytest.mark.parametrize("kind", GLOBAL)
def test_the_minimum_is_half_the_ratio_and_outweighs_the_budget(kind: type[GlobalTopK | GlobalContiguous]) -> None:
    documents = [saliency([9.0] * 10), saliency([0.0] * 10)]
    assert [len(words) for words in kept(kind(0.4).select(documents))] == [6, 2]
    assert kept(kind(0.1).select([saliency([1.0])] * 10)) == [[0]] * 10


@pytest.mark.parametrize("n_stacked", [7, 2**16])
@given(CORPORA | MANY, ratios(), st.floats(0, 1))
def test_a_global_budget_is_spent_greedily(n_stacked: int, corpus: list[Saliency], ratio: float, part: float) -> None:
    rows = [exact(s) for s in corpus]
    lengths, gains = slow_global_contiguous(rows, ratio, ratio * part)
    discretizer = GlobalContiguous(ratio, ratio * part)
    with patch("fresh.selection.discretizers.N_STACKED", n_stacked):
        assert kept(GlobalTopK(ratio, ratio * part).select(corpus)) == slow_global_top_k(rows, ratio, ratio * part)
        assert kept(discretizer.select(corpus)) == as_words(rows, lengths)
        assert discretizer.learn(corpus).cutoff == min(gains, default=None)


@pytest.mark.parametrize("scores", ["attention", "signed"])
def test_plain_python_keeps_the_same_words(scores: str) -> None:
    with patch("fresh.selection.discretizers.N_STACKED", 1000):
        rows = runpy.run_path(str(BENCHMARK))["rows"](400, 40, scores)
    assert [row["documents"] for row in rows] == [400] * 5


@given(
    st.lists(numbers() | st.integers(-9, 30).map(lambda n: n / 10) | any_numbers(), min_size=2, max_size=30), st.data()
)
def test_a_gain_is_the_exact_difference_rounded_once(scores: list[float], data: st.DataObject) -> None:
    assume(max(map(abs, scores)) < 1e300)
    length = data.draw(st.integers(1, len(scores) - 1))
    (window, gain), (longer, _) = itertools.islice(_growing_windows(np.array(scores), length), 2)
    assert gain == math.fsum([*scores[longer], *(-score for score in scores[window])])
    assert (window.stop - window.start, longer.stop - longer.start) == (length, length + 1)


@given(CORPORA, ratios(), st.integers(-4, 6))
def test_learned_rules_keep_the_minimum_and_what_reaches_the_cutoff(
    corpus: list[Saliency], minimum: float, cutoff: int
) -> None:
    rows = [exact(s) for s in corpus]
    lengths = [slow_budget(len(row), minimum) for row in rows]
    best = list(map(slow_top_k, rows, lengths))
    expected = [[w for w, s in enumerate(row) if s >= cutoff or w in best[d]] for d, row in enumerate(rows)]
    assert kept(LearnedTopK(minimum, cutoff).select(corpus)) == expected
    for document, row in enumerate(rows):
        while lengths[document] < len(row) and slow_gain(row, lengths[document]) >= cutoff:
            lengths[document] += 1
    assert kept(LearnedContiguous(minimum, cutoff).select(corpus)) == as_words(rows, lengths)


@pytest.mark.parametrize("kind", GLOBAL)
@given(CORPORA, ratios(), st.floats(0, 1))
def test_a_learned_rule_repeats_the_choice_if_nothing_ties(
    kind: type[GlobalTopK | GlobalContiguous], corpus: list[Saliency], ratio: float, part: float
) -> None:
    discretizer = kind(ratio, ratio * part)
    learned, masks = discretizer.learn(corpus), discretizer.select(corpus)
    pairs = list(zip(map(exact, corpus), masks, strict=True))
    if kind is GlobalTopK:
        not_taken = [score for row, mask in pairs for score, is_kept in zip(row, mask.kept, strict=True) if not is_kept]
    else:
        not_taken = [slow_gain(row, int(mask.kept.sum())) for row, mask in pairs if not mask.kept.all()]
    assume(learned.cutoff is None or all(gain < learned.cutoff for gain in not_taken))
    assert learned.select(corpus) == masks


def test_a_learned_rule_takes_a_better_word_behind_the_last_one() -> None:
    documents = [saliency([5.0, 1.0, 4.0])]
    learned = GlobalContiguous(0.66, minimum=0).learn(documents)
    assert learned == LearnedContiguous(0, 1.0)
    assert kept(learned.select(documents)) == [[0, 1, 2]]


def test_a_budget_that_buys_nothing_beyond_the_minima_learns_no_cutoff() -> None:
    documents = [saliency([1.0, 2.0])]
    for kind, learned in zip(GLOBAL, LEARNED, strict=True):
        assert kind(0.5).learn(documents) == learned(0.25, None)
        assert kept(learned(0.25, None).select(documents)) == [[1]]


# Laws of all discretizers


@pytest.mark.parametrize("discretizer", EVERY)
@given(corpus=st.lists(saliencies(st.floats(-1e300, 1e300), min_words=0, max_words=12), max_size=6))
def test_every_document_gets_a_mask_of_its_length_with_a_word_in_it(
    discretizer: Discretizer, corpus: list[Saliency]
) -> None:
    masks = discretizer.select(corpus)
    assert [len(mask) for mask in masks] == [len(scores) for scores in corpus]
    assert all(mask.kept.any() for mask in masks if len(mask))


@given(st.sampled_from(EVERY) | st.builds(LearnedTopK, st.just(0.1), any_numbers()))
def test_every_discretizer_survives_json_to_the_digit(discretizer: Discretizer) -> None:
    record = json.loads(json.dumps(discretizer_to_dict(discretizer), allow_nan=False))
    assert discretizer_from_dict(record) == discretizer


def test_records_of_discretizers() -> None:
    assert list(DISCRETIZERS) == ["top_k", "contiguous", "global_top_k", "global_contiguous", "threshold"]
    assert discretizer_to_dict(TopK(0.2)) == {"name": "top_k", "ratio": 0.2}
    assert discretizer_from_dict({"name": "global_top_k", "ratio": 0.2}) == GlobalTopK(0.2)


# Errors


@pytest.mark.parametrize(
    ("kinds", "rule", "values"),
    [
        ((TopK, Contiguous, *GLOBAL), "ratio must be in (0, 1]", (0, -0.1, 1.1, *NOT_FINITE, "0.2", None, True)),
        ([partial(kind, 0.2) for kind in GLOBAL], "minimum must be in [0, 0.2]", (-0.1, 0.3, math.nan, "0.1")),
        ([partial(kind, cutoff=1.0) for kind in LEARNED], "minimum must be in [0, 1]", (-0.1, 1.1)),
        ([Threshold, *(partial(kind, 0.1) for kind in LEARNED)], "cutoff must be a finite number", ("x", *NOT_FINITE)),
    ],
)
def test_bad_settings_are_refused(kinds: Any, rule: str, values: Any) -> None:
    for kind, value in itertools.product(kinds, values):
        with pytest.raises(ValueError, match=f"^{re.escape(f'{rule}, got {value!r}.')}$"):
            kind(value)


def test_a_custom_discretizer_cannot_be_saved() -> None:
    class KeepAll:
        def select(self, saliencies: Sequence[Saliency]) -> list[Mask]:
            return [Mask.full(len(scores)) for scores in saliencies]

    with pytest.raises(TypeError, match=r"^KeepAll cannot be saved\. There are: top_k, "):
        discretizer_to_dict(KeepAll())
