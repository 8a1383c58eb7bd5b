"""Which words to keep, given how many: the best words or the best window, in many rows of scores at once."""

import heapq
import itertools
import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Self

import numpy as np
from numpy.typing import NDArray

Counts = NDArray[np.int64]
Flags = NDArray[np.bool_]
Places = NDArray[np.intp]
Scores = NDArray[np.float64]
Step = tuple[float, int, int]


def by_length(rows: Sequence[Scores]) -> Iterator[tuple[list[int], Scores]]:
    """Walk through rows of one length together: their places, and a matrix of them."""
    n_words = np.array([len(row) for row in rows], dtype=np.int64)
    order = np.argsort(n_words, kind="stable")
    for places in np.split(order, np.flatnonzero(np.diff(n_words[order])) + 1):
        if places.size:
            yield places.tolist(), np.stack([rows[place] for place in places.tolist()])


def choose_rows(rows: Sequence[Scores], counts: Counts, choose: Callable[[Scores, int], Flags]) -> list[Flags]:
    """Choose in all rows of one length at once.

    :param counts: How many words to keep in each row; rows of one length keep equally many.
    :param choose: Marks so many words in each row of a matrix, and lets no row see another.
    """
    chosen: dict[int, Flags] = {}
    for places, scores in by_length(rows):
        chosen.update(zip(places, choose(scores, int(counts[places[0]])), strict=True))
    return [chosen[place] for place in range(len(rows))]


def top_k(scores: Scores, k: int, cutoff: float = math.inf) -> Flags:
    """Mark the k highest scores of each row, the earlier one where they tie, and all that reach the cut-off.

    :param scores: Shape: (documents, words).
    :return: Shape: (documents, words).
    """
    kept: Flags = scores >= cutoff
    np.put_along_axis(kept, np.argsort(-scores, axis=1, kind="stable")[:, :k], True, axis=1)
    return kept


def best_windows(scores: Scores, k: int, cutoff: float = math.inf) -> Flags:
    """Mark the best window of k words in each row, and let it grow while the next word gains enough.

    :param scores: Shape: (documents, words).
    :param cutoff: The gain that makes a window grow.
    :return: Shape: (documents, words).
    """
    windows, n_words = Windows.of(scores), scores.shape[1]
    starts = windows.best(k)
    ends = starts + k
    growing = np.arange(len(scores) if cutoff < math.inf else 0)
    for length in range(k, n_words):
        if not growing.size:
            break
        part = windows.rows(growing)
        following = part.best(length + 1)
        worth = part.gains(starts[growing], following, length) >= cutoff
        growing, following = growing[worth], following[worth]
        starts[growing], ends[growing] = following, following + length + 1
    return mark(starts, ends, n_words)


def mark(starts: Places, ends: Places, n_words: int) -> Flags:
    """Mark one window in each row. Shape: (documents, words)."""
    words = np.arange(n_words)
    return (words >= starts[:, None]) & (words < ends[:, None])


