from collections.abc import Sequence

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from fresh.nn.batch import NO_WORD, Batch, Collator, EncodedText, Flat, Layout, TokenTable, Windows, sum_by_word

CPU = torch.device("cpu")
TENSORS = ("ids", "types", "positions", "word_of", "mask")


def encoded(word_of: Sequence[int], n_words: int) -> EncodedText:
    places = np.arange(len(word_of), dtype=np.int32)
    return EncodedText(places + 10, places % 2, places + 2, np.array(word_of, dtype=np.int32), n_words, n_words)


def batch_of(texts: Sequence[EncodedText], padding: int) -> Batch:
    return Collator(TokenTable.of(texts), CPU, padding)(np.arange(len(texts)))


def test_shorter_texts_are_padded() -> None:
    batch = batch_of([encoded([-1, 0, 0, -1], 1), encoded([-1, -1], 0)], padding=9)
    assert batch.ids.tolist() == [[10, 11, 12, 13], [10, 11, 9, 9]]
    assert batch.types.tolist() == [[0, 1, 0, 1], [0, 1, 0, 0]]
    assert batch.positions.tolist() == [[2, 3, 4, 5], [2, 3, 2, 2]]
    assert batch.word_of.tolist() == [[-1, 0, 0, -1], [-1, -1, -1, -1]]
    assert batch.mask.tolist() == [[1, 1, 1, 1], [1, 1, 0, 0]]
    assert (batch.n_words, batch.n_read) == ((1, 0), (1, 0))


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
def encoded_texts(draw: st.DrawFn) -> EncodedText:
    """A text of any tokens at all."""
    n_tokens, n_words = draw(st.integers(1, 7)), draw(st.integers(0, 5))

    def row() -> Flat:
        return np.array(draw(st.lists(st.integers(0, 99), min_size=n_tokens, max_size=n_tokens)), dtype=np.int32)

    return EncodedText(row(), row(), row(), row(), n_words, draw(st.integers(0, n_words)))


def rows(text: EncodedText) -> tuple[list[int], ...]:
    return text.ids.tolist(), text.types.tolist(), text.positions.tolist(), text.word_of.tolist()


@given(st.lists(encoded_texts(), max_size=5))
def test_a_table_gives_its_texts_back(texts: list[EncodedText]) -> None:
    table = TokenTable.of(texts)
    assert len(table) == len(texts)
    assert table.lengths.tolist() == [len(text) for text in texts]
    assert [rows(text) for text in table] == [rows(text) for text in texts]
    assert [(text.n_words, text.n_read) for text in table] == [(text.n_words, text.n_read) for text in texts]
    assert {array.dtype for array in (table.ids, table.types, table.positions, table.word_of)} == {np.dtype(np.int32)}


@given(st.lists(st.lists(encoded_texts(), max_size=3), min_size=1, max_size=3))
def test_tables_are_put_one_after_the_other(tables: list[list[EncodedText]]) -> None:
    joined = TokenTable.concatenate([TokenTable.of(texts) for texts in tables])
    whole = TokenTable.of([text for part in tables for text in part])
    for name in (*TENSORS[:4], "starts", "n_words", "n_read"):
        assert getattr(joined, name).tolist() == getattr(whole, name).tolist(), name
        assert getattr(joined, name).dtype == getattr(whole, name).dtype, name


@given(st.lists(encoded_texts(), min_size=1, max_size=5), st.data())
def test_a_batch_is_the_rows_of_the_table_padded(texts: list[EncodedText], data: st.DataObject) -> None:
    numbers = data.draw(st.lists(st.integers(0, len(texts) - 1), min_size=1, max_size=6))
    chosen = [texts[number] for number in numbers]
    width = data.draw(st.integers(0, 3)) + max(map(len, chosen))
    tensors = TokenTable.of(texts).to(CPU, padding=77)
    batch = tensors.batch(torch.tensor(numbers), width, dense=False)
    first = int(texts[0].positions[0])  # any position will do where there is no token; but it must be one
    for name, fill in zip(TENSORS[:4], (77, 0, first, NO_WORD), strict=True):
        expected = [getattr(text, name).tolist() + [fill] * (width - len(text)) for text in chosen]
        assert getattr(batch, name).tolist() == expected, name
    assert batch.mask.tolist() == [[1] * len(text) + [0] * (width - len(text)) for text in chosen]
    assert {getattr(batch, name).dtype for name in TENSORS} == {torch.int64}
    layout, _ = tensors.layout(torch.tensor(numbers), width, dense=False)
    assert torch.equal(layout.positions, batch.positions)
    assert torch.equal(layout.mask, batch.mask)


@given(st.lists(encoded_texts(), min_size=1, max_size=5), st.data())
def test_gathered_texts_are_as_wide_as_the_longest(texts: list[EncodedText], data: st.DataObject) -> None:
    numbers = data.draw(st.lists(st.integers(0, len(texts) - 1), min_size=1, max_size=6))
    chosen = [texts[number] for number in numbers]
    batch = Collator(TokenTable.of(texts), CPU, 0)(np.array(numbers))
    assert batch.ids.shape == (len(numbers), max(map(len, chosen)))
    assert batch.n_words == tuple(text.n_words for text in chosen)
    assert batch.n_read == tuple(text.n_read for text in chosen)
    assert batch.dense == (len(set(map(len, chosen))) == 1)
    assert batch.attention_mask is (None if batch.dense else batch.mask)


def test_a_batch_comes_several_times_one_after_the_other() -> None:
    batch = batch_of([encoded([-1, 0, 0, -1], 1), encoded([-1, -1], 0)], padding=9)
    thrice = batch.repeat(3)
    for name in TENSORS:
        assert getattr(thrice, name).tolist() == getattr(batch, name).tolist() * 3, name
    assert (thrice.n_words, thrice.n_read) == ((1, 0) * 3, (1, 0) * 3)
    assert not thrice.dense
    assert batch_of([encoded([-1, 0], 1)], padding=0).repeat(2).dense


# Windows


@given(st.integers(1, 4), st.integers(1, 40), st.integers(1, 16), st.integers(0, 3))
def test_what_is_folded_can_be_unfolded(n_texts: int, width: int, size: int, wide: int) -> None:
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
    folded = Windows(4, padding=9).fold(Batch(positions, mask, False, owners, ids, torch.ones_like(ids)))
    assert folded.ids.tolist() == [[10, 11, 12, 13], [14, 15, 9, 9], [16, 17, 18, 19], [20, 21, 9, 9]]
    assert folded.types.tolist() == [[1] * 4, [1, 1, 0, 0]] * 2
    assert folded.word_of.tolist() == [[-1, 0, 1, -1], [-1, 1, -1, -1], [-1, 0, -1, -1], [-1] * 4]
    assert folded.mask.tolist() == [[1] * 4, [1, 1, 0, 0], [1, 1, 1, 0], [1, 0, 0, 0]]  # the last looks at something
    assert folded.positions.tolist() == [[2, 3, 4, 5], [2, 3, 0, 0], [2, 3, 4, 5], [2, 3, 0, 0]]


@pytest.mark.parametrize(("width", "dense"), [(4, True), (8, True), (6, False)])
def test_nothing_is_filled_up_only_where_all_windows_are_full(width: int, dense: bool) -> None:
    ones = torch.ones(2, width, dtype=torch.int64)
    folded = Windows(4).fold(Layout(ones, ones, True, ones))
    assert folded.dense == dense
    assert bool(folded.mask.all()) == dense
    assert not Windows(4).fold(Layout(ones, ones, False, ones)).dense
