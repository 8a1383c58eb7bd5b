"""Settings of a training, and of how the hardware is used for it."""

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Literal, get_args

from fresh.config import check_above, check_min, raise_all
from fresh.nn.config import AttentionDropout, NetworkConfig

if TYPE_CHECKING:
    from fresh.training.feature_store import FeatureStore

FREE = ("device", "frozen", "frozen_gb", "frozen_folder", "recording")
"""Settings that say where and how fast a training is done, not what comes out."""

LATER = {"train.schedule": "constant", "train.attention_dropout": "encoder"}
"""Settings that came later, as they were before: a training that leaves them so is the one that it was."""
RateSchedule = Literal["constant", "linear"]
WARM_UP = 0.1
"""Share of a training in which the learning rate of a linear schedule goes up."""


@dataclass(frozen=True, slots=True)
class _EngineConfig:
    """How the hardware is used; none of it changes what is learnt, but for rounding."""

    precision: Literal["auto", "fp32", "bf16"] = "auto"
    """Numbers that training computes with: auto takes bf16 on an NVIDIA GPU and fp32 elsewhere."""
    frozen: Literal["auto", "memory", "file", "off"] = "auto"
    """Where the output of frozen layers is kept, so that they run once: memory (of the GPU, if there is one), file, off
    (they run in each step), or auto: memory while it lasts, then a file."""
    frozen_gb: float | None = None
    """Most gigabytes of memory that auto takes for that; half of what is free if not given."""
    frozen_folder: str | None = None
    """Folder to keep it in for later runs; nothing outlives the run if not given."""
    recording: bool = True
    """Record the work of a training step on a GPU and replay it, which spares the launching."""

    def __post_init__(self) -> None:
        folder = self.frozen_folder
        raise_all(
            *check_min(0, frozen_gb=0 if self.frozen_gb is None else self.frozen_gb),
            "frozen_folder is empty. Name a folder, or leave it out." if folder == "" else None,
            "frozen_folder cannot be had with frozen=off, which keeps nothing."
            if folder and self.frozen == "off"
            else None,
        )

    def feature_store(self) -> "FeatureStore":
        """Make the place where frozen outputs are kept."""
        from fresh.training.feature_store import FeatureStore

        return FeatureStore(self.frozen, self.frozen_gb, self.frozen_folder)


@dataclass(frozen=True, slots=True)
class TrainConfig:
    """How one network is trained."""

    epochs: int = 4
    """Passes over the training data, at most."""
    batch_size: int = 32
    """Texts in a training step, on average: short texts come in larger batches, long ones in smaller."""
    learning_rate: float = 3e-5
    """Learning rate of AdamW."""
    schedule: RateSchedule = "constant"
    """How the learning rate goes: constant; or linear, up over the first tenth of all steps, then down to nothing."""
    attention_dropout: AttentionDropout = "off"
    """Dropout of attention weights: off, or encoder (the rate that the encoder was trained with)."""
    weight_decay: float = 0.01
    """Weight decay of AdamW, decoupled."""
    max_grad_norm: float = 5.0
    """Gradients are clipped to this norm; inf to clip none."""
    patience: int = 10
    """Epochs without a better dev macro-F1 after which training stops."""
    seed: int = 0
    """Seeds weights, order, dropout, and splits where files give none."""
    device: str = "auto"
    """Where to compute: auto, cpu, cuda, cuda:1, mps."""
    engine: _EngineConfig = field(default_factory=_EngineConfig)

    def __post_init__(self) -> None:
        raise_all(
            *check_min(1, epochs=self.epochs, batch_size=self.batch_size, patience=self.patience),
            *check_above(0, learning_rate=self.learning_rate),
            f"max_grad_norm must be above 0, got {self.max_grad_norm}." if not self.max_grad_norm > 0 else None,
            *check_min(0, weight_decay=self.weight_decay, seed=self.seed),
            f"schedule must be constant or linear, got {self.schedule}."
            if self.schedule not in get_args(RateSchedule)
            else None,
            f"attention_dropout must be off or encoder, got {self.attention_dropout}."
            if self.attention_dropout not in get_args(AttentionDropout)
            else None,
        )

    def rate_share(self, n_epochs: float) -> float:
        """Say which share of the learning rate a step is made with, so many epochs into training."""
        if self.schedule == "constant":
            return 1.0
        done = n_epochs / self.epochs
        return done / WARM_UP if done < WARM_UP else (1 - done) / (1 - WARM_UP)


@dataclass(frozen=True, slots=True)
class ClassifierConfig:
    """Which network is trained, and how."""

    network: NetworkConfig = field(default_factory=NetworkConfig)
    train: TrainConfig = field(default_factory=TrainConfig)
