"""Which documents a study shows: drawn by lot, with the corpus's mix of labels, each from another text if possible."""

from collections.abc import Sequence
from itertools import zip_longest

import numpy as np

from fresh.data.splits import apportion
from fresh.document import Document, Example, Mask


def draw(examples: Sequence[Example], n: int, generator: np.random.Generator) -> list[int]:
    """Draw so many examples, with the mix of labels that all have.

    Where several documents are one text, such as a passage with many questions, texts that were not drawn yet go first.

    :return: Their places among the examples, in the order in which they are shown.
    """
    sizes: dict[str, int] = {}
    for example in sorted(examples, key=lambda example: example.label):
        sizes[example.label] = sizes.get(example.label, 0) + 1
    room = apportion(n, sizes, sizes)
    chosen: list[int] = []
    texts: set[tuple[str, ...]] = set()
    repeats: list[int] = []
    shuffled = [int(place) for place in generator.permutation(len(examples))]
    for new in (True, False):
        for place in shuffled if new else repeats:
            label, words = examples[place].label, examples[place].document.words
            if not room[label]:
                continue
            if new and words in texts:
                repeats.append(place)
                continue
            texts.add(words)
            room[label] -= 1
            chosen.append(place)
    return [chosen[int(place)] for place in generator.permutation(len(chosen))]


def in_turns(examples: Sequence[Example]) -> list[Example]:
    """Have the labels take turns, as long as there are examples of each."""
    by_label: dict[str, list[Example]] = {}
    for example in examples:
        by_label.setdefault(example.label, []).append(example)
    return [example for turn in zip_longest(*by_label.values()) for example in turn if example is not None]


def random_mask(document: Document, n_kept: int, contiguous: bool, generator: np.random.Generator) -> Mask:
    """Keep so many words by lot, in one run or anywhere; what is kept stays in the order of the text."""
    n_words = len(document.words)
    if contiguous:
        start = int(generator.integers(n_words - n_kept + 1))
        return Mask.from_spans([(start, start + n_kept)] if n_kept else [], n_words)
    kept = np.zeros(n_words, dtype=np.bool_)
    kept[generator.choice(n_words, size=n_kept, replace=False)] = True
    return Mask(kept)
