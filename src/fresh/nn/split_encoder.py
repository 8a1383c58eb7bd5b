"""An encoder in two parts: the frozen layers, and those above them."""

import copy
from collections.abc import Sequence
from dataclasses import replace
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn
from transformers import PreTrainedModel

from fresh.nn.batch import Batch, Windows
from fresh.nn.encoder import Encoder

# How far the parts may be from the whole encoder, as a share of its largest output: the parts compute the same
# numbers, but kernels may add them in another order.
TOLERANCE = 1e-4


class SplitEncoder(NamedTuple):
    """The layers of an encoder that are frozen, and those above them; all weights are the encoder's own."""

    lower: PreTrainedModel
    upper: PreTrainedModel


class _PassThrough(nn.Module):
    """Stands in for the embeddings and returns its input, which is embedded already."""

    def forward(self, input_ids: Tensor | None = None, inputs_embeds: Tensor | None = None, *_: Any, **__: Any) -> Any:
        return inputs_embeds


def split_encoder(encoder: Encoder, n_lower: int, batch: Batch, windows: Windows) -> SplitEncoder | None:
    """Split an encoder above its first layers, if the parts compute what the whole encoder does.

    :param batch: A few texts to try it on.
    """
    try:
        layers = list(encoder.layers)
        split = SplitEncoder(_part_of(encoder, layers[:n_lower], True), _part_of(encoder, layers[n_lower:], False))
        with torch.inference_mode():
            whole = windows.run(encoder.model, batch)
            found = windows.run(split.upper, replace(batch, hidden=windows.run(split.lower, batch)))
    # Encoders fail in many ways when a part is missing; every one of them means that this encoder cannot be split.
    except (TypeError, ValueError, AttributeError, KeyError, IndexError, NameError, RuntimeError):
        return None
    difference = (found - whole)[batch.mask.bool()].abs().max()
    return split if bool(difference <= TOLERANCE * whole.abs().max()) else None


def _part_of(encoder: Encoder, layers: Sequence[nn.Module], is_lower: bool) -> PreTrainedModel:
    """Copy an encoder's outer shell around some of its layers; all weights stay shared."""
    # The encoder's own forward method runs with fewer layers, so that masks, positions and norms stay its own.
    body: PreTrainedModel = _shallow_copy(encoder.model)
    if is_lower and "final_norm" in body._modules:
        body._modules["final_norm"] = nn.Identity()
    if not is_lower:
        body._modules["embeddings"] = _PassThrough()
        body._modules.pop("embeddings_project", None)
    if "pooler" in body._modules:
        body._modules["pooler"] = None
    [path] = [name for name, module in encoder.model.named_modules() if module is encoder.layers]
    *parents, name = path.split(".")
    holder: nn.Module = body
    for parent in parents:
        inner = _shallow_copy(holder._modules[parent])
        holder._modules[parent] = inner
        holder = inner
    holder._modules[name] = nn.ModuleList(layers)
    return body


def _shallow_copy(module: Any) -> Any:
    copied = copy.copy(module)
    copied._modules = dict(module._modules)  # torch 2.6 to 2.13: the table of a module's parts
    return copied
