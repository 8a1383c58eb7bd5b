from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import pytest
import torch
import transformers
from torch import Tensor, nn
from torch.utils._python_dispatch import TorchDispatchMode
from transformers.models.modernbert.modeling_modernbert import ModernBertAttention

from fresh.nn.attention import OpenLayer, Rows, _entering_and_leaving, _OpenModernBert, open_layer
from fresh.nn.encoder import Encoder, load_encoder
from fresh.nn.tokenizer import positions_of
from tiny import ARCHITECTURES, SHAPE, bert_tokenizer

LENGTHS = (13, 9, 4)  # beyond a local layer's window, and one text that leaves filled up places no piece in theirs
ROWS: tuple[Rows, ...] = ("start", "all")

every_architecture = pytest.mark.parametrize("architecture", ARCHITECTURES)
every_layer = pytest.mark.parametrize("layer", [0, 1])
both_rows = pytest.mark.parametrize("rows", ROWS)


class Read(NamedTuple):
    hidden: Tensor
    output: Tensor
    weights: Tensor


def load(folder: Path) -> Encoder:
    """An encoder that attends unevenly and whose biases are not 0."""
    encoder = load_encoder(str(folder))
    with torch.random.fork_rng(devices=[]), torch.no_grad():
        torch.manual_seed(1)
        for name, weight in encoder.model.named_parameters():
            if "norm" not in name.lower() and "embeddings" not in name:
                weight.add_(torch.randn_like(weight), alpha=0.25)
    encoder.model.set_attn_implementation("eager")
    return encoder


def opened(encoder: Encoder, layer: int) -> OpenLayer:
    found = open_layer(encoder, layer)
    assert found is not None
    return found


def batch_for(encoder: Encoder) -> tuple[Tensor, Tensor, Tensor]:
    """Pieces, mask and positions of texts of several lengths, whose positions repeat."""
    generator = torch.Generator().manual_seed(2)
    shape = (len(LENGTHS), max(LENGTHS))
    ids = torch.randint(len(encoder.tokenizer), shape, generator=generator)
    places = torch.arange(max(LENGTHS)).expand(shape)
    mask = (places < torch.tensor(LENGTHS)[:, None]).long()
    return ids, mask, positions_of(encoder)[0] + places * 2 // 3


def ordinary(encoder: Encoder, layer: int) -> Read:
    """Read the batch in the ordinary way."""
    ids, mask, positions = batch_for(encoder)
    read = partial(encoder.model, ids, attention_mask=mask, position_ids=positions, output_attentions=True)
    out: list[Any] = []
    hidden, output = _entering_and_leaving(encoder.layers[layer], lambda: out.append(read()))
    return Read(hidden, output, out[0].attentions[layer])


def in_the_open(encoder: Encoder, found: OpenLayer, hidden: Tensor, rows: Rows) -> tuple[Tensor, Tensor]:
    _, mask, positions = batch_for(encoder)
    return found.read(hidden, mask, positions, rows)


def near(one: Tensor, other: Tensor, within: float = 1e-5) -> bool:
    return torch.allclose(one, other, rtol=within, atol=within)


def broken(*_inputs: Any, **_more: Any) -> Tensor:
    raise RuntimeError("This layer is broken.")


def set_rates(layer: nn.Module, rate: float) -> None:
    for module in layer.modules():
        if isinstance(module, nn.Dropout):
            module.p = rate
        if isinstance(module, ModernBertAttention):
            module.attention_dropout = rate


@every_architecture
@every_layer
@both_rows
def test_a_layer_in_the_open_equals_the_ordinary_one(
    architecture: str, layer: int, rows: Rows, encoders: dict[str, Path]
) -> None:
    encoder = load(encoders[architecture])
    expected = ordinary(encoder, layer)
    output, weights = in_the_open(encoder, opened(encoder, layer), expected.hidden, rows)
    n_rows = 1 if rows == "start" else max(LENGTHS)
    assert near(weights, expected.weights[:, :, :n_rows])
    assert near(output, expected.output[:, :n_rows])


