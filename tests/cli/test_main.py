import gzip
import io
import json
import os
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

import small
from fresh.cli.main import COMMANDS, main
from fresh.config import list_settings
from fresh.data.splits import Splits
from fresh.document import Document
from fresh.methods.config import RunConfig, settings_of_methods
from fresh.rationalizer import Rationalizer

CPU = ("--device", "cpu")
TEXTS = ["The film, was good!", "an awful  story\nof two old men", "“great” 😀 sea film it plays in the"]


def lines(text: str) -> list[dict[str, Any]]:
    """Read JSON lines, each of which must be whole."""
    assert text.endswith("\n") or not text
    return [json.loads(line) for line in text.splitlines()]


def run(*arguments: str, **environment: str) -> subprocess.CompletedProcess[str]:
    """Run the command as a user does."""
    command = [str(Path(sys.executable).with_name("fresh")), *arguments]
    surroundings = {**os.environ, **environment}
    return subprocess.run(command, env=surroundings, capture_output=True, text=True, check=False)


def test_help_lists_the_commands_without_loading_torch() -> None:
    code = (
        "import sys, contextlib\nfrom fresh.cli.main import main\n"
        "with contextlib.suppress(SystemExit):\n    main(['--help'])\n"
        "print({'torch', 'transformers', 'numpy', 'rich'} & sys.modules.keys())"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    for command in COMMANDS:
        assert f"\n    {command} " in done.stdout
    assert done.stdout.endswith("set()\n")


def test_help_of_each_command_has_an_example_and_loads_no_torch() -> None:
    code = (
        "import sys, contextlib\nfrom fresh.cli.main import COMMANDS, main\n"
        "for command in COMMANDS:\n    with contextlib.suppress(SystemExit):\n        main([command, '--help'])\n"
        "print({'torch', 'transformers', 'scipy', 'huggingface_hub'} & sys.modules.keys())"
    )
    environment = {**os.environ, "COLUMNS": "80"}
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, env=environment)
    for command in COMMANDS:
        assert f"usage: fresh {command} " in done.stdout
        assert f"\n  fresh {command} " in done.stdout or f"\n  fresh {command}\n" in done.stdout
    assert max(map(len, done.stdout.splitlines())) <= 80
    assert done.stdout.endswith("set()\n")


def test_help_of_training_names_every_setting(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit, match=r"^0$"):
        main(["train", "--help"])
    shown = capsys.readouterr().out
    words = " ".join(shown.split())
    for setting in (*list_settings(RunConfig), *(setting for setting, _ in settings_of_methods().values())):
        assert f"--{setting.name.replace('_', '-')}" in shown
        assert setting.help.split(".")[0][:40] in words


def test_training_ends_with_the_table_and_the_place(toy: Splits, encoders: dict[str, Path], tmp_path: Path) -> None:
    data = small.write_csv(
        tmp_path / "reviews.csv",
        [{"review": row["text"], "sentiment": row["label"]} for row in small.rows(toy.train[:60])],
    )
    config = tmp_path / "run.toml"
    config.write_text("ratio = 0.5\n[train]\nepochs = 9\nseed = 4\n[scoring]\nlayer = -2\n", encoding="utf-8")
    out = str(tmp_path / "my model")
    columns = ("--text", "review", "--label=sentiment", "--config", str(config))
    done = run("train", str(data), "--out", out, *columns, *small.options(encoders["bert"]), COLUMNS="100")
    assert done.returncode == 0, done.stderr
    assert "48 train, 6 dev, 6 test documents; 2 classes: neg, pos." in done.stderr
    *table, last = done.stdout.splitlines()
    assert last == f"Saved in {out}. Try: fresh explain '{out}' \"Some text.\""
    names = [line.strip().partition("  ")[0] for line in table if re.search(r"\) +[\d.]+%", line)]
    shown = ["full text (support model)", "FRESH (attention_gradient)", "random words", "complement"]
    assert names[:4] == shown
    assert names[4].startswith("majority class (")
    assert table[-1] == f"Report: {out}-report.html"
    assert "FRESH (attention_gradient)" in Path(f"{out}-report.html").read_text(encoding="utf-8")
    settings = Rationalizer.from_pretrained(out).settings
    assert (settings["ratio"], settings["train"]["epochs"], settings["train"]["seed"]) == (0.5, 2, 4)
    assert settings["scoring"]["layer"] == -2


