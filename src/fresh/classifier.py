"""The network over words and a query; it knows neither documents nor rationales."""

import inspect
import json
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Literal, NamedTuple, Self

import numpy as np
import torch
from numpy.typing import NDArray
from safetensors.torch import load_file, save_file
from torch import Tensor, nn
from torch.nn import functional

from fresh.config import below, refuse
from fresh.encoder import Encoder, load_encoder, misspelt_bundled, quiet
from fresh.encoding import Batch, LongPolicy, Pieces, Text, WordEncoder, batches_by_budget, collate
from fresh.metrics import macro_f1
from fresh.progress import SILENT, Progress
from fresh.rationale import Prediction
from fresh.training import TrainConfig, Watch, choose_device, fit, seeded

PIECES_AT_ONCE = 8192
SQUARED_PIECES_AT_ONCE = 4_000_000
"""How many pieces, and pairs of pieces, are read in one go when nothing is trained."""


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
    attentions: tuple[Tensor, ...]
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
        self.pooler: nn.Module | None = getattr(encoder.model, "pooler", None) if encoder.pooling == "start" else None
        self.dropout = nn.Dropout(config.dropout)
        self.head = nn.Linear(encoder.width, len(labels))
        self.inputs = {"token_type_ids", "position_ids"} & inspect.signature(encoder.model.forward).parameters.keys()
        self.freeze()
        self.eval()

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

    def forward(self, batch: Batch, attentions: bool = False) -> Output:
        """Read a batch."""
        extra = {"token_type_ids": batch.types, "position_ids": batch.positions}
        given = {name: extra[name] for name in self.inputs}
        out = self.body(batch.ids, attention_mask=batch.mask, output_attentions=attentions, **given)
        pooled = self.dropout(self.pool(out.last_hidden_state, batch.mask))  # (batch, width)
        return Output(self.head(pooled), tuple(out.attentions) if attentions else ())

    def pool(self, hidden: Tensor, mask: Tensor) -> Tensor:
        """Turn the vectors of the pieces into one for the text. Shape: (batch, width)."""
        if self.encoder.pooling == "mean":
            weights = mask.to(hidden.dtype).unsqueeze(-1)  # (batch, pieces, 1)
            return (hidden * weights).sum(1) / weights.sum(1)
        if self.pooler is not None:
            return self.pooler(hidden)  # type: ignore[no-any-return]
        return hidden[:, 0]

    def batches(
        self, texts: Sequence[Text], pieces_at_once: int = PIECES_AT_ONCE
    ) -> Iterator[tuple[NDArray[np.int64], Batch]]:
        """Encode texts and group those of like length, with their numbers."""
        pieces = self.words(texts)
        for numbers in batches_by_budget([len(item) for item in pieces], pieces_at_once, SQUARED_PIECES_AT_ONCE):
            yield numbers, self.collate([pieces[number] for number in numbers])

    def collate(self, pieces: Sequence[Pieces]) -> Batch:
        """Put encoded texts side by side, where the network is."""
        return collate(pieces, self.encoder.tokenizer.pad_token_id or 0).to(self.device)

    def probabilities(self, texts: Sequence[Text], progress: Progress = SILENT, name: str = "") -> NDArray[np.float64]:
        """Say how probable each label is for each text. Shape: (texts, labels)."""
        table = np.zeros((len(texts), len(self.labels)))
        with torch.inference_mode(), progress.task(name, len(texts)) as advance:
            for numbers, batch in self.batches(texts):
                table[numbers] = self(batch).logits.double().softmax(-1).cpu().numpy()
                advance(len(numbers), "")
        return table

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


def train_classifier(
    train: Sequence[tuple[Text, str]],
    dev: Sequence[tuple[Text, str]],
    labels: Sequence[str],
    config: ClassifierConfig,
    watch: Watch,
) -> Classifier:
    """Train a network from its pretrained state; the best dev macro-F1 wins."""
    with seeded(config.train.seed, 0):  # also for weights that an encoder comes without, such as a pooler's
        encoder = load_encoder(config.network.encoder, config.network.pooling)
        classifier = Classifier(encoder, labels, config.network)
        nn.init.normal_(classifier.head.weight, std=0.02)
        nn.init.zeros_(classifier.head.bias)
    classifier.to(choose_device(config.train.device))
    pieces = classifier.words([text for text, _ in train])
    targets = torch.tensor([labels.index(label) for _, label in train], device=classifier.device)
    fit(
        classifier,
        [len(item) for item in pieces],
        stepping(classifier, pieces, targets),
        validating(classifier, dev),
        config.train,
        watch,
    )
    return classifier


def stepping(
    classifier: Classifier, pieces: Sequence[Pieces], targets: Tensor
) -> Callable[[NDArray[np.int64]], Tensor]:
    """Make the function that computes the loss of some training texts."""

    def step(numbers: NDArray[np.int64]) -> Tensor:
        logits = classifier(classifier.collate([pieces[number] for number in numbers])).logits
        return functional.cross_entropy(logits, targets[torch.from_numpy(numbers).to(targets.device)])

    return step


def validating(classifier: Classifier, dev: Sequence[tuple[Text, str]]) -> Callable[[], float]:
    """Make the function that measures macro-F1 on the development texts."""
    gold = [label for _, label in dev]

    def validate() -> float:
        table = classifier.probabilities([text for text, _ in dev])
        if not np.isfinite(table).all():
            raise ValueError("Training diverged: probabilities are no longer numbers. Lower the learning_rate.")
        return macro_f1(gold, [classifier.labels[best] for best in table.argmax(1)], classifier.labels)

    return validate


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
