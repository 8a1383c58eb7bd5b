"""Duplicates and near-duplicates across train, dev and test."""

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations, product

from fresh.audit.shingles import Index, Shingles
from fresh.data.splits import Splits
from fresh.document import Document, Example

THRESHOLD = 0.8
"""Share of three-word runs, of all that two texts have, that near-duplicates have in common."""
MOST_PAIRS = 1_000
"""Pairs that are listed; all are counted."""

Key = tuple[str, str]


@dataclass(frozen=True, slots=True)
class _Pair:
    """Two examples of different splits that say the same, or nearly."""

    first: str
    first_split: str
    second: str
    second_split: str
    similarity: float
    """Jaccard similarity of their three-word runs; 1 for duplicates."""
    exact: bool
    """Whether they are the same but for case and white space."""
    labels_differ: bool


@dataclass(frozen=True, slots=True)
class _Overlap:
    """How many examples of one split have a twin in an earlier one."""

    earlier: str
    later: str
    n_examples: int
    """Examples of the later split."""
    n_exact: int
    """Those of them with a duplicate in the earlier split."""
    n_near: int
    """Those of them with a near-duplicate, and no duplicate, in the earlier split."""
    n_repeated: int
    """Those of them whose document is in the earlier split too, under other queries only."""
    n_pairs: int
    """Pairs of a duplicate or near-duplicate with its twin."""
    n_labels_differ: int
    """Pairs whose labels differ."""

    @property
    def sentence(self) -> str:
        """Say it in plain words."""
        if not self.n_exact and not self.n_near:
            text = f"No example of {self.later} has a duplicate or near-duplicate in {self.earlier}."
        else:
            share = (self.n_exact + self.n_near) / self.n_examples
            text = (
                f"Of {self.n_examples} examples of {self.later}, {self.n_exact} have a duplicate in {self.earlier} and "
                f"{self.n_near} a near-duplicate ({share:.1%} together)."
            )
        if self.n_labels_differ:
            text += f" In {self.n_labels_differ} of {self.n_pairs} such pairs the labels differ."
        if self.n_repeated:
            text += (
                f" {self.n_repeated} examples of {self.later} ask something else about a document of {self.earlier}; "
                "that is normal where a corpus asks many things of one text, but the text is not new."
            )
        return text


@dataclass(frozen=True, slots=True)
class _Hygiene:
    """What the splits have in common."""

    overlaps: tuple[_Overlap, ...]
    pairs: tuple[_Pair, ...]
    """The most similar pairs, at most a thousand."""

    @property
    def clean(self) -> bool:
        """Whether no split has a twin of another's example."""
        return not any(overlap.n_pairs for overlap in self.overlaps)

    @property
    def n_pairs(self) -> int:
        """All pairs, listed or not."""
        return sum(overlap.n_pairs for overlap in self.overlaps)


@dataclass(frozen=True, slots=True)
class _Group:
    """The examples of one split that have the same text and query."""

    split: str
    key: Key
    examples: tuple[Example, ...]


@dataclass(frozen=True, slots=True)
class _Match:
    """Two groups of different splits that are twins."""

    earlier: _Group
    later: _Group
    similarity: float

    @property
    def exact(self) -> bool:
        """Whether text and query are the same but for case and white space."""
        return self.earlier.key == self.later.key

    @property
    def n_pairs(self) -> int:
        """Pairs of their examples."""
        return len(self.earlier.examples) * len(self.later.examples)

    @property
    def n_labels_differ(self) -> int:
        """Pairs of their examples whose labels differ."""
        before = [example.label for example in self.earlier.examples]
        return sum(len(before) - before.count(example.label) for example in self.later.examples)

    def pairs(self) -> Iterator[_Pair]:
        """List the pairs of their examples."""
        for one, two in product(self.earlier.examples, self.later.examples):
            yield _Pair(
                one.document.id,
                self.earlier.split,
                two.document.id,
                self.later.split,
                self.similarity,
                self.exact,
                one.label != two.label,
            )


