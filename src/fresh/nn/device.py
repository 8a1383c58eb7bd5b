"""Devices: choosing one, and what is particular to a GPU that runs out of memory."""

import os
import threading
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import torch

from fresh._optional import optional_import

# Batches that must succeed before larger ones are tried again.
BATCHES_BEFORE_GROWTH = 64
# How libraries that do not ask torch for memory report a full GPU.
OUT_OF_MEMORY_SIGNS = (
    "CUDA error: out of memory",
    "CUDA driver error: out of memory",
    "CUBLAS_STATUS_ALLOC_FAILED",
    "CUBLAS_STATUS_EXECUTION_FAILED",
    "CUBLAS_STATUS_NOT_INITIALIZED",
    "CUDNN_STATUS_ALLOC_FAILED",
    "CUDNN_STATUS_NOT_INITIALIZED",
)
OUT_OF_MEMORY = (
    "Out of GPU memory: smaller batches are used for a while. "
    "The result is the same; in training, a smaller batch_size is faster."
)


def choose_device(name: str) -> torch.device:
    """Turn a device's name into a device; ``auto`` takes the fastest one."""
    if name == "auto":
        if is_one_of_several():
            device: torch.device = process_state().device
            return device
        has_mps = torch.backends.mps.is_available()
        return torch.device("cuda" if torch.cuda.is_available() else "mps" if has_mps else "cpu")
    try:
        device = torch.device(name)
        torch.empty(0, device=device)
    except (RuntimeError, AssertionError, ImportError) as error:
        torch_says = str(error).partition("\n")[0].partition(". ")[0].rstrip(".")
        reason = "the name of a GPU is cuda" if name.startswith("gpu") else torch_says
        raise ValueError(f"device {name!r} cannot be used here: {reason}. Try device=auto.") from error
    return device


def is_one_of_several() -> bool:
    """Whether this process was started with others, as `accelerate launch` does."""
    return int(os.environ.get("WORLD_SIZE", "1")) > 1


def process_state() -> Any:
    """Join the other processes, the first time, and return what accelerate knows about them."""
    accelerate = optional_import("accelerate", "models", "Training in several processes")
    return accelerate.PartialState(cpu=not torch.cuda.is_available())


def is_out_of_memory(error: Exception) -> bool:
    """Whether an error says that a GPU has no memory left."""
    return isinstance(error, torch.OutOfMemoryError) or any(sign in str(error) for sign in OUT_OF_MEMORY_SIGNS)


@dataclass(slots=True)
class _MemoryBudget:
    """By how much the batches of this process are cut since GPU memory ran out."""

    divisor: int = 1
    n_succeeded: int = 0
    """Batches since then, or since the budget was doubled."""
    has_warned: bool = False

    def shrink(self) -> None:
        self.divisor, self.n_succeeded = 2 * self.divisor, 0
        torch.cuda.empty_cache()  # torch keeps memory that it has freed, which other libraries cannot use
        self.warn()

    def grow_after_success(self) -> bool:
        """Count a batch, and double the budget after many.

        :return: Whether the budget was doubled.
        """
        self.n_succeeded += 1
        if self.divisor == 1 or self.n_succeeded < BATCHES_BEFORE_GROWTH:
            return False
        # Another process may have freed memory. Without growth, workers that once filled a GPU together stay at tiny
        # batches: such a GPU was 3 to 30 % busy.
        self.divisor, self.n_succeeded = self.divisor // 2, 0
        return True

    def warn(self) -> None:
        if not self.has_warned:
            self.has_warned = True
            warnings.warn(OUT_OF_MEMORY, RuntimeWarning, stacklevel=3)


MEMORY_BUDGET = _MemoryBudget()


_switching = threading.Lock()
# For each block that keeps cuDNN's attention off, whether it was on before. The first entry is popped last, when the
# last block ends, in whatever order threads leave their blocks.
_cudnn_states: list[bool] = []


@contextmanager
def without_cudnn_attention() -> Iterator[None]:
    """Attend without cuDNN inside the block; the switch is one for all threads."""
    # cuDNN plans each shape of batch anew, for 50 to 100 ms, and fails without naming memory where a GPU is full: 20
    # epochs of AG News on an H200 took 44.6 s with it, 21.5 s without.
    with _switching:
        _cudnn_states.append(torch.backends.cuda.cudnn_sdp_enabled())  # type: ignore[no-untyped-call]
        torch.backends.cuda.enable_cudnn_sdp(False)
    try:
        yield
    finally:
        with _switching:
            torch.backends.cuda.enable_cudnn_sdp(_cudnn_states.pop())
