"""Encoders small enough to build for every test run: real architectures with two layers of width 16."""

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import torch
from tokenizers import Tokenizer, decoders, models, normalizers, pre_tokenizers, processors
from transformers import AutoConfig, AutoModel, PreTrainedTokenizerFast

from fresh.nn.encoder import quiet

GOOD = ("good", "great")
BAD = ("bad", "awful")
FILLERS = ("the", "film", "was", "a", "story", "of", "two", "old", "men", "and", "sea", "it", "plays", "in")
ASKED = ("praise", "blame")
WORDS = (*GOOD, *BAD, *FILLERS, *ASKED)
LETTERS = "abcdefghijklmnopqrstuvwxyz0123456789.,!?'-[]<>/"
N_POSITIONS = 64
WIDTH = 16
KEY_BIASES = (".key.bias", ".k_lin.bias", ".k.bias")
"""Attention does not depend on these, so that what they learn is how gradients of 0 were rounded."""


BERT_SPECIAL = {"pad": "[PAD]", "unk": "[UNK]", "cls": "[CLS]", "sep": "[SEP]", "mask": "[MASK]"}
ROBERTA_SPECIAL = {"cls": "<s>", "pad": "<pad>", "sep": "</s>", "unk": "<unk>", "mask": "<mask>"}
ARCHITECTURES = ("bert", "roberta", "distilbert", "electra", "mpnet", "modernbert")


def numbered(tokens: Sequence[str]) -> dict[str, int]:
    return {token: number for number, token in enumerate(dict.fromkeys(tokens))}


def wordpiece(special: Sequence[str]) -> Tokenizer:
    """BERT's tokenizer: lower case, whole known words, letters of all others."""
    vocabulary = [*special, *WORDS, *LETTERS, *("##" + letter for letter in LETTERS)]
    tokenizer = Tokenizer(models.WordPiece(numbered(vocabulary), unk_token="[UNK]"))  # noqa: S106
    tokenizer.normalizer = normalizers.BertNormalizer()
    tokenizer.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
    tokenizer.decoder = decoders.WordPiece()
    return tokenizer


def byte_pairs(first: Sequence[str], last: Sequence[str]) -> Tokenizer:
    """RoBERTa's tokenizer: bytes, and known words after a space, whose tokens carry a mark for it."""
    merges = [("Ġ" + word[:end], word[end]) for word in WORDS for end in range(len(word))]
    vocabulary = [*first, *sorted(pre_tokenizers.ByteLevel.alphabet()), *map("".join, merges), *last]
    tokenizer = Tokenizer(models.BPE(numbered(vocabulary), list(dict.fromkeys(merges))))
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    return tokenizer


def tokenizer_of(architecture: str) -> PreTrainedTokenizerFast:
    """Make the tokenizer of an architecture, with its own special tokens around texts and queries."""
    special = dict(ROBERTA_SPECIAL if architecture in ("roberta", "mpnet") else BERT_SPECIAL)
    *first, mask = special.values()
    if architecture == "roberta":
        backend = byte_pairs(first, [mask])
    elif architecture == "modernbert":
        backend = byte_pairs([], [*first, mask])
    else:
        special["unk"] = "[UNK]"
        backend = wordpiece(list(special.values()))
    start, end = special["cls"], special["sep"]
    pair = f"{start}:0 $A:0 {end}:0 $B:1 {end}:1"  # another token type for the query
    if architecture in ("roberta", "mpnet"):
        pair = f"{start}:0 $A:0 {end}:0 {end}:0 $B:0 {end}:0"
    elif architecture == "modernbert":
        pair = f"{start} $A {end} $B {end}"
    backend.post_processor = processors.TemplateProcessing(
        single=f"{start} $A {end}",
        pair=pair,
        special_tokens=[(token, backend.token_to_id(token)) for token in (start, end)],
    )
    names = {f"{name}_token": token for name, token in special.items()}
    return PreTrainedTokenizerFast(tokenizer_object=backend, **names)


SHAPE: dict[str, Any] = {
    "hidden_size": WIDTH,
    "num_hidden_layers": 2,
    "num_attention_heads": 2,
    "intermediate_size": 32,
    "max_position_embeddings": N_POSITIONS,
    "initializer_range": 0.05,
}


def shape(architecture: str) -> dict[str, Any]:
    """Return the size of a model in the terms of its architecture."""
    if architecture == "distilbert":
        return {"dim": WIDTH, "n_layers": 2, "n_heads": 2, "hidden_dim": 32} | {
            name: SHAPE[name] for name in ("max_position_embeddings", "initializer_range")
        }
    changes: dict[str, dict[str, Any]] = {
        "roberta": {"max_position_embeddings": N_POSITIONS + 2, "type_vocab_size": 1},
        "mpnet": {"max_position_embeddings": N_POSITIONS + 2},
        "electra": {"embedding_size": 8},
        "modernbert": {"local_attention": 8, "layer_types": ["sliding_attention", "full_attention"]},
    }
    return SHAPE | changes.get(architecture, {})


def build(architecture: str, folder: Path, mean: bool = False) -> Path:
    """Save an encoder with its tokenizer, as one would find it on a hub.

    :param mean: Say, in the way of sentence-transformers, that it pools by the mean.
    """
    tokenizer = tokenizer_of(architecture)
    ids = {f"{name}_token_id": getattr(tokenizer, f"{name}_token_id") for name in ("pad", "cls", "sep")}
    with torch.random.fork_rng(devices=[]), quiet():
        torch.manual_seed(ARCHITECTURES.index(architecture))
        config = AutoConfig.for_model(architecture, vocab_size=len(tokenizer), **ids, **shape(architecture))
        AutoModel.from_config(config).save_pretrained(folder)
        tokenizer.save_pretrained(folder)
    if mean:
        write_pooling(folder, "mean")
    return folder


def write_pooling(folder: Path, mode: str) -> None:
    place = folder / "1_Pooling"
    place.mkdir(exist_ok=True)
    modes = {f"pooling_mode_{name}_token{'s' * (name == 'mean')}": name == mode for name in ("cls", "mean")}
    (place / "config.json").write_text(json.dumps(modes), encoding="utf-8")
