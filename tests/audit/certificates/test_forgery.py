"""Certificates changed by somebody who computes every digest anew, and certificates of other machines."""

import re
from collections.abc import Callable, Sequence
from pathlib import Path

import pytest

import fresh
import fresh.audit.certificates.verify
import small
from certified import Record, made_up, resealed, write
from fresh.attribution.support_model import SupportModel
from fresh.audit.certificates.certify import certify, certifying
from fresh.audit.certificates.file import Fault
from fresh.audit.certificates.verify import TOLERANCE, Numbered, _check, _fault_of, _Tally, verify
from fresh.document import Document
from fresh.persistence import predictor_digest
from fresh.predictor import Predictor
from fresh.rationale import Prediction
from fresh.selection.discretizers import TopK

TEXTS = ["the film was good", "An awful story of two old men, and the sea!", "“great” 😀 film it plays in the"]
DOCUMENTS = [Document.from_text(text, id=f"r-{number}") for number, text in enumerate(TEXTS)]
OTHER_PIECES = "its pieces are not those that the predictor makes of its words and query."

Change = Callable[[list[Record]], None]


@pytest.fixture(scope="module")
def folder(support: SupportModel, predictor: Predictor, tmp_path_factory: pytest.TempPathFactory) -> Path:
    place = tmp_path_factory.mktemp("models") / "model"
    small.rationalizer(support, predictor, TopK(0.4)).save_pretrained(place)
    return place


@pytest.fixture(scope="module")
def content(folder: Path, tmp_path_factory: pytest.TempPathFactory) -> bytes:
    target = tmp_path_factory.mktemp("certificates") / "certificates.jsonl"
    certify(folder, DOCUMENTS, target, device="cpu")
    return target.read_bytes()


@pytest.fixture(scope="module")
def faults_in(
    folder: Path, predictor: Predictor, tmp_path_factory: pytest.TempPathFactory
) -> Callable[[bytes], list[Fault]]:
    """Check bytes with a predictor that was loaded before."""
    place, digest = tmp_path_factory.mktemp("checked") / "certificates.jsonl", predictor_digest(folder / "predictor")

    def find(content: bytes) -> list[Fault]:
        verdict = _check(write(place, content), digest, lambda: predictor)
        assert verdict.holds == (not verdict.faults)
        return list(verdict.faults)

    return find


def other_word(records: list[Record]) -> None:
    records[1]["input"]["words"][0] += "x"


def other_query(records: list[Record]) -> None:
    records[1]["input"]["query"] = ["why"]


def other_pieces(records: list[Record]) -> None:
    records[1]["input"]["pieces"][1] += 1


def other_probability(records: list[Record]) -> None:
    [neg, pos] = records[1]["probabilities"]
    records[1]["probabilities"] = [[neg[0], repr(float(neg[1]) * 0.5)], [pos[0], repr(float(pos[1]) * 0.5)]]


def other_label(records: list[Record]) -> None:
    records[1]["label"] = {"neg": "pos", "pos": "neg"}[records[1]["label"]]


def other_labels(records: list[Record]) -> None:
    records[1]["probabilities"].reverse()


def too_long(records: list[Record]) -> None:
    records[1]["input"]["words"] *= 5000


FORGED: dict[str, tuple[Change, str]] = {
    "a word": (other_word, OTHER_PIECES),
    "the query": (other_query, OTHER_PIECES),
    "the pieces": (other_pieces, OTHER_PIECES),
    "a probability": (
        other_probability,
        r"its probabilities are 0\.\d+ from those that the predictor gives; at most 1e-05 is allowed\.",
    ),
    "the label": (other_label, r"its label is '(neg|pos)', but the predictor answers '(neg|pos)'\."),
    "the labels": (other_labels, r"its labels are not those of the predictor\."),
    "the length": (
        too_long,
        r"the predictor cannot read it\. Text 'r-0' has \d+ words, or \d+ pieces, but only 4094 can be read\. .*",
    ),
}


@pytest.mark.parametrize("name", FORGED)
def test_a_forger_without_the_predictor_is_found_out(
    name: str, content: bytes, faults_in: Callable[[bytes], list[Fault]]
) -> None:
    change, reason = FORGED[name]
    [fault] = faults_in(resealed(content, change))
    assert fault.line == 2
    assert re.fullmatch(reason, fault.reason), fault.reason


