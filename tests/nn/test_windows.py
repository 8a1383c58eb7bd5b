import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from fresh.nn.batch import Batch, Layout
from fresh.nn.windows import Windows


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
