import pickle
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from sklearn.base import clone
from sklearn.exceptions import DataConversionWarning, NotFittedError
from sklearn.model_selection import GridSearchCV
from sklearn.pipeline import Pipeline
from sklearn.preprocessing import FunctionTransformer

import fresh.methods.fresh
import small
from fresh.data.splits import Splits
from fresh.document import Document
from fresh.errors import DataError
from fresh.sklearn import PARAMETERS, FreshClassifier

LABELS = ["pos", "neg"] * 12
"""Of the first documents of the toy corpus."""


@pytest.fixture(scope="module")
def texts(toy: Splits) -> list[str]:
    return [example.document.text for example in toy.train[:24]]


@pytest.fixture(scope="module")
def settings(encoders: dict[str, Path]) -> dict[str, Any]:
    return small.settings(encoders["bert"], epochs=1)


@pytest.fixture(scope="module")
def fitted(toy: Splits, encoders: dict[str, Path]) -> FreshClassifier:
    """A classifier that has learned which words decide."""
    examples = [*toy.train, *toy.dev]
    classifier = FreshClassifier(**small.settings(encoders["bert"], epochs=6, batch_size=16, learning_rate=3e-3))
    assert classifier.fit([e.document.text for e in examples], [e.label for e in examples]) is classifier
    return classifier


def test_predictions(fitted: FreshClassifier, toy: Splits) -> None:
    assert fitted.score([e.document.text for e in toy.test], [e.label for e in toy.test]) > 0.9


def test_probabilities_are_in_the_order_of_the_classes(fitted: FreshClassifier, texts: list[str]) -> None:
    assert fitted.classes_.tolist() == ["neg", "pos"]
    table = fitted.predict_proba(texts)
    assert table.shape == (24, 2)
    assert np.allclose(table.sum(1), 1)
    explained = fitted.explain(texts)
    assert table[:, 1].tolist() == [item.prediction.probabilities["pos"] for item in explained]
    assert fitted.predict(texts).tolist() == [item.prediction.label for item in explained]
    assert explained[3].document == Document.from_text(texts[3], id="3")
    assert fitted.predict_proba([]).shape == (0, 2)
    assert fitted.predict([]).tolist() == []


def test_labels_may_be_numbers_and_the_scorer_a_class(texts: list[str], settings: dict[str, Any]) -> None:
    numbers = [7 if label == "pos" else -1 for label in LABELS]
    fitted = FreshClassifier(scorer=small.LongWords, **settings).fit(texts, numbers)
    [explanation] = fitted.explain(["the longest film was"])
    assert explanation.rationale.words == ("longest",)
    assert fitted.classes_.tolist() == [-1, 7]
    found = fitted.predict(texts)
    assert found.dtype == np.array(numbers).dtype
    assert found.tolist() == [[-1, 7][number] for number in fitted.predict_proba(texts).argmax(1)]


def test_documents_may_be_pairs_with_a_query(toy_pairs: Splits, settings: dict[str, Any]) -> None:
    examples = toy_pairs.train[:48]
    pairs = [(e.document.text, " ".join(e.document.query)) for e in examples]
    fitted = FreshClassifier(**settings).fit(pairs, [e.label for e in examples])
    [found] = fitted.explain(pairs[:1])
    assert found.rationale.query == examples[0].document.query
    assert fitted.predict(np.array(pairs[:3])).shape == (3,)


def test_parameters_are_read_set_and_cloned() -> None:
    classifier = FreshClassifier(ratio=0.3, scorer="gradient")
    assert classifier.get_params() == {**PARAMETERS, "ratio": 0.3, "scorer": "gradient"}
    assert classifier.set_params(ratio=0.1, epochs=3).ratio == 0.1
    copy = clone(classifier)
    assert copy is not classifier
    assert copy.get_params() == classifier.get_params()


def test_wrong_parameters_are_refused(texts: list[str]) -> None:
    with pytest.raises(TypeError, match=r"ration is not a parameter.*Did you mean ratio\?"):
        FreshClassifier(ration=0.1)
    with pytest.raises(ValueError, match=r"ratio must be in \(0, 1\], got 2\.0"):
        FreshClassifier(ratio=2).fit(texts, LABELS)


