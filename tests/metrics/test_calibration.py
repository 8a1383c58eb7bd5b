import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from sklearn.metrics import confusion_matrix

from fresh.metrics.classification import Bin, _brier_score, brier_scores, calibration, confusion
from fresh.rationale import Prediction

LABELS = ("neg", "pos", "mixed")
PAIRS = st.lists(st.tuples(st.sampled_from(LABELS), st.sampled_from(LABELS)), min_size=1, max_size=40)


def sure(probability: float, label: str = "pos") -> Prediction:
    return Prediction(label, {label: probability, "other": 1 - probability})


@st.composite
def answered(draw: st.DrawFn) -> tuple[list[str], list[Prediction]]:
    """Gold labels, and answers with their probabilities."""
    gold = draw(st.lists(st.sampled_from(LABELS), min_size=1, max_size=20))
    predictions = []
    for _ in gold:
        parts = [draw(st.integers(0, 20)) + (place == 0) for place in range(3)]
        shares = {label: part / sum(parts) for label, part in zip(LABELS, parts, strict=True)}
        predictions.append(Prediction(max(LABELS, key=lambda label: shares[label]), shares))
    return gold, predictions


# Calibration


def test_bins_by_hand() -> None:
    found = calibration(["pos", "neg", "pos", "pos"], [sure(0.6), sure(0.8), sure(1.0), sure(0.1)], n_bins=2)
    low, high = found.bins
    assert low == Bin(0.0, 0.5, 1, confidence=0.1, accuracy=1.0)
    assert (high.low, high.high, high.count) == (0.5, 1.0, 3)
    assert (high.confidence, high.accuracy) == pytest.approx((0.8, 2 / 3))
    assert found.error == pytest.approx(0.9 / 4 + (0.8 - 2 / 3) * 3 / 4)


def test_a_confidence_on_an_edge_is_in_the_bin_below_it() -> None:
    found = calibration(["pos"] * 5, [sure(share) for share in (0.0, 0.2, 0.6, 0.6000001, 1.0)], n_bins=5)
    assert [one.count for one in found.bins] == [2, 0, 1, 1, 1]
    assert found.bins[1] == Bin(0.2, 0.4, 0, confidence=None, accuracy=None)


def test_there_are_fifteen_bins() -> None:
    bins = calibration(["pos"], [sure(0.7)]).bins
    assert len(bins) == 15
    assert (bins[0].low, bins[-1].high) == (0.0, 1.0)


@given(answered(), st.integers(1, 20))
def test_the_error_is_a_mean_gap_over_bins(given_: tuple[list[str], list[Prediction]], n_bins: int) -> None:
    gold, predictions = given_
    found = calibration(gold, predictions, n_bins)
    gaps = [0 if one.accuracy is None else abs(one.accuracy - (one.confidence or 0)) * one.count for one in found.bins]
    assert found.error == pytest.approx(sum(gaps) / len(gold), abs=1e-12)
    assert sum(one.count for one in found.bins) == len(gold)
    assert all(one.confidence is None or one.low <= one.confidence <= one.high for one in found.bins)


def test_answers_that_are_as_good_as_they_claim_have_no_error() -> None:
    gold = ["pos", "pos", "pos", "neg"]
    assert calibration(gold, [sure(0.75)] * 4).error == 0


# Brier score


def test_brier_score_by_hand() -> None:
    predictions = [Prediction("a", {"a": 0.5, "b": 0.3, "c": 0.2}), Prediction("a", {"a": 1.0, "b": 0.0, "c": 0.0})]
    assert brier_scores(["b", "a"], predictions).tolist() == pytest.approx([0.25 + 0.49 + 0.04, 0])
    assert _brier_score(["b", "a"], predictions) == pytest.approx(0.39)


def test_the_worst_brier_score_is_two_also_for_a_label_nobody_knows() -> None:
    assert _brier_score(["neg"], [Prediction("pos", {"pos": 1.0, "neg": 0.0})]) == 2
    assert _brier_score(["new"], [Prediction("pos", {"pos": 1.0, "neg": 0.0})]) == 2


@given(answered())
def test_brier_score_is_the_squared_distance_to_the_gold_label(given_: tuple[list[str], list[Prediction]]) -> None:
    gold, predictions = given_
    wanted = np.array([[label == name for name in LABELS] for label in gold], dtype=float)
    given_shares = np.array([[prediction.probabilities[name] for name in LABELS] for prediction in predictions])
    assert brier_scores(gold, predictions).tolist() == pytest.approx(((wanted - given_shares) ** 2).sum(1).tolist())


# Confusion


def test_confusion_by_hand() -> None:
    assert confusion(["a", "a", "b"], ["a", "b", "b"], ["b", "a"]).tolist() == [[1, 0], [1, 1]]


@given(PAIRS)
def test_confusion_agrees_with_scikit_learn(pairs: list[tuple[str, str]]) -> None:
    gold, predicted = zip(*pairs, strict=True)
    expected = confusion_matrix(gold, predicted, labels=LABELS)
    assert confusion(gold, predicted, LABELS).tolist() == expected.tolist()


# What is refused


def test_a_label_without_a_place_is_refused() -> None:
    with pytest.raises(ValueError, match="place") as caught:
        confusion(["a", "x"], ["b", "y"], ["a", "b"])
    assert str(caught.value) == (
        "These labels have no place in the confusion matrix: x, y. It has: a, b. Add them, or leave their examples out."
    )


@pytest.mark.parametrize("share", [float("nan"), 1.1, -0.1])
def test_what_is_no_probability_is_refused(share: float) -> None:
    wrong = [sure(0.5), Prediction("pos", {"pos": share})]
    for measure in (calibration, _brier_score):
        with pytest.raises(ValueError, match="probability") as caught:
            measure(["pos", "pos"], wrong)
        assert str(caught.value) == (
            f"Prediction 1 gives 'pos' the probability {share}. Probabilities lie between 0 and 1: mend the predictor."
        )


def test_no_bins_are_refused() -> None:
    with pytest.raises(ValueError, match=r"^n_bins must be at least 1, got 0\.$"):
        calibration(["pos"], [sure(0.5)], n_bins=0)


def test_unequal_lengths_are_refused() -> None:
    for measure in (calibration, _brier_score):
        with pytest.raises(ValueError, match=r"^There are 2 gold labels but 1 predicted ones\. Give one each\.$"):
            measure(["pos", "pos"], [sure(0.5)])
