"""What the predicted probability loses without each word."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray

from fresh.attribution.support_model import SupportModel, text_of
from fresh.document import Document, Saliency
from fresh.nn.batch import TokenTable

WORDS_AT_ONCE = 2048
"""How many variants of documents are read at once."""


@dataclass(frozen=True, slots=True)
class Occlusion:
    """Probability of the predicted label with all words, less the probability without one (Zeiler and Fergus, 2014).

    Signed: above 0, the word raises the probability of the predicted label; below 0, it lowers it.
    """

    support: SupportModel

    def score(self, documents: Sequence[Document]) -> list[Saliency]:
        """Return one score per word, for the label that the support model predicts."""
        return [saliency for group in _group(documents) for saliency in self._score_group(group)]

    def _score_group(self, documents: Sequence[Document]) -> list[Saliency]:
        """Score some documents, reading all their variants together."""
        classifier = self.support.classifier
        texts = list(classifier.tokenizer([text_of(document) for document in documents]))
        variants = [classifier.tokenizer.variants(text, _leave_one_out(text.n_read)) for text in texts]
        table = classifier.probabilities_of(TokenTable.concatenate(variants))
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
        self.support.report(len(documents))
        return saliencies


def _leave_one_out(n_words: int) -> NDArray[np.bool_]:
    """Keep all words, and then all but one. Shape: (words + 1, words)."""
    return np.concatenate([np.ones((1, n_words), dtype=np.bool_), ~np.eye(n_words, dtype=np.bool_)])


def _group(documents: Sequence[Document]) -> Iterator[list[Document]]:
    """Group documents so that their variants fit into memory."""
    group: list[Document] = []
    for document in documents:
        if group and sum(len(item.words) for item in group) + len(document.words) > WORDS_AT_ONCE:
            yield group
            group = []
        group.append(document)
    if group:
        yield group
