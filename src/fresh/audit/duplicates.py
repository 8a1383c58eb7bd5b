"""Duplicates and near-duplicates across splits."""

from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from itertools import accumulate, combinations, islice, pairwise, product
from typing import Any, NamedTuple

import numpy as np

from fresh.data.splits import Splits, dataset_digest
from fresh.document import Document, Example
from fresh.reporting.report import Verdict
from fresh.text import plural

# Jaccard similarity of the sets of three-word runs from which two texts are near-duplicates.
THRESHOLD = 0.8
# Pairs that are listed; all are counted.
MAX_PAIRS = 1_000
MAX_PAIRS_SHOWN = 5
# The name of the split that is audited.
AUDITED = "test"
# Words in a run.
RUN_LENGTH = 3
# Texts whose candidates are sought at a time, and candidates that are compared at a time: both bound the memory.
BLOCK = 64
MAX_COMPARED = 20_000

# Text and query, in lower case.
Key = tuple[str, str]
# The split and the key that some examples share.
Group = tuple[str, Key]


@dataclass(frozen=True, slots=True)
class DuplicatePair:
    """Two examples of different splits that are the same, or nearly."""

    first: str
    first_split: str
    second: str
    second_split: str
    similarity: float
    """Jaccard similarity of their three-word runs; 1 for duplicates."""
    exact: bool
    """Whether they are the same except for case and white space."""
    labels_differ: bool


@dataclass(frozen=True, slots=True)
class Overlap:
    """How many examples of one split have a duplicate in an earlier one."""

    earlier: str
    later: str
    n_examples: int
    """Examples of the later split."""
    n_exact: int
    """Examples with a duplicate in the earlier split."""
    n_near: int
    """Examples with a near-duplicate, and no duplicate, in the earlier split."""
    n_repeated: int
    """Examples whose document is in the earlier split too, but only with other queries."""
    n_pairs: int
    """Pairs of duplicates and near-duplicates."""
    n_labels_differ: int
    """Pairs whose labels differ."""

    @property
    def sentence(self) -> str:
        """The counts in words."""
        if not self.n_pairs:
            text = f"No example of {self.later} has a duplicate or near-duplicate in {self.earlier}."
        else:
            share = (self.n_exact + self.n_near) / self.n_examples
            have = "has" if self.n_exact == 1 else "have"
            text = (
                f"Of {plural(self.n_examples, 'example')} of {self.later}, {self.n_exact} {have} a duplicate in "
                f"{self.earlier} and {self.n_near} a near-duplicate ({share:.1%} together)."
            )
        if self.n_labels_differ:
            text += f" In {self.n_labels_differ} of {self.n_pairs} such pairs, the labels differ."
        if self.n_repeated:
            examples = f"{plural(self.n_repeated, 'example')} of {self.later}"
            text += (
                f" {examples} {'asks' if self.n_repeated == 1 else 'ask'} another question about a document of "
                f"{self.earlier}. This is normal where a corpus has several questions for each text, but the text is "
                "not new."
            )
        return text


@dataclass(frozen=True, slots=True)
class Duplicates:
    """What splits have in common."""

    overlaps: tuple[Overlap, ...]
    pairs: tuple[DuplicatePair, ...]
    """The most similar pairs, at most a thousand."""

    @property
    def n_pairs(self) -> int:
        """The number of pairs, listed or not."""
        return sum(overlap.n_pairs for overlap in self.overlaps)


class _Match(NamedTuple):
    """Examples of one split and of an earlier one that are duplicates or near-duplicates."""

    earlier: Group
    later: Group
    similarity: float

    @property
    def exact(self) -> bool:
        return self.earlier[1] == self.later[1]


