import pytest

from fresh.metrics.faithfulness import Readings, aopc, measure_faithfulness
from fresh.rationale import Prediction


def answers(*positives: float) -> list[Prediction]:
    return [Prediction("pos" if share >= 0.5 else "neg", {"pos": share, "neg": 1 - share}) for share in positives]


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


def test_readings_of_different_documents_are_refused() -> None:
    one, two = answers(0.9), answers(0.9, 0.1)
    for readings in ((two, one, two), ([], [], [])):
        with pytest.raises(ValueError, match=rf"one prediction a document, got {len(readings[0])}, {len(readings[1])}"):
            Readings(*readings)
