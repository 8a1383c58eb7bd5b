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
from numpy.typing import NDArray

from fresh.attribution import Scorer, ScorerFactory
from fresh.attribution.attention import AttentionGradient, AttentionShift
from fresh.attribution.support_model import SupportModel
from fresh.config import from_mapping, parse_assignments, suggest
from fresh.data.corpora import find_corpus
from fresh.data.splits import Splits
from fresh.document import Document, Example, Mask, Saliency
from fresh.errors import ConfigError, DataError, EncoderError
from fresh.experiments.sources import sample
from fresh.methods.config import FreshConfig
from fresh.methods.rationales import build_scorer, cut_examples, score_all
from fresh.metrics.classification import macro_f1
from fresh.nn.encoder import load_encoder
from fresh.nn.tokenizer import Text
from fresh.predictor import Predictor
from fresh.progress import SILENT
from fresh.selection.extractors import select_masks
from fresh.training.loop import RunContext, inference_precision
from passed_on import PassedOn

PARTS = ("train", "dev", "test")
FIRST, SECOND = "attention x gradient", "integrated gradients"
"""The scorers of which other ways are made."""
Masks = dict[str, list[Mask]]


def scored(scorer: Scorer, support: SupportModel, splits: Splits, config: FreshConfig) -> "Found":
    """Score all documents, and say how long that took."""
    started = time.perf_counter()
    with inference_precision(support.classifier, config.train):
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
        return {part: select_masks(discretizer, scores) for part, scores in self.scores.items()}

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


def chosen(ways: Sequence[Masks], support: SupportModel, splits: Splits) -> Masks:
    """Take for each document the words by which the support model is surest of what it said of the whole."""
    best: Masks = {}
    for part in PARTS:
        documents = [example.document for example in getattr(splits, part)]
        answers = [item.label for item in support.predict(documents)]
        sure = np.array([kept_probability(documents, way[part], answers, support) for way in ways])
        best[part] = [ways[number][part][place] for place, number in enumerate(sure.argmax(0).tolist())]
    return best


def kept_probability(
    documents: Sequence[Document], masks: Sequence[Mask], answers: Sequence[str], support: SupportModel
) -> list[float]:
    """Have the support model read only what is kept, and say how probable its answer is then."""
    classifier = support.classifier
    cut = [document.cut(mask) for document, mask in zip(documents, masks, strict=True)]
    table = classifier.probabilities([Text(item.words, item.query, item.id) for item in cut])
    return [float(row[classifier.labels.index(answer)]) for row, answer in zip(table, answers, strict=True)]


def measured(masks: Masks, splits: Splits, config: FreshConfig) -> dict[str, float]:
    """Train a predictor on what is kept, and test it."""
    pairs = {part: cut_examples(getattr(splits, part), masks[part]) for part in PARTS}
    predictor = Predictor.train(pairs["train"], pairs["dev"], config, RunContext())
    return {
        part: score_of([item.label for item in predictor.predict([kept for kept, _ in pairs[part]])], part, splits)
        for part in ("dev", "test")
    }


def tested(support: SupportModel, splits: Splits) -> dict[str, float]:
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
    named: Mapping[str, ScorerFactory],
    wanted: Sequence[str],
    support: SupportModel,
    splits: Splits,
    config: FreshConfig,
) -> Iterator[tuple[str, Masks, float]]:
    """Give the ways that are wanted, what they keep, and how long they take to score."""
    kept: dict[str, Found] = {}  # what other ways are made of
    for name in wanted:
        needs = MADE[name][0] if name in MADE else (name,)
        for scorer in needs:
            if scorer not in kept:
                kept[scorer] = scored(named[scorer](support), support, splits, config)
        seconds = sum(kept[scorer].seconds for scorer in needs)
        if name in MADE:
            yield name, MADE[name][1]([kept[scorer] for scorer in needs], support, splits, config), seconds
        else:
            yield name, kept[name].cut(config), seconds
            if name not in (FIRST, SECOND):
                del kept[name]


def by_neighbours(ways: Sequence[Found], _support: SupportModel, _splits: Splits, config: FreshConfig) -> Masks:
    """Give neighbours a part of each score."""
    return ways[0].changed(spread).cut(config)


def by_mean_rank(ways: Sequence[Found], _support: SupportModel, _splits: Splits, config: FreshConfig) -> Masks:
    """Rank words by two ways."""
    return mean_rank(*ways).cut(config)


def surer(ways: Sequence[Found], support: SupportModel, splits: Splits, config: FreshConfig) -> Masks:
    """Take the surer one of two ways."""
    return chosen([way.cut(config) for way in ways], support, splits)


def surest(ways: Sequence[Found], support: SupportModel, splits: Splits, config: FreshConfig) -> Masks:
    """Take the surest of two ways, each with words in one piece or not."""
    cuts = [config, replace(config, discretizer="contiguous")]
    return chosen([way.cut(cut) for cut in cuts for way in ways], support, splits)


MADE: dict[str, tuple[tuple[str, ...], Callable[[Sequence[Found], SupportModel, Splits, FreshConfig], Masks]]] = {
    f"{FIRST}, spread": ((FIRST,), by_neighbours),
    f"{SECOND}, spread": ((SECOND,), by_neighbours),
    "mean rank of both": ((FIRST, SECOND), by_mean_rank),
    "the surer of both": ((FIRST, SECOND), surer),
    "the surest of both, in one piece or not": ((FIRST, SECOND), surest),
}
"""Ways that are made of the scores of others, and of which."""


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
    ways = [*named, *MADE]
    for way in args.ways or ():
        if way not in ways:
            raise ConfigError(suggest(way, "a way", ways))
    whole = corpus.read(args.data_dir)
    splits = Splits(*(sample(examples, args.documents) for examples in (whole.train, whole.dev, whole.test)))

    def tell(way: str, seconds: float, figures: dict[str, float]) -> None:
        row = {"corpus": corpus.name, "way": way, "seconds": seconds, **given, **figures}
        print(json.dumps(row), flush=True)
        if args.out is not None:
            with args.out.open("a", encoding="utf-8") as file:
                file.write(json.dumps(row) + "\n")

    started = time.perf_counter()
    support = SupportModel.train(splits.train, splits.dev, config, RunContext())
    tell("whole text", time.perf_counter() - started, tested(support, splits))
    for name, masks, seconds in candidates(named, args.ways or ways, support, splits, config):
        tell(name, seconds, measured(masks, splits, config))


if __name__ == "__main__":
    try:
        run(parse())
    except (ConfigError, DataError, EncoderError) as error:
        sys.exit(str(error))
