"""The base of all networks: an encoder of words and queries, whose top layers are trained, and a head."""

import copy
import json
import threading
from collections.abc import Callable, Mapping, Sequence
from contextlib import nullcontext
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any, ClassVar, NamedTuple, Self

import numpy as np
import torch
from safetensors.torch import load_file, save_file
from torch import Tensor, nn
from transformers import MPNetModel, PreTrainedModel

from fresh.errors import EncoderError
from fresh.nn.batch import Batch, Collator, IntArray, TokenTable, Windows
from fresh.nn.batching import run_batches
from fresh.nn.config import NetworkConfig
from fresh.nn.encoder import Encoder, find_non_finite, quiet, read_encoder, shorten_list
from fresh.nn.heads import use_fast_dropout
from fresh.nn.intercept import make_recordable
from fresh.nn.mpnet import fuse_attention
from fresh.nn.tokenizer import Text, WordTokenizer

# A known word, one of a rare script, and one that many tokenizers drop.
PROBE = ("a", "\U000103a0", "\ue000")
# Layers times width of `minilm`, for which the usual size of batches was measured; larger encoders read fewer tokens.
USUAL_SIZE = 6 * 384
# How far a split encoder may be from the whole one, as a share of its largest output: it computes the same numbers, but
# kernels may add them in another order.
SPLIT_TOLERANCE = 1e-4


class _Lock(type(threading.RLock())):  # type: ignore[misc]
    """A reentrant lock that can be copied or pickled with its network; each copy has its own lock."""

    # A subclass, so that entering and leaving stay in C: an interrupt between the lines of a method written in Python
    # would leave the lock held forever.
    def __reduce__(self) -> tuple[type["_Lock"], tuple[()]]:
        return _Lock, ()


class SplitEncoder(NamedTuple):
    """The layers of an encoder that are frozen, and those above them; all weights are the encoder's own."""

    lower: PreTrainedModel
    upper: PreTrainedModel


class Network(nn.Module):
    """An encoder and a head above it."""

    ABOUT: ClassVar[str]
    """The file that says what a saved network is."""
    head: nn.Module

    def __init__(self, encoder: Encoder, config: NetworkConfig, head: nn.Module, about: Mapping[str, Any]) -> None:
        super().__init__()
        self.about = about
        """What the network is made from, besides an encoder and settings."""
        self.encoder = encoder
        self.config = config
        self.lock = _Lock()
        """Held during each forward pass, so that no thread changes how the encoder attends during another's."""
        self.tokenizer = WordTokenizer(encoder, config.long, config.max_pieces)
        self.windows = Windows(self.tokenizer.window if config.long == "chunk" else None)
        self.body = encoder.model
        make_recordable(self.body)
        fuse_attention(self.body)
        use_fast_dropout(self.body)
        self.head = head
        self.body.requires_grad_(config.layers == "all")
        for module in self._trained_modules():
            module.requires_grad_(True)
        if isinstance(self.body, MPNetModel):
            # This bias is a table of 384 numbers, but its gradient has one number for each pair of tokens, head and
            # text: attention took 43 ms with it, 12 ms without (24 texts of 400 tokens on an H200).
            self.body.encoder.relative_attention_bias.requires_grad_(False)
        self.eval()
        self.n_frozen = 0 if config.layers == "all" else len(encoder.layers) - config.layers
        """Number of layers, from the bottom, that are not trained."""
        self.split: SplitEncoder | None = None
        """The frozen and the trained part; None if no layer is frozen, or if the encoder cannot be split."""
        if self.n_frozen:
            # Names of parts prove nothing, so splitting an encoder is tried on two texts, one of them padded.
            sample = self.collate(self.tokenizer([Text(("a", "b", "a"), ("b",)), Text(("a",))]))
            self.split = _split_encoder(encoder, self.n_frozen, sample, self.windows)

    @property
    def pooler(self) -> nn.Module | None:
        """The encoder's own pooler, if it is used."""
        return None

    @property
    def device(self) -> torch.device:
        """Device of the network."""
        return next(self.head.parameters()).device

    @property
    def budget_share(self) -> float:
        """Share of the usual size of batches that the device has memory for."""
        if self.device.type != "cuda":
            return 1.0
        n_layers = getattr(self.body.config, "num_hidden_layers", 1)
        return min(1.0, USUAL_SIZE / (n_layers * self.encoder.width))

    def _trained_modules(self) -> list[nn.Module]:
        if self.config.layers == "all":
            return [self.body, self.head]
        layers, n_trained = self.encoder.layers, self.config.layers
        if n_trained > len(layers):
            raise ValueError(f"layers must be at most {len(layers)} for this encoder, or all, got {n_trained}.")
        top = list(layers)[len(layers) - n_trained :]
        norm = getattr(self.body, "final_norm", None)
        return [module for module in (*top, norm, self.pooler, self.head) if isinstance(module, nn.Module)]

    def train(self, mode: bool = True) -> Self:
        """Turn dropout on in the parts that are trained."""
        # The authors' code leaves dropout on in frozen layers; without it, their output can be cached.
        super().train(False)
        self.training = mode
        for module in self._trained_modules():
            module.train(mode)
        return self

    def encode(self, batch: Batch) -> Tensor:
        """Run the encoder, or only its upper layers if the output of the frozen ones is known.

        :return: One vector per token. Shape: (batch, tokens, width).
        """
        # Weights of 16 bits: all is computed with 16 bits. Autocast would compute some of it with 32.
        in_bf16 = self.body.dtype == torch.bfloat16
        with self.lock, torch.autocast(self.device.type, enabled=False) if in_bf16 else nullcontext():
            if self.split is None:
                return self.windows.run(self.body, batch)
            hidden = self.windows.run(self.split.lower, batch) if batch.hidden is None else batch.hidden
            batch = replace(batch, hidden=hidden.to(self.body.dtype) if in_bf16 else hidden)
            return self.windows.run(self.split.upper, batch)

    def collator(self, table: TokenTable) -> Collator:
        """Prepare to make batches of encoded texts on the network's device."""
        return Collator(table, self.device, self.encoder.tokenizer.pad_token_id or 0)

    def collate(self, table: TokenTable) -> Batch:
        """Put encoded texts side by side."""
        return self.collator(table)(np.arange(len(table)))

    def for_each_batch(
        self,
        table: TokenTable,
        work: Callable[[IntArray, Batch], None],
        share: float = 1,
        collate: Callable[[IntArray], Batch] | None = None,
    ) -> None:
        """Process encoded texts in batches of similar length; where memory runs out, in smaller ones.

        :param work: Takes the numbers of some texts, and a batch of them.
        :param share: Share of the usual size of batches.
        :param collate: Makes a batch of some texts; by default, of their tokens.
        """
        collate = collate or self.collator(table)
        share *= self.budget_share
        run_batches(table.lengths, self.device, lambda numbers: work(numbers, collate(numbers)), share)

    def save(self, folder: Path) -> None:
        """Save the encoder, the head and a record of what they are to a folder."""
        with quiet():
            self.body.save_pretrained(folder)
            self.encoder.tokenizer.save_pretrained(folder)
        weights = {key: weight.contiguous() for key, weight in self.head.state_dict().items()}
        save_file(weights, folder / "head.safetensors")
        encoder = self.encoder.name
        network = replace(self.config, encoder=Path(encoder).name if Path(encoder).is_dir() else encoder)  # no path
        identity = {"encoder_identity": self.encoder.identity} if self.encoder.identity else {}
        record = {**self.about, "pooling": self.encoder.pooling, "network": asdict(network), **identity}
        (folder / self.ABOUT).write_text(json.dumps(record, indent=2, ensure_ascii=False) + "\n", encoding="utf-8")

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
        """Check that a loaded network has finite outputs, on texts with or without a query."""
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


