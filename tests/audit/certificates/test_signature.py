"""Signed certificates: whose key counts, and what is refused."""

from collections.abc import Callable
from pathlib import Path

import pytest
from cryptography.hazmat.primitives.asymmetric.ec import SECP256R1, generate_private_key
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from cryptography.hazmat.primitives.serialization import (
    BestAvailableEncryption,
    Encoding,
    NoEncryption,
    PrivateFormat,
    PublicFormat,
)

from certified import Record, resealed, write
from fresh.audit.certificates.certify import certify
from fresh.audit.certificates.verify import verify
from fresh.document import Document
from fresh.errors import CertificateError


def write_keys(folder: Path, name: str) -> tuple[Path, Path]:
    """Write a private and a public key."""
    key = Ed25519PrivateKey.generate()
    private = key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())
    public = key.public_key().public_bytes(Encoding.PEM, PublicFormat.SubjectPublicKeyInfo)
    return write(folder / f"{name}.pem", private), write(folder / f"{name}-public.pem", public)


@pytest.fixture
def keys(tmp_path: Path) -> tuple[Path, Path]:
    return write_keys(tmp_path, "key")


@pytest.fixture
def signed(folder: Path, documents: list[Document], keys: tuple[Path, Path], tmp_path: Path) -> Path:
    path = tmp_path / "signed.jsonl"
    certify(folder, documents, path, sign=keys[0])
    return path


def test_a_signed_file_holds_with_its_key_and_without_any(
    signed: Path, folder: Path, content: bytes, keys: tuple[Path, Path]
) -> None:
    verdict, unchecked = verify(signed, folder, key=keys[1]), verify(signed, folder)
    assert verdict.holds
    assert unchecked.holds
    assert verdict.to_text().endswith("Signed by the owner of the given key.")
    assert "not verified" in unchecked.to_text()
    assert signed.read_bytes().startswith(content)  # a signature adds a line and changes none
    assert verdict.digest == verify(write(signed, content), folder).digest


def test_another_key_or_no_signature_is_refused(
    signed: Path, folder: Path, content: bytes, keys: tuple[Path, Path], tmp_path: Path
) -> None:
    _, other = write_keys(tmp_path, "other")
    assert "by the owner of" in verify(signed, folder, key=other).to_text()
    assert "not signed" in verify(write(tmp_path / "plain.jsonl", content), folder, key=keys[1]).to_text()


def _take_from(other: bytes) -> Callable[[list[Record]], None]:
    """Move the signature of another file here."""
    import json

    signature = json.loads(other.splitlines()[-1])
    return lambda records: records.__setitem__(-1, signature)


def _change_a_certificate(records: list[Record]) -> None:
    records[1]["id"] = "another"


def _claim_the_key_of(other: Path) -> Callable[[list[Record]], None]:
    from fresh.audit.certificates.signature import read_public_key

    def change(records: list[Record]) -> None:
        records[-1]["public_key"] = read_public_key(other)

    return change


def _in_upper_case(records: list[Record]) -> None:
    records[-1]["signature"] = records[-1]["signature"].upper()


def _spoil(field: str, value: str) -> Callable[[list[Record]], None]:
    return lambda records: records[-1].__setitem__(field, value)


def test_a_forger_who_computes_all_digests_again_cannot_sign(
    signed: Path, folder: Path, documents: list[Document], keys: tuple[Path, Path], tmp_path: Path
) -> None:
    content = signed.read_bytes()
    certify(folder, documents[:1], tmp_path / "shorter.jsonl", sign=keys[0])
    forger, own = write_keys(tmp_path, "forger")
    certify(folder, documents, tmp_path / "forged.jsonl", sign=forger)
    for source, change in (
        (content, _change_a_certificate),
        (content, _take_from((tmp_path / "shorter.jsonl").read_bytes())),
        ((tmp_path / "forged.jsonl").read_bytes(), _claim_the_key_of(keys[1])),
        (content, _spoil("signature", "no hexadecimal")),
        (content, _spoil("signature", "")),
        (content, _in_upper_case),
    ):
        forged = write(tmp_path / "again.jsonl", resealed(source, change))
        assert verify(forged, folder).holds  # the digests alone do not show it
        found = verify(forged, folder, key=keys[1])
        assert not found.holds
        assert "not a signature of this file" in found.to_text()
    assert verify(tmp_path / "forged.jsonl", folder, key=own).holds


def test_a_file_signed_twice_and_a_signature_in_the_wrong_place_are_refused(
    signed: Path, folder: Path, content: bytes, tmp_path: Path
) -> None:
    lines = signed.read_bytes().splitlines(keepends=True)
    for name, changed, reason in (
        ("twice", [*lines, lines[-1]], "signed twice"),
        ("early", [*lines[:-2], lines[-1]], "no closing line before it"),
        ("more", [*lines, lines[1]], "after the signature"),
        ("joined", [*lines[:-1], lines[1]], "after the closing line"),
    ):
        found = verify(write(tmp_path / f"{name}.jsonl", b"".join(changed)), folder)
        assert not found.holds
        assert reason in found.to_text()


def test_a_byte_of_a_signature_cannot_change_unnoticed(signed: Path, folder: Path) -> None:
    content = signed.read_bytes()
    place = content.rindex(b'"signature":"') + len(b'"signature":"')
    write(signed, content[:place] + (b"0" if content[place : place + 1] != b"0" else b"1") + content[place + 1 :])
    assert "it has changed since it was written" in verify(signed, folder).to_text()


def test_only_ed25519_keys_in_pem_without_a_passphrase_are_taken(
    keys: tuple[Path, Path], folder: Path, content: bytes, documents: list[Document], tmp_path: Path
) -> None:
    private, public = keys
    elliptic = generate_private_key(SECP256R1()).private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())
    locked = Ed25519PrivateKey.generate().private_bytes(
        Encoding.PEM, PrivateFormat.PKCS8, BestAvailableEncryption(b"secret")
    )
    target = tmp_path / "none.jsonl"
    for key, reason in (
        (tmp_path / "missing.pem", "There is no file"),
        (public, "not an Ed25519 private key"),
        (write(tmp_path / "elliptic.pem", elliptic), "not an Ed25519 private key"),
        (write(tmp_path / "locked.pem", locked), "protected by a passphrase"),
        (write(tmp_path / "noise.pem", b"noise"), "openssl genpkey"),
    ):
        with pytest.raises(CertificateError, match=reason):
            certify(folder, documents, target, sign=key)
    assert not target.exists()
    file = write(tmp_path / "plain.jsonl", content)
    with pytest.raises(CertificateError, match="not an Ed25519 public key"):
        verify(file, folder, key=private)
