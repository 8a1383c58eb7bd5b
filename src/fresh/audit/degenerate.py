"""Rationales that explain nothing: only stop words, always the first words, always one length, a word for a class."""

import unicodedata
from collections import Counter, defaultdict
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from fresh.document import Document, Explanation, Mask
from fresh.reporting.report import Verdict

# English, and small. Words of negation (no, not, never, n't) are left out on purpose, since they often decide.
ENGLISH = """
a an the this that these those and or but if then than so as of at by for from in into on onto to with about
over under up down out off again once here there when where while which who whom whose what how why all any both
each some such own same too very just also i me my mine myself you your yours yourself he him his himself she
her hers herself it its itself we us our ours ourselves they them their theirs themselves one am is are was were
be been being have has had having do does did doing done will would shall should can could may might must 's 'm
're 've 'd 'll s m re ve d ll because until during before after between through against it's i'm you're he's
she's we're they're that's there's i've you've we've they've i'd you'd he'd she'd we'd they'd i'll you'll he'll
she'll we'll they'll
"""
STOP_WORDS = frozenset(ENGLISH.split())

# Share of rationales that may consist of stop words and punctuation.
MAX_STOP_WORD_SHARE = 0.1
# Shares of "always" and "never": a few exceptions do not make a rationale say more.
NEARLY_ALL = 0.9
HARDLY_ANY = 0.1
# Rationales needed for a statement about all of them.
MIN_RATIONALES = 10
MAX_IDS = 5


@dataclass(frozen=True, slots=True)
class Finding:
    """One way in which rationales can be worthless, and how many are."""

    check: str
    degenerate: bool
    count: int
    total: int
    """Rationales that the check applies to."""
    ids: tuple[str, ...]
    """A few of the documents."""
    sentence: str


class _Item(NamedTuple):
    id: str
    words: tuple[str, ...]
    """The kept words, in lower case."""
    mask: Mask
    decision: str


def check_content(explained: Sequence[Explanation]) -> Verdict:
    """See whether rationales say something to a reader."""
    name = "degenerate rationales"
    if len(explained) < MIN_RATIONALES:
        says = f"A statement about all needs at least {MIN_RATIONALES} documents, got {len(explained)}."
        return Verdict(name, "not run", says)
    rows = [(item.document, item.mask, item.prediction.label) for item in explained]
    findings = find_degenerate(*zip(*rows, strict=True))
    degenerate = [finding for finding in findings if finding.degenerate]
    lines = [f"{finding.sentence} See: {', '.join(map(repr, finding.ids))}." for finding in degenerate]
    lines += [finding.sentence for finding in findings if not finding.degenerate]
    if degenerate:
        return Verdict(name, "look here", " ".join(finding.sentence for finding in degenerate), tuple(lines))
    says = "No sign of rationales that say nothing: only stop words, always the first words, one word for a class."
    return Verdict(name, "holds", says, tuple(lines))


def find_degenerate(
    documents: Sequence[Document],
    masks: Sequence[Mask],
    decisions: Sequence[str],
    stop_words: Collection[str] = STOP_WORDS,
) -> list[Finding]:
    """Look for signs that the words of rationales say nothing.

    :param decisions: The predicted label of each document.
    :param stop_words: Words that say nothing by themselves, in lower case; English ones by default.
    """
    items = [
        _Item(document.id, tuple(map(str.casefold, document.cut(mask).words)), mask, decision)
        for document, mask, decision in zip(documents, masks, decisions, strict=True)
    ]
    return [*_check_rationales(items, frozenset(map(str.casefold, stop_words))), *_find_class_words(items)]


def _finding(check: str, degenerate: bool, found: Sequence[_Item], among: Sequence[_Item], says: str) -> Finding:
    sentence = f"{len(found)} of {len(among)} rationales {says}."
    return Finding(check, degenerate, len(found), len(among), tuple(item.id for item in found[:MAX_IDS]), sentence)


def _check_rationales(items: Sequence[_Item], stop_words: Collection[str]) -> Iterator[Finding]:
    """Look for vain words, and for rationales that are always at the same place or of the same length."""
    nonempty = [item for item in items if item.words]
    empty = [item for item in items if not item.words]
    yield _finding("no words", bool(empty), empty, items, "have no words at all")
    vain = [item for item in nonempty if all(word in stop_words or _is_punctuation(word) for word in item.words)]
    degenerate = len(vain) > MAX_STOP_WORD_SHARE * len(nonempty)
    yield _finding("stop words", degenerate, vain, nonempty, "consist of punctuation and stop words only")

    # Whole documents are not their first words.
    partial = [item for item in items if not item.mask.kept.all()]
    nonempty = [item for item in partial if item.words]
    first = [item for item in nonempty if item.mask.kept[: len(item.words)].all()]
    last = [item for item in nonempty if item.mask.kept[-len(item.words) :].all()]
    for check, found in (("first words", first), ("last words", last)):
        degenerate = len(nonempty) >= MIN_RATIONALES and len(found) >= NEARLY_ALL * len(nonempty)
        yield _finding(check, degenerate, found, nonempty, f"that leave words out are the {check} of their document")
    lengths = Counter(len(item.words) for item in partial)
    length = lengths.most_common(1)[0][0] if lengths else 0
    usual = [item for item in partial if len(item.words) == length]
    # Documents of one length make rationales of one length, which says nothing.
    differ = len({len(item.mask) for item in partial}) > 1
    documents = "differ in length" if differ else "are all of one length"
    says = f"that leave words out have {length} word{'s' * (length != 1)}, and their documents {documents}"
    yield _finding("same length", differ and len(usual) == len(partial) >= MIN_RATIONALES, usual, partial, says)


def _is_punctuation(word: str) -> bool:
    """Say whether a word has signs only; emoji and currencies are more than signs."""
    categories = map(unicodedata.category, word)
    return all(category[0] in "PCZM" or category in ("Sk", "Sm") for category in categories)


def _find_class_words(items: Sequence[_Item]) -> Iterator[Finding]:
    """Find, for each predicted class, the word that separates its rationales best from those of other classes."""
    by_class: defaultdict[str, list[_Item]] = defaultdict(list)
    for item in items:
        by_class[item.decision].append(item)
    # Counted once: counting the words of the other classes for each class would take quadratic time.
    anywhere = Counter(word for item in items for word in set(item.words))
    for decision, own in sorted(by_class.items()):
        check, n_others = f"class word of {decision}", len(items) - len(own)
        here = Counter(word for item in own for word in set(item.words))
        if not here or not n_others:
            yield Finding(check, False, 0, len(own), (), f"No word can tell {decision!r} from other classes.")
            continue
        margins = {word: here[word] / len(own) - (anywhere[word] - here[word]) / n_others for word in sorted(here)}
        word = max(margins, key=margins.__getitem__)
        n_here, n_elsewhere = here[word], anywhere[word] - here[word]
        enough = min(len(own), n_others) >= MIN_RATIONALES
        degenerate = enough and n_here / len(own) >= NEARLY_ALL and n_elsewhere / n_others <= HARDLY_ANY
        sentence = (
            f"{word!r} is in {n_here} of {len(own)} rationales of {decision!r} "
            f"and in {n_elsewhere} of {n_others} of the others."
        )
        ids = tuple(item.id for item in own if word in item.words)
        yield Finding(check, degenerate, n_here, len(own), ids[:MAX_IDS], sentence)
