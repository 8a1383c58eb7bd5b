"""Models and files small enough for tests of everything above the networks."""

import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from data_files import csv_table, json_lines, write
from fresh.attribution import make_scorer
from fresh.attribution.support_model import SupportModel
from fresh.data.splits import Splits
from fresh.document import Document, Example, Explanation, Saliency
from fresh.predictor import Predictor
from fresh.progress import _Silent
from fresh.rationalizer import Rationalizer
from fresh.reporting.report import Report
from fresh.selection.extractors import SaliencyExtractor

Configure = Callable[..., Any]
"""Makes settings of the method fresh, or of one that is named first."""


def settings(encoder: Path, **others: Any) -> dict[str, Any]:
    """Settings that train on a few dozen documents in less than a second."""
    quick = {"epochs": 2, "batch_size": 8, "learning_rate": 5e-3, "device": "cpu"}
    return {"encoder": str(encoder), "layers": "all", "dropout": 0.0, **quick, **others}


def run_settings(encoder: Path, **others: Any) -> dict[str, Any]:
    """The same for a training run without an audit, which takes longer than training."""
    return {"audit": False, **settings(encoder, **others)}


def options(encoder: Path, **others: Any) -> list[str]:
    """The same as command-line options."""
    given = run_settings(encoder, **others)
    flags = ["--audit" if given.pop("audit") else "--no-audit"]
    return [*flags, *(f"--{name.replace('_', '-')}={value}" for name, value in given.items())]


def some(splits: Splits, n_train: int = 48, n_rest: int = 16) -> Splits:
    return Splits(splits.train[:n_train], splits.dev[:n_rest], splits.test[:n_rest])


def rationalizer(
    support: SupportModel, predictor: Predictor, discretizer: Any, scorer: str = "occlusion"
) -> Rationalizer:
    """Combine halves that were trained once for all tests."""
    extractor = SaliencyExtractor(make_scorer(scorer, support, {}), discretizer, support)
    return Rationalizer(extractor, predictor, {"ratio": 0.2})


def rows(examples: Iterable[Example]) -> list[dict[str, str]]:
    return [{"id": e.document.id, "text": e.document.text, "label": e.label} for e in examples]


def unmarked(example: Example) -> Example:
    return Example(example.document, example.label)


def write_csv(path: Path, table: Sequence[Mapping[str, Any]]) -> Path:
    return write(path, csv_table(table))


def write_jsonl(path: Path, table: Iterable[Any]) -> Path:
    return write(path, json_lines(table))


def digests(folder: Path) -> dict[str, str]:
    """Read the digest of each file of a saved model."""
    found: dict[str, str] = json.loads((folder / "config.json").read_text(encoding="utf-8"))["files"]
    return found


def answers(explained: Iterable[Explanation]) -> list[Any]:
    """All that an explanation says, to the last bit, to compare two lists of them."""
    return [(e.mask, e.prediction, e.saliency and (e.saliency.scores.tolist(), e.saliency.target)) for e in explained]


def reported(report: Report | None) -> Report:
    assert report is not None
    return report


class Saying(_Silent):
    """Progress that records what it is to say."""

    def __init__(self) -> None:
        self.lines: list[str] = []

    def say(self, line: str) -> None:
        self.lines.append(line)


class LongWords:
    """A scorer that a user might write: longer words score higher."""

    def __init__(self, support: SupportModel) -> None:
        self.support = support

    def score(self, documents: Sequence[Document]) -> list[Saliency]:
        return [Saliency(np.array([len(word) for word in item.words]), "pos", item.id) for item in documents]
