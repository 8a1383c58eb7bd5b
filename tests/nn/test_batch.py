"""Tokens in flat arrays become batches and windows, against the same worked out text by text."""

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from fresh.nn.batch import NO_WORD, Batch, Collator, FlatRows, TokenTable, Windows, sum_by_word

CPU = torch.device("cpu")
FIELDS = ("ids", "types", "positions", "word_of")
Rows = list[list[int]]
"""One list of numbers per field of a text, and its numbers of words and of words that are read."""


def table_of(texts: Sequence[Rows]) -> TokenTable:
    ids, types, positions, word_of = (
        np.array([n for text in texts for n in text[field]], dtype=np.int32) for field in range(4)
    )
    starts = np.cumsum([0, *(len(text[0]) for text in texts)])
    n_words, n_read = (np.array([text[4][place] for text in texts], dtype=np.int64) for place in (0, 1))
    return TokenTable(ids, types, positions, word_of, starts, n_words, n_read)


def encoded(word_of: list[int], n_words: int) -> Rows:
    places = list(range(len(word_of)))
    return [[n + 10 for n in places], [n % 2 for n in places], [n + 2 for n in places], word_of, [n_words, n_words]]


def batch_of(texts: Sequence[Rows], padding: int) -> Batch:
    return Collator(table_of(texts), CPU, padding)(np.arange(len(texts)))


def test_flat_rows_are_put_side_by_side() -> None:
    rows, values = FlatRows(np.array([3, 1, 2]), CPU), torch.arange(1, 7)
    places, is_real = rows.places(torch.tensor([2, 0, 1]), 4)
    assert (values[places] * is_real).tolist() == [[5, 6, 0, 0], [1, 2, 3, 0], [4, 0, 0, 0]]
    places, _ = rows.places(torch.tensor([0]), 2)
    assert values[places].tolist() == [[1, 2]]


@given(st.lists(st.lists(st.integers(1, 3), max_size=6), min_size=1, max_size=5), st.integers(0, 9))
def test_tokens_add_up_to_words(texts: list[list[int]], seed: int) -> None:
    owners = [[-1, *(word for word, n in enumerate(sizes) for _ in range(n)), -1] for sizes in texts]
    batch = batch_of([encoded(row, len(sizes)) for row, sizes in zip(owners, texts, strict=True)], padding=0)
    values = torch.randint(-50, 50, batch.ids.shape, generator=torch.Generator().manual_seed(seed)).float()
    for row, sizes, found in zip(range(len(texts)), texts, sum_by_word(values, batch), strict=True):
        expected = [0.0] * len(sizes)
        for place, owner in enumerate(owners[row]):
            if owner != NO_WORD:
                expected[owner] += values[row, place].item()
        assert found.tolist() == expected


@st.composite
def encoded_texts(draw: st.DrawFn) -> Rows:
    """A text of arbitrary tokens."""
    n_tokens, n_words = draw(st.integers(1, 7)), draw(st.integers(0, 5))
    rows = [draw(st.lists(st.integers(0, 99), min_size=n_tokens, max_size=n_tokens)) for _ in FIELDS]
    return [*rows, [n_words, draw(st.integers(0, n_words))]]


