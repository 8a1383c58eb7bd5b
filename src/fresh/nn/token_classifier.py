"""The network that scores words, used by `fresh.selection.tagger` and the gates of joint methods."""

from pathlib import Path
from typing import Literal, Self

import torch
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
