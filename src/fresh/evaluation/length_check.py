"""Documents that are too long for a network: found before any work is lost."""

from collections.abc import Iterable, Iterator, Sequence

from fresh.attribution.support_model import text_of
from fresh.data.splits import BadRows, Splits
from fresh.document import Document, Example
from fresh.errors import TooLongError
from fresh.nn.config import NetworkConfig
from fresh.nn.encoder import load_encoder
from fresh.nn.tokenizer import WordTokenizer
from fresh.progress import Progress
from fresh.rationalizer import Rationalizer
from fresh.selection.extractors import SaliencyExtractor
from fresh.selection.tagger import Tagger


def drop_too_long_splits(splits: Splits, config: NetworkConfig, skip_bad: bool, progress: Progress) -> Splits:
    """Refuse documents that are too long, or leave them out; say how much truncating leaves unread."""
    words = WordTokenizer(load_encoder(config.encoder, config.pooling), config.long, config.max_pieces)
    bad = BadRows() if skip_bad else None
    n_words, n_read = 0, 0
    parts: list[tuple[Example, ...]] = []
    for part in (splits.train, splits.dev, splits.test):
        read, problems = words.measure([text_of(example.document) for example in part])
        _note(problems.values(), bad)
        parts.append(tuple(example for number, example in enumerate(part) if number not in problems))
        n_words += sum(len(example.document.words) for example in parts[-1])
        n_read += int(read.sum() - sum(read[number] for number in problems))
    if bad is not None and bad.count:
        bad.total = sum(len(part) for part in (splits.train, splits.dev, splits.test))
        progress.say(bad.summary())
    if n_read < n_words:
        progress.say(
            f"Truncating leaves {(n_words - n_read) / n_words:.1%} of the words unread; long=stagger reads all."
        )
    return Splits(*parts)


def _note(problems: Iterable[TooLongError], bad: BadRows | None) -> None:
    """Count documents that are too long, or refuse the first if none may be left out."""
    for problem in problems:
        if bad is None:
            raise problem
        bad.add(str(problem))


def drop_too_long_examples(examples: Sequence[Example], model: Rationalizer, bad: BadRows) -> list[Example]:
    """Take the examples that a model can read, and count the others."""
    _, problems = reader_of(model).measure([text_of(example.document) for example in examples])
    _note(problems.values(), bad)
    return [example for number, example in enumerate(examples) if number not in problems]


def drop_too_long(documents: Iterator[Document], model: Rationalizer, bad: BadRows) -> Iterator[Document]:
    """Pass on the documents that a model can read, and count the others."""
    words = reader_of(model)
    for document in documents:
        _, problems = words.measure([text_of(document)])
        _note(problems.values(), bad)
        if not problems:
            yield document


def reader_of(model: Rationalizer) -> WordTokenizer:
    """Find what reads whole documents first: the support model, which may truncate, or else the predictor."""
    extractor = model.extractor
    if isinstance(extractor, SaliencyExtractor) and isinstance(extractor.scorer, Tagger):
        return extractor.scorer.network.tokenizer
    support = extractor.support if isinstance(extractor, SaliencyExtractor) else None
    return (support or model.predictor).classifier.tokenizer