def test_a_text_is_shown_with_the_words_that_were_read(
    saved: str, model: Rationalizer, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["explain", saved, "The film, was good!", *CPU]) == 0
    found = model.explain("The film, was good!")
    first, second = capsys.readouterr().out.splitlines()[:2]
    assert first.startswith(f"{found.prediction.label} (probability {found.prediction.probability:.2f}), from 2 of 6")
    shown = "".join(word + " " for word in found.rationale.words).split()
    assert all(word in second[second.index("[") :] for word in shown)
    assert second.replace("[", "").replace("]", "") == "The film, was good!"


def test_the_text_may_stand_behind_options(saved: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["explain", saved, *CPU, "a good film"]) == 0
    behind = capsys.readouterr()
    assert main(["explain", saved, "a good film", *CPU]) == 0
    assert capsys.readouterr() == behind


def test_a_column_of_queries_can_be_left_out(saved: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    source = str(small.write_jsonl(tmp_path / "in.jsonl", [{"text": "a film", "query": "why?"}]))
    assert main(["explain", saved, "--input", source, *CPU]) == 1
    message = "Document 'in-1' has a query, but this model was trained without queries. Leave it out."
    assert capsys.readouterr().err == f"fresh explain: {message}\n"
    assert main(["explain", saved, "--input", source, "--query", "", *CPU]) == 0


def write_input(kind: str, folder: Path) -> Path:
    """Write the texts to a file of some kind."""
    rows = [{"name": f"n{number}", "review": text} for number, text in enumerate(TEXTS)]
    if kind == "csv":
        return small.write_csv(folder / "in.csv", rows)
    path = small.write_jsonl(folder / "in.jsonl", rows)
    if kind == "jsonl":
        return path
    (folder / "in.jsonl.gz").write_bytes(gzip.compress(path.read_bytes()))
    return folder / "in.jsonl.gz"


@pytest.mark.parametrize("kind", ["csv", "jsonl", "jsonl.gz"])
def test_a_file_gives_a_line_a_text(
    kind: str, saved: str, model: Rationalizer, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    source, target = write_input(kind, tmp_path), tmp_path / "out.jsonl"
    options = ["--text", "review", "--id", "name", "--output", str(target), *CPU]
    assert main(["explain", saved, "--input", str(source), *options]) == 0
    assert capsys.readouterr().out == ""
    records = lines(target.read_text(encoding="utf-8"))
    documents = [Document.from_text(text, id=f"n{number}") for number, text in enumerate(TEXTS)]
    for record, text, found in zip(records, TEXTS, model.explain(documents), strict=True):
        assert list(record) == ["id", "label", "probability", "probabilities", "rationale", "ratio"]
        assert record["id"] == found.document.id
        assert record["label"] == found.prediction.label
        assert record["probabilities"] == dict(found.prediction.probabilities)
        assert record["ratio"] == found.mask.ratio
        assert [(span["start"], span["end"]) for span in record["rationale"]] == list(found.spans)
        assert all(text[span["start"] : span["end"]] == span["text"] for span in record["rationale"])


def test_lines_go_to_standard_output_with_scores(
    saved: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    source = write_input("jsonl", tmp_path)
    assert main(["explain", saved, "--input", str(source), "--text", "review", "--scores", *CPU]) == 0
    shown = capsys.readouterr()
    assert shown.err == ""
    for number, (record, text) in enumerate(zip(lines(shown.out), TEXTS, strict=True), start=1):
        assert record["id"] == f"in-{number}"
        assert record["words"] == list(Document.from_text(text).words)
        assert len(record["scores"]) == len(record["words"])


def test_texts_come_from_standard_input(
    saved: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    given = "".join(json.dumps({"text": text}) + "\n" for text in TEXTS)
    monkeypatch.setattr("sys.stdin", io.TextIOWrapper(io.BytesIO(given.encode())))
    assert main(["explain", saved, "--input", "-", *CPU]) == 0
    shown = capsys.readouterr()
    assert [record["id"] for record in lines(shown.out)] == [f"standard input-{n}" for n in (1, 2, 3)]
    assert shown.err == ""


def test_an_output_file_is_replaced_only_when_asked(
    saved: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    source, target = write_input("csv", tmp_path), tmp_path / "out.jsonl"
    target.write_text("mine", encoding="utf-8")
    command = ["explain", saved, "--input", str(source), "--text", "review", "--output", str(target), *CPU]
    assert main(command) == 1
    message = f"fresh explain: {target} already exists. Choose another path, or replace it: --overwrite.\n"
    assert capsys.readouterr().err == message
    assert target.read_text(encoding="utf-8") == "mine"
    assert main([*command, "--overwrite"]) == 0
    assert len(lines(target.read_text(encoding="utf-8"))) == 3


def test_an_input_that_cannot_be_read_leaves_no_output(saved: str, tmp_path: Path) -> None:
    source, target = write_input("csv", tmp_path), tmp_path / "out.jsonl"
    assert main(["explain", saved, "--input", str(source), "--text", "txt", "--output", str(target), *CPU]) == 1
    assert not target.exists()


def test_a_big_input_is_read_in_groups(
    saved: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    pulled, written, ahead = [0], [0], [0]

    class Many:
        """A thousand rows that exist one at a time."""

        def readline(self, _size: int) -> bytes:
            if pulled[0] == 1000:
                return b""
            pulled[0] += 1
            ahead[0] = max(ahead[0], pulled[0] - written[0])
            return b'{"text": "a film"}\n'

    def to_record(explanation: Any, _scores: bool) -> dict[str, str]:
        written[0] += 1
        return {"id": explanation.document.id}

    monkeypatch.setattr("sys.stdin", type("Input", (), {"buffer": Many()}))
    monkeypatch.setattr("fresh.reporting.console.to_record", to_record)
    assert main(["explain", saved, "--input", "-", *CPU]) == 0
    assert len(lines(capsys.readouterr().out)) == 1000
    assert ahead[0] == 256


def test_too_long_texts_are_left_out_when_asked(saved: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    rows = [{"text": text, "label": "pos"} for text in ("a good film", "good " * 5000, "...", "it was bad")]
    source = str(small.write_jsonl(tmp_path / "in.jsonl", [*rows, {"text": "unlabelled"}]))
    assert main(["explain", saved, "--input", source, "--skip-bad", *CPU]) == 0
    shown = capsys.readouterr()
    assert [record["id"] for record in lines(shown.out)] == ["in-1", "in-3", "in-4", "in-5"]
    assert shown.err.startswith("Left out 1 of 5 rows: Text 'in-2' has 5000 words")
    assert main(["evaluate", saved, source, "--skip-bad", *CPU]) == 0
    shown = capsys.readouterr()
    assert "Left out 2 of 5 rows: in.jsonl, line 5: there is no label. Text 'in-2'" in shown.err
    assert "3 test documents" in shown.out


def test_a_closed_pipe_is_no_error(saved: str, tmp_path: Path) -> None:
    source = str(small.write_jsonl(tmp_path / "in.jsonl", [{"text": "a film"}] * 3000))
    command = f"'{Path(sys.executable).with_name('fresh')}' explain '{saved}' --input '{source}' --device cpu | head -1"
    done = subprocess.run(["/bin/sh", "-c", command], capture_output=True, text=True, check=True)
    assert json.loads(done.stdout)["id"] == "in-1"
    assert done.stderr == ""


def test_a_full_disk_leaves_whole_lines(saved: str, tmp_path: Path) -> None:
    source = str(small.write_jsonl(tmp_path / "in.jsonl", [{"text": "a film"}] * 300))
    target = tmp_path / "out.jsonl"
    fresh = Path(sys.executable).with_name("fresh")
    explain = f"'{fresh}' explain '{saved}' --input '{source}' --output '{target}' --device cpu"
    done = subprocess.run(
        ["/bin/sh", "-c", f"ulimit -f 20; {explain}"],  # no file may have more than 20 blocks of 512 bytes
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 1
    assert done.stderr.splitlines()[-1] == f"fresh explain: [Errno 27] File too large: '{target}'"
    written = target.read_text(encoding="utf-8")
    assert written.endswith("}\n")
    assert [record["id"] for record in lines(written)] == [f"in-{n}" for n in range(1, 1 + written.count("\n"))]
