"""Seconds that the discretizers take, beside plain Python that goes from document to document.

python benchmarks/discretizers.py [--documents 100000] [--words 300] [--scores attention|signed] [--without-python]

Both sides read saliencies and return masks, and the masks must be the same. Seconds are those of one core, the least
of three runs where these are short; memory is the most that the process held while our side ran, less what it held
before, and all of it. For one core, set OMP_NUM_THREADS=1.
"""

import argparse
import heapq
import math
import os
import sys
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fresh.document import Mask, Saliency
from fresh.selection.discretizers import Contiguous, Discretizer, GlobalContiguous, GlobalTopK, Threshold, TopK, budget

Choice = Callable[[Sequence[Saliency]], list[Mask]]

RATIO = 0.2
MINIMUM = 0.1


def make_saliencies(n_documents: int, n_words: int, scores: str = "attention") -> list[Saliency]:
    """Draw scores: positive ones that add up to one in each document, as attention's do, or signed ones."""
    generator = np.random.default_rng(0)
    saliencies: list[Saliency] = []
    while len(saliencies) < n_documents:
        shape = (min(1000, n_documents - len(saliencies)), n_words)
        drawn = generator.normal(size=shape) if scores == "signed" else attention(generator, shape)
        saliencies += [Saliency(row, "pos") for row in drawn]
    return saliencies


def attention(generator: np.random.Generator, shape: tuple[int, int]) -> NDArray[np.float64]:
    """Draw a distribution over the words of each document. Shape: (documents, words)."""
    drawn = generator.exponential(size=shape)
    drawn /= drawn.sum(axis=1, keepdims=True)
    return drawn


# The same in plain Python


def python_top_k(saliencies: Sequence[Saliency]) -> list[Mask]:
    """Sort the words of each document."""
    masks = []
    for saliency in saliencies:
        scores = saliency.scores.tolist()
        masks.append(mask_of(best_first(scores)[: budget(len(scores), RATIO)], len(scores)))
    return masks


def python_contiguous(saliencies: Sequence[Saliency]) -> list[Mask]:
    """Slide a window over each document."""
    masks = []
    for saliency in saliencies:
        scores = saliency.scores.tolist()
        length = budget(len(scores), RATIO)
        start = best_start(scores, length)
        masks.append(mask_of(range(start, start + length), len(scores)))
    return masks


def python_threshold(saliencies: Sequence[Saliency], cutoff: float) -> list[Mask]:
    """Compare each word of each document."""
    masks = []
    for saliency in saliencies:
        scores = saliency.scores.tolist()
        flags = [score >= cutoff for score in scores]
        flags[scores.index(max(scores))] = True
        masks.append(Mask(np.array(flags)))
    return masks


def python_global_top_k(saliencies: Sequence[Saliency]) -> list[Mask]:
    """Take each document's best words, then the best of all others."""
    kept, left = [], []
    for document, saliency in enumerate(saliencies):
        scores = saliency.scores.tolist()
        best, minimum = best_first(scores), budget(len(scores), MINIMUM)
        kept.append(best[:minimum])
        left += [(-scores[word], document, word) for word in best[minimum:]]
    left.sort()
    for _, document, word in left[: n_spare(saliencies)]:
        kept[document].append(word)
    return [mask_of(words, len(saliency)) for words, saliency in zip(kept, saliencies, strict=True)]


def python_global_contiguous(saliencies: Sequence[Saliency]) -> list[Mask]:
    """Let the window grow that gains most, by a heap."""
    walks = [grow(saliency.scores.tolist(), budget(len(saliency), MINIMUM)) for saliency in saliencies]
    windows = [next(walk)[1:] for walk in walks]
    heap = [(-gain, document, start, end) for document, walk in enumerate(walks) for gain, start, end in first(walk)]
    heapq.heapify(heap)
    for _ in range(n_spare(saliencies)):
        _, document, *window = heapq.heappop(heap)
        windows[document] = (window[0], window[1])
        for gain, start, end in first(walks[document]):
            heapq.heappush(heap, (-gain, document, start, end))
    return [mask_of(range(*window), len(saliency)) for window, saliency in zip(windows, saliencies, strict=True)]


def first(walk: Iterator[tuple[float, int, int]]) -> list[tuple[float, int, int]]:
    """Take one step, if there is one."""
    step = next(walk, None)
    return [] if step is None else [step]


def grow(scores: list[float], length: int) -> Iterator[tuple[float, int, int]]:
    """Walk through a document's best windows, each a word longer: what it gains, its start and its end."""
    start = best_start(scores, length)
    yield 0.0, start, start + length
    for longer in range(length + 1, len(scores) + 1):
        following = best_start(scores, longer)
        if following == start:
            gain = scores[start + longer - 1]
        elif following == start - 1:
            gain = scores[following]
        else:
            lost = (-score for score in scores[start : start + longer - 1])
            gain = math.fsum((*scores[following : following + longer], *lost))
        start = following
        yield gain, start, start + longer


def best_first(scores: list[float]) -> list[int]:
    """Sort a document's words, the earlier one first where they tie."""
    return sorted(range(len(scores)), key=lambda word: -scores[word])


