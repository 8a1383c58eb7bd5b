"""What all networks have in common: an encoder of words and queries, of which the top layers learn, and a head."""

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
from fresh.nn.batch import Batch, EncodedText, Gather, IntArray, Layout, TokenTable, make_table
from fresh.nn.batching import part_for, run_batches
from fresh.nn.config import NetworkConfig
from fresh.nn.encoder import Encoder, listed, not_finite, quiet, read_encoder
from fresh.nn.fast_layers import swap_fast_layers
from fresh.nn.split_encoder import extras, split_encoder
from fresh.nn.tokenizer import Text, WordTokenizer
from fresh.nn.windows import Windows

TRIED = ("a", "\U000103a0", "\ue000")
"""A known word, one of a rare script, and one that many tokenizers leave nothing of."""


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

    def __init__(self, encoder: Encoder, config: NetworkConfig, head: nn.Module, start_only: bool) -> None:
        """Put the parts together.

        :param start_only: Whether the head reads nothing but the vector of the start token.
        """
        super().__init__()
        self.encoder = encoder
        self.config = config
        self.lock = _Lock()
        """Held during each forward pass, so that no thread switches how the encoder attends under another one."""
        self.words = WordTokenizer(encoder, config.long, config.max_pieces)
        self.windows = Windows(self.words.window if config.long == "chunk" else None, self.padding)
        self.body = encoder.model
        swap_fast_layers(self.body)
        self.head = head
        self.freeze()
        self.eval()
        sample = self.collate(self.words([Text(("a", "b", "a"), ("b",)), Text(("a",))]))
        n_below = 0 if config.layers == "all" else len(encoder.layers) - config.layers
        self.halves = split_encoder(encoder, n_below, start_only, sample, self.windows)
        """The frozen part and the part that learns; None for an encoder that cannot be cut."""

    @property
    def pooler(self) -> nn.Module | None:
        """What the encoder has for pooling, if that is used."""
        return None

    def freeze(self) -> None:
        """Let only the top layers, the pooler and the head learn."""
        self.body.requires_grad_(self.config.layers == "all")
        for module in self.learning():
            module.requires_grad_(True)
        if isinstance(self.body, MPNetModel):
            # The gradient of this bias has one number for each pair of tokens, head and text, to train a table of 384
            # numbers: attention took 43 ms with it, 12 ms without (24 texts of 400 tokens on an H200).
            self.body.encoder.relative_attention_bias.requires_grad_(False)

    def learning(self) -> list[nn.Module]:
        """List the modules that are trained when not all are."""
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
        """Switch dropout on in the parts that learn; what is frozen is a constant."""
        super().train(False)
        self.training = mode
        for module in self.learning():
            module.train(mode)
        return self

    @property
    def device(self) -> torch.device:
        """Where the network is."""
        return next(self.head.parameters()).device

    def read(self, batch: Batch | tuple[Layout, Tensor]) -> tuple[Layout, Tensor, Tensor | None]:
        """Read a batch: its pieces, or how they lie and what the frozen layers made of them.

        :return: How the pieces lie, their vectors (batch, pieces, width), or that of the start token alone if no more
            is wanted, and then also what that token looks at in the last layer (batch, heads, 1, pieces).
        """
        with self.lock, self.one_precision():
            if not isinstance(batch, Batch):
                layout, hidden = batch
            elif self.halves is None:
                return batch, self.read_whole(batch, attentions=False)[0], None
            else:
                layout, hidden = batch, self.halves.below(batch) if batch.hidden is None else batch.hidden
            assert self.halves is not None
            return layout, *self.halves.above(hidden.to(self.body.dtype) if self.is_rounded else hidden, layout)

    @property
    def is_rounded(self) -> bool:
        """Whether the encoder reads weights that are rounded to 16 bits."""
        return self.body.dtype == torch.bfloat16

    def one_precision(self) -> AbstractContextManager[object]:
        """Have an encoder whose weights are rounded compute with 16 bits everywhere, not with more here and there."""
        return torch.autocast(self.device.type, enabled=False) if self.is_rounded else nullcontext()

    def read_whole(self, batch: Batch, attentions: bool) -> tuple[Tensor, tuple[Tensor, ...]]:
        """Read a batch with all layers in one go, and with all attention weights if these are wanted."""
        rows = self.windows.fold(batch)
        given = extras(rows, {"token_type_ids", "position_ids"} & signature(self.body.forward).parameters.keys())
        out = self.body(rows.ids, attention_mask=rows.mask, output_attentions=attentions, **given)
        hidden = self.windows.unfold(out.last_hidden_state, *batch.mask.shape)
        return hidden, tuple(out.attentions) if attentions else ()

    @property
    def padding(self) -> int:
        """The piece that shorter texts are filled up with."""
        return self.encoder.tokenizer.pad_token_id or 0

    def collate(self, pieces: Iterable[EncodedText]) -> Batch:
        """Put encoded texts side by side, where the network is."""
        table = make_table(list(pieces))
        return Gather(table, self.device, self.padding)(np.arange(len(table)))

    @property
    def part(self) -> float:
        """Share of the usual size of batches that there is room for."""
        return part_for(self.encoder, self.device)

    def work_through(self, table: TokenTable, work: Callable[[IntArray, Batch], None], part: float = 1) -> None:
        """Have encoded texts worked on in batches of like length, smaller ones where memory runs out.

        :param part: Share of the usual size of batches.
        """
        gather = Gather(table, self.device, self.padding)
        run_batches(table.lengths, self.device, lambda numbers: work(numbers, gather(numbers)), part * self.part)

    def write_parts(self, folder: Path, name: str, about: Mapping[str, Any]) -> None:
        """Write everything needed to have it again.

        :param name: File for what is said about it.
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
        """Read the weights of the head back."""
        self.head.load_state_dict(load_file(folder / "head.safetensors"))
        wrong = not_finite(self.head.state_dict())
        if wrong:
            raise EncoderError(
                f"{folder / 'head.safetensors'} has weights that are not finite numbers (NaN or infinity): "
                f"{listed(wrong)}. Copy the model again, or train it again."
            )
        return self

    def check_outputs(self, folder: Path, asks: bool) -> None:
        """Have a network that was read from a folder read some words, and refuse what is not a finite number.

        :param asks: Whether it is to read queries too.
        """
        texts = [Text(TRIED, TRIED[:1] if asks else ()), Text(TRIED[:1])]
        with torch.inference_mode():
            outputs = self(self.collate(self.words(texts)))[0]
        if not outputs.isfinite().all():
            raise EncoderError(
                f"The network in {folder} puts out what is not a finite number (NaN or infinity): config.json or "
                "model.safetensors is damaged. Copy the model again, or train it again."
            )


def load_parts(folder: Path, name: str) -> tuple[Encoder, NetworkConfig, dict[str, Any]]:
    """Read back the encoder of a network, its settings and what was said about it."""
    about = json.loads((folder / name).read_text(encoding="utf-8"))
    encoder = read_encoder(str(folder), str(folder), about["pooling"])
    config = NetworkConfig(**about["network"])
    encoder.name = config.encoder
    encoder.identity = about.get("encoder_identity", "")  # not there in models that were saved before
    return encoder, config, about
