"""Documents drawn anew, with replacement: whole texts where several documents are about one text."""

from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray

from fresh.rationale import Words

Numbers = NDArray[np.int64]
Values = NDArray[np.float64]

BLOCK = 4_000_000
"""Numbers that are drawn at one time, so that memory stays small."""


def number_texts(texts: Iterable[Words]) -> Numbers | None:
    """Give each text a number, equal ones the same, in an order that does not hang on that of the documents.

    :return: One number a document. Nothing where no text comes twice: then documents can be drawn one by one.
    """
    given = list(texts)
    places = {text: place for place, text in enumerate(sorted(set(given)))}
    return None if len(places) == len(given) else np.array([places[text] for text in given], dtype=np.int64)


def share_texts(n_documents: int, n_texts: int) -> str:
    """Say how many texts documents have between them."""
    return f"{n_documents:,} documents share {n_texts:,} text{'' if n_texts == 1 else 's'}"


def draw_rows(n_instances: int, n_resamples: int, seed: int, texts: ArrayLike | None = None) -> Iterator[Numbers]:
    """Draw as many texts as there are, with replacement, and list their instances, for each resample.

    :param texts: Number of the text of each instance; each instance is a text of its own if not given.
    """
    given = shared(texts, n_instances)
    members = _Members.of(np.arange(n_instances) if given is None else given)
    generator = np.random.default_rng(seed)
    for _ in range(n_resamples):
        yield members.take(generator.integers(len(members.sizes), size=len(members.sizes)))


@dataclass(frozen=True, slots=True, eq=False)
class _Members:
    """The instances of each text."""

    rows: Numbers
    """All instances, text by text. Shape: (instances,)."""
    sizes: Numbers
    """Instances of each text. Shape: (texts,)."""

    @classmethod
    def of(cls, texts: Numbers) -> "_Members":
        """Sort instances by their texts."""
        return cls(np.argsort(texts, kind="stable"), np.unique(texts, return_counts=True)[1])

    def take(self, drawn: Numbers) -> Numbers:
        """List the instances of some texts, one text after the other."""
        if len(self.sizes) == len(self.rows):
            return self.rows[drawn]
        sizes = self.sizes[drawn]
        before = np.cumsum(self.sizes)[drawn] - sizes  # instances of texts that come earlier
        shifts = np.repeat(before - np.cumsum(sizes) + sizes, sizes)
        return self.rows[shifts + np.arange(len(shifts))]


def sum_by_text(values: Values, texts: Numbers) -> Values:
    """Add up the values of each text. Shape: (texts,)."""
    _, places = np.unique(texts, return_inverse=True)
    return np.bincount(places, weights=values).astype(np.float64)


@dataclass(frozen=True, slots=True, eq=False)
class Kinds:
    """Texts whose instances have the same labels and answers are of one kind: only how many there are matters."""

    cells: Numbers
    """Gold label and answers of each instance of one text of each kind. Shape: (instances, columns)."""
    kind: Numbers
    """The kind that each of these instances belongs to. Shape: (instances,)."""
    counts: Numbers
    """Texts of each kind. Shape: (kinds,)."""

    @classmethod
    def of(cls, *columns: Numbers, texts: ArrayLike | None = None) -> "Kinds":
        """Find the kinds, in an order that hangs neither on that of the instances nor on that of the texts."""
        rows = np.stack(columns, axis=1)
        cells, places, counts = np.unique(rows, axis=0, return_inverse=True, return_counts=True)
        given = shared(texts, len(rows))
        if given is None:
            return cls(cells, np.arange(len(cells)), counts.astype(np.int64))
        order = np.lexsort((places.reshape(-1), given))
        ends = np.flatnonzero(np.diff(given[order])) + 1
        found = Counter(tuple(part.tolist()) for part in np.split(places.reshape(-1)[order], ends))
        kinds = sorted(found)
        members = np.array([cell for kind in kinds for cell in kind], dtype=np.int64)
        kind = np.repeat(np.arange(len(kinds)), [len(kind) for kind in kinds])
        return cls(cells[members], kind, np.array([found[kind] for kind in kinds], dtype=np.int64))

    def draw(self, n_resamples: int, seed: int) -> Iterator[Numbers]:
        """Draw as many texts as there are, with replacement, and count those of each kind.

        :return: Blocks of resamples. Shape: (resamples, kinds).
        """
        return resampled(self.counts, n_resamples, seed)

    def count_classes(self, n_classes: int, answer: int = 1) -> "ClassCounts":
        """Count in one text of each kind what the scores of classes are made of.

        :param n_classes: Labels that are no lower than this are of no class.
        :param answer: The column of the answers.
        """
        gold, given = self.cells[:, 0], self.cells[:, answer]
        size = len(self.counts) * n_classes

        def count(label: Numbers, flags: NDArray[np.bool_]) -> Values:
            places = self.kind[flags] * n_classes + label[flags]
            return np.bincount(places, minlength=size).astype(np.float64).reshape(-1, n_classes)

        known = gold < n_classes
        return ClassCounts(count(gold, known & (gold == given)), count(gold, known), count(given, given < n_classes))


