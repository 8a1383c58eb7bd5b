"""MPNet's attention in one kernel: what distances between pieces are worth is added inside it."""

from types import MethodType
from typing import Any

from torch import Tensor, nn
from torch.nn import functional
from transformers.models.mpnet.modeling_mpnet import MPNetSelfAttention


def attend(
    self: MPNetSelfAttention,
    hidden_states: Tensor,
    attention_mask: Tensor | None = None,
    position_bias: Tensor | None = None,
    output_attentions: bool = False,
    **others: Any,
) -> tuple[Tensor, ...]:
    """Do what the module does, without ever having all weights at once, unless they are asked for.

    :param attention_mask: What is added to scores of what may not be looked at.
    :param position_bias: What is added to scores for the distance between pieces.
    """
    if output_attentions:
        whole: tuple[Tensor, ...] = MPNetSelfAttention.forward(
            self, hidden_states, attention_mask, position_bias, True, **others
        )
        return whole
    shape = (*hidden_states.shape[:2], -1, self.attention_head_size)
    query, key, value = (part(hidden_states).view(shape).transpose(1, 2) for part in (self.q, self.k, self.v))
    given = [part for part in (attention_mask, position_bias) if part is not None]
    added = sum(given[1:], given[0]).to(query.dtype) if given else None
    dropout = self.dropout.p if self.training else 0.0
    context = functional.scaled_dot_product_attention(query, key, value, added, dropout)
    return (self.o(context.transpose(1, 2).flatten(2)),)


def take_over(body: nn.Module) -> list[nn.Module]:
    """Have all attention of a network done so, and list where."""
    places = [module for module in body.modules() if type(module) is MPNetSelfAttention]
    for module in places:
        vars(module)["forward"] = MethodType(attend, module)
    return list(places)


def give_back(places: list[nn.Module]) -> None:
    """Have it done as usual again."""
    for module in places:
        vars(module).pop("forward", None)
