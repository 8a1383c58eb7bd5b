from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, Literal

import pytest

from fresh.config import _help_texts, from_mapping, list_settings, parse_assignments, read_toml
from fresh.data.splits import DataConfig
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


@pytest.mark.parametrize("values", [{"depth": 3}, {"inner.depth": 3}, {"inner": {"depth": 3}}, {"depth": "3"}])
def test_the_end_of_a_path_names_a_setting(values: dict[str, Any]) -> None:
    assert from_mapping(Outer, values) == Outer(inner=Inner(depth=3))


def test_a_part_of_a_name_names_nothing() -> None:
    with pytest.raises(ConfigError, match=r"^epth is not a setting\. Did you mean depth\?$"):
        from_mapping(Outer, {"epth": 3})


@pytest.mark.parametrize(
    ("name", "meant"),
    [("ration", "ratio"), ("train.epoch", "train.epochs"), ("learning_rat", "learning_rate"), ("scorers", "scorer")],
)
def test_a_misspelt_setting_is_recognised(name: str, meant: str) -> None:
    with pytest.raises(ConfigError) as caught:
        from_mapping(FreshConfig, {name: "1"})
    assert str(caught.value) == f"{name} is not a setting. Did you mean {meant}?"


def test_a_name_like_no_other_gets_all_names() -> None:
    with pytest.raises(
        ConfigError, match=r"^xyzzy is not a setting\. There are: name, kind, least, flag, depth, share\.$"
    ):
        from_mapping(Outer, {"xyzzy": 1})


def test_all_mistakes_come_together() -> None:
    values = {"name": "", "inner": {"depth": 0, "share": "much"}, "kin": 2, "flag": "maybe"}
    with pytest.raises(ConfigError) as caught:
        from_mapping(Outer, values)
    assert str(caught.value).splitlines() == [
        "share must be a number, got 'much'.",
        "kin is not a setting. Did you mean kind?",
        "flag must be true or false, got 'maybe'.",
        "depth must be at least 1, got 0.",
        "name must not be empty.",
    ]


@pytest.mark.parametrize(
    ("name", "value", "expected"),
    [
        ("kind", "all", "all"),
        ("kind", "7", 7),
        ("kind", 3.0, 3),
        ("least", "1e-4", 1e-4),
        ("least", 1, 1.0),
        ("least", None, None),
        ("flag", "true", True),
        ("flag", "False", False),
        ("flag", True, True),
        ("name", "12", "12"),
    ],
)
def test_text_becomes_what_the_setting_is(name: str, value: object, expected: object) -> None:
    found = getattr(from_mapping(Outer, {name: value}), name)
    assert found == expected
    assert type(found) is type(expected)


@pytest.mark.parametrize(
    ("name", "value", "message"),
    [
        ("kind", "some", "kind must be a whole number or 'all', got 'some'."),
        ("kind", 1.5, "kind must be a whole number or 'all', got 1.5."),
        ("kind", True, "kind must be a whole number or 'all', got True."),
        ("kind", float("inf"), "kind must be a whole number or 'all', got inf."),
        ("depth", "2.0", "depth must be a whole number, got '2.0'."),
        ("share", [0.5], "share must be a number, got [0.5]."),
        ("share", None, "share must be a number, got None."),
        ("flag", 1, "flag must be true or false, got 1."),
        ("name", 12, "name must be text, got 12."),
    ],
)
def test_a_value_of_the_wrong_kind_is_refused(name: str, value: object, message: str) -> None:
    with pytest.raises(ConfigError) as caught:
        from_mapping(Outer, {name: value})
    assert str(caught.value) == message


def test_help_stands_under_the_fields() -> None:
    assert _help_texts(Inner) == {"depth": "How deep it goes.", "share": "How much of it, over two lines."}
    assert [setting.help for setting in list_settings(Outer)][:3] == ["What it is called.", "Which kind.", ""]


@dataclass(frozen=True, slots=True)
class Heir(Inner):
    share: float = 0.7
    """How much of it is left."""
    more: int = 0
    """What is new."""


def test_settings_are_looked_up_once() -> None:
    assert list_settings(Outer) is list_settings(Outer)
    assert list_settings(Outer, "outer.") != list_settings(Outer)


