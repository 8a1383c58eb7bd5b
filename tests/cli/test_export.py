import io
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import annotated
import small
from command import Command
from data_files import write
from fresh.data.annotation import TOOLS, export
from fresh.document import Explanation
from fresh.rationalizer import Rationalizer

TEXTS = ["The film, was good!", "an awful  story\nof two old men", "“great” 😀 sea film it plays in the"]
LABEL_STUDIO = ("--text=review", "--tool=label_studio", "--output=tasks.json")
DOCCANO = ("--tool=doccano", "--output=tasks.jsonl")


@pytest.fixture
def data(here: Path) -> str:
    """Texts, alone in the working directory."""
    rows = [{"review": text, "id": f"r-{n}"} for n, text in enumerate(TEXTS)]
    return small.write_csv(here / "reviews.csv", rows).name


@pytest.mark.parametrize("tool", TOOLS)
def test_explanations_are_written_for_a_tool(
    tool: str, saved: str, model: Rationalizer, data: str, here: Path, command: Command
) -> None:
    output = f"tasks{TOOLS[tool].ending}"
    shown = command("export", saved, "--input", data, "--text=review", "--tool", tool, "--output", output)
    names = {path.name for path in here.iterdir()}
    (here / "expected").mkdir()
    expected = export(model.explain_file(data, text="review"), here / "expected" / output, tool)
    for file in expected.files:
        assert Path(file.name).read_bytes() == file.read_bytes()
    assert names == {data, *(file.name for file in expected.files)}
    settings = "".join(f", and settings for them to {file.name}" for file in expected.files[1:])
    assert shown.out == f"Wrote 3 tasks to {output}{settings}.\n"
    assert "explaining" in shown.err


def test_the_tool_returns_what_the_model_marked(
    saved: str, model: Rationalizer, data: str, here: Path, command: Command
) -> None:
    command("export", saved, "--input", data, *LABEL_STUDIO)
    tasks = json.loads(Path("tasks.json").read_text(encoding="utf-8"))
    back = annotated.read(write(here / "export.jsonl", annotated.label_studio(tasks)))
    explained = list(model.explain_file(data, text="review"))
    assert [example.document.text for example in back] == TEXTS
    assert [example.document.id for example in back] == ["r-0", "r-1", "r-2"]
    assert [(example.label, example.human) for example in back] == [(e.prediction.label, e.mask) for e in explained]


def set_input(monkeypatch: pytest.MonkeyPatch, buffer: Any) -> None:
    monkeypatch.setattr("sys.stdin", type("Input", (), {"buffer": buffer}))


@pytest.mark.usefixtures("here")
def test_texts_are_read_from_standard_input(saved: str, monkeypatch: pytest.MonkeyPatch, command: Command) -> None:
    set_input(monkeypatch, io.BytesIO(b'{"text": "a good film"}\n'))
    assert command("export", saved, "--input", "-", *DOCCANO).out == "Wrote 1 task to tasks.jsonl.\n"


def test_skip_bad_leaves_out_unusable_rows(saved: str, here: Path, command: Command) -> None:
    small.write_jsonl(here / "in.jsonl", [{"text": text} for text in ("a film", "", "good " * 5000, "a sea")])
    shown = command("export", saved, "--input", "in.jsonl", "--tool=potato", "--output=tasks.jsonl", "--skip-bad")
    assert "Left out 2 of 4 rows: in.jsonl, line 2: the text has no words. Text 'in-3' has 5,000 words" in shown.err
    assert shown.out == "Wrote 2 tasks to tasks.jsonl, and settings for them to tasks.config.yaml.\n"


@pytest.mark.usefixtures("here")
def test_a_large_input_is_written_in_batches(saved: str, monkeypatch: pytest.MonkeyPatch, command: Command) -> None:
    read, ahead, written = [0], [0], [0]

    def many() -> Iterator[bytes]:
        for _ in range(1000):
            read[0] += 1
            ahead[0] = max(ahead[0], read[0] - written[0])
            yield b'{"text": "a film"}\n'

    def write(_explanation: Explanation, _fields: object) -> dict[str, Any]:
        written[0] += 1
        return {}

    rows = many()
    set_input(monkeypatch, type("Lines", (), {"readline": lambda _self, _size: next(rows, b"")})())
    monkeypatch.setitem(TOOLS, "doccano", type(TOOLS["doccano"])("doccano", ".jsonl", write))
    command("export", saved, "--input", "-", *DOCCANO)
    assert (written[0], ahead[0]) == (1000, 256)


def check_refused(message: str, command: Command, *arguments: str) -> None:
    """Check that an export is refused with some words, and changes nothing."""
    before = {path: path.read_bytes() for path in Path().iterdir()}
    shown = command("export", *arguments, status=1)
    assert (shown.out, shown.last) == ("", f"fresh export: {message}")
    assert {path: path.read_bytes() for path in Path().iterdir()} == before


def test_files_are_replaced_only_with_overwrite(saved: str, data: str, command: Command) -> None:
    export_tasks = (saved, "--input", data, *LABEL_STUDIO)
    for name in ("tasks.config.xml", "tasks.json"):
        Path(name).write_text("mine", encoding="utf-8")
        message = f"{name} already exists. Choose another path, or replace it: --overwrite."
        check_refused(message, command, *export_tasks)
    command("export", *export_tasks, "--overwrite")
    assert "mine" not in Path("tasks.json").read_text(encoding="utf-8")
    assert "mine" not in Path("tasks.config.xml").read_text(encoding="utf-8")


def test_an_unreadable_input_leaves_no_file(saved: str, data: str, command: Command) -> None:
    message = "reviews.csv has no column 'txt' for the text. It has: review, id. Name the right one with --text."
    check_refused(message, command, saved, "--input", data, "--text=txt", *DOCCANO)
    small.write_jsonl(Path("in.jsonl"), [*[{"text": "a film"}] * 300, {"text": ""}])
    message = "in.jsonl, line 301: the text has no words. Fix the row, or leave such rows out with --skip-bad."
    check_refused(message, command, saved, "--input", "in.jsonl", "--tool=label_studio", "--output=tasks.json")


def test_an_interrupted_export_writes_nothing(
    saved: str, data: str, monkeypatch: pytest.MonkeyPatch, command: Command
) -> None:
    def interrupted(*_about: Any, **_more: Any) -> Iterator[Explanation]:
        yield from Rationalizer.from_pretrained(saved).explain(["a film"])
        raise KeyboardInterrupt

    monkeypatch.setattr(Rationalizer, "explain_stream", interrupted)
    shown = command("export", saved, "--input", data, "--text=review", *DOCCANO, status=130)
    assert shown.err.endswith("\nInterrupted. Nothing was written.\n")
    assert [path.name for path in Path().iterdir()] == [data]
