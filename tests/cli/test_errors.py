import json
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import fresh.pipeline
import fresh.rationalizer
import small
from fresh.attribution.support_model import SupportModel
from fresh.cli.main import main
from fresh.data.splits import Splits
from fresh.predictor import Predictor
from fresh.rationalizer import Rationalizer
from fresh.selection.discretizers import TopK
from training_hooks import interrupt_training

CPU = ("--device", "cpu")
MEND = "Fix the row, or leave such rows out with --skip-bad."
GOOD = [{"text": f"a {word} film of {n}", "label": word} for n in range(6) for word in ("good", "bad")]


@pytest.fixture(scope="module")
def saved(support: SupportModel, predictor: Predictor, tmp_path_factory: pytest.TempPathFactory) -> str:
    folder = tmp_path_factory.mktemp("cli") / "model"
    small.rationalizer(support, predictor, TopK(0.2)).save_pretrained(folder)
    return str(folder)


@pytest.fixture
def refused(
    encoders: dict[str, Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> Callable[..., None]:
    """Check that training on a file is refused with some words, and leaves nothing behind."""
    monkeypatch.chdir(tmp_path)

    def check(message: str, *options: str, data: str = "reviews.jsonl") -> None:
        before = sorted(tmp_path.rglob("*"))
        assert main(["train", data, "--out", "model", *small.options(encoders["bert"]), *options]) == 1
        shown = capsys.readouterr()
        assert shown.out == ""
        assert [line for line in shown.err.splitlines() if not line.endswith("classes: bad, good.")] == (
            f"fresh train: {message}".splitlines()
        )
        assert sorted(tmp_path.rglob("*")) == before

    return check


ROWS: dict[str, tuple[list[dict[str, Any]], str]] = {
    "missing column": (
        [{"txt": "a film", "label": "good"}],
        "reviews.jsonl has no column 'text' for the text. It has: txt, label. Name the right one with --text.",
    ),
    "no rows": ([], "reviews.jsonl holds no rows. Give one row for each document."),
    "no words": ([*GOOD, {"text": " \n", "label": "good"}], f"reviews.jsonl, line 13: the text has no words. {MEND}"),
    "single class": (
        GOOD[::2],
        "All 4 training examples have the label 'good'. At least two classes are needed: "
        "check the column that --label names.",
    ),
    "null label": ([*GOOD, {"text": "a film", "label": None}], f"reviews.jsonl, line 13: there is no label. {MEND}"),
    "duplicate ids": (
        [{**GOOD[0], "id": "a"}, {**GOOD[1], "id": "a"}],
        "reviews.jsonl, line 2: the id 'a' is already used in reviews.jsonl, line 1. "
        "Give each row its own id, or number the rows with --id ''.",
    ),
    "span out of range": (
        [{**GOOD[0], "rationale": [[2, 99]]}],
        "reviews.jsonl, line 1: the rationale span (2, 99) does not fit a document of 16 characters. "
        "Spans count characters from 0 and exclude their end.",
    ),
    "some queries": (
        [{**GOOD[0], "query": "why?"}, *GOOD[1:]],
        "Document 'reviews-1' has a query and document 'reviews-2' has none. "
        "Give every row a query, or leave the column out with --query ''.",
    ),
}


@pytest.mark.parametrize("case", ROWS)
def test_rows_that_cannot_be_used(case: str, refused: Callable[..., None], tmp_path: Path) -> None:
    rows, message = ROWS[case]
    small.write_jsonl(tmp_path / "reviews.jsonl", rows)
    refused(message)


def test_a_span_of_words_out_of_range(refused: Callable[..., None], tmp_path: Path) -> None:
    small.write_jsonl(tmp_path / "reviews.jsonl", [{**GOOD[0], "rationale": [[2, 6]]}])
    message = "reviews.jsonl, line 1: the rationale span (2, 6) does not fit a document of 5 words. "
    refused(message + "Spans count words from 0 and exclude their end.", "--tokenised")


def test_a_label_that_train_does_not_have(refused: Callable[..., None], tmp_path: Path) -> None:
    small.write_jsonl(tmp_path / "reviews.jsonl", GOOD)
    small.write_jsonl(tmp_path / "dev.jsonl", [{"text": "a film", "label": "fair"}])
    refused(
        "The dev document 'dev-1' has the label 'fair', but the training examples have only: bad, good. "
        "Add training examples for it, or remove it.",
        "--dev=dev.jsonl",
    )


def test_broken_json(refused: Callable[..., None], tmp_path: Path) -> None:
    text = json.dumps(GOOD[0]) + '\n{"text": "a film", "label": \n'
    (tmp_path / "reviews.jsonl").write_text(text, encoding="utf-8")
    refused(
        "reviews.jsonl, line 2: broken JSON (Expecting value: line 2 column 1 (char 29)). "
        'Write one object a line, such as {"text": "Good film.", "label": "positive"}.'
    )


def test_a_file_that_is_not_utf_8(refused: Callable[..., None], tmp_path: Path) -> None:
    (tmp_path / "reviews.csv").write_bytes("text,label\nun film déjà vu,good\n".encode("latin-1"))
    message = "reviews.csv, line 2: the byte 0xe9 is not UTF-8. Save the file in UTF-8."
    refused(message, data="reviews.csv")


SETTINGS: dict[str, tuple[list[str], str]] = {
    "ratio of nothing": (["--ratio=0"], "--ratio must be in (0, 1], got 0.0."),
    "ratio of too much": (["--ratio=1.5"], "--ratio must be in (0, 1], got 1.5."),
    "ratio that is no number": (["--ratio=nan"], "--ratio must be in (0, 1], got nan."),
    "scorer": (["--scorer=gradent"], "gradent is not a scorer. Did you mean gradient?"),
    "discretizer": (["--discretizer=topk"], "topk is not a discretizer. Did you mean top_k?"),
    "several": (
        ["--epochs=many", "--long=cut", "--dropout=3", "--ratio=2"],
        "--epochs must be a whole number, got 'many'.\n"
        "--long must be 'stagger' or 'chunk' or 'truncate', got 'cut'.\n"
        "--dropout must be in [0, 1), got 3.0.\n"
        "--ratio must be in (0, 1], got 2.0.",
    ),
}


@pytest.mark.parametrize("case", SETTINGS)
def test_settings_that_cannot_be_used(case: str, refused: Callable[..., None], tmp_path: Path) -> None:
    small.write_jsonl(tmp_path / "reviews.jsonl", GOOD)
    options, message = SETTINGS[case]
    refused(message, *options)


def test_a_settings_file_with_mistakes(refused: Callable[..., None], tmp_path: Path) -> None:
    (tmp_path / "run.toml").write_text("ration = 0.1\n[train]\nepoch = 3\nsed = 1\n", encoding="utf-8")
    refused(
        "ration is not a setting. Did you mean ratio?\n"
        "train.epoch is not a setting. Did you mean train.epochs?\n"
        "train.sed is not a setting. Did you mean train.seed?",
        "--config=run.toml",
    )


def test_an_unknown_corpus(refused: Callable[..., None]) -> None:
    refused("movie is not a corpus. Did you mean movies?", "--data-dir=.", data="movie")
    refused("sst is the name of a corpus. Give the folder of its files: --data-dir FOLDER.", data="sst")


def test_an_unknown_encoder(refused: Callable[..., None], tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    small.write_jsonl(tmp_path / "reviews.jsonl", GOOD)
    assert main(["train", str(tmp_path / "reviews.jsonl"), "--out", str(tmp_path / "m"), "--encoder=minlm"]) == 1
    *_, last = capsys.readouterr().err.splitlines()
    assert last == "fresh train: minlm is not an encoder. Did you mean minilm?"


def test_an_unknown_device(saved: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["explain", saved, "a film", "--device", "cud"]) == 1
    shown = capsys.readouterr().err
    assert re.fullmatch(r"fresh explain: device 'cud' cannot be used here: .*\. Try --device auto\.\n", shown)


def test_training_on_an_unknown_device_leaves_nothing(
    encoders: dict[str, Path], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    data = str(small.write_jsonl(tmp_path / "reviews.jsonl", GOOD))
    options = small.options(encoders["bert"], device="cud")
    assert main(["train", data, "--out", str(tmp_path / "model"), *options]) == 1
    assert "fresh train: device 'cud' cannot be used here: " in capsys.readouterr().err
    assert [path.name for path in tmp_path.iterdir()] == ["reviews.jsonl"]


def test_a_model_in_the_way(refused: Callable[..., None], saved: str, tmp_path: Path) -> None:
    small.write_jsonl(tmp_path / "reviews.jsonl", GOOD)
    message = f"{saved} already holds a model. Choose another folder, or replace it: --overwrite."
    refused(message, f"--out={saved}")


def test_a_damaged_model(saved: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    Rationalizer.from_pretrained(saved).save_pretrained(tmp_path / "model")
    with (tmp_path / "model/predictor/head.safetensors").open("ab") as file:
        file.write(b"x")
    for command in (["explain", str(tmp_path / "model"), "a film"], ["evaluate", str(tmp_path / "model"), "none.csv"]):
        assert main(command) == 1
    damaged, missing = capsys.readouterr().err.splitlines()
    assert damaged == (
        f"fresh explain: {tmp_path / 'model'} is damaged: predictor/head.safetensors has changed. "
        "Copy the model again, or train it again."
    )
    assert missing.startswith("fresh evaluate: none.csv does not exist.")


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ([], "Give either a TEXT or an --input file."),
        (["a film", "--input", "x.csv"], "Give either a TEXT or an --input file."),
        (["..", "--query", "why?"], "Document 'TEXT' has a query, but this model was trained without: leave it out."),
        ([" "], "Document 'TEXT' has no words."),
    ],
)
def test_a_text_that_cannot_be_explained(
    options: list[str], message: str, saved: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["explain", saved, *CPU, *options]) == 1
    assert capsys.readouterr().err == f"fresh explain: {message}\n"


@pytest.fixture
def in_groups_of_three(monkeypatch: pytest.MonkeyPatch) -> None:
    """Explain three documents at a time."""
    real = Rationalizer.explain_stream
    monkeypatch.setattr(
        Rationalizer, "explain_stream", lambda self, documents, **named: real(self, documents, 3, **named)
    )


@pytest.mark.usefixtures("in_groups_of_three")
def test_a_bad_row_in_the_middle_leaves_whole_lines(
    saved: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    source = small.write_jsonl(tmp_path / "in.jsonl", [*GOOD[:7], {"text": None}, *GOOD])
    target = tmp_path / "out.jsonl"
    assert main(["explain", saved, "--input", str(source), "--output", str(target), *CPU]) == 1
    found = [json.loads(line)["id"] for line in target.read_text(encoding="utf-8").splitlines()]
    assert found == [f"in-{number}" for number in range(1, 8)]
    *_, last = capsys.readouterr().err.splitlines()
    reason = f"fresh explain: in.jsonl, line 8: the text has no words. {MEND}"
    assert last == f"{reason} (7 texts before it are explained and written.)"


@pytest.mark.usefixtures("in_groups_of_three")
def test_explaining_can_be_interrupted(
    saved: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    real, calls = Rationalizer.explain, iter(range(2))

    def explain(self: Rationalizer, *arguments: Any, **named: Any) -> Any:
        if next(calls, None) is None:
            raise KeyboardInterrupt
        return real(self, *arguments, **named)

    monkeypatch.setattr(Rationalizer, "explain", explain)
    source = small.write_jsonl(tmp_path / "in.jsonl", GOOD)
    assert main(["explain", saved, "--input", str(source), *CPU]) == 130
    shown = capsys.readouterr()
    assert [json.loads(line)["id"] for line in shown.out.splitlines()] == [f"in-{number}" for number in range(1, 7)]
    assert shown.err == "\nInterrupted. 6 texts are explained; what is written is valid.\n"


def test_training_can_be_interrupted(
    toy: Splits,
    encoders: dict[str, Path],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    interrupt_training(monkeypatch, epochs=1)
    monkeypatch.setattr(fresh.pipeline, "CHECKPOINT_SECONDS", 0)
    data = str(small.write_jsonl(tmp_path / "reviews.jsonl", GOOD))
    assert main(["train", data, "--out", str(tmp_path / "model"), *small.options(encoders["bert"])]) == 130
    assert re.search(
        r"\nInterrupted\. Checkpoints: support model: 1 epochs, best dev macro-F1 \d\.\d{3}\. To resume, repeat the "
        r"same command, or give fewer --epochs to finish with those that are done\.\n$",
        capsys.readouterr().err,
    )
    assert sorted(path.name for path in tmp_path.iterdir()) == ["model.partial", "reviews.jsonl"]


def test_evaluating_can_be_interrupted(
    saved: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def explain(*_arguments: Any, **_named: Any) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(Rationalizer, "explain", explain)
    rows = [{"text": "a film", "label": "pos"}]
    assert main(["evaluate", saved, str(small.write_jsonl(tmp_path / "in.jsonl", rows)), *CPU]) == 130
    assert capsys.readouterr().err.endswith("\nInterrupted.\n")
