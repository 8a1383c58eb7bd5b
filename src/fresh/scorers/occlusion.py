"""What the answer loses without each word."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from fresh.document import Document, Saliency
from fresh.encoding import Text
from fresh.support import Support, text_of

WORDS_AT_ONCE = 2048
"""How many variants of documents are read in one go."""


@dataclass(frozen=True, slots=True)
class Occlusion:
    """Probability of the predicted label with all words, less the probability without one (Zeiler and Fergus, 2014).

    Signed: above 0, the word raises the probability of the predicted label; below 0, it lowers it.
    """

    support: Support

    def score(self, documents: Sequence[Document]) -> list[Saliency]:
        """Return one score a word, for the label the support model predicts."""
        return [saliency for group in grouped(documents) for saliency in self.score_group(group)]

    def score_group(self, documents: Sequence[Document]) -> list[Saliency]:
        """Read some documents and all their variants together."""
        texts = read_part(self.support, documents)
        variants = [variant for text in texts for variant in (text, *without_each_word(text))]
        table = self.support.classifier.probabilities(variants)
        ends = np.cumsum([len(text.words) + 1 for text in texts])
        saliencies: list[Saliency] = []
        for document, rows in zip(documents, np.split(table, ends[:-1]), strict=True):
            target = int(rows[0].argmax())
            saliencies.append(self.support.saliency(document, rows[0, target] - rows[1:, target], target))
        return saliencies


def without_each_word(text: Text) -> Iterator[Text]:
    """Leave out one word after the other."""
    for place in range(len(text.words)):
        yield text._replace(words=text.words[:place] + text.words[place + 1 :])


def read_part(support: Support, documents: Sequence[Document]) -> list[Text]:
    """Take of each document the words that the support model reads: all, unless truncating was asked for."""
    texts = [text_of(document) for document in documents]
    pieces = support.classifier.words(texts)
    return [text._replace(words=text.words[: piece.n_read]) for text, piece in zip(texts, pieces, strict=True)]


def grouped(documents: Sequence[Document]) -> Iterator[list[Document]]:
    """Group documents so that their variants fit into memory."""
    group: list[Document] = []
    for document in documents:
        if group and sum(len(item.words) for item in group) + len(document.words) > WORDS_AT_ONCE:
            yield group
            group = []
        group.append(document)
    if group:
        yield group
