"""Replace the outputs of modules of a shared network: for one call, and in its own thread only."""

import threading
from collections.abc import Callable, Mapping
from contextvars import ContextVar, copy_context
from typing import Any, TypeVar

from torch import Tensor, nn

Result = TypeVar("Result")
Intercepts = Mapping[nn.Module, Callable[[Tensor], Tensor]]
"""For each module, the function that its output, or the first of its outputs, goes through."""

_intercepts: ContextVar[Intercepts] = ContextVar("intercepts")
_installing = threading.Lock()


def call_intercepted(function: Callable[[], Result], intercepts: Intercepts) -> Result:
    """Call a function while the outputs of some modules are replaced."""
    # Each module gets one permanent hook, which does nothing outside such a call: it finds its function in a context
    # variable that no other thread sees and that ends with the call. An interrupt at any line leaves nothing behind.
    with _installing:
        for module in intercepts:
            # `_forward_hooks` (torch 2.6 to 2.13) also has the hook of a module that was copied.
            if _hook not in module._forward_hooks.values():
                module.register_forward_hook(_hook)

    def call() -> Result:
        _intercepts.set({**_intercepts.get({}), **intercepts})
        return function()

    return copy_context().run(call)


def _hook(module: nn.Module, _inputs: tuple[Any, ...], output: Any) -> Any:
    change = _intercepts.get({}).get(module)
    if change is None:
        return output
    return (change(output[0]), *output[1:]) if isinstance(output, tuple) else change(output)
