"""The network that scores words, used by `fresh.selection.tagger` and the gates of joint methods."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal, Self

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from fresh.nn.batch import Batch
from fresh.nn.config import NetworkConfig
from fresh.nn.device import choose_device
from fresh.nn.encoder import Encoder
from fresh.nn.hardkuma import HardKuma
from fresh.nn.heads import LinearChainCRF, TokenHead, word_mask
from fresh.nn.network import Network, load_parts

Kind = Literal["words", "chain", "hardkuma"]
"""How words are scored: each by itself, with a linear chain over neighbors, or with a distribution from 0 to 1."""


class TokenClassifier(Network):
    """An encoder and a head that scores words."""

    ABOUT = "tags.json"
    head: TokenHead

    def __init__(self, encoder: Encoder, kind: Kind, config: NetworkConfig) -> None:
        n_outputs = 2 if kind == "hardkuma" else 1
        chain = LinearChainCRF() if kind == "chain" else None
        head = TokenHead(encoder.width, n_outputs, config.dropout, config.long == "chunk", chain)
        super().__init__(encoder, config, head, {"kind": kind})
        self.kind = kind

    def forward(self, batch: Batch) -> tuple[Tensor, Tensor]:
        """Score the words of a batch: outputs (texts, tokens, outputs), and number of words (texts,)."""
        outputs, n_words = self.head(self.encode(batch), batch.word_of)
        return outputs.float(), n_words

    def keep_logits(self, outputs: Tensor) -> Tensor:
        """Compute the log-odds of keeping each word, by itself. Shape: (texts, tokens)."""
        if self.kind == "hardkuma":
            return torch.logit(1 - HardKuma.of(outputs).zero(), eps=1e-6)
        return outputs.squeeze(-1)

    def probabilities(self, outputs: Tensor, n_words: Tensor) -> Tensor:
        """Compute how much to keep each word, from 0 to 1; 0 where there is no word. Shape: (texts, tokens)."""
        if self.kind == "hardkuma":
            found = HardKuma.of(outputs).mean()
        elif self.head.chain is not None:
            found = self.head.chain.marginals(outputs.squeeze(-1), n_words)
        else:
            found = outputs.squeeze(-1).sigmoid()
        return found * word_mask(n_words, found.shape[1])

    @classmethod
    def load(cls, folder: Path, device: str = "auto") -> Self:
        """Load a saved network."""
        encoder, config, about = load_parts(folder, cls.ABOUT)
        return cls(encoder, about["kind"], config).load_head(folder).to(choose_device(device))


@dataclass(frozen=True, slots=True)
class WordValues:
    """A number for each word of many texts, in one flat tensor."""

    values: Tensor
    starts: Tensor
    n_words: Tensor

    @classmethod
    def of(cls, rows: Sequence[NDArray[Any]], device: torch.device) -> "WordValues":
        """Concatenate the rows of all texts."""
        sizes = np.array([len(row) for row in rows], dtype=np.int64)
        starts = np.cumsum(sizes) - sizes
        values = np.concatenate([*rows, np.zeros(1)]).astype(np.float32)
        return cls(*(torch.from_numpy(item).to(device) for item in (values, starts, sizes)))

    def take(self, numbers: Tensor, width: int) -> Tensor:
        """Put some texts side by side; 0 where there is no word. Shape: (texts, width)."""
        is_word = word_mask(self.n_words[numbers], width)
        steps = torch.arange(width, device=self.values.device)
        places = torch.where(is_word, self.starts[numbers].unsqueeze(1) + steps, 0)
        return self.values[places] * is_word
