"""Settings of methods: what is refused, and why."""

import math
import re
from collections.abc import Mapping
from contextlib import nullcontext
from typing import Any, get_args, get_type_hints

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fresh.config import from_mapping, list_settings
from fresh.errors import ConfigError
from fresh.methods.config import (
    METHODS,
    BastingsConfig,
    CutConfig,
    FreshConfig,
    LeiConfig,
    Range,
    RunConfig,
    TaggerConfig,
    settings_of_methods,
)
from fresh.pipeline import resolve_settings
from fresh.selection.discretizers import TopK
from strategies import ratios

# Numbers


GATE = ("lambda_2", "human", "ratio", "cutoff")
OWN = {
    FreshConfig: ("tagging.human", "ratio", "minimum"),
    LeiConfig: ("lambda_1", *GATE),
    BastingsConfig: ("lagrange_start", "lagrange_rate", "lagrange_square", "lagrange_decay", *GATE),
}
SHARED = ("train.learning_rate", "train.weight_decay", "network.dropout")


@pytest.mark.parametrize(
    ("method", "path"), [(method, path) for method, kind in METHODS.items() for path in (*SHARED, *OWN.get(kind, ()))]
)
@pytest.mark.parametrize("value", ["inf", "-inf", "nan"])
def test_no_method_takes_infinite_numbers(method: str, path: str, value: str) -> None:
    more = {"cutoff": {"discretizer": "threshold"}, "minimum": {"discretizer": "global_top_k"}}.get(path, {})
    with pytest.raises(ConfigError, match=rf"{path.rpartition('.')[2]} must be .*, got '?{value}'?\."):
        from_mapping(METHODS[method], {path: value, **more})


# Ranges of ratios


@given(ratios(), ratios(), st.integers(2, 40))
def test_ratios_are_spread_from_the_lowest_to_the_highest(one: float, other: float, n: int) -> None:
    if one == other:
        return
    span = Range(*sorted((one, other)))
    spread = span.spread(n)
    assert len(spread) == n
    assert spread == sorted(spread)
    assert span.low <= spread[0] <= spread[-1] <= span.high
    assert [spread[0], spread[-1]] == pytest.approx([*span], abs=1e-4)
    assert span.low <= span.middle <= span.high


def test_the_middle_is_the_geometric_mean() -> None:
    assert Range(0.05, 0.2).middle == 0.1
    assert CutConfig(ratio="0.05:0.2").make_discretizer() == TopK(0.1)
    assert CutConfig(ratio="0.05:0.2").make_discretizer(0.07) == TopK(0.07)
    assert from_mapping(FreshConfig, {"ratio": "0.3"}).make_discretizer() == TopK(0.3)
    assert from_mapping(FreshConfig, {"ratio": "0.3"}).ratios is None


NOT_NUMBERS, WRONG_WAY, NOT_A_RATIO = "number, or two", "smaller number to a larger", "ratio must be"


