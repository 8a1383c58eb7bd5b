import subprocess
import sys

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from sklearn import metrics

from fresh.metrics.classification import (
    Bin,
    accuracy,
    brier_scores,
    calibration,
    class_scores,
    confusion_matrix,
    macro_f1,
)
from fresh.rationale import Prediction

LABELS = ("neg", "pos", "mixed")
PAIRS = st.lists(st.tuples(st.sampled_from(LABELS), st.sampled_from(LABELS)), min_size=1, max_size=40)


def sure(probability: float, label: str = "pos") -> Prediction:
    return Prediction(label, {label: probability, "other": 1 - probability})


@st.composite
def answered(draw: st.DrawFn) -> tuple[list[str], list[Prediction]]:
    """Gold labels, and predictions with their probabilities."""
    gold = draw(st.lists(st.sampled_from(LABELS), min_size=1, max_size=20))
    predictions = []
    for _ in gold:
        parts = [draw(st.integers(0, 20)) + (place == 0) for place in range(3)]
        shares = {label: part / sum(parts) for label, part in zip(LABELS, parts, strict=True)}
        predictions.append(Prediction(max(LABELS, key=lambda label: shares[label]), shares))
    return gold, predictions


# Scores


def test_labels_that_end_in_a_null_are_not_confused() -> None:
    assert accuracy(["a\0"], ["a"]) == 0.0
    assert class_scores(["a\0", "a"], ["a", "a"], ["a"])[0].precision == 0.5


@given(PAIRS, st.lists(st.sampled_from((*LABELS, "absent")), min_size=1, unique=True))
def test_scores_are_those_of_counts(pairs: list[tuple[str, str]], labels: list[str]) -> None:
    gold, predicted = zip(*pairs, strict=True)
    for label, score in zip(labels, class_scores(gold, predicted, labels), strict=True):
        n_right, n_gold, n_predicted = pairs.count((label, label)), gold.count(label), predicted.count(label)
        f1 = 2 * n_right / (n_gold + n_predicted) if n_right else 0
        expected = n_right / max(1, n_predicted), n_right / max(1, n_gold), f1
        assert (score.precision, score.recall, score.f1) == pytest.approx(expected, abs=1e-12)
        assert (score.label, score.support) == (label, n_gold)
    expected_f1 = metrics.f1_score(gold, predicted, labels=labels, average="macro", zero_division=0)
    assert macro_f1(gold, predicted, labels) == pytest.approx(expected_f1, abs=1e-12)
    assert accuracy(gold, predicted) == pytest.approx(metrics.accuracy_score(gold, predicted), abs=1e-12)
    assert confusion_matrix(gold, predicted, LABELS).tolist() == [
        [pairs.count((row, column)) for column in LABELS] for row in LABELS
    ]


# Calibration


def test_bins_by_hand() -> None:
    result = calibration(["pos", "neg", "pos", "pos"], [sure(0.6), sure(0.8), sure(1.0), sure(0.1)], n_bins=2)
    low, high = result.bins
    assert low == Bin(0.0, 0.5, 1, confidence=0.1, accuracy=1.0)
    assert (high.low, high.high, high.count) == (0.5, 1.0, 3)
    assert (high.confidence, high.accuracy) == pytest.approx((0.8, 2 / 3))
    assert result.error == pytest.approx(0.9 / 4 + (0.8 - 2 / 3) * 3 / 4)
    assert calibration(["pos", "pos", "pos", "neg"], [sure(0.75)] * 4).error == 0
    assert len(calibration(["pos"], [sure(0.7)]).bins) == 15


def test_a_confidence_on_an_edge_is_in_the_bin_below_it() -> None:
    bins = calibration(["pos"] * 5, [sure(share) for share in (0.0, 0.2, 0.6, 0.6000001, 1.0)], n_bins=5).bins
    assert [one.count for one in bins] == [2, 0, 1, 1, 1]
    assert bins[1] == Bin(0.2, 0.4, 0, confidence=None, accuracy=None)


@given(answered(), st.integers(1, 20))
def test_the_error_is_a_mean_gap_over_bins(sample: tuple[list[str], list[Prediction]], n_bins: int) -> None:
    result = calibration(*sample, n_bins)
    gaps = [0 if one.accuracy is None else abs(one.accuracy - (one.confidence or 0)) * one.count for one in result.bins]
    assert result.error == pytest.approx(sum(gaps) / len(sample[0]), abs=1e-12)
    assert sum(one.count for one in result.bins) == len(sample[0])
    assert all(one.confidence is None or one.low <= one.confidence <= one.high for one in result.bins)


# Brier score


def test_brier_scores_by_hand() -> None:
    predictions = [Prediction("a", {"a": 0.5, "b": 0.3, "c": 0.2}), Prediction("a", {"a": 1.0, "b": 0.0, "c": 0.0})]
    assert brier_scores(["b", "a"], predictions).tolist() == pytest.approx([0.25 + 0.49 + 0.04, 0])
    assert brier_scores(["neg", "new"], [Prediction("pos", {"pos": 1.0, "neg": 0.0})] * 2).tolist() == [2, 2]


@given(answered())
def test_the_mean_brier_score_is_that_of_scikit_learn(sample: tuple[list[str], list[Prediction]]) -> None:
    gold, predictions = sample
    shares = np.array([[prediction.probabilities[name] for name in sorted(LABELS)] for prediction in predictions])
    expected = metrics.brier_score_loss(gold, shares, labels=sorted(LABELS), scale_by_half=False)
    assert brier_scores(gold, predictions).mean() == pytest.approx(expected)


# Errors


@pytest.mark.parametrize(
    ("gold", "predicted", "labels", "message"),
    [
        (["a", "b"], ["a"], ["a"], "got 1 for 2"),
        ([], [], ["a"], "There are no labels to score"),
        (["a"], ["a"], [], "labels must name each class once, got: "),
        (["a"], ["a"], ["a", "b", "a"], "labels must name each class once, got: a, b, a"),
    ],
)
def test_labels_that_cannot_be_scored_are_refused(
    gold: list[str], predicted: list[str], labels: list[str], message: str
) -> None:
    for measure in (class_scores, macro_f1, confusion_matrix):
        with pytest.raises(ValueError, match=message):
            measure(gold, predicted, labels)
    if len(labels) == 1:
        with pytest.raises(ValueError, match=message):
            accuracy(gold, predicted)


def test_a_label_outside_of_the_confusion_matrix_is_refused() -> None:
    with pytest.raises(ValueError, match=r"labels must hold every label: add x, y to a, b"):
        confusion_matrix(["a", "x"], ["b", "y"], ["a", "b"])


def test_metrics_of_labels_import_no_documents_and_no_scikit_learn() -> None:
    code = (
        "import sys, fresh.metrics.classification, fresh.metrics.faithfulness, fresh.metrics.significance; "
        "from fresh.metrics import macro_f1; print({'fresh.document', 'sklearn', 'scipy'} & set(sys.modules))"
    )
    result = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert result.stdout.strip() == "set()"
