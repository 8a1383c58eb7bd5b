"""MPNet's attention in one kernel, and in steps that a CUDA graph can capture."""

from typing import Any

import torch
from torch import Tensor
from torch.nn import functional
from transformers import MPNetModel, PreTrainedModel
from transformers.masking_utils import AttentionMaskInterface
from transformers.models.mpnet import modeling_mpnet

from fresh.nn.intercept import is_recorded

FUSED_MPNET = "fresh_mpnet"
_modeling: Any = modeling_mpnet  # some versions of transformers have types here, others have none


def fuse_attention(model: PreTrainedModel) -> None:
    """Let an MPNet attend in one kernel; other encoders stay as they are."""
    if not isinstance(model, MPNetModel):
        return
    # transformers (5.0 to 5.22) has only eager attention for MPNet. It makes the mask, and in 5.17 the distances too,
    # with a copy from the CPU, which a CUDA graph cannot capture.
    model.config._attn_implementation = FUSED_MPNET
    for module in model.modules():
        # Classes are changed, not `forward` methods, so that copies and pickles work.
        if type(module) is _modeling.MPNetEncoder:
            module.__class__ = _Encoder
        elif type(module) is _modeling.MPNetSelfAttention:
            module.__class__ = _Attention


class _Encoder(_modeling.MPNetEncoder):  # type: ignore[misc]
    # Distances and padding make one bias for all layers. Made in each layer, masking and copying it was a quarter of
    # the time of integrated gradients.
    def forward(self, hidden_states: Tensor, attention_mask: Tensor | None = None, **settings: Any) -> Any:
        # The mask is False for padding, with the shape (batch, 1, 1, tokens).
        device, n_tokens = hidden_states.device, hidden_states.shape[1]
        positions = torch.arange(n_tokens, device=device)
        buckets = self.relative_position_bucket(positions - positions.unsqueeze(1))
        bias = self.relative_attention_bias(buckets).permute(2, 0, 1).unsqueeze(0)  # (1, heads, tokens, tokens)
        is_autocast = torch.is_autocast_enabled(device.type)
        bias = bias.to(torch.get_autocast_dtype(device.type) if is_autocast else hidden_states.dtype)
        if attention_mask is not None:
            # The lowest number, not minus infinity: a row that may attend to nothing must not become NaN.
            bias = bias.masked_fill(~attention_mask, torch.finfo(bias.dtype).min)
        # Kernels take rows that start at multiples of 8 numbers, and copy other biases in each layer.
        bias = functional.pad(bias, (0, -n_tokens % 8))[..., :n_tokens]
        return super().forward(hidden_states, bias, **settings)

    def compute_position_bias(self, *_arguments: Any, **_settings: Any) -> None:
        """Return none: the mask that layers get has the bias."""


class _Attention(_modeling.MPNetSelfAttention):  # type: ignore[misc]
    def forward(
        self,
        hidden_states: Tensor,
        attention_mask: Tensor,
        position_bias: None = None,
        output_attentions: bool = False,
        **settings: Any,
    ) -> tuple[Tensor, ...]:
        if output_attentions or is_recorded(self.dropout):
            return super().forward(hidden_states, attention_mask, None, output_attentions, **settings)  # type: ignore[no-any-return]
        shape = (*hidden_states.shape[:-1], -1, self.attention_head_size)
        parts = (self.q(hidden_states), self.k(hidden_states), self.v(hidden_states))
        query, key, value = (part.view(shape).transpose(1, 2) for part in parts)
        dropout = self.dropout.p if self.training else 0.0
        context = functional.scaled_dot_product_attention(query, key, value, attention_mask, dropout)
        return (self.o(context.transpose(1, 2).flatten(2)),)


def _make_padding_mask(*_arguments: Any, attention_mask: Tensor | None = None, **_settings: Any) -> Tensor | None:
    return None if attention_mask is None else attention_mask[:, None, None].bool()


AttentionMaskInterface.register(FUSED_MPNET, _make_padding_mask)
