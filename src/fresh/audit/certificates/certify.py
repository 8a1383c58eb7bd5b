"""Explains documents and certifies each answer; the file is there only when it is whole."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any

import fresh
from fresh._io import FIRST_DIGEST, atomic_write, hashed_line
from fresh.attribution.registry import ScorerFactory
from fresh.audit.certificates.format import Certificate, Maker
from fresh.document import Document, Explanation
from fresh.errors import CertificateError
from fresh.persistence import find_predictor, predictor_digest
from fresh.progress import SILENT, Progress
from fresh.rationalizer import BATCH_SIZE, Rationalizer, find_model


@dataclass(frozen=True, slots=True)
class _Certified:
    """What was written."""

    count: int
    digest: str
    """The digest of the closing line, which stands for the whole file."""


class _Certifier:
    """Writes a line for each answer that a model gives."""

    def __init__(self, model: Rationalizer, maker: Maker, file: IO[bytes], target: Path) -> None:
        """Begin a file.

        :param target: Where the file will be when it is whole.
        """
        self.model = model
        self.maker = maker
        self.file = file
        self.target = target
        self.count = 0
        self.n_groups = 0
        self.digest = FIRST_DIGEST
        """Of the last line that was written; after the closing line, of the whole file."""
        self.write(maker.record("header"))

    def write(self, record: Mapping[str, Any]) -> None:
        """Write a line."""
        line, self.digest = hashed_line(record, self.digest)
        self.file.write(line)

    def explain(self, documents: Iterable[Document], ratio: float | None = None) -> Iterator[Explanation]:
        """Explain documents as they come, some at a time; each is certified before it is given.

        :param ratio: Share of the words to read, if the model was trained for a range of them.
        """
        first = self.n_groups
        explanations = self.model.explain_stream(iter(documents), BATCH_SIZE, ratio)
        for number, explanation in enumerate(explanations):
            if self.count == 0:  # else a run that is broken off would leave the file of another
                self.target.unlink(missing_ok=True)
            rationale, group = explanation.rationale, first + number // BATCH_SIZE
            [pieces] = self.model.predictor.token_ids([rationale])
            certificate = Certificate(rationale, pieces, explanation.prediction, group)
            self.write(certificate.record(self.maker))
            self.count, self.n_groups = self.count + 1, group + 1
            yield explanation

    def close(self) -> None:
        """Write the closing line."""
        self.write(self.maker.record("closing") | {"count": self.count})


@contextmanager
def certifying(
    model: str | Path,
    path: str | Path,
    *,
    device: str = "auto",
    scorer: ScorerFactory | None = None,
    overwrite: bool = False,
) -> Iterator[_Certifier]:
    """Have a saved model explain documents with certificates; their file appears when the block ends well.

    :param model: Folder of the model, or its name on the hub; a model that is not saved cannot be verified.
    :param path: File for the certificates.
    :param device: Where to compute: auto, cpu, cuda, ...
    :param scorer: Makes the scorer, if the model was trained with one of your own.
    :param overwrite: Replace a file that is there already; it goes when the first answer is certified.
    """
    target = Path(path)
    _check_target(target, overwrite)
    folder = find_model(model, {})
    loaded = Rationalizer.from_pretrained(folder, device=device, scorer=scorer)
    maker = Maker(predictor_digest(find_predictor(folder)), fresh.__version__)
    with atomic_write(target) as place, place.open("wb") as file:
        certifier = _Certifier(loaded, maker, file, target)
        yield certifier
        certifier.close()


def certificates_of(maker: Maker, certificates: Sequence[Certificate]) -> bytes:
    """Write a whole file of certificates in memory."""
    records = [certificate.record(maker) for certificate in certificates]
    closing = maker.record("closing") | {"count": len(certificates)}
    written, digest = b"", FIRST_DIGEST
    for record in (maker.record("header"), *records, closing):
        line, digest = hashed_line(record, digest)
        written += line
    return written


def _check_target(target: Path, overwrite: bool) -> None:
    """Refuse a place that cannot be written to, and to replace a file unless asked to."""
    if not target.parent.is_dir():
        raise CertificateError(f"There is no folder {target.parent} to write to. Make it first.")
    if target.is_dir():
        raise CertificateError(f"{target} is a folder. Choose a file for the certificates.")
    if target.exists() and not overwrite:
        raise CertificateError(f"{target} is there already. Choose another file, or replace it: overwrite=True.")


def certify(
    model: str | Path,
    documents: Iterable[Document],
    path: str | Path,
    *,
    ratio: float | None = None,
    device: str = "auto",
    overwrite: bool = False,
    progress: Progress = SILENT,
) -> _Certified:
    """Explain documents and write a certificate for each answer; for the explanations too, see certifying.

    :param model: Folder of a saved model, or its name on the hub.
    :param path: File for the certificates; it appears when all are written.
    :param ratio: Share of the words to read, if the model was trained for a range of them.
    :param overwrite: Replace a file that is there already.
    """
    with (
        certifying(model, path, device=device, overwrite=overwrite) as certifier,
        progress.task("certifying", None) as advance,
    ):
        for _ in certifier.explain(documents, ratio):
            advance(1, "")
    return _Certified(certifier.count, certifier.digest)
