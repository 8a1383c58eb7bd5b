"""What tests of tagger share with others."""

from collections.abc import Sequence

from fresh.document import Document, Example, Mask
from fresh.nn.token_classifier import Kind
from fresh.selection.discretizers import TopK

KINDS: tuple[Kind, ...] = ("words", "chain")


ONE_WORD = TopK(0.1)
"""Keeps a single word of each document of the toy corpus."""


def marks(examples: Sequence[Example]) -> list[tuple[Document, Mask]]:
    return [(example.document, example.human) for example in examples if example.human is not None]
