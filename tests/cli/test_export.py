import io
import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

import annotated
import small
from data_files import write
from fresh.cli.main import main
from fresh.data.annotation import TOOLS, export, export_paths
from fresh.document import Explanation
from fresh.rationalizer import Rationalizer

CPU = ("--device", "cpu")
TEXTS = ["The film, was good!", "an awful  story\nof two old men", "“great” 😀 sea film it plays in the"]


@pytest.fixture
def data(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    """Work in a folder that holds nothing but texts."""
    monkeypatch.chdir(tmp_path)
    small.write_csv(tmp_path / "reviews.csv", [{"review": text, "id": f"r-{n}"} for n, text in enumerate(TEXTS)])
    return "reviews.csv"


def target(tool: str) -> str:
    return f"tasks{TOOLS[tool].ending}"


@pytest.mark.parametrize("tool", TOOLS)
def test_texts_are_explained_and_written_for_a_tool(
    tool: str, saved: str, model: Rationalizer, data: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    output = target(tool)
    assert main(["export", saved, "--input", data, "--text=review", "--tool", tool, "--output", output, *CPU]) == 0
    (tmp_path / "expected").mkdir()
    expected = export(model.explain_file(data, text="review"), tmp_path / "expected" / output, tool)
    for file in expected.files:
        assert Path(file.name).read_bytes() == file.read_bytes()
    assert sorted(path.name for path in Path().iterdir() if path.is_file()) == sorted(
        [data, *(file.name for file in expected.files)]
    )
    settings = "".join(f", and settings for them to {file.name}" for file in expected.files[1:])
    shown = capsys.readouterr()
    assert shown.out == f"Wrote 3 tasks to {output}{settings}.\n"
    assert "explaining" in shown.err


def test_what_comes_back_from_the_tool_is_what_the_model_marked(
    saved: str, model: Rationalizer, data: str, tmp_path: Path
) -> None:
    options = ("--text=review", "--tool=label_studio", "--output=tasks.json")
    assert main(["export", saved, "--input", data, *options, *CPU]) == 0
    tasks = json.loads(Path("tasks.json").read_text(encoding="utf-8"))
    back = annotated.read(write(tmp_path / "export.jsonl", annotated.label_studio(tasks)))
    explained = list(model.explain_file(data, text="review"))
    assert [example.document.text for example in back] == TEXTS
    assert [example.document.id for example in back] == ["r-0", "r-1", "r-2"]
    assert [(example.label, example.human) for example in back] == [(e.prediction.label, e.mask) for e in explained]


def test_lines_from_standard_input_are_exported(
    saved: str, data: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    lines = io.BytesIO(b'{"text": "a good film"}\n')
    monkeypatch.setattr("sys.stdin", type("Input", (), {"buffer": lines}))
    assert main(["export", saved, "--input", "-", "--tool", "doccano", "--output", "tasks.jsonl", *CPU]) == 0
    assert capsys.readouterr().out == "Wrote 1 task to tasks.jsonl.\n"


def test_rows_that_cannot_be_used_are_left_out_when_asked(
    saved: str, data: str, capsys: pytest.CaptureFixture[str]
) -> None:
    small.write_jsonl(Path("in.jsonl"), [{"text": text} for text in ("a film", "", "good " * 5000, "a sea")])
    options = ("--tool=potato", "--output=tasks.jsonl", "--skip-bad")
    assert main(["export", saved, "--input", "in.jsonl", *options, *CPU]) == 0
    shown = capsys.readouterr()
    assert "Left out 2 of 4 rows: in.jsonl, line 2: the text has no words. Text 'in-3' has 5000 words" in shown.err
    assert shown.out == "Wrote 2 tasks to tasks.jsonl, and settings for them to tasks.config.yaml.\n"


def test_a_big_input_is_written_as_it_is_read(saved: str, data: str, monkeypatch: pytest.MonkeyPatch) -> None:
    pulled, ahead, written = [0], [0], [0]

    def many() -> Iterator[bytes]:
        for _ in range(1000):
            pulled[0] += 1
            ahead[0] = max(ahead[0], pulled[0] - written[0])
            yield b'{"text": "a film"}\n'

    def write(_explanation: Explanation) -> dict[str, Any]:
        written[0] += 1
        return {}

    rows = many()
    source = type("Lines", (), {"readline": lambda _self, _size: next(rows, b"")})()
    monkeypatch.setattr("sys.stdin", type("Input", (), {"buffer": source}))
    monkeypatch.setitem(TOOLS, "doccano", type(TOOLS["doccano"])("doccano", ".jsonl", write))
    assert main(["export", saved, "--input", "-", "--tool", "doccano", "--output", "tasks.jsonl", *CPU]) == 0
    assert (written[0], ahead[0]) == (1000, 256)


# What is refused


@pytest.fixture
def refused(saved: str, data: str, capsys: pytest.CaptureFixture[str]) -> Callable[..., None]:
    """Check that an export is refused with some words, and changes nothing."""

    def check(message: str, tool: str, output: str, *options: str, data: str = data, text: str = "review") -> None:
        before = {path: path.read_bytes() for path in Path().iterdir()}
        command = ["export", saved, "--input", data, "--text", text, "--tool", tool, "--output", output]
        assert main([*command, *options, *CPU]) == 1
        shown = capsys.readouterr()
        assert (shown.out, shown.err.splitlines()[-1]) == ("", f"fresh export: {message}")
        assert {path: path.read_bytes() for path in Path().iterdir()} == before

    return check


def test_files_are_replaced_only_when_asked(refused: Callable[..., None], saved: str, data: str) -> None:
    Path("tasks.config.xml").write_text("mine", encoding="utf-8")
    taken = "already exists. Choose another path, or replace it: --overwrite."
    refused(f"tasks.config.xml {taken}", "label_studio", "tasks.json")
    Path("tasks.json").write_text("mine", encoding="utf-8")
    refused(f"tasks.json {taken}", "label_studio", "tasks.json")
    options = ("--text=review", "--tool=label_studio", "--output=tasks.json", "--overwrite")
    assert main(["export", saved, "--input", data, *options, *CPU]) == 0
    assert "mine" not in Path("tasks.json").read_text(encoding="utf-8")
    assert "mine" not in Path("tasks.config.xml").read_text(encoding="utf-8")


def test_an_input_that_cannot_be_read_leaves_no_file(refused: Callable[..., None]) -> None:
    refused(
        "reviews.csv has no column 'txt' for the text. It has: review, id. Name the right one with --text.",
        "doccano",
        "tasks.jsonl",
        text="txt",
    )
    rows = [{"text": "a film"}] * 300
    small.write_jsonl(Path("in.jsonl"), [*rows, {"text": ""}])
    mend = "Fix the row, or leave such rows out with --skip-bad."
    told = f"in.jsonl, line 301: the text has no words. {mend}"
    refused(told, "label_studio", "tasks.json", data="in.jsonl", text="text")


def test_an_export_that_is_broken_off_writes_nothing(
    saved: str, data: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def broken_off(*_about: Any, **_more: Any) -> Iterator[Explanation]:
        yield from Rationalizer.from_pretrained(saved).explain(["a film"])
        raise KeyboardInterrupt

    monkeypatch.setattr(Rationalizer, "explain_stream", broken_off)
    options = ("--text=review", "--tool=doccano", "--output=tasks.jsonl")
    assert main(["export", saved, "--input", data, *options, *CPU]) == 130
    assert capsys.readouterr().err.endswith("\nInterrupted. Nothing is written.\n")
    assert [path.name for path in Path().iterdir()] == [data]


def test_the_export_paths_an_export_are_known_before(tmp_path: Path) -> None:
    assert export_paths(tmp_path / "t.jsonl", "doccano") == (tmp_path / "t.jsonl",)
    assert export_paths(str(tmp_path / "t.json"), "label_studio") == (tmp_path / "t.json", tmp_path / "t.config.xml")
