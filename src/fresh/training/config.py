"""Settings of training, and of how it uses the hardware."""

from dataclasses import dataclass, field
from typing import Literal

import numpy as np

from fresh.config import check_above, check_min, raise_all
from fresh.nn.config import AttentionDropout, NetworkConfig

REMOVED = ("frozen_gb", "frozen_folder")
"""Settings of earlier versions, which their grid files and reports may mention; they affected speed only."""
FREE = ("device", "frozen", "recording", *REMOVED)
"""Settings of where and how fast a training runs; they do not change its result."""

# With these values, training is what it was before the settings existed: a run keeps the key that it had.
LATER = {
    "train.schedule": "constant",
    "train.attention_dropout": "encoder",
    "train.class_weight": "none",
    "predictor": "own",
    "scoring.evidence": "for",
}
"""Settings that were added later, with the value for training as it was before."""

_WARM_UP = 0.1
"""Share of all steps in which a linear schedule raises the learning rate."""


@dataclass(frozen=True, slots=True)
class EngineConfig:
    """How training uses the hardware; except for rounding, this does not change the result."""

    precision: Literal["auto", "fp32", "bf16"] = "auto"
    """Number format of training: auto is bf16 on an NVIDIA GPU that supports it, and fp32 elsewhere."""
    frozen: Literal["auto", "off"] = "auto"
    """Whether to cache the output of frozen layers, so that they run once: auto (in memory, of the GPU if there is one,
    or in a temporary file if it does not fit) or off (frozen layers run in every step)."""
    recording: bool = True
    """On a GPU, capture training steps as CUDA graphs and replay them."""


@dataclass(frozen=True, slots=True)
class TrainConfig:
    """How to train one network."""

    epochs: int = 4
    """Maximum number of passes over the training data."""
    batch_size: int = 32
    """Average number of texts in a batch: batches of short texts are larger, batches of long texts are smaller."""
    learning_rate: float = 3e-5
    """Learning rate of AdamW."""
    # linear was better on dev in one of three trials, and there not on test.
    schedule: Literal["constant", "linear"] = "constant"
    """Learning-rate schedule: constant or linear (10 % warm-up, then decay to 0)."""
    # Off, macro-F1 on SST, AG News and Movies is the same, and attention over 695 tokens takes a CPU 24 ms a text
    # instead of 134: PyTorch has no fast kernel with dropout.
    attention_dropout: AttentionDropout = "off"
    """Dropout of attention weights: off, or encoder (the rate that the encoder was trained with)."""
    class_weight: Literal["none", "balanced"] = "none"
    """How much the labels count: each document the same (none), or each label the same, however rare (balanced)."""
    weight_decay: float = 0.01
    """Weight decay of AdamW."""
    max_grad_norm: float = 5.0
    """Gradients are clipped to this norm; inf turns clipping off."""
    patience: int = 10
    """Training stops after this many epochs without a better dev macro-F1."""
    seed: int = 0
    """Seed of initial weights, batch order and dropout, and of splits that the files do not define."""
    device: str = "auto"
    """Device to compute on: auto, cpu, cuda, cuda:1 or mps."""
    engine: EngineConfig = field(default_factory=EngineConfig)

    def __post_init__(self) -> None:
        raise_all(
            *check_min(1, epochs=self.epochs, batch_size=self.batch_size, patience=self.patience),
            *check_above(0, learning_rate=self.learning_rate),
            f"max_grad_norm must be above 0, got {self.max_grad_norm}." if not self.max_grad_norm > 0 else None,
            *check_min(0, weight_decay=self.weight_decay, seed=self.seed),
        )

    def rate_factors(self, epoch: int, n_steps: int) -> list[float]:
        """Return the factor of the learning rate in each step of an epoch."""
        if self.schedule == "constant":
            return [1.0] * n_steps
        # By epochs, since their number of steps varies. The middle of a step: the rate is never 0.
        done = (epoch + (np.arange(n_steps) + 0.5) / n_steps) / self.epochs
        factors: list[float] = np.where(done < _WARM_UP, done / _WARM_UP, (1 - done) / (1 - _WARM_UP)).tolist()
        return factors


@dataclass(frozen=True, slots=True)
class ClassifierConfig:
    """Which network to train, and how; the settings of every method include these."""

    network: NetworkConfig = field(default_factory=NetworkConfig)
    train: TrainConfig = field(default_factory=TrainConfig)
