"""Training steps as CUDA graphs: the work of each shape of batch is captured once and then replayed."""

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
"""Steps that may be queued on a GPU before earlier ones must be done."""
# torch has one default generator a GPU. A training that samples from it, or captures, keeps others from doing so; those
# that only replay need no lock.
_GENERATOR_LOCK = threading.Lock()
_OUT_OF_MEMORY = (
    "Out of GPU memory: training steps of some sizes run without CUDA graphs, which is slower. "
    "The result is the same; a smaller batch_size would leave room."
)
Shape = tuple[int, int]
"""Texts in a batch, and the tokens that each is padded to."""


@contextmanager
def _use_generator(generator: torch.Generator, device: torch.device) -> Iterator[None]:
    """Sample everything on a GPU from one generator inside the block."""
    default = torch.cuda.default_generators[device.index or 0]
    with _GENERATOR_LOCK:
        before = default.graphsafe_get_state()
        default.graphsafe_set_state(generator)
        try:
            yield
        finally:
            default.graphsafe_set_state(before)


class GraphedTrainStep(TrainStep):
    """A training step on a GPU whose work is captured for each shape of batch and then replayed."""

    # A step on SST is a few hundred small kernels. Launched one by one, they took 9.5 ms on an H200; replayed, .86 ms.
    def __init__(
        self, model: nn.Module, loss: Loss, config: TrainConfig, group: ProcessGroup, bf16_weights: bool = False
    ) -> None:
        super().__init__(model, loss, config, group, bf16_weights)
        self.counts: Counter[Shape] = Counter()
        self.graphs: dict[Shape, tuple[torch.cuda.CUDAGraph, Tensor]] = {}
        """For each shape, the graph, and the tensor that it reads the numbers of the texts from."""
        self.too_large: set[Shape] = set()
        """Shapes for which there was no memory in this epoch."""
        self.has_warned = False
        self.pool = torch.cuda.graph_pool_handle()
        self.stream = torch.cuda.Stream(self.device)  # type: ignore[no-untyped-call]
        self.generator = torch.Generator(self.device)
        self.events: list[torch.cuda.Event] = []

    def __call__(self, batch: BatchSpec, numbers: Tensor, rate_factor: float, seed: int) -> None:
        """Make one step."""
        shape = (batch.n_texts, batch.width)
        self.counts[shape] += 1
        # Otherwise progress would show the steps that are queued, not those that are done.
        if self.counts.total() % _MAX_AHEAD == 0:
            self.events.append(self.stream.record_event())
            if len(self.events) > 1:
                self.events.pop(0).synchronize()
        # A stream for each training, so that those side by side do not wait for each other.
        self.stream.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(self.stream):
            is_first = self.counts[shape] == 1  # the first step of a shape is not captured: it warms kernels up
            if not is_first and self.n_parts == 1 and shape not in (self.graphs.keys() | self.too_large):
                self._try_capture(shape)
            if shape not in self.graphs:
                with _use_generator(self.generator, self.device):
                    super().__call__(batch, numbers, rate_factor, seed)
                return
            self._set_rate(rate_factor)
            graph, graph_numbers = self.graphs[shape]
            # A graph has a fixed shape and reads from fixed addresses. In a smaller batch, -1 stands for no text.
            graph_numbers.fill_(-1)
            graph_numbers[: len(numbers)] = numbers
            self.generator.manual_seed(seed)
            graph.replay()

    def _try_capture(self, shape: Shape) -> None:
        # Without memory for that, steps of this shape run without a graph in this epoch.
        n_texts, width = shape
        numbers = torch.full((n_texts,), -1, device=self.device)
        graph = torch.cuda.CUDAGraph()
        with _use_generator(self.generator, self.device):
            torch.cuda.synchronize(self.device)
            if self._capture(graph, numbers, width):
                self.graphs[shape] = graph, numbers
                return
            graph.reset()
            torch.cuda.empty_cache()  # neither other steps nor other processes could use what it took
        self.too_large.add(shape)
        if not self.graphs:
            # torch refuses a pool whose only graph is gone ("use_count > 0 INTERNAL ASSERT FAILED").
            self.pool = torch.cuda.graph_pool_handle()
        if not self.has_warned:
            self.has_warned = True
            warnings.warn(_OUT_OF_MEMORY, RuntimeWarning, stacklevel=2)

    def _capture(self, graph: torch.cuda.CUDAGraph, numbers: Tensor, width: int) -> bool:
        """Capture a step without running it; False if there is no memory for it."""
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
        """Count steps from 1 again, and try again what did not fit into memory."""
        super().start_epoch()
        self.too_large.clear()

    def finish_epoch(self) -> int | None:
        """Wait for all steps, and return the first one whose gradients were not finite, if any."""
        torch.cuda.current_stream(self.device).wait_stream(self.stream)
        return super().finish_epoch()
