import math
import re
import shutil
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any
from unittest.mock import Mock, call

import pytest

import cheats
import fresh
import fresh.audit.certificates.verify
import fresh.rationalizer
from certified import Record, Watched, made_up, read, resealed, write
from fresh.audit.certificates.certify import certify, certifying
from fresh.audit.certificates.format import Fault
from fresh.audit.certificates.verify import TOLERANCE, Verification, _recompute, verify
from fresh.document import Document
from fresh.errors import CertificateError, ModelError
from fresh.persistence import predictor_digest
from fresh.predictor import Predictor
from fresh.rationale import Prediction
from fresh.rationalizer import Rationalizer

OTHER_PIECES = "its pieces are not those that the predictor makes of its words and query."

Verify = Callable[[bytes], Verification]


@pytest.fixture
def verified(folder: Path, predictor: Predictor, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Verify:
    """Verify bytes with a predictor that was loaded before."""
    monkeypatch.setattr(fresh.audit.certificates.verify, "load_predictor", lambda *_: predictor)
    return lambda content: verify(write(tmp_path / "verified.jsonl", content), folder)


def test_certificates_hold_for_the_model_that_made_them(folder: Path, content: bytes, tmp_path: Path) -> None:
    watched = Watched()
    verdict = verify(write(tmp_path / "certificates.jsonl", content), folder, device="cpu", progress=watched)
    digest = re.findall(rb'"sha256":"(\w+)"', content)[-1].decode()
    assert verdict == Verification(3, 3, 0.0, digest, (), 0)
    assert verdict.to_text() == (
        "3 certificates: all hold, and the predictor is the same. Every probability was recomputed, equal to the "
        f"bit.\nFinal digest: {digest}"
    )
    assert watched.done == [("verifying", 5, 5)]
    assert fresh.verify is verify


def test_nothing_but_the_predictor_is_needed(
    folder: Path, content: bytes, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = write(tmp_path / "certificates.jsonl", content)
    shutil.copytree(folder, tmp_path / "half")
    shutil.rmtree(tmp_path / "half/extractor")
    shutil.copytree(folder / "predictor", tmp_path / "alone")
    monkeypatch.setattr(Rationalizer, "from_pretrained", None)
    for model in (folder, tmp_path / "half", tmp_path / "alone"):
        assert verify(file, model, device="cpu").holds


def test_a_model_may_be_on_the_hub(
    folder: Path, content: bytes, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, documents: list[Document]
) -> None:
    fetch = Mock(return_value=str(folder))
    monkeypatch.setattr(fresh.rationalizer, "snapshot_download", fetch)
    certify("you/my-model", documents, tmp_path / "certificates.jsonl", device="cpu")
    assert (tmp_path / "certificates.jsonl").read_bytes() == content
    assert verify(tmp_path / "certificates.jsonl", "you/my-model", device="cpu").holds
    assert fetch.call_args_list == [call("you/my-model")] * 2


def test_damaged_and_other_predictors_are_refused(folder: Path, content: bytes, tmp_path: Path) -> None:
    file = write(tmp_path / "certificates.jsonl", content)
    weights = shutil.copytree(folder, tmp_path / "model") / "predictor/head.safetensors"
    weights.write_bytes(weights.read_bytes()[:-1] + b"\x00")
    expected = f"{tmp_path / 'model'} is damaged: predictor/head.safetensors has changed. Copy the model again, or"
    with pytest.raises(ModelError, match=f"^{re.escape(expected)}"):
        verify(file, tmp_path / "model")
    verdict = verify(file, weights.parent)
    made_by = re.findall(rb'"predictor_sha256":"(\w+)"', content)[0].decode()
    reason = (
        f"the certificates are of another predictor. Its digest is {made_by}, "
        f"that of this model {predictor_digest(weights.parent)}."
    )
    assert verdict == Verification(0, 0, 0.0, None, (Fault(1, reason),), 1)
    assert verdict.to_text() == f"The certificates do not hold: 1 fault.\nline 1: {reason}"


# Results in words


def test_ten_faults_are_listed_and_the_others_counted(
    folder: Path, tmp_path: Path, documents: list[Document], verified: Verify
) -> None:
    certify(folder, documents * 5, tmp_path / "out.jsonl", device="cpu")

    content = (tmp_path / "out.jsonl").read_bytes()
    verdict = verified(resealed(content, lambda records: [one["input"]["words"].append("x") for one in records[1:-1]]))
    told = [f"line {line}: {OTHER_PIECES}" for line in range(2, 12)]
    assert verdict.to_text().splitlines() == ["The certificates do not hold: 15 faults.", *told, "and 5 more."]


def test_other_files_are_refused(folder: Path, tmp_path: Path) -> None:
    certify(folder, [], tmp_path / "none.jsonl", device="cpu")
    for path, reason in (
        (tmp_path / "nowhere.jsonl", r"There is no file .*nowhere\.jsonl\. Name the certificates that `fresh explain"),
        (folder, r"is a folder\. Name the certificates first, then the model\.$"),
        (tmp_path / "none.jsonl", r"none\.jsonl holds no certificates: there is nothing to verify\.$"),
    ):
        with pytest.raises(CertificateError, match=reason):
            verify(path, folder, device="cpu")


# Certificates changed by a forger who recomputes every digest


def halve_probabilities(records: list[Record]) -> None:
    records[1]["probabilities"] = [[label, repr(float(value) / 2)] for label, value in records[1]["probabilities"]]


def turn_label(records: list[Record]) -> None:
    records[1]["label"] = {"neg": "pos", "pos": "neg"}[records[1]["label"]]


OTHER_PROBABILITIES = r"its probabilities are 0\.\d+ from those that the predictor gives; at most 1e-05 is allowed\."
FORGED: dict[str, tuple[Callable[[list[Record]], Any], str]] = {
    "a word": (lambda records: records[1]["input"]["words"].append("x"), OTHER_PIECES),
    "the query": (lambda records: records[1]["input"].update(query=["why"]), OTHER_PIECES),
    "the pieces": (lambda records: records[1]["input"]["pieces"].append(5), OTHER_PIECES),
    "a probability": (halve_probabilities, OTHER_PROBABILITIES),
    "the label": (turn_label, r"its label is '(neg|pos)', but the predictor predicts '(neg|pos)'\."),
    "the labels": (
        lambda records: records[1]["probabilities"].reverse(),
        r"its labels are not those of the predictor\.",
    ),
    "the length": (
        lambda records: records[1]["input"].update(words=["good"] * 50_000),
        r"the predictor cannot read it\. .*'r-0'.*4094.*",
    ),
}


@pytest.mark.parametrize("name", FORGED)
def test_a_forgery_without_the_predictor_is_found(name: str, content: bytes, verified: Verify) -> None:
    change, reason = FORGED[name]
    [fault] = verified(resealed(content, change)).faults
    assert fault.line == 2
    assert re.fullmatch(reason, fault.reason), fault.reason


def test_a_forgery_with_the_tokenizer_is_found(content: bytes, predictor: Predictor, verified: Verify) -> None:
    def turn(records: list[Record]) -> None:
        words = ["awful" if records[1]["label"] == "pos" else "great"]
        [pieces] = predictor.token_ids([Document.from_words(words).cut(fresh.Mask.full(1))])
        records[1]["input"] |= {"words": words, "pieces": list(pieces)}

    [fault] = verified(resealed(content, turn)).faults
    assert re.fullmatch(OTHER_PROBABILITIES, fault.reason)


def test_a_file_rewritten_without_a_line_has_another_digest(content: bytes, verified: Verify) -> None:
    after = verified(resealed(content, lambda records: (records.pop(2), records[-1].update(count=2))))
    assert (after.holds, after.count) == (True, 2)  # which is why the final digest has to be published
    assert after.digest != verified(content).digest


# Other machines


def move(step: float, records: list[Record]) -> None:
    [neg, pos] = records[2]["probabilities"]
    sign = 1 if float(neg[1]) < 0.5 else -1
    neg[1], pos[1] = repr(float(neg[1]) + sign * step), repr(float(pos[1]) - sign * step)


def test_a_small_difference_passes_and_is_reported_and_a_larger_one_fails(content: bytes, verified: Verify) -> None:
    verdict = verified(resealed(content, partial(move, 3e-7)))
    assert (verdict.holds, verdict.count, verdict.n_exact) == (True, 3, 2)
    assert verdict.max_difference == pytest.approx(3e-7, rel=1e-6)
    assert verdict.to_text() == (
        "3 certificates: all hold, and the predictor is the same. Every probability was recomputed: 2 equal to the "
        "bit, the others within 1e-05 (at most 3e-07 apart), as on another machine or in other batches.\n"
        f"Final digest: {verdict.digest}"
    )
    assert verified(resealed(content, partial(move, 0.9 * TOLERANCE))).holds
    reason = "its probabilities are 1.1e-05 from those that the predictor gives; at most 1e-05 is allowed."
    assert verified(resealed(content, partial(move, 1.1 * TOLERANCE))).faults == (Fault(3, reason),)


@pytest.mark.parametrize(
    ("label", "probabilities", "reason"),
    [
        ("pos", {"neg": 0.1, "pos": 0.9}, None),
        ("neg", {"neg": 0.1, "pos": 0.9}, "its label is 'pos', but the predictor predicts 'neg'."),  # however close
        ("pos", {"neg": math.nan, "pos": 0.9}, "its probabilities are nan from those that the predictor gives"),
        ("pos", {"neg": 0.1, "pos": math.nan}, "its probabilities are nan from those that the predictor gives"),
    ],
)
def test_a_prediction_must_be_that_of_the_predictor(
    label: str, probabilities: dict[str, float], reason: str | None, predictor: Predictor
) -> None:
    [token_ids] = predictor.token_ids([made_up(0).rationale])
    answering = cheats.Answering(predictor.classifier, lambda *_: Prediction(label, probabilities))
    found = Verification()
    _recompute([(2, replace(made_up(0), token_ids=token_ids))], answering, found)
    assert found.holds == (reason is None)
    assert all(fault.reason.startswith(reason or "") for fault in found.faults)


def test_other_groups_change_at_most_the_last_digits(
    folder: Path, tmp_path: Path, documents: list[Document], verified: Verify
) -> None:
    with certifying(folder, tmp_path / "out.jsonl", device="cpu") as certifier:
        for document in documents * 4:
            list(certifier.explain([document]))

    apart = (tmp_path / "out.jsonl").read_bytes()
    assert [item.group for item in read(apart)[0]] == list(range(12))
    verdict = verified(resealed(apart, lambda records: [record.update(group=0) for record in records[1:-1]]))
    assert (verdict.holds, verdict.count) == (True, 12)


def test_groups_are_never_larger_than_memory_allows(
    content: bytes, verified: Verify, monkeypatch: pytest.MonkeyPatch
) -> None:
    recompute = Mock(wraps=_recompute)
    monkeypatch.setattr(fresh.audit.certificates.verify, "MAX_GROUP_SIZE", 2)
    monkeypatch.setattr(fresh.audit.certificates.verify, "_recompute", recompute)
    assert verified(content).holds
    assert [len(given.args[0]) for given in recompute.call_args_list] == [2, 1]
