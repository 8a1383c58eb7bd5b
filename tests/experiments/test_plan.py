from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import small
from experiments import toy_grid, write_grid, write_toy
from fresh.data.splits import Splits
from fresh.errors import ConfigError
from fresh.experiments.grid_file import read_grid
from fresh.experiments.plan import Task, _plan
from fresh.experiments.sources import N_AT_HAND, Sources, some
from fresh.experiments.store import RunStore

NO_PEOPLE = (
    "human={share} asks for people's rationales, but no training document has one. Give data with rationales, or leave "
    "human out."
)


@pytest.fixture
def planned(toy: Splits, encoders: dict[str, Path], tmp_path: Path) -> Callable[..., list[Task]]:
    """Plan a grid over a toy corpus."""

    def make(*rows: dict[str, Any], **parts: Any) -> list[Task]:
        path = toy_grid(tmp_path, toy, encoders["bert"], *rows, **parts)
        return _plan(read_grid(path), None, RunStore(tmp_path / "runs"))

    return make


def test_what_runs_share_is_done_once_and_before_them(planned: Callable[..., list[Task]]) -> None:
    tasks = planned(
        {
            "scorer": ["attention", "gradient"],
            "discretizer": ["top_k", "contiguous", "global_top_k"],
            "ratio": [0.1, 0.2],
        },
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
    alone = [task.cell.row for task in tasks if task.kind == "run" and not task.needs and task.cell.seed == 0]
    assert alone == ["fresh, attention, folds 2", "random", "bastings, epochs 3, patience 1"]


def test_a_task_is_called_by_what_it_is(planned: Callable[..., list[Task]]) -> None:
    assert list(map(str, planned({"name": "ours", "scorer": "gradient"}))) == [
        "toy, support model, seed 0",
        "toy, scores of gradient, seed 0",
        "toy, ours, seed 0",
    ]
    assert str(planned({"name": "ours"})[1]) == "toy, scores, seed 0"


def test_another_network_or_corpus_needs_another_support_model(planned: Callable[..., list[Task]]) -> None:
    tasks = planned({"scorer": "attention", "epochs": [1, 2], "dropout": [0.0, 0.1]})
    assert [task.kind for task in tasks].count("support") == 4


def test_the_corpus_with_the_most_words_comes_first(toy: Splits, encoders: dict[str, Path], tmp_path: Path) -> None:
    for n_train in (8, 48, 24):
        write_toy(tmp_path / f"of{n_train}", toy, n_train)
    corpora = {name: {"data": name} for name in ("of8", "of48", "of24")}
    path = write_grid(
        tmp_path / "g.toml", {"scorer": "attention"}, settings=small.settings(encoders["bert"]), corpora=corpora
    )
    tasks = _plan(read_grid(path), None, RunStore(tmp_path / "runs"))
    assert [task.cell.corpus for task in tasks] == ["of48"] * 3 + ["of24"] * 3 + ["of8"] * 3


def test_the_plan_is_written_down_with_settings_as_they_were_understood(
    planned: Callable[..., list[Task]], tmp_path: Path
) -> None:
    [*_, run] = planned(
        {"name": "ours", "ratio": "0.5x"}, settings={"epochs": "3"}, about="A try.", figure={"x": "ratio"}
    )
    found = RunStore(tmp_path / "runs").plan("grid")
    assert (found["name"], found["about"], found["figure"]) == ("grid", "A try.", {"x": "ratio"})
    [item] = found["runs"]
    assert (item["key"], item["row"], item["corpus"], item["seed"]) == (run.key, "ours", "toy", 0)
    assert {name: item["settings"][name] for name in ("method", "reads", "ratio", "epochs")} == {
        "method": "fresh",
        "reads": "rationale",
        "ratio": 0.1,
        "epochs": 3,
    }


def refused(planned: Callable[..., list[Task]], tmp_path: Path, *rows: dict[str, Any], **parts: Any) -> list[str]:
    """Check that a grid is refused and nothing is written, and return what is said."""
    with pytest.raises(ConfigError) as caught:
        planned(*rows, **parts)
    assert not (tmp_path / "runs").exists()
    return str(caught.value).splitlines()


def test_encoders_that_cannot_be_had_and_layers_that_they_lack_are_refused(
    planned: Callable[..., list[Task]], encoders: dict[str, Path], tmp_path: Path
) -> None:
    (tmp_path / "empty").mkdir()
    with pytest.raises(ConfigError) as caught:
        planned(
            {"scorer": ["attention", "gradient"], "layers": 9},
            {"name": "none", "method": "lei", "encoder": str(tmp_path / "empty")},
        )
    *before, reason, last = str(caught.value).splitlines()
    assert before == [
        "3 runs of the grid cannot be, so none was begun:",
        f"layers must be at most 2 for the encoder {encoders['bert']}, or all, got 9.",
        "  toy, fresh, attention, layers 9, seed 0",
        "  toy, fresh, gradient, layers 9, seed 0",
    ]
    assert reason.startswith(f"The folder {tmp_path / 'empty'} contains no encoder that can be loaded: ")
    assert last == "  toy, none, seed 0"
    assert not (tmp_path / "runs" / "plans").exists()


def test_all_cells_that_cannot_be_are_named(planned: Callable[..., list[Task]], tmp_path: Path) -> None:
    told = refused(
        planned,
        tmp_path,
        {"name": "fine", "scorer": "attention"},
        {"name": "a", "method": ["lei", "bastings"], "scorer": "attention"},
        {"name": "b", "scorer": ["atention", "gradient"]},
        {"name": "c", "method": "lei", "reads": "complement"},
        {"name": "d", "scorer": "attention", "ratio": 2},
        {"name": "e", "epochs": 0},
        grid={"seed": [0, 1]},
    )
    complement = "reads = 'complement' is for the method fresh with a scorer, without a tagger or folds."
    assert told == [
        "12 runs of the grid cannot be, so none was begun:",
        "scorer is a setting of fresh, not of the method lei.",
        *("  toy, a, lei, seed 0", "  toy, a, lei, seed 1"),
        "scorer is a setting of fresh, not of the method bastings.",
        *("  toy, a, bastings, seed 0", "  toy, a, bastings, seed 1"),
        "atention is not a scorer. Did you mean attention?",
        *("  toy, b, atention, seed 0", "  toy, b, atention, seed 1"),
        complement,
        *("  toy, c, seed 0", "  toy, c, seed 1"),
        "ratio must be in (0, 1], got 2.0.",
        *("  toy, d, seed 0", "  toy, d, seed 1"),
        "epochs must be at least 1, got 0.",
        *("  toy, e, seed 0", "  toy, e, seed 1"),
    ]


@pytest.mark.parametrize(
    "row", [{"tagger": True}, {"folds": 2}, {"scorer": "random"}, {"method": "full_text"}, {"method": "random"}]
)
def test_only_what_a_scorer_dropped_can_be_read(
    row: dict[str, Any], planned: Callable[..., list[Task]], tmp_path: Path
) -> None:
    [count, *_] = refused(planned, tmp_path, {**row, "reads": "complement"})
    assert count == "1 run of the grid cannot be, so none was begun:"


def test_peoples_rationales_are_refused_where_nobody_made_any(
    toy: Splits, planned: Callable[..., list[Task]], tmp_path: Path
) -> None:
    bare = Splits(*(tuple(map(small.unmarked, part)) for part in (toy.train, toy.dev, toy.test)))
    write_toy(tmp_path / "bare", bare)
    half = Splits(toy.train, toy.dev, bare.test)
    write_toy(tmp_path / "half", half)
    told = refused(
        planned,
        tmp_path,
        {"name": "tagger", "tagger": True, "human": [0.2, 1.0]},
        {"name": "gate", "method": "lei", "human": 0.2},
        {"name": "people", "method": "human"},
        corpora={name: {"data": name} for name in ("toy", "bare", "half")},
    )
    marked = "method=human reads people's rationales, but no {} document has one. Give data with rationales, or choose "
    assert told == [
        "5 runs of the grid cannot be, so none was begun:",
        NO_PEOPLE.format(share="0.2"),
        *("  bare, tagger, human 0.2, seed 0", "  bare, gate, seed 0"),
        NO_PEOPLE.format(share="1"),
        "  bare, tagger, human 1.0, seed 0",
        marked.format("train") + "another method.",
        "  bare, people, seed 0",
        marked.format("test") + "another method.",
        "  half, people, seed 0",
    ]


def test_data_that_cannot_be_read_and_folds_that_cannot_be_cut(
    planned: Callable[..., list[Task]], tmp_path: Path
) -> None:
    told = refused(
        planned,
        tmp_path,
        {"scorer": "attention", "folds": 99},
        corpora={"toy": {"data": "toy"}, "x": {"data": "no.csv"}},
    )
    assert told == [
        "2 runs of the grid cannot be, so none was begun:",
        "folds=99 is more than the 48 different documents there are to train on. Choose fewer.",
        "  toy, fresh, attention, folds 99, seed 0",
        f"{tmp_path / 'no.csv'} does not exist. Check the spelling and the folder.",
        "  x, fresh, attention, folds 99, seed 0",
    ]


def test_rows_that_differ_only_in_how_fast_they_are_would_be_one_run(
    planned: Callable[..., list[Task]], tmp_path: Path
) -> None:
    slow, fast = {"name": "slow", "method": "full_text"}, {"name": "fast", "method": "full_text", "recording": False}
    assert refused(planned, tmp_path, slow, {**fast, "frozen": "off"}, grid={"seed": [0, 1]}) == [
        "2 runs of the grid cannot be, so none was begun:",
        "The rows slow and fast differ only in frozen, recording: that decides on how fast a run is, not on what comes "
        "out, so they would be one run. Leave one of them out.",
        "  toy, fast, seed 0",
        "  toy, fast, seed 1",
    ]
    usual = {"name": "usual", "method": "full_text", "pooling": "auto"}
    assert len([task for task in planned(slow, usual, {**fast, "epochs": 9}) if task.kind == "run"]) == 2


def test_a_corpus_of_the_paper_needs_its_folder(planned: Callable[..., list[Task]], tmp_path: Path) -> None:
    told = refused(planned, tmp_path, {"corpus": ["sst", "toy"]})
    assert told[1:] == [
        "sst is the name of a corpus. Give the folder of its files: data_dir=FOLDER.",
        "  sst, fresh, seed 0",
    ]


def test_some_documents_are_drawn_by_lot_and_keep_their_order(toy: Splits) -> None:
    assert some(toy.train, None) == some(toy.train, 999) == toy.train
    few, more = some(toy.train, 20), some(toy.train, 40)
    assert (len(few), len(more)) == (20, 40)
    assert set(map(id, few)) <= set(map(id, more))
    places = [[id(example) for example in toy.train].index(id(example)) for example in more]
    assert places == sorted(places) != list(range(40))
    assert some(toy.train, 20) == few


def test_documents_and_divisions_tell_corpora_apart(toy: Splits, encoders: dict[str, Path], tmp_path: Path) -> None:
    table = small.write_csv(tmp_path / "toy.csv", small.rows(toy.train))
    settings = small.settings(encoders["bert"])
    digests: list[str] = []
    for about in ({}, {"dev_share": 0.2}, {"seed": 1}):
        corpora = {"toy": {"data": table.name, **about}}
        path = write_grid(tmp_path / "g.toml", {}, settings=settings, corpora=corpora)
        for documents in (None, 20):
            [cell] = read_grid(path, documents=documents).cells
            digests.append(Sources(None).about(cell, cell.resolve(None)).digest)
    assert len(set(digests)) == 6


def test_only_the_last_corpora_stay_in_memory(toy: Splits, encoders: dict[str, Path], tmp_path: Path) -> None:
    corpora = {f"toy{n}": {"data": write_toy(tmp_path / f"toy{n}", toy, 8 + n).name} for n in range(4)}
    path = write_grid(tmp_path / "g.toml", {}, settings=small.settings(encoders["bert"]), corpora=corpora)
    sources = Sources(None)
    for cell in read_grid(path).cells:
        run = cell.resolve(None)
        assert sources.usable(cell, run) == sources.splits(cell, run)
        assert sources.splits(cell, run) is sources.splits(cell, run)
        assert sources.about(cell, run).n_words == sum(
            len(item.document.words) for item in sources.splits(cell, run).train
        )
    assert len(sources.read) == len(sources.cut) == N_AT_HAND
    assert len(sources.known) == 4


def test_a_gate_is_shared_by_all_that_only_cut_it_otherwise(planned: Callable[..., list[Task]]) -> None:
    gates = [
        task.key
        for task in planned(
            {"method": "lei", "discretizer": ["top_k", "contiguous"], "ratio": [0.1, 0.2]},
            {"method": "bastings", "discretizer": ["top_k", "contiguous"]},
        )
        if task.kind == "gate"
    ]
    assert len(gates) == len(set(gates)) == 3
