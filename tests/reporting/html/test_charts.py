import pytest
from hypothesis import given
from hypothesis import strategies as st

from fresh.reporting.html.charts import Axis, tenths_around


@given(st.lists(st.floats(0, 1), min_size=1, max_size=5))
def test_tenths_hold_all_shares(values: list[float]) -> None:
    low, high = tenths_around(values)
    assert 0 <= low <= min(values) + 1e-9
    assert max(values) - 1e-9 <= high <= 1
    assert low < high
    assert [low * 10, high * 10] == pytest.approx([round(low * 10), round(high * 10)])


@pytest.mark.parametrize(
    ("values", "expected"),
    [
        ([-0.045, 0.0, 0.246], (-0.1, 0.3)),
        ([0.3, 0.7], (0.3, 0.7)),
        ([0.0], (0.0, 0.1)),
        ([0.5, 0.5], (0.5, 0.6)),
        ([1.0], (0.9, 1.0)),
    ],
)
def test_tenths_are_the_nearest(values: list[float], expected: tuple[float, float]) -> None:
    assert tenths_around(values) == expected


@given(st.integers(-10, 9), st.integers(1, 20))
def test_ticks_are_few_and_lie_within(first: int, width: int) -> None:
    low, high = first / 10, (first + width) / 10
    chosen = Axis(low, high, 0, 1).ticks
    assert 2 <= len(chosen) <= 7
    assert low - 1e-9 <= chosen[0] < chosen[-1] <= high + 1e-9


def test_a_value_outside_an_axis_goes_to_its_edge() -> None:
    axis = Axis(0.5, 1.0, 100, 0)
    assert [axis.at(value) for value in (0.0, 0.5, 0.75, 1.0, 2.0)] == [100, 100, 50, 0, 0]
