"""What the answer loses without each word."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray

from fresh.attribution.support_model import SupportModel, text_of
from fresh.document import Document, Saliency
from fresh.nn.batch import join_tables

WORDS_AT_ONCE = 2048
"""How many variants of documents are read in one go."""


@dataclass(frozen=True, slots=True)
class Occlusion:
    """Probability of the predicted label with all words, less the probability without one (Zeiler and Fergus, 2014).

    Signed: above 0, the word raises the probability of the predicted label; below 0, it lowers it.
    """

    support: SupportModel

    def score(self, documents: Sequence[Document]) -> list[Saliency]:
        """Return one score a word, for the label the support model predicts."""
        return [saliency for group in _grouped(documents) for saliency in self.score_group(group)]

    def score_group(self, documents: Sequence[Document]) -> list[Saliency]:
        """Read some documents and all their variants together."""
        words = self.support.classifier.words
        texts = list(words([text_of(document) for document in documents]))
        variants = [words.variants(text, _whole_and_without_each(text.n_read)) for text in texts]
        table = self.support.classifier.probabilities_of(join_tables(variants))
        ends = np.cumsum([len(part) for part in variants])
        saliencies: list[Saliency] = []
        for document, rows in zip(documents, np.split(table, ends[:-1]), strict=True):
            target = int(self.support.targets(torch.from_numpy(rows[:1])))
            lost = rows[0, target] - rows[1:, target]
            # Equal words side by side tie: without either, the text is the same. Rows of a batch differ in last digits.
            for place in range(1, len(lost)):
                if document.words[place] == document.words[place - 1]:
                    lost[place] = lost[place - 1]
            saliencies.append(self.support.saliency(document, lost, target))
        self.support.tell(len(documents))
        return saliencies


def _whole_and_without_each(n_words: int) -> NDArray[np.bool_]:
    """Keep all words, and then leave out one after the other. Shape: (words + 1, words)."""
    return np.concatenate([np.ones((1, n_words), dtype=np.bool_), ~np.eye(n_words, dtype=np.bool_)])


def _grouped(documents: Sequence[Document]) -> Iterator[list[Document]]:
    """Group documents so that their variants fit into memory."""
    group: list[Document] = []
    for document in documents:
        if group and sum(len(item.words) for item in group) + len(document.words) > WORDS_AT_ONCE:
            yield group
            group = []
        group.append(document)
    if group:
        yield group
