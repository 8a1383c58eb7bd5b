"""One training step: loss, gradients, clipping, AdamW; in parts where memory is short."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext

import torch
from torch import Tensor, nn
from transformers import PreTrainedModel

from fresh.nn import device as gpu
from fresh.nn.batching import BatchSpec
from fresh.training.checkpoint import trained_parameters
from fresh.training.config import TrainConfig
from fresh.training.distributed import ProcessGroup

Loss = Callable[[Tensor, int, bool], Tensor]
"""Sums the losses of texts, given by their numbers, the width of the batch, and whether all texts are that long."""

# Pairs of tokens at a time on a CPU: with 12 heads and 6 layers, about 1.5 GB if all attention weights are kept.
_MAX_PAIRS = 2**20


class RunningMean(nn.Module):
    """The mean of a value over all texts of a step, in however many parts and processes it is computed.

    :param on_mean: Called with the mean at the end of each step.
    """

    def __init__(self, on_mean: Callable[[Tensor], None], device: torch.device) -> None:
        super().__init__()
        self.on_mean = on_mean
        self.sums: Tensor
        self.register_buffer("sums", torch.zeros(2, device=device), persistent=False)

    def add(self, values: Tensor, counted: Tensor) -> None:
        """Add the values of the texts that count. Both tensors have the shape (texts,)."""
        self.sums.add_(torch.stack([torch.where(counted, values.detach().float(), 0).sum(), counted.sum()]))

    def reset(self) -> None:
        """Start the step over."""
        self.sums.zero_()

    def finish_step(self, group: ProcessGroup) -> None:
        """Pass the mean on, and start the next step."""
        group.all_reduce([self.sums])
        self.on_mean(self.sums[0] / self.sums[1].clamp(min=1))
        self.reset()


class Bf16Weights:
    """Copies of all encoder weights rounded to bf16, which a step computes with; the exact weights are trained."""

    # Autocast would cast every weight in a kernel of its own: 83 of the 284 kernels of a step on SST.
    def __init__(self, network: nn.Module) -> None:
        encoders = [module for module in network.modules() if isinstance(module, PreTrainedModel)]
        modules = dict.fromkeys(module for encoder in encoders for module in encoder.modules())
        self.slots = [
            (module._parameters, name, weight)
            for module in modules
            for name, weight in module._parameters.items()
            if weight is not None and weight.is_floating_point()
        ]
        exact = dict.fromkeys(weight for _, _, weight in self.slots)
        self.copies = {weight: nn.Parameter(weight.detach().bfloat16(), weight.requires_grad) for weight in exact}
        self.trained = [(weight, copy) for weight, copy in self.copies.items() if weight.requires_grad]

    @contextmanager
    def swapped_in(self) -> Iterator[None]:
        """Let the encoders use the rounded weights inside the block."""
        with torch.no_grad():
            if self.trained:
                exact, copies = zip(*self.trained, strict=True)
                torch._foreach_copy_(copies, exact)  # one kernel for all
        # Straight into `_parameters`: setting attributes would run each module's checks in every step.
        for parameters, name, weight in self.slots:
            parameters[name] = self.copies[weight]
        try:
            yield
        finally:
            for parameters, name, weight in self.slots:
                parameters[name] = weight

    def accumulate_grads(self) -> None:
        """Add the gradients of the rounded weights to those of the exact ones."""
        rounded = [(weight, copy.grad) for weight, copy in self.trained if copy.grad is not None]
        exact = [torch.empty_like(weight) for weight, _ in rounded]
        if rounded:
            torch._foreach_copy_(exact, [gradient for _, gradient in rounded])
        for (weight, _), gradient in zip(rounded, exact, strict=True):
            weight.grad = gradient if weight.grad is None else weight.grad + gradient
        self.zero_grad()

    def zero_grad(self) -> None:
        """Drop the gradients of the rounded weights."""
        for _, copy in self.trained:
            copy.grad = None


class TrainStep:
    """Updates the weights of a network by the loss of a batch.

    :param bf16_weights: Whether encoders compute with weights that are rounded to 16 bits.
    """

    def __init__(
        self, model: nn.Module, loss: Loss, config: TrainConfig, group: ProcessGroup, bf16_weights: bool = False
    ) -> None:
        self.loss = loss
        self.config = config
        self.group = group
        self.rounded = Bf16Weights(model) if bf16_weights else None
        self.running_means = [part for part in model.modules() if isinstance(part, RunningMean)]
        self.weights = [weight for _, weight in trained_parameters(model)]
        self.device = self.weights[0].device
        self.n_parts = 1
        # Counted on the device: asking a GPU for a number after each step would wait for the step.
        self.n_steps = torch.zeros((), dtype=torch.int64, device=self.device)
        self.diverged = torch.zeros((), dtype=torch.int64, device=self.device)
        """The first step of this epoch with gradients that are not finite, or 0."""
        on_gpu, rate = self.device.type == "cuda", config.learning_rate
        self.optimizer = torch.optim.AdamW(
            self.weights,
            # A replayed step reads the rate from the tensor that it was captured with, so a schedule needs a tensor.
            lr=torch.tensor(rate, device=self.device) if on_gpu and config.schedule != "constant" else rate,
            weight_decay=config.weight_decay,
            fused=self.device.type in ("cpu", "cuda", "mps"),  # one kernel updates all weights
            capturable=on_gpu,
        )

    def __call__(self, batch: BatchSpec, numbers: Tensor, rate_factor: float, seed: int) -> None:
        """Make one step.

        :param numbers: The texts, on the device where batches are gathered.
        :param rate_factor: Factor of the learning rate.
        """
        if self.group.size > 1:
            numbers = numbers[self.group.rank :: self.group.size]
        self._set_rate(rate_factor)
        torch.manual_seed(seed)
        while not self._add_gradients(numbers, batch.longest, batch.dense):
            self.n_parts *= 2
            gpu.MEMORY_BUDGET.warn()
            torch.manual_seed(seed)  # dropout must not depend on where memory ran out
        self._update_weights()

    def _set_rate(self, factor: float) -> None:
        if self.config.schedule != "constant":
            [settings] = self.optimizer.param_groups
            rate = self.config.learning_rate * factor
            settings["lr"] = settings["lr"].fill_(rate) if isinstance(settings["lr"], Tensor) else rate

    def _add_gradients(self, numbers: Tensor, width: int, dense: bool) -> bool:
        """Compute gradients, some texts at a time; False if memory ran out."""
        # Batches differ in size: with their mean loss, a text among 8 would weigh four times as much as one among 32.
        n_parts, scale = self.n_parts, 1 / self.config.batch_size
        if self.device.type == "cpu":  # there, some encoders keep all attention weights
            n_parts = max(n_parts, -(-len(numbers) * width**2 // _MAX_PAIRS))
        try:
            for part in numbers.tensor_split(min(n_parts, max(1, len(numbers)))):
                if not len(part):
                    continue
                with nullcontext() if self.rounded is None else self.rounded.swapped_in():
                    (self.loss(part, width, dense) * scale).backward()  # type: ignore[no-untyped-call]
                if self.rounded is not None:
                    self.rounded.accumulate_grads()
        except RuntimeError as error:
            if self.n_parts >= len(numbers) or not gpu.is_out_of_memory(error):
                raise
            self._discard()  # some parts may have added their gradients already
            return False
        return True

    def _discard(self) -> None:
        self.optimizer.zero_grad(set_to_none=True)
        if self.rounded is not None:
            self.rounded.zero_grad()
        for mean in self.running_means:
            mean.reset()

    def _update_weights(self) -> None:
        if self.group.size > 1:
            # All processes must send the same tensors, even one whose texts did not reach some weight.
            for weight in self.weights:
                weight.grad = torch.zeros_like(weight) if weight.grad is None else weight.grad
            self.group.all_reduce([weight.grad for weight in self.weights if weight.grad is not None])
        norm = nn.utils.get_total_norm([weight.grad for weight in self.weights if weight.grad is not None])
        # On a CPU, compare first: multiplying all gradients by 1 was part of 12 % of a step. On a GPU, the comparison
        # would wait for the step.
        if self.device.type != "cpu" or not norm <= self.config.max_grad_norm:
            nn.utils.clip_grads_with_norm_(self.weights, self.config.max_grad_norm, norm)
        self.n_steps.add_(1)
        self.diverged.copy_(torch.where((self.diverged == 0) & ~norm.isfinite(), self.n_steps, self.diverged))
        self.optimizer.step()
        self.optimizer.zero_grad(set_to_none=True)
        for mean in self.running_means:
            mean.finish_step(self.group)

    def start_epoch(self) -> None:
        """Count steps from 1 again, and try whole batches again."""
        self.n_parts = 1  # another process may have freed memory since it ran out
        self.n_steps.zero_()
        self.diverged.zero_()

    def finish_epoch(self) -> int | None:
        """Wait for all steps, and return the first one whose gradients were not finite, if any."""
        return int(self.diverged) or None
