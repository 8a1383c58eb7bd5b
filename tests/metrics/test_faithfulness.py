import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fresh.metrics.faithfulness import AOPC_RATIOS, Readings, aopc, measure_faithfulness
from fresh.rationale import Prediction


def answers(*positives: float) -> list[Prediction]:
    return [
        Prediction("pos" if positive >= 0.5 else "neg", {"pos": positive, "neg": 1 - positive})
        for positive in positives
    ]


def test_drops_are_those_of_the_label_of_the_full_text() -> None:
    result = measure_faithfulness(Readings(answers(0.9, 0.2), answers(0.8, 0.5), answers(0.4, 0.1)))
    assert result.sufficiency.tolist() == pytest.approx([0.1, 0.3])
    assert result.comprehensiveness.tolist() == pytest.approx([0.5, -0.1])


def test_area_over_the_curve_by_hand() -> None:
    full = answers(0.9, 0.2)
    short, long = Readings(full, answers(0.5, 0.5), full), Readings(full, full, answers(0.1, 0.8))
    result = aopc({0.5: long, 0.1: short})
    assert list(result.at) == [0.1, 0.5]
    assert result.at[0.1].sufficiency.tolist() == pytest.approx([0.4, 0.3])
    assert result.overall.sufficiency.tolist() == pytest.approx([0.2, 0.15])
    assert result.overall.comprehensiveness.tolist() == pytest.approx([0.4, 0.3])


@given(st.lists(st.lists(st.floats(0, 1), min_size=3, max_size=3), min_size=5, max_size=5), st.floats(0, 1))
def test_the_mean_is_the_same_over_documents_or_lengths_first(rows: list[list[float]], share: float) -> None:
    full = answers(0.1, share, 0.7)
    by_ratio = {
        ratio: Readings(full, answers(*row), answers(*row[::-1])) for ratio, row in zip(AOPC_RATIOS, rows, strict=True)
    }
    result = aopc(by_ratio)
    assert result.overall.sufficiency.mean() == pytest.approx(np.mean([x.sufficiency for x in result.at.values()]))
    one = measure_faithfulness(by_ratio[0.01])
    assert aopc({0.01: by_ratio[0.01]}).overall.sufficiency.tolist() == one.sufficiency.tolist()


@given(st.lists(st.floats(0, 1), min_size=1, max_size=6))
def test_readings_like_the_full_text_lose_nothing(positives: list[float]) -> None:
    result = measure_faithfulness(Readings(*[answers(*positives)] * 3))
    assert not result.sufficiency.any()
    assert not result.comprehensiveness.any()


def test_readings_of_different_documents_are_refused() -> None:
    one, two = answers(0.9), answers(0.9, 0.1)
    for readings in ((two, one, two), ([], [], [])):
        with pytest.raises(ValueError, match=rf"one prediction a document, got {len(readings[0])}, {len(readings[1])}"):
            Readings(*readings)
