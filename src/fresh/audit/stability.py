"""How stable a model is end to end: an unselected word is edited, and the model explains the document again."""

from collections import defaultdict
from collections.abc import Callable, Sequence
from itertools import pairwise
from typing import NamedTuple

import numpy as np

from fresh.document import Document, Explanation, Mask
from fresh.metrics import bootstrap
from fresh.progress import SILENT, Progress
from fresh.rationale import Rationale, Words
from fresh.rationalizer import Rationalizer
from fresh.reporting.report import Verdict
from fresh.selection.extractors import HumanRationales
from fresh.text import plural

NAME = "stability"
# Documents that are edited, each once in each way: a thousand explanations in all.
MAX_DOCUMENTS = 250
# Words of a document that are tried until one can be edited: all of them would take minutes for long documents.
N_TRIES = 10
# Share of the answers that may change when one unselected word is edited.
MAX_CHANGED = 0.1

_Edit = Callable[[Words, int, np.random.Generator], str | None]
"""Returns what the word at a place becomes: nothing if it is deleted, None if it cannot be edited in this way."""


def check_stability(
    model: Rationalizer, explained: Sequence[Explanation], seed: int = 0, progress: Progress = SILENT
) -> Verdict:
    """Edit one unselected word of a document at a time, and count the answers that change.

    :param seed: Seeds the choice of documents, words and edits.
    """
    if isinstance(model.extractor, HumanRationales):
        return Verdict(NAME, "not run", "People selected the words, and nobody selects words of an edited document.")
    generator = np.random.default_rng(seed)
    order = generator.permutation(len(explained)).tolist()
    chosen = [explained[place] for place in order if not explained[place].mask.kept.all()][:MAX_DOCUMENTS]
    if not chosen:
        return Verdict(NAME, "not run", "Every word of every document is read: there is no unselected word to edit.")
    edits: dict[str, _Edit] = {
        "deleted": lambda *_: "",
        "replaced by a neighbor": _neighbors(explained),
        "in another case": lambda words, place, _: words[place].swapcase(),
        "with a typo": _misspell,
    }
    lines: list[str] = []
    changed: dict[int, list[bool]] = {}  # by document, since edits of one document are not independent
    with progress.task("edits of unselected words", len(edits) * len(chosen)) as advance:
        for name, edit in edits.items():
            cases = (_edit_one(model, place, item, edit, generator) for place, item in enumerate(chosen))
            edited = [case for case in cases if case is not None]
            again = list(model.explain_stream(case.document for case in edited))
            advance(len(chosen), "")
            if not edited:
                lines.append(f"A word {name}: no word can be edited in this way.")
                continue
            pairs = list(zip(edited, again, strict=True))
            differs = [case.explained.prediction.label != new.prediction.label for case, new in pairs]
            texts = bootstrap.number_texts(case.explained.document.words for case in edited)
            overlap = bootstrap.mean_interval([case.overlap(new.mask) for case, new in pairs], texts=texts)
            for case, differ in zip(edited, differs, strict=True):
                changed.setdefault(case.number, []).append(differ)
            lines.append(
                f"A word {name}: {sum(differs):,} of {plural(len(pairs), 'answer')} change "
                f"({bootstrap.mean_interval(differs, texts=texts)}); overlap of the rationales {overlap}."
            )
    if not changed:
        return Verdict(NAME, "not run", "No word outside a rationale can be edited.", tuple(lines))
    texts = bootstrap.number_texts(chosen[number].document.words for number in changed)
    share = bootstrap.mean_interval([float(np.mean(row)) for row in changed.values()], texts=texts)
    says = f"After an edit of one word that is not shown, {share} of the answers change"
    if share.low > MAX_CHANGED:
        return Verdict(NAME, "look here", f"{says}: other words decide what is shown.", tuple(lines))
    return Verdict(NAME, "holds", f"{says}.", tuple(lines))


class _Edited(NamedTuple):
    number: int
    """Of the document."""
    explained: Explanation
    """Before the edit."""
    place: int
    document: Document
    """After the edit."""

    def overlap(self, mask: Mask) -> float:
        """Count the words that both rationales share, as a share of the words of either."""
        before, after = self.explained.mask.kept, mask.kept
        if len(after) < len(before):
            after = np.insert(after, self.place, values=False)
        return float((before & after).sum() / (before | after).sum())


def _edit_one(
    model: Rationalizer, number: int, explained: Explanation, edit: _Edit, generator: np.random.Generator
) -> _Edited | None:
    """Edit one of the unselected words that can be edited, chosen at random."""
    document = explained.document
    for place in generator.permutation(np.flatnonzero(~explained.mask.kept))[:N_TRIES].tolist():
        found = edit(document.words, place, generator)
        if found is None:
            continue
        words = [*document.words[:place], *([found] if found else []), *document.words[place + 1 :]]
        # Not every encoder sees every edit: many read lower case only.
        forms = [Rationale((word,)) for word in (document.words[place], found) if word]
        if not found or len(set(model.predictor.token_ids(forms))) > 1:
            return _Edited(number, explained, place, Document.from_words(words, document.query, document.id))
    return None


def _neighbors(explained: Sequence[Explanation]) -> _Edit:
    """Replace a word by one that follows the same word somewhere in these documents."""
    followers: defaultdict[str, list[str]] = defaultdict(list)
    for item in explained:
        for first, second in pairwise(item.document.words):
            followers[first].append(second)

    def edit(words: Words, place: int, generator: np.random.Generator) -> str | None:
        others = [word for word in followers[words[place - 1]] if word != words[place]] if place else []
        return others[generator.integers(len(others))] if others else None

    return edit


def _misspell(words: Words, place: int, generator: np.random.Generator) -> str | None:
    """Swap two neighboring letters, as in a typo."""
    word = words[place]
    swaps = [at for at in range(len(word) - 1) if word[at] != word[at + 1] and word[at : at + 2].isalpha()]
    if not swaps:
        return None
    at = swaps[generator.integers(len(swaps))]
    return word[:at] + word[at + 1] + word[at] + word[at + 2 :]
