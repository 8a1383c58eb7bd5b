"""Recorded attention weights are those of transformers' eager attention, and leave no trace."""

from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest
import torch
import transformers
from torch import Tensor
from transformers import PreTrainedModel

from fresh.errors import EncoderError
from fresh.nn import intercept
from fresh.nn.encoder import load_encoder
from fresh.nn.intercept import RECORDABLE, call_recording, make_recordable
from networks import layers_of, padding_mask
from tiny import ARCHITECTURES, SHAPE

LENGTHS = (13, 9, 4)
"""Texts longer than the window of ModernBERT's local layer, and one whose padding sees no token in it."""
OTHERS: dict[str, dict[str, Any]] = {
    "DebertaV2": {"relative_attention": True, "pos_att_type": ["c2p", "p2c"]},
    "RoFormer": {"embedding_size": 16},
    "EuroBert": {"num_key_value_heads": 1, "pad_token_id": 0, "bos_token_id": 1, "eos_token_id": 2, "mask_token_id": 3},
    "GPT2": {"pad_token_id": 0, "bos_token_id": 1, "eos_token_id": 2, "n_layer": 2, "n_head": 2, "n_embd": 16},
}
"""Eager attention in two ways, heads that share keys, and attention to earlier tokens only."""


def uneven(model: PreTrainedModel) -> PreTrainedModel:
    """A model that attends unevenly, and whose biases are not 0."""
    with torch.random.fork_rng(devices=[]), torch.no_grad():
        torch.manual_seed(1)
        for name, weight in model.named_parameters():
            if "norm" not in name.lower() and "embeddings" not in name:
                weight.add_(torch.randn_like(weight), alpha=0.25)
    model.eval()
    return model


def assert_near(found: Tensor, expected: Tensor) -> None:
    torch.testing.assert_close(found, expected, rtol=1e-4, atol=2e-5)


def check_recording(model: PreTrainedModel, mask: Tensor | None) -> None:
    """Compare weights, outputs and gradients by weights with those of eager attention."""
    ids = torch.randint(4, 60, (len(LENGTHS), max(LENGTHS)), generator=torch.Generator().manual_seed(2))
    real = torch.ones_like(ids).bool() if mask is None else mask.bool()
    is_eager = model.config._attn_implementation == "eager"
    if not is_eager:
        model.set_attn_implementation("eager")
    expected = model(ids, attention_mask=mask, output_attentions=True)
    wanted = torch.autograd.grad(expected.last_hidden_state[real].sin().sum(), expected.attentions)
    if not is_eager:
        model.set_attn_implementation("sdpa")
    make_recordable(model)
    assert model.config._attn_implementation == ("eager" if is_eager else RECORDABLE)
    for chosen in ([0], [1], [1, 0]):
        layers = [layers_of(model)[number] for number in chosen]
        output, weights = call_recording(lambda: model(ids, attention_mask=mask).last_hidden_state, layers)
        assert_near(output[real], expected.last_hidden_state[real])
        gradients = torch.autograd.grad(output[real].sin().sum(), weights)
        for number, found, gradient in zip(chosen, weights, gradients, strict=True):
            pairs = (real[:, None, :, None] & real[:, None, None, :]).expand_as(found)
            assert_near(found[pairs], expected.attentions[number][pairs])
            assert_near(gradient[pairs], wanted[number][pairs])


@pytest.mark.parametrize("architecture", ARCHITECTURES)
@pytest.mark.parametrize("is_padded", [False, True])
def test_recorded_weights_are_those_of_eager_attention(
    architecture: str, is_padded: bool, encoders: dict[str, Path]
) -> None:
    model = uneven(load_encoder(str(encoders[architecture])).model)
    check_recording(model, padding_mask(list(LENGTHS), max(LENGTHS)) if is_padded else None)


@pytest.mark.parametrize("name", OTHERS)
def test_other_architectures_are_recorded_too(name: str) -> None:
    shape = {} if name == "GPT2" else SHAPE
    config = getattr(transformers, f"{name}Config")(vocab_size=100, **shape, **OTHERS[name])
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        model = uneven(getattr(transformers, f"{name}Model")(config))
    check_recording(model, torch.ones(len(LENGTHS), max(LENGTHS)).long())
    if name != "GPT2":  # which pads on the left
        check_recording(model, padding_mask(list(LENGTHS), max(LENGTHS)))


def test_an_encoder_without_weights_to_record_is_refused() -> None:
    model = transformers.FNetModel(transformers.FNetConfig(vocab_size=100, **SHAPE)).eval()
    with pytest.raises(EncoderError, match=r"attention weights.*integrated_gradients"):
        call_recording(lambda: model(torch.arange(8).view(1, 8)), layers_of(model))


def test_each_thread_records_its_own_layers_and_leaves_no_trace(encoders: dict[str, Path]) -> None:
    model = load_encoder(str(encoders["bert"])).model
    make_recordable(model)
    ids, layers = torch.arange(8).view(1, 8) + 3, layers_of(model)

    def record(number: int) -> list[Tensor]:
        return [call_recording(lambda: model(ids), layers[:number])[1] for _ in range(20)][-1]

    record(2)
    before = [len(module._forward_hooks) for module in model.modules()]
    with ThreadPoolExecutor(2) as pool:
        one, both = pool.map(record, (1, 2))
    assert (len(one), len(both)) == (1, 2)
    assert torch.equal(one[0], both[0])
    assert before == [len(module._forward_hooks) for module in model.modules()]
    with pytest.raises(KeyboardInterrupt):
        call_recording(interrupt, layers)
    assert intercept._recorders.get({}) == {}


def interrupt() -> None:
    raise KeyboardInterrupt


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float32, torch.float64])
def test_the_softmax_has_at_least_32_bits(dtype: torch.dtype, encoders: dict[str, Path]) -> None:
    model = load_encoder(str(encoders["bert"])).model
    make_recordable(model)
    with torch.autocast("cpu", torch.bfloat16, enabled=dtype == torch.bfloat16):
        model.double() if dtype == torch.float64 else None
        _, [weights] = call_recording(lambda: model(torch.arange(8).view(1, 8) + 3), layers_of(model)[:1])
    assert weights.dtype == torch.promote_types(dtype, torch.float32)
    torch.testing.assert_close(weights.sum(-1), torch.ones_like(weights[..., 0]))


def test_dropout_comes_after_what_is_recorded(encoders: dict[str, Path]) -> None:
    model = load_encoder(str(encoders["bert"])).model
    make_recordable(model)
    ids, layers = torch.arange(8).view(1, 8) + 3, layers_of(model)[:1]
    calm, [expected] = call_recording(lambda: model(ids).last_hidden_state, layers)
    layers[0].get_submodule("attention.self").train()
    layers[0].get_submodule("attention.self.dropout").p = 0.5  # type: ignore[assignment]
    outputs = [call_recording(lambda: model(ids).last_hidden_state, layers) for _ in range(2)]
    assert all(torch.equal(weights, expected) for _, [weights] in outputs)
    assert not torch.equal(outputs[0][0], outputs[1][0])
    assert not torch.equal(outputs[0][0], calm)
