"""Random words: a predictor that reads words drawn by lot, in their order, as many as a rationale has."""

from dataclasses import fields, replace

from fresh.data.splits import Splits
from fresh.methods import fresh
from fresh.methods.config import CutConfig, FreshConfig, RandomConfig
from fresh.methods.result import Trained, written_down
from fresh.training.loop import Watch


def train(splits: Splits, config: RandomConfig, watch: Watch | None = None) -> Trained:
    """Train a predictor on random words."""
    shared = {item.name: getattr(config, item.name) for item in fields(CutConfig)}
    trained = fresh.train_and_mark(splits, FreshConfig(**shared, scorer="random"), watch or Watch(), None)
    return replace(trained, model=replace(trained.model, settings=written_down(config, "random")))
