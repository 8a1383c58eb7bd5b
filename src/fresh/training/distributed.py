"""The processes that train one network together, as `accelerate launch` starts them; or a single one."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, TypeVar

import torch
from torch import Tensor, distributed

from fresh.nn.device import is_one_of_several, process_state

Item = TypeVar("Item")


@dataclass(frozen=True, slots=True)
class ProcessGroup:
    """A process among all that train together."""

    rank: int = 0
    size: int = 1

    @property
    def is_main(self) -> bool:
        """Whether this process prints and writes for all."""
        return self.rank == 0

    def shard(self, items: Sequence[Item]) -> Sequence[Item]:
        """Take this process's share of the items: every `size`-th one."""
        return items[self.rank :: self.size]

    def gather(self, results: Sequence[Item]) -> list[Item]:
        """Put the results of all shards together, in the order of the items."""
        if self.size == 1:
            return list(results)
        shards: list[Any] = [None] * self.size
        distributed.all_gather_object(shards, list(results))
        merged: list[Any] = [None] * sum(map(len, shards))
        for rank, shard in enumerate(shards):
            merged[rank :: self.size] = shard
        return merged

    def all_reduce(self, tensors: Sequence[Tensor]) -> None:
        """Sum tensors over all processes, in place."""
        if self.size == 1 or not tensors:
            return
        flat = torch.cat([tensor.reshape(-1) for tensor in tensors])  # one message in place of one a tensor
        distributed.all_reduce(flat)
        for tensor, total in zip(tensors, torch.split(flat, [tensor.numel() for tensor in tensors]), strict=True):
            tensor.copy_(total.view_as(tensor))

    def barrier(self) -> None:
        """Wait for all processes."""
        if self.size > 1:
            distributed.barrier()


def process_group() -> ProcessGroup:
    """Find the processes that this one was started with."""
    if not is_one_of_several():
        return ProcessGroup()
    return ProcessGroup(process_state().process_index, process_state().num_processes)
