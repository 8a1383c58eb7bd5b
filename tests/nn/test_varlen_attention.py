"""Attention without padding: the same numbers, whatever texts are filled up with."""

from pathlib import Path
from typing import Any

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor
from torch.nn import functional

from fresh.nn import varlen_attention as ragged
from fresh.nn.encoder import load_encoder
from fresh.nn.varlen_attention import KNOWN, NAME, _attend, _ends, _mask_of, without_padding
from shared_ragged import filled_up

LENGTHS = st.lists(st.integers(1, 9), min_size=1, max_size=6)


@given(lengths=LENGTHS, more=st.integers(0, 3))
def test_ends_cut_one_row_into_texts_and_what_fills_them_up(lengths: list[int], more: int) -> None:
    width = max(lengths) + more
    mask = filled_up(lengths, width)
    borders = _ends(attention_mask=mask)
    assert borders is not None
    assert borders.dtype == torch.int32
    sizes = borders.diff().tolist()
    assert int(borders[0]) == 0
    assert sizes == [size for length in lengths for size in (length, width - length)]
    assert torch.equal(_mask_of(borders, width), mask.bool())


def test_without_a_mask_nothing_ends() -> None:
    assert _ends(attention_mask=None) is None


def flash_by_hand(query: Tensor, key: Tensor, value: Tensor, *given: Any, scale: float | None = None) -> list[Tensor]:
    """Attend within each sequence, as the kernel of a GPU is said to."""
    borders, _, n_most, _, dropout, causal, debug = given
    assert (dropout, causal, debug) == (0.0, False, False)
    assert int(borders.diff().max()) <= n_most
    out = torch.full_like(query, torch.nan)
    for start, end in zip(borders[:-1].tolist(), borders[1:].tolist(), strict=True):
        own, looked_at, told = (values[start:end].transpose(0, 1) for values in (query, key, value))
        out[start:end] = functional.scaled_dot_product_attention(own, looked_at, told, scale=scale).transpose(0, 1)
    return [out]


@given(lengths=LENGTHS, more=st.integers(0, 3), seed=st.integers(0, 99))
def test_sequences_of_all_lengths_see_what_a_mask_lets_them_see(lengths: list[int], more: int, seed: int) -> None:
    width = max(lengths) + more
    generator = torch.Generator().manual_seed(seed)
    query, key, value = (torch.randn(len(lengths), 2, width, 8, generator=generator) for _ in range(3))
    mask = filled_up(lengths, width)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(ragged, "_can_flash", lambda _query: True)
        patch.setattr(torch.ops.aten, "_flash_attention_forward", flash_by_hand)
        found, _ = _attend(torch.nn.Identity(), query, key, value, _ends(attention_mask=mask), scaling=0.3)
    plain, _ = _attend(torch.nn.Identity(), query, key, value, _ends(attention_mask=mask), scaling=0.3)
    expected = by_mask(query, key, value, mask)
    assert torch.equal(plain, expected)
    torch.testing.assert_close(found[mask.bool()], expected[mask.bool()])


def broken(*_given: Any, **_others: Any) -> list[Tensor]:
    raise RuntimeError("no such kernel")


def wrong(query: Tensor, *given: Any, **others: Any) -> list[Tensor]:
    return [flash_by_hand(query, *given, **others)[0] + 1]


@pytest.mark.parametrize(("kernel", "expected"), [(flash_by_hand, True), (broken, False), (wrong, False)])
def test_a_kernel_must_prove_itself(kernel: Any, expected: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch.ops.aten, "_flash_attention_forward", kernel)
    monkeypatch.setattr(ragged, "PROVEN", {})
    kind = torch.device("cpu"), torch.bfloat16, 8
    assert ragged._is_proven(*kind) is expected
    assert list(ragged.PROVEN.items()) == [(kind, expected)]
    monkeypatch.setattr(torch.ops.aten, "_flash_attention_forward", broken)
    assert ragged._is_proven(*kind) is expected  # it is tried once
    assert not ragged._is_proven(torch.device("cpu"), torch.bfloat16, 12)  # not of a size that there are kernels for


