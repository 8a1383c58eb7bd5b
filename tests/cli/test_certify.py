import json
from pathlib import Path
from typing import Any

import pytest

import fresh.reporting.console
import small
from certified import Record, read, resealed, write
from fresh.attribution.support_model import SupportModel
from fresh.cli.main import main
from fresh.document import Explanation
from fresh.predictor import Predictor
from fresh.rationalizer import Rationalizer
from fresh.selection.discretizers import TopK

CPU = ("--device", "cpu")
ROWS = [
    {"id": f"r-{number}", "text": text}
    for number, text in enumerate(("The film, was good!", "an awful  story\nof two old men", "“great” 😀 sea film"))
]


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An own place with texts."""
    monkeypatch.chdir(tmp_path)
    small.write_jsonl(tmp_path / "in.jsonl", ROWS)
    return tmp_path


def explain(saved: str, *options: str) -> int:
    return main(["explain", saved, "--input", "in.jsonl", *CPU, *options])


BOTH = ("--output", "out.jsonl", "--certify", "certificates.jsonl")


def told(capsys: pytest.CaptureFixture[str]) -> tuple[str, str]:
    """What the command said; of what went to standard error only the last line, since bars stand before it."""
    shown = capsys.readouterr()
    return shown.out, (shown.err.splitlines() or [""])[-1]


def test_a_file_is_explained_certified_and_verified(saved: str, here: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert explain(saved, *BOTH) == 0
    digest = json.loads((here / "certificates.jsonl").read_bytes().splitlines()[-1])["sha256"]
    assert told(capsys) == ("", f"3 certificates in certificates.jsonl. Final digest: {digest}")
    explained = [json.loads(line) for line in (here / "out.jsonl").read_text(encoding="utf-8").splitlines()]
    certificates, _ = read((here / "certificates.jsonl").read_bytes())
    for record, certificate in zip(explained, certificates, strict=True):
        assert record["id"] == certificate.rationale.id
        assert record["probabilities"] == certificate.prediction.probabilities
        shown = "".join(span["text"] for span in record["rationale"])
        assert "".join(shown.split()) == "".join(certificate.rationale.words)
    assert main(["verify", "certificates.jsonl", saved, *CPU]) == 0
    assert told(capsys)[0] == (
        "3 certificates: all hold, and the predictor is the same. Every probability was recomputed, equal to the bit.\n"
        f"Final digest: {digest}\n"
    )


def test_what_is_explained_is_the_same_with_certificates_and_without(saved: str, here: Path) -> None:
    assert explain(saved, *BOTH, "--scores") == 0
    assert explain(saved, "--output", "plain.jsonl", "--scores") == 0
    assert (here / "out.jsonl").read_bytes() == (here / "plain.jsonl").read_bytes()


def test_one_text_is_certified_too(saved: str, here: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["explain", saved, "a good film", "--certify", "one.jsonl", *CPU]) == 0
    shown, last = told(capsys)
    assert "[good]" in shown
    assert last.startswith("1 certificate in one.jsonl. Final digest: ")
    [certificate], faults = read((here / "one.jsonl").read_bytes())
    assert (certificate.rationale.words, certificate.rationale.id, faults) == (("good",), "TEXT", [])
    assert main(["verify", "one.jsonl", saved, *CPU]) == 0
    assert told(capsys)[0].startswith("1 certificate: all hold, ")


def test_a_ratio_and_a_query_are_part_of_what_is_certified(
    pair_support: SupportModel, here: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    predictor = Predictor(pair_support.classifier)
    extractor = small.rationalizer(pair_support, predictor, TopK(0.2)).extractor
    Rationalizer(extractor, predictor, needs_query=True, ratios=(0.1, 0.9)).save_pretrained(here / "asking")
    asked = ("a good film of two", "--query", "praise ?", "--ratio", "0.6")
    assert main(["explain", "asking", *asked, "--certify", "one.jsonl", *CPU]) == 0
    [certificate], _ = read((here / "one.jsonl").read_bytes())
    assert len(certificate.rationale.words) == 3
    assert certificate.rationale.query == ("praise", "?")
    small.write_jsonl(here / "pairs.jsonl", [{"text": f"a good film of {n}", "query": "praise"} for n in range(4)])
    files = ("--input", "pairs.jsonl", "--output", "out.jsonl", "--certify", "many.jsonl", "--ratio", "0.4")
    assert main(["explain", "asking", *files, *CPU]) == 0
    assert [len(item.rationale.words) for item in read((here / "many.jsonl").read_bytes())[0]] == [2] * 4
    for name in ("one.jsonl", "many.jsonl"):
        assert main(["verify", name, "asking/predictor", *CPU]) == 0
    assert "equal to the bit" in capsys.readouterr().out


def drop_last(content: bytes) -> bytes:
    return content[: content.rstrip().rindex(b"\n") + 1]


def edit(content: bytes) -> bytes:
    return content.replace(b'"good"', b'"bad"', 1)


def forge(content: bytes) -> bytes:
    def change(records: list[Record]) -> None:
        records[1]["input"]["words"] = ["bad"]

    return resealed(content, change)


FAILURES: dict[str, tuple[Any, str]] = {
    "cut short": (drop_last, "line 4: the file ends here without a closing line: it was cut short."),
    "edited": (edit, "line 2: it has changed since it was written: its digest does not match its content."),
    "forged": (forge, "line 2: its pieces are not those that the predictor makes of its words and query."),
}


@pytest.mark.parametrize("name", FAILURES)
def test_what_does_not_hold_is_told_with_status_3(
    name: str, saved: str, here: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    change, reason = FAILURES[name]
    assert explain(saved, *BOTH) == 0
    capsys.readouterr()
    write(here / "changed.jsonl", change((here / "certificates.jsonl").read_bytes()))
    assert main(["verify", "changed.jsonl", saved, *CPU]) == 3
    assert told(capsys)[0] == f"The certificates do not hold: 1 fault.\n{reason}\n"


def test_certificates_of_another_model_do_not_hold(
    saved: str, support: SupportModel, here: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    pair = small.rationalizer(support, Predictor(support.classifier), TopK(0.2))
    Rationalizer(pair.extractor, pair.predictor).save_pretrained(here / "other")
    assert explain(saved, *BOTH) == 0
    assert explain(str(here / "other"), "--output", "o.jsonl", "--certify", "c.jsonl") == 0
    capsys.readouterr()
    assert main(["verify", "certificates.jsonl", "other", *CPU]) == 3
    ours, others = (
        json.loads((here / name).read_bytes().splitlines()[0])["predictor_sha256"]
        for name in ("certificates.jsonl", "c.jsonl")
    )
    assert told(capsys)[0] == (
        "The certificates do not hold: 1 fault.\nline 1: the certificates are of another predictor. "
        f"Its digest is {ours}, that of this model {others}.\n"
    )


def test_certificates_may_be_replaced(saved: str, here: Path) -> None:
    assert explain(saved, *BOTH) == 0
    before = (here / "certificates.jsonl").read_bytes()
    small.write_jsonl(here / "in.jsonl", ROWS[:2])
    assert explain(saved, *BOTH, "--overwrite") == 0
    assert len(before.splitlines()) == len((here / "certificates.jsonl").read_bytes().splitlines()) + 1


def test_ctrl_c_leaves_no_certificates(
    saved: str, here: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    records = fresh.reporting.console.to_record
    seen: list[Explanation] = []

    def interrupted(explanation: Explanation, scores: bool) -> dict[str, Any]:
        seen.append(explanation)
        if len(seen) == 2:
            raise KeyboardInterrupt
        return records(explanation, scores)

    monkeypatch.setattr(fresh.reporting.console, "to_record", interrupted)
    assert explain(saved, *BOTH) == 130
    reason = "Interrupted. 1 texts are explained; the output is valid. There are no certificates."
    assert told(capsys)[1] == reason
    assert sorted(path.name for path in here.iterdir()) == ["in.jsonl", "out.jsonl"]


def test_a_bad_row_leaves_no_certificates(saved: str, here: Path, capsys: pytest.CaptureFixture[str]) -> None:
    small.write_jsonl(here / "in.jsonl", [*ROWS, {"id": "r-9", "text": " "}])
    assert explain(saved, *BOTH) == 1
    assert told(capsys)[1] == (
        "fresh explain: in.jsonl, line 4: the text has no words. Fix the row, or leave such rows out with "
        "--skip-bad. (3 texts before it are explained and written. There are no certificates.)"
    )
    assert sorted(path.name for path in here.iterdir()) == ["in.jsonl", "out.jsonl"]
    assert explain(saved, *BOTH, "--skip-bad", "--overwrite") == 0
    assert main(["verify", "certificates.jsonl", saved, *CPU]) == 0
