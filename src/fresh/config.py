"""Settings from TOML, key=value and keyword arguments; every bad setting named at once."""

import ast
import difflib
import functools
import inspect
import math
import re
import textwrap
import tomllib
import types
import typing
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import MISSING, dataclass, fields, is_dataclass
from pathlib import Path
from typing import Any, Literal, TypeVar, get_args, get_origin

from fresh.errors import ConfigError

Config = TypeVar("Config")


@dataclass(frozen=True, slots=True)
class Setting:
    """One setting of a (nested) settings class."""

    path: str
    kind: Any
    default: Any
    help: str

    @property
    def name(self) -> str:
        """The last part of the path, which is enough to name it."""
        return self.path.rpartition(".")[2]


def list_settings(cls: type, prefix: str = "") -> tuple[Setting, ...]:
    """List all settings of a class and of the settings classes inside it."""
    return _known_settings(cls, prefix)


@functools.cache
def _known_settings(cls: type, prefix: str) -> tuple[Setting, ...]:
    """Look the settings of a class up once: a large experiment asks for them thousands of times."""
    found: list[Setting] = []
    for item in fields(cls):
        kind = _kinds_in(cls)[item.name]
        if is_dataclass(kind) and isinstance(kind, type):
            found += list_settings(kind, f"{prefix}{item.name}.")
        else:
            default = item.default if item.default is not MISSING else None
            found.append(Setting(prefix + item.name, kind, default, _help_texts(cls).get(item.name, "")))
    return tuple(found)


@functools.cache
def _kinds_in(cls: type) -> Mapping[str, Any]:
    """Find the kinds of the fields of a class."""
    return typing.get_type_hints(cls)


@functools.cache
def _help_texts(cls: type) -> Mapping[str, str]:
    """Read the strings that stand under the fields of a class and of those it builds on."""
    texts: dict[str, str] = {}
    for base in reversed([base for base in cls.__mro__ if is_dataclass(base)]):
        texts |= _own_help_texts(base)
    return texts


def _own_help_texts(cls: type) -> dict[str, str]:
    """Read the strings that stand under the fields that a class itself has."""
    [body] = ast.parse(textwrap.dedent(inspect.getsource(cls))).body
    assert isinstance(body, ast.ClassDef)
    texts: dict[str, str] = {}
    for field, below in zip(body.body, body.body[1:], strict=False):
        if isinstance(field, ast.AnnAssign) and isinstance(field.target, ast.Name) and isinstance(below, ast.Expr):
            texts[field.target.id] = " ".join(str(ast.literal_eval(below.value)).split())
    return texts


def from_mapping(cls: type[Config], values: Mapping[str, Any]) -> Config:
    """Make settings from names and values; the end of a setting's path is name enough (epochs, train.epochs)."""
    known = {setting.path: setting for setting in list_settings(cls)}
    chosen: dict[str, Any] = {}
    problems: list[str] = []
    for name, value in flatten(values):
        path = next((path for path in known if f".{path}".endswith(f".{name}")), None)
        if path is None:
            problems.append(suggest_setting(name, known))
            continue
        try:
            chosen[path] = _convert(value, known[path])
        except ValueError as error:
            problems.append(str(error))
    config = _construct(cls, chosen, "", problems)
    if problems or config is None:
        raise ConfigError("\n".join(problems))
    return config


def suggest_setting(name: str, paths: Iterable[str]) -> str:
    """Say that there is no such setting, and which one may have been meant, perhaps of another section."""
    known = _endings(paths, name)
    last = name.rpartition(".")[2]
    if last != name and nearest_name(name, known) is None and last in _endings(paths, last):
        return f"{name} is not a setting. Did you mean {last}?"
    return suggest(name, "a setting", known)


def _endings(paths: Iterable[str], like: str) -> list[str]:
    """Cut paths to as many parts as a name has."""
    return [".".join(path.split(".")[-1 - like.count(".") :]) for path in paths]


def _construct(cls: type[Config], chosen: Mapping[str, Any], prefix: str, problems: list[str]) -> Config | None:
    """Build a settings object from the inside out and gather what the classes refuse."""
    arguments: dict[str, Any] = {}
    kinds = _kinds_in(cls)  # type: ignore[arg-type]
    for item in fields(cls):  # type: ignore[arg-type]
        path, kind = prefix + item.name, kinds[item.name]
        if is_dataclass(kind) and isinstance(kind, type):
            inner = _construct(kind, chosen, f"{path}.", problems)
            if inner is not None:  # else the default stands in, so that the outer settings are checked too
                arguments[item.name] = inner
        elif path in chosen:
            arguments[item.name] = chosen[path]
    try:
        return cls(**arguments)
    except ValueError as error:
        problems.append(str(error))
        return None


def raise_all(*problems: str | None) -> None:
    """Raise all that is wrong with some settings at once; None stands for a setting that is right."""
    found = [problem for problem in problems if problem is not None]
    if found:
        raise ValueError("\n".join(found))


