import json
import re
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat, PublicFormat

import fresh.reporting.console
import small
from certified import read, write
from command import Command, Shown
from fresh.attribution.support_model import SupportModel
from fresh.predictor import Predictor
from fresh.rationalizer import Rationalizer
from fresh.selection.discretizers import TopK

TEXTS = ("The film, was good!", "an awful  story\nof two old men", "“great” 😀 sea film")
ROWS = [{"id": f"r-{number}", "text": text} for number, text in enumerate(TEXTS)]
BOTH = ("--output", "out.jsonl", "--certify", "certificates.jsonl")

Explain = Callable[..., Shown]


@pytest.fixture
def explain(here: Path, command: Command) -> Explain:
    """Explains some texts with a model."""
    small.write_jsonl(here / "in.jsonl", ROWS)
    return lambda model, *options, status=0: command("explain", model, "--input", "in.jsonl", *options, status=status)


def test_a_file_is_explained_certified_and_verified(saved: str, explain: Explain, command: Command) -> None:
    shown = explain(saved, *BOTH)
    digest = json.loads(Path("certificates.jsonl").read_bytes().splitlines()[-1])["sha256"]
    assert (shown.out, shown.last) == ("", f"3 certificates in certificates.jsonl. Final digest: {digest}")
    explained = [json.loads(line) for line in Path("out.jsonl").read_text(encoding="utf-8").splitlines()]
    certificates, _ = read(Path("certificates.jsonl").read_bytes())
    for record, certificate in zip(explained, certificates, strict=True):
        assert record["id"] == certificate.rationale.id
        assert record["probabilities"] == certificate.prediction.probabilities
        words = "".join(span["text"] for span in record["rationale"])
        assert "".join(words.split()) == "".join(certificate.rationale.words)
    assert command("verify", "certificates.jsonl", saved).out == (
        "3 certificates: all hold, and the predictor is the same. Every probability was recomputed, equal to the bit.\n"
        f"Final digest: {digest}\n"
    )


def test_explanations_are_the_same_with_and_without_certificates(saved: str, explain: Explain) -> None:
    explain(saved, *BOTH, "--scores")
    explain(saved, "--output", "plain.jsonl", "--scores")
    assert Path("out.jsonl").read_bytes() == Path("plain.jsonl").read_bytes()


def test_one_text_is_certified(saved: str, command: Command) -> None:
    shown = command("explain", saved, "a good film", "--certify", "one.jsonl")
    assert "[good]" in shown.out
    assert shown.last.startswith("1 certificate in one.jsonl. Final digest: ")
    [certificate], faults = read(Path("one.jsonl").read_bytes())
    assert (certificate.rationale.words, certificate.rationale.id, faults) == (("good",), "TEXT", [])
    assert command("verify", "one.jsonl", saved).out.startswith("1 certificate: all hold, ")


def test_ratio_and_query_are_certified(pair_support: SupportModel, here: Path, command: Command) -> None:
    predictor = Predictor(pair_support.classifier)
    extractor = small.rationalizer(pair_support, predictor, TopK(0.2)).extractor
    Rationalizer(extractor, predictor, needs_query=True, ratios=(0.1, 0.9)).save_pretrained(here / "asking")
    query = ("a good film of two", "--query", "praise ?", "--ratio", "0.6")
    command("explain", "asking", *query, "--certify", "one.jsonl")
    [certificate], _ = read((here / "one.jsonl").read_bytes())
    assert len(certificate.rationale.words) == 3
    assert certificate.rationale.query == ("praise", "?")
    small.write_jsonl(here / "pairs.jsonl", [{"text": f"a good film of {n}", "query": "praise"} for n in range(4)])
    files = ("--input", "pairs.jsonl", "--output", "out.jsonl", "--certify", "many.jsonl", "--ratio", "0.4")
    command("explain", "asking", *files)
    assert [len(item.rationale.words) for item in read((here / "many.jsonl").read_bytes())[0]] == [2] * 4
    for name in ("one.jsonl", "many.jsonl"):
        assert "equal to the bit" in command("verify", name, "asking/predictor").out


def test_changed_certificates_have_status_3(saved: str, explain: Explain, command: Command) -> None:
    explain(saved, *BOTH)
    content = Path("certificates.jsonl").read_bytes()
    write(Path("changed.jsonl"), content.replace(b'"good"', b'"bad"', 1))
    assert command("verify", "changed.jsonl", saved, status=3).out == (
        "The certificates do not hold: 1 fault.\n"
        "line 2: it has changed since it was written: its digest does not match its content.\n"
    )


