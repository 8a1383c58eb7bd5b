"""Weights of encoders rounded to 16 bits, which a training step reads, beside the exact ones, which learn."""

from collections.abc import Iterator
from contextlib import contextmanager

import torch
from torch import nn
from transformers import PreTrainedModel


class Bf16Weights:
    """Rounded copies of the weights of all encoders of a network."""

    def __init__(self, network: nn.Module) -> None:
        bodies = [body for body in network.modules() if isinstance(body, PreTrainedModel)]
        modules = {module: None for body in bodies for module in body.modules()}
        self.places = [
            (module._parameters, name, weight)
            for module in modules
            for name, weight in module._parameters.items()
            if weight is not None and weight.is_floating_point()
        ]
        exact = dict.fromkeys(weight for _, _, weight in self.places)
        self.copies = {weight: nn.Parameter(weight.detach().bfloat16(), weight.requires_grad) for weight in exact}
        self.learning = [(weight, copy) for weight, copy in self.copies.items() if weight.requires_grad]

    @contextmanager
    def in_place(self) -> Iterator[None]:
        """Have the encoders read rounded weights, as they are now, for as long as the block lasts."""
        with torch.no_grad():
            if self.learning:
                exact, copies = zip(*self.learning, strict=True)
                torch._foreach_copy_(copies, exact)
        for names, name, weight in self.places:
            names[name] = self.copies[weight]
        try:
            yield
        finally:
            for names, name, weight in self.places:
                names[name] = weight

    def hand_over(self) -> None:
        """Add the gradients of the rounded weights to those of the exact ones."""
        found = [(weight, copy.grad) for weight, copy in self.learning if copy.grad is not None]
        new = [torch.empty_like(weight) for weight, _ in found]
        if found:
            torch._foreach_copy_(new, [gradient for _, gradient in found])
        for (weight, _), gradient in zip(found, new, strict=True):
            weight.grad = gradient if weight.grad is None else weight.grad + gradient
        self.forget()

    def forget(self) -> None:
        """Drop gradients that were not handed over."""
        for _, copy in self.learning:
            copy.grad = None
