from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, Literal

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fresh.config import _help_texts, from_mapping, list_settings, nearest_name, parse_assignments, read_toml
from fresh.errors import ConfigError
from fresh.methods.config import METHODS, FreshConfig, RunConfig
from fresh.nn.config import NetworkConfig
from fresh.training.config import TrainConfig


@dataclass(frozen=True, slots=True)
class Inner:
    depth: int = 2
    """How deep it goes."""
    share: float = 0.5
    """How much of it,
    over two lines."""

    def __post_init__(self) -> None:
        if self.depth < 1:
            raise ValueError(f"depth must be at least 1, got {self.depth}.")


@dataclass(frozen=True, slots=True)
class Outer:
    name: str = "none"
    """What it is called."""
    kind: int | Literal["all"] = 1
    """Which kind."""
    least: float | None = None
    flag: bool = False
    inner: Inner = field(default_factory=Inner)

    def __post_init__(self) -> None:
        if not self.name:
            raise ValueError("name must not be empty.")


@dataclass(frozen=True, slots=True)
class Heir(Inner):
    share: float = 0.7
    """How much of it is left."""
    more: int = 0
    """What is new."""


def problems(config: type, values: dict[str, Any]) -> list[str]:
    with pytest.raises(ConfigError) as caught:
        from_mapping(config, values)
    return str(caught.value).splitlines()


@pytest.mark.parametrize("values", [{"depth": 3}, {"inner.depth": 3}, {"inner": {"depth": 3}}, {"depth": "3"}])
def test_the_end_of_a_path_names_a_setting(values: dict[str, Any]) -> None:
    assert from_mapping(Outer, values) == Outer(inner=Inner(depth=3))


@pytest.mark.parametrize(
    ("config", "name", "meant"),
    [
        (Outer, "epth", "Did you mean depth?"),
        (Outer, "xyzzy", "There are: name, kind, least, flag, depth, share."),
        (FreshConfig, "train.epoch", "Did you mean train.epochs?"),
        (FreshConfig, "network.epochs", "Did you mean epochs?"),
    ],
)
def test_a_name_that_is_no_setting_is_refused(config: type, name: str, meant: str) -> None:
    assert problems(config, {name: "1"}) == [f"{name} is not a setting. {meant}"]


def test_all_problems_are_reported_at_once() -> None:
    values = {"name": "", "inner": {"depth": 0, "share": "much"}, "kin": 2, "flag": "maybe"}
    assert problems(Outer, values) == [
        "share must be a number, got 'much'.",
        "kin is not a setting. Did you mean kind?",
        "flag must be true or false, got 'maybe'.",
        "depth must be at least 1, got 0.",
        "name must not be empty.",
    ]


@pytest.mark.parametrize(
    ("name", "value", "expected"),
    [
        *(("kind", "all", "all"), ("kind", "7", 7), ("kind", 3.0, 3)),
        *(("least", "1e-4", 1e-4), ("least", 1, 1.0), ("least", None, None)),
        *(("flag", "true", True), ("flag", "False", False), ("flag", True, True)),
        ("name", "12", "12"),
    ],
)
def test_values_are_converted_to_the_type_of_the_setting(name: str, value: object, expected: object) -> None:
    found = getattr(from_mapping(Outer, {name: value}), name)
    assert found == expected
    assert type(found) is type(expected)


@pytest.mark.parametrize(
    ("config", "values", "message"),
    [
        *((Outer, {"kind": value}, f"whole number or 'all', got {value!r}") for value in ("some", 1.5, True)),
        (Outer, {"kind": float("inf")}, "whole number or 'all', got inf"),
        (Outer, {"depth": "2.0"}, "depth must be a whole number, got '2.0'"),
        (Outer, {"share": [0.5]}, "share must be a number, got [0.5]"),
        (Outer, {"share": None}, "share must be a number, got None"),
        (Outer, {"flag": 1}, "flag must be true or false, got 1"),
        (Outer, {"name": 12}, "name must be text, got 12"),
        (TrainConfig, {"learning_rate": "nan"}, "learning_rate must be a finite number above 0, got nan"),
        (TrainConfig, {"weight_decay": -1}, "weight_decay must be at least 0, got -1.0"),
        (TrainConfig, {"seed": -1}, "seed must be at least 0, got -1"),
        (NetworkConfig, {"layers": -1}, "got -1"),
        (NetworkConfig, {"dropout": 1}, "got 1.0"),
        (NetworkConfig, {"max_pieces": 8}, "at least 16, got 8"),
        (NetworkConfig, {"long": "chop"}, "'stagger' or 'chunk' or 'truncate', got 'chop'"),
        (FreshConfig, {"ratio": 0}, "ratio must be in (0, 1], got 0.0"),
    ],
)
def test_a_value_that_cannot_be_used_is_refused(config: type, values: dict[str, Any], message: str) -> None:
    [problem] = problems(config, values)
    assert problem.startswith(next(iter(values)))
    assert message in problem


