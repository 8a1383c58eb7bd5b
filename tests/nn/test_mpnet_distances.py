"""MPNet's attention in one kernel: the same numbers, and the same gradients."""

import weakref
from pathlib import Path

import pytest
import torch
from torch import Tensor, nn
from transformers import MPNetModel
from transformers.models.mpnet.modeling_mpnet import MPNetSelfAttention

from fresh.config import from_mapping
from fresh.methods.config import FreshConfig
from fresh.nn import mpnet_distances as distances
from fresh.nn.classifier import eager_attention
from fresh.nn.encoder import load_encoder
from fresh.nn.mpnet_distances import _attend, give_back, hold_still, take_over
from fresh.nn.tokenizer import Text
from fresh.training import varlen_attention as ragged
from fresh.training.fit import build
from fresh.training.varlen_attention import without_padding
from shared_ragged import filled_up

LENGTHS = [7, 4, 5]


def mpnet(encoders: dict[str, Path]) -> MPNetModel:
    model = load_encoder(str(encoders["mpnet"])).model
    assert isinstance(model, MPNetModel)
    hold_still(model)
    return model


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
        assert first.func is _attend
        found = outcome(model)
    assert len(found) == len(expected) > 20
    for one, other in zip(found, expected, strict=True):
        torch.testing.assert_close(one, other, rtol=1e-4, atol=1e-5)


def test_nothing_filled_up_needs_no_mask(encoders: dict[str, Path]) -> None:
    model = mpnet(encoders).eval()
    ids = torch.arange(27).view(3, 9) + 3
    with torch.inference_mode():
        expected = model(ids).last_hidden_state
        with without_padding(model):
            torch.testing.assert_close(model(ids).last_hidden_state, expected, rtol=1e-4, atol=1e-5)


def test_each_reading_has_its_own_mask_and_precision(encoders: dict[str, Path]) -> None:
    model = mpnet(encoders).eval()
    masks = [filled_up(lengths, 7) for lengths in (LENGTHS, [3, 7, 6])]
    with torch.inference_mode():
        expected = [model(mask + 3, attention_mask=mask).last_hidden_state for mask in masks]
        with without_padding(model):
            for mask, wanted in zip(masks, expected, strict=True):
                found = model(mask + 3, attention_mask=mask).last_hidden_state
                torch.testing.assert_close(found, wanted, rtol=1e-4, atol=1e-5)
                with torch.autocast("cpu", torch.bfloat16):
                    coarse = model(mask + 3, attention_mask=mask).last_hidden_state
                torch.testing.assert_close(coarse.float(), wanted, rtol=0.1, atol=0.1)


def test_all_layers_share_what_is_added(encoders: dict[str, Path], monkeypatch: pytest.MonkeyPatch) -> None:
    model, strides, made = mpnet(encoders).eval(), list[int](), list[weakref.ref[Tensor]]()
    usual = distances._together

    def counted(worth: Tensor, there: Tensor | None, dtype: torch.dtype) -> Tensor:
        assert not any(earlier() is not None for earlier in made)  # one at a time: they are large
        added = usual(worth, there, dtype)
        made.append(weakref.ref(added))
        strides.append(added.stride(-2))
        return added

    monkeypatch.setattr(distances, "_together", counted)
    mask = filled_up(LENGTHS, 7)
    with without_padding(model), torch.inference_mode():
        model(mask + 3, attention_mask=mask)
        model(mask + 3, attention_mask=mask)
    assert len(list(model.encoder.layer)) > 1
    assert len(made) == 2
    assert all(stride % 16 == 0 for stride in strides)


@pytest.mark.parametrize("n_pieces", [1, 2, 9, 150])
def test_distances_are_worth_what_they_were(encoders: dict[str, Path], n_pieces: int) -> None:
    encoder = mpnet(encoders).encoder
    hidden = torch.zeros(2, n_pieces, 4)
    expected = type(encoder).compute_position_bias(encoder, hidden)
    assert torch.equal(encoder.compute_position_bias(hidden), expected)
    assert expected.shape == (2, expected.shape[1], n_pieces, n_pieces)