def test_a_forger_with_the_tokenizer_is_found_out(
    content: bytes, predictor: Predictor, faults_in: Callable[[bytes], list[Fault]]
) -> None:
    def turn(records: list[Record]) -> None:
        words = ["awful" if records[1]["label"] == "pos" else "great"]
        [pieces] = predictor.token_ids([Document.from_words(words).cut(fresh.Mask.full(1))])
        records[1]["input"] |= {"words": words, "pieces": list(pieces)}

    [fault] = faults_in(resealed(content, turn))
    assert re.fullmatch(FORGED["a probability"][1], fault.reason)


def test_a_file_that_was_made_anew_without_a_line_has_another_digest(
    content: bytes, folder: Path, tmp_path: Path
) -> None:
    def drop(records: list[Record]) -> None:
        del records[2]
        records[-1]["count"] -= 1

    before = verify(write(tmp_path / "all.jsonl", content), folder, device="cpu")
    after = verify(write(tmp_path / "some.jsonl", resealed(content, drop)), folder, device="cpu")
    assert (after.holds, after.count) == (True, 2)  # which is why the final digest has to be published
    assert after.digest != before.digest


# Other machines


def moved_by(step: float) -> Change:
    def change(records: list[Record]) -> None:
        [neg, pos] = records[2]["probabilities"]
        sign = 1 if float(neg[1]) < 0.5 else -1
        neg[1], pos[1] = repr(float(neg[1]) + sign * step), repr(float(pos[1]) - sign * step)

    return change


def test_a_small_difference_is_told_and_passes(content: bytes, folder: Path, tmp_path: Path) -> None:
    file = write(tmp_path / "certificates.jsonl", resealed(content, moved_by(3e-7)))
    verdict = verify(file, folder, device="cpu")
    assert (verdict.holds, verdict.count, verdict.n_exact) == (True, 3, 2)
    assert verdict.furthest == pytest.approx(3e-7, rel=1e-6)
    assert verdict.to_text() == (
        "3 certificates: all hold, and the predictor is the same. Every probability was recomputed: 2 equal to the "
        "bit, the others within 1e-05 (furthest: 3e-07), as on another machine or with other texts beside them.\n"
        f"Final digest: {verdict.digest}"
    )


def test_a_larger_difference_fails(content: bytes, faults_in: Callable[[bytes], list[Fault]]) -> None:
    assert faults_in(resealed(content, moved_by(0.9 * TOLERANCE))) == []
    [fault] = faults_in(resealed(content, moved_by(1.1 * TOLERANCE)))
    reason = "its probabilities are 1.1e-05 from those that the predictor gives; at most 1e-05 is allowed."
    assert fault == Fault(3, reason)


def test_the_label_must_be_the_same_however_close_it_is() -> None:
    certificate = made_up(0)
    assert _fault_of(certificate, certificate.pieces, certificate.prediction) is None
    near = Prediction("neg", certificate.prediction.probabilities)
    reason = "its label is 'pos', but the predictor answers 'neg'."
    assert _fault_of(certificate, certificate.pieces, near) == reason


def test_other_groups_change_at_most_the_last_digits(folder: Path, tmp_path: Path) -> None:
    with certifying(folder, tmp_path / "out.jsonl", device="cpu") as certifier:
        for document in DOCUMENTS * 4:
            list(certifier.explain([document]))

    def joined(records: list[Record]) -> None:
        for record in records[1:-1]:
            record["group"] = 0

    content = resealed((tmp_path / "out.jsonl").read_bytes(), joined)
    verdict = verify(write(tmp_path / "joined.jsonl", content), folder, device="cpu")
    assert verdict.holds
    assert verdict.count == 12


def test_groups_are_never_larger_than_memory_allows(
    content: bytes, faults_in: Callable[[bytes], list[Fault]], monkeypatch: pytest.MonkeyPatch
) -> None:
    sizes: list[int] = []
    real = fresh.audit.certificates.verify._recompute

    def recompute(group: Sequence[Numbered], predictor: Predictor, tally: _Tally) -> None:
        sizes.append(len(group))
        real(group, predictor, tally)

    monkeypatch.setattr(fresh.audit.certificates.verify, "MOST_AT_ONCE", 2)
    monkeypatch.setattr(fresh.audit.certificates.verify, "recompute", recompute)
    assert faults_in(content) == []
    assert sizes == [2, 1]
