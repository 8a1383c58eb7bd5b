"""What is said of runs that cannot be: why, and which they are, each named, in few lines."""

import re
from collections.abc import Iterator, Mapping, Sequence
from typing import NamedTuple

from fresh.errors import ConfigError

N_SINGLE = 5
"""Runs that are named one by one; more are named by their rows, corpora and seeds."""
TRIAL = re.compile(r"(.*), trial (\d+)")


class Place(NamedTuple):
    """Where a run stands in a table."""

    corpus: str
    row: str
    seed: int

    def __str__(self) -> str:
        return f"{self.corpus}, {self.row}, seed {self.seed}"


def impossible(wrong: Mapping[str, Sequence[Place]], whose: str = "the grid") -> ConfigError:
    """Name all runs that cannot be, by what is wrong with them.

    :param wrong: What is wrong, and with which runs.
    """
    told = [line for reason, places in wrong.items() for line in (reason, *_named(places))]
    n_runs = len({place for places in wrong.values() for place in places})
    return ConfigError("\n".join([f"{counted(n_runs)} of {whose} cannot be, so none was begun:", *told]))


def _named(places: Sequence[Place]) -> Iterator[str]:
    """Name runs: one in a line, or, if they are many, one row in a line, below what it is tried on."""
    found = list(dict.fromkeys(places))
    if len(found) <= N_SINGLE:
        yield from (f"  {place}" for place in found)
        return
    seeds: dict[str, dict[str, list[int]]] = {}
    for place in found:
        seeds.setdefault(place.row, {}).setdefault(place.corpus, []).append(place.seed)
    alike: dict[str, list[str]] = {}
    for row, by_corpus in seeds.items():
        alike.setdefault(_tried_on(by_corpus), []).append(row)
    for where, rows in alike.items():
        n_runs = sum(len(own) for row in rows for own in seeds[row].values())
        yield f"  {counted(n_runs)}, on {where}:"
        yield from (f"    {row}" for row in _trials_together(rows))


def _tried_on(seeds: Mapping[str, Sequence[int]]) -> str:
    """Say on which corpora a row is tried with which seeds; corpora with the same ones are named together."""
    corpora: dict[tuple[int, ...], list[str]] = {}
    for corpus, own in seeds.items():
        corpora.setdefault(tuple(sorted(own)), []).append(corpus)
    return ", ".join(f"{', '.join(names)} ({_numbered('seed', own)})" for own, names in corpora.items())


def _trials_together(rows: Sequence[str]) -> list[str]:
    """Name all trials of a row in one go."""
    trials: dict[str, list[int]] = {}
    for row in rows:
        found = TRIAL.fullmatch(row)
        numbers = trials.setdefault(found[1] if found else row, [])
        numbers += [int(found[2])] if found else []
    return [", ".join([row, *([_numbered("trial", own)] if own else [])]) for row, own in trials.items()]


def _numbered(what: str, numbers: Sequence[int]) -> str:
    """Write numbers for people: three and more that follow each other by the first and the last."""
    parts: list[list[int]] = []
    for number in sorted(numbers):
        if parts and number == parts[-1][-1] + 1:
            parts[-1].append(number)
        else:
            parts.append([number])
    told = [f"{part[0]} to {part[-1]}" if len(part) > 2 else ", ".join(map(str, part)) for part in parts]
    return f"{what}{'s' * (len(numbers) > 1)} {', '.join(told)}"


def counted(n_runs: int) -> str:
    """Write how many runs."""
    return "1 run" if n_runs == 1 else f"{n_runs} runs"
