"""How much memory explaining a file takes, as the file grows."""

import json
from collections.abc import Iterator, Sequence
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np
import torch
from tokenizers import Tokenizer, models, normalizers, pre_tokenizers, processors
from transformers import BertConfig, BertModel, PreTrainedTokenizerFast

from fresh.config import from_mapping
from fresh.data.splits import Splits
from fresh.document import Document, Example
from fresh.methods.config import FreshConfig
from fresh.methods.fresh import train
from fresh.nn.encoder import quiet
from fresh.rationalizer import Rationalizer
from measuring import Outcome, Row, Settings, apart, clocked

SIZES = (1_000, 10_000, 100_000)
GROWTH = 1.1
"""Peak memory of the largest file over that of the smallest, at most."""
N_KNOWN_WORDS = 50_000
LETTERS = "abcdefghijklmnopqrstuvwxyz"
SPECIAL = {
    "pad_token": "[PAD]",
    "unk_token": "[UNK]",
    "cls_token": "[CLS]",
    "sep_token": "[SEP]",
    "mask_token": "[MASK]",
}


def measure(settings: Settings) -> list[Row]:
    """Explain ever longer files, each in a process of its own."""
    n = settings.documents
    sizes = SIZES if n is None else (n, 2 * n, 4 * n)
    with TemporaryDirectory() as name:
        folder = Path(name)
        apart("cpu", prepare, folder, sizes)
        outcomes = {size: apart("cpu", explain_file, folder, size) for size in sizes}
    first, last = (outcomes[size] for size in (sizes[0], sizes[-1]))
    ratio = last.memory / first.memory
    row = Row(
        row="memory",
        what=f"peak memory of explain_file, {sizes[-1]:,} documents over {sizes[0]:,} (tiny encoder)",
        goal=f"flat: at most {GROWTH}x",
        met=ratio <= GROWTH,
        seconds=last.seconds,
        ratio=ratio,
        memory=last.memory,
        note=", ".join(f"{size:,}: {outcome.memory:.0f} MB" for size, outcome in outcomes.items()),
        facts={f"{size} documents": [outcome.seconds, outcome.memory] for size, outcome in outcomes.items()},
    )
    return [row]


def prepare(folder: Path, sizes: Sequence[int]) -> Outcome:
    """Write the files, and train a model that is as quick as can be: the number of documents is what matters here."""
    for size in sizes:
        with (folder / f"{size}.jsonl").open("w", encoding="utf-8") as file:
            file.writelines(json.dumps({"text": " ".join(words)}) + "\n" for words, _ in invented(size))
    write_encoder(folder / "encoder")
    examples = tuple(Example(Document.from_words(words), label) for words, label in invented(64))
    values = {"scorer": "attention", "epochs": 1, "device": "cpu", "encoder": str(folder / "encoder")}
    config = from_mapping(FreshConfig, values)
    model, seconds = clocked("cpu", lambda: train(Splits(examples[:32], examples[32:48], examples[48:]), config).model)
    model.save_pretrained(folder / "model")
    return Outcome(seconds)


def explain_file(folder: Path, size: int) -> Outcome:
    """Explain the file of so many documents."""
    model = Rationalizer.from_pretrained(folder / "model", device="cpu")
    n_explained, seconds = clocked(
        "cpu", lambda: sum(1 for _ in model.explain_file(folder / f"{size}.jsonl", text="text"))
    )
    assert n_explained == size
    return Outcome(seconds)


def invented(n: int) -> Iterator[tuple[list[str], str]]:
    """Invent short documents whose words are as unevenly frequent as those of a language."""
    generator = np.random.default_rng(0)
    spelling = generator.choice(list(LETTERS), size=(N_KNOWN_WORDS, 6))
    words = ["".join(letters) for letters in spelling]
    frequency = 1 / np.arange(1, N_KNOWN_WORDS + 1)
    chances = np.cumsum(frequency / frequency.sum())
    for number in range(n):
        drawn = np.searchsorted(chances, generator.random(int(generator.integers(5, 25))))
        yield [words[min(int(place), N_KNOWN_WORDS - 1)] for place in drawn], "even" if number % 2 == 0 else "odd"


def write_encoder(folder: Path) -> None:
    """Write a BERT with random weights, two layers, sixteen wide, whose pieces are letters."""
    pieces = [*SPECIAL.values(), *LETTERS, *(f"##{letter}" for letter in LETTERS)]
    backend = Tokenizer(
        models.WordPiece({piece: number for number, piece in enumerate(pieces)}, unk_token=SPECIAL["unk_token"])
    )
    backend.normalizer = normalizers.BertNormalizer()
    backend.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
    frame = [(piece, pieces.index(piece)) for piece in ("[CLS]", "[SEP]")]
    backend.post_processor = processors.TemplateProcessing(
        single="[CLS] $A [SEP]", pair="[CLS]:0 $A:0 [SEP]:0 $B:1 [SEP]:1", special_tokens=frame
    )
    config = BertConfig(
        vocab_size=len(pieces),
        hidden_size=16,
        num_hidden_layers=2,
        num_attention_heads=2,
        intermediate_size=32,
        max_position_embeddings=256,
    )
    torch.manual_seed(0)
    with quiet():
        BertModel(config).save_pretrained(folder)
        PreTrainedTokenizerFast(tokenizer_object=backend, **SPECIAL).save_pretrained(folder)
