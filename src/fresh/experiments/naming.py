"""Settings in a few words: what tells runs apart that would else be called alike."""

import itertools
from collections.abc import Collection, Mapping, Sequence
from typing import Any


def told(settings: Mapping[str, Any]) -> list[str]:
    """Write settings in a few words."""
    return [value if _is_word(value) else f"{name} {value}" for name, value in settings.items()]


def _is_word(value: Any) -> bool:
    """Say whether a value speaks for itself, as numbers, yes and no do not."""
    return isinstance(value, str) and value[:1].isalpha() and value not in ("true", "false")


def apart(many: Sequence[Mapping[str, Any]], given: Sequence[Collection[str]]) -> list[str]:
    """Write, for each of many lists of settings, what tells it from the others: as few settings as will do.

    Where one of these few was not given, but is what it is by default, all that was given and differs is written.

    :param many: Settings by their paths.
    :param given: Names of the settings that were given, for each list.
    """
    listed = dict.fromkeys(itertools.chain.from_iterable(many))
    differing = [name for name in listed if _n_kinds(many, [name]) > 1]
    few, written = _with_callback(many, differing), list[str]()
    for one, own in zip(many, given, strict=True):
        names = few if all(_short(name) in own for name in few) else [name for name in differing if _short(name) in own]
        written.append(", ".join(told({_short(name): one[name] for name in names if one.get(name) not in (None, "")})))
    return written


def _with_callback(many: Sequence[Mapping[str, Any]], names: Sequence[str]) -> list[str]:
    """Choose those of some settings that tell lists apart, none of which could be left out; the earlier ones stay."""
    few, n_all = list(names), _n_kinds(many, names)
    for name in reversed(names):
        fewer = [other for other in few if other != name]
        if _n_kinds(many, fewer) == n_all:
            few = fewer
    return few


def _short(path: str) -> str:
    """Take the last part of the path of a setting."""
    return path.rpartition(".")[2]


def _n_kinds(many: Sequence[Mapping[str, Any]], names: Sequence[str]) -> int:
    """Count how many lists of settings differ in some of them."""
    return len({tuple(repr(one.get(name)) for name in names) for one in many})
