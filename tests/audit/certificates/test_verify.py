import re
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import fresh
import fresh.audit.certificates.verify
import fresh.rationalizer
import small
from certified import Record, Watched, changed, resealed, write
from fresh.attribution.support_model import SupportModel
from fresh.audit.certificates.certify import certify
from fresh.audit.certificates.file import Fault
from fresh.audit.certificates.verify import _check, verify
from fresh.document import Document
from fresh.errors import CertificateError, ModelError
from fresh.persistence import predictor_digest
from fresh.predictor import Predictor
from fresh.rationalizer import Rationalizer
from fresh.selection.discretizers import TopK
from fresh.selection.extractors import FullText

TEXTS = ["the film was good", "An awful story of two old men, and the sea!", "“great” 😀 film it plays in the"]
DOCUMENTS = [Document.from_text(text, id=f"r-{number}") for number, text in enumerate(TEXTS)]
OTHER_PIECES = "its pieces are not those that the predictor makes of its words and query."


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


def test_certificates_hold_for_the_model_that_made_them(folder: Path, content: bytes, tmp_path: Path) -> None:
    watched = Watched()
    verdict = verify(write(tmp_path / "certificates.jsonl", content), folder, device="cpu", progress=watched)
    digest = re.findall(rb'"sha256":"(\w+)"', content)[-1].decode()
    assert verdict == fresh.audit.certificates.verify._Verification(3, 3, 0.0, digest, (), 0)
    assert verdict.to_text() == (
        "3 certificates: all hold, and the predictor is the same. Every probability was recomputed, equal to the "
        f"bit.\nFinal digest: {digest}"
    )
    assert watched.done == [("verifying", 5, 5)]
    assert fresh.verify is verify


def test_many_groups_are_recomputed_to_the_bit(predictor: Predictor, tmp_path: Path) -> None:
    Rationalizer(FullText(), predictor).save_pretrained(tmp_path / "model")
    documents = [Document.from_words((TEXTS[n % 3].split() * 3)[: 1 + n % 23], id=str(n)) for n in range(600)]
    certify(tmp_path / "model", documents, tmp_path / "out.jsonl", device="cpu")
    verdict = verify(tmp_path / "out.jsonl", tmp_path / "model", device="cpu")
    assert (verdict.count, verdict.n_exact, verdict.n_faults) == (600, 600, 0)


def test_nothing_but_the_predictor_is_needed(
    folder: Path, content: bytes, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = write(tmp_path / "certificates.jsonl", content)
    shutil.copytree(folder, tmp_path / "half")
    shutil.rmtree(tmp_path / "half/extractor")
    shutil.copytree(folder / "predictor", tmp_path / "alone")
    monkeypatch.setattr(Rationalizer, "from_pretrained", None)
    monkeypatch.setattr(SupportModel, "__init__", None)
    for model in (folder, tmp_path / "half", tmp_path / "alone"):
        assert verify(file, model, device="cpu").holds


def test_a_model_on_the_hub_is_named_as_always(
    folder: Path, content: bytes, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[str] = []

    def fetched(name: str) -> str:
        asked.append(name)
        return str(folder)

    monkeypatch.setattr(fresh.rationalizer, "snapshot_download", fetched)
    certify("you/my-model", DOCUMENTS, tmp_path / "certificates.jsonl", device="cpu")
    assert (tmp_path / "certificates.jsonl").read_bytes() == content
    assert verify(tmp_path / "certificates.jsonl", "you/my-model", device="cpu").holds
    assert asked == ["you/my-model"] * 2


def test_a_predictor_that_was_damaged_is_not_asked(folder: Path, content: bytes, tmp_path: Path) -> None:
    file = write(tmp_path / "certificates.jsonl", content)
    shutil.copytree(folder, tmp_path / "model")
    weights = tmp_path / "model/predictor/head.safetensors"
    weights.write_bytes(weights.read_bytes()[:-1] + b"\x00")
    expected = f"{tmp_path / 'model'} is damaged: predictor/head.safetensors has changed. Copy the model again, or"
    with pytest.raises(ModelError, match=f"^{re.escape(expected)}"):
        verify(file, tmp_path / "model")
    [fault] = verify(file, weights.parent).faults
    assert fault.reason.startswith("the certificates are of another predictor.")


def test_certificates_of_another_model_are_refused(content: bytes, support: SupportModel, tmp_path: Path) -> None:
    Rationalizer(FullText(), Predictor(support.classifier)).save_pretrained(tmp_path / "other")
    verdict = verify(write(tmp_path / "certificates.jsonl", content), tmp_path / "other", device="cpu")
    made_by = re.findall(rb'"predictor_sha256":"(\w+)"', content)[0].decode()
    reason = (
        f"the certificates are of another predictor. Its digest is {made_by}, "
        f"that of this model {predictor_digest(tmp_path / 'other/predictor')}."
    )
    assert verdict == fresh.audit.certificates.verify._Verification(0, 0, 0.0, None, (Fault(1, reason),), 1)
    assert verdict.to_text() == f"The certificates do not hold: 1 fault.\nline 1: {reason}"


@given(st.data())
@settings(max_examples=150)
def test_a_changed_byte_anywhere_is_found(
    content: bytes, faults_in: Callable[[bytes], list[Fault]], data: st.DataObject
) -> None:
    assert faults_in(data.draw(changed(content)))


def test_every_byte_of_a_real_file_counts(content: bytes, faults_in: Callable[[bytes], list[Fault]]) -> None:
    assert faults_in(content) == []
    for place in range(0, len(content), 7):
        assert faults_in(content[:place] + bytes([content[place] ^ 1]) + content[place + 1 :]), place
        assert faults_in(content[:place]), place


def test_other_ends_of_lines_are_found(content: bytes, faults_in: Callable[[bytes], list[Fault]]) -> None:
    [fault] = faults_in(content.replace(b"\n", b"\r\n"))
    assert fault == Fault(1, "it ends in CR LF, not in LF: an editor or a transfer changed the file.")
    assert faults_in(content.replace(b"\n", b"\r"))


# What is told


def test_ten_faults_are_told_and_the_others_counted(folder: Path, tmp_path: Path) -> None:
    target = tmp_path / "out.jsonl"
    certify(folder, DOCUMENTS * 5, target, device="cpu")

    def forge(records: list[Record]) -> None:
        for record in records[1:-1]:
            record["input"]["words"][0] += "x"

    verdict = verify(write(target, resealed(target.read_bytes(), forge)), folder, device="cpu")
    told = [f"line {line}: {OTHER_PIECES}" for line in range(2, 12)]
    assert verdict.to_text().splitlines() == ["The certificates do not hold: 15 faults.", *told, "and 5 more."]


def test_what_is_no_file_of_certificates_is_refused(folder: Path, tmp_path: Path) -> None:
    nowhere = tmp_path / "nowhere.jsonl"
    refused = {
        nowhere: f"There is no file {nowhere}. Name the certificates that `fresh explain --certify` wrote.",
        folder: f"{folder} is a folder. Name the certificates first, then the model.",
    }
    for path, reason in refused.items():
        with pytest.raises(CertificateError) as caught:
            verify(path, folder)
        assert str(caught.value) == reason


def test_a_file_without_certificates_proves_nothing(folder: Path, tmp_path: Path) -> None:
    target = tmp_path / "none.jsonl"
    certify(folder, [], target, device="cpu")
    message = f"{target} holds no certificate, so that there is nothing to check."
    with pytest.raises(CertificateError, match=f"^{re.escape(message)}$"):
        verify(target, folder, device="cpu")