@dataclass(frozen=True, slots=True)
class Windows:
    """The windows of documents of one length, one document a row.

    Windows tie when their sums lie within 2 (n + 1) ε Σ|score| of the best, where n counts the document's words and ε
    is the spacing of numbers at 1: a bound on what rounding can do to the difference of two sums of n numbers.
    """

    scores: Scores
    """Shape: (documents, words)."""
    sums: Scores
    """Sums of the first words, scaled. Shape: (documents, words + 1)."""
    noise: Scores
    """How far apart two scaled sums may be and still tie. Shape: (documents, 1)."""

    @classmethod
    def of(cls, scores: Scores) -> Self:
        """Add up the scores of each row."""
        # A power of two scales exactly, and then no sum can overflow.
        _, exponent = np.frexp(np.abs(scores).max(axis=1, initial=0.0, keepdims=True))
        scaled = np.ldexp(scores, -exponent)
        sums = np.pad(np.cumsum(scaled, axis=1), ((0, 0), (1, 0)))
        absolute = np.abs(scaled).sum(axis=1, keepdims=True)
        return cls(scores, sums, 2 * sums.shape[1] * np.finfo(np.float64).eps * absolute)

    def rows(self, which: Places | slice) -> "Windows":
        """Look at some of the documents."""
        return Windows(self.scores[which], self.sums[which], self.noise[which])

    def best(self, length: int) -> Places:
        """Find where the best window starts in each row, the leftmost where they tie."""
        sums = self.sums[:, length:] - self.sums[:, : self.sums.shape[1] - length]
        ties = sums >= sums.max(axis=1, keepdims=True) - self.noise
        starts: Places = ties.argmax(axis=1)
        return starts

    def gains(self, starts: Places, following: Places, length: int) -> Scores:
        """Say what each row gains by going from its best window to the one that is a word longer.

        The exact difference, rounded once, so that equal gains are equal in whatever document they arise. Where the
        longer window holds the shorter one, it is the score of the added word.
        """
        added = np.where(following == starts, starts + length, following)
        gains = np.take_along_axis(self.scores, added[:, None], axis=1)[:, 0]
        for row in np.flatnonzero((following != starts) & (following != starts - 1)).tolist():
            lost = self.scores[row, starts[row] : starts[row] + length]
            won = self.scores[row, following[row] : following[row] + length + 1]
            gains[row] = math.fsum((*won.tolist(), *(-lost).tolist()))
        return gains


def spend_on_words(rows: Sequence[Scores], minima: Counts, n_spare: int) -> tuple[list[Flags], list[float]]:
    """Mark the minimum in each row and then the best words of all rows; also return the scores of the latter."""
    if not rows:
        return [], []
    scores, kept = np.concatenate(rows), np.concatenate(choose_rows(rows, minima, top_k))
    left = np.flatnonzero(~kept)
    taken = left[np.argsort(-scores[left], kind="stable")[:n_spare]]
    kept[taken] = True
    return np.split(kept, np.cumsum([len(row) for row in rows])[:-1]), scores[taken].tolist()


def spend_on_windows(rows: Sequence[Scores], minima: Counts, n_spare: int) -> tuple[list[Flags], list[float]]:
    """Mark the best window of minimal length in each row and then grow some; also return what each step gained."""
    kept: dict[int, Flags] = {}
    walks: dict[int, Iterator[Step]] = {}
    for places, scores in by_length(rows):
        length, windows = int(minima[places[0]]), Windows.of(scores)
        starts = windows.best(length)
        kept.update(zip(places, mark(starts, starts + length, scores.shape[1]), strict=True))
        for row, place in enumerate(places):
            only = slice(row, row + 1)
            walks[place] = longer_windows(windows.rows(only), starts[only], length)
    taken = list(take_greedily([walks[place] for place in range(len(rows))], n_spare))
    for document, (_, start, end) in dict(taken).items():
        kept[document] = mark(np.array([start]), np.array([end]), len(rows[document]))[0]
    return [kept[place] for place in range(len(rows))], [gain for _, (gain, _, _) in taken]


def longer_windows(windows: Windows, starts: Places, length: int) -> Iterator[Step]:
    """Walk through one document's best windows, each a word longer: what it gains, its start and its end."""
    for n_kept in range(length, windows.scores.shape[1]):
        following = windows.best(n_kept + 1)
        [gain] = windows.gains(starts, following, n_kept).tolist()
        starts = following
        yield gain, int(starts[0]), int(starts[0]) + n_kept + 1


def take_greedily(walks: Sequence[Iterator[Step]], n_steps: int) -> Iterator[tuple[int, Step]]:
    """Take the step that gains most, again and again, each in its document; the earlier document wins a tie."""
    heap = [(-step[0], document, step) for document, walk in enumerate(walks) for step in itertools.islice(walk, 1)]
    heapq.heapify(heap)
    for _ in range(n_steps):
        _, document, step = heapq.heappop(heap)
        yield document, step
        for following in itertools.islice(walks[document], 1):
            heapq.heappush(heap, (-following[0], document, following))
