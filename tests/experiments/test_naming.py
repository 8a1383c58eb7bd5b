from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from experiments import Inline, plan, toy_grid
from fresh.data.splits import Splits
from fresh.experiments.grid import distinguish
from fresh.experiments.grid_file import read_grid
from fresh.experiments.plan import label_tasks
from fresh.experiments.run import run_grids
from fresh.experiments.store import RunStore


@pytest.fixture
def named(toy: Splits, encoders: dict[str, Path], tmp_path: Path) -> Callable[..., list[str]]:
    """Plan a grid over a toy corpus, and name what its runs share."""

    def make(*rows: dict[str, Any], **parts: Any) -> list[str]:
        path = toy_grid(tmp_path, toy, encoders["bert"], *rows, **parts)
        tasks = label_tasks(plan(read_grid(path), None, RunStore(tmp_path / "runs")))
        return [str(task) for task in tasks if task.kind != "run"]

    return make


def test_support_models_are_named_by_the_settings_that_differ(named: Callable[..., list[str]]) -> None:
    rate = {"learning_rate": [0.001, 0.002]}
    assert named(
        {"method": "full_text", "pooling": ["mean", "start"], **rate}, {"method": "full_text", "epochs": 1}
    ) == [
        "toy, support model, mean, learning_rate 0.001, seed 0",
        "toy, support model, mean, learning_rate 0.002, seed 0",
        "toy, support model, start, learning_rate 0.001, seed 0",
        "toy, support model, start, learning_rate 0.002, seed 0",
        "toy, support model, epochs 1, learning_rate 0.005, seed 0",
    ]


def test_nothing_is_said_where_nothing_differs(named: Callable[..., list[str]]) -> None:
    ratios = {"scorer": "attention", "ratio": [0.1, 0.2]}
    assert named(ratios, {"method": "lei", "ratio": 0.2, "epochs": 1}, grid={"seed": [0, 1]}) == [
        *("toy, support model, seed 0", "toy, scores of attention, seed 0"),
        *("toy, support model, seed 1", "toy, scores of attention, seed 1"),
        *("toy, gate of lei, seed 0", "toy, gate of lei, seed 1"),
    ]


def test_scores_and_gates_are_named_by_what_is_theirs(named: Callable[..., list[str]]) -> None:
    gates = {"method": "lei", "ratio": [0.1, 0.2], "discretizer": ["top_k", "contiguous"], "epochs": 1}
    assert named({"scorer": "integrated_gradients", "steps": [2, 3]}, gates) == [
        "toy, support model, seed 0",
        "toy, scores of integrated_gradients, steps 2, seed 0",
        "toy, scores of integrated_gradients, steps 3, seed 0",
        "toy, gate of lei, ratio 0.1, seed 0",
        "toy, gate of lei, ratio 0.2, seed 0",
    ]


def test_runs_of_two_grids_that_are_called_alike_are_told_apart(
    toy: Splits, encoders: dict[str, Path], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    paths = [
        toy_grid(
            tmp_path, toy, encoders["bert"], {"method": "random"}, settings={"epochs": 1}, documents=n_documents
        ).rename(tmp_path / f"{n_documents}.toml")
        for n_documents in (20, 30)
    ]
    run_grids(paths, tmp_path / "runs", executor=Inline(tmp_path / "runs"))
    told, *lines = [line.rpartition(": ")[0] for line in capsys.readouterr().err.splitlines()]
    assert told == "20, 30"
    assert lines == ["[1/2] toy, random, documents 20, seed 0", "[2/2] toy, random, documents 30, seed 0"]


def test_as_few_settings_as_will_do() -> None:
    many: list[dict[str, Any]] = [{"a": number % 2, "b": number, "c": "word", "d": -number} for number in range(4)]
    names = [set("abcd")] * 4
    assert distinguish(many, names) == ["b 0", "b 1", "b 2", "b 3"]
    assert distinguish(many, [*names[:3], set("ad")]) == ["b 0", "b 1", "b 2", "a 1, d -3"]
    assert distinguish(many[:1], names[:1]) == [""]


choices = st.fixed_dictionaries({}, optional={name: st.integers(0, 2) for name in "abc"})


@given(st.lists(choices, min_size=1, max_size=6, unique_by=lambda one: tuple(one.get(name, 0) for name in "abc")))
def test_what_differs_is_never_written_alike(given: list[dict[str, int]]) -> None:
    whole = [{name: one.get(name, 0) for name in "abc"} for one in given]
    assert len(set(distinguish(whole, given))) == len(given)