def check_min(least: float, **values: float) -> Iterator[str]:
    """Name the values that are below the least that is allowed, or endless, or no numbers."""
    for name, value in values.items():
        if not math.isfinite(value):
            yield f"{name} must be a finite number of at least {least}, got {value}."
        elif value < least:
            yield f"{name} must be at least {least}, got {value}."


def check_max(most: float, **values: float) -> Iterator[str]:
    """Name the values that are above the most that is allowed; what is no finite number, `check_min` names."""
    for name, value in values.items():
        if math.isfinite(value) and value > most:
            yield f"{name} must be at most {most}, got {value}."


def check_above(bound: float, **values: float) -> Iterator[str]:
    """Name the values that are not above a bound, or endless, or no numbers."""
    for name, value in values.items():
        if not math.isfinite(value):
            yield f"{name} must be a finite number above {bound}, got {value}."
        elif value <= bound:
            yield f"{name} must be above {bound}, got {value}."


def flatten(values: Mapping[str, Any], prefix: str = "") -> Iterator[tuple[str, Any]]:
    """Turn nested tables into dotted names."""
    for name, value in values.items():
        if isinstance(value, Mapping):
            yield from flatten(value, f"{prefix}{name}.")
        else:
            yield prefix + name, value


def suggest(name: str, what: str, known: Iterable[str]) -> str:
    """Say that there is no such name, and which one may have been meant.

    :param what: What it should have named, with its article.
    """
    names = list(dict.fromkeys(known))
    close = nearest_name(name, names)
    hint = f"There are: {', '.join(names)}." if close is None else f"Did you mean {close}?"
    return f"{name} is not {what}. {hint}"


def _convert(value: Any, setting: Setting) -> Any:
    """Bring a value, perhaps written as text, to the kind a setting has."""
    for kind in union_types(setting.kind):
        converted = convert_to(value, kind)
        if converted is not MISSING:
            return converted
    wanted = " or ".join(describe_type(kind) for kind in union_types(setting.kind) if kind is not type(None))
    raise ValueError(f"{setting.name} must be {wanted}, got {value!r}.")


def union_types(kind: Any) -> tuple[Any, ...]:
    """List the alternatives of a union."""
    return get_args(kind) if get_origin(kind) in (typing.Union, types.UnionType) else (kind,)


def convert_to(value: Any, kind: Any) -> Any:
    """Convert a value to one kind, or say with MISSING that it does not fit."""
    if get_origin(kind) is Literal:
        return value if value in get_args(kind) else MISSING
    if kind is type(None):
        return None if value is None else MISSING
    if kind is bool:
        return {"true": True, "false": False}.get(str(value).lower(), MISSING)
    if isinstance(value, bool) or value is None:
        return MISSING
    if kind in (int, float) and isinstance(value, int | float | str):
        try:
            number = kind(value)
        except (ValueError, OverflowError):
            return MISSING
        return number if isinstance(value, str) or number == value or math.isnan(number) else MISSING
    return value if isinstance(value, kind) else MISSING


def describe_type(kind: Any) -> str:
    """Say in words what a setting takes."""
    if get_origin(kind) is Literal:
        return " or ".join(repr(choice) for choice in get_args(kind))
    return {int: "a whole number", float: "a number", bool: "true or false", str: "text"}.get(kind, str(kind))


def read_toml(path: Path, kind: str = "settings") -> dict[str, Any]:
    """Read a file of settings, or of another kind."""
    try:
        return tomllib.loads(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise ConfigError(f"There is no {kind} file {path} that can be read ({error.strerror}).") from error
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise ConfigError(f"{path} is not a TOML file: {error}.") from error


def parse_assignments(assignments: Sequence[str]) -> dict[str, str]:
    """Read settings written as key=value."""
    parsed: dict[str, str] = {}
    for assignment in assignments:
        name, sign, value = assignment.partition("=")
        if not sign:
            raise ConfigError(f"{assignment!r} is not a setting. Write it as key=value, for example epochs=3.")
        parsed[name.strip()] = value.strip()
    return parsed


NAME_SEPARATORS = re.compile(r"[^a-z0-9]+")
"""What stands between the words of a name."""


def nearest_name(name: str, known: Iterable[str]) -> str | None:
    """Find the name that was most likely meant, if there is one that is near enough to be."""
    nearness = {other: _similarity(name.lower(), other.lower()) for other in known}
    found = max(nearness, key=lambda other: nearness[other], default=None)
    return found if found is not None and nearness[found] else None


def _similarity(name: str, other: str) -> float:
    """Compare two names: 1 if they are the same, 0 if they differ in more than a slip, and one is no part of the other.

    A beginning or a whole word of a name stands for it, as full does for full_text; a few letters more do no harm.
    """
    ratio = difflib.SequenceMatcher(None, name, other).ratio()
    is_part = len(name) > 2 and (other.startswith(name) or name in NAME_SEPARATORS.split(other))
    is_more = other in NAME_SEPARATORS.split(name) and len(other) >= 0.6 * len(name)
    least = 0.75 if len(name) > 3 else 0.65  # letters that change places weigh more in short names
    return ratio if is_part or is_more or ratio >= least else 0.0
