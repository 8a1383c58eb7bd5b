"""Encoders small enough to build for every test run: real architectures with two layers of width 16."""

import json
from collections.abc import Callable, Sequence
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


def wordpiece(special: Sequence[str], unknown: str, frame: Callable[[Tokenizer], Any]) -> Tokenizer:
    """BERT's tokenizer: lower case, whole known words, letters of all others."""
    vocabulary = [*special, *WORDS, *LETTERS, *("##" + letter for letter in LETTERS)]
    numbers = {piece: number for number, piece in enumerate(dict.fromkeys(vocabulary))}
    tokenizer = Tokenizer(models.WordPiece(numbers, unk_token=unknown))
    tokenizer.normalizer = normalizers.BertNormalizer()
    tokenizer.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
    tokenizer.decoder = decoders.WordPiece()
    tokenizer.post_processor = frame(tokenizer)
    return tokenizer


def byte_pairs(first: Sequence[str], last: Sequence[str], frame: Callable[[Tokenizer], Any]) -> Tokenizer:
    """RoBERTa's tokenizer: bytes, and known words after a space, whose tokens carry a mark for it."""
    merges = [("Ġ" + word[:end], word[end]) for word in WORDS for end in range(len(word))]
    pieces = [*first, *sorted(pre_tokenizers.ByteLevel.alphabet()), *map("".join, merges), *last]
    numbers = {piece: number for number, piece in enumerate(dict.fromkeys(pieces))}
    tokenizer = Tokenizer(models.BPE(numbers, list(dict.fromkeys(merges))))
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    tokenizer.post_processor = frame(tokenizer)
    return tokenizer


def two_types(start: str, end: str) -> Callable[[Tokenizer], Any]:
    """[CLS] text [SEP] query [SEP], with another token type for the query."""
    return template(f"{start} $A {end}", f"{start}:0 $A:0 {end}:0 $B:1 {end}:1", start, end)


def one_type(start: str, end: str) -> Callable[[Tokenizer], Any]:
    """<s> text </s></s> query </s>."""
    return template(f"{start} $A {end}", f"{start}:0 $A:0 {end}:0 {end}:0 $B:0 {end}:0", start, end)


def template(single: str, pair: str, start: str, end: str) -> Callable[[Tokenizer], Any]:
    """Make the function that adds special tokens to texts."""

    def make(tokenizer: Tokenizer) -> Any:
        special = [(piece, tokenizer.token_to_id(piece)) for piece in (start, end)]
        return processors.TemplateProcessing(single=single, pair=pair, special_tokens=special)

    return make


BERT_SPECIAL = {
    "pad_token": "[PAD]",
    "unk_token": "[UNK]",
    "cls_token": "[CLS]",
    "sep_token": "[SEP]",
    "mask_token": "[MASK]",
}
ROBERTA_SPECIAL = {
    "cls_token": "<s>",
    "pad_token": "<pad>",
    "sep_token": "</s>",
    "unk_token": "<unk>",
    "mask_token": "<mask>",
}
MPNET_SPECIAL = ROBERTA_SPECIAL | {"unk_token": "[UNK]"}


def bert_tokenizer() -> PreTrainedTokenizerFast:
    """WordPiece with BERT's special tokens."""
    backend = wordpiece(list(BERT_SPECIAL.values()), "[UNK]", two_types("[CLS]", "[SEP]"))
    return PreTrainedTokenizerFast(tokenizer_object=backend, **BERT_SPECIAL)


def mpnet_tokenizer() -> PreTrainedTokenizerFast:
    """WordPiece with RoBERTa's special tokens."""
    backend = wordpiece(list(MPNET_SPECIAL.values()), "[UNK]", one_type("<s>", "</s>"))
    return PreTrainedTokenizerFast(tokenizer_object=backend, **MPNET_SPECIAL)


def roberta_tokenizer() -> PreTrainedTokenizerFast:
    """Byte pairs with RoBERTa's special tokens, the mask at the end."""
    *first, mask = ROBERTA_SPECIAL.values()
    backend = byte_pairs(first, [mask], one_type("<s>", "</s>"))
    return PreTrainedTokenizerFast(tokenizer_object=backend, **ROBERTA_SPECIAL)


def modernbert_tokenizer() -> PreTrainedTokenizerFast:
    """Byte pairs with BERT's special tokens, all at the end."""
    backend = byte_pairs(
        [], list(BERT_SPECIAL.values()), template("[CLS] $A [SEP]", "[CLS] $A [SEP] $B [SEP]", "[CLS]", "[SEP]")
    )
    return PreTrainedTokenizerFast(tokenizer_object=backend, **BERT_SPECIAL)


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


TOKENIZERS: dict[str, Callable[[], PreTrainedTokenizerFast]] = {
    "bert": bert_tokenizer,
    "roberta": roberta_tokenizer,
    "distilbert": bert_tokenizer,
    "electra": bert_tokenizer,
    "mpnet": mpnet_tokenizer,
    "modernbert": modernbert_tokenizer,
}

ARCHITECTURES = tuple(TOKENIZERS)


def build(architecture: str, folder: Path, mean: bool = False) -> Path:
    """Save an encoder with its tokenizer, as one would find it on a hub.

    :param mean: Say, in the way of sentence-transformers, that it pools by the mean.
    """
    tokenizer = TOKENIZERS[architecture]()
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
