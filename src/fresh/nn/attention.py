"""One transformer layer with its attention in the open, for all pieces or for the start token alone."""

import inspect
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from typing import Any, ClassVar, Literal, NamedTuple

import torch
from torch import Tensor, nn
from torch.nn import functional

from fresh.errors import EncoderError
from fresh.nn.encoder import Encoder
from fresh.nn.fast_layers import QuickLinear
from fresh.nn.intercept import call_intercepted
from fresh.nn.memory import is_out_of_memory
from fresh.nn.tokenizer import positions_of

Rows = Literal["start", "all"]


class _Projection(NamedTuple):
    """What makes queries, keys or values of all heads. Shapes: (heads * size, width) and (heads * size,)."""

    weight: Tensor
    bias: Tensor | None


@dataclass(frozen=True, slots=True)
class OpenLayer:
    """A layer whose attention is computed in the open, as BERT, RoBERTa and ELECTRA compute theirs."""

    body: Any
    layer: Any
    size: int
    """How wide a head is."""

    place: ClassVar[str] = "attention.self"
    """The module that attends; by its name and its parts' an architecture is recognised."""
    linears: ClassVar[tuple[str, ...]] = ("query", "key", "value")

    @property
    def attention(self) -> Any:
        """The module that attends."""
        return self.layer.get_submodule(self.place)

    def read(self, hidden: Tensor, mask: Tensor, positions: Tensor, rows: Rows) -> tuple[Tensor, Tensor]:
        """Run the layer.

        :param hidden: What enters the layer. Shape: (batch, pieces, width).
        :param mask: 1 where there is a piece, 0 where it was filled up. Shape: (batch, pieces).
        :param positions: Position ids. Shape: (batch, pieces).
        :param rows: Which pieces look around: the start token, which is much cheaper, or all.
        :return: What the layer puts out for the rows, shape (batch, rows, width), and how much each of them looks at
            each piece, before dropout, shape (batch, heads, rows, pieces); for ``start`` there is one row.
        """
        seen = self.enter(hidden)  # (batch, pieces, width)
        scores = self.scores(seen, positions, rows)  # (batch, heads, rows, pieces)
        scores = scores.to(torch.promote_types(scores.dtype, torch.float32)) * self.size**-0.5
        filled = mask[:, None, None] == 0  # (batch, 1, 1, pieces)
        weights = self.placed(scores).masked_fill(filled, torch.finfo(scores.dtype).min).softmax(-1)
        context = self.context(self.drop(weights).to(seen.dtype), seen, rows)  # (batch, rows, heads * size)
        return self.leave(context, first(hidden, rows)), weights

    def scores(self, seen: Tensor, positions: Tensor, rows: Rows) -> Tensor:
        """Compare the rows with all pieces. Shape: (batch, heads, rows, pieces)."""
        query, key, _ = self.projections()
        with_target = self.by_head(query, first(seen, rows))  # (batch, heads, rows, size)
        if rows == "all":
            return with_target @ self.by_head(key, seen).mT
        # q · (W x + b) is (q W) · x + q · b: one wide query a head instead of a key a piece.
        with_target = with_target.squeeze(2)
        wide = with_target.transpose(0, 1) @ key.weight.view(-1, self.size, seen.shape[-1])  # (heads, batch, width)
        scores = wide.transpose(0, 1) @ seen.mT  # (batch, heads, pieces)
        if key.bias is not None:  # the same for all pieces, so softmax forgets it; but a bias wants its gradient
            scores = scores + (with_target * key.bias.view(-1, self.size)).sum(-1, keepdim=True)
        return scores.unsqueeze(2)

    def context(self, weights: Tensor, seen: Tensor, rows: Rows) -> Tensor:
        """Mix the values of the pieces as the weights say. Shape: (batch, rows, heads * size)."""
        value = self.projections()[2]
        if rows == "all":
            return (weights @ self.by_head(value, seen)).transpose(1, 2).flatten(2)
        # Mixing comes before projecting; the bias comes in as often as the weights have it, not 1 under dropout.
        mixed = weights.squeeze(2) @ seen  # (batch, heads, width)
        projected = mixed.transpose(0, 1) @ value.weight.view(-1, self.size, seen.shape[-1]).mT  # (heads, batch, size)
        context = projected.transpose(0, 1)
        if value.bias is not None:
            context = context + weights.sum(-1) * value.bias.view(-1, self.size)
        return context.flatten(1).unsqueeze(1)

    def by_head(self, projection: _Projection, seen: Tensor) -> Tensor:
        """Project and take heads apart. Shape: (batch, heads, rows, size)."""
        return functional.linear(seen, *projection).view(*seen.shape[:2], -1, self.size).transpose(1, 2)

    def projections(self) -> tuple[_Projection, ...]:
        """Take what makes queries, keys and values."""
        attention = self.attention
        found = (getattr(attention, name) for name in self.linears)
        return tuple(_Projection(linear.weight, linear.bias) for linear in found)

    def enter(self, hidden: Tensor) -> Tensor:
        """Do what comes before attention."""
        return hidden

    def placed(self, scores: Tensor) -> Tensor:
        """Let scores depend on how far row and piece are apart. Shape: (batch, heads, rows, pieces)."""
        return scores

    def drop(self, weights: Tensor) -> Tensor:
        """Drop some weights in training."""
        return functional.dropout(weights, self.attention.dropout.p, self.attention.training)

    def leave(self, context: Tensor, hidden: Tensor) -> Tensor:
        """Do what comes after attention, the feed-forward part included. Shape: (batch, rows, width)."""
        attended = self.layer.attention.output(context, hidden)
        return self.layer.output(self.layer.intermediate(attended), attended)  # type: ignore[no-any-return]


