"""Attention that drops weights: the same as torch's, but for which weights are dropped and how much is kept."""

from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor
from torch.nn import functional

from fresh.attribution.support_model import SupportModel
from fresh.data.splits import Splits
from fresh.nn import attention_dropout as dropped
from fresh.nn.attention_dropout import _Dropped, _parts, attend
from fresh.nn.encoder import load_encoder
from fresh.nn.fast_layers import STEPS, drawn
from fresh.training.config import ClassifierConfig
from fresh.training.varlen_attention import without_padding


@pytest.fixture(autouse=True)
def short_texts_too(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(dropped, "LONG", 0)


def some(shape: Sequence[int], seed: int = 0) -> tuple[Tensor, Tensor, Tensor]:
    generator = torch.Generator().manual_seed(seed)
    query, key, value = (torch.randn(*shape, generator=generator).requires_grad_() for _ in range(3))
    return query, key, value


def in_the_open(
    query: Tensor, key: Tensor, value: Tensor, added: Tensor | None, dropout: float, scaling: float | None = None
) -> Tensor:
    """Attend with the very weights dropped that `attend` drops after the same seed."""
    kept = drawn((*query.shape[:3], key.shape[2]), round(dropout * STEPS))
    scores = query @ key.mT * (query.shape[-1] ** -0.5 if scaling is None else scaling)
    if added is not None:
        scores = scores.masked_fill(~added, -1e30) if added.dtype == torch.bool else scores + added
    return (scores.softmax(-1) * kept / (1 - dropout)) @ value


def learnt(way: Callable[..., Tensor], given: tuple[Tensor, ...], *others: Tensor | float | None) -> list[Tensor]:
    """Say what comes out, and how each tensor should change."""
    torch.manual_seed(7)
    out = way(*given, *others)
    weights = torch.linspace(-1, 1, out.numel()).view(out.shape).sin()
    return [out.detach(), *torch.autograd.grad((out * weights).sum(), given)]


def masks(n_texts: int, n_heads: int, n_pieces: int) -> dict[str, Tensor | None]:
    there = torch.arange(n_pieces) < torch.arange(n_pieces, n_pieces - n_texts, -1).clamp(min=1).unsqueeze(1)
    worth = torch.linspace(-2, 2, n_heads * n_pieces**2).sin().view(1, n_heads, n_pieces, n_pieces)
    return {"none": None, "filled up": there[:, None, None], "distances": worth}


@pytest.mark.parametrize("room", [1, 60, 200, 1 << 19])
@pytest.mark.parametrize("kind", ["none", "filled up", "distances"])
@pytest.mark.parametrize("scaling", [None, 0.3])
def test_what_comes_out_and_what_is_learnt_is_what_the_same_drops_give_in_the_open(
    room: int, kind: str, scaling: float | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(dropped, "ROOM", room)
    shape = (3, 2, 5, 4)
    added = masks(*shape[:3])[kind]
    found = learnt(attend, some(shape), added, 0.25, scaling)
    expected = learnt(in_the_open, some(shape), added, 0.25, scaling)
    for one, other in zip(found, expected, strict=True):
        torch.testing.assert_close(one, other, rtol=1e-4, atol=1e-6)


@given(
    shape=st.tuples(st.integers(1, 4), st.integers(1, 3), st.integers(1, 6), st.integers(1, 4)),
    seed=st.integers(0, 99),
    room=st.integers(1, 300),
)
def test_with_all_weights_kept_it_is_torchs_attention(shape: tuple[int, int, int, int], seed: int, room: int) -> None:
    everything = torch.ones(*shape[:3], shape[2], dtype=torch.bool)

    def ours(query: Tensor, key: Tensor, value: Tensor) -> Tensor:
        out: Tensor = _Dropped.apply(query * shape[-1] ** -0.5, key, value, None, everything)  # type: ignore[no-untyped-call]
        return out

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(dropped, "ROOM", room)
        found = learnt(ours, some(shape, seed))
    expected = learnt(functional.scaled_dot_product_attention, some(shape, seed))
    for one, other in zip(found, expected, strict=True):
        torch.testing.assert_close(one, other, rtol=1e-4, atol=1e-5)


@given(
    shape=st.tuples(st.integers(1, 9), st.integers(1, 5), st.integers(1, 9), st.integers(1, 9)),
    room=st.integers(1, 400),
)
def test_each_head_of_each_text_comes_once_and_there_is_room_for_each_part(
    shape: tuple[int, int, int, int], room: int
) -> None:
    times = torch.zeros(*shape[:2], dtype=torch.int64)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(dropped, "ROOM", room)
        for part in _parts(torch.Size(shape)):
            times[part] += 1
            n_at_once = times[part].numel()
            assert n_at_once == 1 or n_at_once * shape[2] * shape[3] <= room
    assert (times == 1).all()


@pytest.mark.parametrize("dropout", [0.0, 1.0, 1e-6])
def test_where_nothing_or_all_is_dropped_torch_attends(dropout: float) -> None:
    torch.manual_seed(0)
    given = some((2, 2, 5, 4))
    rounded = round(dropout)
    expected = functional.scaled_dot_product_attention(*given, None, rounded)
    torch.testing.assert_close(attend(*given, None, dropout), expected, atol=1e-4, rtol=1e-4)


def test_the_mean_over_many_draws_is_what_no_dropout_gives() -> None:
    torch.manual_seed(0)
    given = some((1, 2, 6, 4))
    mean = torch.stack([attend(*given, None, 0.3).detach() for _ in range(4000)]).mean(0)
    expected = functional.scaled_dot_product_attention(*given).detach()
    torch.testing.assert_close(mean, expected, atol=0.05, rtol=0)


def test_sixteen_bits_are_computed_with_under_autocast_too() -> None:
    query, key, value = ((5 * part.detach()).bfloat16().requires_grad_() for part in some((2, 2, 7, 8)))
    exact = tuple(part.detach().float().requires_grad_() for part in (query, key, value))
    with torch.autocast("cpu", torch.bfloat16):
        found = learnt(attend, (query, key, value), None, 0.2)
    assert {tensor.dtype for tensor in found} == {torch.bfloat16}
    for one, other in zip(found, learnt(in_the_open, exact, None, 0.2), strict=True):
        assert float((one.float() - other).norm() / other.norm()) < 0.015  # what rounding what goes in and out costs


def test_a_text_of_no_pieces_gives_nothing() -> None:
    assert [tensor.numel() for tensor in learnt(attend, some((2, 2, 0, 4)), None, 0.5)] == [0, 0, 0, 0]


def test_short_texts_are_left_to_torch(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(dropped, "LONG", 40)
    shapes: list[Sequence[int]] = []

    def noted(shape: Sequence[int], n_dropped: int) -> Tensor:
        shapes.append(shape)
        return drawn(shape, n_dropped)

    monkeypatch.setattr(dropped, "drawn", noted)
    for n_pieces in (39, 40):
        attend(*some((1, 1, n_pieces, 4)), None, 0.1)
    assert shapes == [(1, 1, 40, 40)]


def test_a_text_in_which_nothing_may_be_looked_at_gives_numbers() -> None:
    given = some((2, 2, 5, 4))
    nowhere = torch.tensor([[True] * 5, [False] * 5])[:, None, None]
    assert all(tensor.isfinite().all() for tensor in learnt(attend, given, nowhere, 0.5))


def test_nothing_but_a_byte_for_each_weight_is_kept_for_the_way_back() -> None:
    n_texts, n_heads, n_pieces, size = shape = (2, 3, 64, 4)
    sizes: list[int] = []

    def note(tensor: Tensor) -> Tensor:
        sizes.append(tensor.numel() * tensor.element_size())
        return tensor

    with torch.autograd.graph.saved_tensors_hooks(note, lambda tensor: tensor):
        attend(*some(shape), masks(*shape[:3])["filled up"], 0.1)
    n_weights = n_texts * n_heads * n_pieces**2
    assert n_weights in sizes
    assert sum(sizes) - n_weights <= 8 * 4 * n_texts * n_heads * n_pieces * size


def noting(shares: list[float]) -> Callable[..., Tensor]:
    """Attend, and note the share that is dropped."""

    def noted(*given: Any) -> Tensor:
        shares.append(given[4])
        return attend(*given)

    return noted


@pytest.mark.parametrize("kind", ["bert", "roberta", "distilbert", "electra", "mpnet"])
def test_encoders_attend_so(kind: str, encoders: dict[str, Path], monkeypatch: pytest.MonkeyPatch) -> None:
    model = load_encoder(str(encoders[kind])).model.train()
    shares: list[float] = []
    monkeypatch.setattr(dropped, "attend", noting(shares))
    ids = torch.arange(14).view(2, 7) + 3
    with without_padding(model):
        model(ids, attention_mask=torch.ones_like(ids)).last_hidden_state.sum().backward()
    assert len(shares) == model.config.num_hidden_layers
    assert all(share > 0 for share in shares)


def test_training_on_a_cpu_attends_so_and_validation_drops_nothing(
    toy: Splits, quick: ClassifierConfig, monkeypatch: pytest.MonkeyPatch
) -> None:
    shares: list[float] = []
    monkeypatch.setattr(dropped, "attend", noting(shares))
    train = replace(quick.train, epochs=1)
    SupportModel.train(toy.train[:32], toy.dev[:8], replace(quick, train=train))
    assert len(shares) >= 2
    assert all(share > 0 for share in shares)  # nothing else asks: torch attends where nothing is dropped
