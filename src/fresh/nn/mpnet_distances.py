"""MPNet's attention in one kernel: what distances between pieces are worth is added inside it."""

import weakref
from collections.abc import Iterable
from functools import partial
from typing import Any

import torch
from torch import Tensor, nn
from transformers import MPNetModel
from transformers.masking_utils import AttentionMaskInterface
from transformers.models.mpnet.modeling_mpnet import MPNetEncoder, MPNetSelfAttention

from fresh.nn import attention_dropout as dropped

NAME = "fresh_distances"
ALIGNED = 16
"""Rows of what is added begin at a multiple of this; otherwise each layer would copy them."""


class _Added:
    """What is added to scores: for the distance between pieces, and where nothing may be looked at.

    All layers add the same, so it is made once a reading.
    """

    def __init__(self) -> None:
        self.made_of: weakref.ref[Tensor] | None = None
        self.made: Tensor | None = None

    def __call__(self, worth: Tensor, there: Tensor | None, dtype: torch.dtype) -> Tensor:
        """Make it, or take what was made for the layer before.

        :param worth: What distances are worth. Shape: (texts, heads, pieces, pieces).
        :param there: Where there are pieces; None if nothing is filled up. Shape: (texts, pieces).
        """
        is_same = self.made_of is not None and self.made_of() is worth
        if self.made is None or self.made.dtype != dtype or not is_same:
            self.made = None  # there may be no room for two
            self.made_of, self.made = weakref.ref(worth), _together(worth.detach(), there, dtype)
        return self.made


def _together(worth: Tensor, there: Tensor | None, dtype: torch.dtype) -> Tensor:
    """Add up what is added to scores. Shape: (texts, heads, pieces, pieces)."""
    n_pieces = worth.shape[-1]
    needed = worth[:1] if there is None else worth
    room = needed.new_zeros(*needed.shape[:-1], -(-n_pieces // ALIGNED) * ALIGNED, dtype=dtype)[..., :n_pieces]
    room.copy_(needed)
    if there is not None:
        room.masked_fill_(~there[:, None, None], torch.finfo(dtype).min)
    return room.expand(worth.shape)


def _attend(
    module: MPNetSelfAttention,
    added: _Added,
    hidden_states: Tensor,
    attention_mask: Tensor | None,
    position_bias: Tensor,
    output_attentions: bool = False,
    **others: Any,
) -> tuple[Tensor, ...]:
    """Do what the module does, without ever having all weights at once, unless they are asked for.

    :param attention_mask: Where there are pieces; None if nothing is filled up. Shape: (texts, pieces).
        Where eager attention is asked for, it is what that adds to scores.
    :param position_bias: What distances are worth. Shape: (texts, heads, pieces, pieces).
    """
    if attention_mask is not None and attention_mask.is_floating_point():
        eager: tuple[Tensor, ...] = MPNetSelfAttention.forward(
            module, hidden_states, attention_mask, position_bias, output_attentions, **others
        )
        return eager
    if output_attentions:
        both = added(position_bias, attention_mask, position_bias.dtype)
        whole: tuple[Tensor, ...] = MPNetSelfAttention.forward(module, hidden_states, None, both, True, **others)
        return whole
    shape = (*hidden_states.shape[:2], -1, module.attention_head_size)
    query, key, value = (part(hidden_states).view(shape).transpose(1, 2) for part in (module.q, module.k, module.v))
    both = added(position_bias, attention_mask, query.dtype)
    dropout = module.dropout.p if module.training else 0.0
    context = dropped.attend(query, key, value, both, dropout)
    return (module.o(context.transpose(1, 2).flatten(2)),)


def _there_or_none(*_given: Any, attention_mask: Tensor | None = None, **_others: Any) -> Tensor | None:
    """Pass on where there are pieces, as they are told."""
    return attention_mask


def hold_still(network: nn.Module) -> None:
    """Have no training change what distances are worth, and say it without leaving the device.

    They are a few hundred numbers, but finding how they should change takes longer than the rest of attention.
    """
    for body in _bodies(network):
        body.encoder.relative_attention_bias.requires_grad_(False)
        vars(body.encoder)["compute_position_bias"] = partial(_worth_of_distances, body.encoder)


@torch.no_grad()
def _worth_of_distances(encoder: MPNetEncoder, hidden: Tensor) -> Tensor:
    """Say what distances between pieces are worth. Shape: (texts, heads, pieces, pieces).

    :param hidden: What the pieces are so far. Shape: (texts, pieces, width).
    """
    n_texts, n_pieces, _ = hidden.shape
    apart = torch.arange(1 - n_pieces, n_pieces, device=hidden.device)
    worth = encoder.relative_attention_bias(encoder.relative_position_bucket(apart))  # (2 * pieces - 1, heads)
    windows = worth.T.unfold(1, n_pieces, 1)  # (heads, pieces, pieces); the last piece's row comes first
    rows: Tensor = windows.flip(1)
    return rows.expand(n_texts, -1, -1, -1)


def take_over(network: nn.Module) -> list[MPNetModel]:
    """Have all attention of a network done so; say in which encoders it was not before."""
    taken = [body for body in _bodies(network) if body.config._attn_implementation != NAME]
    for body in taken:
        body.config._attn_implementation = NAME
        added = _Added()
        for module in _attending(body):
            vars(module)["forward"] = partial(_attend, module, added)
    return taken


def give_back(taken: Iterable[MPNetModel]) -> None:
    """Have it done as usual again in some encoders."""
    for body in taken:
        body.config._attn_implementation = "eager"
        for module in _attending(body):
            vars(module).pop("forward", None)


def _attending(body: MPNetModel) -> list[MPNetSelfAttention]:
    """List the modules of an encoder that attend."""
    return [module for module in body.modules() if type(module) is MPNetSelfAttention]


def _bodies(network: nn.Module) -> list[MPNetModel]:
    """List the encoders of a network that add something for distances."""
    return [module for module in network.modules() if isinstance(module, MPNetModel)]


AttentionMaskInterface.register(NAME, _there_or_none)