@pytest.mark.parametrize("method", ["predict", "predict_proba", "explain"])
def test_fit_comes_first(method: str) -> None:
    with pytest.raises(NotFittedError, match="This FreshClassifier instance is not fitted yet"):
        getattr(FreshClassifier(), method)(["a film"])


@pytest.mark.parametrize(
    ("documents", "labels", "message"),
    [
        (["a"], ["x", "y"], "got 2 for 1"),
        (["a", 3], ["x", "y"], "Document 1 must be a text or a pair of a text and a query, got 3"),
        (["a", "b"], np.eye(2, dtype=int), r"y should be a 1d array, got an array of shape \(2, 2\)"),
        (["a", "b"], pd.DataFrame({"one": ["x", "y"], "two": ["y", "x"]}), r"1d array, got an array of shape \(2, 2\)"),
        (["a", "b"], "xy", "1d array, got an array of shape"),
        (["a", "b"], [["x"], ["y", "z"]], "inhomogeneous"),
        (["a", "b"], [{"x"}, {"y", "z"}], "one label for each document. For several, fit one classifier for each"),
        (["a", "b"], pd.Series([["x"], ["y"]]), "one label for each document"),
        (["a", "b"], np.array([None, "x"], dtype=object), "Some labels are missing"),
        (["a", "b"], np.array([float("nan"), "x"], dtype=object), "Some labels are missing"),
        (["a film"] * 8, ["x"] * 8, "All 7 training examples have the label 'x'"),
        ("a film", ["x"], "X must be a list of texts or one column, got str"),
        (pd.DataFrame({"text": ["a film"]}), ["x"], "X must be a list of texts or one column, got DataFrame"),
    ],
)
def test_bad_data_is_refused(documents: Any, labels: Any, message: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(fresh.methods.fresh, "_train_all", lambda *_given: pytest.fail("trained"))
    with pytest.raises((DataError, ValueError), match=message):
        FreshClassifier().fit(documents, labels)


def test_a_column_of_labels_is_flattened_with_a_warning(texts: list[str], settings: dict[str, Any]) -> None:
    with pytest.warns(DataConversionWarning, match=r"^A column-vector y was passed when a 1d array was expected\."):
        fitted = FreshClassifier(**settings).fit(texts, pd.DataFrame({"label": LABELS}))
    plain = FreshClassifier(**settings).fit(texts, LABELS)
    assert fitted.predict_proba(texts).tolist() == plain.predict_proba(texts).tolist()


def test_a_pipeline(texts: list[str], settings: dict[str, Any]) -> None:
    lower = FunctionTransformer(lambda items: [item.lower() for item in items])
    pipeline = Pipeline([("lower", lower), ("fresh", FreshClassifier(**settings))])
    pipeline.set_params(fresh__ratio=0.5).fit([text.upper() for text in texts], LABELS)
    [found] = pipeline["fresh"].explain(["a b c d"])
    assert found.mask.ratio == 0.5
    assert pipeline.predict(["THE FILM"]).tolist() == pipeline["fresh"].predict(["the film"]).tolist()


def test_a_grid_search(texts: list[str], settings: dict[str, Any]) -> None:
    grid = {"ratio": [0.2, 0.5], "scorer": ["gradient", "random"]}
    search = GridSearchCV(FreshClassifier(**settings), grid, cv=2, error_score="raise").fit(texts, LABELS)
    assert len(search.cv_results_["params"]) == 4
    assert set(search.best_params_) == {"ratio", "scorer"}
    kept = search.best_estimator_.explain(["a b c d e f g h i j"])[0].mask.ratio
    assert kept == search.best_params_["ratio"]


def test_a_fitted_classifier_can_be_pickled(fitted: FreshClassifier, texts: list[str]) -> None:
    texts = [*texts, "a good [SEP] film"]
    copy = pickle.loads(pickle.dumps(fitted))  # noqa: S301
    assert copy.get_params() == fitted.get_params()
    assert copy.predict_proba(texts).tolist() == fitted.predict_proba(texts).tolist()
    assert [item.mask for item in copy.explain(texts)] == [item.mask for item in fitted.explain(texts)]