@pytest.mark.parametrize("error", [torch.OutOfMemoryError("full"), RuntimeError("CUDA error: out of memory")])
def test_a_full_card_says_nothing_of_its_kernels(
    error: RuntimeError, encoders: dict[str, Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(*_given: Any) -> Tensor:
        assert not torch.backends.cuda.cudnn_sdp_enabled()  # type: ignore[no-untyped-call]
        raise error

    monkeypatch.setattr(ragged, "PROVEN", {})
    monkeypatch.setattr(ragged, "_flash", full)
    model = load_encoder(str(encoders["bert"])).model
    monkeypatch.setattr(ragged, "_prove", lambda _body: ragged._is_proven(torch.device("cpu"), torch.float32, 8))
    with pytest.raises(type(error), match=str(error)), without_padding(model):
        raise AssertionError("there was no room for it")
    assert ragged.PROVEN == {}
    assert model.config._attn_implementation == "sdpa"


@pytest.mark.parametrize("filling", [0, 3])
def test_encoders_put_out_the_same(encoders: dict[str, Path], filling: int) -> None:
    seen: set[str] = set()
    for place in encoders.values():
        model = load_encoder(str(place)).model
        lengths = [7, 4, 5]
        mask = filled_up(lengths, 7 + filling)
        ids = torch.arange(mask.numel()).view_as(mask) % 40 + 3
        before, kind = model.config._attn_implementation, model.config.model_type
        with torch.inference_mode():
            expected = model(ids, attention_mask=mask).last_hidden_state
            with without_padding(model):
                assert (model.config._attn_implementation == NAME) == (kind in KNOWN and before == "sdpa")
                seen |= {kind} if model.config._attn_implementation == NAME else set()
                found = model(ids, attention_mask=mask).last_hidden_state
        assert model.config._attn_implementation == before
        torch.testing.assert_close(found[mask.bool()], expected[mask.bool()], rtol=1e-5, atol=1e-6)
    assert seen >= {"bert", "roberta", "distilbert"}


def test_it_is_given_up_when_the_block_ends_and_not_taken_up_unasked(encoders: dict[str, Path]) -> None:
    model = load_encoder(str(encoders["bert"])).model
    with without_padding(model, wanted=False):
        assert model.config._attn_implementation == "sdpa"
    with pytest.raises(KeyError), without_padding(model):
        raise KeyError(model.config._attn_implementation)
    assert model.config._attn_implementation == "sdpa"


def test_an_encoder_that_looks_only_back_is_left_alone(encoders: dict[str, Path]) -> None:
    model = load_encoder(str(encoders["bert"])).model
    model.config.is_decoder = True
    with without_padding(model):
        assert model.config._attn_implementation == "sdpa"


def test_the_kernel_is_tried_before_any_step_is_recorded(
    encoders: dict[str, Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    model = load_encoder(str(encoders["bert"])).model
    tried: list[tuple[torch.device, torch.dtype, int]] = []
    monkeypatch.setattr(ragged, "_is_proven", lambda *what: tried.append(what))
    with without_padding(model):
        assert tried == []
    device = torch.device("cuda", 0)
    monkeypatch.setattr(type(model), "device", property(lambda _model: device))
    with without_padding(model):
        assert tried == [(device, torch.bfloat16, model.config.hidden_size // model.config.num_attention_heads)]


def by_mask(query: Tensor, key: Tensor, value: Tensor, mask: Tensor) -> Tensor:
    there = mask.bool()[:, None, None]
    return functional.scaled_dot_product_attention(query, key, value, there, scale=0.3).transpose(1, 2)


@pytest.mark.skipif(not torch.cuda.is_available(), reason="there is no GPU")
def test_a_gpu_finds_the_same_with_its_own_kernel() -> None:
    mask = filled_up([37, 64, 1, 50], 64).cuda()
    torch.manual_seed(0)
    parts = [torch.randn(4, 2, 64, 32, device="cuda").bfloat16().requires_grad_() for _ in range(3)]
    query, key, value = parts
    flashed, _ = _attend(torch.nn.Identity(), query, key, value, _ends(attention_mask=mask), scaling=0.3)
    results: list[list[Tensor]] = []
    for out in (flashed, by_mask(query, key, value, mask)):
        kept = out * mask[:, :, None, None]
        results.append([kept, *torch.autograd.grad(kept.float().square().sum(), parts)])
    for found, expected in zip(*results, strict=True):
        torch.testing.assert_close(found, expected, rtol=3e-2, atol=3e-2)
