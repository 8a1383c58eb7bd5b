"""One training step: loss, gradients, clipping, AdamW; in parts where memory is short."""

from collections.abc import Callable
from contextlib import nullcontext

import torch
from torch import Tensor, nn

from fresh.nn import device as gpu
from fresh.nn.batching import BatchSpec
from fresh.training.bf16_weights import Bf16Weights
from fresh.training.checkpoint import trained_parameters
from fresh.training.distributed import ProcessGroup

Loss = Callable[[Tensor, int, bool], Tensor]
"""Sums the losses of some texts: their numbers, the width they are filled up to, and whether nothing is."""

MOST_PAIRS = 2**20
"""Pairs of pieces at a time on a CPU: with 12 heads and 6 layers, some 1.5 GB if all attention weights are kept."""


class RunningMean(nn.Module):
    """Takes the mean of something over all texts of a step, whatever parts and processes share them."""

    def __init__(self, follow: Callable[[Tensor], None], device: torch.device) -> None:
        """Begin with nothing.

        :param follow: Is given the mean at the end of each step.
        """
        super().__init__()
        self.follow = follow
        self.sums: Tensor
        self.register_buffer("sums", torch.zeros(2, device=device), persistent=False)

    def add(self, values: Tensor, count: Tensor) -> None:
        """Take note of some texts of the step.

        :param values: One a text. Shape: (texts,).
        :param count: Which of them count.
        """
        self.sums.add_(torch.stack([torch.where(count, values.detach().float(), 0).sum(), count.sum()]))

    def forget(self) -> None:
        """Begin the step anew."""
        self.sums.zero_()

    def settle(self, team: ProcessGroup) -> None:
        """End the step."""
        team.add([self.sums])
        self.follow(self.sums[0] / self.sums[1].clamp(min=1))
        self.forget()


class TrainStep:
    """Changes weights by what a batch says."""

    def __init__(
        self,
        model: nn.Module,
        loss: Loss,
        rates: tuple[float, float, float],
        team: ProcessGroup,
        rounds: bool = False,
        paced: bool = False,
    ) -> None:
        """Make the optimizer.

        :param rates: Learning rate, weight decay, and the norm that gradients are clipped to.
        :param rounds: Whether encoders read weights of 16 bits.
        :param paced: Whether the learning rate changes from step to step, see `set_share`.
        """
        self.rounded = Bf16Weights(model) if rounds else None
        self.tallies = [part for part in model.modules() if isinstance(part, RunningMean)]
        self.learning_rate, weight_decay, self.max_norm = rates
        self.paced = paced
        self.share = 1.0
        self.weights = [weight for _, weight in trained_parameters(model)]
        self.device = self.weights[0].device
        self.loss = loss
        self.team = team
        self.n_parts = 1
        self.step = torch.zeros((), dtype=torch.int64, device=self.device)
        self.broken = torch.zeros((), dtype=torch.int64, device=self.device)
        """The first step of this epoch whose gradients were not numbers, or 0."""
        on_gpu = self.device.type == "cuda"
        self.optimizer = torch.optim.AdamW(
            self.weights,
            lr=torch.tensor(self.learning_rate, device=self.device) if paced and on_gpu else self.learning_rate,
            weight_decay=weight_decay,
            fused=self.device.type in ("cpu", "cuda", "mps"),
            capturable=on_gpu,
        )

    def set_share(self, share: float) -> None:
        """Have the steps from here on made with a share of the learning rate."""
        self.share = share

    def set_rate(self) -> None:
        """Give the optimizer the learning rate of the next step, in a place that a recorded step reads."""
        if self.paced:
            [group] = self.optimizer.param_groups
            rate = self.learning_rate * self.share
            group["lr"] = group["lr"].fill_(rate) if isinstance(group["lr"], Tensor) else rate

    def __call__(self, batch: BatchSpec, numbers: Tensor, scale: float, seed: int) -> None:
        """Make one step.

        :param numbers: The numbers of the texts, where the network is.
        :param scale: What the sum of losses is multiplied by.
        """
        if self.team.size > 1:
            numbers = numbers[self.team.rank :: self.team.size]
        self.set_rate()
        torch.manual_seed(seed)
        while not self.add_gradients(numbers, batch.longest, batch.dense, scale):
            self.n_parts *= 2
            gpu.MEMORY_BUDGET.warn()
            torch.manual_seed(seed)  # what is drawn must not depend on where memory ran out
        self.apply()

    def add_gradients(self, numbers: Tensor, width: int, dense: bool, scale: float) -> bool:
        """Compute gradients, some texts at a time; False if even these were too many."""
        try:
            n_parts = max(self.n_parts, self.n_wanted(len(numbers), width))
            for part in numbers.tensor_split(min(n_parts, max(1, len(numbers)))):
                if len(part):
                    self.backward(part, width, dense, scale)
        except RuntimeError as error:
            if self.n_parts >= len(numbers) or not gpu.is_out_of_memory(error):
                raise
            self.forget()
            return False
        return True

    def n_wanted(self, n_texts: int, width: int) -> int:
        """Say in how many parts long texts are read on a CPU, where some encoders keep all attention weights."""
        return -(-n_texts * width**2 // MOST_PAIRS) if self.device.type == "cpu" else 1

    def forget(self) -> None:
        """Drop what was added up for a step that is not made."""
        self.optimizer.zero_grad(set_to_none=True)
        if self.rounded is not None:
            self.rounded.forget()
        for tally in self.tallies:
            tally.forget()

    def backward(self, numbers: Tensor, width: int, dense: bool, scale: float) -> None:
        """Add the gradients of some texts."""
        with nullcontext() if self.rounded is None else self.rounded.in_place():
            (self.loss(numbers, width, dense) * scale).backward()  # type: ignore[no-untyped-call]
        if self.rounded is not None:
            self.rounded.hand_over()

    def apply(self) -> None:
        """Change the weights by their gradients."""
        if self.team.size > 1:
            for weight in self.weights:
                weight.grad = torch.zeros_like(weight) if weight.grad is None else weight.grad
        self.team.add([weight.grad for weight in self.weights if weight.grad is not None])
        norm = self.clip()
        self.step.add_(1)
        self.broken.copy_(torch.where((self.broken == 0) & ~norm.isfinite(), self.step, self.broken))
        self.optimizer.step()
        self.optimizer.zero_grad(set_to_none=True)
        for tally in self.tallies:
            tally.settle(self.team)

    def clip(self) -> Tensor:
        """Scale gradients down to the largest norm; where looking costs nothing, only if they are above it.

        :return: The norm that they had.
        """
        norm = nn.utils.get_total_norm([weight.grad for weight in self.weights if weight.grad is not None])
        if self.device.type != "cpu" or not norm <= self.max_norm:
            nn.utils.clip_grads_with_norm_(self.weights, self.max_norm, norm)
        return norm

    def begin(self) -> None:
        """Count the steps of an epoch anew, and try again whether whole batches fit."""
        self.n_parts = 1
        self.step.zero_()
        self.broken.zero_()

    @property
    def broken_step(self) -> int | None:
        """The first step of this epoch whose gradients were not numbers, if any."""
        return int(self.broken) or None

    def finish(self) -> None:
        """Have all steps done before anybody looks at the weights."""
