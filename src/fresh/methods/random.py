"""Random words: a predictor that reads words drawn by lot, in their order, as many as a rationale has."""

from dataclasses import dataclass, fields, replace

from fresh.config import refuse
from fresh.data import Splits
from fresh.methods import fresh
from fresh.methods.outcome import Trained, written_down
from fresh.methods.settings import CUTS_EACH, CutConfig, FreshConfig
from fresh.training import Watch


@dataclass(frozen=True, slots=True)
class RandomConfig(CutConfig):
    """How many words are drawn, and how a predictor of them is trained."""

    def __post_init__(self) -> None:
        alone = f"Random words are cut by top_k or contiguous, got {self.discretizer}."
        whole = "Random words are drawn from whole documents: take long=stagger or long=chunk."
        refuse(whole if self.network.long == "truncate" else None)
        refuse(self.wrong_cut(), alone if self.discretizer not in CUTS_EACH else None)


def train(splits: Splits, config: RandomConfig, watch: Watch | None = None) -> Trained:
    """Train a predictor on random words."""
    shared = {item.name: getattr(config, item.name) for item in fields(CutConfig)}
    trained = fresh.train_and_mark(splits, FreshConfig(**shared, scorer="random"), watch or Watch(), None)
    return replace(trained, model=replace(trained.model, settings=written_down(config, "random")))
