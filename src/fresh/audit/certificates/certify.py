"""Explains documents and certifies each prediction; the file appears only when it is complete."""

from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any

import fresh
from fresh._io import atomic_write, check_output
from fresh.attribution import ScorerFactory
from fresh.audit.certificates.format import Certificate, Maker, Writer
from fresh.audit.certificates.signature import make_signer
from fresh.document import Document, Explanation
from fresh.persistence import find_predictor, predictor_digest
from fresh.progress import SILENT, Progress
from fresh.rationalizer import BATCH_SIZE, Rationalizer, find_model


@dataclass(frozen=True, slots=True)
class CertifyResult:
    """What was written."""

    count: int
    digest: str
    """The digest of the closing line, which stands for the whole file."""


class Certifier(Writer):
    """Explains documents, and writes a line for each prediction."""

    def __init__(self, model: Rationalizer, maker: Maker, file: IO[bytes], target: Path) -> None:
        """Write the header.

        :param target: The path of the file when it is complete.
        """
        super().__init__(file, maker)
        self.model = model
        self._target = target
        self._n_groups = 0

    def explain(self, documents: Iterable[Document], ratio: float | None = None) -> Iterator[Explanation]:
        """Explain documents one batch after the other; each explanation is certified before it is yielded.

        :param ratio: Share of the words to read, if the model was trained for a range of them.
        """
        first = self._n_groups
        explanations = self.model.explain_stream(iter(documents), BATCH_SIZE, ratio)
        for number, explanation in enumerate(explanations):
            if self.count == 0:
                # Otherwise, an interrupted run would leave the file of an earlier one, which looks like its own.
                self._target.unlink(missing_ok=True)
            rationale, group = explanation.rationale, first + number // BATCH_SIZE
            [token_ids] = self.model.predictor.token_ids([rationale])
            self.add(Certificate(rationale, token_ids, explanation.prediction, group))
            self._n_groups = group + 1
            yield explanation


@contextmanager
def certifying(
    model: str | Path,
    path: str | Path,
    *,
    device: str = "auto",
    scorer: ScorerFactory | None = None,
    overwrite: bool = False,
    sign: str | Path | None = None,
) -> Iterator[Certifier]:
    """Have a saved model explain documents with certificates; their file appears when the block ends without an error.

    :param model: Folder of the model, or its name on the hub; a model that is not saved cannot be verified.
    :param path: File for the certificates.
    :param device: Where to compute: auto, cpu, cuda, ...
    :param scorer: Makes the scorer, if the model was trained with a custom one.
    :param overwrite: Replace an existing file; it is deleted when the first prediction is certified.
    :param sign: File with the Ed25519 private key (PEM) to sign the certificates with.
    """
    target = Path(path)
    signer = None if sign is None else make_signer(sign)
    check_output(target, overwrite=overwrite)
    folder = find_model(model, {})
    loaded = Rationalizer.from_pretrained(folder, device=device, scorer=scorer)
    maker = Maker(predictor_digest(find_predictor(folder)), fresh.__version__)
    with atomic_write(target) as partial, partial.open("wb") as file:
        certifier = Certifier(loaded, maker, file, target)
        yield certifier
        certifier.close(signer)


def certify(
    model: str | Path,
    documents: Iterable[Document],
    path: str | Path,
    *,
    ratio: float | None = None,
    progress: Progress = SILENT,
    **options: Any,
) -> CertifyResult:
    """Explain documents and write a certificate for each prediction; to get the explanations too, use certifying.

    :param model: Folder of a saved model, or its name on the hub.
    :param path: File for the certificates; it appears when all are written.
    :param ratio: Share of the words to read, if the model was trained for a range of them.
    :param options: Options of :func:`certifying`: device, scorer, overwrite, sign.
    """
    with (
        certifying(model, path, **options) as certifier,
        progress.task("certifying", None) as advance,
    ):
        for _ in certifier.explain(documents, ratio):
            advance(1, "")
    return CertifyResult(certifier.count, certifier.digest)
