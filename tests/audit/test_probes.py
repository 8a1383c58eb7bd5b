import warnings

import numpy as np
import pytest
from sklearn.linear_model import LogisticRegression
from sklearn.tree import DecisionTreeClassifier

from fresh.audit.probes import (
    Codes,
    Traces,
    _balanced_accuracy,
    _guess_linear,
    _guess_tree,
    _regress,
    _Round,
    folds,
    measure,
)


def some(n_masks: int, n_labels: int, seed: int) -> tuple[Traces, Codes]:
    """Traces that say a little about their labels: whole numbers, shares, and one that never changes."""
    generator = np.random.default_rng(seed)
    codes = np.concatenate([np.arange(n_labels).repeat(10), generator.integers(n_labels, size=n_masks - 10 * n_labels)])
    counts = generator.integers(9, size=(n_masks, 3)) + (codes % 2)[:, None] * (generator.random((n_masks, 1)) < 0.3)
    plain = np.hstack([counts, generator.random((n_masks, 4)), np.ones((n_masks, 1))])
    return Traces.of(plain, (counts[:, :1] == np.arange(5)).astype(np.float64)), codes


def slow_scores(traces: Traces, given: _Round) -> tuple[float, float]:
    """Guess with scikit-learn's classifiers, by the front door."""
    weights = 1 / np.bincount(given.codes)[given.codes]
    guesses = np.zeros((2, len(given.codes)), dtype=np.int64)
    for part in range(3):
        held = given.parts == part
        own = weights[~held] / weights[~held].mean()
        linear = LogisticRegression(C=0.1, tol=1e-2)
        tree = DecisionTreeClassifier(max_depth=4, min_samples_leaf=5, random_state=0)
        for row, model, seen in ((0, linear, traces.scaled), (1, tree, traces.plain)):
            guesses[row, held] = model.fit(seen[~held], given.codes[~held], own).predict(seen[held])
    return _balanced_accuracy(given.codes, guesses[0]), _balanced_accuracy(given.codes, guesses[1])


@pytest.mark.parametrize("n_labels", [2, 3, 7])
@pytest.mark.parametrize("seed", [0, 1, 2])
def test_guesses_are_those_of_scikit_learn(n_labels: int, seed: int) -> None:
    traces, codes = some(240, n_labels, seed)
    given = _Round(codes, folds(codes, np.random.default_rng(seed)))
    expected = slow_scores(traces, given)
    assert (_guess_linear(traces.scaled, given), _guess_tree(traces.plain, given)) == expected


@pytest.mark.parametrize("n_labels", [2, 4])
def test_a_regression_has_the_weights_of_scikit_learn(n_labels: int) -> None:
    traces, codes = some(200, n_labels, seed=5)
    weights = np.random.default_rng(1).random(200) + 0.5
    slopes, offsets = _regress(traces.scaled, codes, weights)
    expected = LogisticRegression(C=0.1, tol=1e-2).fit(traces.scaled, codes, weights)
    if n_labels == 2:  # there one label has no weights of its own
        slopes, offsets = slopes[1:] - slopes[:1], offsets[1:] - offsets[:1]
    assert slopes == pytest.approx(expected.coef_, abs=1e-9)
    assert offsets[:, 0] == pytest.approx(expected.intercept_, abs=1e-9)


def test_shuffled_labels_are_drawn_and_guessed_in_the_same_way() -> None:
    traces, codes = some(120, 3, seed=3)
    found = measure(traces, codes, 99, seed=4)
    generator = np.random.default_rng(4)
    true = slow_scores(traces, _Round(codes, folds(codes, generator)))
    scores: list[float] = []
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for _ in range(99):
            shuffled = generator.permutation(codes)
            scores.append(max(slow_scores(traces, _Round(shuffled, folds(shuffled, generator)))))
    p = (1 + sum(score >= max(true) for score in scores)) / 100
    assert found == (*true, float(np.mean(scores)), float(np.percentile(scores, 95)), p)
