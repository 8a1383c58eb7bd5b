"""Invariance: dropped words are changed while the mask is held, and no answer may move."""

from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from itertools import islice

import numpy as np

from fresh.changes import CHANGES, Change, Drawing, change, kinds_for
from fresh.document import Document, Explanation, Mask
from fresh.extractor import Extractor
from fresh.page.view import Verdict
from fresh.progress import SILENT, Progress
from fresh.rationalizer import AT_ONCE, Rationalizer
from fresh.replay import MOST_SHOWN, figures


class Held:
    """An extractor that is told what to keep, in the place of the model's own."""

    def __init__(self, own: Extractor) -> None:
        self.own = own
        self.masks: dict[Document, Mask] = {}
        self.reads_along = False

    def hold(self, documents: Sequence[Document], masks: Sequence[Mask], reads_along: bool) -> None:
        """Learn what to keep from now on.

        :param reads_along: Have the model's own extractor read the documents too: nobody listens to it, but it might
            tell the predictor something.
        """
        self.masks = dict(zip(documents, masks, strict=True))
        self.reads_along = reads_along

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
class Trial:
    """A document with its mask, and a change of what the mask drops."""

    document: Document
    mask: Mask
    change: Change


@dataclass(frozen=True, slots=True)
class Counterexample:
    """A change of dropped words that changed the rationale or the answer."""

    trial: Trial
    before: Explanation
    after: Explanation

    def lines(self) -> list[str]:
        """Show it whole."""
        trial = self.trial
        about = f"document {trial.document.id!r}, dropped words {trial.change.kind}"
        return [
            f"{about}; kept words stand in brackets:",
            f"  before: {bracketed(trial.document, trial.mask)}",
            f"  after: {bracketed(trial.change.document, trial.change.mask)}",
            f"  mask before: {trial.mask.spans} of {len(trial.mask)} words",
            f"  mask after: {trial.change.mask.spans} of {len(trial.change.mask)} words",
            *([f"  query: {' '.join(trial.document.query)}"] if trial.document.query else []),
            f"  rationale before: {' '.join(self.before.rationale.words)}",
            f"  rationale after: {' '.join(self.after.rationale.words)}",
            f"  answer before: {figures(self.before.prediction)}",
            f"  answer after: {figures(self.after.prediction)}",
        ]


@dataclass(frozen=True, slots=True)
class Trials:
    """What came of many changes."""

    kinds: Counter[str]
    """How many changes there were of each kind."""
    n_documents: int
    counterexamples: tuple[Counterexample, ...]

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
) -> Trials:
    """Change dropped words in many ways, hold the mask, and see whether the model explains the same.

    :param explained: Documents and the masks that are held.
    :param n_trials: Changes in all; documents take turns.
    :param seed: Draws the documents' order and the changes.
    """
    if n_trials < 1:
        raise ValueError(f"n_trials must be at least 1, got {n_trials}.")
    trials, held = draw_trials(explained, seed), Held(model.extractor)
    holding = replace(model, extractor=held)  # the model itself, whatever it does, with another extractor
    found: list[Counterexample] = []
    kinds: Counter[str] = Counter()
    with progress.task("invariance", n_trials) as advance:
        for start in range(0, n_trials, AT_ONCE):
            some = list(islice(trials, min(AT_ONCE, n_trials - start)))
            found += try_all(holding, held, some, start == 0)
            kinds.update(trial.change.kind for trial in some)
            advance(len(some), f"{len(found)} counterexamples")
    return Trials(kinds, min(n_trials, len(explained)), tuple(found))


def draw_trials(explained: Sequence[Explanation], seed: int) -> Iterator[Trial]:
    """Draw changes without an end, one document after the other."""
    generator = np.random.default_rng(seed)
    vocabulary = sorted({word for item in explained for word in item.document.words})
    drawing = Drawing(vocabulary, generator)
    order = generator.permutation(len(explained)).tolist()
    number = 0
    while True:
        for place in order:
            document, mask = explained[place].document, explained[place].mask
            kinds = kinds_for(mask)
            kind = kinds[int(generator.integers(len(kinds)))]
            yield Trial(document, mask, change(document, mask, kind, drawing, f"trial {number}"))
            number += 1


def try_all(model: Rationalizer, held: Held, trials: Sequence[Trial], reads_along: bool) -> list[Counterexample]:
    """Explain documents before and after their change, each time in the same company, and compare."""
    # Names of their own, so that the same text may stand there with two masks, and a name can tell nothing.
    documents = [replace(trial.document, id=f"before {trial.change.document.id}") for trial in trials]
    held.hold(documents, [trial.mask for trial in trials], reads_along)
    before = model.explain(documents)
    changed = [trial.change.document for trial in trials]
    held.hold(changed, [trial.change.mask for trial in trials], reads_along)
    after = model.explain(changed)
    return [
        Counterexample(*row) for row in zip(trials, before, after, strict=True) if not is_same(row[0], row[1], row[2])
    ]


def is_same(trial: Trial, before: Explanation, after: Explanation) -> bool:
    """Say whether the masks were held, the rationales are equal, and the answers are, bit for bit."""
    held = before.mask == trial.mask and after.mask == trial.change.mask
    return held and before.rationale == after.rationale and before.prediction == after.prediction


def bracketed(document: Document, mask: Mask) -> str:
    """Write a document with its kept words in brackets."""
    pairs = zip(document.words, mask.kept.tolist(), strict=True)
    return " ".join(f"[{word}]" if kept else word for word, kept in pairs)
