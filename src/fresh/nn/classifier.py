"""The network that classifies words and a query, and knows neither documents nor rationales."""

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, NamedTuple, Self

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from fresh.errors import EncoderError
from fresh.nn.batch import Batch, IntArray, TokenTable
from fresh.nn.config import NetworkConfig
from fresh.nn.device import choose_device
from fresh.nn.encoder import Encoder
from fresh.nn.heads import AttentiveHead, LinearHead
from fresh.nn.intercept import RECORDABLE, call_intercepted
from fresh.nn.network import Network, load_parts
from fresh.nn.tokenizer import Text
from fresh.progress import SILENT, Progress
from fresh.rationale import Prediction

# How far the start token's vector may be off when the last layer runs for it alone.
TOLERANCE = 1e-4


class Output(NamedTuple):
    """The output of a classifier."""

    logits: Tensor
    """Shape: (batch, labels)."""
    word_weights: Tensor | None = None
    """Attention of an `AttentiveHead` to each word; 0 where there is none. Shape: (batch, tokens)."""


class Classifier(Network):
    """An encoder, its pooling and a linear head; for texts in windows, an attentive head."""

    ABOUT = "classifier.json"

    def __init__(self, encoder: Encoder, labels: Sequence[str], config: NetworkConfig) -> None:
        head = AttentiveHead if config.long == "chunk" else LinearHead
        super().__init__(encoder, config, head(encoder.width, len(labels), config.dropout), {"labels": labels})
        self.labels = tuple(labels)
        self.can_skip_rows = self._try_skipping_rows()
        """Whether the last layer may run for the start token alone."""

    @property
    def pooler(self) -> nn.Module | None:
        """The encoder's own pooler, if it is used."""
        is_used = self.encoder.pooling == "start" and self.config.long != "chunk"
        return getattr(self.encoder.model, "pooler", None) if is_used else None

    @property
    def has_random_pooler(self) -> bool:
        """Whether a pooler is used for which the encoder's files hold no weights."""
        return self.encoder.random_pooler and self.pooler is not None

    def forward(self, batch: Batch) -> Output:
        """Classify a batch."""
        hidden = self._encode_start(batch) if self.can_skip_rows else self.encode(batch)
        if isinstance(self.head, AttentiveHead):
            return Output(*self.head(hidden, batch.word_of))
        return Output(self.head(self._pool(hidden, batch.mask)))

    def _encode_start(self, batch: Batch) -> Tensor:
        """Encode a batch where only start tokens are read. Shape: (batch, 1, width)."""
        # Nobody reads the other rows of the last layer: with its queries, the projection after attention and the
        # feed-forward part, ten of its twelve matrices run for one row.
        attention: Any = self.encoder.layers[-1].attention
        inner = getattr(attention, "self", None)
        query = getattr(inner, "query", None)
        if query is None or self.encoder.model.config._attn_implementation != RECORDABLE:
            # The names differ, or attention runs step by step: only the feed-forward part runs for one row.
            return call_intercepted(lambda: self.encode(batch), {attention: _first})
        # As many rows as attention expects, all of them the first one; `attend` computes one.
        n_tokens = batch.ids.shape[1]
        return call_intercepted(
            lambda: self.encode(batch),
            {query: lambda states: states.expand(-1, n_tokens, -1)},
            inputs={query: _first, attention.output: _first},
        )

    def _try_skipping_rows(self) -> bool:
        """Try it on two texts: in some encoders, what follows attention reads all rows."""
        if self.encoder.pooling != "start" or isinstance(self.head, AttentiveHead):
            return False
        sample = self.collate(self.tokenizer([Text(("a", "b", "a")), Text(("a",))]))
        with torch.inference_mode():
            whole = self.encode(sample)[:, :1]
            try:
                found = self._encode_start(sample)
            except (AttributeError, RuntimeError, EncoderError):
                return False
        return found.shape == whole.shape and torch.allclose(found, whole, rtol=0, atol=TOLERANCE)

    def _pool(self, hidden: Tensor, mask: Tensor) -> Tensor:
        """Pool the vectors of tokens to one per text. Shape: (batch, width)."""
        if self.encoder.pooling == "mean":
            weights = mask.to(hidden.dtype).unsqueeze(-1)  # (batch, tokens, 1)
            return (hidden * weights).sum(1) / weights.sum(1)
        if isinstance(self.pooler, nn.Linear):  # ALBERT and BigBird keep the rest of their pooling outside the module
            pooled: Tensor = self.pooler(hidden[:, 0])
            return pooled.tanh()
        if self.pooler is not None:
            return self.pooler(hidden)  # type: ignore[no-any-return]
        return hidden[:, 0]

    def probabilities(self, texts: Sequence[Text], progress: Progress = SILENT, name: str = "") -> NDArray[np.float64]:
        """Compute the probability of each label for each text. Shape: (texts, labels)."""
        return self.probabilities_of(self.tokenizer(texts), progress, name)

    def probabilities_of(
        self,
        table: TokenTable,
        progress: Progress = SILENT,
        name: str = "",
        collate: Callable[[IntArray], Batch] | None = None,
    ) -> NDArray[np.float64]:
        """Compute the same for encoded texts. Shape: (texts, labels)."""
        found = np.zeros((len(table), len(self.labels)))
        with torch.inference_mode(), progress.task(name, len(table)) as advance:

            def classify(numbers: IntArray, batch: Batch) -> None:
                # In double precision: scorers compare variants of a text, whose probabilities differ in late digits.
                found[numbers] = self(batch).logits.double().softmax(-1).cpu().numpy()
                advance(len(numbers), "")

            self.for_each_batch(table, classify, collate=collate)
        return found

    @classmethod
    def load(cls, folder: Path, device: str = "auto") -> Self:
        """Load a saved classifier."""
        encoder, config, about = load_parts(folder, cls.ABOUT)
        classifier = cls(encoder, about["labels"], config)
        if classifier.has_random_pooler:
            raise EncoderError(
                f"{folder / 'model.safetensors'} has no weights for the pooler, which this model reads. "
                "Copy the model again, or train it again."
            )
        return classifier.load_head(folder).to(choose_device(device))


def _first(states: Tensor) -> Tensor:
    """Keep the row of the start token."""
    return states[:, :1]


def to_predictions(table: NDArray[np.float64], labels: Sequence[str]) -> list[Prediction]:
    """Predict the most probable label of each row; if labels tie, the earlier one.

    :param table: Probabilities. Shape: (texts, labels).
    """
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