def best_start(scores: list[float], length: int) -> int:
    """Find the best window by its running sum: the leftmost of those that only rounding tells apart."""
    total = sum(scores[:length])
    sums = [total]
    for end in range(length, len(scores)):
        total += scores[end] - scores[end - length]
        sums.append(total)
    noise = 2 * (len(scores) + 1) * sys.float_info.epsilon * sum(map(abs, scores))
    enough = max(sums) - noise
    return next(start for start, total in enumerate(sums) if total >= enough)


def mask_of(words: Sequence[int], n_words: int) -> Mask:
    """Mark some words."""
    flags = [False] * n_words
    for word in words:
        flags[word] = True
    return Mask(np.array(flags))


def n_spare(saliencies: Sequence[Saliency]) -> int:
    """Count what the common budget holds beyond the minima."""
    n_words = [len(saliency) for saliency in saliencies]
    return max(0, budget(sum(n_words), RATIO) - sum(budget(n, MINIMUM) for n in n_words))


# Measuring


class Memory:
    """Watches how much memory the process holds while a block runs, in megabytes."""

    def __enter__(self) -> "Memory":
        self.done = threading.Event()
        self.before = self.most = resident()
        self.context = threading.Thread(target=self.look)
        self.context.start()
        return self

    def look(self) -> None:
        """Look again and again."""
        while not self.done.wait(0.01):
            self.most = max(self.most, resident())

    def __exit__(self, *_: object) -> None:
        self.most = max(self.most, resident())
        self.done.set()
        self.context.join()


def resident() -> float:
    """Megabytes of memory that the process holds."""
    return int(Path("/proc/self/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE") / 1e6


def contestants(cutoff: float) -> dict[str, tuple[Discretizer, Choice]]:
    """Name what is measured: our discretizer and the plain one."""
    return {
        "top_k": (TopK(RATIO), python_top_k),
        "contiguous": (Contiguous(RATIO), python_contiguous),
        "global_top_k": (GlobalTopK(RATIO, MINIMUM), python_global_top_k),
        "global_contiguous": (GlobalContiguous(RATIO, MINIMUM), python_global_contiguous),
        "threshold": (Threshold(cutoff), lambda saliencies: python_threshold(saliencies, cutoff)),
    }


def rows(n_documents: int, n_words: int, scores: str = "attention", with_python: bool = True) -> list[dict[str, Any]]:
    """Measure each discretizer: seconds of ours and of plain Python, and the memory that ours took."""
    saliencies = make_saliencies(n_documents, n_words, scores)
    cutoff = 1.0 if scores == "signed" else 2 / n_words
    return [
        measure(name, saliencies, discretizer, plain if with_python else None) | {"words": n_words, "scores": scores}
        for name, (discretizer, plain) in contestants(cutoff).items()
    ]


def measure(
    name: str, saliencies: Sequence[Saliency], discretizer: Discretizer, plain: Choice | None = None
) -> dict[str, Any]:
    """Measure one discretizer, and check it against plain Python."""
    with Memory() as memory:
        masks, seconds = timed(discretizer.select, saliencies)
    row = {"discretizer": name, "documents": len(saliencies), "seconds": seconds}
    row |= {"memory_mb": memory.most - memory.before, "process_mb": memory.most}
    if plain is not None:
        same, python_seconds = timed(plain, saliencies)
        if same != masks:
            raise AssertionError(f"{name}: plain Python keeps other words.")
        row |= {"python_seconds": python_seconds, "ratio": python_seconds / seconds}
    print(as_line(row), flush=True)
    return row


def timed(choose: Choice, saliencies: Sequence[Saliency]) -> tuple[list[Mask], float]:
    """Choose up to three times, as long as that takes seconds only; return the masks and the least seconds."""
    seconds: list[float] = []
    masks: list[Mask] = []
    while len(seconds) < 3 and sum(seconds) < 20:
        masks.clear()
        started = time.process_time()
        masks = choose(saliencies)
        seconds.append(time.process_time() - started)
    return masks, min(seconds)


def as_line(row: dict[str, Any]) -> str:
    """Write a line of the table."""
    plain = f"{row['python_seconds']:8.2f} {row['ratio']:6.1f}" if "ratio" in row else f"{'-':>8} {'-':>6}"
    return f"{row['discretizer']:18} {row['seconds']:8.2f} {plain} {row['memory_mb']:7.0f} {row['process_mb']:9.0f}"


def main() -> None:
    """Print a line for each discretizer."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--documents", type=int, default=100_000)
    parser.add_argument("--words", type=int, default=300)
    parser.add_argument("--scores", choices=("attention", "signed"), default="attention")
    parser.add_argument("--without-python", action="store_true")
    args = parser.parse_args()
    print(f"{args.documents} documents of {args.words} words, {args.scores} scores")
    print(f"{'':18} {'seconds':>8} {'python':>8} {'ratio':>6} {'MB':>7} {'MB in all':>9}")
    rows(args.documents, args.words, args.scores, not args.without_python)


if __name__ == "__main__":
    main()