def find_duplicates(splits: Splits | Mapping[str, Sequence[Example]], threshold: float = THRESHOLD) -> Duplicates:
    """Find examples that are in an earlier split already, word for word or nearly.

    The query counts as part of the text. Examples with the same document and another query are no pair; they are
    counted separately.

    :param splits: Train, dev and test, or splits by name, the earliest first.
    :param threshold: Jaccard similarity of the sets of three-word runs from which two texts are near-duplicates.
    """
    if not 0 < threshold <= 1:
        raise ValueError(f"threshold must be in (0, 1], got {threshold}.")
    if isinstance(splits, Splits):
        splits = {name: getattr(splits, name) for name in ("train", "dev", "test")}
    groups: defaultdict[Group, list[Example]] = defaultdict(list)
    for split, examples in splits.items():
        for example in examples:
            groups[split, normalize(example.document)].append(example)
    names, sizes = list(groups), Counter(split for split, _ in groups)
    starts = [0, *accumulate(sizes[split] for split in splits)]
    # The two spaces leave an empty string between text and query, which is no word of either.
    texts = [(f"{text}  {query}" if query else text).split(" ") for _, (text, query) in names]
    similar = similar_texts(texts, starts, threshold)
    found = (_Match(names[earlier], names[later], similarity) for later, earlier, similarity in similar)
    # Another query about the same document makes an example of its own.
    matches = [match for match in found if match.exact or match.earlier[1][0] != match.later[1][0]]
    matches.sort(key=lambda match: (-match.similarity, not match.exact))
    pairs = (
        DuplicatePair(
            *(one.document.id, match.earlier[0], two.document.id, match.later[0]),
            *(match.similarity, match.exact, one.label != two.label),
        )
        for match in matches
        for one, two in product(groups[match.earlier], groups[match.later])
    )
    overlaps = tuple(_count_overlap(earlier, later, groups, matches) for earlier, later in combinations(splits, 2))
    return Duplicates(overlaps, tuple(islice(pairs, MAX_PAIRS)))


def check_splits(
    examples: Sequence[Example], others: Mapping[str, Sequence[Example]], test_digest: str = ""
) -> Verdict:
    """See whether splits share documents, and whether they are the splits of the model.

    :param examples: The test documents.
    :param others: The other splits by name, the earliest first.
    :param test_digest: Digest of the documents that training left out for test, if it is known.
    """
    name, known = "split hygiene", {name: part for name, part in others.items() if part}
    if not known:
        return Verdict(name, "not run", "Only one split is known: there is nothing to compare it with.")
    if test_digest and test_digest != dataset_digest(examples):
        says = (
            "These are not the documents that training left out for test: some of them may have been trained on. Use "
            "the unchanged training files or, if all documents are new, set whole=True."
        )
        return Verdict(name, "look here", says)
    found = find_duplicates({**known, AUDITED: examples})
    lines = [overlap.sentence for overlap in found.overlaps]
    for pair in found.pairs[:MAX_PAIRS_SHOWN]:
        alike = "the same" if pair.exact else f"{pair.similarity:.0%} alike"
        labels = ", other labels" if pair.labels_differ else ""
        lines.append(f"{pair.second_split} {pair.second!r} and {pair.first_split} {pair.first!r}: {alike}{labels}")
    if not found.n_pairs:
        return Verdict(name, "holds", "No document is in two splits, word for word or nearly.", tuple(lines))
    says = f"{plural(found.n_pairs, 'pair')} of documents in different splits: the same, or nearly."
    return Verdict(name, "look here", says, tuple(lines))


def normalize(document: Document) -> Key:
    """Return text and query in lower case, with single spaces."""
    return " ".join(document.words).casefold(), " ".join(document.query).casefold()


