"""Attention without padding finds what attention with a mask finds."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor, nn
from torch.nn import functional

from fresh.nn import attention
from fresh.nn.attention import (
    UNPADDED,
    UNPADDED_MODELS,
    _attend_unpadded,
    _attend_varlen,
    _has_varlen_kernel,
    _sequence_ends,
    without_padding,
)
from fresh.nn.encoder import load_encoder
from fresh.nn.intercept import call_recording, make_recordable
from networks import layers_of, padding_mask
from tiny import ARCHITECTURES


def flash_by_hand(query: Tensor, key: Tensor, value: Tensor, *given: Any, scale: float | None = None) -> list[Tensor]:
    """Attend within each sequence, as the kernel of a GPU is documented to."""
    ends, _, longest, _, dropout, causal, debug = given
    assert (dropout, causal, debug, ends.dtype) == (0.0, False, False, torch.int32)
    assert int(ends.diff().max()) <= longest
    out = torch.full_like(query, torch.nan)
    for start, end in zip(ends[:-1].tolist(), ends[1:].tolist(), strict=True):
        own, others, values = (part[start:end].transpose(0, 1) for part in (query, key, value))
        out[start:end] = functional.scaled_dot_product_attention(own, others, values, scale=scale).transpose(0, 1)
    return [out]


def by_mask(query: Tensor, key: Tensor, value: Tensor, mask: Tensor) -> Tensor:
    real = mask.bool()[:, None, None]
    return functional.scaled_dot_product_attention(query, key, value, real, scale=0.3).transpose(1, 2)


def unpadded(query: Tensor, key: Tensor, value: Tensor, mask: Tensor) -> Tensor:
    ends = _sequence_ends(mask)
    return _attend_unpadded(nn.Identity(), query, key, value, ends, scaling=0.3)[0]


@given(lengths=st.lists(st.integers(1, 9), min_size=1, max_size=6), more=st.integers(0, 3), seed=st.integers(0, 99))
def test_sequences_of_all_lengths_see_what_a_mask_lets_them_see(lengths: list[int], more: int, seed: int) -> None:
    width = max(lengths) + more
    generator = torch.Generator().manual_seed(seed)
    query, key, value = (torch.randn(len(lengths), 2, width, 8, generator=generator) for _ in range(3))
    mask = padding_mask(lengths, width)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(torch.ops.aten, "_flash_attention_forward", flash_by_hand)
        found = _attend_varlen(query, key, value, _sequence_ends(mask), scaling=0.3)
    expected = by_mask(query, key, value, mask)
    assert torch.equal(unpadded(query, key, value, mask), expected)
    torch.testing.assert_close(found[mask.bool()], expected[mask.bool()])


def broken(*_given: Any, **_others: Any) -> list[Tensor]:
    raise RuntimeError("no such kernel")


def wrong(query: Tensor, *given: Any, **others: Any) -> list[Tensor]:
    return [flash_by_hand(query, *given, **others)[0] + 1]


@pytest.fixture
def _untried() -> Iterator[None]:
    """No kernel was tried yet, and what a test finds is forgotten."""
    _has_varlen_kernel.cache_clear()
    yield
    _has_varlen_kernel.cache_clear()


@pytest.mark.usefixtures("_untried")
@pytest.mark.parametrize(("kernel", "expected"), [(flash_by_hand, True), (broken, False), (wrong, False)])
def test_a_kernel_is_tried_once_before_use(kernel: Any, expected: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch.ops.aten, "_flash_attention_forward", kernel)
    kind = torch.device("cpu"), torch.bfloat16, 8
    assert _has_varlen_kernel(*kind) is expected
    monkeypatch.setattr(torch.ops.aten, "_flash_attention_forward", broken)
    assert _has_varlen_kernel(*kind) is expected
    assert not _has_varlen_kernel(torch.device("cpu"), torch.bfloat16, 12)  # there are no kernels for this size


@pytest.mark.usefixtures("_untried")
@pytest.mark.parametrize("error", [torch.OutOfMemoryError("full"), RuntimeError("CUDA error: out of memory")])
def test_a_full_gpu_says_nothing_about_its_kernels(error: RuntimeError, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(*_given: Any, **_more: Any) -> Tensor:
        assert not torch.backends.cuda.cudnn_sdp_enabled()  # type: ignore[no-untyped-call]
        raise error

    kind = torch.device("cpu"), torch.float32, 8
    with monkeypatch.context() as patch:
        patch.setattr(torch.ops.aten, "_flash_attention_forward", full)
        with pytest.raises(type(error), match=str(error)):
            _has_varlen_kernel(*kind)
    monkeypatch.setattr(torch.ops.aten, "_flash_attention_forward", flash_by_hand)
    assert _has_varlen_kernel(*kind)


@pytest.mark.parametrize("architecture", ARCHITECTURES)
@pytest.mark.parametrize("more", [0, 3])
def test_encoders_put_out_the_same_without_padding(architecture: str, more: int, encoders: dict[str, Path]) -> None:
    model = load_encoder(str(encoders[architecture])).model
    make_recordable(model)
    mask = padding_mask([7, 4, 5], 7 + more)
    ids = torch.arange(mask.numel()).view_as(mask) % 40 + 3
    before = model.config._attn_implementation

    def read() -> tuple[Tensor, list[Tensor]]:
        return call_recording(lambda: model(ids, attention_mask=mask).last_hidden_state, layers_of(model)[:1])

    with torch.inference_mode():
        (plain, [weights]), expected = read(), model(ids, attention_mask=mask).last_hidden_state
        with without_padding(model):
            assert (model.config._attn_implementation == UNPADDED) == (architecture in UNPADDED_MODELS)
            found = model(ids, attention_mask=mask).last_hidden_state
            recorded, [again] = read()
    assert model.config._attn_implementation == before
    for output in (found, plain, recorded):
        torch.testing.assert_close(output[mask.bool()], expected[mask.bool()], rtol=1e-5, atol=1e-6)
    torch.testing.assert_close(again, weights)


def test_attention_without_padding_ends_with_the_block(encoders: dict[str, Path]) -> None:
    model = load_encoder(str(encoders["bert"])).model
    with without_padding(model, wanted=False):
        assert model.config._attn_implementation == "sdpa"
    with pytest.raises(KeyError, match=UNPADDED), without_padding(model):
        raise KeyError(model.config._attn_implementation)
    assert model.config._attn_implementation == "sdpa"
    model.config.is_decoder = True
    with without_padding(model):  # it attends to earlier tokens only
        assert model.config._attn_implementation == "sdpa"


def test_the_kernel_is_tried_before_any_capture(encoders: dict[str, Path], monkeypatch: pytest.MonkeyPatch) -> None:
    model = load_encoder(str(encoders["bert"])).model
    tried: list[tuple[torch.device, torch.dtype, int]] = []
    monkeypatch.setattr(attention, "_has_varlen_kernel", lambda *kind: tried.append(kind))
    with without_padding(model):
        assert tried == []
    device = torch.device("cuda", 0)
    monkeypatch.setattr(type(model), "device", property(lambda _model: device))
    with without_padding(model):
        assert tried == [(device, torch.bfloat16, model.config.hidden_size // model.config.num_attention_heads)]


@pytest.mark.skipif(not torch.cuda.is_available(), reason="there is no GPU")
def test_a_gpu_finds_the_same_with_its_own_kernel() -> None:
    mask = padding_mask([37, 64, 1, 50], 64).cuda()
    torch.manual_seed(0)
    query, key, value = parts = [torch.randn(4, 2, 64, 32, device="cuda").bfloat16().requires_grad_() for _ in range(3)]
    results: list[list[Tensor]] = []
    for out in (unpadded(query, key, value, mask), by_mask(query, key, value, mask)):
        kept = out * mask[:, :, None, None]
        results.append([kept, *torch.autograd.grad(kept.float().square().sum(), parts)])
    for found, expected in zip(*results, strict=True):
        torch.testing.assert_close(found, expected, rtol=3e-2, atol=3e-2)
