"""FRESH (Jain et al., 2020): support model, scores, masks, and a predictor trained on rationales alone."""

from collections.abc import Sequence
from dataclasses import replace
from functools import cache, partial

from fresh._optional import optional_import
from fresh.attribution import Scorer, ScorerFactory
from fresh.attribution.support_model import SUPPORT, SupportModel
from fresh.data.splits import Splits
from fresh.methods.config import FreshConfig
from fresh.methods.independent import train_readers
from fresh.methods.rationales import (
    ScoredSplits,
    build_scorer,
    check_rationales,
    cross_fit,
    cut_splits,
    cut_to_many_lengths,
    make_final_scorer,
    score_and_cut,
    split_folds,
    trains_support,
)
from fresh.methods.registry import MethodResult, make_rationalizer
from fresh.nn.encoder import load_encoder
from fresh.predictor import Predictor
from fresh.rationalizer import Rationalizer
from fresh.training.loop import RunContext


def train(
    splits: Splits, config: FreshConfig, context: RunContext | None = None, scorer: ScorerFactory | None = None
) -> MethodResult:
    """Train a support model, cut the scores of its scorer to rationales, and train a predictor on them."""
    [result] = _train_all(splits, [config], context or RunContext(), scorer)
    return result


def train_seeds(
    splits: Splits, config: FreshConfig, seeds: Sequence[int], context: RunContext | None = None
) -> list[Rationalizer]:
    """Train once for each seed, side by side on a GPU; frozen layers read whole documents once for all seeds."""
    configs = [replace(config, train=replace(config.train, seed=seed)) for seed in seeds]
    return [result.model for result in _train_all(splits, configs, context or RunContext(), None)]


def train_scored(
    splits: Splits, config: FreshConfig, scorer: Scorer, context: RunContext, reader: Predictor | None = None
) -> MethodResult:
    """Train with a scorer that needs no support model, such as one that looks scores up.

    :param reader: The predictor, for predictor=independent, if it is trained already.
    """
    own = context.with_name(SUPPORT)
    scored = score_and_cut(splits, config, make_final_scorer(splits, config, lambda: scorer, own), own, None)
    [result] = _train_predictors(splits, [config], [scored], [None], context, [reader] if reader else None)
    return result


def _train_all(
    splits: Splits, configs: Sequence[FreshConfig], context: RunContext, scorer: ScorerFactory | None
) -> list[MethodResult]:
    # All problems of the settings, which differ in the seed only, and of the data are found before any training.
    if scorer is None:
        check_ready(configs[0])
    check_rationales(splits, configs[0].tagging.human)
    split_folds(splits.train, configs[0].folds, configs[0].train.seed)
    context = replace(context, feature_store=context.store(configs[0].train))  # for training and scoring
    own = context.with_name(SUPPORT)
    supports: Sequence[SupportModel | None] = [None] * len(configs)
    if trains_support(configs[0], scorer):
        supports = SupportModel.train_many(splits.train, splits.dev, configs, own)
    scored = []
    for config, support in zip(configs, supports, strict=True):
        final = make_final_scorer(splits, config, partial(build_scorer, config, support, scorer), own)
        scored.append(score_and_cut(splits, config, final, own, support))
    if configs[0].folds > 1:
        scored = [cross_fit(splits, *each, context, scorer) for each in zip(configs, scored, strict=True)]
    results = _train_predictors(splits, configs, scored, supports, context)
    if scorer is None:
        return results
    custom = {"scorer": factory_name(scorer)}
    return [replace(each, model=replace(each.model, settings={**each.model.settings, **custom})) for each in results]


def _train_predictors(
    splits: Splits,
    configs: Sequence[FreshConfig],
    scored: Sequence[ScoredSplits],
    supports: Sequence[SupportModel | None],
    context: RunContext,
    readers: Sequence[Predictor] | None = None,
) -> list[MethodResult]:
    predictors = readers
    if predictors is None and configs[0].predictor == "independent":
        predictors = train_readers(splits, configs, context)
    elif predictors is None:
        pairs = [
            cut_splits(splits, each.masks(), each.dev_masks())
            if config.ratios is None
            else cut_to_many_lengths(splits, each, config, config.ratios)
            for config, each in zip(configs, scored, strict=True)
        ]
        predictors = Predictor.train_many(pairs, configs, context.with_name("predictor"))
    results = []
    for config, each, predictor, support in zip(configs, scored, predictors, supports, strict=True):
        model = make_rationalizer("fresh", splits, config, each.extractor, predictor)
        results.append(MethodResult(model, each.masks, each.dev_masks, support))
    return results


def factory_name(scorer: ScorerFactory) -> str:
    """Return the name of what makes a custom scorer."""
    return str(getattr(scorer, "__qualname__", type(scorer).__qualname__))


def check_ready(config: FreshConfig) -> None:
    """Raise before any training if the scorer would fail after it."""
    if config.scorer in ("attention", "attention_gradient", "attention_shift") and config.network.long != "chunk":
        _check_layer(config.network.encoder, -1 if config.scoring.layer == "all" else config.scoring.layer)
    if config.scorer in ("lime", "kernel_shap"):
        optional_import("captum.attr", "captum", f"The scorer {config.scorer}")


@cache  # the plan of an experiment checks every run, and few of them differ in this
def _check_layer(encoder: str, layer: int) -> None:
    load_encoder(encoder).module_below(layer)  # raises for a layer that does not exist, or no list of layers
