"""Settings of a network. They can be listed without torch, which is imported to check them."""

from dataclasses import dataclass
from typing import Literal

from fresh.config import check_min, raise_all

AttentionDropout = Literal["off", "encoder"]


@dataclass(frozen=True, slots=True)
class NetworkConfig:
    """Which network is trained, and how much of it."""

    encoder: str = "minilm"
    """Pretrained encoder: minilm or mpnet (bundled), a folder, or a name on the Hugging Face hub."""
    pooling: Literal["auto", "start", "mean"] = "auto"
    """What stands for a text: its start token (start), the mean of its tokens (mean), or auto: as the encoder was
    trained."""
    long: Literal["stagger", "chunk", "truncate"] = "stagger"
    """Texts beyond the encoder's length: stagger (positions repeat), chunk (windows, joined by a recurrent layer and
    attention over words) or truncate (only the beginning is read)."""
    max_pieces: int = 4096
    """Longest text, in tokens, that stagger reads; time and memory grow with its square."""
    layers: int | Literal["all"] = "all"
    """How many layers, from the top, are trained (with the pooler and the head), or all."""
    dropout: float = 0.2
    """Dropout before the head."""

    def __post_init__(self) -> None:
        from fresh.nn.encoder import suggest_bundled

        raise_all(
            suggest_bundled(self.encoder),
            f"layers must be 0 or more, or all, got {self.layers}."
            if self.layers != "all" and self.layers < 0
            else None,
            f"dropout must be in [0, 1), got {self.dropout}." if not 0 <= self.dropout < 1 else None,
            *check_min(16, max_pieces=self.max_pieces),
        )