@given(st.lists(encoded_texts(), min_size=1, max_size=5), st.data())
def test_a_batch_has_the_rows_of_the_table_padded(texts: list[Rows], data: st.DataObject) -> None:
    numbers = data.draw(st.lists(st.integers(0, len(texts) - 1), min_size=1, max_size=6))
    chosen, table = [texts[number] for number in numbers], table_of(texts)
    longest = max(len(text[0]) for text in chosen)
    width = data.draw(st.integers(0, 3)) + longest
    collate = Collator(table, CPU, padding=77)
    states = torch.arange(len(table.ids)).double().unsqueeze(1)  # one row per token: its place in the table
    batch = collate.batch(torch.tensor(numbers), width, dense=False, states=states)
    first = texts[0][2][0]  # padding needs any valid position
    for field, name, fill in zip(range(4), FIELDS, (77, 0, first, NO_WORD), strict=True):
        expected = [text[field] + [fill] * (width - len(text[field])) for text in chosen]
        assert getattr(batch, name).tolist() == expected, name
        assert getattr(batch, name).dtype == torch.int64
    assert batch.mask.tolist() == [[1] * len(text[0]) + [0] * (width - len(text[0])) for text in chosen]
    assert batch.hidden is not None
    assert batch.hidden.dtype == torch.float32
    places = batch.hidden.squeeze(-1)[batch.mask.bool()].tolist()
    assert [int(table.ids[int(place)]) for place in places] == [id for text in chosen for id in text[0]]
    narrow = collate(np.array(numbers))
    assert narrow.ids.tolist() == batch.ids[:, :longest].tolist()
    assert [narrow.n_words, narrow.n_read] == [tuple(text[4][place] for text in chosen) for place in (0, 1)]
    assert narrow.dense == bool(narrow.mask.all())
    mask = narrow.encoder_inputs(torch.nn.Identity())["attention_mask"]
    assert mask is (None if narrow.dense else narrow.mask)


# Windows


@given(st.integers(1, 4), st.integers(1, 40), st.integers(1, 16), st.integers(0, 3))
def test_unfolding_reverses_folding(n_texts: int, width: int, size: int, wide: int) -> None:
    shape = (n_texts, width, wide) if wide else (n_texts, width)
    values = torch.arange(n_texts * width * max(1, wide)).view(shape)
    windows = Windows(size)
    folded = windows.fold_rows(values, fill=-1)
    assert folded.shape[:2] == ((n_texts * -(-width // size), size) if width > size else (n_texts, width))
    assert torch.equal(windows.unfold(folded, n_texts, width), values)
    assert sorted(folded[folded >= 0].tolist()) == sorted(values.flatten().tolist())
    assert torch.equal(Windows().fold_rows(values), values)


def test_windows_become_rows_by_hand() -> None:
    owners = torch.tensor([[-1, 0, 1, -1, -1, 1], [-1, 0, -1, -1, -1, -1]])
    mask = torch.tensor([[1, 1, 1, 1, 1, 1], [1, 1, 1, 0, 0, 0]])
    positions, ids = torch.tensor([[2, 3, 4, 5, 2, 3]] * 2), torch.arange(10, 22).view(2, 6)
    folded = Windows(4).fold(
        Batch(ids, torch.ones_like(ids), positions, owners, mask, dense=False, hidden=ids[..., None])
    )
    assert folded.ids.tolist() == [[10, 11, 12, 13], [14, 15, 0, 0], [16, 17, 18, 19], [20, 21, 0, 0]]
    assert folded.types.tolist() == [[1] * 4, [1, 1, 0, 0]] * 2
    assert folded.word_of.tolist() == [[-1, 0, 1, -1], [-1, 1, -1, -1], [-1, 0, -1, -1], [-1] * 4]
    assert folded.mask.tolist() == [[1] * 4, [1, 1, 0, 0], [1, 1, 1, 0], [1, 0, 0, 0]]  # the last attends to something
    assert folded.positions.tolist() == [[2, 3, 4, 5], [2, 3, 0, 0], [2, 3, 4, 5], [2, 3, 0, 0]]
    assert folded.hidden is not None
    assert folded.hidden.squeeze(-1).tolist() == folded.ids.tolist()


@pytest.mark.parametrize(("width", "dense"), [(4, True), (8, True), (6, False)])
def test_only_full_windows_are_dense(width: int, dense: bool) -> None:
    ones = torch.ones(2, width, dtype=torch.int64)
    batch = Batch(ones, ones, ones, ones, ones, dense=True)
    folded = Windows(4).fold(batch)
    assert folded.dense == dense
    assert bool(folded.mask.all()) == dense
    assert not Windows(4).fold(replace(batch, dense=False)).dense
