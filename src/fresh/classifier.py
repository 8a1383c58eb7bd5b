"""The network over words and a query; it knows neither documents nor rationales."""

import json
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field, replace
from inspect import signature
from pathlib import Path
from typing import Literal, NamedTuple, Self

import numpy as np
import torch
from numpy.typing import NDArray
from safetensors.torch import load_file, save_file
from torch import Tensor, nn

from fresh.config import below, refuse
from fresh.dropout import QuickDropout, quicken
from fresh.encoder import Encoder, load_encoder, misspelt_bundled, quiet
from fresh.encoding import LongPolicy, Text, WordEncoder
from fresh.frozen import read_all
from fresh.halves import extras, halve
from fresh.pieces import Batch, Gather, Ints, Layout, Pieces, PieceTable, table_of
from fresh.progress import SILENT, Progress
from fresh.rationale import Prediction
from fresh.training import TrainConfig, choose_device


@dataclass(frozen=True, slots=True)
class NetworkConfig:
    """Which network is trained, and how much of it."""

    encoder: str = "minilm"
    """Pretrained encoder: minilm or mpnet (bundled), a folder, or a name on the Hugging Face hub."""
    pooling: Literal["auto", "start", "mean"] = "start"
    """What stands for a text: its start token, the mean of its pieces, or auto: as the encoder was trained."""
    long: LongPolicy = "stagger"
    """Texts beyond the encoder's length: stagger (positions repeat, all is read) or truncate (the rest is not read)."""
    max_pieces: int = 4096
    """Longest text, in pieces, that is read under stagger; time and memory grow with its square."""
    layers: int | Literal["all"] = 2
    """How many layers, from the top, are trained (with the pooler and the head), or all."""
    dropout: float = 0.2
    """Dropout before the head."""

    def __post_init__(self) -> None:
        refuse(
            misspelt_bundled(self.encoder),
            f"layers must be 0 or more, or all, got {self.layers}."
            if self.layers != "all" and self.layers < 0
            else None,
            f"dropout must be at least 0 and below 1, got {self.dropout}." if not 0 <= self.dropout < 1 else None,
            *below(16, max_pieces=self.max_pieces),
        )


@dataclass(frozen=True, slots=True)
class ClassifierConfig:
    """Which network is trained, and how."""

    network: NetworkConfig = field(default_factory=NetworkConfig)
    train: TrainConfig = field(default_factory=TrainConfig)


class Output(NamedTuple):
    """What the network puts out."""

    logits: Tensor
    """Shape: (batch, labels)."""
    weights: Tensor | None = None
    """What the start token looks at in the last layer, if it is read alone. Shape: (batch, heads, 1, pieces)."""
    attentions: tuple[Tensor, ...] = ()
    """One a layer if they were asked for. Shape: (batch, heads, pieces, pieces)."""


