from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import small
from experiments import Inline, Writer, plan, write_grid, write_toy
from fresh.data.splits import Splits
from fresh.errors import ConfigError
from fresh.experiments.grid import WHERE_SETTINGS_BELONG
from fresh.experiments.grid_file import read_grid
from fresh.experiments.plan import Task, label_tasks
from fresh.experiments.run import run_grids
from fresh.experiments.store import RunStore

Planned = Callable[..., list[Task]]
Refused = Callable[..., list[str]]


@pytest.fixture
def planned(grid: Writer, store: RunStore) -> Planned:
    """Plans a grid over a toy corpus."""

    def make(*rows: dict[str, Any], **parts: Any) -> list[Task]:
        return plan(read_grid(grid(*rows, **parts)), None, store)

    return make


@pytest.fixture
def refused(planned: Planned, tmp_path: Path) -> Refused:
    """Checks that a grid is refused and nothing is written, and returns what is wrong with which runs."""

    def find(*rows: dict[str, Any], **parts: Any) -> list[str]:
        with pytest.raises(ConfigError) as caught:
            planned(*rows, **parts)
        assert not (tmp_path / "runs").exists()
        *lines, hint = str(caught.value).splitlines()
        assert hint == f"({WHERE_SETTINGS_BELONG})"
        return lines

    return find


def check(lines: list[str], *expected: str) -> None:
    """Check how each line starts, and lines that name runs as a whole."""
    for line, start in zip(lines, expected, strict=True):
        assert line == start if start.startswith("  ") else line.startswith(start)


def test_shared_work_is_done_once_and_first(planned: Planned) -> None:
    cuts = ["top_k", "contiguous", "global_top_k"]
    tasks = planned(
        {"scorer": ["attention", "gradient"], "discretizer": cuts, "ratio": [0.1, 0.2]},
        {"scorer": "attention", "reads": "complement"},
        {"scorer": "attention", "tagger": True},
        {"scorer": "integrated_gradients", "steps": [2, 3]},
        {"scorer": "attention", "folds": 2},
        {"method": ["full_text", "random"]},
        {"method": "lei", "discretizer": ["top_k", "contiguous"]},
        {"method": "bastings", "epochs": 3, "patience": 1},
        grid={"seed": [0, 1]},
    )
    kinds = [task.kind for task in tasks]
    counts = [kinds.count(kind) for kind in ("support", "gate", "scores", "run")]
    assert counts == [2, 2, 8, 2 * (12 + 2 + 2 + 1 + 2 + 2 + 1)]
    assert len({task.key for task in tasks}) == len(tasks)
    before: set[str] = set()
    for task in tasks:
        assert before.issuperset(task.needs)
        before.add(task.key)
    alone = [task.spec.row for task in tasks if task.kind == "run" and not task.needs and task.spec.seed == 0]
    assert alone == ["fresh, attention, folds 2", "random", "bastings, epochs 3, patience 1"]


def test_scores_of_words_on_both_sides_are_other_work(planned: Planned) -> None:
    scorer = {"name": "ours", "scorer": "occlusion"}
    default, same, both = (
        [task.key for task in planned({**scorer, **more})] for more in ({}, {"evidence": "for"}, {"evidence": "both"})
    )
    assert same == default
    assert [one == other for one, other in zip(both, default, strict=True)] == [True, False, False]
    assert labels(planned({**scorer, "evidence": ["for", "both"]})) == [
        "toy, support model, seed 0",
        "toy, scores of occlusion, for, seed 0",
        "toy, scores of occlusion, both, seed 0",
    ]


def test_the_corpus_with_the_most_words_comes_first(
    toy: Splits, encoders: dict[str, Path], tmp_path: Path, store: RunStore
) -> None:
    corpora = {f"of{n_train}": {"data": write_toy(tmp_path / f"of{n_train}", toy, n_train).name} for n_train in (8, 48)}
    settings = small.settings(encoders["bert"])
    path = write_grid(tmp_path / "g.toml", {"scorer": "attention"}, settings=settings, corpora=corpora)
    tasks = plan(read_grid(path), None, store)
    assert [task.spec.corpus for task in tasks] == ["of48"] * 3 + ["of8"] * 3


def test_the_plan_is_written_with_settings_in_their_types(planned: Planned, store: RunStore) -> None:
    row = {"name": "ours", "ratio": "0.5x"}
    [*_, run] = planned(row, settings={"epochs": "3"}, about="A try.", figure={"x": "ratio"})
    written = store.read_plan("grid")
    assert (written["name"], written["about"], written["figure"]) == ("grid", "A try.", {"x": "ratio"})
    [item] = written["runs"]
    assert (item["key"], item["row"], item["corpus"], item["seed"]) == (run.key, "ours", "toy", 0)
    expected = {"method": "fresh", "reads": "rationale", "ratio": 0.1, "epochs": 3}
    assert {name: item["settings"][name] for name in expected} == expected