def test_help_is_the_string_under_a_field() -> None:
    inner = {"depth": "How deep it goes.", "share": "How much of it, over two lines."}
    assert _help_texts(Inner) == inner
    assert _help_texts(Heir) == {**inner, "share": "How much of it is left.", "more": "What is new."}
    assert [setting.help for setting in list_settings(Outer)][:3] == ["What it is called.", "Which kind.", ""]


@pytest.mark.parametrize("config", [RunConfig, *METHODS.values()])
def test_every_setting_has_a_help_text(config: type) -> None:
    assert [setting.path for setting in list_settings(config) if not setting.help.endswith(".")] == []


def test_settings_survive_a_round_trip_through_a_dict() -> None:
    config = from_mapping(FreshConfig, {"epochs": 3, "layers": "all", "minimum": 0.1, "discretizer": "global_top_k"})
    assert from_mapping(FreshConfig, asdict(config)) == config


def test_settings_files_and_assignments(tmp_path: Path) -> None:
    path = tmp_path / "run.toml"
    with pytest.raises(ConfigError, match=r"run\.toml.*cannot be read \(No such file"):
        read_toml(path)
    path.write_text("ratio = 0.3\n[train]\nepochs = 2\n", encoding="utf-8")
    assert from_mapping(FreshConfig, read_toml(path)) == FreshConfig(ratio=0.3, train=TrainConfig(epochs=2))
    for content, reason in ((b"ratio = ", "Invalid"), (b"\xff", "'utf-8'")):
        path.write_bytes(content)
        with pytest.raises(ConfigError, match=rf"run\.toml.*TOML file: {reason}"):
            read_toml(path)
    assert parse_assignments(["epochs = 3", "query=a=b", "text="]) == {"epochs": "3", "query": "a=b", "text": ""}
    with pytest.raises(ConfigError, match=r"'epochs' is not a setting.*key=value"):
        parse_assignments(["epochs"])


SETTINGS = ("epochs", "ratio", "seed", "scorer", "layer", "text", "label", "long", "method", "dropout", "samples")
NEAR = {"epoch": "epochs", "Epochs": "epochs", "n_epochs": "epochs", "learningrate": "learning_rate", "sede": "seed"}
FAR = ("lr", "corpora", "dataset", "documents", "length", "workers", "out", "name", "names", "read", "row", "k")


@pytest.mark.parametrize(("name", "meant"), [*NEAR.items(), *((name, None) for name in FAR)])
def test_a_typo_is_recognized_and_another_word_is_not(name: str, meant: str | None) -> None:
    assert nearest_name(name, (*SETTINGS, "learning_rate")) == meant


@pytest.mark.parametrize(
    ("name", "known", "meant"),
    [
        *(("sts", ("sst", "agnews"), "sst"), ("SST-2", ("sst", "agnews"), "sst"), ("stance", ("sst", "agnews"), None)),
        ("grad", ("attention_gradient", "gradient"), "gradient"),
        *(("shap", ("lime", "kernel_shap"), "kernel_shap"), ("lei", ("lime", "kernel_shap"), None)),
        ("full", ("ours", "full text"), "full text"),
        ("attention", ("FRESH, gradient", "FRESH, attention"), "FRESH, attention"),
        *(("rationale_length", ("rationale", "ratio"), None), ("anything", (), None)),
    ],
)
def test_a_part_stands_for_the_whole_name(name: str, known: tuple[str, ...], meant: str | None) -> None:
    assert nearest_name(name, known) == meant


@given(st.text(min_size=1))
def test_a_name_is_most_like_itself(name: str) -> None:
    assert nearest_name(name, ["other", name, "another"]) == name
