"""What all networks share: an encoder of words and queries, whose top layers are trained, and a head."""

import json
import threading
from collections.abc import Callable, Iterable, Mapping
from contextlib import AbstractContextManager, nullcontext
from dataclasses import asdict, replace
from inspect import signature
from pathlib import Path
from typing import Any, Self

import numpy as np
import torch
from safetensors.torch import load_file, save_file
from torch import Tensor, nn
from transformers import MPNetModel

from fresh.errors import EncoderError
from fresh.nn.attention import make_recordable
from fresh.nn.batch import Batch, Collator, EncodedText, IntArray, Layout, TokenTable, Windows
from fresh.nn.batching import budget_share, run_batches
from fresh.nn.config import NetworkConfig
from fresh.nn.encoder import Encoder, find_non_finite, quiet, read_encoder, shorten_list
from fresh.nn.heads import use_fast_dropout
from fresh.nn.split_encoder import extra_inputs, split_encoder
from fresh.nn.tokenizer import Text, WordTokenizer

PROBE = ("a", "\U000103a0", "\ue000")
"""A known word, one of a rare script, and one that many tokenizers drop."""


class _Lock(type(threading.RLock())):  # type: ignore[misc]
    """A reentrant lock that can be copied or pickled with what it protects; each copy has a lock of its own.

    Entering and leaving stay in C: an interrupt can arrive between the lines of a method written in Python, and would
    leave the lock held for good.
    """

    def __reduce__(self) -> tuple[type["_Lock"], tuple[()]]:
        return _Lock, ()