class _PassThrough(nn.Module):
    # Replaces the embeddings: the input of the upper layers is embedded already.
    def forward(self, input_ids: Tensor | None = None, inputs_embeds: Tensor | None = None, *_: Any, **__: Any) -> Any:
        return inputs_embeds


def _split_encoder(encoder: Encoder, n_lower: int, batch: Batch, windows: Windows) -> SplitEncoder | None:
    # Only if the parts compute what the whole encoder does, which is tried on a few texts.
    try:
        layers = list(encoder.layers)
        split = SplitEncoder(_part_of(encoder, layers[:n_lower], True), _part_of(encoder, layers[n_lower:], False))
        with torch.inference_mode():
            whole = windows.run(encoder.model, batch)
            found = windows.run(split.upper, replace(batch, hidden=windows.run(split.lower, batch)))
    # Encoders fail in many ways when a part is missing; every one of them means that this encoder cannot be split.
    except (TypeError, ValueError, AttributeError, KeyError, IndexError, NameError, RuntimeError):
        return None
    difference = (found - whole)[batch.mask.bool()].abs().max()
    return split if bool(difference <= SPLIT_TOLERANCE * whole.abs().max()) else None


def _part_of(encoder: Encoder, layers: Sequence[nn.Module], is_lower: bool) -> PreTrainedModel:
    # A copy of the outer shell around some of the layers; all weights stay shared. The encoder's own forward method
    # runs with fewer layers, so that masks, positions and norms stay its own.
    body: PreTrainedModel = _shallow_copy(encoder.model)
    if is_lower and "final_norm" in body._modules:
        body._modules["final_norm"] = nn.Identity()
    if not is_lower:
        body._modules["embeddings"] = _PassThrough()
        body._modules.pop("embeddings_project", None)
    if "pooler" in body._modules:
        body._modules["pooler"] = None
    [path] = [name for name, module in encoder.model.named_modules() if module is encoder.layers]
    *parents, name = path.split(".")
    holder: nn.Module = body
    for parent in parents:
        holder._modules[parent] = _shallow_copy(holder._modules[parent])
        holder = holder.get_submodule(parent)
    holder._modules[name] = nn.ModuleList(layers)
    return body


def _shallow_copy(module: Any) -> Any:
    copied = copy.copy(module)
    copied._modules = dict(module._modules)  # torch 2.6 to 2.13: the table of a module's parts
    return copied
