from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import small
from experiments import figures, keys, run, run_keys, toy_grid, write_toy
from fresh.data.splits import Splits
from fresh.document import Document, Example
from fresh.experiments.store import RunStore
from fresh.pipeline import train
from fresh.progress import SILENT
from fresh.reporting.report import Row

pytestmark = pytest.mark.filterwarnings("ignore:The gate has collapsed")  # for want of epochs
ROWS: dict[str, dict[str, Any]] = {
    "attention": {"scorer": "attention"},
    "contiguous": {"scorer": "gradient", "discretizer": "contiguous"},
    "global": {"scorer": "attention_gradient", "discretizer": "global_top_k"},
    "many lengths": {"scorer": "attention", "ratio": "0.1:0.5"},
    "tagger": {"scorer": "attention", "tagger": True, "human": 0.5},
    "folds": {"scorer": "attention", "folds": 2},
    "lei": {"method": "lei"},
    "full_text": {"method": "full_text"},
    "random": {"method": "random"},
    "human": {"method": "human"},
}
FROM_REPORT: dict[str, Callable[[Row], float | None]] = {
    "macro-F1": lambda row: row.macro_f1,
    "macro-F1 low": lambda row: (row.macro_f1_between or (None,))[0],
    "macro-F1 high": lambda row: (row.macro_f1_between or (None,))[-1],
    "accuracy": lambda row: row.accuracy,
    "kept": lambda row: row.kept,
}


def check_same(path: Path, rows: dict[str, dict[str, Any]], settings: dict[str, Any]) -> list[float]:
    """Check that a grid finds what training with the same settings finds, and return macro-F1 of all rows."""
    assert run(path).failures == {}
    found: list[float] = []
    for name, row in rows.items():
        model = train(str(path.parent / "toy"), audit=False, baseline=False, progress=SILENT, **settings, **row)
        report = small.reported(model.report)
        [own] = [line for line in report.rows if line.own]
        [measured] = figures(
            RunStore(path.parent / "runs"), [keys(path)[f"toy, {name}, seed {settings.get('seed', 0)}"]]
        ).values()
        assert {figure: read(own) for figure, read in FROM_REPORT.items()} == {
            figure: measured[figure] for figure in FROM_REPORT
        }, name
        agreement = (
            {} if report.figures is None else {item.name: item.figure.value for item in report.figures.agreement}
        )
        assert {figure: measured.get(figure) for figure in agreement} == agreement, name
        assert measured["unread"] == pytest.approx(report.unread, abs=1e-12), name
        found.append(measured["macro-F1"])
    return found


def test_a_grid_finds_what_training_finds(toy: Splits, encoders: dict[str, Path], tmp_path: Path) -> None:
    learning = small.settings(encoders["bert"], epochs=4, seed=3)
    rows = ({"name": name, **row} for name, row in ROWS.items())
    path = toy_grid(tmp_path, toy, encoders["bert"], *rows, settings=learning, corpora={"toy": {"data": "toy"}})
    write_toy(tmp_path / "toy", toy, 96, 32)
    found = check_same(path, ROWS, learning)
    assert len(set(found)) > 3  # it is no wonder that those agree which learnt nothing


def test_a_grid_knows_what_truncating_leaves_unread(toy: Splits, encoders: dict[str, Path], tmp_path: Path) -> None:
    long = Splits(*(tuple(map(longer, part[:16])) for part in (toy.train, toy.dev, toy.test)))
    rows: dict[str, dict[str, Any]] = {
        "ours": {"scorer": "attention", "long": "truncate"},
        "tagger": {"distil": True, "long": "truncate"},
    }
    settings = small.settings(encoders["bert"], epochs=1)
    listed = ({"name": name, **row} for name, row in rows.items())
    path = toy_grid(tmp_path, toy, encoders["bert"], *listed, settings=settings, corpora={"toy": {"data": "toy"}})
    write_toy(tmp_path / "toy", long)
    check_same(path, rows, settings)
    for measured in figures(RunStore(tmp_path / "runs"), run_keys(path)).values():
        assert measured["unread"] > 0.1


def longer(example: Example) -> Example:
    """Say it all ten times, which is more than an encoder reads at once."""
    return Example(Document.from_words(example.document.words * 10, (), example.document.id), example.label)
