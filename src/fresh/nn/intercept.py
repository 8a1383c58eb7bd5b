"""Replace what modules of a shared network put out: for one call, and in its own thread only."""

import threading
from collections.abc import Callable, Mapping
from contextvars import ContextVar, copy_context
from typing import Any, TypeVar

from torch import Tensor, nn

Result = TypeVar("Result")
Intercept = Callable[[tuple[Any, ...], Any], Any]
"""Takes the positional arguments and the output of a module, and returns what to put out in its place."""

_intercepts: ContextVar[Mapping[nn.Module, Intercept]] = ContextVar("intercepts")
_installing = threading.Lock()


def call_intercepted(function: Callable[[], Result], intercepts: Mapping[nn.Module, Intercept]) -> Result:
    """Call a function while intercepts are in force.

    Each module gets one hook for good, which does nothing outside such a call: it finds its intercept in a context
    variable of a context that no other thread sees and that ends with the call. So there is nothing to restore, and an
    interrupt at any line leaves nothing behind.
    """
    for module in intercepts:
        _install_hook(module)
    return copy_context().run(_call, function, intercepts)


def on_tensor(change: Callable[[Tensor], Tensor]) -> Intercept:
    """Make an intercept that changes the output, or its first item where there are several."""

    def intercept(_inputs: tuple[Any, ...], output: Any) -> Any:
        return (change(output[0]), *output[1:]) if isinstance(output, tuple) else change(output)

    return intercept


def _call(function: Callable[[], Result], intercepts: Mapping[nn.Module, Intercept]) -> Result:
    _intercepts.set({**_intercepts.get({}), **intercepts})
    return function()


def _install_hook(module: nn.Module) -> None:
    # `_forward_hooks` (torch 2.6 to 2.13) is the one place that also knows of hooks which came along in a copy.
    with _installing:
        if _hook not in module._forward_hooks.values():
            module.register_forward_hook(_hook)


def _hook(module: nn.Module, inputs: tuple[Any, ...], output: Any) -> Any:
    intercept = _intercepts.get({}).get(module)
    return output if intercept is None else intercept(inputs, output)
