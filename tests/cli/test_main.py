import io
import json
import os
import re
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import fresh.cli.main
import small
from command import Command
from fresh.cli.main import COMMANDS
from fresh.cli.options import with_flags
from fresh.data.annotation import TOOLS
from fresh.data.splits import Splits
from fresh.document import Document
from fresh.rationalizer import Rationalizer

FRESH = str(Path(sys.executable).with_name("fresh"))
TEXTS = ["The film, was good!", "an awful  story\nof two old men", "“great” 😀 sea film it plays in the"]


def lines(text: str) -> list[dict[str, Any]]:
    """Read JSON lines, each of which must be whole."""
    assert text.endswith("\n") or not text
    return [json.loads(line) for line in text.splitlines()]


def run_help(*commands: list[str]) -> str:
    """Print some help in a new process, and fail if it imports what takes long."""
    code = (
        f"import sys, contextlib\nfrom fresh.cli.main import main\nfor command in {commands!r}:\n"
        "    with contextlib.suppress(SystemExit):\n        main([*command, '--help'])\n"
        "assert not {'torch', 'transformers', 'scipy', 'huggingface_hub'} & sys.modules.keys()\n"
        "print({'numpy', 'rich'} & sys.modules.keys())"
    )
    environment = {**os.environ, "COLUMNS": "80"}
    return subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True, env=environment
    ).stdout


def test_help_of_each_command_has_an_example_and_loads_no_torch() -> None:
    shown = run_help([], *([command] for command in COMMANDS))
    for command in COMMANDS:
        assert f"\n    {command} " in shown
        assert f"usage: fresh {command} " in shown
        assert f"\n  fresh {command} " in shown or f"\n  fresh {command}\n" in shown
    assert max(map(len, shown.splitlines())) <= 80
    assert run_help([]).endswith("set()\n")


