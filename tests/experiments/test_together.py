"""Several grids in one go."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from experiments import Inline, reports, run, toy_grid
from fresh.attribution.support_model import SupportModel
from fresh.cli.main import main
from fresh.data.splits import Splits
from fresh.errors import ConfigError, DataError
from fresh.experiments.results import read_results
from fresh.experiments.run import GridResult, run_grids
from fresh.experiments.store import RunStore

ATTENTION = {"name": "ours", "scorer": "attention"}
LONGER = {"name": "longer", "scorer": "attention", "ratio": 0.4}


@pytest.fixture
def grids(toy: Splits, encoders: dict[str, Path], tmp_path: Path) -> Callable[..., list[Path]]:
    """Write several grids over one toy corpus, by their names."""

    def write(**rows: list[dict[str, Any]]) -> list[Path]:
        places: list[Path] = []
        for name, own in rows.items():
            path = toy_grid(tmp_path, toy, encoders["bert"], *own, name=name)
            places.append(path.rename(tmp_path / f"{name}.toml"))
        return places

    return write


def test_what_several_grids_need_is_done_once(
    grids: Callable[..., list[Path]], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    n_trained: list[int] = []
    whole = SupportModel.train_many

    def train_many(*given: Any, **others: Any) -> Any:
        n_trained.append(1)
        return whole(*given, **others)

    monkeypatch.setattr(SupportModel, "train_many", train_many)
    paths, out = grids(first=[ATTENTION], second=[ATTENTION, LONGER]), tmp_path / "runs"
    engine = Inline(out)
    assert run_grids(paths, out, executor=engine) == [GridResult("first", 1, {}), GridResult("second", 2, {})]
    assert engine.n_expected == 3
    assert len(reports(out)) == 2
    kept = RunStore(out)
    assert [result.row for result in read_results(kept, "first")] == ["ours"]
    assert [result.row for result in read_results(kept, "second")] == ["ours", "longer"]
    together = {result.key: result.metrics["macro-F1"] for result in read_results(kept, "second")}
    assert run(paths[1], "alone") == GridResult("second", 2, {})
    alone = {result.key: result.metrics["macro-F1"] for result in read_results(RunStore(tmp_path / "alone"), "second")}
    assert together == alone
    assert len(n_trained) == 4  # trained once and read again for the scores, in each of the two folders


def test_what_fails_is_told_of_every_grid_that_has_it(
    grids: Callable[..., list[Path]], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def broken(*_given: Any) -> None:
        raise ValueError("broken")

    monkeypatch.setattr("fresh.experiments.worker.measure", broken)
    paths, out = grids(first=[ATTENTION], second=[ATTENTION, LONGER]), tmp_path / "runs"
    ours, longer = "toy, ours, seed 0", "toy, longer, seed 0"
    assert run_grids(paths, out, executor=Inline(out)) == [
        GridResult("first", 1, {ours: "ValueError: broken"}),
        GridResult("second", 2, {ours: "ValueError: broken", longer: "ValueError: broken"}),
    ]


def test_an_impossible_grid_holds_up_all(grids: Callable[..., list[Path]], tmp_path: Path) -> None:
    paths, out = grids(first=[ATTENTION], second=[{"method": "lei", "human": 0.5, "name": "taught"}]), tmp_path / "runs"
    unmarked = tmp_path / "toy" / "train.jsonl"
    unmarked.write_text(unmarked.read_text(encoding="utf-8").replace('"rationale"', '"other"'), encoding="utf-8")
    with pytest.raises(ConfigError, match="taught"):
        run_grids(paths, out, executor=Inline(out))
    assert reports(out) == {}


def test_what_cannot_be_is_told_of_all_grids_and_nothing_is_written(
    grids: Callable[..., list[Path]], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    wrong = {"name": "wrong", "epochs": 0}
    paths, out = grids(first=[LONGER], second=[ATTENTION, wrong], third=[wrong]), tmp_path / "runs"
    engine, n_read = Inline(out), list[int]()

    def read_splits(*_given: Any) -> None:
        n_read.append(1)
        raise DataError("broken")

    monkeypatch.setattr("fresh.experiments.sources.read_splits", read_splits)
    with pytest.raises(ConfigError) as caught:
        run_grids(paths, out, executor=engine)
    assert str(caught.value).splitlines() == [
        "1 run of the grid first cannot be, so none was begun:",
        "broken",
        "  toy, longer, seed 0",
        "2 runs of the grid second cannot be, so none was begun:",
        "epochs must be at least 1, got 0.",
        "  toy, wrong, seed 0",
        "broken",
        "  toy, ours, seed 0",
        "1 run of the grid third cannot be, so none was begun:",
        "epochs must be at least 1, got 0.",
        "  toy, wrong, seed 0",
    ]
    assert len(n_read) == 1
    assert not out.exists()
    assert engine.n_expected == 0


def test_what_is_wrong_with_files_is_told_of_all(tmp_path: Path) -> None:
    paths = [tmp_path / "one.toml", tmp_path / "two.toml"]
    for path in paths:
        path.write_text("row = 1\n[[rows]]\n", encoding="utf-8")
    with pytest.raises(ConfigError) as caught:
        run_grids(paths, tmp_path / "runs")
    assert str(caught.value) == "\n".join(
        f"In {path}: row is not a part of a grid. Did you mean rows?" for path in paths
    )


def test_two_grids_of_one_name_are_refused(grids: Callable[..., list[Path]], tmp_path: Path) -> None:
    [path] = grids(first=[ATTENTION])
    other = tmp_path / "other.toml"
    other.write_text(path.read_text(encoding="utf-8"), encoding="utf-8")
    with pytest.raises(ConfigError) as caught:
        run_grids([path, other], tmp_path / "runs")
    assert str(caught.value) == f"{path} and {other} are both called 'first'. Give one of them another name."


def test_the_command_tells_of_each(
    grids: Callable[..., list[Path]], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    paths, out = grids(first=[ATTENTION], second=[LONGER]), str(tmp_path / "runs")
    assert main(["run", *map(str, paths), "--out", out, "--workers", "1"]) == 0
    assert capsys.readouterr().out == (
        f"1 of 1 runs are done. Table: fresh table {out} first\n1 of 1 runs are done. Table: fresh table {out} second\n"
    )
