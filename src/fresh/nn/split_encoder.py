"""An encoder in two parts: the frozen layers, and those above them."""

import copy
import inspect
from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor, nn

from fresh.nn.batch import Batch, Layout, Windows
from fresh.nn.encoder import Encoder

TOLERANCE = 1e-4
"""How far the parts may be from the whole encoder, as a share of the largest number."""


class SplitEncoder:
    """Runs an encoder up to a layer, and from there on; the layers are the encoder's own."""

    def __init__(self, encoder: Encoder, n_lower: int, windows: Windows | None = None) -> None:
        layers = list(encoder.layers)
        self.n_lower = n_lower
        self.windows = windows or Windows()
        self.lower = _part_of(encoder, layers[:n_lower], is_lower=True)
        self.upper = _part_of(encoder, layers[n_lower:], is_lower=False)
        accepted = inspect.signature(encoder.model.forward).parameters.keys()
        self.lower_inputs = {"token_type_ids", "position_ids"} & accepted
        self.upper_inputs = {"position_ids"} & accepted

    @property
    def config(self) -> Any:
        """Configuration of the encoder."""
        return self.lower.config

    def run_lower(self, batch: Batch) -> Tensor:
        """Run the lower layers. Shape: (batch, tokens, width)."""
        rows = self.windows.fold(batch)
        inputs = extra_inputs(rows, self.lower_inputs)
        hidden: Tensor = self.lower(rows.ids, attention_mask=rows.attention_mask, **inputs).last_hidden_state
        return self.windows.unfold(hidden, *batch.mask.shape)

    def run_upper(self, hidden: Tensor, layout: Layout) -> Tensor:
        """Run the upper layers on what the lower ones put out. Shape: (batch, tokens, width)."""
        rows, states = self.windows.fold(layout), self.windows.fold_rows(hidden)
        inputs = extra_inputs(rows, self.upper_inputs)
        states = self.upper(inputs_embeds=states, attention_mask=rows.attention_mask, **inputs).last_hidden_state
        return self.windows.unfold(states, *layout.mask.shape)


class _PassThrough(nn.Module):
    """Stands in for the embeddings and passes on what is embedded already."""

    def forward(self, input_ids: Tensor | None = None, inputs_embeds: Tensor | None = None, *_: Any, **__: Any) -> Any:
        return inputs_embeds


def extra_inputs(layout: Layout, names: set[str]) -> dict[str, Tensor]:
    """Take what an encoder reads beside token ids."""
    values = {"position_ids": layout.positions}
    if isinstance(layout, Batch):
        values["token_type_ids"] = layout.types
    return {name: values[name] for name in names}


def split_encoder(encoder: Encoder, n_lower: int, batch: Batch, windows: Windows | None = None) -> SplitEncoder | None:
    """Split an encoder, if the parts give what the whole gives.

    :param batch: A few texts to try it on.
    """
    try:
        split = SplitEncoder(encoder, n_lower, windows)
        with torch.inference_mode():
            found = split.run_upper(split.run_lower(batch), batch)
            inputs = extra_inputs(batch, split.lower_inputs)
            whole = encoder.model(batch.ids, attention_mask=batch.mask, **inputs).last_hidden_state
    # Encoders fail in many ways when their parts are missing; all mean that this one cannot be split.
    except (TypeError, ValueError, AttributeError, KeyError, IndexError, NameError, RuntimeError):
        return None
    difference = (found - whole)[batch.mask.bool()].abs().max()
    return split if bool(difference <= TOLERANCE * whole.abs().max()) else None


def _part_of(encoder: Encoder, layers: Sequence[nn.Module], is_lower: bool) -> nn.Module:
    """Copy an encoder's outer shell around some of its layers; all weights stay shared."""
    # The encoder's own forward method runs with fewer layers, so that masks, positions and norms stay its own.
    body = _shallow_copy(encoder.model)
    if is_lower and "final_norm" in body._modules:
        body._modules["final_norm"] = nn.Identity()
    if not is_lower:
        body._modules["embeddings"] = _PassThrough()
        body._modules.pop("embeddings_project", None)
    if "pooler" in body._modules:
        body._modules["pooler"] = None
    [path] = [name for name, module in encoder.model.named_modules() if module is encoder.layers]
    *parents, name = path.split(".")
    holder = body
    for parent in parents:
        inner = _shallow_copy(holder._modules[parent])
        holder._modules[parent] = inner
        holder = inner
    holder._modules[name] = nn.ModuleList(layers)
    return body


def _shallow_copy(module: nn.Module | None) -> nn.Module:
    """Copy a module, but not what is in it."""
    assert module is not None
    copied = copy.copy(module)
    copied._modules = dict(module._modules)  # torch 2.6 to 2.13: the table of a module's parts
    return copied