# Names of tasks


def labels(tasks: list[Task]) -> list[str]:
    return [str(task) for task in label_tasks(tasks) if task.kind != "run"]


def test_a_task_is_named_by_what_it_is(planned: Planned) -> None:
    assert list(map(str, planned({"name": "ours", "scorer": "gradient"}))) == [
        "toy, support model, seed 0",
        "toy, scores of gradient, seed 0",
        "toy, ours, seed 0",
    ]
    assert str(planned({"name": "ours"})[1]) == "toy, scores, seed 0"


def test_shared_work_is_named_by_its_settings_that_differ(planned: Planned) -> None:
    rates = {"learning_rate": [0.001, 0.002]}
    full = {"method": "full_text", "pooling": ["mean", "start"], **rates}
    assert labels(planned(full, {"method": "full_text", "epochs": 1})) == [
        "toy, support model, mean, epochs 2, learning_rate 0.001, seed 0",
        "toy, support model, mean, epochs 2, learning_rate 0.002, seed 0",
        "toy, support model, start, epochs 2, learning_rate 0.001, seed 0",
        "toy, support model, start, epochs 2, learning_rate 0.002, seed 0",
        "toy, support model, epochs 1, learning_rate 0.005, seed 0",
    ]
    ratios = {"scorer": "attention", "ratio": [0.1, 0.2]}
    assert labels(planned(ratios, {"method": "lei", "ratio": 0.2, "epochs": 1}, grid={"seed": [0, 1]})) == [
        *("toy, support model, seed 0", "toy, scores of attention, seed 0"),
        *("toy, support model, seed 1", "toy, scores of attention, seed 1"),
        *("toy, gate of lei, seed 0", "toy, gate of lei, seed 1"),
    ]
    gates = {"method": "lei", "ratio": [0.1, 0.2], "discretizer": ["top_k", "contiguous"], "epochs": 1}
    assert labels(planned({"scorer": "integrated_gradients", "steps": [2, 3]}, gates)) == [
        "toy, support model, seed 0",
        "toy, scores of integrated_gradients, steps 2, seed 0",
        "toy, scores of integrated_gradients, steps 3, seed 0",
        "toy, gate of lei, ratio 0.1, seed 0",
        "toy, gate of lei, ratio 0.2, seed 0",
    ]


