"""Several processes that train one network, as `accelerate launch` starts them; or one alone."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, TypeVar

import torch
from torch import Tensor, distributed

from fresh.nn.device import is_one_of_several, process_state

Item = TypeVar("Item")


@dataclass(frozen=True, slots=True)
class ProcessGroup:
    """Which of how many processes this one is."""

    rank: int = 0
    size: int = 1

    @property
    def is_main(self) -> bool:
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


def process_group() -> ProcessGroup:
    """Find the other processes, if this one was started with some."""
    if not is_one_of_several():
        return ProcessGroup()
    return ProcessGroup(process_state().process_index, process_state().num_processes)