@dataclass(frozen=True, slots=True, eq=False)
class ClassCounts:
    """What the scores of each class are made of. All shapes: (resamples, classes)."""

    found: Values
    """Right answers of each class."""
    wanted: Values
    """Gold labels of each class."""
    given: Values
    """Answers of each class."""

    def times(self, draws: Numbers | Values) -> "ClassCounts":
        """Add up over kinds of texts.

        :param draws: How often each kind was drawn. Shape: (resamples, kinds).
        """
        weights = draws.astype(np.float64)
        return ClassCounts(weights @ self.found, weights @ self.wanted, weights @ self.given)

    @property
    def precision(self) -> Values:
        """Share of the answers of a class that is right; 0 when there is none."""
        return np.asarray(self.found / np.maximum(self.given, 1))

    @property
    def recall(self) -> Values:
        """Share of the gold labels of a class that was found; 0 when there is none."""
        return np.asarray(self.found / np.maximum(self.wanted, 1))

    @property
    def f1(self) -> Values:
        """Harmonic mean of the two; 0 when nothing was found."""
        return np.asarray(2 * self.found / np.maximum(self.wanted + self.given, 1))

    @property
    def macro_f1(self) -> Values:
        """Mean F1 over classes. Shape: (resamples,)."""
        return np.asarray(self.f1.mean(axis=1))


def resampled(counts: Numbers, n_resamples: int, seed: int) -> Iterator[Numbers]:
    """Draw as many texts as there are, with replacement, and count those of each kind.

    Counts of a resample follow a multinomial distribution, so that texts need not be drawn one by one.

    :return: Blocks of resamples. Shape: (resamples, kinds).
    """
    generator = np.random.default_rng(seed)
    n_texts = int(counts.sum())
    step = max(1, BLOCK // len(counts))
    for start in range(0, n_resamples, step):
        yield generator.multinomial(n_texts, counts / n_texts, size=min(step, n_resamples - start))


def check_sizes(n_instances: int, n_resamples: int) -> None:
    """Refuse what cannot be drawn from."""
    if n_instances < 1:
        raise ValueError("There are no instances to draw from. Give at least one.")
    if n_resamples < 1:
        raise ValueError(f"n_resamples must be at least 1, got {n_resamples}.")


def shared(texts: ArrayLike | None, n_instances: int) -> Numbers | None:
    """Refuse texts that are not numbered, or not one for each instance.

    :return: The numbers; nothing where each instance is a text of its own.
    """
    if texts is None:
        return None
    given = np.asarray(texts)
    if given.ndim != 1 or given.dtype.kind not in "iu":
        raise ValueError("Texts must be one row of whole numbers. Make them with number_texts(texts).")
    if len(given) != n_instances:
        raise ValueError(f"There are {n_instances} instances but {len(given)} texts. Give one each.")
    return None if len(np.unique(given)) == n_instances else given.astype(np.int64)