def test_training_ends_with_a_report_and_the_folder(toy: Splits, encoders: dict[str, Path], tmp_path: Path) -> None:
    rows = [{"review": row["text"], "sentiment": row["label"]} for row in small.rows(toy.train[:60])]
    data = str(small.write_csv(tmp_path / "reviews.csv", rows))
    config = tmp_path / "run.toml"
    config.write_text("ratio = 0.5\n[train]\nepochs = 9\nseed = 4\n[scoring]\nlayer = -2\n", encoding="utf-8")
    out = str(tmp_path / "my model")
    columns = ("--text", "review", "--label=sentiment", "--config", str(config))
    command = [FRESH, "train", data, "--out", out, *columns, *small.options(encoders["bert"])]
    done = subprocess.run(command, env={**os.environ, "COLUMNS": "100"}, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert "48 train, 6 dev, 6 test documents; 2 classes: neg, pos." in done.stderr
    *table, last = done.stdout.splitlines()
    assert last == f"Saved in {out}. Try: fresh explain '{out}' \"Some text.\""
    names = [line.strip().partition("  ")[0] for line in table if re.search(r"\) +[\d.]+%", line)]
    own = ["full text (support model)", "FRESH (attention_gradient)", "independent reader"]
    assert names[:5] == [*own, "random words (independent)", "complement"]
    assert names[5].startswith("majority class (")
    assert table[-1] == f"Report: {out}-report.html"
    assert "FRESH (attention_gradient)" in Path(f"{out}-report.html").read_text(encoding="utf-8")
    settings = Rationalizer.from_pretrained(out).settings
    assert (settings["ratio"], settings["train"]["epochs"], settings["train"]["seed"]) == (0.5, 2, 4)
    assert settings["scoring"]["layer"] == -2


def test_a_text_is_shown_with_the_words_that_were_read(saved: str, model: Rationalizer, command: Command) -> None:
    shown = command("explain", saved, "The film, was good!")
    found = model.explain("The film, was good!")
    first, second = shown.out.splitlines()[:2]
    assert first.startswith(f"{found.prediction.label} (probability {found.prediction.probability:.2f}), from 2 of 6")
    assert all(word in second[second.index("[") :] for word in found.rationale.words)
    assert second.replace("[", "").replace("]", "") == "The film, was good!"
    assert command("explain", saved, "--device", "cpu", "The film, was good!") == shown  # options may come first


def test_a_column_of_queries_can_be_left_out(saved: str, command: Command) -> None:
    source = small.write_jsonl(Path("in.jsonl"), [{"text": "a film", "query": "why?"}])
    command("explain", saved, "--input", source, "--query", "")


def test_a_file_is_explained_line_by_line(saved: str, model: Rationalizer, command: Command) -> None:
    source = small.write_csv(Path("in.csv"), [{"name": f"n{n}", "review": text} for n, text in enumerate(TEXTS)])
    options = ("--text", "review", "--id", "name", "--output", "out.jsonl")
    assert command("explain", saved, "--input", source, *options).out == ""
    records = lines(Path("out.jsonl").read_text(encoding="utf-8"))
    documents = [Document.from_text(text, id=f"n{number}") for number, text in enumerate(TEXTS)]
    for record, text, found in zip(records, TEXTS, model.explain(documents), strict=True):
        assert list(record) == ["id", "label", "probability", "probabilities", "rationale", "ratio"]
        assert record["id"] == found.document.id
        assert record["label"] == found.prediction.label
        assert record["probabilities"] == dict(found.prediction.probabilities)
        assert record["ratio"] == found.mask.ratio
        assert [(span["start"], span["end"]) for span in record["rationale"]] == list(found.spans)
        assert all(text[span["start"] : span["end"]] == span["text"] for span in record["rationale"])


def test_lines_with_scores_go_to_standard_output(saved: str, monkeypatch: pytest.MonkeyPatch, command: Command) -> None:
    given = "".join(json.dumps({"text": text}) + "\n" for text in TEXTS)
    monkeypatch.setattr("sys.stdin", io.TextIOWrapper(io.BytesIO(given.encode())))
    shown = command("explain", saved, "--input", "-", "--scores")
    assert shown.err == ""
    for number, (record, text) in enumerate(zip(lines(shown.out), TEXTS, strict=True), start=1):
        assert record["id"] == f"standard input-{number}"
        assert record["words"] == list(Document.from_text(text).words)
        assert len(record["scores"]) == len(record["words"])


@pytest.mark.parametrize(
    "line", ["explain {} --input - --output -", "export {} --input - --tool doccano --output tasks.jsonl"]
)
def test_a_large_input_is_read_in_batches(
    line: str, saved: str, monkeypatch: pytest.MonkeyPatch, command: Command
) -> None:
    counts = {"read": 0, "ahead": 0, "written": 0}

    def readline(_lines: Any, _size: int) -> bytes:
        if counts["read"] == 1000:
            return b""
        counts["read"] += 1
        counts["ahead"] = max(counts["ahead"], counts["read"] - counts["written"])
        return b'{"text": "a film"}\n'

    def to_record(*_given: Any) -> dict[str, Any]:
        counts["written"] += 1
        return {}

    monkeypatch.setattr("sys.stdin", type("Input", (), {"buffer": type("Lines", (), {"readline": readline})()}))
    monkeypatch.setattr("fresh.reporting.console.to_record", to_record)
    monkeypatch.setitem(TOOLS, "doccano", type(TOOLS["doccano"])("doccano", ".jsonl", to_record))
    command(*line.format(saved).split())
    assert counts == {"read": 1000, "ahead": 256, "written": 1000}


@pytest.mark.parametrize(
    ("line", "n_bad", "expected"),
    [
        ("explain {} --input in.jsonl", 1, '"id": "in-5"'),
        ("export {} --input in.jsonl --tool doccano --output tasks.jsonl", 1, "Wrote 4 tasks"),
        ("evaluate {} in.jsonl", 2, "3 test documents"),
        ("compare {} {} --data in.jsonl", 2, "3 documents"),
    ],
)
def test_skip_bad_leaves_out_rows_that_cannot_be_used(
    line: str, n_bad: int, expected: str, saved: str, saved_attention: str, command: Command
) -> None:
    rows = [{"text": text, "label": "pos"} for text in ("a good film", "good " * 5000, "...", "it was bad")]
    small.write_jsonl(Path("in.jsonl"), [*rows, {"text": "unlabeled"}])
    shown = command(*line.format(saved, saved_attention).split(), "--skip-bad")
    assert expected in shown.out
    no_label = "in.jsonl, line 5: there is no label. " if n_bad == 2 else ""
    assert f"Left out {n_bad} of 5 rows: {no_label}Text 'in-2' has 5,000 words" in shown.err


def run_in_shell(format_: str, saved: str, n_rows: int) -> subprocess.CompletedProcess[str]:
    """Explain so many texts in a shell command."""
    small.write_jsonl(Path("in.jsonl"), [{"text": "a film"}] * n_rows)
    command = format_.format(f"'{FRESH}' explain '{saved}' --input in.jsonl --device cpu")
    return subprocess.run(["/bin/sh", "-c", command], capture_output=True, text=True, check=False)


def test_a_closed_pipe_is_not_an_error(saved: str) -> None:
    done = run_in_shell("{} | head -1", saved, 3000)
    assert json.loads(done.stdout)["id"] == "in-1"
    assert (done.returncode, done.stderr) == (0, "")


def test_a_full_disk_leaves_whole_lines(saved: str) -> None:
    # No file may have more than 20 blocks of 512 bytes.
    done = run_in_shell("ulimit -f 20; {} --output out.jsonl", saved, 300)
    assert done.returncode == 1
    assert done.stderr.splitlines()[-1] == "fresh explain: out.jsonl cannot be read or written (File too large)."
    written = Path("out.jsonl").read_text(encoding="utf-8")
    assert written.endswith("}\n")
    assert [record["id"] for record in lines(written)] == [f"in-{n}" for n in range(1, 1 + written.count("\n"))]


def test_an_interrupt_while_loading_is_quiet(interrupt: Callable[[object, str], None], command: Command) -> None:
    interrupt(fresh.cli.main, "_build_parser")
    assert command("train", "x.csv", "--out", "y", status=130).err == "\nInterrupted.\n"


@pytest.mark.parametrize(
    ("message", "expected"),
    [
        ("Name it with `text`, or set skip_bad=True.", "Name it with --text, or set --skip-bad."),
        ("ratio must be in (0, 1], got 20.", "--ratio must be in (0, 1], got 20."),
        ("a\nratio must be 1 with long=chunk.", "a\n--ratio must be 1 with --long chunk."),
        ("leave the column out with query=''.", "leave the column out with --query ''."),
        ("such as space='rate=1e-5:1:log'.", "such as --space rate=1e-5:1:log."),
        ("choose audit=False or ratio=0.05:0.5.", "choose --no-audit or --ratio 0.05:0.5."),
        ("No `other`, no other=1, no /text=1/x, no text=a/b, no 'ratio=3'.",) * 2,
        ("The text must be read: text=mine is a folder.", "The text must be read: text=mine is a folder."),
    ],
)
def test_parameters_in_messages_become_flags(message: str, expected: str) -> None:
    names = ("text", "skip_bad", "ratio", "long", "query", "space", "audit")
    flags = {name: [f"--{name.replace('_', '-')}"] for name in names}
    assert with_flags(message, flags, ["text=mine"]) == expected
