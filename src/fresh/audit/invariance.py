"""Invariance: words outside the rationale are changed while the mask is fixed, and no prediction may change."""

from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import replace
from itertools import chain, cycle, pairwise
from typing import NamedTuple

import numpy as np

from fresh.audit.replay import MAX_SHOWN, format_prediction
from fresh.document import Document, Explanation, Mask
from fresh.progress import SILENT, Progress
from fresh.rationalizer import BATCH_SIZE, Rationalizer
from fresh.reporting.report import Verdict
from fresh.selection.extractors import Extractor
from fresh.text import plural

# Letters of several scripts, whose tokens differ in number and length.
ALPHABET = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789.,!?'-éßжΩא中か한👍"
MAX_WORD_LENGTH = 15
# How often a multiplied word occurs at most.
MAX_COPIES = 5
# The model's own extractor may be slow, so it reads only the first changes. They are enough: an extractor that passed
# positions to the predictor was caught with 13 counterexamples among them.
N_READ_ALONG = 32

KINDS = ("replaced", "deleted", "multiplied", "added")

# Changes of a document that leave its rationale as it is


class Change(NamedTuple):
    """A document whose dropped words were changed, and the mask of the same kept words."""

    kind: str
    document: Document
    mask: Mask


def possible_changes(mask: Mask) -> list[str]:
    """List the changes that a mask leaves room for: where nothing was dropped, words can only be added."""
    if mask.kept.all():
        return ["added"]
    return [kind for kind in KINDS if kind != "deleted" or len(mask) > 1]


def change_document(
    document: Document, mask: Mask, kind: str, vocabulary: Sequence[str], generator: np.random.Generator
) -> Change:
    """Change what a mask drops of a document; what it keeps stays, in its order."""

    def sample_word(unlike: str) -> str:
        """Sample a known word, or a random string, of another length."""
        found = vocabulary[int(generator.integers(len(vocabulary)))]
        if len(found) != len(unlike) and generator.random() < 0.5:
            return found
        lengths = [length for length in range(1, MAX_WORD_LENGTH + 1) if length != len(unlike)]
        length = lengths[int(generator.integers(len(lengths)))]
        return "".join(ALPHABET[place] for place in generator.integers(len(ALPHABET), size=length).tolist())

    words = list(zip(document.words, mask.kept.tolist(), strict=True))
    if kind == "replaced":
        words = [(word if kept else sample_word(word), kept) for word, kept in words]
    elif kind == "deleted":
        dropped = np.flatnonzero(~mask.kept)
        most = min(len(dropped), len(words) - 1)  # a document has at least one word
        n_deleted = most if generator.random() < 0.5 else int(generator.integers(1, most + 1))
        for place in sorted(generator.choice(dropped, size=n_deleted, replace=False).tolist(), reverse=True):
            del words[place]
    elif kind == "multiplied":
        words = [pair for pair in words for _ in range(1 if pair[1] else int(generator.integers(2, MAX_COPIES + 1)))]
    else:
        for _ in range(int(generator.integers(1, len(words) + 2))):
            words.insert(int(generator.integers(len(words) + 1)), (sample_word(""), False))
    changed = Document.from_words([word for word, _ in words], document.query, document.id)
    return Change(kind, changed, Mask(np.array([kept for _, kept in words], dtype=np.bool_)))


# Trials


class _FixedExtractor:
    """Selects prescribed words, in place of the model's own extractor."""

    def __init__(self, own: Extractor) -> None:
        self.own = own
        self.masks: dict[Document, Mask] = {}
        # Whether the model's own extractor reads too: its masks are ignored, but it might signal to the predictor.
        self.reads_along = False

    def extract(self, documents: Sequence[Document]) -> list[Mask]:
        if self.reads_along:
            with suppress(ValueError):  # human rationales exist for the original documents only
                self.own.extract(documents)
        return [self.masks[document] for document in documents]


