import subprocess
import sys

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fresh.metrics.faithfulness import AOPC_RATIOS, Readings, _faithfulness, aopc
from fresh.rationale import Prediction


def answer(positive: float) -> Prediction:
    return Prediction("pos" if positive >= 0.5 else "neg", {"pos": positive, "neg": 1 - positive})


def answers(*positives: float) -> list[Prediction]:
    return [answer(positive) for positive in positives]


def test_drops_are_those_of_the_label_of_the_full_text() -> None:
    found = _faithfulness(Readings(answers(0.9, 0.2), answers(0.8, 0.5), answers(0.4, 0.1)))
    assert found.sufficiency.tolist() == pytest.approx([0.1, 0.3])
    assert found.comprehensiveness.tolist() == pytest.approx([0.5, -0.1])
    assert (found.mean_sufficiency, found.mean_comprehensiveness) == pytest.approx((0.2, 0.2))


def test_area_over_the_curve_by_hand() -> None:
    full = answers(0.9, 0.2)
    short = Readings(full, answers(0.5, 0.5), answers(0.9, 0.2))
    long = Readings(full, answers(0.9, 0.2), answers(0.1, 0.8))
    found = aopc({0.5: long, 0.1: short})
    assert list(found.at) == [0.1, 0.5]
    assert found.at[0.1].sufficiency.tolist() == pytest.approx([0.4, 0.3])
    assert found.overall.sufficiency.tolist() == pytest.approx([0.2, 0.15])
    assert found.overall.comprehensiveness.tolist() == pytest.approx([0.4, 0.3])
    assert found.overall.mean_comprehensiveness == pytest.approx(0.35)


@given(st.lists(st.lists(st.floats(0, 1), min_size=3, max_size=3), min_size=5, max_size=5), st.floats(0, 1))
def test_the_mean_is_the_same_over_documents_or_lengths_first(read: list[list[float]], share: float) -> None:
    full = answers(0.1, share, 0.7)
    by_ratio = {
        ratio: Readings(full, answers(*row), answers(*row[::-1])) for ratio, row in zip(AOPC_RATIOS, read, strict=True)
    }
    found = aopc(by_ratio)
    assert found.overall.mean_sufficiency == pytest.approx(np.mean([one.mean_sufficiency for one in found.at.values()]))
    one = _faithfulness(by_ratio[0.01])
    assert aopc({0.01: by_ratio[0.01]}).overall.sufficiency.tolist() == one.sufficiency.tolist()


@given(st.lists(st.floats(0, 1), min_size=1, max_size=6))
def test_readings_like_the_full_text_lose_nothing(positives: list[float]) -> None:
    same = answers(*positives)
    found = _faithfulness(Readings(same, same, same))
    assert not found.sufficiency.any()
    assert not found.comprehensiveness.any()


def test_readings_of_other_documents_are_refused() -> None:
    with pytest.raises(ValueError, match="predictions") as caught:
        Readings(answers(0.9, 0.1), answers(0.9), answers(0.9, 0.1))
    assert str(caught.value) == (
        "There are predictions for 2 full texts, 1 rationales and 2 complements. Give one of each for every document."
    )
    with pytest.raises(ValueError, match=r"^There are no predictions to compare\. Give at least one document\.$"):
        Readings([], [], [])


def test_lengths_must_have_the_same_documents() -> None:
    one, two = answers(0.9), answers(0.9, 0.1)
    with pytest.raises(
        ValueError, match=r"^Each ratio needs the same documents, but there are 1 at 0\.1, 2 at 0\.5\.$"
    ):
        aopc({0.1: Readings(one, one, one), 0.5: Readings(two, two, two)})
    with pytest.raises(ValueError, match=r"^There are no lengths to take the mean over\. Give at least one ratio\.$"):
        aopc({})


def test_a_model_of_other_labels_is_refused() -> None:
    full, other = answers(0.9), [Prediction("good", {"good": 0.6, "bad": 0.4})]
    with pytest.raises(ValueError, match="label") as caught:
        _faithfulness(Readings(full, full, other))
    assert str(caught.value) == (
        "The full text was given the label 'pos', which the other reading does not know; it has: good, bad. "
        "Compare models of the same labels."
    )


def test_faithfulness_knows_no_documents() -> None:
    command = "import fresh.metrics.faithfulness, sys; print('fresh.document' in sys.modules)"
    result = subprocess.run([sys.executable, "-c", command], capture_output=True, text=True, check=True)
    assert result.stdout.strip() == "False"
