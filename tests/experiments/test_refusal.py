"""What is said of runs that cannot be."""

from collections.abc import Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fresh.experiments.grid import N_SINGLE, RunLabel, _list_runs, _ranges, invalid_runs


def places(rows: Sequence[str], corpora: Sequence[str], seeds: Sequence[int]) -> list[RunLabel]:
    return [RunLabel(corpus, row, seed) for row in rows for corpus in corpora for seed in seeds]


def test_many_runs_are_named_by_rows_corpora_and_seeds() -> None:
    whole = places(["full text", "ours, top_k"], ["sst", "movies"], [0, 1, 2])
    wrong = {
        "epochs must be at least 1, got 0.": [*whole, *places(["theirs"], ["sst"], [4]), whole[0]],
        "Nobody made any.": places(["theirs"], ["movies"], [3, 4]),
    }
    assert str(invalid_runs(wrong)).splitlines() == [
        "15 runs of the grid cannot be, so none was begun:",
        "epochs must be at least 1, got 0.",
        "  12 runs, on sst, movies (seeds 0 to 2):",
        "    full text",
        "    ours, top_k",
        "  1 run, on sst (seed 4):",
        "    theirs",
        "Nobody made any.",
        "  movies, theirs, seed 3",
        "  movies, theirs, seed 4",
    ]


def test_corpora_with_other_seeds_are_told_apart() -> None:
    assert list(_list_runs([*places(["ours"], ["sst", "evinf"], [2, 0]), *places(["ours"], ["movies"], [5, 4])])) == [
        "  6 runs, on sst, evinf (seeds 0, 2), movies (seeds 4, 5):",
        "    ours",
    ]


def test_trials_of_a_row_are_named_together() -> None:
    rows = [f"theirs, trial {number}" for number in range(20)]
    assert list(_list_runs(places([*rows, "ours"], ["sst"], [0]))) == [
        "  21 runs, on sst (seed 0):",
        "    theirs, trials 0 to 19",
        "    ours",
    ]


@pytest.mark.parametrize(
    ("numbers", "told"),
    [
        ([3], "seed 3"),
        ([1, 0], "seeds 0, 1"),
        ([0, 1, 2], "seeds 0 to 2"),
        ([9, 0, 1, 2, 3, 5, 10], "seeds 0 to 3, 5, 9, 10"),
    ],
)
def test_numbers_that_follow_each_other(numbers: list[int], told: str) -> None:
    assert _ranges("seed", numbers) == told


@given(st.sets(st.builds(RunLabel, st.sampled_from("ab"), st.sampled_from("cd"), st.integers(0, 6)), min_size=1))
def test_as_many_runs_are_told_as_there_are(found: set[RunLabel]) -> None:
    lines = [line.split() for line in _list_runs(sorted(found))]
    heads = [int(line[0]) for line in lines if len(line) > 1 and line[1].startswith("run")]
    assert (sum(heads) if heads else len(lines)) == len(found)
    assert bool(heads) == (len(found) > N_SINGLE)
