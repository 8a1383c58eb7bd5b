"""Invariance: dropped words are changed while the mask is held, and no answer may move."""

from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from itertools import pairwise

import numpy as np

from fresh.audit.changes import CHANGES, Change, Drawing, change, kinds_for
from fresh.audit.replay import MOST_SHOWN, figures
from fresh.document import Document, Explanation, Mask
from fresh.progress import SILENT, Progress
from fresh.rationalizer import BATCH_SIZE, Rationalizer
from fresh.reporting.verdict import Verdict
from fresh.selection.extractors import Extractor

ALONG = 32
"""How many trials, the first, have the model's own extractor read along; it may be slow."""


class _Held:
    """An extractor that is told what to keep, in the place of the model's own."""

    def __init__(self, own: Extractor) -> None:
        self.own = own
        self.masks: dict[Document, Mask] = {}
        """What to keep of each document."""
        self.reads_along = False
        """Whether the model's own extractor reads too; nobody listens to it, but it might tell the predictor."""

    def extract(self, documents: Sequence[Document]) -> list[Mask]:
        """Return one mask a document."""
        if self.reads_along:
            with suppress(ValueError):  # people's marks are known of the old documents only
                self.own.extract(documents)
        unknown = next((document for document in documents if document not in self.masks), None)
        if unknown is not None:
            raise ValueError(
                f"The model changed document {unknown.id!r} before it chose words, so that no mask can be held. "
                "Change documents before they are given to the model."
            )
        return [self.masks[document] for document in documents]


@dataclass(frozen=True, slots=True)
class _Trial:
    """A document with its mask, and a change of what the mask drops."""

    document: Document
    mask: Mask
    change: Change


@dataclass(frozen=True, slots=True)
class _Counterexample:
    """A change of dropped words that changed the rationale or the answer."""

    trial: _Trial
    before: Explanation
    after: Explanation

    def lines(self) -> list[str]:
        """Show it whole."""
        trial = self.trial
        about = f"document {trial.document.id!r}, dropped words {trial.change.kind}"
        return [
            f"{about}; kept words stand in brackets:",
            f"  before: {_bracketed(trial.document, trial.mask)}",
            f"  after: {_bracketed(trial.change.document, trial.change.mask)}",
            f"  mask before: {trial.mask.spans} of {len(trial.mask)} words",
            f"  mask after: {trial.change.mask.spans} of {len(trial.change.mask)} words",
            *([f"  query: {' '.join(trial.document.query)}"] if trial.document.query else []),
            f"  rationale before: {' '.join(self.before.rationale.words)}",
            f"  rationale after: {' '.join(self.after.rationale.words)}",
            f"  answer before: {figures(self.before.prediction)}",
            f"  answer after: {figures(self.after.prediction)}",
        ]


@dataclass(frozen=True, slots=True)
class _Trials:
    """What came of many changes."""

    kinds: Counter[str]
    """How many changes there were of each kind."""
    n_documents: int
    counterexamples: tuple[_Counterexample, ...]

    @property
    def verdict(self) -> Verdict:
        """Judge it."""
        counts = ", ".join(f"{self.kinds[kind]:,} {kind}" for kind in CHANGES if self.kinds[kind])
        n_trials, found = self.kinds.total(), self.counterexamples
        lines = [
            f"{n_trials:,} trials on {self.n_documents:,} documents; dropped words {counts}; "
            f"{len(found):,} counterexamples."
        ]
        for example in found[:MOST_SHOWN]:
            lines += example.lines()
        if found:
            says = f"In {len(found):,} of {n_trials:,} trials, words outside the rationale changed the answer."
            return Verdict("invariance", "broken", says, tuple(lines))
        says = (
            f"Words outside the rationale were changed {n_trials:,} times: every time the same rationale and the same "
            "probabilities, bit for bit."
        )
        return Verdict("invariance", "holds", says, tuple(lines))


def try_to_break(
    model: Rationalizer,
    explained: Sequence[Explanation],
    n_trials: int = 2000,
    seed: int = 0,
    progress: Progress = SILENT,
) -> _Trials:
    """Change dropped words in many ways, hold the mask, and see whether the model explains the same.

    :param explained: Documents and the masks that are held.
    :param n_trials: Changes in all; documents take turns.
    :param seed: Draws the documents' order and the changes.
    """
    if n_trials < 1:
        raise ValueError(f"n_trials must be at least 1, got {n_trials}.")
    generator = np.random.default_rng(seed)
    drawing = Drawing(sorted({word for item in explained for word in item.document.words}), generator)
    held = _Held(model.extractor)
    holding = replace(model, extractor=held)  # the model itself, whatever it does, with another extractor
    known: dict[tuple[int, ...], list[Explanation]] = {}
    found: list[_Counterexample] = []
    kinds: Counter[str] = Counter()
    with progress.task("invariance", n_trials) as advance:
        for places in _take_turns(len(explained), n_trials, generator):
            held.reads_along = not kinds
            if places not in known:
                known[places] = _explain_held(holding, held, [explained[place] for place in places])
            trials = [_draw_trial(explained[place], drawing) for place in places]
            found += _compare(trials, known[places], _explain_held(holding, held, [trial.change for trial in trials]))
            kinds.update(trial.change.kind for trial in trials)
            advance(len(trials), f"{len(found)} counterexamples")
    return _Trials(kinds, min(n_trials, len(explained)), tuple(found))


def _take_turns(n_documents: int, n_trials: int, generator: np.random.Generator) -> Iterator[tuple[int, ...]]:
    """Share trials out among documents: which documents are tried together, group after group, the same each round."""
    order = generator.permutation(n_documents).tolist() * max(1, BATCH_SIZE // n_documents)
    edges = (0, *range(ALONG, len(order), BATCH_SIZE), len(order))
    n_left = n_trials
    while n_left:
        for start, end in pairwise(edges):
            places = tuple(order[start : min(end, start + n_left)])
            if places:
                yield places
            n_left -= len(places)


def _draw_trial(item: Explanation, drawing: Drawing) -> _Trial:
    """Draw a change of what was dropped of a document."""
    kinds = kinds_for(item.mask)
    kind = kinds[int(drawing.generator.integers(len(kinds)))]
    return _Trial(item.document, item.mask, change(item.document, item.mask, kind, drawing))


def _explain_held(model: Rationalizer, held: _Held, items: Sequence[Explanation | Change]) -> list[Explanation]:
    """Have the model explain documents with their masks held."""
    # Names of their own, so that the same text may stand there with two masks, and a name can tell nothing.
    documents = [replace(item.document, id=f"{type(item).__name__} {place}") for place, item in enumerate(items)]
    held.masks = {document: item.mask for document, item in zip(documents, items, strict=True)}
    return model.explain(documents)


def _compare(
    trials: Sequence[_Trial], before: Sequence[Explanation], after: Sequence[Explanation]
) -> list[_Counterexample]:
    """Find the trials that changed something."""
    rows = zip(trials, before, after, strict=True)
    return [_Counterexample(*row) for row in rows if not _is_same(*row)]


def _is_same(trial: _Trial, before: Explanation, after: Explanation) -> bool:
    """Say whether the masks were held, the rationales are equal, and the answers are, bit for bit."""
    held = before.mask == trial.mask and after.mask == trial.change.mask
    return held and before.rationale == after.rationale and before.prediction == after.prediction


def _bracketed(document: Document, mask: Mask) -> str:
    """Write a document with its kept words in brackets."""
    pairs = zip(document.words, mask.kept.tolist(), strict=True)
    return " ".join(f"[{word}]" if kept else word for word, kept in pairs)
