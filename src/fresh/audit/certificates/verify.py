"""Checks certificates: to the byte as they were written, and the answers those that the predictor gives."""

import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from fresh.audit.certificates.file import Fault, Faults, Reader
from fresh.audit.certificates.format import Certificate
from fresh.errors import CertificateError
from fresh.nn.encoder import digest_of
from fresh.persistence import digest_of_digests, find_predictor, load_predictor, predictor_digest, visible_files
from fresh.predictor import Predictor, rationale_text
from fresh.progress import SILENT, Progress
from fresh.rationale import Prediction
from fresh.rationalizer import find_model

TOLERANCE = 1e-5
"""How far a probability may be from the certified one, since other machines add up in another order."""
MOST_AT_ONCE = 4096
"""Answers that are computed together at most, whatever a file says."""

WAY_OUT = "Name the certificates that `fresh explain --certify` wrote."
MARKS = (b'"predictor_sha256"', b'"previous_sha256"')
"""Of these, one at least stands in the first line of certificates, also where a byte of it was changed."""

Numbered = tuple[int, Certificate]
"""A certificate and its line."""


@dataclass(frozen=True, slots=True)
class _Verification:
    """What was found out about a file of certificates."""

    count: int
    """Certificates whose answer was recomputed and holds."""
    n_exact: int
    """How many of these are equal to the bit."""
    furthest: float
    """The largest difference of a probability of the others."""
    digest: str | None
    """The digest of the closing line, which stands for the whole file; None if there is no such line."""
    faults: tuple[Fault, ...]
    """Lines that fail, and why: the first ten that were found."""
    n_faults: int

    @property
    def holds(self) -> bool:
        """Whether nothing is wrong."""
        return self.n_faults == 0

    def to_text(self) -> str:
        """Say it in words."""
        if self.holds:
            return f"{self.how_equal()}\nFinal digest: {self.digest}"
        told = [f"line {fault.line}: {fault.reason}" for fault in self.faults]
        more = [f"and {self.n_faults - len(told)} more."] if self.n_faults > len(told) else []
        return "\n".join([f"The certificates do not hold: {_plural(self.n_faults, 'fault')}.", *told, *more])

    def how_equal(self) -> str:
        """Say how the answers compare."""
        held = f"{_plural(self.count, 'certificate')}: all hold, and the predictor is the same."
        if self.n_exact == self.count:
            return f"{held} Every probability was recomputed, equal to the bit."
        return (
            f"{held} Every probability was recomputed: {self.n_exact} equal to the bit, the others within {TOLERANCE} "
            f"(furthest: {self.furthest:.1g}), as on another machine or with other texts beside them."
        )


def _plural(count: int, thing: str) -> str:
    """Count things."""
    return f"{count:,} {thing}{'s' if count != 1 else ''}"


@dataclass(slots=True)
class _Tally:
    """What is found out while a file is read."""

    faults: Faults = field(default_factory=Faults)
    count: int = 0
    n_exact: int = 0
    furthest: float = 0.0

    def verdict(self, digest: str | None) -> _Verification:
        """Put it together."""
        faults = self.faults
        return _Verification(self.count, self.n_exact, self.furthest, digest, tuple(sorted(faults.first)), faults.count)


def verify(
    path: str | Path,
    model: str | Path,
    *,
    digest: str | None = None,
    device: str = "auto",
    progress: Progress = SILENT,
) -> _Verification:
    """Check a file of certificates with the predictor of a model; nothing else of the model is needed.

    :param model: Folder of the model, of its predictor alone, or its name on the hub.
    :param digest: The predictor's digest as you know it from elsewhere; without it, a pair of a model and certificates
        that were both swapped for others is not found out.
    :param device: Where to compute: auto, cpu, cuda, ...
    """
    source = Path(path)
    _check_source(source)
    if digest is not None and re.fullmatch(r"[0-9a-fA-F]{64}", digest) is None:
        raise CertificateError(f"A digest is 64 hexadecimal digits, got {digest!r}. Take that of the predictor.")
    place = find_predictor(find_model(model, {}))
    own = predictor_digest(place)
    if digest is not None and digest.lower() != own:
        tally = _Tally()
        tally.faults.add(1, f"the model is not the expected one: the digest of its predictor is {own}.")
        return tally.verdict(None)
    found = _check(source, own, lambda: load_predictor(place, device), progress, place)
    if found.holds and not found.count:
        raise CertificateError(f"{source} holds no certificate, so that there is nothing to check.")
    return found