def find_twins(splits: Splits, threshold: float = THRESHOLD) -> _Hygiene:
    """Look for examples of dev and test that are in an earlier split already, word for word or nearly.

    The query counts as part of the text. Examples with the same document and another query are no pair; they are
    counted apart.

    :param threshold: Jaccard similarity of the sets of three-word runs from which on two texts are near-duplicates.
    """
    return find_twins_among({name: getattr(splits, name) for name in ("train", "dev", "test")}, threshold)


def find_twins_among(parts: Mapping[str, Sequence[Example]], threshold: float = THRESHOLD) -> _Hygiene:
    """Do the same for splits by any names, the earliest first."""
    if not 0 < threshold <= 1:
        raise ValueError(f"threshold must be above 0 and at most 1, got {threshold}.")
    groups = {name: _grouped(name, examples) for name, examples in parts.items()}
    matches = [*_exact_matches(groups), *_near_matches(groups, threshold)]
    matches.sort(key=lambda match: (-match.similarity, not match.exact))  # stable: then in the order of the corpus
    overlaps = tuple(
        _overlap(groups[earlier], groups[later], earlier, later, matches) for earlier, later in combinations(groups, 2)
    )
    return _Hygiene(overlaps, tuple(_listed(matches)))


def normal(document: Document) -> Key:
    """Reduce text and query to their words, in lower case, with single spaces."""
    return " ".join(document.words).casefold(), " ".join(document.query).casefold()


def _grouped(split: str, examples: Sequence[Example]) -> list[_Group]:
    """Put examples with the same text and query together."""
    found: defaultdict[Key, list[Example]] = defaultdict(list)
    for example in examples:
        found[normal(example.document)].append(example)
    return [_Group(split, key, tuple(members)) for key, members in found.items()]


def _exact_matches(groups: Mapping[str, Sequence[_Group]]) -> Iterator[_Match]:
    """Find groups of different splits with the same text and query."""
    seen: dict[Key, list[_Group]] = {}
    for split in groups.values():
        for group in split:
            yield from (_Match(earlier, group, 1.0) for earlier in seen.get(group.key, ()))
        for group in split:
            seen.setdefault(group.key, []).append(group)


def _near_matches(groups: Mapping[str, Sequence[_Group]], threshold: float) -> Iterator[_Match]:
    """Find groups of different splits with nearly the same text and query."""
    everything = [group for split in groups.values() for group in split]
    index = Index(Shingles.of(words(group.examples[0].document) for group in everything), threshold)
    start = 0
    for split in groups.values():
        for place in range(start, start + len(split) if start else 0):  # nothing comes before the first split
            for before, similarity in index.similar(place, start):
                earlier, later = everything[before], everything[place]
                if earlier.key[0] != later.key[0]:  # else a duplicate, or the same document under another query
                    yield _Match(earlier, later, similarity)
        start += len(split)


def words(document: Document) -> list[str]:
    """List the words of text and query, with something between them that is no word."""
    text, query = normal(document)
    return [*text.split(" "), "", *query.split(" ")] if query else text.split(" ")


def _overlap(
    before: Sequence[_Group], after: Sequence[_Group], earlier: str, later: str, matches: Sequence[_Match]
) -> _Overlap:
    """Count what two splits have in common."""
    here = [match for match in matches if (match.earlier.split, match.later.split) == (earlier, later)]
    exact = {match.later.key for match in here if match.exact}
    near = {match.later.key for match in here if not match.exact} - exact
    texts, keys = {group.key[0] for group in before}, {group.key for group in before}
    repeated = {group.key for group in after if group.key[0] in texts and group.key not in keys}
    return _Overlap(
        earlier,
        later,
        n_examples=_n_examples(after),
        n_exact=_n_examples(group for group in after if group.key in exact),
        n_near=_n_examples(group for group in after if group.key in near),
        n_repeated=_n_examples(group for group in after if group.key in repeated),
        n_pairs=sum(match.n_pairs for match in here),
        n_labels_differ=sum(match.n_labels_differ for match in here),
    )


def _n_examples(groups: Iterator[_Group] | Sequence[_Group]) -> int:
    """Count the examples of some groups."""
    return sum(len(group.examples) for group in groups)


def _listed(matches: Sequence[_Match]) -> Iterator[_Pair]:
    """List pairs until there are enough."""
    room = MOST_PAIRS
    for match in matches:
        for pair in match.pairs():
            if not room:
                return
            yield pair
            room -= 1