def test_the_expected_digest_reveals_a_swapped_pair_of_model_and_certificates(
    saved: str, support: SupportModel, explain: Explain, command: Command
) -> None:
    small.rationalizer(support, Predictor(support.classifier), TopK(0.2)).save_pretrained(Path("other"))
    explain("other", "--output", "o.jsonl", "--certify", "c.jsonl")
    digest = json.loads(Path("c.jsonl").read_bytes().splitlines()[0])["predictor_sha256"]
    [line] = [line for line in explain(saved, *BOTH).err.splitlines() if line.startswith("Predictor digest: ")]
    expected = line.removeprefix("Predictor digest: ")
    command("verify", "certificates.jsonl", saved, "--digest", expected.upper())
    command("verify", "c.jsonl", "other")
    assert command("verify", "c.jsonl", "other", "--digest", expected, status=3).out == (
        "The certificates do not hold: 1 fault.\n"
        f"line 1: the model is not the expected one: the digest of its predictor is {digest}.\n"
    )
    message = "--digest must have 64 hexadecimal digits, got '4f0a'. Give that of the predictor."
    assert command("verify", "c.jsonl", "other", "--digest", "4f0a", status=1).last == f"fresh verify: {message}"


def test_a_stray_file_is_named(saved: str, explain: Explain, command: Command) -> None:
    shutil.copytree(saved, Path("model"))
    explain("model", *BOTH)
    Path("model/predictor/notes.txt").write_text("mine", encoding="utf-8")
    shown = command("verify", "certificates.jsonl", "model", status=1)
    assert shown.last.startswith("fresh verify: model holds predictor/notes.txt, which is not part of the model")
    shown = command("verify", "certificates.jsonl", "model/predictor", status=3)
    assert re.search(r"1 fault\.\nline 1: the predictor is the certified one.*: notes\.txt", shown.out)


def test_an_interrupt_leaves_no_certificates(
    saved: str, interrupt: Callable[[object, str], None], explain: Explain
) -> None:
    interrupt(fresh.reporting.console, "to_record")
    message = "Interrupted. 0 texts explained; the output is valid. There are no certificates."
    assert explain(saved, *BOTH, status=130).last == message
    assert sorted(path.name for path in Path().iterdir()) == ["in.jsonl", "out.jsonl"]


def test_a_bad_row_leaves_no_certificates(saved: str, explain: Explain, command: Command) -> None:
    small.write_jsonl(Path("in.jsonl"), [*ROWS, {"id": "r-9", "text": " "}])
    assert explain(saved, *BOTH, status=1).last == (
        "fresh explain: in.jsonl, line 4: the text has no words. Fix the row, or leave such rows out with "
        "--skip-bad. (3 texts explained and written before it. There are no certificates.)"
    )
    assert sorted(path.name for path in Path().iterdir()) == ["in.jsonl", "out.jsonl"]
    explain(saved, *BOTH, "--skip-bad", "--overwrite")
    command("verify", "certificates.jsonl", saved)


def test_a_signature_needs_certificates_and_the_key_of_its_owner(
    saved: str, here: Path, explain: Explain, command: Command
) -> None:
    private = Ed25519PrivateKey.generate()
    write(here / "key.pem", private.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption()))
    for name, key in (("own.pem", private), ("other.pem", Ed25519PrivateKey.generate())):
        write(here / name, key.public_key().public_bytes(Encoding.PEM, PublicFormat.SubjectPublicKeyInfo))
    assert "--certify" in explain(saved, "--sign", "key.pem", status=1).err
    assert "openssl" in explain(saved, *BOTH, "--sign", "own.pem", status=1).err
    for option in ("--certify", "--output"):
        files = {"--certify": "certificates.jsonl", "--output": "out.jsonl", option: "key.pem"}
        given = [part for pair in files.items() for part in pair]
        assert "is the key" in explain(saved, *given, "--sign", "key.pem", "--overwrite", status=1).err
    assert b"PRIVATE KEY" in (here / "key.pem").read_bytes()
    explain(saved, *BOTH, "--sign", "key.pem")
    assert "Signed by" in command("verify", "certificates.jsonl", saved, "--key", "own.pem").out
    assert "line 6" in command("verify", "certificates.jsonl", saved, "--key", "other.pem", status=3).out