@every_architecture
@every_layer
@both_rows
def test_gradients_are_those_of_the_ordinary_layer(
    architecture: str, layer: int, rows: Rows, encoders: dict[str, Path]
) -> None:
    encoder = load(encoders[architecture])
    found = opened(encoder, layer)
    sources = [*encoder.layers[layer].parameters()]
    if architecture == "mpnet" and layer == 0:  # layers share it, so higher ones see it in what enters, too
        sources.append(encoder.model.get_parameter("encoder.relative_attention_bias.weight"))
    expected = ordinary(encoder, layer)
    wanted = torch.autograd.grad(expected.output[:, 0].sin().sum(), [expected.hidden, *sources])
    hidden = expected.hidden.detach().requires_grad_()
    output, _ = in_the_open(encoder, found, hidden, rows)
    gradients = torch.autograd.grad(output[:, 0].sin().sum(), [hidden, *sources])
    assert all(near(one, other) for one, other in zip(gradients, wanted, strict=True))


@every_architecture
@both_rows
def test_the_output_can_be_differentiated_by_the_weights(
    architecture: str, rows: Rows, encoders: dict[str, Path]
) -> None:
    encoder = load(encoders[architecture])
    expected = ordinary(encoder, -1)
    [wanted] = torch.autograd.grad(expected.output[:, 0].sin().sum(), expected.weights)
    output, weights = in_the_open(encoder, opened(encoder, -1), expected.hidden, rows)
    [gradient] = torch.autograd.grad(output[:, 0].sin().sum(), weights)
    assert near(gradient[:, :, 0], wanted[:, :, 0])


@every_architecture
@both_rows
def test_without_rates_training_equals_evaluating(architecture: str, rows: Rows, encoders: dict[str, Path]) -> None:
    encoder = load(encoders[architecture])
    expected = ordinary(encoder, -1)
    found = opened(encoder, -1)
    set_rates(encoder.layers[-1], 0.0)
    encoder.model.train()
    output, _ = in_the_open(encoder, found, expected.hidden, rows)
    assert near(output, expected.output[:, : output.shape[1]])


@every_architecture
@both_rows
@pytest.mark.parametrize("number", range(3))
def test_dropout_is_where_the_ordinary_layer_has_it(
    architecture: str, rows: Rows, number: int, encoders: dict[str, Path]
) -> None:
    encoder = load(encoders[architecture])
    found = opened(encoder, 0)
    layer = encoder.layers[0].train()
    set_rates(layer, 0.0)
    if isinstance(found, _OpenModernBert):
        found.attention.out_drop = nn.Dropout(0.0)
    places = [module for module in layer.modules() if isinstance(module, (nn.Dropout, ModernBertAttention))]
    for place in places[number : number + 1]:  # DistilBERT has two
        setattr(place, "p" if isinstance(place, nn.Dropout) else "attention_dropout", 1.0)  # nothing left to chance
    expected = ordinary(encoder, 0)
    output, _ = in_the_open(encoder, found, expected.hidden, rows)
    assert near(output, expected.output[:, : output.shape[1]])


@every_architecture
@both_rows
def test_dropout_follows_the_seed(architecture: str, rows: Rows, encoders: dict[str, Path]) -> None:
    encoder = load(encoders[architecture])
    hidden = ordinary(encoder, -1).hidden
    found = opened(encoder, -1)
    still, calm = in_the_open(encoder, found, hidden, rows)
    set_rates(encoder.layers[-1].train(), 0.3)
    outputs = []
    with torch.random.fork_rng(devices=[]):
        for seed in (1, 1, 2):
            torch.manual_seed(seed)
            output, weights = in_the_open(encoder, found, hidden, rows)
            assert torch.equal(weights, calm)  # they are those before dropout
            outputs.append(output)
    assert [torch.equal(outputs[0], other) for other in (*outputs[1:], still)] == [True, False, False]


