"""Settings from TOML, key=value and keyword arguments; all wrong settings are reported at once."""

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
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import MISSING, dataclass, fields, is_dataclass
from pathlib import Path
from typing import Any, Literal, TypeGuard, TypeVar, get_args, get_origin

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
    return _list_settings(cls, prefix)  # for mypy, which finds that dataclasses are not Hashable


@functools.cache  # a large experiment needs them thousands of times
def _list_settings(cls: type, prefix: str) -> tuple[Setting, ...]:
    settings: list[Setting] = []
    for item in fields(cls):
        kind = _field_types(cls)[item.name]
        if _is_settings_class(kind):
            settings += list_settings(kind, f"{prefix}{item.name}.")
        else:
            default = item.default if item.default is not MISSING else None
            settings.append(Setting(prefix + item.name, kind, default, _help_texts(cls).get(item.name, "")))
    return tuple(settings)


def _is_settings_class(kind: Any) -> TypeGuard[type[Any]]:
    return is_dataclass(kind) and isinstance(kind, type)


@functools.cache
def _field_types(cls: type) -> Mapping[str, Any]:
    return typing.get_type_hints(cls)


@functools.cache
def _help_texts(cls: type) -> Mapping[str, str]:
    """Read the strings under the fields of a class and of its base classes."""
    texts: dict[str, str] = {}
    # Python does not keep strings under fields, so they are read from the source.
    for base in reversed([base for base in cls.__mro__ if is_dataclass(base)]):
        [body] = ast.parse(textwrap.dedent(inspect.getsource(base))).body
        assert isinstance(body, ast.ClassDef)
        for field, below in zip(body.body, body.body[1:], strict=False):
            if isinstance(field, ast.AnnAssign) and isinstance(field.target, ast.Name) and isinstance(below, ast.Expr):
                texts[field.target.id] = " ".join(str(ast.literal_eval(below.value)).split())
    return texts


def from_mapping(cls: type[Config], values: Mapping[str, Any]) -> Config:
    """Make settings from names and values; the end of a path is enough for a name (epochs, train.epochs)."""
    known = {setting.path: setting for setting in list_settings(cls)}
    chosen: dict[str, Any] = {}
    problems: list[str] = []
    for name, value in flatten(values):
        path = next((path for path in known if f".{path}".endswith(f".{name}")), None)
        if path is None:
            problems.append(suggest_setting(name, known))
            continue
        kinds = union_types(known[path].kind)
        fits = [fit for fit in (convert_to(value, kind) for kind in kinds) if fit is not MISSING]
        if fits:
            chosen[path] = fits[0]
        else:
            expected = " or ".join(describe_type(kind) for kind in kinds if kind is not type(None))
            problems.append(f"{known[path].name} must be {expected}, got {value!r}.")
    config = _construct(cls, chosen, "", problems)
    if problems or config is None:
        raise ConfigError("\n".join(problems))
    return config


def _construct(cls: type[Config], chosen: Mapping[str, Any], prefix: str, problems: list[str]) -> Config | None:
    """Build a settings object from the inside out, and collect what the classes refuse."""
    arguments: dict[str, Any] = {}
    for name, kind in _field_types(cls).items():  # type: ignore[arg-type]
        path = prefix + name
        if _is_settings_class(kind):
            inner = _construct(kind, chosen, f"{path}.", problems)
            if inner is not None:  # otherwise the default stands in, so that the outer settings are checked too
                arguments[name] = inner
        elif path in chosen:
            arguments[name] = chosen[path]
    try:
        return cls(**arguments)
    except ValueError as error:
        problems.append(str(error))
        return None


def union_types(kind: Any) -> tuple[Any, ...]:
    """List the alternatives of a union type."""
    return get_args(kind) if get_origin(kind) in (typing.Union, types.UnionType) else (kind,)


def convert_to(value: Any, kind: Any) -> Any:
    """Convert a value to one type; MISSING if it does not fit."""
    if get_origin(kind) is Literal:
        return value if value in get_args(kind) else MISSING
    if kind is type(None):
        return None if value is None else MISSING
    if kind is bool:
        return {"true": True, "false": False}.get(str(value).lower(), MISSING)
    if isinstance(value, bool) or value is None:  # a bool is an int in Python
        return MISSING
    if kind in (int, float) and isinstance(value, int | float | str):
        try:
            number = kind(value)
        except (ValueError, OverflowError):
            return MISSING
        return number if isinstance(value, str) or number == value or math.isnan(number) else MISSING
    return value if isinstance(value, kind) else MISSING


