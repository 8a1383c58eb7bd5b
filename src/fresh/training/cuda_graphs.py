"""Training steps as CUDA graphs: the work of each shape of batch is recorded once and then replayed.

Launched one by one, the kernels of a step on SST took 9.5 ms on an H200; replayed, .86 ms.
"""

import threading
import warnings
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager

import torch
from torch import Tensor, nn

from fresh.nn.batching import BatchSpec
from fresh.nn.device import is_out_of_memory
from fresh.training.config import TrainConfig
from fresh.training.distributed import ProcessGroup
from fresh.training.step import Loss, TrainStep

_MAX_AHEAD = 64
"""Steps that are queued on a GPU before an earlier lot of them has to be done."""
_GENERATOR_LOCK = threading.Lock()
"""Held by the one training that samples from the GPU's generator, or records, while others replay."""
_OUT_OF_MEMORY = (
    "Out of GPU memory: training steps of some sizes are made without recording, which is slower. "
    "The result is the same; a smaller batch_size would leave room."
)
Shape = tuple[int, int]
"""Texts in a batch, and the tokens that each is padded to."""


@contextmanager
def _use_generator(generator: torch.Generator, device: torch.device) -> Iterator[None]:
    """Sample all that is random on a GPU from one generator, for as long as the block runs."""
    default = torch.cuda.default_generators[device.index or 0]
    with _GENERATOR_LOCK:
        before = default.graphsafe_get_state()
        default.graphsafe_set_state(generator)
        try:
            yield
        finally:
            default.graphsafe_set_state(before)


class GraphedTrainStep(TrainStep):
    """A training step on a GPU whose work is recorded for each shape of batch and then replayed."""

    def __init__(
        self, model: nn.Module, loss: Loss, config: TrainConfig, group: ProcessGroup, bf16_weights: bool = False
    ) -> None:
        super().__init__(model, loss, config, group, bf16_weights)
        self.counts: Counter[Shape] = Counter()
        self.graphs: dict[Shape, tuple[torch.cuda.CUDAGraph, Tensor]] = {}
        """For each shape, the graph, and the tensor from which it reads the numbers of the texts."""
        self.too_large: set[Shape] = set()
        """Shapes that did not fit into memory while they were recorded in this epoch."""
        self.has_warned = False
        self.pool = torch.cuda.graph_pool_handle()
        self.stream = torch.cuda.Stream(self.device)  # type: ignore[no-untyped-call]
        self.generator = torch.Generator(self.device)
        self.events: list[torch.cuda.Event] = []

    def __call__(self, batch: BatchSpec, numbers: Tensor, rate_factor: float, seed: int) -> None:
        """Make one step."""
        shape = (batch.n_texts, batch.width)
        self.counts[shape] += 1
        self._limit_queue()
        # A stream for each training, so that those side by side do not wait for each other.
        self.stream.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(self.stream):
            is_first = self.counts[shape] == 1  # the first step of a shape is not recorded, which also warms it up
            if not is_first and self.n_parts == 1 and shape not in (self.graphs.keys() | self.too_large):
                self._record(shape)
            if shape not in self.graphs:
                with _use_generator(self.generator, self.device):
                    super().__call__(batch, numbers, rate_factor, seed)
                return
            self._set_rate(rate_factor)
            graph, graph_numbers = self.graphs[shape]
            # A graph has a fixed shape: what a smaller batch leaves free stands for no text.
            graph_numbers.fill_(-1)
            graph_numbers[: len(numbers)] = numbers
            self.generator.manual_seed(seed)
            graph.replay()

    def _record(self, shape: Shape) -> None:
        """Record a step; where memory is too short for that, such steps are made without in this epoch."""
        n_texts, width = shape
        numbers = torch.full((n_texts,), -1, device=self.device)
        graph = torch.cuda.CUDAGraph()
        with _use_generator(self.generator, self.device):
            torch.cuda.synchronize(self.device)
            if self._capture(graph, numbers, width):
                self.graphs[shape] = graph, numbers
                return
            graph.reset()
            torch.cuda.empty_cache()  # what it took is of no use to other steps, nor to other processes
        self.too_large.add(shape)
        if not self.graphs:
            self.pool = torch.cuda.graph_pool_handle()  # torch does not take a pool again whose only graph is gone
        if not self.has_warned:
            self.has_warned = True
            warnings.warn(_OUT_OF_MEMORY, RuntimeWarning, stacklevel=2)

    def _capture(self, graph: torch.cuda.CUDAGraph, numbers: Tensor, width: int) -> bool:
        """Record all that a step does without doing it; False where memory is too short, even for a single text."""
        try:
            graph.capture_begin(self.pool, capture_error_mode="thread_local")
            try:
                fits = self._add_gradients(numbers, width, False)
                if fits:
                    self._update_weights()
            finally:
                graph.capture_end()
        except RuntimeError as error:
            if not is_out_of_memory(error):
                raise
            fits = False
        if not fits:
            self._discard()
        return fits

    def start_epoch(self) -> None:
        """Try again to record what did not fit into memory."""
        super().start_epoch()
        self.too_large.clear()

    def _limit_queue(self) -> None:
        """Wait for earlier steps now and then, so that progress shows what is done and not what is queued."""
        if self.counts.total() % _MAX_AHEAD == 0:
            self.events.append(self.stream.record_event())
            if len(self.events) > 1:
                self.events.pop(0).synchronize()

    def finish_epoch(self) -> int | None:
        """Wait for all steps, and return the first one whose gradients were not finite, if any."""
        torch.cuda.current_stream(self.device).wait_stream(self.stream)
        return super().finish_epoch()