@pytest.mark.parametrize("layers", ["all", 1])
def test_what_distances_are_worth_is_held_still(encoders: dict[str, Path], layers: int | str) -> None:
    config = from_mapping(FreshConfig, {"encoder": str(encoders["mpnet"]), "layers": layers}).classifier
    classifier = build(["one", "other"], config)
    weights = dict(classifier.named_parameters())
    still = [name for name, weight in weights.items() if "relative_attention_bias" in name and not weight.requires_grad]
    assert len(still) == 1
    assert any(weight.requires_grad for name, weight in weights.items() if "attn" in name)


def test_weights_that_are_asked_for_are_there(encoders: dict[str, Path]) -> None:
    model = mpnet(encoders).eval()
    mask = filled_up(LENGTHS, 7)
    with torch.inference_mode():
        expected = model(mask + 3, attention_mask=mask, output_attentions=True)
        with without_padding(model):
            found = model(mask + 3, attention_mask=mask, output_attentions=True)
    for one, other in zip(found.attentions, expected.attentions, strict=True):
        assert torch.equal(one, other)


def test_attention_can_be_asked_for_eagerly_in_between(encoders: dict[str, Path]) -> None:
    config = from_mapping(FreshConfig, {"encoder": str(encoders["mpnet"]), "layers": "all"}).classifier
    classifier = build(["one", "other"], config).eval()
    batch = classifier.collate(classifier.words([Text(("a", "b", "a")), Text(("a",))]))
    with torch.inference_mode():
        with eager_attention(classifier):
            expected = classifier.show_attention(batch).attentions
        with without_padding(classifier):
            with eager_attention(classifier):
                found = classifier.show_attention(batch).attentions
            assert classifier.body.config._attn_implementation == distances.NAME
    for one, other in zip(found, expected, strict=True):
        torch.testing.assert_close(one, other)


def test_dropout_is_drawn_in_training_only(encoders: dict[str, Path]) -> None:
    model = mpnet(encoders)
    for module in model.modules():
        if isinstance(module, nn.Dropout):
            module.p = 0.0
    taken = take_over(model)
    first = next(module for module in model.modules() if isinstance(module, MPNetSelfAttention))
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
    assert model.config._attn_implementation == "eager"
    with without_padding(model, wanted=False):
        assert not any("forward" in vars(module) for module in model.modules())


@pytest.mark.parametrize("wanted", [True, False])
def test_it_ends_only_what_it_began(encoders: dict[str, Path], wanted: bool) -> None:
    model = mpnet(encoders)
    inner, own = (model.get_submodule(f"encoder.layer.0.{name}") for name in ("intermediate", "attention.attn"))
    vars(inner)["forward"] = inner.forward  # somebody else's, as hooks of accelerate are
    with without_padding(model):
        with without_padding(model, wanted):
            pass
        assert model.config._attn_implementation == distances.NAME
        assert "forward" in vars(own)
    assert [module for module in model.modules() if "forward" in vars(module)] == [inner]
    assert model.config._attn_implementation == "eager"


def test_on_a_gpu_it_is_so_with_any_precision(encoders: dict[str, Path], monkeypatch: pytest.MonkeyPatch) -> None:
    models = [load_encoder(str(encoders[name])).model for name in ("mpnet", "bert")]
    usual = [model.config._attn_implementation for model in models]
    for on_gpu, expected in ((False, usual), (True, [distances.NAME, usual[1]])):
        monkeypatch.setattr(ragged, "_is_on_gpu", lambda _network, found=on_gpu: found)
        with without_padding(nn.ModuleList(models), False):
            assert [model.config._attn_implementation for model in models] == expected
    assert [model.config._attn_implementation for model in models] == usual