@pytest.mark.parametrize(
    ("ratio", "discretizer", "message"),
    [
        *((ratio, "top_k", WRONG_WAY) for ratio in ("0.5:0.05", "0.2:0.2", "nan:0.2")),
        *((ratio, "top_k", NOT_NUMBERS) for ratio in ("low:high", "0.1:", "0.1:0.2:0.3", "much")),
        *((ratio, "contiguous", NOT_A_RATIO) for ratio in ("0:0.5", "-0.2:-0.1", "0.5:1.5")),
        *(("0.05:0.5", name, rf"range.*top_k.*contiguous.*{name}") for name in ("global_top_k", "threshold")),
    ],
)
def test_an_invalid_range_is_refused(ratio: str, discretizer: str, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        CutConfig(ratio=ratio, discretizer=discretizer)
    with pytest.raises(ConfigError, match=message):
        from_mapping(FreshConfig, {"ratio": ratio, "discretizer": discretizer})


# Invalid settings


@pytest.mark.parametrize(
    ("kind", "settings", "message"),
    [
        *((TaggerConfig, {"tagger": True, "human": v}, rf"human.*\[0, 1\].*{v}") for v in (-0.1, 1.5, math.nan)),
        (TaggerConfig, {"crf": True}, r"^Only a tagger takes crf: choose tagger=True"),
        (TaggerConfig, {"crf": True, "human": 0.2}, r"^Only a tagger takes crf and human"),
        (TaggerConfig, {"distil": True, "human": 0.2}, r"distil learns from the scorer alone.*tagger=True"),
        (TaggerConfig, {"human": 2}, r"human.*\[0, 1\].*2\.0\.\nOnly a tagger takes human"),
        (FreshConfig, {"folds": 0}, r"folds must be at least 1, got 0"),
        (FreshConfig, {"folds": 2, "scorer": "random"}, r"folds has no effect with scorer=random"),
        (FreshConfig, {"folds": 2, "predictor": "independent"}, r"folds has no effect with predictor=independent"),
        (FreshConfig, {"long": "truncate", "predictor": "independent"}, r"^predictor=independent.*long=chunk"),
        (LeiConfig, {"predictor": "independent"}, r"predictor"),
        (FreshConfig, {"discretizer": "threshold", "tagger": True}, r"No cutoff serves both a tagger.* than threshold"),
        (FreshConfig, {"scorer": "random", "long": "truncate"}, r"whole documents.*long=chunk"),
        (FreshConfig, {"scorer": "random", "tagger": True}, r"tagger cannot learn to find random words"),
        (FreshConfig, {"scorer": "random", "distil": True}, r"tagger cannot learn to find random words"),
        (FreshConfig, {"long": "chunk", "layer": -2}, r"layer must be -1 with long=chunk"),
        (FreshConfig, {"scorer": "attention", "layer": "all"}, r"layer=all.*attention_shift or .*attention_gradient"),
        (FreshConfig, {"scorer": "gradeint", "ratio": 2, "folds": -1}, r"gradeint is no.*\?\nratio must.*\nfolds must"),
        (BastingsConfig, {"lagrange_start": 0}, r"lagrange_start must be above 0, got 0"),
        (BastingsConfig, {"lagrange_rate": -1}, r"lagrange_rate must be above 0, got -1"),
        (BastingsConfig, {"lagrange_decay": 1}, r"lagrange_decay must be in \[0, 1\), got 1"),
        (BastingsConfig, {"lambda_2": -1}, r"lambda_2 must be at least 0, got -1"),
        (BastingsConfig, {"human": 2}, r"human must be in \[0, 1\], got 2"),
        (BastingsConfig, {"discretizer": "threshold"}, r"top_k or discretizer=contiguous, got threshold"),
        (BastingsConfig, {"ratio": "0.1:0.5"}, r"range of ratios needs method=fresh"),
        (BastingsConfig, {"ratio": 0}, r"ratio must be"),
    ],
)
def test_invalid_settings_are_refused(kind: type, settings: dict[str, Any], message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        from_mapping(kind, settings)


def test_a_tagger_can_learn_from_people_alone() -> None:
    assert FreshConfig(scorer="random", tagging=TaggerConfig(tagger=True, human=1)).tagging.has_tagger


@pytest.mark.parametrize(("two_sided", "given", "rate"), [(True, None, 0.001), (False, None, 0.01), (False, 0.5, 0.5)])
def test_the_rate_of_the_multiplier(two_sided: bool, given: float | None, rate: float) -> None:
    assert BastingsConfig(two_sided=two_sided, lagrange_rate=given).rate == rate


# Names


def test_every_method_has_settings() -> None:
    assert get_args(get_type_hints(RunConfig)["method"]) == tuple(METHODS)
    for name, kind in METHODS.items():
        assert type(resolve_settings("x.csv", None, None, {"method": name}).method) is kind
        names = [setting.name for config in (RunConfig, kind) for setting in list_settings(config)]
        assert sorted(names) == sorted(set(names))  # a name means one setting
    listed = settings_of_methods()
    assert listed["human"][1] == ["fresh", "lei", "bastings"]
    assert listed["epochs"][1] == list(METHODS)
    assert all(setting.help.endswith(".") for setting, _ in listed.values())


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"method": "basting"}, "basting is not a method. Did you mean bastings?"),
        ({"lambda_1": 0.1}, "lambda_1 is a setting of lei, not of the method fresh."),
        ({"method": "bastings", "lambda_1": 0.1}, "lambda_1 is a setting of lei, not of the method bastings."),
        ({"method": "lei", "lagrange_rate": 1}, "lagrange_rate is a setting of bastings, not of the method lei."),
        ({"lambda_2": 1}, "lambda_2 is a setting of lei and bastings, not of the method fresh."),
        ({"method": "lei", "tagging.crf": True}, "tagging.crf is a setting of fresh, not of the method lei."),
        ({"method": "lei", "scorer": "gradient"}, "scorer is a setting of fresh, not of the method lei."),
        ({"method": "lei", "lambda_3": 1}, "lambda_3 is not a setting. Did you mean lambda_2?"),
        ({"method": "human", "encoderr": "x"}, "encoderr is not a setting. Did you mean encoder?"),
        ({"scorer": "attention", "steps": 50}, "steps is a setting of the scorer integrated_gradients, not of att"),
        ({"samples": 50}, "samples is a setting of the scorer lime and kernel_shap, not of attention_gradient."),
        ({"scorer": "gradient", "evidence": "both"}, "lime and kernel_shap, not of gradient."),
        ({"scorer": "attention", "evidence": "both"}, "evidence is a setting of the scorer attention_gradient, att"),
        ({"scorer": "random", "scoring.evidence": "for"}, "evidence is a setting of the scorer attention_gradient, "),
        ({"method": "lei", "evidence": "both"}, "evidence is a setting of fresh, not of the method lei."),
        ({"evidence": "against"}, "evidence must be 'for' or 'both', got 'against'"),
        ({"evidence": "both"}, None),
        ({"scorer": "occlusion", "evidence": "both"}, None),
        ({"scoring.embeddings": "whole"}, "embeddings is a setting of the scorer gradient, not of attention_gradient."),
        ({"cutoff": 0.5}, "cutoff is a setting of the discretizer threshold, not of top_k."),
        ({"discretizer": "threshold", "ratio": 0.3}, "global_top_k and global_contiguous, not of threshold."),
        ({"method": "lei", "minimum": 0.1}, "minimum is a setting of the discretizer global_top_k and global_"),
        (
            {"method": "bastings", "two_sided": False, "lagrange_square": 2},
            "lagrange_square has no effect with two_sided=False. Leave it out, or set two_sided=True.",
        ),
        ({"method": "bastings", "samples": 50}, "samples is a setting of fresh, not of the method bastings."),
        ({"scorer": "integrated_gradients", "steps": 50}, None),
        ({"scorer": "lime", "samples": 50, "ratio": 0.3}, None),
        ({"scorer": "attention", "layer": -2}, None),
        ({"seed": 5}, None),
        ({"method": "bastings", "lagrange_square": 2}, None),
        ({"discretizer": "threshold", "cutoff": 0.5}, None),
        ({"discretizer": "global_top_k", "minimum": 0.1, "ratio": 0.3}, None),
        ({"method": "lei", "lambda_1": 0.1, "ratio": 0.3}, None),
    ],
)
def test_a_setting_without_an_effect_is_refused(settings: Mapping[str, Any], message: str | None) -> None:
    with nullcontext() if message is None else pytest.raises(ConfigError, match=re.escape(message)):
        assert resolve_settings([], None, None, settings).config.method == settings.get("method", "fresh")


def test_all_problems_are_reported_at_once() -> None:
    settings = {"method": "full_text", "ratio": 0.1, "epoch": 3, "seed": "x", "text": "label"}
    owners = "ratio is a setting of fresh, lei, bastings and random, not of the method full_text"
    with pytest.raises(ConfigError, match=rf"^{owners}.*\nepoch is not .*\n.*text and label.*\nseed must be"):
        resolve_settings([], None, None, settings)
