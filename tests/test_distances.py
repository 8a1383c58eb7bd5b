"""MPNet's attention in one kernel: the same numbers, and the same gradients."""

from pathlib import Path

import pytest
import torch
from torch import Tensor, nn

from fresh.distances import attend, give_back, take_over
from fresh.encoder import load_encoder
from fresh.ragged import without_padding
from test_ragged import filled_up

LENGTHS = [7, 4, 5]


def mpnet(encoders: dict[str, Path]) -> nn.Module:
    return load_encoder(str(encoders["mpnet"])).model


def outcome(model: nn.Module) -> list[Tensor]:
    """Read some texts, and find what each weight does to what comes out."""
    mask = filled_up(LENGTHS, 9)
    ids = torch.arange(mask.numel()).view_as(mask) % 40 + 3
    out = model(ids, attention_mask=mask).last_hidden_state
    kept = out * mask.unsqueeze(-1)
    weights = [weight for weight in model.parameters() if weight.requires_grad]
    found = torch.autograd.grad(kept.square().sum(), weights, allow_unused=True)
    return [kept, *(gradient for gradient in found if gradient is not None)]


def test_it_finds_the_same_there_and_back(encoders: dict[str, Path]) -> None:
    model = mpnet(encoders).eval()
    expected = outcome(model)
    with without_padding(model):
        [first, *_] = [vars(module)["forward"] for module in model.modules() if "forward" in vars(module)]
        assert first.__func__ is attend
        found = outcome(model)
    assert len(found) == len(expected) > 20
    for one, other in zip(found, expected, strict=True):
        torch.testing.assert_close(one, other, rtol=1e-4, atol=1e-5)


def test_what_distances_are_worth_is_learnt(encoders: dict[str, Path]) -> None:
    model = mpnet(encoders).eval()
    table = next(weight for name, weight in model.named_parameters() if "relative_attention_bias" in name)
    mask = filled_up(LENGTHS, 7)
    with without_padding(model):
        model(mask + 3, attention_mask=mask).last_hidden_state.square().sum().backward()
    assert table.grad is not None
    assert float(table.grad.abs().max()) > 0


def test_weights_that_are_asked_for_are_there(encoders: dict[str, Path]) -> None:
    model = mpnet(encoders).eval()
    mask = filled_up(LENGTHS, 7)
    with torch.inference_mode():
        expected = model(mask + 3, attention_mask=mask, output_attentions=True)
        with without_padding(model):
            found = model(mask + 3, attention_mask=mask, output_attentions=True)
    for one, other in zip(found.attentions, expected.attentions, strict=True):
        assert torch.equal(one, other)


def test_dropout_is_drawn_in_training_only(encoders: dict[str, Path]) -> None:
    model = mpnet(encoders)
    for module in model.modules():
        if isinstance(module, nn.Dropout):
            module.p = 0.0
    [first, *_] = taken = take_over(model)
    assert isinstance(first.dropout, nn.Dropout)
    first.dropout.p = 0.5
    mask = filled_up(LENGTHS, 7)

    def read() -> Tensor:
        with torch.inference_mode():
            found: Tensor = model(mask + 3, attention_mask=mask).last_hidden_state
        return found

    model.train()
    assert not torch.equal(read(), read())
    model.eval()
    assert torch.equal(read(), read())
    give_back(taken)


def test_it_ends_with_the_block_however_that_ends(encoders: dict[str, Path]) -> None:
    model = mpnet(encoders)
    with pytest.raises(KeyError), without_padding(model):
        raise KeyError
    assert not any("forward" in vars(module) for module in model.modules())
    with without_padding(model, wanted=False):
        assert not any("forward" in vars(module) for module in model.modules())
