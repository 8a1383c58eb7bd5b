import io
from collections.abc import Callable
from pathlib import Path

import pytest

import small
from command import Command
from fresh.data.annotation import TOOLS, export
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
    tool: str, saved: str, model: Rationalizer, data: str, command: Command
) -> None:
    output = f"tasks{TOOLS[tool].ending}"
    shown = command("export", saved, "--input", data, "--text=review", "--tool", tool, "--output", output)
    names = {path.name for path in Path().iterdir()}
    Path("expected").mkdir()
    expected = export(model.explain_file(data, text="review"), Path("expected") / output, tool)
    for file in expected.files:
        assert Path(file.name).read_bytes() == file.read_bytes()
    assert names == {data, *(file.name for file in expected.files)}
    settings = "".join(f", and settings for them to {file.name}" for file in expected.files[1:])
    assert shown.out == f"Wrote 3 tasks to {output}{settings}.\n"
    assert "explaining" in shown.err


def test_texts_are_read_from_standard_input(saved: str, monkeypatch: pytest.MonkeyPatch, command: Command) -> None:
    monkeypatch.setattr("sys.stdin", io.TextIOWrapper(io.BytesIO(b'{"text": "a good film"}\n')))
    assert command("export", saved, "--input", "-", *DOCCANO).out == "Wrote 1 task to tasks.jsonl.\n"


def test_files_are_replaced_only_with_overwrite(saved: str, data: str, command: Command) -> None:
    export_tasks = ("export", saved, "--input", data, *LABEL_STUDIO)
    for name in ("tasks.config.xml", "tasks.json"):
        Path(name).write_text("mine", encoding="utf-8")
        message = f"fresh export: {name} already exists. Choose another path, or replace it: --overwrite."
        assert command(*export_tasks, status=1).last == message
        assert Path(name).read_text(encoding="utf-8") == "mine"
    command(*export_tasks, "--overwrite")
    assert "mine" not in Path("tasks.json").read_text(encoding="utf-8")
    assert "mine" not in Path("tasks.config.xml").read_text(encoding="utf-8")


def test_an_interrupted_export_writes_nothing(
    saved: str, data: str, interrupt: Callable[[object, str], None], command: Command
) -> None:
    interrupt(Rationalizer, "explain")
    shown = command("export", saved, "--input", data, "--text=review", *DOCCANO, status=130)
    assert shown.err.endswith("\nInterrupted. Nothing was written.\n")
    assert [path.name for path in Path().iterdir()] == [data]
