"""What to know about documents before using them: too few or already seen ones, and ones too long to be read."""

from collections.abc import Iterator, Sequence

from fresh.attribution.support_model import text_of
from fresh.data import BadRows, Splits
from fresh.document import Document, Example
from fresh.nn.config import NetworkConfig
from fresh.nn.encoder import load_encoder
from fresh.nn.tokenizer import WordTokenizer
from fresh.progress import Progress
from fresh.rationalizer import Rationalizer
from fresh.selection.extractors import SaliencyExtractor
from fresh.selection.tagger import Tagger
from fresh.text import plural

# With fewer documents, intervals are too wide to say much, and not wide enough.
MIN_DOCUMENTS = 30


def data_warnings(model: Rationalizer, examples: Sequence[Example]) -> tuple[str, ...]:
    """Warn of documents that are few, of one class, known from training, or not annotated."""
    warnings, labels = [*training_warnings(model, examples)], {example.label for example in examples}
    if len(labels) == 1:
        warnings.append(
            f"All documents have the label {labels.pop()!r}: macro-F1 counts a class without documents as 0, and "
            "nothing here shows how often other labels are predicted wrongly. Evaluate on documents of all classes."
        )
    if len(examples) < MIN_DOCUMENTS:
        warnings.append(
            f"Only {plural(len(examples), 'document')}: below {MIN_DOCUMENTS}, a single prediction moves every figure, "
            "and intervals are rough."
        )
    marked = [bool(example.human.kept.any()) for example in examples if example.human is not None]
    n_empty = len(marked) - sum(marked)
    if 0 < n_empty < len(marked):
        warnings.append(
            f"{n_empty:,} of {len(marked):,} human rationales are empty: every word that the model selects there "
            "counts against it. Where nobody annotated a document, use null instead of an empty rationale."
        )
    return tuple(warnings)


def training_warnings(model: Rationalizer, examples: Sequence[Example]) -> Iterator[str]:
    """Warn of documents that the model was trained with."""
    n_seen = 0 if model.fingerprints is None else model.fingerprints.count(example.document for example in examples)
    if n_seen:
        seen = f"{n_seen:,} of {len(examples):,} documents were in the training data of the model (train or dev)"
        yield f"{seen}, so the figures are too good. Evaluate on documents that are new to the model."


def document_tokenizer(model: Rationalizer) -> WordTokenizer:
    """Return the tokenizer of what reads whole documents: the support model, which may truncate, or the predictor."""
    extractor = model.extractor
    if isinstance(extractor, SaliencyExtractor) and isinstance(extractor.scorer, Tagger):
        return extractor.scorer.network.tokenizer
    support = extractor.support if isinstance(extractor, SaliencyExtractor) else None
    return (support or model.predictor).classifier.tokenizer


def drop_too_long_splits(splits: Splits, config: NetworkConfig, skip_bad: bool, progress: Progress) -> Splits:
    """Refuse documents that are too long, or leave them out; say which share of the words truncation leaves unread."""
    tokenizer = WordTokenizer(load_encoder(config.encoder, config.pooling), config.long, config.max_pieces)
    bad = BadRows() if skip_bad else None
    n_words = n_read = 0
    parts: list[tuple[Example, ...]] = []
    for part in (splits.train, splits.dev, splits.test):
        read, problems = tokenizer.measure([text_of(example.document) for example in part])
        for problem in problems.values():
            if bad is None:
                raise problem
            bad.add(str(problem))
        parts.append(tuple(example for number, example in enumerate(part) if number not in problems))
        n_words += sum(len(example.document.words) for example in parts[-1])
        n_read += int(read.sum() - sum(read[number] for number in problems))
    if bad is not None and bad.count:
        bad.total = sum(len(part) for part in (splits.train, splits.dev, splits.test))
        progress.say(bad.summary())
    if n_read < n_words:
        share = (n_words - n_read) / n_words
        progress.say(f"Truncation leaves {share:.1%} of the words unread. To read them all, set long=stagger.")
    return Splits(*parts)


def drop_too_long_examples(examples: Sequence[Example], model: Rationalizer, bad: BadRows) -> list[Example]:
    """Return the examples that a model can read, and count the others."""
    _, problems = document_tokenizer(model).measure([text_of(example.document) for example in examples])
    for problem in problems.values():
        bad.add(str(problem))
    return [example for number, example in enumerate(examples) if number not in problems]


def drop_too_long(documents: Iterator[Document], model: Rationalizer, bad: BadRows) -> Iterator[Document]:
    """Yield the documents that a model can read, and count the others."""
    tokenizer = document_tokenizer(model)
    for document in documents:
        _, problems = tokenizer.measure([text_of(document)])
        if problems:
            bad.add(str(problems[0]))
        else:
            yield document
