from collections.abc import Sequence

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fresh.document import Document, Explanation, Mask, Saliency
from fresh.rationale import Prediction
from fresh.selection.discretizers import budget
from fresh.selection.extractors import MAX_POINTS, Curve, curve_ratios
from strategies import ratios


@given(st.integers(1, 2000), ratios(), ratios(), st.integers(2, MAX_POINTS))
def test_points_go_word_by_word_from_the_shortest_to_the_longest(
    n_words: int, one: float, other: float, most: int
) -> None:
    low, high = sorted((one, other))
    counts = [budget(n_words, ratio) for ratio in curve_ratios(n_words, low, high, most)]
    first, last = budget(n_words, low), budget(n_words, high)
    assert counts == sorted(set(counts))
    assert (counts[0], counts[-1]) == (first, last)
    assert len(counts) == min(most, last - first + 1)


def made_up_curve(labels: Sequence[str]) -> Curve:
    """A document whose rationales, a word longer each, are answered as given."""
    document = Document.from_words(["film"] * len(labels))
    saliency = Saliency(np.zeros(len(labels)), "pos")
    return Curve(
        tuple(
            Explanation(
                document,
                Mask(np.arange(len(labels)) <= place),
                document.cut(Mask(np.arange(len(labels)) <= place)),
                Prediction(label, {label: 1.0}),
                saliency,
            )
            for place, label in enumerate(labels)
        )
    )


@given(st.lists(st.sampled_from(("neg", "pos", "mixed")), min_size=1, max_size=12))
def test_the_minimal_rationale_is_the_shortest_from_which_on_the_answer_stays(labels: list[str]) -> None:
    curve = made_up_curve(labels)
    enough = [place for place in range(len(labels)) if set(labels[place:]) == {labels[-1]}]
    assert len(curve) == len(labels)
    assert curve.minimal is curve.points[min(enough)]


@pytest.mark.parametrize(("labels", "n_words"), [("ppp", 1), ("npp", 2), ("pnp", 3), ("ppn", 3), ("p", 1)])
def test_minimal_rationales_by_hand(labels: str, n_words: int) -> None:
    assert int(made_up_curve(labels).minimal.mask.kept.sum()) == n_words
