import itertools
import statistics

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fresh.experiments.figures import _best_probabilities, _expected_best, expected_curve

scores = st.lists(st.sampled_from((0.0, 0.25, 0.5, 0.75, 1.0)) | st.floats(0, 1), min_size=1, max_size=5)


@given(scores, st.integers(1, 5))
def test_it_is_the_mean_over_all_draws(values: list[float], n_trials: int) -> None:
    drawn = itertools.product(values, repeat=n_trials)
    assert _expected_best(values, n_trials) == pytest.approx(statistics.fmean(max(draw) for draw in drawn))


@given(scores)
def test_a_curve_rises_from_the_mean_towards_the_best(values: list[float]) -> None:
    curve = expected_curve(values)
    assert len(curve) == len(values)
    assert curve[0] == pytest.approx(statistics.fmean(values))
    assert all(later >= earlier - 1e-12 for earlier, later in itertools.pairwise(curve))
    assert curve[-1] <= max(values) + 1e-12


@given(scores, st.integers(1, 50))
def test_chances_are_those_of_something_that_must_happen(values: list[float], n_trials: int) -> None:
    best, chances = _best_probabilities(values, n_trials)
    assert best.tolist() == sorted(set(values))
    assert chances.min() >= 0
    assert chances.sum() == pytest.approx(1)


@given(scores, st.integers(1, 9))
def test_the_order_of_trials_does_not_matter(values: list[float], n_trials: int) -> None:
    assert _expected_best(sorted(values), n_trials) == _expected_best(values[::-1], n_trials)


def test_two_scores_by_hand() -> None:
    assert expected_curve([0.2, 0.8]) == pytest.approx([0.5, 0.25 * 0.2 + 0.75 * 0.8])


@pytest.mark.parametrize(
    ("values", "n_trials", "told"),
    [
        ([], 1, "There are no scores to draw from. Give those of at least one trial."),
        ([0.5], 0, "A search has at least one trial, got 0."),
        ([0.5, float("nan")], 1, "Scores must be finite numbers. Leave failed trials out."),
    ],
)
def test_what_cannot_be_drawn_from_is_refused(values: list[float], n_trials: int, told: str) -> None:
    with pytest.raises(ValueError, match=f"^{told}$"):
        _expected_best(values, n_trials)
