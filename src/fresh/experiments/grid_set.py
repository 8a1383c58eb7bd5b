"""Overrides of settings: which runs of a grid have them, and what they cannot change."""

import functools
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from fresh.config import suggest
from fresh.experiments.grid import RunSpec
from fresh.experiments.grid_keys import short_names
from fresh.experiments.grid_validation import as_list
from fresh.experiments.wording import known
from fresh.methods.config import METHODS, RunConfig
from fresh.methods.registry import NEEDS, owns, split_settings

SWITCHES = ("scorer", "discretizer", *(other for _, other, _ in NEEDS))
"""Settings that decide on which others there are, beside the method."""


def had(chosen: Mapping[str, Any], asked: Sequence[str], rest: Mapping[str, Any]) -> dict[str, Any]:
    """Leave out what was asked for, but a run does not have, such as the ratio of full text.

    :param chosen: What is chosen for the run, by name.
    :param asked: Names of what the user asked for, and the file does not.
    :param rest: What else is known of the run.
    """
    whole = {**rest, **chosen}
    return {name: value for name, value in chosen.items() if name not in asked or _lacking(name, whole) is None}


def _lacking(name: str, settings: Mapping[str, Any]) -> str | None:
    """Say why a run does not have a setting, with its method, scorer and discretizer; None if it does."""
    chosen = tuple((other, str(settings[other])) for other in SWITCHES if other in settings and other != name)
    return _why_lacking(name, str(settings.get("method", "fresh")), chosen)


@functools.cache
def _why_lacking(name: str, method: str, chosen: tuple[tuple[str, str], ...]) -> str | None:
    """Say the same from what it depends on."""
    if method not in METHODS or name not in known():
        return None
    own = {other: value for other, value in chosen if owns(METHODS[method], other)}
    before, after = (split_settings(method, given, RunConfig)[2] for given in (own, {**own, name: ""}))
    return next((problem for problem in after if problem not in before), None)


def of_no_run(asked: Mapping[str, Any], cells: Sequence[RunSpec]) -> Iterator[str]:
    """Name what was asked for and no run has."""
    for name in asked:
        if name != "corpus" and cells and not any(name in cell.settings for cell in cells):
            reasons = dict.fromkeys(filter(None, (_lacking(name, cell.settings) for cell in cells)))
            yield f"`overrides`: no run has {name}. {' '.join(reasons)} Leave it out, or add a row that has it."


def wrong_method(given: Mapping[str, Any], asked: Mapping[str, Any]) -> Iterator[str]:
    """Refuse a method that is none, and one for rows that say theirs: they would not hold what they are called."""
    methods = as_list(asked.get("method", []))
    strange = [str(method) for method in methods if method not in METHODS]
    yield from (f"`overrides`: {suggest(method, 'a method', METHODS)}" for method in strange)
    if strange or not methods:
        return
    own = [(row, as_list(short_names(row)["method"])) for row in given["rows"] if "method" in row]
    others = [str(row.get("name", ", ".join(map(str, says)))) for row, says in own if says != methods]
    if others:
        whose = f"the row {others[0]} says its own" if len(others) == 1 else f"the rows {'; '.join(others)} say theirs"
        yield (
            f"`overrides`: method cannot be set, since {whose} and would not hold what the table calls it. "
            "Leave it out, or add a row with that method to the file."
        )
