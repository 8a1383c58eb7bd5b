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

from fresh.nn.batch import EncodedText
from fresh.nn.classifier import Classifier
from fresh.nn.config import NetworkConfig
from fresh.nn.encoder import load_encoder
from fresh.nn.heads import AttentiveHead
from fresh.nn.tokenizer import Text
from networks import texts_of
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


def windows_of(text: EncodedText) -> list[EncodedText]:
    """Take a text apart after every so many tokens."""
    edges = [*range(0, len(text), N_POSITIONS), len(text)]
    names = ("ids", "types", "positions", "word_of")
    return [replace(text, **{name: getattr(text, name)[start:end] for name in names}) for start, end in pairwise(edges)]


@torch.inference_mode()
def read_by_itself(classifier: Classifier, window: EncodedText) -> Tensor:
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
    assert classifier.split is not None
    assert classifier.split.n_lower == (0 if layers == "all" else 2 - layers)
    for sizes in ((100, 3, 0, 151), (150,), (4, 5)):
        table = classifier.tokenizer(texts_of(*sizes))
        batch = classifier.collate(table)
        with torch.inference_mode():
            _, in_parts = classifier.encode(batch)
            whole = classifier._encode_whole(batch)
        for row, text in enumerate(table):
            expected = torch.cat([read_by_itself(classifier, window) for window in windows_of(text)])
            for hidden in (in_parts, whole):
                torch.testing.assert_close(hidden[row, : len(text)], expected, atol=1e-5, rtol=1e-5)


@pytest.mark.parametrize("architecture", ARCHITECTURES)
def test_neighbours_in_a_batch_do_not_matter(architecture: str, encoders: dict[str, Path]) -> None:
    classifier = classifier_of(encoders[architecture])
    items = texts_of(0, 1, 3, 40, 62, 63, 124, 125, 200, 2, 301)
    alone = np.concatenate([classifier.probabilities([item]) for item in items])
    assert alone.std(0).max() > 0.01
    np.testing.assert_allclose(classifier.probabilities(items), alone, atol=1e-5)
    order = np.random.default_rng(0).permutation(len(items))
    encoded = list(classifier.tokenizer([items[number] for number in order]))
    for size in (2, 4, len(items)):
        with torch.inference_mode():
            parts = [classifier.collate(encoded[start : start + size]) for start in range(0, len(items), size)]
            together = torch.cat([classifier(part).logits for part in parts]).double().softmax(-1).numpy()
        np.testing.assert_allclose(together, alone[order], atol=1e-5)


def test_every_window_and_the_query_matter(encoders: dict[str, Path]) -> None:
    classifier = classifier_of(encoders["bert"])
    words = ("film",) * 170
    texts = [Text(words, ("praise",)), Text(words, ("blame",))]
    texts += [Text((*words[:place], "awful", *words[place + 1 :]), ("praise",)) for place in (0, 80, 169)]
    found = classifier.probabilities(texts)
    assert len({tuple(np.round(row, 6)) for row in found}) == len(texts)


@pytest.mark.parametrize("architecture", ARCHITECTURES)
def test_what_is_saved_comes_back(architecture: str, encoders: dict[str, Path], tmp_path: Path) -> None:
    classifier = classifier_of(encoders[architecture])
    classifier.save(tmp_path)
    loaded = Classifier.load(tmp_path, "cpu")
    items = texts_of(0, 5, 90, 151)
    assert loaded.config.long == "chunk"
    assert np.array_equal(loaded.probabilities(items), classifier.probabilities(items))
