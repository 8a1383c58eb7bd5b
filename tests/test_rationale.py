import pytest

from fresh.rationale import Prediction, Rationale


def test_rationales_compare_by_words_and_query_not_by_id() -> None:
    assert Rationale(("good",), ("why",), "a") == Rationale(("good",), ("why",), "b")
    assert hash(Rationale(("good",), (), "a")) == hash(Rationale(("good",), (), "b"))
    assert Rationale(("good",)) != Rationale(("bad",))
    assert Rationale(("good",)) != Rationale(("good",), ("why",))
    assert Rationale(("a", "b")) != Rationale(("b", "a"))


def test_a_label_without_a_probability_is_refused() -> None:
    with pytest.raises(ValueError, match=r"^Label 'pos' has no probability\. There are: neg, mixed\.$"):
        Prediction("pos", {"neg": 0.5, "mixed": 0.5})


def test_probabilities_cannot_be_changed() -> None:
    given = {"neg": 0.25, "pos": 0.75}
    prediction = Prediction("pos", given)
    given["pos"] = 0.0
    assert prediction.probability == 0.75
    with pytest.raises(TypeError):
        prediction.probabilities["pos"] = 0.0  # type: ignore[index]
