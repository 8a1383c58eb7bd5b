"""An encoder in two halves: the layers below a cut, and those above it."""

import copy
import inspect
from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor, nn

from fresh.nn.attention import OpenLayer, open_layer
from fresh.nn.batch import Batch, Layout
from fresh.nn.encoder import Encoder
from fresh.nn.windows import Windows

CLOSE = 1e-4
"""How far the halves may be from the whole, as a share of the largest number."""

WHOLE = Windows()


class _Given(nn.Module):
    """Stands in the place of embeddings and passes on what it is given."""

    def forward(self, input_ids: Tensor | None = None, inputs_embeds: Tensor | None = None, *_: Any, **__: Any) -> Any:
        """Return what is said to be embedded already."""
        return inputs_embeds


class SplitEncoder:
    """Runs an encoder up to a cut, and from there on; the layers are the encoder's own."""

    def __init__(self, encoder: Encoder, n_below: int, start_only: bool, windows: Windows = WHOLE) -> None:
        layers = list(encoder.layers)
        self.windows = windows
        self.last: OpenLayer | None = open_layer(encoder, -1) if start_only else None
        """The last layer, if only the start token's row of it is wanted and can be computed alone."""
        self.norm: nn.Module | None = getattr(encoder.model, "final_norm", None) if self.last else None
        self.n_below = min(n_below, len(layers) - (self.last is not None))
        top = layers[self.n_below : len(layers) - (self.last is not None)]
        self.lower = _part_of(encoder, layers[: self.n_below], is_lower=True, normed=False)
        self.upper = _part_of(encoder, top, is_lower=False, normed=self.last is None) if top or not self.last else None
        accepted = inspect.signature(encoder.model.forward).parameters.keys()
        self.lower_inputs = {"token_type_ids", "position_ids"} & accepted
        self.takes_positions = "position_ids" in accepted

    @property
    def config(self) -> Any:
        """The settings of the encoder."""
        return self.lower.config

    def below(self, batch: Batch) -> Tensor:
        """Read a batch up to the cut. Shape: (batch, pieces, width)."""
        rows = self.windows.fold(batch)
        given = extras(rows, self.lower_inputs)
        hidden: Tensor = self.lower(rows.ids, attention_mask=rows.attended, **given).last_hidden_state
        return self.windows.unfold(hidden, *batch.mask.shape)

    def above(self, hidden: Tensor, batch: Layout) -> tuple[Tensor, Tensor | None]:
        """Go on from the cut.

        :return: What comes out (batch, pieces, width), or, if no more is wanted, for the start token alone
            (batch, 1, width); then also what that token looks at in the last layer (batch, heads, 1, pieces).
        """
        if self.upper is not None:
            rows, states = self.windows.fold(batch), self.windows.fold_rows(hidden)
            given = {"position_ids": rows.positions} if self.takes_positions else {}
            states = self.upper(inputs_embeds=states, attention_mask=rows.attended, **given).last_hidden_state
            hidden = self.windows.unfold(states, *batch.mask.shape)
        if self.last is None:
            return hidden, None
        out, weights = self.last.read(hidden, batch.mask, batch.positions, "start")
        return out if self.norm is None else self.norm(out), weights


def extras(batch: Batch, names: set[str]) -> dict[str, Tensor]:
    """Take what an encoder reads beside the pieces themselves."""
    known = {"token_type_ids": batch.types, "position_ids": batch.positions}
    return {name: known[name] for name in names}


def _part_of(encoder: Encoder, layers: Sequence[nn.Module], is_lower: bool, normed: bool) -> nn.Module:
    """Copy an encoder's outer shell around some of its layers; all weights stay shared."""
    body = _shallow(encoder.model)
    if not is_lower:
        body._modules["embeddings"] = _Given()
        body._modules.pop("embeddings_project", None)
    if not normed and "final_norm" in body._modules:
        body._modules["final_norm"] = nn.Identity()
    if "pooler" in body._modules:
        body._modules["pooler"] = None
    [path] = [name for name, module in encoder.model.named_modules() if module is encoder.layers]
    *parents, name = path.split(".")
    holder = body
    for parent in parents:
        inner = _shallow(holder._modules[parent])
        holder._modules[parent] = inner
        holder = inner
    holder._modules[name] = nn.ModuleList(layers)
    return body


def _shallow(module: nn.Module | None) -> nn.Module:
    """Copy a module, but not what is in it."""
    assert module is not None
    copied = copy.copy(module)
    copied._modules = dict(module._modules)
    return copied


def split_encoder(
    encoder: Encoder, n_below: int, start_only: bool, batch: Batch, windows: Windows = WHOLE
) -> SplitEncoder | None:
    """Cut an encoder in two, if it can be seen that the halves do what the whole does.

    :param batch: Something to try it on.
    """
    try:
        halves = SplitEncoder(encoder, n_below, start_only, windows)
        with torch.inference_mode():
            found, _ = halves.above(halves.below(batch), batch)
            given = extras(batch, halves.lower_inputs)
            whole = encoder.model(batch.ids, attention_mask=batch.mask, **given).last_hidden_state
    except (TypeError, ValueError, AttributeError, KeyError, IndexError, NameError, RuntimeError):
        return None
    there = batch.mask[:, : found.shape[1]].bool()
    apart = (found - whole[:, : found.shape[1]])[there].abs().max()
    return halves if bool(apart <= CLOSE * whole.abs().max()) else None
