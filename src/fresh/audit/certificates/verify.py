"""Verifies certificates: byte for byte as they were written, with the predictions that the predictor makes."""

import re
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import groupby, islice
from pathlib import Path

from fresh.audit.certificates.format import Certificate, Fault, Reader
from fresh.audit.certificates.signature import read_public_key
from fresh.audit.replay import distance
from fresh.errors import CertificateError
from fresh.nn.encoder import digest_of
from fresh.persistence import digest_of_digests, find_predictor, load_predictor, predictor_digest, visible_files
from fresh.predictor import Predictor, rationale_text
from fresh.progress import SILENT, Progress
from fresh.rationalizer import find_model
from fresh.text import plural

# How far a probability may be from the certified one. Other machines add up in another order: with two threads instead
# of one, probabilities were at most 1e-8 apart (1,821 sentences of SST).
TOLERANCE = 1e-5
# Predictions that are computed in one batch at most, whatever a file says.
MAX_GROUP_SIZE = 4096
# Faults that are kept; the others are counted.
MAX_FAULTS = 10
HINT = "Name the certificates that `fresh explain --certify` wrote."
# At least one of these is in the first line of certificates, even if one of its bytes was changed.
MARKS = (b'"predictor_sha256"', b'"previous_sha256"')


@dataclass(slots=True)
class Verification:
    """What was found out about a file of certificates."""

    count: int = 0
    """Certificates whose prediction was recomputed and holds."""
    n_exact: int = 0
    """How many of these are equal to the bit."""
    max_difference: float = 0.0
    """The largest difference of a probability of the others."""
    digest: str | None = None
    """The digest of the closing line, which stands for the whole file; None if there is no such line."""
    faults: tuple[Fault, ...] = ()
    """Lines that fail, and why: the first ten that were found."""
    n_faults: int = 0
    signed_by: str | None = None
    """The public key of the signature, as the file says it; None if there is no signature."""
    is_signature_verified: bool = False
    """Whether a key was given that the signature must be by."""

    def add_fault(self, line: int, reason: str) -> None:
        """Count a fault, and keep it if it is one of the first."""
        self.n_faults += 1
        if len(self.faults) < MAX_FAULTS:
            self.faults = tuple(sorted((*self.faults, Fault(line, reason))))

    @property
    def holds(self) -> bool:
        """Whether nothing is wrong."""
        return self.n_faults == 0

    def to_text(self) -> str:
        """Return the result in words."""
        if not self.holds:
            lines = [f"The certificates do not hold: {plural(self.n_faults, 'fault')}."]
            lines += [f"line {line}: {reason}" for line, reason in self.faults]
            if self.n_faults > len(self.faults):
                lines.append(f"and {self.n_faults - len(self.faults)} more.")
            return "\n".join(lines)
        recomputed = "Every probability was recomputed, equal to the bit."
        if self.n_exact != self.count:
            recomputed = (
                f"Every probability was recomputed: {self.n_exact} equal to the bit, the others within {TOLERANCE} (at "
                f"most {self.max_difference:.1g} apart), as on another machine or in other batches."
            )
        held = f"{plural(self.count, 'certificate')}: all hold, and the predictor is the same."
        lines = [f"{held} {recomputed}", f"Final digest: {self.digest}"]
        if self.is_signature_verified:
            lines.append("Signed by the owner of the given key.")
        elif self.signed_by is not None:
            lines.append("There is a signature, which was not verified: that needs the signer's public key.")
        return "\n".join(lines)


