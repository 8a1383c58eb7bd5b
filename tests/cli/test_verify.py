import json
import re
import shutil
from pathlib import Path

import pytest

import small
from certified import write
from fresh.attribution.support_model import SupportModel
from fresh.cli.main import main
from fresh.predictor import Predictor
from fresh.rationalizer import Rationalizer
from fresh.selection.discretizers import TopK

CPU = ("--device", "cpu")
BOTH = ("--output", "out.jsonl", "--certify", "certificates.jsonl")
NO_CERTIFICATES = "changed.jsonl does not hold certificates: "
OTHER_FILES: dict[str, tuple[str, str]] = {
    "empty": ("", "it is empty, or its first line is."),
    "no JSON": ("a film\n", "its first line has none of their fields."),
    "explanations": ('{"id": "r-0", "label": "pos", "ratio": 0.2}\n', "its first line has none of their fields."),
}


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An own place with texts."""
    monkeypatch.chdir(tmp_path)
    small.write_jsonl(tmp_path / "in.jsonl", [{"text": "The film was good"}, {"text": "an awful story"}])
    return tmp_path


def explain(saved: str, *options: str) -> int:
    return main(["explain", saved, "--input", "in.jsonl", *CPU, *options])


def told(capsys: pytest.CaptureFixture[str]) -> tuple[str, str]:
    """What the command said, and the last line of what went to standard error."""
    shown = capsys.readouterr()
    return shown.out, (shown.err.splitlines() or [""])[-1]


@pytest.mark.parametrize("name", OTHER_FILES)
def test_a_file_of_something_else_has_status_1(
    name: str, saved: str, here: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    content, reason = OTHER_FILES[name]
    write(here / "changed.jsonl", content.encode())
    assert main(["verify", "changed.jsonl", saved, *CPU]) == 1
    way_out = "Name the certificates that `fresh explain --certify` wrote."
    assert told(capsys) == ("", f"fresh verify: {NO_CERTIFICATES}{reason} {way_out}")


def test_a_swapped_pair_of_model_and_certificates_is_found(
    saved: str, support: SupportModel, here: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert explain(saved, *BOTH) == 0
    [line] = [line for line in capsys.readouterr().err.splitlines() if line.startswith("Predictor digest: ")]
    expected = line.removeprefix("Predictor digest: ")
    assert main(["verify", "certificates.jsonl", saved, "--digest", expected.upper(), *CPU]) == 0
    pair = small.rationalizer(support, Predictor(support.classifier), TopK(0.2))
    Rationalizer(pair.extractor, pair.predictor).save_pretrained(here / "other")
    assert explain("other", "--output", "o.jsonl", "--certify", "c.jsonl") == 0
    assert main(["verify", "c.jsonl", "other", *CPU]) == 0
    capsys.readouterr()
    assert main(["verify", "c.jsonl", "other", "--digest", expected, *CPU]) == 3
    other = json.loads((here / "c.jsonl").read_bytes().splitlines()[0])["predictor_sha256"]
    assert told(capsys)[0] == (
        "The certificates do not hold: 1 fault.\n"
        f"line 1: the model is not the expected one: the digest of its predictor is {other}.\n"
    )
    assert main(["verify", "c.jsonl", "other", "--digest", "4f0a", *CPU]) == 1
    told_why = "--digest must have 64 hexadecimal digits, got '4f0a'. Give that of the predictor."
    assert told(capsys) == ("", f"fresh verify: {told_why}")


def test_a_stray_file_is_named(saved: str, here: Path, capsys: pytest.CaptureFixture[str]) -> None:
    shutil.copytree(saved, here / "model")
    assert explain("model", *BOTH) == 0
    (here / "model/predictor/notes.txt").write_text("mine", encoding="utf-8")
    capsys.readouterr()
    assert main(["verify", "certificates.jsonl", "model", *CPU]) == 1
    assert told(capsys)[1].startswith("fresh verify: model holds predictor/notes.txt, which is not part of the model")
    assert main(["verify", "certificates.jsonl", "model/predictor", *CPU]) == 3
    assert re.search(r"1 fault\.\nline 1: the predictor is the certified one.*: notes\.txt", told(capsys)[0])
