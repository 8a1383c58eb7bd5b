"""Untrained networks, texts for them, and comparisons."""

import itertools
from collections.abc import Sequence
from inspect import signature
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from fresh.attribution.support_model import SupportModel
from fresh.document import Document, Saliency
from fresh.nn.batch import Batch, TokenTable
from fresh.nn.classifier import Classifier
from fresh.nn.config import NetworkConfig
from fresh.nn.encoder import Pooling, load_encoder
from fresh.nn.heads import RECURRENT_WIDTH, AttentiveHead, _Recurrent
from fresh.nn.tokenizer import Text
from fresh.selection.discretizers import TopK
from tiny import N_POSITIONS, WORDS

FEW: dict[str, Any] = {"samples": 40, "steps": 4}
"""Settings with which slow scorers are fast."""


def untrained(
    folder: Path, pooling: Pooling = "start", labels: Sequence[str] = ("neg", "pos"), **settings: Any
) -> Classifier:
    """Make a classifier with random weights in its head, which are the same each time."""
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(5)
        return Classifier(load_encoder(str(folder), pooling), labels, NetworkConfig(str(folder), **settings))


def read(classifier: Classifier, texts: Sequence[Text]) -> Batch:
    """Put texts side by side."""
    return classifier.collate(classifier.tokenizer(texts))


def support_of(folder: Path, pooling: Pooling = "start", **settings: Any) -> SupportModel:
    """Make an untrained support model with a preference, in double precision so that scores can be compared."""
    classifier = untrained(folder, pooling, **settings)
    nn.init.normal_(last_matrix(classifier).weight, generator=torch.Generator().manual_seed(3))
    return SupportModel(classifier.double())


def last_matrix(classifier: Classifier) -> nn.Linear:
    head = classifier.head.out if isinstance(classifier.head, AttentiveHead) else classifier.head
    assert isinstance(head, nn.Linear)
    return head


def both_ways(recurrent: _Recurrent) -> nn.LSTM:
    """Make torch's own bidirectional LSTM with the same weights."""
    lstm = nn.LSTM(recurrent.forwards.input_size, RECURRENT_WIDTH, batch_first=True, bidirectional=True)
    back = {f"{name}_reverse": weight for name, weight in recurrent.backwards.state_dict().items()}
    lstm.to(next(recurrent.parameters()).dtype).load_state_dict({**recurrent.forwards.state_dict(), **back})
    return lstm


def texts_of(*sizes: int, words: Sequence[str] = WORDS) -> list[Text]:
    """Make texts of the given numbers of words; those of an odd number have a query."""
    generator = np.random.default_rng(1)
    return [Text(tuple(generator.choice(words, size).tolist()), ("praise", "it") if size % 2 else ()) for size in sizes]


def padding_mask(lengths: list[int], width: int) -> torch.Tensor:
    return (torch.arange(width) < torch.tensor(lengths).unsqueeze(1)).long()


def layers_of(model: nn.Module) -> list[nn.Module]:
    [layers] = [module for module in model.modules() if isinstance(module, nn.ModuleList) and len(module) == 2]
    return list(layers)


def split_table(table: TokenTable) -> list[TokenTable]:
    """A table for each text."""
    tables = []
    for number, (start, end) in enumerate(itertools.pairwise(table.starts.tolist())):
        fields = {name: getattr(table, name)[start:end] for name in ("ids", "types", "positions", "word_of")}
        fields |= {name: getattr(table, name)[number : number + 1] for name in ("n_words", "n_read")}
        tables.append(TokenTable(**fields, starts=np.array([0, end - start])))
    return tables


def windows_of(text: TokenTable) -> list[tuple[Tensor, ...]]:
    """The tokens of each window of a text, their types and their words. Shapes: (1, tokens)."""
    rows = (text.ids, text.types, text.word_of)
    return [
        tuple(torch.from_numpy(row[start : start + N_POSITIONS])[None].long() for row in rows)
        for start in range(0, len(text.ids), N_POSITIONS)
    ]


def read_plainly(classifier: Classifier, types: Tensor, **inputs: Tensor) -> Tensor:
    """What the encoder makes of one text, when it is told nothing but its tokens and their types."""
    model = classifier.encoder.model
    typed = {"token_type_ids": types} if "token_type_ids" in signature(model.forward).parameters else {}
    hidden: Tensor = model(**inputs, **typed).last_hidden_state[0]
    return hidden


def documents(n_documents: int, longest: int = 12) -> list[Document]:
    """Make documents of several lengths, every other one with a query."""
    generator = np.random.default_rng(1)
    return [
        Document.from_words(
            [*generator.choice(WORDS, size).tolist(), "unheard-of"], ("praise",) if number % 2 else (), str(number)
        )
        for number, size in enumerate(generator.integers(0, longest, n_documents))
    ]


def assert_same(first: Sequence[Saliency], second: Sequence[Saliency], tolerance: float) -> None:
    """Check that scores are nearly equal and give the same masks."""
    for one, other in zip(first, second, strict=True):
        np.testing.assert_allclose(one.scores, other.scores, atol=tolerance, rtol=0)
        assert (one.target, one.id) == (other.target, other.id)
    assert TopK(0.2).select(first) == TopK(0.2).select(second)


def trace(classifier: Classifier) -> dict[str, object]:
    """Return everything that a scorer could leave behind."""
    return {
        "hooks": [len(part._forward_hooks) + len(part._forward_pre_hooks) for part in classifier.modules()],
        "backward hooks": [len(part._backward_hooks) for part in classifier.modules()],
        "gradients": [weight.grad is None for weight in classifier.parameters()],
        "trained": [weight.requires_grad for weight in classifier.parameters()],
        "mode": [part.training for part in classifier.modules()],
        "attention": classifier.body.config._attn_implementation,
        "weights": [weight.detach().double().sum().item() for weight in classifier.parameters()],
        "torch": torch.get_rng_state().tolist(),
        "numpy": np.random.get_state()[1].tolist(),  # type: ignore[index]  # noqa: NPY002
        "differentiating": torch.is_grad_enabled(),
    }
