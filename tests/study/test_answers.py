import pytest
from hypothesis import given
from hypothesis import strategies as st

from fresh.study.answers import Answer, majority_score, median_seconds


def test_answers_stay_on_their_scales() -> None:
    with pytest.raises(ValueError) as caught:  # noqa: PT011  # all lines are compared
        Answer("pos", 5, True, -1)
    assert str(caught.value).splitlines() == [
        "confidence must be a whole number from 1 (not confident) to 4 (very confident), got 5.",
        "readability must be a whole number from 1 (very difficult) to 5 (very easy), got True.",
        "milliseconds must be a whole number from 0 to 604,800,000 (a week), got -1.",
    ]


@given(st.lists(st.integers(1, 10**6), min_size=1), st.integers(0, 5))
def test_unmeasured_times_are_ignored(times: list[int], n_unmeasured: int) -> None:
    assert median_seconds([*times, *[0] * n_unmeasured]) == median_seconds(times)
    assert median_seconds([0] * n_unmeasured) is None


@pytest.mark.parametrize(
    ("labels", "gold", "score"),
    [("aab", "a", 1), ("aab", "b", 0), ("ab", "b", 0.5), ("abc", "c", 1 / 3), ("ab", "c", 0)],
)
def test_ties_score_their_expected_value(labels: str, gold: str, score: float) -> None:
    assert majority_score(list(labels), gold) == pytest.approx(score)
