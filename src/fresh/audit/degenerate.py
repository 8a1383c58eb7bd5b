"""Rationales that explain nothing: stop words, always the first words, a word that stands for a class, one length."""

import unicodedata
from collections import Counter
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass

from fresh.document import Document, Mask

# English, and small. Words of negation (no, not, never, n't) are left out on purpose: they often decide.
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

SHARE = 0.1
"""Share of rationales that may be made of stop words and punctuation."""
NEARLY_ALL = 0.9
"""Share of rationales from which on something holds for nearly all."""
HARDLY_ANY = 0.1
"""Share of rationales up to which something holds for hardly any."""
LEAST = 10
"""Rationales that are needed before anything is said of all of them."""
MOST_IDS = 5
"""Documents that are named as examples."""


@dataclass(frozen=True, slots=True)
class _Finding:
    """One way in which rationales can be worthless, and how many are."""

    check: str
    degenerate: bool
    count: int
    """Rationales that are so."""
    total: int
    """Rationales that could be so."""
    ids: tuple[str, ...]
    """A few of their documents."""
    sentence: str


@dataclass(frozen=True, slots=True)
class _Kept:
    """A document, what was kept of it, and what was decided."""

    document: Document
    mask: Mask
    decision: str

    @property
    def words(self) -> tuple[str, ...]:
        """The kept words, in lower case."""
        return tuple(word.casefold() for word in self.document.cut(self.mask).words)

    @property
    def whole(self) -> bool:
        """Whether nothing was left out."""
        return bool(self.mask.kept.all())

    @property
    def n_kept(self) -> int:
        """How many words were kept."""
        return int(self.mask.kept.sum())


def find_degenerate(
    documents: Sequence[Document],
    masks: Sequence[Mask],
    decisions: Sequence[str],
    stop_words: Collection[str] = STOP_WORDS,
) -> list[_Finding]:
    """Look at rationales for signs that their words say nothing.

    :param decisions: The label that was predicted for each document.
    :param stop_words: Words that say nothing by themselves, in lower case; those given are English.
    """
    if not len(documents) == len(masks) == len(decisions):
        raise ValueError(
            f"There are {len(documents)} documents, {len(masks)} masks and {len(decisions)} decisions. Give one each."
        )
    if not len(documents):
        raise ValueError("There are no rationales to look at. Give at least one.")
    items = [_Kept(*row) for row in zip(documents, masks, decisions, strict=True)]
    return [
        _find_empty(items),
        _find_stop_words(items, frozenset(word.casefold() for word in stop_words)),
        _find_at_edge(items, "first words", lambda item: bool(item.mask.kept[: item.n_kept].all())),
        _find_at_edge(items, "last words", lambda item: bool(item.mask.kept[len(item.mask) - item.n_kept :].all())),
        _find_same_length(items),
        *_find_class_words(items),
    ]


def _find_empty(items: Sequence[_Kept]) -> _Finding:
    """Find rationales without any word."""
    found = [item for item in items if not item.n_kept]
    sentence = f"{len(found)} of {len(items)} rationales have no words at all."
    return _Finding("no words", bool(found), len(found), len(items), _ids(found), sentence)


def _find_stop_words(items: Sequence[_Kept], stop_words: Collection[str]) -> _Finding:
    """Find rationales of punctuation and stop words only."""
    some = [item for item in items if item.n_kept]
    found = [item for item in some if all(word in stop_words or _is_punctuation(word) for word in item.words)]
    sentence = f"{len(found)} of {len(some)} rationales are made of punctuation and stop words only."
    return _Finding("stop words", len(found) > SHARE * len(some), len(found), len(some), _ids(found), sentence)


def _is_punctuation(word: str) -> bool:
    """Say whether a word has signs only; emoji and currencies are no mere signs."""
    categories = {unicodedata.category(character) for character in word}
    return all(category[0] in "PCZM" or category in ("Sk", "Sm") for category in categories)


def _find_at_edge(items: Sequence[_Kept], check: str, holds: Callable[[_Kept], bool]) -> _Finding:
    """Find rationales that are a document's first, or last, words whatever these are."""
    some = [item for item in items if item.n_kept and not item.whole]
    found = [item for item in some if holds(item)]
    degenerate = len(some) >= LEAST and len(found) >= NEARLY_ALL * len(some)
    sentence = f"{len(found)} of {len(some)} rationales that leave words out are the {check} of their document."
    return _Finding(check, degenerate, len(found), len(some), _ids(found), sentence)


def _find_same_length(items: Sequence[_Kept]) -> _Finding:
    """Find out whether all rationales have the same number of words though the documents differ in length."""
    some = [item for item in items if not item.whole]
    lengths = Counter(item.n_kept for item in some)
    length, count = lengths.most_common(1)[0] if lengths else (0, 0)
    differ = len({len(item.mask) for item in some}) > 1
    found = [item for item in some if item.n_kept == length]
    sentence = (
        f"{count} of {len(some)} rationales that leave words out have {length} word{'' if length == 1 else 's'}"
        f", and their documents {'differ in length' if differ else 'are all of one length'}."
    )
    degenerate = differ and count == len(some) >= LEAST
    return _Finding("same length", degenerate, count, len(some), _ids(found), sentence)


def _find_class_words(items: Sequence[_Kept]) -> list[_Finding]:
    """Find, for each predicted class, a word that nearly all its rationales have and hardly any other has."""
    by_class: dict[str, list[tuple[_Kept, frozenset[str]]]] = {}
    for item in items:
        by_class.setdefault(item.decision, []).append((item, frozenset(item.words)))
    anywhere = Counter(word for own in by_class.values() for _, words in own for word in words)
    return [_find_class_word(decision, by_class[decision], anywhere, len(items)) for decision in sorted(by_class)]


def _find_class_word(
    decision: str, own: Sequence[tuple[_Kept, frozenset[str]]], anywhere: Counter[str], n_items: int
) -> _Finding:
    """Find the word that tells one class best from the others.

    :param own: The rationales of the class, each with its words.
    :param anywhere: In how many rationales of all classes each word is.
    """
    here = Counter(word for _, words in own for word in words)
    n_others = n_items - len(own)
    check = f"class word of {decision}"
    if not here or not n_others:
        return _Finding(check, False, 0, len(own), (), f"No word can tell {decision!r} from other classes.")
    word = max(sorted(here), key=lambda word: here[word] / len(own) - (anywhere[word] - here[word]) / n_others)
    n_here, n_there = here[word], anywhere[word] - here[word]
    few = min(len(own), n_others) < LEAST
    degenerate = not few and n_here / len(own) >= NEARLY_ALL and n_there / n_others <= HARDLY_ANY
    sentence = (
        f"{word!r} is in {n_here} of {len(own)} rationales of {decision!r} "
        f"and in {n_there} of {n_others} of the others."
    )
    found = [item for item, words in own if word in words]
    return _Finding(check, degenerate, len(found), len(own), _ids(found), sentence)


def _ids(items: Sequence[_Kept]) -> tuple[str, ...]:
    """Name a few documents."""
    return tuple(item.document.id for item in items[:MOST_IDS])
