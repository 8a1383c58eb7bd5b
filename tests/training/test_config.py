import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fresh.config import from_mapping
from fresh.errors import ConfigError
from fresh.training.config import TrainConfig


def test_a_linear_schedule_rises_for_a_tenth_and_then_falls() -> None:
    config = TrainConfig(epochs=4, schedule="linear")
    # Middles of steps: .1 and .3 epochs of .4 up, then 3.6 down.
    assert config.rate_factors(0, 5)[:2] == pytest.approx([0.25, 0.75])
    assert config.rate_factors(2, 5) == pytest.approx([(4 - done) / 3.6 for done in (2.1, 2.3, 2.5, 2.7, 2.9)])
    assert config.rate_factors(3, 1) == pytest.approx([0.5 / 3.6])


@given(st.integers(1, 50), st.integers(1, 30))
def test_factors_are_between_0_and_1(epochs: int, n_steps: int) -> None:
    config = TrainConfig(epochs=epochs, schedule="linear")
    factors = np.concatenate([config.rate_factors(epoch, n_steps) for epoch in range(epochs)])
    assert ((factors >= 0) & (factors <= 1)).all()
    peak = factors.argmax()
    assert (np.diff(factors[: peak + 1]) >= 0).all()
    assert (np.diff(factors[peak:]) <= 0).all()
    assert TrainConfig(epochs=epochs).rate_factors(0, n_steps) == [1] * n_steps


def test_clipping_can_be_turned_off() -> None:
    assert from_mapping(TrainConfig, {"max_grad_norm": "inf"}).max_grad_norm == math.inf
    with pytest.raises(ConfigError, match=r"max_grad_norm must be above 0, got nan"):
        from_mapping(TrainConfig, {"max_grad_norm": "nan"})


def test_invalid_settings_are_refused() -> None:
    with pytest.raises(ValueError, match=r"epochs must be at least 1, got 0.*\npatience must be at least 1"):
        TrainConfig(epochs=0, patience=0)