def verify(
    path: str | Path,
    model: str | Path,
    *,
    digest: str | None = None,
    key: str | Path | None = None,
    device: str = "auto",
    progress: Progress = SILENT,
) -> Verification:
    """Verify a file of certificates with the predictor of a model; nothing else of the model is needed.

    :param model: Folder of the model, or of its predictor alone, or its name on the hub.
    :param digest: The digest of the predictor as you know it from elsewhere. Without it, model and certificates that
        were both replaced by another pair pass.
    :param key: File with the Ed25519 public key (PEM) of who must have signed the certificates. Without it, a signature
        is reported but not verified.
    :param device: Where to compute: auto, cpu, cuda, ...
    """
    source = Path(path)
    _check_source(source, digest)
    # The predictor alone: its half of the folder is enough, and no extractor can influence the result.
    folder = find_predictor(find_model(model, {}))
    own, found, public_key = predictor_digest(folder), Verification(), None if key is None else read_public_key(key)
    if digest is not None and digest.lower() != own:
        found.add_fault(1, f"the model is not the expected one: the digest of its predictor is {own}.")
        return found
    with source.open("rb") as file:
        n_lines = sum(block.count(b"\n") for block in iter(lambda: file.read(1 << 20), b""))
    with source.open("rb") as file, progress.task("verifying", n_lines) as advance:
        reader = Reader(file, found.add_fault)
        maker = reader.read_header()
        if maker is not None and maker.predictor_sha256 != own:
            found.add_fault(1, _mismatch(maker.predictor_sha256, own, folder))
        elif maker is not None:
            predictor = load_predictor(folder, device)
            advance(1, "")
            for _, group in groupby(reader, key=lambda numbered: numbered[1].group):
                while batch := list(islice(group, MAX_GROUP_SIZE)):
                    _recompute(batch, predictor, found)
                    advance(len(batch), "")
            advance(1 + (reader.signature is not None), "")
    found.digest = reader.digest
    found.signed_by = None if reader.signature is None else reader.signature.public_key
    if public_key is not None and found.holds:  # else the signature may not have been read
        found.is_signature_verified = True
        if reader.signature is None:
            found.add_fault(n_lines, "the file is not signed, but a key was given.")
        elif not reader.signature.holds(public_key, reader.digest or ""):
            found.add_fault(n_lines, f"it is not a signature of this file by the owner of {key}.")
    if found.holds and not found.count:
        raise CertificateError(f"{source} holds no certificates: there is nothing to verify.")
    return found


def _check_source(source: Path, digest: str | None) -> None:
    """Refuse a file of something else, or no digest; a damaged file of certificates is not refused."""
    if digest is not None and re.fullmatch(r"[0-9a-fA-F]{64}", digest) is None:
        raise CertificateError(f"digest must have 64 hexadecimal digits, got {digest!r}. Give that of the predictor.")
    if source.is_dir():
        raise CertificateError(f"{source} is a folder. Name the certificates first, then the model.")
    if not source.is_file():
        raise CertificateError(f"There is no file {source}. {HINT}")
    with source.open("rb") as file:
        first = file.readline()
    if not first.strip():
        raise CertificateError(f"{source} does not hold certificates: it is empty, or its first line is. {HINT}")
    if not any(mark in first for mark in MARKS):
        raise CertificateError(f"{source} does not hold certificates: its first line has none of their fields. {HINT}")


def _mismatch(certified: str, own: str, folder: Path) -> str:
    """Say that a predictor is not the certified one, or which file makes it another."""
    digests = {name: digest_of(folder / name) for name in visible_files(folder)}
    # One file more, such as the notes of an editor, is common and easy to remove.
    for stray in digests:
        if digest_of_digests({name: digest for name, digest in digests.items() if name != stray}) == certified:
            return f"the predictor is the certified one except for a file that was added: {stray}. Take it out."
    return f"the certificates are of another predictor. Its digest is {certified}, that of this model {own}."


def _recompute(batch: Sequence[tuple[int, Certificate]], predictor: Predictor, found: Verification) -> None:
    """Have the predictor predict again what certificates say, and compare.

    :param batch: The line of each certificate, and the certificate.
    """
    _, too_long = predictor.classifier.tokenizer.measure([rationale_text(item.rationale) for _, item in batch])
    for number, problem in too_long.items():
        found.add_fault(batch[number][0], f"the predictor cannot read it. {problem}")
    readable = [numbered for number, numbered in enumerate(batch) if number not in too_long]
    rationales = [certificate.rationale for _, certificate in readable]
    answers = zip(readable, predictor.token_ids(rationales), predictor.predict(rationales), strict=True)
    for (line, certificate), token_ids, prediction in answers:
        certified, apart = certificate.prediction, distance(prediction, certificate.prediction)
        if certificate.token_ids != token_ids:
            found.add_fault(line, "its pieces are not those that the predictor makes of its words and query.")
        elif tuple(certified.probabilities) != tuple(prediction.probabilities):
            found.add_fault(line, "its labels are not those of the predictor.")
        elif not apart <= TOLERANCE:  # so that NaN fails too
            reason = f"its probabilities are {apart:.2g} from those that the predictor gives"
            found.add_fault(line, f"{reason}; at most {TOLERANCE} is allowed.")
        elif certified.label != (label := prediction.label):
            found.add_fault(line, f"its label is {certified.label!r}, but the predictor predicts {label!r}.")
        else:
            found.count += 1
            found.n_exact += prediction == certified
            found.max_difference = max(found.max_difference, apart)
