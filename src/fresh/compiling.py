"""Layers of encoders compiled for the time of a training: fewer and larger pieces of work for a GPU."""

import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import torch
from torch import nn
from torch._dynamo.exc import BackendCompilerFailed
from transformers import PreTrainedModel

from fresh.encoder import layers_of

BACKEND: str | Callable[..., Any] = "inductor"
MOST_FORMS = 32
"""How many forms of one layer are compiled, such as with and without a mask; beyond them it runs as it is."""


@contextmanager
def compiled(network: nn.Module, wanted: bool = True) -> Iterator[None]:
    """Have the layers of all encoders of a network compiled when they run, for as long as the block lasts."""
    bodies = [body for body in network.modules() if wanted and isinstance(body, PreTrainedModel)]
    layers = {layer for body in bodies for layer in layers_of(body) or ()}
    with torch._dynamo.config.patch(recompile_limit=MOST_FORMS), warnings.catch_warnings():
        warnings.filterwarnings("ignore", message="The .grad attribute")  # which taking layers apart looks at
        for layer in layers:
            layer.compile(dynamic=True, backend=BACKEND)  # a form that was compiled before is found again
        try:
            yield
        except BackendCompilerFailed as error:
            reason = str(error.inner_exception).strip().partition("\n")[0]
            raise ValueError(
                f"The encoder's layers could not be compiled here: {reason}. Train without: compiled=false."
            ) from error
        finally:
            for layer in layers:
                layer._compiled_call_impl = None