def test_help_of_what_a_class_builds_on_is_its_own_help_too() -> None:
    assert _help_texts(Heir) == {
        "depth": "How deep it goes.",
        "share": "How much of it is left.",
        "more": "What is new.",
    }


@pytest.mark.parametrize("config", [RunConfig, *METHODS.values()])
def test_every_setting_explains_itself(config: type) -> None:
    assert [setting.path for setting in list_settings(config) if not setting.help.endswith(".")] == []


def test_the_last_part_of_a_name_is_enough_everywhere() -> None:
    names = [setting.name for config in (FreshConfig, DataConfig) for setting in list_settings(config)]
    assert sorted(names) == sorted(set(names))


@pytest.mark.parametrize(
    ("config", "values", "message"),
    [
        (TrainConfig, {"epochs": 0}, "epochs must be at least 1, got 0."),
        (TrainConfig, {"learning_rate": "nan"}, "learning_rate must be a finite number above 0, got nan."),
        (TrainConfig, {"weight_decay": -1}, "weight_decay must be at least 0, got -1.0."),
        (TrainConfig, {"seed": -1}, "seed must be at least 0, got -1."),
        (NetworkConfig, {"layers": -1}, "layers must be 0 or more, or all, got -1."),
        (NetworkConfig, {"dropout": 1}, "dropout must be in [0, 1), got 1.0."),
        (NetworkConfig, {"max_pieces": 8}, "max_pieces must be at least 16, got 8."),
        (NetworkConfig, {"long": "chop"}, "long must be 'stagger' or 'chunk' or 'truncate', got 'chop'."),
        (FreshConfig, {"scorer": "attentoin"}, "attentoin is not a scorer. Did you mean attention?"),
        (FreshConfig, {"discretizer": "topk"}, "topk is not a discretizer. Did you mean top_k?"),
        (FreshConfig, {"ratio": 0}, "ratio must be in (0, 1], got 0.0."),
        (FreshConfig, {"steps": 0}, "steps must be at least 1, got 0."),
        (TrainConfig, {"epochs": 0, "seed": -1}, "epochs must be at least 1, got 0.\nseed must be at least 0, got -1."),
    ],
)
def test_settings_say_what_they_refuse(config: type, values: dict[str, Any], message: str) -> None:
    with pytest.raises(ConfigError) as caught:
        from_mapping(config, values)
    assert str(caught.value) == message


def test_settings_survive_the_way_to_json_and_back() -> None:
    config = from_mapping(FreshConfig, {"epochs": 3, "layers": "all", "minimum": 0.1, "discretizer": "global_top_k"})
    assert from_mapping(FreshConfig, asdict(config)) == config


def test_a_settings_file_is_read(tmp_path: Path) -> None:
    path = tmp_path / "run.toml"
    path.write_text("ratio = 0.3\n[train]\nepochs = 2\n", encoding="utf-8")
    assert from_mapping(FreshConfig, read_toml(path)) == FreshConfig(ratio=0.3, train=TrainConfig(epochs=2))


def test_a_settings_file_that_is_not_there_is_named(tmp_path: Path) -> None:
    with pytest.raises(ConfigError) as caught:
        read_toml(tmp_path / "run.toml")
    assert str(caught.value) == (
        f"The settings file {tmp_path / 'run.toml'} cannot be read (No such file or directory)."
    )


@pytest.mark.parametrize(
    ("content", "reason"), [(b"ratio = ", "Invalid value"), (b"\xff", "'utf-8' codec can't decode")]
)
def test_a_broken_settings_file_is_named(tmp_path: Path, content: bytes, reason: str) -> None:
    path = tmp_path / "run.toml"
    path.write_bytes(content)
    with pytest.raises(ConfigError) as caught:
        read_toml(path)
    assert str(caught.value).startswith(f"{path} is not a TOML file: {reason}")


def test_settings_are_written_as_key_and_value() -> None:
    assert parse_assignments(["epochs = 3", "query=a=b", "text="]) == {"epochs": "3", "query": "a=b", "text": ""}
    with pytest.raises(
        ConfigError, match=r"^'epochs' is not a setting\. Write it as key=value, for example epochs=3\.$"
    ):
        parse_assignments(["epochs"])
