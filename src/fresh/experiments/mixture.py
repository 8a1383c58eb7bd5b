"""Runs of one cell that differ in more than the seed: in what, and what tells them apart."""

from collections.abc import Iterable, Sequence

from fresh.experiments.results import Result, each_once, grouped
from fresh.training.config import FREE

UNSAID = "what no setting says, such as how many documents there are"
"""In what runs differ that have the same settings, the seed among them."""


def differing(runs: Sequence[Result]) -> list[str]:
    """Name the settings that runs differ in, beside the seed and those that only say how fast a run is done."""
    names = dict.fromkeys(["corpus", *(name for run in runs for name in run.settings)])
    return [name for name in names if name not in ("seed", *FREE) and len({str(run.about(name)) for run in runs}) > 1]


def mixed_in(runs: Iterable[Result]) -> tuple[str, ...]:
    """Name all that runs differ in beside the seed; a seed that is there twice shows that there is something."""
    once = each_once(runs)
    twice = len({run.seed for run in once}) < len(once)
    return tuple(differing(once) or ([UNSAID] if twice else []))


def with_callback(cells: Iterable[Sequence[Result]]) -> tuple[str, ...]:
    """Choose a few settings that tell the runs of cells apart until these differ in nothing but the seed."""
    names: list[str] = []
    mixed = [list(cell) for cell in cells if differing(cell)]
    while mixed:
        known = dict.fromkeys(name for cell in mixed for name in differing(cell))
        left = {name: [part for cell in mixed for part in _split(cell, name) if differing(part)] for name in known}
        names.append(min(known, key=lambda name: len(left[name])))
        mixed = left[names[-1]]
    return tuple(names)


def _split(cell: Sequence[Result], name: str) -> list[list[Result]]:
    """Put the runs of a cell together that have one value of a setting."""
    return list(grouped(cell, lambda run: str(run.about(name))).values())


def alike(some: Sequence[Result], others: Sequence[Result]) -> list[Result]:
    """Take those of some runs that have what other runs have, setting by setting, where there are such."""
    found = list(some)
    for name in differing(some):
        wanted = {str(run.about(name)) for run in others}
        found = [run for run in found if str(run.about(name)) in wanted] or found
    return found
