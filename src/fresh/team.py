"""Several processes that train one network, as `accelerate launch` starts them; or one alone."""

import os
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, TypeVar

import torch
from torch import Tensor, distributed

from fresh.extras import load_extra

Item = TypeVar("Item")


@dataclass(frozen=True, slots=True)
class Team:
    """Which of how many processes this one is."""

    rank: int = 0
    size: int = 1

    @property
    def leads(self) -> bool:
        """Whether this process speaks and writes for all."""
        return self.rank == 0

    def share(self, items: Sequence[Item]) -> Sequence[Item]:
        """Take every so-manieth item; the others are the others' work."""
        return items[self.rank :: self.size]

    def join(self, parts: Sequence[Item]) -> list[Item]:
        """Put together, in order, what each made of its share."""
        if self.size == 1:
            return list(parts)
        gathered: list[Any] = [None] * self.size
        distributed.all_gather_object(gathered, list(parts))
        whole: list[Any] = [None] * sum(map(len, gathered))
        for rank, part in enumerate(gathered):
            whole[rank :: self.size] = part
        return whole

    def add(self, gradients: Sequence[Tensor]) -> None:
        """Add up the gradients of all, in place."""
        if self.size == 1 or not gradients:
            return
        flat = torch.cat([gradient.reshape(-1) for gradient in gradients])
        distributed.all_reduce(flat)
        start = 0
        for gradient in gradients:
            gradient.copy_(flat[start : start + gradient.numel()].view_as(gradient))
            start += gradient.numel()

    def wait(self) -> None:
        """Wait until all have come this far."""
        if self.size > 1:
            distributed.barrier()


def team() -> Team:
    """Find the other processes, if this one was started with some."""
    if int(os.environ.get("WORLD_SIZE", "1")) == 1:
        return Team()
    return Team(shared_state().process_index, shared_state().num_processes)


def own_device() -> torch.device:
    """Find the device of this process among those of the team."""
    device: torch.device = shared_state().device
    return device


def shared_state() -> Any:
    """Join the other processes, the first time, and ask accelerate about them."""
    accelerate = load_extra("accelerate", "models", "Training in several processes")
    return accelerate.PartialState(cpu=not torch.cuda.is_available())
