"""Long texts in windows: each window is read by itself, as if it were a text."""

from dataclasses import replace
from inspect import signature
from itertools import pairwise
from pathlib import Path
from typing import Literal

import numpy as np
import pytest
import torch
from torch import Tensor

from fresh.nn.batch import TokenTable
from fresh.nn.classifier import Classifier
from fresh.nn.config import NetworkConfig
from fresh.nn.encoder import load_encoder
from fresh.nn.heads import AttentiveHead
from fresh.nn.tokenizer import Text
from networks import split_table, texts_of
from tiny import ARCHITECTURES, N_POSITIONS


def classifier_of(folder: Path, layers: int | Literal["all"] = 1) -> Classifier:
    """A classifier of windows that was not trained, with a head that makes much of small differences."""
    encoder = load_encoder(str(folder), "start")
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(5)
        config = NetworkConfig(str(folder), long="chunk", layers=layers)
        classifier = Classifier(encoder, ("neg", "pos", "so"), config)
    assert isinstance(classifier.head, AttentiveHead)
    with torch.no_grad():
        classifier.head.importance.weight *= 20
        classifier.head.out.weight *= 20
    return classifier


def windows_of(text: TokenTable) -> list[TokenTable]:
    """Take a text apart after every so many tokens."""
    edges = [*range(0, len(text.ids), N_POSITIONS), len(text.ids)]
    names = ("ids", "types", "positions", "word_of")
    return [replace(text, **{name: getattr(text, name)[start:end] for name in names}) for start, end in pairwise(edges)]


@torch.inference_mode()
def read_by_itself(classifier: Classifier, window: TokenTable) -> Tensor:
    """What the plain encoder makes of a window, when it is told nothing but its tokens and their types."""
    model = classifier.encoder.model
    given = {"token_type_ids": window.types} if "token_type_ids" in signature(model.forward).parameters else {}
    tensors = {name: torch.from_numpy(value)[None].long() for name, value in {"input_ids": window.ids, **given}.items()}
    found: Tensor = model(**tensors).last_hidden_state
    return found[0]


@pytest.mark.parametrize("architecture", ARCHITECTURES)
@pytest.mark.parametrize("layers", [0, 1, "all"])
def test_each_window_is_read_as_if_it_were_alone(
    architecture: str, layers: int | Literal["all"], encoders: dict[str, Path]
) -> None:
    classifier = classifier_of(encoders[architecture], layers)
    n_frozen = 0 if layers == "all" else 2 - layers
    assert (classifier.n_frozen if classifier.split else 0) == n_frozen
    for sizes in ((100, 3, 0, 151), (150,), (4, 5)):
        table = classifier.tokenizer(texts_of(*sizes))
        batch = classifier.collate(table)
        with torch.inference_mode():
            in_parts, whole = classifier.encode(batch), classifier.windows.run(classifier.body, batch)
        for row, text in enumerate(split_table(table)):
            expected = torch.cat([read_by_itself(classifier, window) for window in windows_of(text)])
            for hidden in (in_parts, whole):
                torch.testing.assert_close(hidden[row, : len(text.ids)], expected, atol=1e-5, rtol=1e-5)


def test_every_window_and_the_query_matter(encoders: dict[str, Path]) -> None:
    classifier = classifier_of(encoders["bert"])
    words = ("film",) * 170
    texts = [Text(words, ("praise",)), Text(words, ("blame",))]
    texts += [Text((*words[:place], "awful", *words[place + 1 :]), ("praise",)) for place in (0, 80, 169)]
    found = classifier.probabilities(texts)
    assert len({tuple(np.round(row, 6)) for row in found}) == len(texts)
