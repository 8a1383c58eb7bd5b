"""Ed25519 signatures: who vouches for a file of certificates."""

import re
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

from fresh._optional import optional_import
from fresh.errors import CertificateError

# Signed together with the digest, so that a signature made for another purpose is none of certificates.
_PURPOSE = b"fresh certificates\n"


class Signature(NamedTuple):
    """A signature of the digest that stands for a whole file. Both fields are hexadecimal."""

    public_key: str
    signature: str

    def holds(self, public_key: str, digest: str) -> bool:
        """Whether the owner of a public key signed this digest."""
        # `fromhex` would take other spellings too, so a byte of the file could change unnoticed.
        if self.public_key != public_key or re.fullmatch("[0-9a-f]{128}", self.signature) is None:
            return False
        ed25519 = _cryptography("hazmat.primitives.asymmetric.ed25519")
        try:
            key = ed25519.Ed25519PublicKey.from_public_bytes(bytes.fromhex(public_key))
            key.verify(bytes.fromhex(self.signature), _message(digest))
        except (ValueError, _cryptography("exceptions").InvalidSignature):
            return False
        return True


def make_signer(path: str | Path) -> Callable[[str], Signature]:
    """Read a private key, and return the function that signs a digest with it."""
    key = _read_key(path, "private")
    public_key = key.public_key().public_bytes_raw().hex()
    return lambda digest: Signature(public_key, key.sign(_message(digest)).hex())


def read_public_key(path: str | Path) -> str:
    """Read a public key, as hexadecimal."""
    return str(_read_key(path, "public").public_bytes_raw().hex())


def _read_key(path: str | Path, kind: str) -> Any:
    if not Path(path).is_file():
        raise CertificateError(f"There is no file {path}. Name a file with an Ed25519 {kind} key.")
    serialization, ed25519 = map(
        _cryptography, ("hazmat.primitives.serialization", "hazmat.primitives.asymmetric.ed25519")
    )
    content = Path(path).read_bytes()
    try:
        key = (
            serialization.load_pem_private_key(content, password=None)
            if kind == "private"
            else serialization.load_pem_public_key(content)
        )
    except TypeError as error:
        raise CertificateError(f"{path} is protected by a passphrase. Give a key without one.") from error
    except (ValueError, _cryptography("exceptions").UnsupportedAlgorithm):
        key = None
    wanted = {"private": ed25519.Ed25519PrivateKey, "public": ed25519.Ed25519PublicKey}[kind]
    if not isinstance(key, wanted):
        make = {"private": "genpkey -algorithm ed25519 -out key.pem", "public": "pkey -in key.pem -pubout"}[kind]
        raise CertificateError(f"{path} is not an Ed25519 {kind} key in PEM format. Make one: openssl {make}")
    return key


def _message(digest: str) -> bytes:
    return _PURPOSE + digest.encode("ascii")


def _cryptography(module: str) -> Any:
    return optional_import(f"cryptography.{module}", "sign", "A signature of certificates")
