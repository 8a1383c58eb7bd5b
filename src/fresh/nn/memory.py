"""What is particular to a GPU: how it tells that it is full, what is done then, and which way to attend is left off."""

import threading
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field

import torch

WELL = 64
"""Batches that must go well before larger ones are tried again."""
FULL = (
    "CUDA error: out of memory",
    "CUDA driver error: out of memory",
    "CUBLAS_STATUS_ALLOC_FAILED",
    "CUBLAS_STATUS_EXECUTION_FAILED",
    "CUBLAS_STATUS_NOT_INITIALIZED",
    "CUDNN_STATUS_ALLOC_FAILED",
    "CUDNN_STATUS_NOT_INITIALIZED",
)
"""How a card without room is told by libraries that do not ask torch for memory."""
OUT_OF_MEMORY = (
    "Out of GPU memory: fewer pieces are read at once for a while. "
    "The result is the same; a smaller batch_size would be faster in training."
)


def is_out_of_memory(error: Exception) -> bool:
    """Say whether a card had no room left."""
    return isinstance(error, torch.OutOfMemoryError) or any(sign in str(error) for sign in FULL)


@dataclass(slots=True)
class _MemoryBudget:
    """How far the budgets of this process are cut since GPU memory ran out, and whether that was said.

    Memory may be short for a while only, where several processes share a card: what went well for long is doubled.
    """

    smaller: int = 1
    n_well: int = 0
    """Batches since then, or since budgets were doubled."""
    said: bool = False

    def shrink(self) -> None:
        """Halve the budgets, and give back what torch holds in store: other libraries do not get at that."""
        self.smaller, self.n_well = 2 * self.smaller, 0
        torch.cuda.empty_cache()
        self.warn()

    def grows(self) -> bool:
        """Count a batch that went well; after many of them budgets are doubled again, up to what they were."""
        self.n_well += 1
        if self.smaller == 1 or self.n_well < WELL:
            return False
        self.smaller, self.n_well = self.smaller // 2, 0
        return True

    def warn(self) -> None:
        """Say once that memory ran out."""
        if not self.said:
            self.said = True
            warnings.warn(OUT_OF_MEMORY, RuntimeWarning, stacklevel=3)


MEMORY_BUDGET = _MemoryBudget()


@dataclass(slots=True)
class _Switch:
    """How many blocks keep cuDNN's attention off, and whether it was on before them."""

    lock: threading.Lock = field(default_factory=threading.Lock)
    n_blocks: int = 0
    planned: bool = True


SWITCH = _Switch()


@contextmanager
def without_cudnn_attention() -> Iterator[None]:
    """Attend without cuDNN inside the block.

    It plans each shape of batch anew, for longer than it saves, and fails without naming memory where a card is full.
    The switch is one for all threads: the first block switches it off, and the last one puts it back.
    """
    with SWITCH.lock:
        if not SWITCH.n_blocks:
            SWITCH.planned = torch.backends.cuda.cudnn_sdp_enabled()  # type: ignore[no-untyped-call]
            torch.backends.cuda.enable_cudnn_sdp(False)
        SWITCH.n_blocks += 1
    try:
        yield
    finally:
        with SWITCH.lock:
            SWITCH.n_blocks -= 1
            if not SWITCH.n_blocks:
                torch.backends.cuda.enable_cudnn_sdp(SWITCH.planned)
