"""The network over words and a query; it knows neither documents nor rationales."""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple, Self

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from fresh.errors import EncoderError
from fresh.nn.batch import Batch, IntArray, Layout, TokenTable
from fresh.nn.config import NetworkConfig
from fresh.nn.device import choose_device
from fresh.nn.encoder import Encoder
from fresh.nn.fast_layers import QuickDropout
from fresh.nn.heads import AttentiveHead, linear_fp32
from fresh.nn.network import Network, load_parts
from fresh.nn.tokenizer import Text
from fresh.progress import SILENT, Progress
from fresh.rationale import Prediction

ABOUT = "classifier.json"


class Output(NamedTuple):
    """What the network puts out."""

    logits: Tensor
    """Shape: (batch, labels)."""
    weights: Tensor | None = None
    """What the start token looks at in the last layer, if it is read alone. Shape: (batch, heads, 1, pieces)."""
    attentions: tuple[Tensor, ...] = ()
    """One a layer if they were asked for. Shape: (batch, heads, pieces, pieces)."""
    by_word: Tensor | None = None
    """The weight of each word, where the head weighs words; 0 where there is none. Shape: (batch, pieces)."""


class _LinearHead(nn.Linear):
    """Classifies one vector a text."""

    def __init__(self, wide: int, n_labels: int, dropout: float) -> None:
        super().__init__(wide, n_labels)
        self.dropout = QuickDropout(dropout)
        nn.init.normal_(self.weight, std=0.02)
        nn.init.zeros_(self.bias)

    def forward(self, pooled: Tensor) -> Tensor:
        """Return one number a label. Shapes: (texts, wide) to (texts, labels)."""
        return linear_fp32(self, self.dropout(pooled))


class Classifier(Network):
    """An encoder, its pooling and a linear head; for texts in windows, a head that reads words in order."""

    def __init__(self, encoder: Encoder, labels: Sequence[str], config: NetworkConfig) -> None:
        kind = AttentiveHead if config.long == "chunk" else _LinearHead
        start_only = encoder.pooling == "start" and config.long != "chunk"
        super().__init__(encoder, config, kind(encoder.width, len(labels), config.dropout), start_only)
        self.labels = tuple(labels)

    @property
    def pooler(self) -> nn.Module | None:
        """What the encoder has for pooling, if that is used."""
        used = self.encoder.pooling == "start" and self.config.long != "chunk"
        return getattr(self.encoder.model, "pooler", None) if used else None

    @property
    def has_random_pooler(self) -> bool:
        """Whether a pooler is used for which the encoder's files hold no weights."""
        return self.encoder.random_pooler and self.pooler is not None

    def forward(self, batch: Batch | tuple[Layout, Tensor]) -> Output:
        """Read a batch: its pieces, or how they lie and what the frozen layers made of them."""
        layout, hidden, weights = self.read(batch)
        return self.classify(hidden, layout)._replace(weights=weights)

    def classify(self, hidden: Tensor, layout: Layout) -> Output:
        """Go on from the vectors of the pieces."""
        if isinstance(self.head, AttentiveHead):
            logits, by_word = self.head(hidden, layout)
            return Output(logits, by_word=by_word)
        return Output(self.head(self.pool(hidden, layout.mask)))

    def show_attention(self, batch: Batch) -> Output:
        """Read a batch with all layers in one go, and tell what each of them looks at."""
        hidden, attentions = self.read_whole(batch, attentions=True)
        return self.classify(hidden, batch)._replace(attentions=attentions)

    def pool(self, hidden: Tensor, mask: Tensor) -> Tensor:
        """Turn the vectors of the pieces into one for the text. Shape: (batch, width)."""
        if self.encoder.pooling == "mean":
            weights = mask.to(hidden.dtype).unsqueeze(-1)  # (batch, pieces, 1)
            return (hidden * weights).sum(1) / weights.sum(1)
        if isinstance(self.pooler, nn.Linear):  # ALBERT and BigBird have the rest of what pools beside it
            pooled: Tensor = self.pooler(hidden[:, 0])
            return pooled.tanh()
        if self.pooler is not None:
            return self.pooler(hidden)  # type: ignore[no-any-return]
        return hidden[:, 0]

    def probabilities(self, texts: Sequence[Text], progress: Progress = SILENT, name: str = "") -> NDArray[np.float64]:
        """Say how probable each label is for each text. Shape: (texts, labels)."""
        return self.probabilities_of(self.words(texts), progress, name)

    def probabilities_of(self, table: TokenTable, progress: Progress = SILENT, name: str = "") -> NDArray[np.float64]:
        """Say the same for texts that are encoded already. Shape: (texts, labels)."""
        found = np.zeros((len(table), len(self.labels)))
        with torch.inference_mode(), progress.task(name, len(table)) as advance:

            def work(numbers: IntArray, batch: Batch) -> None:
                found[numbers] = self(batch).logits.double().softmax(-1).cpu().numpy()
                advance(len(numbers), "")

            self.work_through(table, work)
        return found

    def save(self, folder: Path) -> None:
        """Write everything needed to have it again."""
        self.write_parts(folder, ABOUT, {"labels": self.labels})

    @classmethod
    def load(cls, folder: Path, device: str = "auto") -> Self:
        """Read it back."""
        encoder, config, about = load_parts(folder, ABOUT)
        classifier = cls(encoder, about["labels"], config)
        if classifier.has_random_pooler:
            raise EncoderError(
                f"{folder / 'model.safetensors'} has no weights for the pooler, which this model reads. "
                "Copy the model again, or train it again."
            )
        return classifier.load_head(folder).to(choose_device(device))


def predictions(table: NDArray[np.float64], labels: Sequence[str]) -> list[Prediction]:
    """Take the most probable label of each row; the earlier one where they tie."""
    if not np.isfinite(table).all():
        row = int(np.flatnonzero(~np.isfinite(table).all(1))[0])
        raise ValueError(
            f"The probabilities of text {row} are not finite numbers: the weights of the model are damaged or far too "
            "large. Copy the model again, or train it again."
        )
    return [
        Prediction(labels[int(row.argmax())], {label: float(p) for label, p in zip(labels, row, strict=True)})
        for row in table
    ]


@contextmanager
def eager_attention(classifier: Classifier) -> Iterator[None]:
    """Have attention weights computed in the open, for as long as the block lasts."""
    with classifier.lock:  # the switch is one for all threads
        config = classifier.body.config
        before = config._attn_implementation
        try:
            config._attn_implementation = "eager"
            yield
        finally:
            config._attn_implementation = before  # also one that is our own
