"""What is shown is what was read, also where the support model reads only beginnings."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import small
from fresh.data.splits import BadRows, Splits
from fresh.document import Document, Example
from fresh.evaluation.length_check import drop_too_long
from fresh.nn.tokenizer import Text
from fresh.pipeline import train
from fresh.progress import SILENT
from fresh.rationalizer import Rationalizer

LONG = 150
"""More words than the 64 positions of the tiny encoder."""


@pytest.fixture(scope="module", params=["top_k", "contiguous"])
def model(request: pytest.FixtureRequest, toy: Splits, encoders: dict[str, Path]) -> Rationalizer:
    some = small.some(toy, 24, 8)
    long = tuple(Example(lengthened(item.document), item.label) for item in some.train)
    settings: dict[str, Any] = small.run_settings(encoders["bert"], epochs=1, ratio=0.9, baseline=False)
    parts = Splits(long, some.dev, some.test)
    return train(parts, long="truncate", discretizer=request.param, progress=SILENT, **settings)


def lengthened(document: Document) -> Document:
    return Document.from_words([*document.words, *["film"] * LONG], id=document.id)


def test_a_word_that_was_not_read_is_never_kept(model: Rationalizer, toy: Splits) -> None:
    documents = [lengthened(example.document) for example in toy.test]
    for explanation in model.explain(documents):
        kept = np.flatnonzero(explanation.mask.kept)
        assert 0 < len(kept) <= 62
        assert kept[-1] < 62


def test_a_predictor_reads_every_word_that_is_shown(model: Rationalizer, toy: Splits) -> None:
    explained = model.explain([lengthened(example.document) for example in toy.test])
    for pieces in model.predictor.classifier.tokenizer([Text(item.rationale.words) for item in explained]):
        assert pieces.n_read == pieces.n_words
    [many] = model.predictor.classifier.tokenizer([Text(("film",) * LONG)])
    assert many.n_read == LONG


def test_a_long_document_is_not_left_out_where_beginnings_are_read(model: Rationalizer) -> None:
    endless, bad = Document.from_words(["film"] * 5000), BadRows()
    assert list(drop_too_long(iter([endless]), model, bad)) == [endless]
    assert bad.count == 0
    assert 0 < model.explain(endless).mask.kept.sum() <= 62
