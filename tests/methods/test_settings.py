"""Numbers that are none, and settings that nothing asks for."""

import math
import re
from collections.abc import Mapping
from typing import Any

import pytest

from fresh.config import check_above, check_min, from_mapping
from fresh.errors import ConfigError
from fresh.methods.config import FreshConfig
from fresh.methods.gate_config import BastingsConfig, LeiConfig
from fresh.methods.registry import METHODS
from fresh.pipeline import resolve_settings
from fresh.training.config import TrainConfig


@pytest.mark.parametrize("value", [math.inf, -math.inf, math.nan])
def test_endless_numbers_and_no_numbers_are_named(value: float) -> None:
    assert list(check_min(2, x=value, y=2)) == [f"x must be a finite number of at least 2, got {value}."]
    assert list(check_above(2, x=value, y=3)) == [f"x must be a finite number above 2, got {value}."]


def test_finite_numbers_are_judged_by_their_size() -> None:
    assert list(check_min(2, x=1, y=2)) == ["x must be at least 2, got 1."]
    assert list(check_above(2, x=2, y=2.5)) == ["x must be above 2, got 2."]


FLOATS = [
    (method, path)
    for method, about in METHODS.items()
    for path in [
        "train.learning_rate",
        "train.weight_decay",
        "train.engine.frozen_gb",
        "network.dropout",
        *(["lambda_1"] if about.config is LeiConfig else []),
        *(["lambda_2", "human", "ratio", "cutoff"] if about.config in (LeiConfig, BastingsConfig) else []),
        *(["tagging.human", "ratio", "minimum"] if about.config is FreshConfig else []),
        *(
            ["lagrange_start", "lagrange_rate", "lagrange_square", "lagrange_decay"]
            if about.config is BastingsConfig
            else []
        ),
    ]
]


@pytest.mark.parametrize(("method", "path"), FLOATS)
@pytest.mark.parametrize("value", ["inf", "-inf", "nan"])
def test_no_method_takes_them(method: str, path: str, value: str) -> None:
    more = {"discretizer": "threshold"} if path == "cutoff" else {}
    more |= {"discretizer": "global_top_k"} if path == "minimum" else {}
    with pytest.raises(
        ConfigError, match=rf"{re.escape(path.rpartition('.')[2])} must be .*, got '?{value}'?\."
    ) as error:
        from_mapping(METHODS[method].config, {path: value, **more})
    assert "Traceback" not in str(error.value)


def test_gradients_may_stay_as_they_are() -> None:
    assert from_mapping(TrainConfig, {"max_grad_norm": "inf"}).max_grad_norm == math.inf
    with pytest.raises(ConfigError, match=r"^max_grad_norm must be above 0, got nan\.$"):
        from_mapping(TrainConfig, {"max_grad_norm": "nan"})


@pytest.mark.parametrize(
    ("settings", "told"),
    [
        (
            {"scorer": "attention", "steps": 50},
            "steps is a setting of the scorer integrated_gradients, not of attention.",
        ),
        ({"samples": 50}, "samples is a setting of the scorer lime and kernel_shap, not of attention_gradient."),
        ({"scoring.embeddings": "whole"}, "embeddings is a setting of the scorer gradient, not of attention_gradient."),
        ({"cutoff": 0.5}, "cutoff is a setting of the discretizer threshold, not of top_k."),
        (
            {"discretizer": "threshold", "ratio": 0.3},
            "ratio is a setting of the discretizer top_k and contiguous and global_top_k and global_contiguous, not of "
            "threshold.",
        ),
        (
            {"method": "lei", "minimum": 0.1},
            "minimum is a setting of the discretizer global_top_k and global_contiguous",
        ),
        (
            {"method": "bastings", "two_sided": False, "lagrange_square": 2},
            "lagrange_square has no effect with two_sided=false: leave it out, or take two_sided=true.",
        ),
        (
            {"frozen": "off", "train.engine.frozen_gb": 2},
            "frozen_gb has no effect with frozen=off: leave it out, or take frozen=auto.",
        ),
        ({"method": "bastings", "samples": 50}, "samples is a setting of fresh, not of the method bastings."),
    ],
)
def test_a_setting_that_nothing_asks_for_is_refused(settings: Mapping[str, Any], told: str) -> None:
    with pytest.raises(ConfigError, match=re.escape(told)):
        resolve_settings([], None, None, settings)


@pytest.mark.parametrize(
    "settings",
    [
        {"scorer": "integrated_gradients", "steps": 50},
        {"scorer": "lime", "samples": 50, "ratio": 0.3},
        {"scorer": "attention", "layer": -2},
        {"seed": 5},
        {"frozen_gb": 2},
        {"method": "bastings", "lagrange_square": 2},
        {"discretizer": "threshold", "cutoff": 0.5},
        {"discretizer": "global_top_k", "minimum": 0.1, "ratio": 0.3},
        {"method": "lei", "lambda_1": 0.1, "ratio": 0.3},
    ],
)
def test_a_setting_that_is_asked_for_is_taken(settings: Mapping[str, Any]) -> None:
    assert resolve_settings([], None, None, settings).config.method == settings.get("method", "fresh")
