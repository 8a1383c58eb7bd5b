import math
import runpy
from pathlib import Path
from unittest.mock import patch

import numpy as np
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from fresh.document import Saliency
from fresh.selection.discretizers import GlobalContiguous, GlobalTopK, LearnedContiguous, LearnedTopK
from fresh.selection.global_budget import _GrowingWindow
from slow_discretize import (
    Kept,
    as_words,
    exact,
    kept,
    slow_budget,
    slow_gain,
    slow_global_contiguous,
    slow_global_top_k,
    slow_top_k,
)
from strategies import any_numbers, numbers, ratios, saliencies, saliency

CORPORA = st.lists(saliencies(max_words=6), min_size=1, max_size=5)
MANY = st.lists(saliencies(st.integers(-2, 3).map(float) | numbers(), max_words=5), min_size=6, max_size=24)
BENCHMARK = Path(__file__).parents[2] / "benchmarks" / "discretizers.py"


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
def test_words_by_hand(discretizer: GlobalTopK | GlobalContiguous, corpus: list[list[float]], words: Kept) -> None:
    assert kept(discretizer.select([saliency(scores) for scores in corpus])) == words


@pytest.mark.parametrize("kind", [GlobalTopK, GlobalContiguous])
def test_the_minimum_is_half_the_ratio_and_outweighs_the_budget(kind: type[GlobalTopK | GlobalContiguous]) -> None:
    documents = [saliency([9.0] * 10), saliency([0.0] * 10)]
    assert [len(words) for words in kept(kind(0.4).select(documents))] == [6, 2]
    assert kept(kind(0.1).select([saliency([1.0])] * 10)) == [[0]] * 10


@pytest.mark.parametrize("n_stacked", [7, 2**16])
@given(CORPORA | MANY, ratios(), st.floats(0, 1))
def test_global_top_k_is_the_greedy_choice(n_stacked: int, corpus: list[Saliency], ratio: float, part: float) -> None:
    expected = slow_global_top_k([exact(s) for s in corpus], ratio, ratio * part)
    with patch("fresh.selection._topk.N_STACKED", n_stacked):
        assert kept(GlobalTopK(ratio, ratio * part).select(corpus)) == expected


@pytest.mark.parametrize("n_stacked", [7, 2**16])
@given(CORPORA | MANY, ratios(), st.floats(0, 1))
def test_global_contiguous_is_the_greedy_choice(
    n_stacked: int, corpus: list[Saliency], ratio: float, part: float
) -> None:
    rows = [exact(s) for s in corpus]
    lengths, gains = slow_global_contiguous(rows, ratio, ratio * part)
    discretizer = GlobalContiguous(ratio, ratio * part)
    with patch("fresh.selection._topk.N_STACKED", n_stacked):
        assert kept(discretizer.select(corpus)) == as_words(rows, lengths)
        assert discretizer.learn(corpus).cutoff == min(gains, default=None)


@pytest.mark.parametrize("scores", ["attention", "signed"])
def test_plain_python_keeps_the_same_words(scores: str) -> None:
    with patch("fresh.selection._topk.N_STACKED", 1000):
        rows = runpy.run_path(str(BENCHMARK))["rows"](400, 40, scores)
    assert [row["documents"] for row in rows] == [400] * 5


@given(
    st.lists(numbers() | st.integers(-9, 30).map(lambda n: n / 10) | any_numbers(), min_size=2, max_size=30), st.data()
)
def test_a_gain_is_the_exact_difference_rounded_once(scores: list[float], data: st.DataObject) -> None:
    assume(max(map(abs, scores)) < 1e300)
    length = data.draw(st.integers(1, len(scores) - 1))
    window = _GrowingWindow(np.array(scores), length)
    before, gain = scores[window.start : window.start + length], window.gain
    window.grow()
    after = scores[window.start : window.start + length + 1]
    assert gain == math.fsum([*after, *(-score for score in before)])
    assert window.length == length + 1


@given(CORPORA, ratios(), st.integers(-4, 6))
def test_learned_top_k_keeps_the_minimum_and_what_reaches_the_cutoff(
    corpus: list[Saliency], minimum: float, cutoff: int
) -> None:
    rows = [exact(s) for s in corpus]
    best = [slow_top_k(row, slow_budget(len(row), minimum)) for row in rows]
    expected = [[w for w, s in enumerate(row) if s >= cutoff or w in best[d]] for d, row in enumerate(rows)]
    assert kept(LearnedTopK(minimum, cutoff).select(corpus)) == expected


@given(CORPORA, ratios(), st.integers(-4, 6))
def test_learned_contiguous_grows_while_the_next_word_gains_enough(
    corpus: list[Saliency], minimum: float, cutoff: int
) -> None:
    rows = [exact(s) for s in corpus]
    lengths = [slow_budget(len(row), minimum) for row in rows]
    for document, row in enumerate(rows):
        while lengths[document] < len(row) and slow_gain(row, lengths[document]) >= cutoff:
            lengths[document] += 1
    assert kept(LearnedContiguous(minimum, cutoff).select(corpus)) == as_words(rows, lengths)


@given(CORPORA, ratios(), st.floats(0, 1))
def test_the_rule_learned_by_top_k_repeats_its_choice(corpus: list[Saliency], ratio: float, part: float) -> None:
    discretizer = GlobalTopK(ratio, ratio * part)
    learned, masks = discretizer.learn(corpus), discretizer.select(corpus)
    dropped = [s for scores, mask in zip(corpus, masks, strict=True) for s in scores.scores[~mask.kept]]
    assume(learned.cutoff is None or all(score != learned.cutoff for score in dropped))
    assert learned.select(corpus) == masks


@given(CORPORA, ratios(), st.floats(0, 1))
def test_the_rule_learned_by_contiguous_repeats_its_choice(corpus: list[Saliency], ratio: float, part: float) -> None:
    discretizer = GlobalContiguous(ratio, ratio * part)
    learned, masks = discretizer.learn(corpus), discretizer.select(corpus)
    rows = [(exact(scores), int(mask.kept.sum())) for scores, mask in zip(corpus, masks, strict=True)]
    not_taken = [slow_gain(row, length) for row, length in rows if length < len(row)]
    assume(learned.cutoff is None or all(gain < learned.cutoff for gain in not_taken))
    assert learned.select(corpus) == masks


def test_a_learned_rule_takes_a_better_word_behind_the_last_one() -> None:
    documents = [saliency([5.0, 1.0, 4.0])]
    learned = GlobalContiguous(0.66, minimum=0).learn(documents)
    assert learned == LearnedContiguous(0, 1.0)
    assert kept(learned.select(documents)) == [[0, 1, 2]]


def test_a_budget_that_buys_nothing_beyond_the_minima_learns_no_cutoff() -> None:
    documents = [saliency([1.0, 2.0])]
    assert GlobalTopK(0.5).learn(documents) == LearnedTopK(0.25, None)
    assert GlobalContiguous(0.5).learn(documents) == LearnedContiguous(0.25, None)
    assert kept(LearnedTopK(0.25, None).select(documents)) == [[1]]
    assert kept(LearnedContiguous(0.25, None).select(documents)) == [[1]]