class Classifier(nn.Module):
    """An encoder, its pooling and a linear head."""

    def __init__(self, encoder: Encoder, labels: Sequence[str], config: NetworkConfig) -> None:
        super().__init__()
        self.encoder = encoder
        self.labels = tuple(labels)
        self.config = config
        self.words = WordEncoder(encoder, config.long, config.max_pieces)
        self.body = encoder.model
        quicken(self.body)
        self.pooler: nn.Module | None = getattr(encoder.model, "pooler", None) if encoder.pooling == "start" else None
        self.dropout = QuickDropout(config.dropout)
        self.head = nn.Linear(encoder.width, len(labels))
        self.freeze()
        self.eval()
        sample = self.collate(self.words([Text(("a", "b", "a"), ("b",)), Text(("a",))]))
        n_below = 0 if config.layers == "all" else len(encoder.layers) - config.layers
        self.halves = halve(encoder, n_below, encoder.pooling == "start", sample)
        """The frozen part and the part that learns; None for an encoder that cannot be cut."""

    def freeze(self) -> None:
        """Let only the top layers, the pooler and the head learn."""
        self.body.requires_grad_(self.config.layers == "all")
        for module in self.learning():
            module.requires_grad_(True)

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
        for module in (*self.learning(), self.dropout):
            module.train(mode)
        return self

    @property
    def device(self) -> torch.device:
        """Where the network is."""
        return self.head.weight.device

    def forward(self, batch: Batch | tuple[Layout, Tensor]) -> Output:
        """Read a batch: its pieces, or how they lie and what the frozen layers made of them."""
        if isinstance(batch, Batch):
            if self.halves is None:
                return self.read_whole(batch, attentions=False)
            return self.go_on(batch, self.halves.below(batch) if batch.hidden is None else batch.hidden)
        return self.go_on(*batch)

    def go_on(self, layout: Layout, hidden: Tensor) -> Output:
        """Go on from what the frozen layers made of a batch."""
        assert self.halves is not None
        out, weights = self.halves.above(hidden, layout)
        return Output(self.head(self.dropout(self.pool(out, layout.mask))), weights)

    def read_whole(self, batch: Batch, attentions: bool) -> Output:
        """Read a batch with all layers in one go, and with all attention weights if these are wanted."""
        given = extras(batch, {"token_type_ids", "position_ids"} & signature(self.body.forward).parameters.keys())
        out = self.body(batch.ids, attention_mask=batch.mask, output_attentions=attentions, **given)
        pooled = self.dropout(self.pool(out.last_hidden_state, batch.mask))  # (batch, width)
        return Output(self.head(pooled), None, tuple(out.attentions) if attentions else ())

    def pool(self, hidden: Tensor, mask: Tensor) -> Tensor:
        """Turn the vectors of the pieces into one for the text. Shape: (batch, width)."""
        if self.encoder.pooling == "mean":
            weights = mask.to(hidden.dtype).unsqueeze(-1)  # (batch, pieces, 1)
            return (hidden * weights).sum(1) / weights.sum(1)
        if self.pooler is not None:
            return self.pooler(hidden)  # type: ignore[no-any-return]
        return hidden[:, 0]

    @property
    def padding(self) -> int:
        """The piece that shorter texts are filled up with."""
        return self.encoder.tokenizer.pad_token_id or 0

    def collate(self, pieces: Iterable[Pieces]) -> Batch:
        """Put encoded texts side by side, where the network is."""
        table = table_of(list(pieces))
        return Gather(table, self.device, self.padding)(np.arange(len(table)))

    def work_through(self, table: PieceTable, work: Callable[[Ints, Batch], None], part: float = 1) -> None:
        """Have encoded texts worked on in batches of like length, smaller ones where memory runs out.

        :param part: Share of the usual size of batches.
        """
        gather = Gather(table, self.device, self.padding)
        read_all(table.lengths, self.device, lambda numbers: work(numbers, gather(numbers)), part)

    def probabilities(self, texts: Sequence[Text], progress: Progress = SILENT, name: str = "") -> NDArray[np.float64]:
        """Say how probable each label is for each text. Shape: (texts, labels)."""
        return self.probabilities_of(self.words(texts), progress, name)

    def probabilities_of(self, table: PieceTable, progress: Progress = SILENT, name: str = "") -> NDArray[np.float64]:
        """Say the same for texts that are encoded already. Shape: (texts, labels)."""
        found = np.zeros((len(table), len(self.labels)))
        with torch.inference_mode(), progress.task(name, len(table)) as advance:

            def work(numbers: Ints, batch: Batch) -> None:
                found[numbers] = self(batch).logits.double().softmax(-1).cpu().numpy()
                advance(len(numbers), "")

            self.work_through(table, work)
        return found

    def save(self, folder: Path) -> None:
        """Write everything needed to have it again."""
        with quiet():
            self.body.save_pretrained(folder)
            self.encoder.tokenizer.save_pretrained(folder)
        save_file(
            {name: weight.contiguous() for name, weight in self.head.state_dict().items()}, folder / "head.safetensors"
        )
        name = self.encoder.name
        network = replace(self.config, encoder=Path(name).name if Path(name).is_dir() else name)  # no path of ours
        about = {"labels": self.labels, "pooling": self.encoder.pooling, "network": asdict(network)}
        text = json.dumps(about, indent=2, ensure_ascii=False)
        (folder / "classifier.json").write_text(text + "\n", encoding="utf-8")

    @classmethod
    def load(cls, folder: Path, device: str = "auto") -> Self:
        """Read it back."""
        about = json.loads((folder / "classifier.json").read_text(encoding="utf-8"))
        encoder = load_encoder(str(folder), about["pooling"])
        network = NetworkConfig(**about["network"])
        encoder.name = network.encoder
        classifier = cls(encoder, about["labels"], network)
        classifier.head.load_state_dict(load_file(folder / "head.safetensors"))
        return classifier.to(choose_device(device))


def predictions(table: NDArray[np.float64], labels: Sequence[str]) -> list[Prediction]:
    """Take the most probable label of each row; the earlier one where they tie."""
    return [
        Prediction(labels[int(row.argmax())], {label: float(p) for label, p in zip(labels, row, strict=True)})
        for row in table
    ]


@contextmanager
def eager_attention(classifier: Classifier) -> Iterator[None]:
    """Have attention weights computed in the open, for as long as the block lasts."""
    before = classifier.body.config._attn_implementation
    with quiet():
        classifier.body.set_attn_implementation("eager")
    try:
        yield
    finally:
        classifier.body.set_attn_implementation(before)
