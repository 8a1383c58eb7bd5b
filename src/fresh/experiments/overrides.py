"""Settings that a user gives beside a grid file, several values at a time."""

import tomllib
from collections.abc import Sequence
from typing import Any

from fresh.config import parse_assignments
from fresh.errors import ConfigError


def parse_lists(assignments: Sequence[str]) -> dict[str, Any]:
    """Read settings written as key=value, or as key=one,two where several values are tried.

    Values with commas of their own stand in a list as TOML writes one.
    """
    parsed: dict[str, Any] = {}
    for assignment in assignments:
        [(name, value)] = parse_assignments([assignment]).items()
        if name in parsed:
            raise ConfigError(f"{name} is given twice. Write all its values at once: {name}=one,two.")
        parsed[name] = _listed(name, value)
    return parsed


def _listed(name: str, text: str) -> Any:
    """Take values apart at commas; a single one is no list."""
    if text.startswith("["):
        try:
            return tomllib.loads(f"values = {text}")["values"]
        except tomllib.TOMLDecodeError as error:
            raise ConfigError(f"{name}={text} is not a list as TOML writes it, such as ['a', 'b']: {error}.") from error
    values = [value.strip() for value in text.split(",")]
    if len(values) > 1 and "" in values:
        raise ConfigError(f"{name}={text} has a comma without a value. Write {name}=one,two.")
    return values if len(values) > 1 else text
