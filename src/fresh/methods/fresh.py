"""FRESH (Jain et al., 2020): support model, scores, masks, and a predictor trained on rationales alone."""

import functools
from collections.abc import Sequence
from typing import Any

from fresh._optional import optional_import
from fresh.attribution import Scorer, ScorerFactory
from fresh.attribution.support_model import SupportModel
from fresh.data.splits import Splits
from fresh.methods.config import FreshConfig
from fresh.methods.rationales import (
    SUPPORT,
    ScoredSplits,
    asks_support,
    check_rationales,
    cross_fit,
    cut_in_parts,
    extract_training_rationales,
    score_and_cut,
    train_tagger,
)
from fresh.methods.result import MethodResult, cut_examples, pairs_of_many_lengths, settings_record
from fresh.nn.encoder import load_encoder
from fresh.predictor import Predictor, TrainingPairs
from fresh.rationalizer import Rationalizer
from fresh.training.loop import RunContext

__all__ = ["FreshConfig", "train", "train_and_mark", "train_seeds"]


def train(
    splits: Splits, config: FreshConfig, context: RunContext | None = None, scorer: ScorerFactory | None = None
) -> Rationalizer:
    """Train a support model, cut its scores to rationales, and train a predictor on them.

    :param watch: Shows progress and keeps what was trained so far.
    :param scorer: Makes a scorer of your own from the support model, in place of ``config.scorer``.
    """
    return train_and_mark(splits, config, context or RunContext(), scorer).model


def train_and_mark(
    splits: Splits, config: FreshConfig, context: RunContext, scorer: ScorerFactory | None = None
) -> MethodResult:
    """Train as :func:`train` does, and also return which words were kept."""
    [trained] = _train_all(splits, [config], context, scorer)
    return trained


def train_seeds(
    splits: Splits, config: FreshConfig, seeds: Sequence[int], context: RunContext | None = None
) -> list[Rationalizer]:
    """Train once for each seed, side by side on a GPU; whole documents run through the frozen layers once for all."""
    configs = [config.with_seed(seed) for seed in seeds]
    return [trained.model for trained in _train_all(splits, configs, context or RunContext(), None)]


def _train_all(
    splits: Splits, configs: Sequence[FreshConfig], context: RunContext, scorer: ScorerFactory | None
) -> list[MethodResult]:
    """Train for settings that differ in no more than the seed."""
    if scorer is None:
        check_ready(configs[0])
    check_rationales(splits, configs[0].tagging.human)
    for config in configs:
        cut_in_parts(splits.train, config.folds, config.train.seed)  # refuses folds that there cannot be
    classifiers = [config.classifier for config in configs]
    supports: Sequence[SupportModel | None] = [None] * len(configs)
    if asks_support(configs[0], scorer):
        supports = SupportModel.train_many(splits.train, splits.dev, classifiers, context.named(SUPPORT))
    marked = [
        extract_training_rationales(splits, *pair, context.named(SUPPORT), scorer)
        for pair in zip(configs, supports, strict=True)
    ]
    if configs[0].folds > 1:
        marked = [cross_fit(splits, *pair, context, scorer) for pair in zip(configs, marked, strict=True)]
    return _teach(splits, configs, marked, supports, context, scorer)


def train_scored(splits: Splits, config: FreshConfig, scorer: Scorer, context: RunContext) -> MethodResult:
    """Train with a scorer that is there already, such as one that knows the scores of all documents."""
    if config.tagging.tags:
        scored = score_and_cut(splits, config, scorer, context, None)
        scorer = train_tagger(splits, config, scored, context.named(SUPPORT))
    marked = score_and_cut(splits, config, scorer, context, None)
    [trained] = _teach(splits, [config], [marked], [None], context, None)
    return trained


def _teach(
    splits: Splits,
    configs: Sequence[FreshConfig],
    marked: Sequence[ScoredSplits],
    supports: Sequence[SupportModel | None],
    context: RunContext,
    scorer: ScorerFactory | None,
) -> list[MethodResult]:
    """Train predictors on rationales."""
    lessons = [_lesson_of(splits, *pair) for pair in zip(configs, marked, strict=True)]
    classifiers = [config.classifier for config in configs]
    predictors = Predictor.train_many(lessons, classifiers, context.named("predictor"))
    asks = bool(splits.train[0].document.query)
    models = [
        Rationalizer(item.extractor, predictor, _described(config, scorer), asks, ratios=config.ratios)
        for item, predictor, config in zip(marked, predictors, configs, strict=True)
    ]
    return [_outcome_of(*each) for each in zip(models, marked, supports, strict=True)]


def _outcome_of(model: Rationalizer, marked: ScoredSplits, support: SupportModel | None) -> MethodResult:
    """Put together what training made."""
    return MethodResult(model, lambda: marked.masks, lambda: marked.dev_masks, support)


def _lesson_of(splits: Splits, config: FreshConfig, marked: ScoredSplits) -> TrainingPairs:
    """Cut train and dev to rationales, of one length or of many."""
    if config.ratios is not None:
        return pairs_of_many_lengths(
            (splits.train, marked.scores), (splits.dev, marked.dev_scores), config, config.ratios
        )
    return TrainingPairs(cut_examples(splits.train, marked.masks), cut_examples(splits.dev, marked.dev_masks))


def _described(config: FreshConfig, scorer: ScorerFactory | None) -> dict[str, Any]:
    """Write settings down, with a scorer of one's own by its name."""
    own = {} if scorer is None else {"scorer": name_of_factory(scorer)}
    return {**settings_record(config, "fresh"), **own}


def name_of_factory(scorer: ScorerFactory) -> str:
    """Say what makes a scorer of one's own."""
    return str(getattr(scorer, "__qualname__", type(scorer).__qualname__))


def check_ready(config: FreshConfig) -> None:
    """Find out before any training whether the scorer will be able to work afterwards."""
    if config.scorer in ("attention", "attention_gradient", "attention_shift") and config.network.long != "chunk":
        _check_layer(config.network.encoder, -1 if config.scoring.layer == "all" else config.scoring.layer)
    if config.scorer in ("lime", "kernel_shap"):
        optional_import("captum.attr", "captum", f"The scorer {config.scorer}")


@functools.cache
def _check_layer(encoder: str, layer: int) -> None:
    """Refuse a layer that an encoder has not, and an encoder whose layers cannot be told apart."""
    load_encoder(encoder).module_below(layer)
