import subprocess
import sys

import pytest
from hypothesis import given
from hypothesis import strategies as st
from sklearn.metrics import accuracy_score, f1_score, precision_recall_fscore_support

from fresh.metrics.classification import ClassScore, accuracy, class_scores, macro_f1

LABELS = ("neg", "pos", "mixed")
PAIRS = st.lists(st.tuples(st.sampled_from(LABELS), st.sampled_from(LABELS)), min_size=1, max_size=40)


def test_accuracy_is_the_share_of_right_answers() -> None:
    assert accuracy(["a", "b", "b", "c"], ["a", "b", "c", "a"]) == 0.5


def test_scores_by_hand() -> None:
    gold = ["a", "a", "a", "b", "b", "c"]
    predicted = ["a", "a", "b", "b", "c", "b"]
    assert class_scores(gold, predicted, ["a", "b", "c"]) == [
        ClassScore("a", precision=1.0, recall=2 / 3, f1=0.8, support=3),
        ClassScore("b", precision=1 / 3, recall=0.5, f1=0.4, support=2),
        ClassScore("c", precision=0.0, recall=0.0, f1=0.0, support=1),
    ]
    assert macro_f1(gold, predicted, ["a", "b", "c"]) == pytest.approx(0.4)


def test_a_class_that_never_occurs_counts_as_zero() -> None:
    assert class_scores(["a"], ["a"], ["b"]) == [ClassScore("b", precision=0.0, recall=0.0, f1=0.0, support=0)]
    assert macro_f1(["a", "a"], ["a", "a"], ["a", "b"]) == 0.5


def test_scores_come_in_the_order_of_the_labels() -> None:
    assert [score.label for score in class_scores(["a", "b"], ["a", "b"], ["b", "a"])] == ["b", "a"]


def test_labels_that_end_in_a_null_are_not_confused() -> None:
    assert accuracy(["a\0"], ["a"]) == 0.0


@given(PAIRS)
def test_accuracy_agrees_with_scikit_learn(pairs: list[tuple[str, str]]) -> None:
    gold, predicted = zip(*pairs, strict=True)
    assert accuracy(gold, predicted) == pytest.approx(accuracy_score(gold, predicted))


@given(PAIRS, st.lists(st.sampled_from((*LABELS, "absent")), min_size=1, unique=True))
def test_macro_f1_agrees_with_scikit_learn(pairs: list[tuple[str, str]], labels: list[str]) -> None:
    gold, predicted = zip(*pairs, strict=True)
    expected = f1_score(gold, predicted, labels=labels, average="macro", zero_division=0)
    assert macro_f1(gold, predicted, labels) == pytest.approx(expected)


@given(PAIRS)
def test_class_scores_agree_with_scikit_learn(pairs: list[tuple[str, str]]) -> None:
    gold, predicted = zip(*pairs, strict=True)
    ours = [(s.precision, s.recall, s.f1, s.support) for s in class_scores(gold, predicted, LABELS)]
    theirs = precision_recall_fscore_support(gold, predicted, labels=LABELS, zero_division=0)
    for mine, other in zip(ours, zip(*theirs, strict=True), strict=True):
        assert mine == pytest.approx(other)


def test_unequal_lengths_are_refused() -> None:
    with pytest.raises(ValueError, match=r"^There are 2 gold labels but 1 predicted ones\. Give one each\.$"):
        accuracy(["a", "b"], ["a"])
    with pytest.raises(ValueError, match=r"^There are 0 gold labels but 1 predicted ones\. Give one each\.$"):
        macro_f1([], ["a"], ["a"])


def test_nothing_to_score_is_refused() -> None:
    with pytest.raises(ValueError, match=r"^There are no labels to score\. Give at least one example\.$"):
        accuracy([], [])
    with pytest.raises(ValueError, match=r"^There are no labels to score\. Give at least one example\.$"):
        class_scores([], [], ["a"])


def test_no_classes_are_refused() -> None:
    with pytest.raises(ValueError, match=r"^There are no classes to score\. Give the labels of the corpus\.$"):
        macro_f1(["a"], ["a"], [])


def test_a_class_given_twice_is_refused() -> None:
    with pytest.raises(ValueError, match=r"^Each class counts once, but these labels come twice: a\.$"):
        macro_f1(["a"], ["a"], ["a", "b", "a"])


def test_metrics_stand_on_the_predictors_side_of_the_wall() -> None:
    command = "import fresh.metrics.classification, sys; print('fresh.document' in sys.modules)"
    result = subprocess.run([sys.executable, "-c", command], capture_output=True, text=True, check=True)
    assert result.stdout.strip() == "False"