class Network(nn.Module):
    """An encoder and a head above it."""

    head: nn.Module

    def __init__(self, encoder: Encoder, config: NetworkConfig, head: nn.Module) -> None:
        super().__init__()
        self.encoder = encoder
        self.config = config
        self.lock = _Lock()
        """Held during each forward pass, so that no thread changes how the encoder attends during another's."""
        self.tokenizer = WordTokenizer(encoder, config.long, config.max_pieces)
        self.windows = Windows(self.tokenizer.window if config.long == "chunk" else None, self.padding)
        self.body = encoder.model
        make_recordable(self.body)
        use_fast_dropout(self.body)
        self.head = head
        self._freeze()
        self.eval()
        # Names of parts prove nothing, so whether an encoder can be split is tried on two texts, one of them padded.
        sample = self.collate(self.tokenizer([Text(("a", "b", "a"), ("b",)), Text(("a",))]))
        n_frozen = 0 if config.layers == "all" else len(encoder.layers) - config.layers
        self.split = split_encoder(encoder, n_frozen, sample, self.windows)
        """The frozen and the trained part; None for an encoder that cannot be split."""

    @property
    def pooler(self) -> nn.Module | None:
        """The encoder's own pooler, if it is used."""
        return None

    @property
    def device(self) -> torch.device:
        """Device of the network."""
        return next(self.head.parameters()).device

    @property
    def padding(self) -> int:
        """Id of the token that shorter texts are padded with."""
        return self.encoder.tokenizer.pad_token_id or 0

    @property
    def budget_share(self) -> float:
        """Share of the usual size of batches that there is memory for."""
        return budget_share(self.encoder, self.device)

    def _freeze(self) -> None:
        """Train only the top layers, the pooler and the head."""
        self.body.requires_grad_(self.config.layers == "all")
        for module in self._trained_modules():
            module.requires_grad_(True)
        if isinstance(self.body, MPNetModel):
            # The gradient of this bias has one number for each pair of tokens, head and text, to train a table of 384
            # numbers: attention took 43 ms with it, 12 ms without (24 texts of 400 tokens on an H200).
            self.body.encoder.relative_attention_bias.requires_grad_(False)

    def _trained_modules(self) -> list[nn.Module]:
        if self.config.layers == "all":
            return [self.body, self.head]
        layers = self.encoder.layers
        if self.config.layers > len(layers):
            raise ValueError(
                f"layers must be at most {len(layers)} for this encoder, or all, got {self.config.layers}."
            )
        top = list(layers)[len(layers) - self.config.layers :]
        norm = getattr(self.body, "final_norm", None)
        return [module for module in (*top, norm, self.pooler, self.head) if isinstance(module, nn.Module)]

    def train(self, mode: bool = True) -> Self:
        """Turn dropout on in the parts that are trained; frozen layers are constants."""
        # The authors' code leaves dropout on in frozen layers; without it, what they put out can be cached.
        super().train(False)
        self.training = mode
        for module in self._trained_modules():
            module.train(mode)
        return self

    def encode(self, batch: Batch | tuple[Layout, Tensor]) -> tuple[Layout, Tensor]:
        """Run the encoder on a batch, or on its layout and what the frozen layers put out for it.

        :return: The layout, and one vector per token. Shape: (batch, tokens, width).
        """
        # Weights of 16 bits: all is computed with 16 bits, not some of it with more, as autocast would have it.
        in_bf16 = self.body.dtype == torch.bfloat16
        precision: AbstractContextManager[object] = nullcontext()
        if in_bf16:
            precision = torch.autocast(self.device.type, enabled=False)
        with self.lock, precision:
            if self.split is None:
                assert isinstance(batch, Batch)
                return batch, self._encode_whole(batch)
            layout, hidden = (batch, batch.hidden) if isinstance(batch, Batch) else batch
            if hidden is None:
                assert isinstance(batch, Batch)
                hidden = self.split.run_lower(batch)
            return layout, self.split.run_upper(hidden.to(self.body.dtype) if in_bf16 else hidden, layout)

    def _encode_whole(self, batch: Batch) -> Tensor:
        rows = self.windows.fold(batch)
        inputs = extra_inputs(rows, {"token_type_ids", "position_ids"} & signature(self.body.forward).parameters.keys())
        hidden = self.body(rows.ids, attention_mask=rows.mask, **inputs).last_hidden_state
        return self.windows.unfold(hidden, *batch.mask.shape)

    def collate(self, texts: Iterable[EncodedText]) -> Batch:
        """Put encoded texts side by side, on the network's device."""
        table = TokenTable.of(list(texts))
        return Collator(table, self.device, self.padding)(np.arange(len(table)))

    def for_each_batch(self, table: TokenTable, work: Callable[[IntArray, Batch], None], share: float = 1) -> None:
        """Process encoded texts in batches of similar length; where memory runs out, in smaller ones.

        :param work: Takes the numbers of some texts, and a batch of them.
        :param share: Share of the usual size of batches.
        """
        collate = Collator(table, self.device, self.padding)
        run_batches(
            table.lengths, self.device, lambda numbers: work(numbers, collate(numbers)), share * self.budget_share
        )

    def save_parts(self, folder: Path, name: str, about: Mapping[str, Any]) -> None:
        """Save the encoder, the head, and a record of what they are.

        :param name: Name of the file with the record.
        """
        with quiet():
            self.body.save_pretrained(folder)
            self.encoder.tokenizer.save_pretrained(folder)
        weights = {key: weight.contiguous() for key, weight in self.head.state_dict().items()}
        save_file(weights, folder / "head.safetensors")
        encoder = self.encoder.name
        network = replace(self.config, encoder=Path(encoder).name if Path(encoder).is_dir() else encoder)  # no path
        identity = {"encoder_identity": self.encoder.identity} if self.encoder.identity else {}
        record = {**about, "pooling": self.encoder.pooling, "network": asdict(network), **identity}
        (folder / name).write_text(json.dumps(record, indent=2, ensure_ascii=False) + "\n", encoding="utf-8")

    def load_head(self, folder: Path) -> Self:
        """Load the weights of the head."""
        self.head.load_state_dict(load_file(folder / "head.safetensors"))
        # A damaged weight makes every probability NaN, which is easier to explain here than after a prediction.
        if wrong := find_non_finite(self.head.state_dict()):
            raise EncoderError(
                f"{folder / 'head.safetensors'} has weights that are not finite numbers (NaN or infinity): "
                f"{shorten_list(wrong)}. Copy the model again, or train it again."
            )
        return self

    def check_outputs(self, folder: Path, with_query: bool) -> None:
        """Refuse a loaded network whose outputs are not finite numbers.

        :param with_query: Whether to try a text with a query too.
        """
        texts = [Text(PROBE, PROBE[:1] if with_query else ()), Text(PROBE[:1])]
        with torch.inference_mode():
            outputs = self(self.collate(self.tokenizer(texts)))[0]
        if not outputs.isfinite().all():
            raise EncoderError(
                f"The network in {folder} puts out numbers that are not finite (NaN or infinity): config.json or "
                "model.safetensors is damaged. Copy the model again, or train it again."
            )


def load_parts(folder: Path, name: str) -> tuple[Encoder, NetworkConfig, dict[str, Any]]:
    """Load the encoder of a network, its settings, and the record of what it is."""
    about = json.loads((folder / name).read_text(encoding="utf-8"))
    encoder = read_encoder(str(folder), str(folder), about["pooling"])
    config = NetworkConfig(**about["network"])
    encoder.name = config.encoder
    encoder.identity = about.get("encoder_identity", "")  # models saved by early versions have none
    return encoder, config, about
