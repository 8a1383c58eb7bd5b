"""Devices by name, and the device of this process where several train one network."""

import os
from typing import Any

import torch

from fresh._optional import optional_import


def is_one_of_several() -> bool:
    """Whether this process was started with others, as `accelerate launch` does."""
    return int(os.environ.get("WORLD_SIZE", "1")) > 1


def _own_device() -> torch.device:
    """Find the device of this process among those of all processes."""
    device: torch.device = shared_state().device
    return device


def shared_state() -> Any:
    """Join the other processes, the first time, and ask accelerate about them."""
    accelerate = optional_import("accelerate", "models", "Training in several processes")
    return accelerate.PartialState(cpu=not torch.cuda.is_available())


def choose_device(name: str) -> torch.device:
    """Turn a device's name into a device; ``auto`` takes the fastest there is."""
    if name == "auto":
        if is_one_of_several():
            return _own_device()
        has_mps = torch.backends.mps.is_available()
        return torch.device("cuda" if torch.cuda.is_available() else "mps" if has_mps else "cpu")
    try:
        device = torch.device(name)
        torch.empty(0, device=device)
    except (RuntimeError, AssertionError, ImportError) as error:
        reason = str(error).partition("\n")[0].partition(". ")[0].rstrip(".")
        raise ValueError(f"device {name!r} cannot be used here: {reason}. Try device=auto.") from error
    return device
