"""What to know about documents before using them: too few or already seen ones, and ones too long to be read."""

import math
from collections import Counter
from collections.abc import Iterator, Sequence
from statistics import median

from fresh.attribution.support_model import text_of
from fresh.data import BadRows, Splits
from fresh.document import Document, Example
from fresh.methods.config import RATIO_DISCRETIZERS, CutConfig
from fresh.nn.config import NetworkConfig
from fresh.nn.encoder import load_encoder
from fresh.nn.tokenizer import WordTokenizer
from fresh.progress import Progress
from fresh.rationalizer import Rationalizer
from fresh.selection.discretizers import budget
from fresh.selection.extractors import SaliencyExtractor
from fresh.selection.tagger import Tagger
from fresh.text import plural
from fresh.training.config import ClassifierConfig

# With fewer documents, intervals are too wide to say much, and not wide enough.
MIN_DOCUMENTS = 30
MIN_OF_LABEL = 10
# Questions of ten words: a rationale of two words had macro-F1 .766, where full text had .933.
MIN_WORDS = 5


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


def corpus_warnings(splits: Splits, config: ClassifierConfig) -> Iterator[str]:
    """Warn before training of labels with few documents, and of rationales that would be too short."""
    counts = Counter(example.label for example in splits.train)
    rare = {label: n for label, n in sorted(counts.items(), key=lambda item: item[1]) if n < MIN_OF_LABEL}
    if rare:
        named = ", ".join(f"{label} ({n})" for label, n in list(rare.items())[:5])
        yield (
            f"Few training documents have the label {named}: a model can hardly learn a label from fewer than "
            f"{MIN_OF_LABEL}. Add some, merge labels, or try class_weight=balanced."
        )
    if isinstance(config, CutConfig) and config.ratios is None and config.discretizer in RATIO_DISCRETIZERS:
        n_words = int(median(len(example.document.words) for example in splits.train))
        n_kept, enough = budget(n_words, config.one_ratio), math.ceil(MIN_WORDS / n_words * 10) / 10
        if n_kept < MIN_WORDS - 1 and enough < 1:
            yield (
                f"Half of the training documents have {n_words} words or fewer, so their rationales have at most "
                f"{plural(n_kept, 'word')} with ratio={config.one_ratio:g}. Better for short texts: ratio={enough:g}."
            )


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
