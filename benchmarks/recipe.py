"""Ways to choose words that might serve users better than the default: dev and test macro-F1 with one support model.

python benchmarks/recipe.py DATA_DIR CORPUS [setting=value ...] [--documents N] [--ways NAME ...] [--out FILE.jsonl]

DATA_DIR holds the corpora. Settings are those of `fresh train`, for example seed=1 layers=all. What to make the default
is decided by dev; test is told too, so that nobody has to run it all again. docs/log.md has the figures.
"""

import argparse
import json
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from fresh.classifier import eager_attention
from fresh.config import ConfigError, from_mapping, parse_assignments, unknown
from fresh.corpora import find_corpus
from fresh.data import DataError, Splits
from fresh.document import Document, Example, Mask, Saliency
from fresh.encoder import EncoderError, load_encoder
from fresh.encoding import Text
from fresh.experiment.sources import some
from fresh.extractor import select_read
from fresh.methods.marking import build_scorer, score_all
from fresh.methods.outcome import cut_all
from fresh.methods.settings import FreshConfig
from fresh.metrics import macro_f1
from fresh.pieces import Batch, sum_by_word
from fresh.predictor import Predictor
from fresh.progress import SILENT
from fresh.scorers import SaliencyScorer, ScorerFactory
from fresh.scorers.attention_gradient import AttentionGradient, AttentionShift
from fresh.scorers.gradient import PART, explained
from fresh.scorers.looking import Looking
from fresh.support import Scores, Support
from fresh.training import Watch, quickly

PARTS = ("train", "dev", "test")
FIRST, SECOND = "attention x gradient", "integrated gradients"
"""The scorers of which other ways are made."""
Masks = dict[str, list[Mask]]


@dataclass(frozen=True, slots=True)
class PassedOn:
    """What raises the probability, followed from layer to layer down to the pieces (Chefer et al., 2021)."""

    support: Support

    def score(self, documents: Sequence[Document]) -> list[Saliency]:
        """Return one score a word, for the label the support model predicts."""
        classifier = self.support.classifier
        looking = Looking(classifier, "all")

        def score_batch(batch: Batch) -> Scores:
            with eager_attention(classifier):
                output = classifier.show_attention(batch)
            probabilities, targets = explained(self.support, output)
            gradients = torch.autograd.grad(probabilities.sum(), output.attentions)
            pairs = zip(output.attentions, gradients, strict=True)
            products = [(weights * gradient).detach() for weights, gradient in pairs]
            return sum_by_word(looking.by_piece(passed_on(products), batch), batch), targets.tolist()

        with torch.enable_grad():
            return self.support.score(documents, score_batch, PART / 4)


def passed_on(products: list[Tensor]) -> Tensor:
    """Follow attention times gradient, (batch, heads, rows, pieces) a layer. Shape: (batch, 1, rows, pieces)."""
    n_pieces = products[0].shape[-1]
    relevance = torch.eye(n_pieces, device=products[0].device, dtype=products[0].dtype)
    relevance = relevance.expand(len(products[0]), -1, -1)
    for product in products:
        relevance = relevance + product.clamp(min=0).mean(1) @ relevance
    return relevance.unsqueeze(1)


def scored(scorer: SaliencyScorer, support: Support, splits: Splits, config: FreshConfig) -> "Found":
    """Score all documents, and say how long that took."""
    started = time.perf_counter()
    with quickly(support.classifier, config.train):
        found = {part: score_all(scorer, getattr(splits, part), SILENT, "") for part in PARTS}
    return Found(found, time.perf_counter() - started)


@dataclass(frozen=True, slots=True)
class Found:
    """The scores of all documents, by one way."""

    scores: dict[str, list[Saliency]]
    seconds: float

    def cut(self, config: FreshConfig) -> Masks:
        """Cut them."""
        discretizer = config.make_discretizer()
        return {part: select_read(discretizer, scores) for part, scores in self.scores.items()}

    def changed(self, change: Callable[[Saliency], NDArray[np.float64]]) -> "Found":
        """Make others of them, document by document."""
        new = {part: [replace(item, scores=change(item)) for item in scores] for part, scores in self.scores.items()}
        return replace(self, scores=new)