def similar_texts(
    texts: Sequence[Sequence[str]], starts: Sequence[int], threshold: float
) -> Iterator[tuple[int, int, float]]:
    """Find each text of a later part that is similar to one of an earlier part, without comparing all pairs.

    Two sets that share at least a fraction t of their union have an element in common among the first
    n - ceil(t n) + 1 of each, in any order that both follow (Chaudhuri et al., 2006). So no pair is missed. With the
    rarest runs first, few candidates remain, which are compared exactly.

    :param starts: Where each part begins, and where the last one ends.
    :return: The numbers of the later and of the earlier text, and the Jaccard similarity of their runs.
    """
    from scipy.sparse import csr_array  # only here: `fresh describe` needs none of it

    runs, share = _run_matrix(texts), Fraction(str(threshold))
    sizes = np.diff(runs.indptr)
    # In exact arithmetic: with floats, a pair exactly at the threshold could be missed.
    n_first = sizes + 1 - -(-sizes * share.numerator // share.denominator)
    is_first = np.arange(runs.nnz) - np.repeat(runs.indptr[:-1], sizes) < np.repeat(n_first, sizes)
    owners = np.repeat(np.arange(len(texts)), sizes)[is_first]
    rarest = csr_array((runs.data[is_first], (owners, runs.indices[is_first])), shape=runs.shape)
    for start, stop in pairwise(starts[1:]):
        before = rarest[:start].T.tocsr()
        for first in range(start, stop, BLOCK):
            candidates = rarest[first : min(first + BLOCK, stop)] @ before
            candidates.sort_indices()
            rows, columns = candidates.nonzero()
            for pair in range(0, len(rows), MAX_COMPARED):
                later, earlier = first + rows[pair : pair + MAX_COMPARED], columns[pair : pair + MAX_COMPARED]
                both = np.asarray(runs[later].multiply(runs[earlier]).sum(axis=1), dtype=np.int64)
                union = sizes[later] + sizes[earlier] - both
                similar = both * share.denominator >= share.numerator * union  # both / union >= threshold, exactly
                found = (later, earlier, both / union)
                yield from zip(*(column[similar].tolist() for column in found), strict=True)


def _run_matrix(texts: Iterable[Sequence[str]]) -> Any:
    """Mark the runs of three words that each text has, the rarest in the first columns.

    A text of fewer words is one run. Runs have numbers, not hashes, so different ones are never taken for the same.

    :return: A sparse matrix of ones. Shape: (texts, runs).
    """
    from scipy.sparse import csr_array

    numbers: dict[str, int] = {}
    words, lengths = list[int](), list[int]()
    for text in texts:
        row = [numbers.setdefault(word, len(numbers) + 1) for word in text]
        row += [0] * (RUN_LENGTH - len(row))
        words.extend(row)
        lengths.append(len(row))
    runs = flat = np.array(words, dtype=np.int64)
    for step in range(1, RUN_LENGTH):  # join each run with the word after it, and give every different one a number
        # Both numbers are below 2**32, so one integer holds the pair.
        runs = np.unique(runs[:-1] << 32 | flat[step:], return_inverse=True)[1]
    owners = np.repeat(np.arange(len(lengths)), lengths)
    within = owners[: 1 - RUN_LENGTH] == owners[RUN_LENGTH - 1 :]  # begins and ends in the same text
    runs, owners = runs[within], owners[: 1 - RUN_LENGTH][within]
    ranks = np.argsort(np.argsort(np.bincount(runs), kind="stable"))
    matrix = csr_array((np.ones(len(runs), dtype=np.int32), (owners, ranks[runs])), shape=(len(lengths), len(ranks)))
    matrix.sum_duplicates()  # sorts the runs of each text too
    matrix.data[:] = 1
    return matrix


def _count_overlap(
    earlier: str, later: str, groups: Mapping[Group, Sequence[Example]], matches: Iterable[_Match]
) -> Overlap:
    here = [match for match in matches if (match.earlier[0], match.later[0]) == (earlier, later)]
    exact = {match.later for match in here if match.exact}
    near = {match.later for match in here} - exact
    texts = {text for split, (text, _) in groups if split == earlier}
    repeated = {group for group in groups if group[0] == later and group[1][0] in texts} - exact
    n_pairs = n_alike = 0
    for match in here:
        # Counted, not listed: thousands of copies of one text make millions of pairs.
        before = Counter(example.label for example in groups[match.earlier])
        n_pairs += len(groups[match.earlier]) * len(groups[match.later])
        n_alike += sum(before[example.label] for example in groups[match.later])
    return Overlap(
        earlier,
        later,
        n_examples=sum(len(examples) for (split, _), examples in groups.items() if split == later),
        n_exact=sum(len(groups[group]) for group in exact),
        n_near=sum(len(groups[group]) for group in near),
        n_repeated=sum(len(groups[group]) for group in repeated),
        n_pairs=n_pairs,
        n_labels_differ=n_pairs - n_alike,
    )
