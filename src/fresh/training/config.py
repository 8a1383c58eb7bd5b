"""Settings of training, and of how it uses the hardware."""

from dataclasses import dataclass, field
from typing import Literal, get_args

import numpy as np

from fresh.config import check_above, check_min, raise_all
from fresh.nn.config import AttentionDropout, NetworkConfig

FREE = ("device", "frozen", "frozen_gb", "frozen_folder", "recording")
"""Settings of where and how fast a training runs; they do not change its result."""

LATER = {"train.schedule": "constant", "train.attention_dropout": "encoder"}
"""Settings that were added later, with the value that stands for how training was before: with that value, a run keeps
the key that it had."""

Schedule = Literal["constant", "linear"]
WARM_UP = 0.1
"""Share of all steps in which a linear schedule raises the learning rate."""


@dataclass(frozen=True, slots=True)
class EngineConfig:
    """How training uses the hardware; but for rounding, none of it changes the result."""

    precision: Literal["auto", "fp32", "bf16"] = "auto"
    """Number format of training: auto is bf16 on an NVIDIA GPU that has it, and fp32 elsewhere."""
    frozen: Literal["auto", "memory", "file", "off"] = "auto"
    """Where to cache the output of frozen layers, so that they run once: memory (of the GPU, if there is one), file,
    off (frozen layers run in every step), or auto (memory while there is room, then a file)."""
    frozen_gb: float | None = None
    """Gigabytes of memory that frozen=auto may use. By default, half of the free memory."""
    frozen_folder: str | None = None
    """Folder that keeps the output of frozen layers for later runs. By default, nothing is kept after the run."""
    recording: bool = True
    """On a GPU, record training steps as CUDA graphs and replay them."""

    def __post_init__(self) -> None:
        raise_all(
            *check_min(0, frozen_gb=0 if self.frozen_gb is None else self.frozen_gb),
            "frozen_folder is empty. Name a folder, or leave it out." if self.frozen_folder == "" else None,
            "frozen_folder has no effect with frozen=off. Leave it out, or choose another value of frozen."
            if self.frozen_folder and self.frozen == "off"
            else None,
        )


@dataclass(frozen=True, slots=True)
class TrainConfig:
    """How to train one network."""

    epochs: int = 4
    """Maximum number of passes over the training data."""
    batch_size: int = 32
    """Average number of texts in a batch: batches of short texts are larger, batches of long texts are smaller."""
    learning_rate: float = 3e-5
    """Learning rate of AdamW."""
    schedule: Schedule = "constant"
    """Learning-rate schedule: constant or linear (10 % warm-up, then decay to 0)."""
    attention_dropout: AttentionDropout = "off"
    """Dropout of attention weights: off, or encoder (the rate that the encoder was trained with)."""
    weight_decay: float = 0.01
    """Weight decay of AdamW."""
    max_grad_norm: float = 5.0
    """Gradients are clipped to this norm; inf turns clipping off."""
    patience: int = 10
    """Training stops after this many epochs without a better dev macro-F1."""
    seed: int = 0
    """Seed of initial weights, batch order, dropout, and of splits where the files give none."""
    device: str = "auto"
    """Device to compute on: auto, cpu, cuda, cuda:1 or mps."""
    engine: EngineConfig = field(default_factory=EngineConfig)

    def __post_init__(self) -> None:
        raise_all(
            *check_min(1, epochs=self.epochs, batch_size=self.batch_size, patience=self.patience),
            *check_above(0, learning_rate=self.learning_rate),
            f"max_grad_norm must be above 0, got {self.max_grad_norm}." if not self.max_grad_norm > 0 else None,
            *check_min(0, weight_decay=self.weight_decay, seed=self.seed),
            f"schedule must be constant or linear, got {self.schedule}."
            if self.schedule not in get_args(Schedule)
            else None,
            f"attention_dropout must be off or encoder, got {self.attention_dropout}."
            if self.attention_dropout not in get_args(AttentionDropout)
            else None,
        )

    def rate_factors(self, epoch: int, n_steps: int) -> list[float]:
        """Return what the learning rate is multiplied by in each step of an epoch."""
        if self.schedule == "constant":
            return [1.0] * n_steps
        done = (epoch + (np.arange(n_steps) + 0.5) / n_steps) / self.epochs
        factors: list[float] = np.where(done < WARM_UP, done / WARM_UP, (1 - done) / (1 - WARM_UP)).tolist()
        return factors


@dataclass(frozen=True, slots=True)
class ClassifierConfig:
    """Which network to train, and how; the settings of every method include these."""

    network: NetworkConfig = field(default_factory=NetworkConfig)
    train: TrainConfig = field(default_factory=TrainConfig)