def ranks(item: Saliency) -> NDArray[np.float64]:
    """Put ranks in the place of scores, from 0 to 1."""
    return np.argsort(np.argsort(item.scores, kind="stable"), kind="stable") / max(1, len(item.scores) - 1)


def spread(item: Saliency) -> NDArray[np.float64]:
    """Give neighbours a part of each score."""
    padded = np.pad(item.scores, 1)
    return padded[1:-1] / 2 + (padded[:-2] + padded[2:]) / 4


def mean_rank(one: Found, other: Found) -> Found:
    """Take the mean of two ways' ranks."""
    pairs = {part: zip(one.scores[part], other.scores[part], strict=True) for part in PARTS}
    new = {
        part: [replace(first, scores=(ranks(first) + ranks(second)) / 2) for first, second in both]
        for part, both in pairs.items()
    }
    return Found(new, one.seconds + other.seconds)


def chosen(ways: Sequence[Masks], support: Support, splits: Splits) -> Masks:
    """Take for each document the words by which the support model is surest of what it said of the whole."""
    best: Masks = {}
    for part in PARTS:
        documents = [example.document for example in getattr(splits, part)]
        answers = [item.label for item in support.predict(documents)]
        sure = np.array([kept_probability(documents, way[part], answers, support) for way in ways])
        best[part] = [ways[number][part][place] for place, number in enumerate(sure.argmax(0).tolist())]
    return best


def kept_probability(
    documents: Sequence[Document], masks: Sequence[Mask], answers: Sequence[str], support: Support
) -> list[float]:
    """Have the support model read only what is kept, and say how probable its answer is then."""
    classifier = support.classifier
    cut = [document.cut(mask) for document, mask in zip(documents, masks, strict=True)]
    table = classifier.probabilities([Text(item.words, item.query, item.id) for item in cut])
    return [float(row[classifier.labels.index(answer)]) for row, answer in zip(table, answers, strict=True)]


def measured(masks: Masks, splits: Splits, config: FreshConfig) -> dict[str, float]:
    """Train a predictor on what is kept, and test it."""
    pairs = {part: cut_all(getattr(splits, part), masks[part]) for part in PARTS}
    predictor = Predictor.train(pairs["train"], pairs["dev"], config.classifier, Watch())
    return {
        part: score_of([item.label for item in predictor.predict([kept for kept, _ in pairs[part]])], part, splits)
        for part in ("dev", "test")
    }


def tested(support: Support, splits: Splits) -> dict[str, float]:
    """Test the support model, which reads whole texts."""
    documents = {part: [example.document for example in getattr(splits, part)] for part in ("dev", "test")}
    return {
        part: score_of([item.label for item in support.predict(documents[part])], part, splits) for part in documents
    }


def score_of(answers: list[str], part: str, splits: Splits) -> float:
    """Say how good answers are: macro-F1."""
    examples: Sequence[Example] = getattr(splits, part)
    return macro_f1([example.label for example in examples], answers, splits.labels)


def scorers(config: FreshConfig, n_layers: int) -> dict[str, ScorerFactory]:
    """List the scorers."""
    named: dict[str, ScorerFactory] = {
        FIRST: by_name("attention_gradient", config),
        SECOND: by_name("integrated_gradients", config),
        "integrated gradients, 8 steps": in_steps(8, config),
        "integrated gradients, 4 steps": in_steps(4, config),
        "attention shift": by_name("attention_shift", config),
        "attention shift of all layers, added": partial(AttentionShift, layer="all"),
        "attention x gradient of all layers, added": partial(AttentionGradient, layer="all"),
        "attention x gradient of all layers, passed on": PassedOn,
    }
    of_layers = {f"attention x gradient of layer {layer}": layer for layer in range(-2, -1 - n_layers, -1)}
    return named | {name: partial(AttentionGradient, layer=layer) for name, layer in of_layers.items()}


def by_name(name: str, config: FreshConfig) -> ScorerFactory:
    """Make a scorer of the product."""
    return lambda support: build_scorer(replace(config, scorer=name), support, None)


def in_steps(n_steps: int, config: FreshConfig) -> ScorerFactory:
    """Make integrated gradients of other points."""
    return by_name("integrated_gradients", replace(config, scoring=replace(config.scoring, steps=n_steps)))