@dataclass(frozen=True, slots=True)
class _OpenDistilBert(OpenLayer):
    """DistilBERT's layer: BERT's, with other names."""

    place = "attention"
    linears = ("q_lin", "k_lin", "v_lin")

    def leave(self, context: Tensor, hidden: Tensor) -> Tensor:
        """Do what comes after attention."""
        attended = self.layer.sa_layer_norm(self.attention.out_lin(context) + hidden)
        return self.layer.output_layer_norm(self.layer.ffn(attended) + attended)  # type: ignore[no-any-return]


@dataclass(frozen=True, slots=True)
class _OpenMPNet(OpenLayer):
    """MPNet's layer: BERT's, and all layers share what distances between pieces add to scores."""

    place = "attention.attn"
    linears = ("q", "k", "v")

    def placed(self, scores: Tensor) -> Tensor:
        """Add what the distance between row and piece is worth."""
        shared = self.body.encoder
        bucket = shared.relative_position_bucket(_distances(scores))
        return scores + shared.relative_attention_bias(bucket).permute(2, 0, 1)  # type: ignore[no-any-return]

    def drop(self, weights: Tensor) -> Tensor:
        """Drop some weights in training."""
        return self.attention.dropout(weights)  # type: ignore[no-any-return]

    def leave(self, context: Tensor, hidden: Tensor) -> Tensor:
        """Do what comes after attention."""
        around = self.layer.attention
        attended = around.LayerNorm(around.dropout(self.attention.o(context)) + hidden)
        return self.layer.output(self.layer.intermediate(attended), attended)  # type: ignore[no-any-return]


@dataclass(frozen=True, slots=True)
class _OpenModernBert(OpenLayer):
    """ModernBERT's layer: norms come first, positions turn queries and keys, local layers see a window."""

    place = "attn"
    linears = ("Wqkv",)

    @property
    def window(self) -> int | None:
        """How far a piece sees; None without limit."""
        return int(self.body.config.sliding_window) if self.layer.attention_type == "sliding_attention" else None

    def projections(self) -> tuple[_Projection, ...]:
        """Take what makes queries, keys and values out of the one matrix that makes them all."""
        fused = self.attention.Wqkv
        biases = (None,) * 3 if fused.bias is None else fused.bias.chunk(3)
        return tuple(map(_Projection, fused.weight.chunk(3), biases))

    def enter(self, hidden: Tensor) -> Tensor:
        """Do what comes before attention."""
        return self.layer.attn_norm(hidden)  # type: ignore[no-any-return]

    def scores(self, seen: Tensor, positions: Tensor, rows: Rows) -> Tensor:
        """Compare the rows with all pieces; each key is turned by its own position, so all are needed."""
        query, key, _ = self.projections()
        cos, sin = self.body.rotary_emb(seen, positions, self.layer.attention_type)  # (batch, pieces, size)
        with_target = _turned(self.by_head(query, first(seen, rows)), first(cos, rows), first(sin, rows))
        return with_target @ _turned(self.by_head(key, seen), cos, sin).mT

    def placed(self, scores: Tensor) -> Tensor:
        """Leave out what is too far away."""
        if self.window is None:
            return scores
        return scores.masked_fill(_distances(scores).abs() > self.window, torch.finfo(scores.dtype).min)

    def drop(self, weights: Tensor) -> Tensor:
        """Drop some weights in training."""
        return functional.dropout(weights, self.attention.attention_dropout, self.attention.training)

    def leave(self, context: Tensor, hidden: Tensor) -> Tensor:
        """Do what comes after attention."""
        attended = hidden + self.attention.out_drop(self.attention.Wo(context))
        return attended + self.layer.mlp(self.layer.mlp_norm(attended))  # type: ignore[no-any-return]


def first(values: Tensor, rows: Rows) -> Tensor:
    """Take the rows that are asked for. Shape: (batch, rows, ...)."""
    return values[:, :1] if rows == "start" else values


