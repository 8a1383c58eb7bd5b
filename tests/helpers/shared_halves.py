"""What tests of halves share with others."""

import numpy as np

from fresh.nn.tokenizer import Text
from tiny import WORDS


def texts(*sizes: int) -> list[Text]:
    """Texts of so many words, those of an odd number with a query."""
    generator = np.random.default_rng(1)
    return [Text(tuple(generator.choice(WORDS, size).tolist()), ("praise", "it") if size % 2 else ()) for size in sizes]