def _check_source(source: Path) -> None:
    """Refuse what is no file of certificates; a damaged one is."""
    if source.is_dir():
        raise CertificateError(f"{source} is a folder. Name the certificates first, then the model.")
    if not source.is_file():
        raise CertificateError(f"There is no file {source}. {WAY_OUT}")
    with source.open("rb") as file:
        first = file.readline()
    if not first.strip():
        raise CertificateError(f"{source} is no file of certificates: it is empty, or its first line is. {WAY_OUT}")
    if not any(mark in first for mark in MARKS):
        raise CertificateError(
            f"{source} is no file of certificates: its first line has none of their fields. {WAY_OUT}"
        )


def _check(
    source: Path,
    predictor_sha256: str,
    load: Callable[[], Predictor],
    progress: Progress = SILENT,
    place: Path | None = None,
) -> _Verification:
    """Check a file with a predictor, which is loaded only if the certificates are its own.

    :param place: The predictor's folder, to say more of one that does not fit.
    """
    tally = _Tally()
    with source.open("rb") as file, progress.task("verifying", _count_lines(source)) as advance:
        reader = Reader(file, tally.faults)
        maker = reader.read_header()
        if maker is not None and maker.predictor_sha256 != predictor_sha256:
            tally.faults.add(1, _other_predictor(maker.predictor_sha256, predictor_sha256, place))
        elif maker is not None:
            predictor = load()
            advance(1, "")
            for group in _grouped(reader):
                _recompute(group, predictor, tally)
                advance(len(group), "")
            advance(1, "")
    return tally.verdict(reader.digest)


def _other_predictor(certified: str, own: str, place: Path | None) -> str:
    """Say that a predictor is not the certified one, or which file makes it another."""
    digests = {} if place is None else {name: digest_of(place / name) for name in visible_files(place)}
    for stray in digests:
        if digest_of_digests({name: digest for name, digest in digests.items() if name != stray}) == certified:
            return f"the predictor is the certified one but for a file that was not there: {stray}. Take it out."
    return f"the certificates are of another predictor. Its digest is {certified}, that of this model {own}."


def _count_lines(source: Path) -> int:
    """Count the lines of a file."""
    with source.open("rb") as file:
        return sum(block.count(b"\n") for block in iter(lambda: file.read(1 << 20), b""))


def _grouped(certificates: Iterable[Numbered]) -> Iterator[list[Numbered]]:
    """Put certificates together whose answers were computed together."""
    group: list[Numbered] = []
    for line, certificate in certificates:
        if group and (certificate.group != group[0][1].group or len(group) == MOST_AT_ONCE):
            yield group
            group = []
        group.append((line, certificate))
    if group:
        yield group


def _recompute(group: Sequence[Numbered], predictor: Predictor, tally: _Tally) -> None:
    """Have the predictor answer again, and compare."""
    _, too_long = predictor.classifier.words.measure(
        [rationale_text(certificate.rationale) for _, certificate in group]
    )
    for number, problem in too_long.items():
        tally.faults.add(group[number][0], f"the predictor cannot read it. {problem}")
    readable = [item for number, item in enumerate(group) if number not in too_long]
    rationales = [certificate.rationale for _, certificate in readable]
    answers = zip(readable, predictor.token_ids(rationales), predictor.predict(rationales), strict=True)
    for (line, certificate), pieces, prediction in answers:
        reason = _fault_of(certificate, pieces, prediction)
        if reason is not None:
            tally.faults.add(line, reason)
            continue
        tally.count += 1
        tally.n_exact += prediction == certificate.prediction
        tally.furthest = max(tally.furthest, difference(prediction, certificate.prediction))


def _fault_of(certificate: Certificate, pieces: tuple[int, ...], prediction: Prediction) -> str | None:
    """Say what is wrong with a certificate, given what the predictor reads and answers."""
    certified = certificate.prediction
    if certificate.pieces != pieces:
        return "its pieces are not those that the predictor makes of its words and query."
    if tuple(certified.probabilities) != tuple(prediction.probabilities):
        return "its labels are not those of the predictor."
    apart = difference(prediction, certified)
    if apart > TOLERANCE:
        return f"its probabilities are {apart:.2g} from those that the predictor gives; at most {TOLERANCE} is allowed."
    if certified.label != prediction.label:
        return f"its label is {certified.label!r}, but the predictor answers {prediction.label!r}."
    return None


def difference(one: Prediction, other: Prediction) -> float:
    """Take the largest difference of two predictions with the same labels."""
    return max(abs(value - other.probabilities[label]) for label, value in one.probabilities.items())
