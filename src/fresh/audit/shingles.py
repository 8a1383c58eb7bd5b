"""Texts as sets of three-word runs, and which of them are nearly the same."""

from array import array
from collections.abc import Iterable
from dataclasses import dataclass, field
from fractions import Fraction

import numpy as np
from numpy.typing import NDArray

Ids = NDArray[np.int64]

RUN = 3
"""Words in a run."""


@dataclass(frozen=True, slots=True, eq=False)
class Shingles:
    """The runs of three words of each text, as numbers: the rarer a run, the lower its number.

    A text of fewer words is one run.
    """

    runs: Ids
    """Those of the first text in rising order, then those of the second, and so on."""
    starts: Ids
    """Where each text begins, and where the last one ends."""

    @classmethod
    def of(cls, texts: Iterable[Iterable[str]]) -> "Shingles":
        """Give each run of texts, which are given as words, its number; runs are told apart exactly, not by a hash."""
        numbers: dict[str, int] = {}
        words, sizes = array("q"), array("q")
        for text in texts:
            row = [numbers.setdefault(word, len(numbers) + 1) for word in text]
            row += [0] * (RUN - len(row))
            words.extend(row)
            sizes.append(len(row))
        flat, lengths = np.array(words, dtype=np.int64), np.array(sizes, dtype=np.int64)
        owners = np.repeat(np.arange(len(lengths)), lengths)
        runs = flat
        for step in range(1, RUN):
            runs = _joined(runs[: len(flat) - step], flat[step:])
        whole = owners[: len(runs)] == owners[len(flat) - len(runs) :]  # begins and ends in the same text
        return cls.sorted(_by_rarity(runs[whole]), owners[: len(runs)][whole], len(lengths))

    @classmethod
    def sorted(cls, runs: Ids, owners: Ids, n_texts: int) -> "Shingles":
        """Keep each run of a text once, the rarest first."""
        distinct = owners << 32 | runs
        distinct.sort()
        distinct = distinct[np.diff(distinct, prepend=-1) > 0]
        counts = np.bincount(distinct >> 32, minlength=n_texts)
        return cls(distinct & 0xFFFFFFFF, np.concatenate([[0], np.cumsum(counts)]))

    def __len__(self) -> int:
        return len(self.starts) - 1

    def __getitem__(self, text: int) -> Ids:
        """Give the runs of one text, the rarest first."""
        return self.runs[self.starts[text] : self.starts[text + 1]]


def _joined(first: Ids, second: Ids) -> Ids:
    """Give each different pair of numbers a number of its own."""
    pairs = first << 32 | second
    order = np.argsort(pairs)
    numbers = np.empty(len(pairs), dtype=np.int64)
    numbers[order] = np.cumsum(np.diff(pairs[order], prepend=-1) > 0) - 1
    return numbers


def _by_rarity(runs: Ids) -> Ids:
    """Give runs other numbers, the rarest first."""
    counts = np.bincount(runs)
    order = np.argsort(counts, kind="stable")
    ranks = np.empty(len(order), dtype=np.int64)
    ranks[order] = np.arange(len(order)) - (counts == 0).sum()  # numbers that do not occur come before 0
    return ranks[runs]


@dataclass(frozen=True, slots=True, eq=False)
class Index:
    """Finds similar texts without comparing each with each, and misses none.

    Two sets that have at least a share t of their union in common have one element in common among the first
    n - ceil(t · n) + 1 of each, whatever the order, if it is the same for both (Chaudhuri et al., 2006). With the
    rarest first, that leaves few texts to compare.
    """

    shingles: Shingles
    threshold: float
    texts: Ids = field(init=False)
    """For each run, rarest first, the texts that have it among their first."""
    starts: Ids = field(init=False)
    marks: NDArray[np.bool_] = field(init=False)

    def __post_init__(self) -> None:
        sizes = np.diff(self.shingles.starts)
        place = np.arange(len(self.shingles.runs)) - np.repeat(self.shingles.starts[:-1], sizes)
        first = place < np.repeat([self.n_first(int(size)) for size in sizes], sizes)
        runs, owners = self.shingles.runs[first], np.repeat(np.arange(len(sizes)), sizes)[first]
        order = np.argsort(runs, kind="stable")
        n_runs = int(self.shingles.runs.max(initial=-1)) + 1
        counts = np.bincount(runs, minlength=n_runs)
        object.__setattr__(self, "texts", owners[order])
        object.__setattr__(self, "starts", np.concatenate([[0], np.cumsum(counts)]))
        object.__setattr__(self, "marks", np.zeros(n_runs, dtype=np.bool_))

    def n_first(self, size: int) -> int:
        """Count the runs among which similar texts of this size must have one in common."""
        share = Fraction(str(self.threshold))
        return size - -(-size * share.numerator // share.denominator) + 1

    def similar(self, text: int, before: int) -> list[tuple[int, float]]:
        """Find the texts with a lower number than a given one that are similar to a text.

        :return: Their numbers and Jaccard similarities, in rising order of the numbers.
        """
        runs = self.shingles[text]
        shared = [self.holders(run, before) for run in runs[: self.n_first(len(runs))].tolist()]
        candidates = np.unique(np.concatenate(shared))
        self.marks[runs] = True
        found = [(int(other), self.similarity(runs, self.shingles[int(other)])) for other in candidates]
        self.marks[runs] = False
        share = Fraction(str(self.threshold))
        return [(other, float(value)) for other, value in found if value >= share]

    def holders(self, run: int, before: int) -> Ids:
        """List the texts that have a run among their first, with a number lower than a given one."""
        texts = self.texts[self.starts[run] : self.starts[run + 1]]
        return texts[: texts.searchsorted(before)] if len(texts) > 1 else texts[:0]  # one: the text that asks

    def similarity(self, marked: Ids, runs: Ids) -> Fraction:
        """Compute the share of all runs of two texts that both have; those of the first are marked."""
        both = int(self.marks[runs].sum())
        return Fraction(both, len(marked) + len(runs) - both)
