"""How far runs are: how many are done, which failed and why."""

from collections.abc import Iterator, Sequence

from fresh.experiments.results import Result, each_once


def standing(results: Sequence[Result]) -> Iterator[str]:
    """Say how many runs are done, which failed and why, and which have a report that is none."""
    yield counted(results)
    yield from (
        f"failed: {_named(result)}: {result.failure}" for result in each_once(results) if result.failure is not None
    )
    yield from broken(results)


def broken(results: Sequence[Result]) -> Iterator[str]:
    """Name the reports that cannot be read, and say what to do."""
    for result in each_once(results):
        if result.broken:
            yield (
                f"broken: {result.broken}, the report of {_named(result)}, has no figures that can be read. "
                "Give the `fresh run` command again, which does the run anew."
            )


def counted(results: Sequence[Result]) -> str:
    """Say how many runs are done, failed and open."""
    once = each_once(results)
    n_done, n_failed = sum(bool(result.report) for result in once), sum(result.failure is not None for result in once)
    runs = "1 run" if len(once) == 1 else f"{len(once):,} runs"
    return f"{runs}: {n_done:,} done, {n_failed:,} failed, {len(once) - n_done - n_failed:,} open."


def _named(result: Result) -> str:
    """Name a run."""
    return f"{result.corpus}, {result.row}, seed {result.seed}"
