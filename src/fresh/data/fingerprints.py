"""Digests of data: of a whole data set, and of the texts that a model was trained on."""

import hashlib
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Self

import numpy as np
from numpy.typing import NDArray

from fresh.document import Document, Example

# With a million texts, a new text is taken for one of them less often than once in 10^13.
DIGEST_BYTES = 8


def dataset_digest(examples: Iterable[Example]) -> str:
    """Digest words, queries, labels and human rationales, in their order."""
    digest = hashlib.sha256()
    for example in examples:
        rationale = "" if example.human is None else repr(example.human.spans)
        words = (example.label, "", *example.document.words, "", *example.document.query, rationale, "\n")
        digest.update("\x00".join(words).encode("utf-8", "surrogatepass"))
    return digest.hexdigest()


@dataclass(frozen=True, slots=True, eq=False)
class TrainingFingerprints:
    """The texts of train and dev, each with its query, as sorted digests from which no text can be recovered."""

    digests: NDArray[np.uint64]

    @classmethod
    def from_documents(cls, documents: Iterable[Document]) -> Self:
        """Digest documents."""
        return cls(np.unique(_digest_documents(documents)))

    @classmethod
    def load(cls, path: Path) -> Self:
        """Read fingerprints from a file."""
        return cls(np.fromfile(path, dtype="<u8").astype(np.uint64))

    def save(self, path: Path) -> None:
        """Write fingerprints to a file, eight bytes a text."""
        self.digests.astype("<u8").tofile(path)

    def count(self, documents: Iterable[Document]) -> int:
        """Count the documents whose words and query are among the fingerprints."""
        return int(np.isin(_digest_documents(documents), self.digests).sum())


def _digest_documents(documents: Iterable[Document]) -> NDArray[np.uint64]:
    # Without white space and id, which differ between copies of a text.
    texts = ("\x00".join((*document.words, "", *document.query)) for document in documents)
    digests = (hashlib.sha256(text.encode("utf-8", "surrogatepass")).digest()[:DIGEST_BYTES] for text in texts)
    return np.frombuffer(b"".join(digests), dtype="<u8").astype(np.uint64)
