"""Random words: a predictor that reads words drawn by lot, in their order, as many as a rationale has."""

from dataclasses import fields, replace

from fresh.data.splits import Splits
from fresh.methods import fresh
from fresh.methods.config import CutConfig, FreshConfig, RandomConfig
from fresh.methods.result import MethodResult, settings_record
from fresh.training.loop import RunContext


def train(splits: Splits, config: RandomConfig, context: RunContext | None = None) -> MethodResult:
    """Train a predictor on random words."""
    shared = {item.name: getattr(config, item.name) for item in fields(CutConfig)}
    trained = fresh.train_and_mark(splits, FreshConfig(**shared, scorer="random"), context or RunContext(), None)
    return replace(trained, model=replace(trained.model, settings=settings_record(config, "random")))
