"""Errors as a user sees them: messages.txt holds commands, and what each of them prints.

To write the messages anew after a change, and review them: FRESH_WRITE_MESSAGES=1 pytest tests/cli/test_messages.py
"""

import json
import os
import shlex
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import small
from fresh.attribution.support_model import SupportModel
from fresh.cli.main import main
from fresh.predictor import Predictor
from fresh.rationalizer import Rationalizer
from fresh.selection.discretizers import TopK
from made_up_runs import seeds, write

GOLDEN = Path(__file__).with_name("messages.txt")
WRITES = os.environ.get("FRESH_WRITE_MESSAGES") == "1"
REVIEWS: list[dict[str, Any]] = [
    {"text": f"a {word} film of {number}", "label": word} for number in range(6) for word in ("good", "bad")
]
TABLES: dict[str, list[dict[str, Any]]] = {
    "reviews": REVIEWS,
    "columns": [{"txt": "a film", "stars": "good"}],
    "empty": [],
    "no-words": [*REVIEWS, {"text": " \n", "label": "good"}],
    "one-class": REVIEWS[::2],
    "no-label": [*REVIEWS, {"text": "a film", "label": None}],
    "span": [{**REVIEWS[0], "rationale": [[2, 99]]}],
    "some-queries": [{**REVIEWS[0], "query": "why?"}, *REVIEWS[1:]],
    "fair": [{"text": "a film", "label": "fair"}],
    "plain": [{"text": "a good film", "label": "pos"}],
    "queries": [{"text": "a good film", "label": "pos", "query": "why?"}],
}
FILES: dict[str, str | bytes] = {
    "broken.jsonl": json.dumps(REVIEWS[0]) + '\n{"text": "a film", "label": \n',
    "latin.csv": "text,label\nun film déjà vu,good\n".encode("latin-1"),
    "run.toml": "ration = 0.1\n[train]\nepoch = 3\nsed = 1\n",
    "grid.toml": "[grid]\ncorpus = ['mine']\n[corpora.mine]\ndata = 'reviews.jsonl'\n[[rows]]\nscorer = 'attention'\n",
    "wrong.toml": "[grid]\ncorpus = ['sts']\nsed = 1\n[[rows]]\nscorer = 'atention'\n",
    "study.toml": "corpus = 'reviews.jsonl'\nsample = 90\n[conditions.x]\nkind = 'fulltext'\n",
    "films.toml": "corpus = 'columns.jsonl'\nsample = 1\n[conditions.all]\nkind = 'full_text'\n",
    "imdb.toml": "corpus = 'imdb'\nsample = 1\n[conditions.all]\nkind = 'full_text'\n",
}


def read_blocks() -> dict[str, str]:
    """Map the commands of the file to what they print."""
    blocks = GOLDEN.read_text(encoding="utf-8").strip("\n").split("\n\n$ ")
    pairs = (block.removeprefix("$ ").partition("\n") for block in blocks)
    return {command: printed for command, _, printed in pairs}


@pytest.fixture(scope="module")
def folder(support: SupportModel, predictor: Predictor, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Data, settings and models."""
    place = tmp_path_factory.mktemp("messages")
    for name, rows in TABLES.items():
        small.write_jsonl(place / f"{name}.jsonl", rows)
    for name, content in FILES.items():
        (place / name).write_bytes(content if isinstance(content, bytes) else content.encode())
    model = small.rationalizer(support, predictor, TopK(0.2))
    model.save_pretrained(place / "model")
    Rationalizer(model.extractor, model.predictor, needs_query=True).save_pretrained(place / "with-queries")
    shutil.copytree(place / "model", place / "damaged")
    with (place / "damaged/predictor/head.safetensors").open("ab") as file:
        file.write(b"x")
    (place / "output.jsonl").write_text("precious", encoding="utf-8")
    (place / "folder").mkdir()
    made = [*seeds("all", 0.9, settings={"method": "full_text"}), *seeds("ours", 0.8, 0.7, settings={"ratio": 0.2})]
    write(place / "runs", made, figure={"x": "ratio"})
    return place


@pytest.fixture(scope="module")
def written() -> Iterator[dict[str, str]]:
    """What the commands print; in the end it goes to the file, if that is to be written anew."""
    printed: dict[str, str] = {}
    yield printed
    if WRITES:
        blocks = {command: f"{text}\n" for command, text in read_blocks().items()} | printed
        GOLDEN.write_text("\n".join(f"$ {command}\n{text}" for command, text in blocks.items()), encoding="utf-8")


@pytest.mark.parametrize("command", read_blocks())
def test_messages_are_those_of_the_file(
    command: str,
    folder: Path,
    written: dict[str, str],
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.chdir(folder)
    before = {path: path.stat().st_mtime_ns for path in folder.rglob("*")}
    try:
        status = main(shlex.split(command)[1:])
    except SystemExit as error:
        status = int(error.code or 0)
    shown = capsys.readouterr()
    assert status in (1, 2)
    assert shown.out == ""
    assert {path: path.stat().st_mtime_ns for path in folder.rglob("*")} == before  # nothing was written
    # Without progress, and without the usage that argparse prints
    lines = [line for line in shown.err.splitlines() if not line.startswith(("usage:", "       "))]
    written[command] = "".join(f"{line}\n" for line in lines).replace(str(folder), "/folder")
    if not WRITES:
        assert written[command].rstrip("\n") == read_blocks()[command].rstrip("\n")