def _distances(scores: Tensor) -> Tensor:
    """Count how far each piece comes after each row. Shape: (rows, pieces)."""
    places = torch.arange(scores.shape[-1], device=scores.device)
    return places - places[: scores.shape[-2], None]


def _turned(values: Tensor, cos: Tensor, sin: Tensor) -> Tensor:
    """Turn each pair of numbers by its angle (Su et al., 2021). Shape: (batch, heads, rows, size)."""
    near, far = values.float().chunk(2, dim=-1)
    return (values.float() * cos.unsqueeze(1) + torch.cat((-far, near), -1) * sin.unsqueeze(1)).to(values.dtype)


def open_layer(encoder: Encoder, layer: int) -> OpenLayer | None:
    """Find out how to compute a layer in the open; None for an encoder whose layers are not understood.

    Names prove nothing, so the layer is tried against the ordinary one on a few pieces. That leaves no trace.

    :param layer: Which layer: 0 is the first, -1 the last.
    """
    try:
        encoder.below(layer)  # refuses a layer that there is not
        module = encoder.layers[layer]
    except EncoderError:
        return None
    parts, size = dict(module.named_modules()), encoder.width // int(encoder.model.config.num_attention_heads)
    for kind in (OpenLayer, _OpenDistilBert, _OpenMPNet, _OpenModernBert):
        # Plain matrices only: one that was wrapped may compute more than its weights say.
        if all(type(parts.get(f"{kind.place}.{name}")) in (nn.Linear, QuickLinear) for name in kind.linears):
            found = kind(encoder.model, module, size)
            try:
                return found if _agrees(found, encoder) else None
            except (AttributeError, LookupError, RuntimeError, TypeError, ValueError) as error:
                if is_out_of_memory(error):  # a full card says nothing of a layer
                    raise
    return None


@torch.no_grad()
def _agrees(found: OpenLayer, encoder: Encoder) -> bool:
    """Run a few pieces through the network and compare what the layer puts out with the ordinary one."""
    ids, mask, positions = sample(found, encoder)
    inputs = {"attention_mask": mask, "position_ids": positions, "token_type_ids": torch.zeros_like(ids)}
    taken = inspect.signature(encoder.model.forward).parameters.keys()
    with _evaluating(encoder.model), torch.autocast(ids.device.type, enabled=False):
        read = partial(encoder.model, ids, **{name: value for name, value in inputs.items() if name in taken})
        hidden, expected = _entering_and_leaving(found.layer, read)
        every, _ = found.read(hidden, mask, positions, "all")
        start, _ = found.read(hidden, mask, positions, "start")
    real = mask == 1  # what is made of filled up places is nobody's business
    near, size = _tolerance(expected.dtype), float(expected[real].abs().mean())
    pairs = ((every[real], expected[real]), (start, expected[:, :1]))
    return all(torch.allclose(opened, ordinary, rtol=near, atol=near * size) for opened, ordinary in pairs)


def _tolerance(dtype: torch.dtype) -> float:
    """Say how far results may be apart, relative to their scale, for numbers of some precision."""
    coarse = dtype == torch.float32 and torch.get_float32_matmul_precision() != "highest"  # TF32 rounds as halves do
    return max(1e-4, 8 * torch.finfo(torch.float16 if coarse else dtype).eps)


def sample(found: OpenLayer, encoder: Encoder) -> tuple[Tensor, Tensor, Tensor]:
    """Make two texts to try a layer on, one of them filled up; longer than the window of a layer that has one."""
    n_pieces = 6 + ((found.window or 0) if isinstance(found, _OpenModernBert) else 0)
    device = encoder.model.device
    ids = torch.arange(2 * n_pieces, device=device).view(2, -1) * 7919 % encoder.word_embeddings.num_embeddings
    mask = torch.ones_like(ids)
    mask[1, n_pieces - 2 :] = 0
    positions = positions_of(encoder)[0] + torch.arange(n_pieces, device=device).expand(2, -1) // 2
    return ids, mask, positions


@contextmanager
def _evaluating(model: nn.Module) -> Iterator[None]:
    """Switch dropout off for as long as the block lasts; then each module is in its own mode again."""
    modes = [(module, module.training) for module in model.modules()]
    model.eval()
    try:
        yield
    finally:
        for module, mode in modes:
            module.training = mode


def _entering_and_leaving(layer: nn.Module, read: Callable[[], object]) -> tuple[Tensor, Tensor]:
    """Tell what enters a layer and what it puts out while something is read."""
    passed: list[tuple[Tensor, Tensor]] = []

    def listen(inputs: tuple[Any, ...], output: Any) -> Any:
        passed.append((inputs[0], output if isinstance(output, Tensor) else output[0]))
        return output

    call_intercepted(read, {layer: listen})
    [found] = passed
    return found
