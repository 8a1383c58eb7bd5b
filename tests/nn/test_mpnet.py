"""MPNet attends in one kernel as transformers does eagerly."""

import copy
from pathlib import Path
from typing import Any

import pytest
import torch

from fresh.nn.encoder import load_encoder
from fresh.nn.intercept import call_recording
from fresh.nn.mpnet import fuse_attention

IDS = torch.arange(5, 32).view(3, 9)
MASK = (torch.arange(9) < torch.tensor([[9], [6], [2]])).long()


@pytest.mark.parametrize("mask", [None, MASK])
@pytest.mark.parametrize("in_bf16", [False, True])
def test_one_kernel_equals_eager_attention(mask: torch.Tensor | None, in_bf16: bool, encoders: dict[str, Path]) -> None:
    models: list[Any] = [load_encoder(str(encoders["mpnet"])).model for _ in range(2)]
    eager, fused = models
    with torch.no_grad():
        for model in (eager, fused):  # distances must matter
            model.encoder.relative_attention_bias.weight.copy_(torch.linspace(-2, 2, 64).view(32, 2))
    fuse_attention(fused)
    fused = copy.deepcopy(fused)
    real = torch.ones_like(IDS).bool() if mask is None else mask.bool()
    outputs = []
    for model in (eager, fused):
        with torch.autocast("cpu", torch.bfloat16, enabled=in_bf16):
            hidden = model(IDS, attention_mask=mask).last_hidden_state[real]
        [gradient] = torch.autograd.grad(hidden.float().sin().sum(), [model.embeddings.word_embeddings.weight])
        outputs.append((hidden.float(), gradient))
    tolerance = 0.05 if in_bf16 else 1e-5
    for one, other in zip(*outputs, strict=True):
        torch.testing.assert_close(one, other, rtol=tolerance, atol=tolerance)


def test_recorded_weights_leave_out_padding_and_do_not_change_the_output(encoders: dict[str, Path]) -> None:
    model: Any = load_encoder(str(encoders["mpnet"])).model
    fuse_attention(model)
    hidden, [weights] = call_recording(
        lambda: model(IDS, attention_mask=MASK).last_hidden_state, [model.encoder.layer[0]]
    )
    assert (weights[2, :, :, 2:] == 0).all()
    torch.testing.assert_close(weights.sum(-1), torch.ones(weights.shape[:-1]))
    torch.testing.assert_close(hidden, model(IDS, attention_mask=MASK).last_hidden_state)


def test_other_encoders_stay_as_they_are(encoders: dict[str, Path]) -> None:
    model = load_encoder(str(encoders["bert"])).model
    before = model.config._attn_implementation, {type(module) for module in model.modules()}
    fuse_attention(model)
    assert before == (model.config._attn_implementation, {type(module) for module in model.modules()})