@every_architecture
def test_both_ways_agree_where_weights_no_longer_add_up_to_one(
    architecture: str, encoders: dict[str, Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    encoder = load(encoders[architecture])
    hidden = ordinary(encoder, -1).hidden
    found = opened(encoder, -1)
    monkeypatch.setattr(type(found), "drop", lambda _self, weights: weights * (torch.arange(max(LENGTHS)) % 3))
    start, _ = in_the_open(encoder, found, hidden, "start")
    every, _ = in_the_open(encoder, found, hidden, "all")
    assert near(start, every[:, :1])


@every_architecture
@both_rows
def test_autocast_keeps_the_softmax_exact(architecture: str, rows: Rows, encoders: dict[str, Path]) -> None:
    encoder = load(encoders[architecture])
    expected = ordinary(encoder, -1)
    found = opened(encoder, -1)
    with torch.autocast("cpu", torch.bfloat16):
        output, weights = in_the_open(encoder, found, expected.hidden, rows)
    torch.autograd.backward(output.float().sum())
    assert weights.dtype == torch.float32
    assert near(weights.sum(-1), torch.ones(()))
    assert near(output.float(), expected.output[:, : output.shape[1]], 0.1)


@every_architecture
@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16, torch.float64])
def test_networks_of_other_precision_are_understood(
    architecture: str, dtype: torch.dtype, encoders: dict[str, Path]
) -> None:
    encoder = load(encoders[architecture])
    nn.Module.to(encoder.model, dtype)
    encoder.model.set_attn_implementation("sdpa")
    assert open_layer(encoder, -1) is not None


class Waits(TorchDispatchMode):  # type: ignore[no-untyped-call]
    """Refuses what makes a device wait for its host."""

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        assert func.overloadpacket not in (torch.ops.aten._local_scalar_dense, torch.ops.aten.nonzero), func
        return func(*args, **(kwargs or {}))


@every_architecture
@both_rows
def test_a_device_never_waits_for_its_host(architecture: str, rows: Rows, encoders: dict[str, Path]) -> None:
    encoder = load(encoders[architecture])
    hidden = ordinary(encoder, 0).hidden.detach()
    found = opened(encoder, 0)
    encoder.model.train()
    with Waits():  # type: ignore[no-untyped-call]
        output, _ = in_the_open(encoder, found, hidden, rows)
        torch.autograd.backward(output.sum())


@pytest.mark.parametrize("name", ["DebertaV2", "Albert"])
def test_another_architecture_is_not_understood(name: str) -> None:
    tokenizer = bert_tokenizer()
    config = getattr(transformers, f"{name}Config")(vocab_size=len(tokenizer), **SHAPE)
    encoder = Encoder(name, getattr(transformers, f"{name}Model")(config).eval(), tokenizer, "start")
    assert open_layer(encoder, -1) is None


@every_layer
def test_a_layer_that_only_looks_alike_is_not_understood(layer: int, encoders: dict[str, Path]) -> None:
    encoder = load(encoders["bert"])
    attention: Any = encoder.layers[layer].get_submodule("attention.self")
    attention.scaling *= 1.1
    assert open_layer(encoder, layer) is None
    assert open_layer(encoder, 1 - layer) is not None


def test_a_window_of_another_size_is_noticed(encoders: dict[str, Path], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(_OpenModernBert, "window", 5)
    assert open_layer(load(encoders["modernbert"]), 0) is None


def test_a_matrix_that_was_wrapped_is_not_understood(encoders: dict[str, Path]) -> None:
    encoder = load(encoders["bert"])
    encoder.layers[1].get_submodule("attention.self.key").__class__ = type("Adapted", (nn.Linear,), {})
    assert open_layer(encoder, 1) is None


def test_a_layer_that_there_is_not_is_refused(encoders: dict[str, Path]) -> None:
    with pytest.raises(ValueError, match=r"^layer must lie between -2 and 1 for this encoder, got 2\.$"):
        open_layer(load(encoders["bert"]), 2)


@every_architecture
@pytest.mark.parametrize("fails", [False, True])
def test_opening_leaves_no_trace(architecture: str, fails: bool, encoders: dict[str, Path]) -> None:
    encoder = load(encoders[architecture])
    encoder.embeddings.requires_grad_(False)
    encoder.layers[1].train()
    for weight in encoder.model.parameters():
        weight.grad = torch.ones_like(weight)
    if fails:
        encoder.layers[1].forward = broken

    def state() -> list[object]:
        modules = list(encoder.model.modules())
        return [
            [module.training for module in modules],
            [len(hooks) for module in modules for hooks in (module._forward_hooks, module._forward_pre_hooks)],
            [weight.requires_grad for weight in encoder.model.parameters()],
            [bool((weight.grad == 1).all()) for weight in encoder.model.parameters() if weight.grad is not None],
            torch.random.get_rng_state().tolist(),
            torch.is_grad_enabled(),
        ]

    open_layer(encoder, 1)  # a hook that does nothing by itself is installed once
    before = state()
    assert (open_layer(encoder, 1) is None) == fails
    assert state() == before