def describe_type(kind: Any) -> str:
    """Describe in words what a setting takes."""
    if get_origin(kind) is Literal:
        return " or ".join(repr(choice) for choice in get_args(kind))
    return {int: "a whole number", float: "a number", bool: "true or false", str: "text"}.get(kind, str(kind))


def flatten(values: Mapping[str, Any], prefix: str = "") -> Iterator[tuple[str, Any]]:
    """Turn nested tables into dotted names."""
    for name, value in values.items():
        if isinstance(value, Mapping):
            yield from flatten(value, f"{prefix}{name}.")
        else:
            yield prefix + name, value


def read_toml(path: Path, kind: str = "settings") -> dict[str, Any]:
    """Read a TOML file.

    :param kind: What the file holds, for messages.
    """
    try:
        return tomllib.loads(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise ConfigError(f"The {kind} file {path} cannot be read ({error.strerror}).") from error
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise ConfigError(f"{path} is not a TOML file: {error}.") from error


def parse_assignments(assignments: Sequence[str]) -> dict[str, str]:
    """Read settings given as key=value."""
    parsed: dict[str, str] = {}
    for assignment in assignments:
        name, sign, value = assignment.partition("=")
        if not sign:
            raise ConfigError(f"{assignment!r} is not a setting. Write it as key=value, for example epochs=3.")
        parsed[name.strip()] = value.strip()
    return parsed


# Checks of values. Each returns messages, so that a class can raise all of its problems at once.


def raise_all(*problems: str | None) -> None:
    """Raise all problems at once; None stands for a correct setting."""
    messages = [problem for problem in problems if problem is not None]
    if messages:
        raise ValueError("\n".join(messages))


def is_finite_number(value: object) -> bool:
    """Whether a value from a file is a finite number."""
    return isinstance(value, int | float) and not isinstance(value, bool) and math.isfinite(value)


def check_min(minimum: float, **values: float) -> Iterator[str]:
    """Report values that are below a minimum or not finite."""
    for name, value in values.items():
        if not minimum <= value < math.inf:
            finite = "" if math.isfinite(value) else "a finite number of "
            yield f"{name} must be {finite}at least {minimum}, got {value}."


def check_max(maximum: float, **values: float) -> Iterator[str]:
    """Report values that are above a maximum; `check_min` reports those that are not finite."""
    for name, value in values.items():
        if math.isfinite(value) and value > maximum:
            yield f"{name} must be at most {maximum}, got {value}."


def check_above(bound: float, **values: float) -> Iterator[str]:
    """Report values that are not above a bound or not finite."""
    for name, value in values.items():
        if not bound < value < math.inf:
            finite = "" if math.isfinite(value) else "a finite number "
            yield f"{name} must be {finite}above {bound}, got {value}."


# Names that do not exist, and which may have been meant.


def suggest(name: str, what: str, known: Iterable[str]) -> str:
    """Say that a name does not exist, and which one may have been meant.

    :param what: What it should have named, with its article.
    """
    names = list(dict.fromkeys(known))
    nearest = nearest_name(name, names)
    hint = f"There are: {', '.join(names)}." if nearest is None else f"Did you mean {nearest}?"
    return f"{name} is not {what}. {hint}"


def suggest_setting(name: str, paths: Collection[str]) -> str:
    """Say that a setting does not exist, and which one may have been meant, perhaps in another section."""
    last = name.rpartition(".")[2]
    known = [".".join(path.split(".")[-1 - name.count(".") :]) for path in paths]
    if last != name and nearest_name(name, known) is None and last in [path.rpartition(".")[2] for path in paths]:
        return f"{name} is not a setting. Did you mean {last}?"
    return suggest(name, "a setting", known)


def nearest_name(name: str, known: Iterable[str]) -> str | None:
    """Find the name that was most likely meant; None if no name is similar enough."""
    name = name.lower()

    def similarity(other: str) -> float:
        # The beginning or a whole word of a name stands for it, as full does for full_text. Swapped letters weigh more
        # in short names: sts is to find sst.
        ratio = difflib.SequenceMatcher(None, name, other).ratio()
        is_part = len(name) > 2 and (other.startswith(name) or name in re.split(r"[^a-z0-9]+", other))
        return ratio if is_part or ratio >= (0.75 if len(name) > 3 else 0.65) else 0.0

    similarities = {other: similarity(other.lower()) for other in known}
    nearest = max(similarities, key=lambda other: similarities[other], default="")
    return nearest if similarities.get(nearest) else None