def check_invariance(
    model: Rationalizer,
    explained: Sequence[Explanation],
    n_trials: int = 2000,
    seed: int = 0,
    progress: Progress = SILENT,
) -> Verdict:
    """Change dropped words in many ways, fix the mask, and see whether the model explains the same.

    :param explained: Documents with the masks to fix.
    :param n_trials: Changes in all; documents take turns.
    :param seed: Seeds the order of the documents and the changes.
    """
    if n_trials < 1:
        raise ValueError(f"n_trials must be at least 1, got {n_trials}.")
    generator = np.random.default_rng(seed)
    vocabulary = sorted({word for item in explained for word in item.document.words})
    fixed = _FixedExtractor(model.extractor)
    # The model itself, whatever its class does, with another extractor: so a subclass that cheats is run as it is.
    fixed_model = replace(model, extractor=fixed)
    originals: dict[tuple[int, ...], list[Explanation]] = {}
    counterexamples: list[tuple[Explanation, Change, Explanation, Explanation]] = []
    kinds: Counter[str] = Counter()

    def explain_fixed(items: Sequence[Explanation | Change]) -> list[Explanation]:
        # With new ids, the same text may occur with two masks, and an id can tell the predictor nothing.
        documents = [replace(item.document, id=f"{type(item).__name__} {place}") for place, item in enumerate(items)]
        fixed.masks = {document: item.mask for document, item in zip(documents, items, strict=True)}
        return fixed_model.explain(documents)

    with progress.task("invariance", n_trials) as advance:
        for places in _batches(len(explained), n_trials, generator):
            fixed.reads_along = not kinds
            items = [explained[place] for place in places]
            if places not in originals:
                originals[places] = explain_fixed(items)
            changes = []
            for item in items:
                possible = possible_changes(item.mask)
                kind = possible[int(generator.integers(len(possible)))]
                changes.append(change_document(item.document, item.mask, kind, vocabulary, generator))
                kinds[kind] += 1
            for row in zip(items, changes, originals[places], explain_fixed(changes), strict=True):
                item, change, before, after = row
                used = before.mask == item.mask and after.mask == change.mask
                if not (used and before.rationale == after.rationale and before.prediction == after.prediction):
                    counterexamples.append(row)
            advance(len(changes), plural(len(counterexamples), "counterexample"))
    counts = ", ".join(f"{kinds[kind]:,} {kind}" for kind in KINDS if kinds[kind])
    n_found, n_documents = len(counterexamples), min(n_trials, len(explained))
    tried = f"{plural(n_trials, 'trial')} on {plural(n_documents, 'document')}; dropped words {counts}; "
    tried += f"{plural(n_found, 'counterexample')}."
    evidence = (tried, *chain.from_iterable(_show(*row) for row in counterexamples[:MAX_SHOWN]))
    if n_found:
        says = f"In {n_found:,} of {plural(n_trials, 'trial')}, words outside the rationale changed the prediction."
        return Verdict("invariance", "broken", says, evidence)
    says = (
        f"Words outside the rationale were changed {plural(n_trials, 'time')}: every time, the rationale and the "
        "probabilities stayed the same, bit for bit."
    )
    return Verdict("invariance", "holds", says, evidence)


def _batches(n_documents: int, n_trials: int, generator: np.random.Generator) -> Iterator[tuple[int, ...]]:
    """Distribute trials over documents: which are explained together, batch after batch, the same in each round."""
    # Every round has the same batches: originals are explained once, and sums are rounded in the same way. With other
    # batches, honest models would differ by about 1e-7, and the comparison could not be exact.
    order = generator.permutation(n_documents).tolist() * max(1, BATCH_SIZE // n_documents)
    edges = (0, *range(N_READ_ALONG, len(order), BATCH_SIZE), len(order))
    n_left = n_trials
    for start, end in cycle(pairwise(edges)):
        if not n_left:
            return
        places = tuple(order[start : min(end, start + n_left)])
        yield places
        n_left -= len(places)


def _show(item: Explanation, change: Change, before: Explanation, after: Explanation) -> tuple[str, ...]:
    document, mask = item.document, item.mask
    return (
        f"document {document.id!r}, dropped words {change.kind}; selected words are in brackets:",
        f"  before: {_bracketed(document, mask)}",
        f"  after: {_bracketed(change.document, change.mask)}",
        f"  mask before: {mask.spans} of {plural(len(mask), 'word')}",
        f"  mask after: {change.mask.spans} of {plural(len(change.mask), 'word')}",
        *([f"  query: {' '.join(document.query)}"] if document.query else []),
        f"  rationale before: {' '.join(before.rationale.words)}",
        f"  rationale after: {' '.join(after.rationale.words)}",
        f"  prediction before: {format_prediction(before.prediction)}",
        f"  prediction after: {format_prediction(after.prediction)}",
    )


def _bracketed(document: Document, mask: Mask) -> str:
    pairs = zip(document.words, mask.kept.tolist(), strict=True)
    return " ".join(f"[{word}]" if kept else word for word, kept in pairs)
