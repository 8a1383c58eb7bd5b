"""A study whose items went elsewhere, and what came back."""

import json
from pathlib import Path
from typing import Any

from fresh.study.answer import Answer
from fresh.study.exporting import export_study
from fresh.study.importing import Imported
from fresh.study.items import make_plan
from fresh.study.records import counted
from fresh.study.store import Store, create_study
from studies import corpus, load, study, two_ways

SHOWN = {"neg": "Bad & dull", "pos": "Good"}


def asked(folder: Path, shown: dict[str, str] = SHOWN) -> Store:
    """Make a study of four documents in two conditions, each read by two."""
    made = study(two_ways(), shown, sample=4, practice=1, checks=1, per_item=2)
    return create_study(folder, make_plan(made, corpus(query="is it good ?"), load))


def items(store: Store, tmp_path: Path) -> list[int]:
    """The first item of each document, then the second of each."""
    tasks, _ = export_study(store, "label_studio", tmp_path / "tasks.json")
    numbers = [task["data"]["item"] for task in json.loads(tasks.read_text(encoding="utf-8"))]
    return numbers[::2] + numbers[1::2]


def answers(store: Store) -> list[tuple[int, Answer]]:
    """All answers that count."""
    return [(one.item, Answer(one.label, one.confidence, one.readability, one.milliseconds)) for one in counted(store)]


def told(done: Imported) -> tuple[int, int, list[str]]:
    """New, there already, left out."""
    return done.n_new, done.n_repeated, done.left_out


def write(path: Path, value: Any) -> Path:
    """Write text as it is, and anything else as JSON."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(value if isinstance(value, str) else json.dumps(value), encoding="utf-8")
    return path
