"""Documents that are too long for a network: found before any work is lost."""

from collections.abc import Iterator

from fresh.classifier import NetworkConfig
from fresh.data import BadRows, Splits
from fresh.document import Document, Example
from fresh.encoder import load_encoder
from fresh.encoding import TooLongError, WordEncoder
from fresh.extractor import SaliencyExtractor
from fresh.progress import Progress
from fresh.rationalizer import Rationalizer
from fresh.support import text_of


def fitting(splits: Splits, config: NetworkConfig, skip_bad: bool, progress: Progress) -> Splits:
    """Refuse documents that are too long, or leave them out; say how much truncating leaves unread."""
    words = WordEncoder(load_encoder(config.encoder, config.pooling), config.long, config.max_pieces)
    bad = BadRows() if skip_bad else None
    n_words, n_read = 0, 0
    parts: list[tuple[Example, ...]] = []
    for part in (splits.train, splits.dev, splits.test):
        kept: list[Example] = []
        for example in part:
            found = count_read(example.document, words, bad)
            if found is not None:
                kept.append(example)
                n_words += len(example.document.words)
                n_read += found
        parts.append(tuple(kept))
    if bad is not None and bad.count:
        bad.total = sum(len(part) for part in (splits.train, splits.dev, splits.test))
        progress.say(bad.summary())
    if n_read < n_words:
        progress.say(
            f"Truncating leaves {(n_words - n_read) / n_words:.1%} of the words unread; long=stagger reads all."
        )
    return Splits(*parts)


def count_read(document: Document, words: WordEncoder, bad: BadRows | None) -> int | None:
    """Count the words of a document that will be read; None if it is too long and is left out."""
    try:
        [pieces] = words([text_of(document)])
    except TooLongError as error:
        if bad is None:
            raise
        bad.add(str(error))
        return None
    return pieces.n_read


def leave_out_too_long(documents: Iterator[Document], model: Rationalizer, bad: BadRows) -> Iterator[Document]:
    """Pass on the documents that a model can read, and count the others."""
    words = reader_of(model)
    for document in documents:
        if count_read(document, words, bad) is not None:
            yield document


def reader_of(model: Rationalizer) -> WordEncoder:
    """Find what reads whole documents first: the support model, which may truncate, or else the predictor."""
    extractor = model.extractor
    support = extractor.support if isinstance(extractor, SaliencyExtractor) else None
    return (support or model.predictor).classifier.words
