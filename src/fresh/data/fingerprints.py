"""Which texts a model was trained with, told by short digests from which no text can be read back."""

import hashlib
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Self

import numpy as np
from numpy.typing import NDArray

from fresh.document import Document

SIZE = 8
"""Bytes a text: beside a million texts, a new one is taken for one of them less often than once in 10^13."""


@dataclass(frozen=True, slots=True, eq=False)
class TrainingFingerprints:
    """The texts of train and dev, each with its query, as digests in order."""

    digests: NDArray[np.uint64]

    @classmethod
    def of(cls, documents: Iterable[Document]) -> Self:
        """Take note of documents."""
        return cls(np.unique(_digests_of(documents)))

    @classmethod
    def load(cls, path: Path) -> Self:
        """Read it back."""
        return cls(np.fromfile(path, dtype="<u8").astype(np.uint64))

    def save(self, path: Path) -> None:
        """Write it down, eight bytes a text."""
        self.digests.astype("<u8").tofile(path)

    def count(self, documents: Iterable[Document]) -> int:
        """Count the documents whose words and query are those of one that was seen."""
        return int(np.isin(_digests_of(documents), self.digests).sum())


def _digests_of(documents: Iterable[Document]) -> NDArray[np.uint64]:
    """Digest the words and the query of each document; neither white space nor the id matters."""
    found = (hashlib.sha256(_written(document)).digest()[:SIZE] for document in documents)
    return np.frombuffer(b"".join(found), dtype="<u8").astype(np.uint64)


def _written(document: Document) -> bytes:
    """Write words and query down in one way."""
    return "\x00".join((*document.words, "", *document.query)).encode("utf-8", "surrogatepass")