def test_equal_names_show_their_documents(grid: Writer, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    paths = [
        grid({"method": "random"}, settings={"epochs": 1}, documents=n).rename(tmp_path / f"{n}.toml") for n in (20, 30)
    ]
    run_grids(paths, tmp_path / "runs", executor=Inline(tmp_path / "runs"))
    assert [line.rpartition(": ")[0] for line in capsys.readouterr().err.splitlines()] == [
        "20, 30",
        "[1/2] toy, random, documents 20, seed 0",
        "[2/2] toy, random, documents 30, seed 0",
    ]


# Runs that cannot be done


def test_missing_encoders_and_layers_are_refused(refused: Refused, encoders: dict[str, Path], tmp_path: Path) -> None:
    (tmp_path / "empty").mkdir()
    missing = {"name": "none", "method": "lei", "encoder": str(tmp_path / "empty")}
    check(
        refused({"scorer": ["attention", "gradient"], "layers": 9}, missing),
        "3 runs of the grid cannot be done, so none was started:",
        f"layers must be all or at most 2 for the encoder {encoders['bert']}, got 9.",
        "  toy, fresh, attention, layers 9, seed 0",
        "  toy, fresh, gradient, layers 9, seed 0",
        f"The folder {tmp_path / 'empty'} contains no encoder",
        "  toy, none, seed 0",
    )


def test_all_invalid_runs_are_listed(refused: Refused) -> None:
    lines = refused(
        {"name": "fine", "scorer": "attention"},
        {"name": "a", "method": ["lei", "bastings"], "scorer": "attention"},
        {"name": "b", "scorer": ["atention", "gradient"]},
        {"name": "c", "method": "lei", "reads": "complement"},
        {"name": "d", "scorer": "attention", "ratio": 2},
        {"name": "e", "epochs": 0},
        grid={"seed": [0, 1]},
    )
    check(
        lines,
        "12 runs of the grid cannot be done, so none was started:",
        "scorer is a setting of fresh, not of the method lei.",
        *("  toy, a, lei, seed 0", "  toy, a, lei, seed 1"),
        "scorer is a setting of fresh, not of the method bastings.",
        *("  toy, a, bastings, seed 0", "  toy, a, bastings, seed 1"),
        "atention is not a scorer. Did you mean attention?",
        *("  toy, b, atention, seed 0", "  toy, b, atention, seed 1"),
        "reads = 'complement' needs method fresh with a scorer and its own predictor, without a tagger or folds.",
        *("  toy, c, seed 0", "  toy, c, seed 1"),
        "ratio must be ",
        *("  toy, d, seed 0", "  toy, d, seed 1"),
        "epochs must be at least 1, got 0.",
        *("  toy, e, seed 0", "  toy, e, seed 1"),
    )
    # A complement needs a scorer.
    lacking = ("tagger", True), ("folds", 2), ("scorer", "random"), ("method", "full_text"), ("method", "random")
    [count, *_] = refused(*({name: value, "reads": "complement"} for name, value in lacking))
    assert count.startswith("5 runs of the grid cannot be done")
    [_, problem, run] = refused({"corpus": ["sst", "toy"]})
    assert problem.startswith("sst is the name of a corpus.")
    assert problem.endswith("data_dir=FOLDER.")
    assert run == "  sst, fresh, seed 0"


def test_missing_human_rationales_are_refused(toy: Splits, refused: Refused, tmp_path: Path) -> None:
    bare = Splits(*(tuple(map(small.unmarked, part)) for part in (toy.train, toy.dev, toy.test)))
    write_toy(tmp_path / "bare", bare)
    write_toy(tmp_path / "half", Splits(toy.train, toy.dev, bare.test))
    lines = refused(
        {"name": "tagger", "tagger": True, "human": [0.2, 1.0]},
        {"name": "gate", "method": "lei", "human": 0.2},
        {"name": "people", "method": "human"},
        corpora={name: {"data": name} for name in ("toy", "bare", "half")},
    )
    check(
        lines,
        "5 runs of the grid cannot be done",
        "human=0.2 ",
        *("  bare, tagger, human 0.2, seed 0", "  bare, gate, seed 0"),
        "human=1 ",
        "  bare, tagger, human 1.0, seed 0",
        "method=human ",
        "  bare, people, seed 0",
        "method=human ",
        "  half, people, seed 0",
    )
    assert ("no train document" in lines[6], "no test document" in lines[8]) == (True, True)


def test_missing_data_and_too_many_folds_are_refused(refused: Refused, tmp_path: Path) -> None:
    corpora = {"toy": {"data": "toy"}, "x": {"data": "no.csv"}}
    check(
        refused({"scorer": "attention", "folds": 99}, corpora=corpora),
        "2 runs of the grid cannot be done",
        "folds=99 ",
        "  toy, fresh, attention, folds 99, seed 0",
        f"{tmp_path / 'no.csv'} does not exist.",
        "  x, fresh, attention, folds 99, seed 0",
    )


def test_rows_that_differ_only_in_speed_are_refused(planned: Planned, refused: Refused) -> None:
    slow, fast = {"name": "slow", "method": "full_text"}, {"name": "fast", "method": "full_text", "recording": False}
    check(
        refused(slow, {**fast, "frozen": "off"}, grid={"seed": [0, 1]}),
        "2 runs of the grid cannot be done",
        "The rows slow and fast differ only in frozen, recording",
        "  toy, fast, seed 0",
        "  toy, fast, seed 1",
    )
    usual = {"name": "usual", "method": "full_text", "pooling": "auto"}
    assert len([task for task in planned(slow, usual, {**fast, "epochs": 9}) if task.kind == "run"]) == 2


@pytest.mark.parametrize(
    ("first", "row", "problem"),
    [
        ({"text": ""}, {"method": "random"}, "mine.jsonl, line 1: the text has no words."),
        ({}, {"method": "random", "text": "review"}, "mine.jsonl has no column 'review' for the text."),
        ({}, {"scorer": "attention", "crf": True}, "Only a tagger takes crf"),
    ],
)
def test_library_errors_are_followed_by_where_settings_belong(
    first: dict[str, Any], row: dict[str, Any], problem: str, refused: Refused, tmp_path: Path
) -> None:
    rows = [{"id": f"{number}", "text": "a b", "label": "pn"[number % 2]} for number in range(9)]
    small.write_jsonl(tmp_path / "mine.jsonl", [{**rows[0], **first}, *rows[1:]])
    assert refused(row, corpora={"mine": {"data": "mine.jsonl"}})[1].startswith(problem)