def candidates(
    named: Mapping[str, ScorerFactory], wanted: Sequence[str], support: Support, splits: Splits, config: FreshConfig
) -> Iterator[tuple[str, Masks, float]]:
    """Give the ways that are wanted, what they keep, and how long they take to score."""
    pair = {name: scored(named[name](support), support, splits, config) for name in needed(wanted)}
    for name in wanted:
        if name in MADE_OF_TWO:
            both = pair[FIRST], pair[SECOND]
            yield name, MADE_OF_TWO[name](*both, support, splits, config), both[0].seconds + both[1].seconds
        else:
            found = pair.get(name) or scored(named[name](support), support, splits, config)
            yield name, found.cut(config), found.seconds


def needed(wanted: Sequence[str]) -> tuple[str, ...]:
    """Name the scorers that must be kept, for what is made of two."""
    return (FIRST, SECOND) if any(name in MADE_OF_TWO for name in wanted) else ()


def surer(first: Found, second: Found, support: Support, splits: Splits, config: FreshConfig) -> Masks:
    """Take of two ways the surer one."""
    return chosen([first.cut(config), second.cut(config)], support, splits)


def surest(first: Found, second: Found, support: Support, splits: Splits, config: FreshConfig) -> Masks:
    """Take the surest of two ways, each with words in one piece or not."""
    cuts = [config, replace(config, discretizer="contiguous")]
    return chosen([way.cut(cut) for cut in cuts for way in (first, second)], support, splits)


MADE_OF_TWO: dict[str, Callable[[Found, Found, Support, Splits, FreshConfig], Masks]] = {
    f"{FIRST}, spread": lambda first, _second, _support, _splits, config: first.changed(spread).cut(config),
    f"{SECOND}, spread": lambda _first, second, _support, _splits, config: second.changed(spread).cut(config),
    "mean rank of both": lambda first, second, _support, _splits, config: mean_rank(first, second).cut(config),
    "the surer of both": surer,
    "the surest of both, in one piece or not": surest,
}
"""Ways that need the scores of two scorers."""


def parse() -> argparse.Namespace:
    """Read the command line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("data_dir", type=Path, help="folder with the paper's corpora")
    parser.add_argument("corpus", help="one of them, such as sst")
    parser.add_argument("settings", nargs="*", metavar="SETTING=VALUE", help="as of `fresh train`: seed=1 layers=all")
    parser.add_argument("--documents", type=int, metavar="N", help="draw so many of each split (default: all)")
    parser.add_argument(
        "--ways", nargs="+", metavar="NAME", help="only these, such as 'the surer of both' (default: all)"
    )
    parser.add_argument(
        "--out", type=Path, metavar="FILE", help="also add a line for each way to this file of JSON lines"
    )
    return parser.parse_intermixed_args()


def run(args: argparse.Namespace) -> None:
    """Run all and print a line for each."""
    corpus = find_corpus(args.corpus)
    given = {"ratio": corpus.ratio, **parse_assignments(args.settings)}
    config = from_mapping(FreshConfig, given)
    named = scorers(config, len(load_encoder(config.network.encoder).layers))
    ways = [*named, *MADE_OF_TWO]
    for way in args.ways or ():
        if way not in ways:
            raise ConfigError(unknown(way, "a way", ways))
    whole = corpus.read(args.data_dir)
    splits = Splits(*(some(examples, args.documents) for examples in (whole.train, whole.dev, whole.test)))

    def tell(way: str, seconds: float, figures: dict[str, float]) -> None:
        row = {"corpus": corpus.name, "way": way, "seconds": seconds, **given, **figures}
        print(json.dumps(row), flush=True)
        if args.out is not None:
            with args.out.open("a", encoding="utf-8") as file:
                file.write(json.dumps(row) + "\n")

    started = time.perf_counter()
    support = Support.train(splits.train, splits.dev, config.classifier, Watch())
    tell("whole text", time.perf_counter() - started, tested(support, splits))
    for name, masks, seconds in candidates(named, args.ways or ways, support, splits, config):
        tell(name, seconds, measured(masks, splits, config))


if __name__ == "__main__":
    try:
        run(parse())
    except (ConfigError, DataError, EncoderError) as error:
        sys.exit(str(error))
