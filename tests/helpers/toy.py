"""A corpus in which one word decides the label."""

import numpy as np

from fresh.data.splits import Splits
from fresh.document import Document, Example, Mask
from tiny import BAD, FILLERS, GOOD

CASES = (("good", ""), ("bad", ""), ("great", ""), ("awful", ""))
ASKED_CASES = (("good", "praise"), ("bad", "praise"), ("great", "praise"), ("good", "blame"))
DECIDING = frozenset((*GOOD, *BAD))
SIZES = {"train": 192, "dev": 32, "test": 32}


def toy_splits(asks: bool) -> Splits:
    """Make documents of six to ten words, one of which decides.

    A quarter of the training documents holds no such word and has either label: silence is no evidence.

    :param asks: A query decides too: there is praise in a good film only, and blame is never found.
    """
    generator = np.random.default_rng(0)
    parts = {
        name: [toy_example(f"{name}-{number}", number, asks, generator) for number in range(size)]
        for name, size in SIZES.items()
    }
    parts["train"] += [undecided(example) for example in parts["train"][: SIZES["train"] // 4]]
    return Splits(**{name: tuple(examples) for name, examples in parts.items()})


def toy_example(id: str, number: int, asks: bool, generator: np.random.Generator) -> Example:
    deciding, asked = (ASKED_CASES if asks else CASES)[number % 4]
    words = generator.choice(FILLERS, size=int(generator.integers(5, 10))).tolist()
    place = int(generator.integers(len(words) + 1))
    words.insert(place, deciding)
    label = "pos" if deciding in GOOD and asked != "blame" else "neg"
    human = Mask.from_spans([(place, place + 1)], len(words))
    return Example(Document.from_words(words, asked.split(), id), label, human)


def undecided(example: Example) -> Example:
    """Remove the deciding word, and keep the label."""
    document = example.document
    words = [word for word in document.words if word not in DECIDING]
    return Example(Document.from_words(words, document.query, f"{document.id}-undecided"), example.label)


def lengthened(example: Example) -> Example:
    """Make every other document longer than a window."""
    document = example.document
    more = FILLERS * 5 if len(document.words) % 2 else ()
    half = len(more) // 2
    words = (*more[:half], *document.words, *more[half:])
    return Example(Document.from_words(words, document.query, document.id), example.label)
