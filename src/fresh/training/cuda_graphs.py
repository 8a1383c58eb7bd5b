"""Training steps on a GPU: the work of each shape of batch is recorded once and then replayed."""

import threading
import warnings
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager

import torch
from torch import Tensor, nn

from fresh.nn.batching import BatchSpec
from fresh.nn.device import is_out_of_memory
from fresh.training.distributed import ProcessGroup
from fresh.training.step import Loss, TrainStep

AHEAD = 64
"""Steps that are handed to a GPU before an earlier lot of them has to be done."""
ALONE = threading.Lock()
"""Held by the one training that draws what is random, or records, while others replay."""
UNRECORDED = (
    "Out of GPU memory: training steps of some sizes are made without recording, which is slower. "
    "The result is the same; a smaller batch_size would leave room."
)
Shape = tuple[int, int]
"""Texts of a batch, and pieces that each is filled up to."""


@contextmanager
def _own_numbers(generator: torch.Generator, device: torch.device) -> Iterator[None]:
    """Have all that is random on a GPU drawn from one generator, for as long as the block lasts."""
    usual = torch.cuda.default_generators[device.index or 0]
    with ALONE:
        before = usual.graphsafe_get_state()
        usual.graphsafe_set_state(generator)
        try:
            yield
        finally:
            usual.graphsafe_set_state(before)


class GraphedTrainStep(TrainStep):
    """Does the same on a GPU, but has the work of each shape of batch recorded once and then replayed."""

    def __init__(
        self,
        model: nn.Module,
        loss: Loss,
        rates: tuple[float, float, float],
        team: ProcessGroup,
        rounds: bool = False,
        paced: bool = False,
    ) -> None:
        super().__init__(model, loss, rates, team, rounds, paced)
        self.seen: Counter[Shape] = Counter()
        self.recorded: dict[Shape, tuple[torch.cuda.CUDAGraph, Tensor]] = {}
        self.refused: set[Shape] = set()
        """Shapes that memory was too short to record in this epoch."""
        self.warned = False
        self.pool = torch.cuda.graph_pool_handle()
        self.stream = torch.cuda.Stream(self.device)  # type: ignore[no-untyped-call]
        self.generator = torch.Generator(self.device)
        self.marks: list[torch.cuda.Event] = []

    def __call__(self, batch: BatchSpec, numbers: Tensor, scale: float, seed: int) -> None:
        """Make one step."""
        shape = (batch.n_texts, batch.width)
        self.seen[shape] += 1
        self.stay_near()
        self.stream.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(self.stream):
            first = self.seen[shape] == 1  # the first of a shape is made plainly, also for practice
            if not first and self.n_parts == 1 and shape not in (self.recorded.keys() | self.refused):
                self.record(shape, scale)
            if shape not in self.recorded:
                self.plainly(batch, numbers, scale, seed)
                return
            self.set_rate()
            graph, given = self.recorded[shape]
            given.fill_(-1)
            given[: len(numbers)] = numbers
            self.generator.manual_seed(seed)
            graph.replay()

    def plainly(self, batch: BatchSpec, numbers: Tensor, scale: float, seed: int) -> None:
        """Make one step without recording."""
        with _own_numbers(self.generator, self.device):
            super().__call__(batch, numbers, scale, seed)

    def record(self, shape: Shape, scale: float) -> None:
        """Record what one step does; where memory is too short for that, such steps are made plainly in this epoch."""
        n_texts, width = shape
        given = torch.full((n_texts,), -1, device=self.device)
        graph = torch.cuda.CUDAGraph()
        with _own_numbers(self.generator, self.device):
            torch.cuda.synchronize(self.device)
            if self.captured(graph, given, width, scale):
                self.recorded[shape] = graph, given
                return
            graph.reset()
            torch.cuda.empty_cache()  # what it took is of no use to a plain step, nor to others
        self.refused.add(shape)
        if not self.recorded:
            self.pool = torch.cuda.graph_pool_handle()  # one whose only recording is gone cannot be taken again
        if not self.warned:
            self.warned = True
            warnings.warn(UNRECORDED, RuntimeWarning, stacklevel=2)

    def captured(self, graph: torch.cuda.CUDAGraph, given: Tensor, width: int, scale: float) -> bool:
        """Do all that a step does without its being done; False where memory is too short, be it for one text."""
        try:
            graph.capture_begin(self.pool, capture_error_mode="thread_local")
            try:
                enough = self.add_gradients(given, width, False, scale)
                if enough:
                    self.apply()
            finally:
                graph.capture_end()
        except RuntimeError as error:
            if not is_out_of_memory(error):
                raise
            enough = False
        if not enough:
            self.forget()
        return enough

    def begin(self) -> None:
        """Try again to record what memory was too short for."""
        super().begin()
        self.refused.clear()

    def stay_near(self) -> None:
        """Wait for earlier steps now and then, so that progress shows what is done and not what is planned."""
        if self.seen.total() % AHEAD == 0:
            self.marks.append(self.stream.record_event())
            if len(self.marks) > 1:
                self.marks.pop(0).synchronize()

    def finish(self) -> None:
        """Have all steps done before anybody looks at the weights."""
        torch.cuda.current_stream(self.device).wait_stream(self.stream)
