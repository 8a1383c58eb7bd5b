"""Settings that several methods share: how long rationales are, and which networks are trained."""

import math
from dataclasses import dataclass, field, fields, replace
from typing import TYPE_CHECKING, NamedTuple

from fresh.attribution.config import ScorerConfig
from fresh.config import check_min, raise_all, suggest
from fresh.nn.config import NetworkConfig
from fresh.selection.discretizers import DISCRETIZERS, Discretizer, TopK
from fresh.training.config import TrainConfig

if TYPE_CHECKING:
    from fresh.training.config import ClassifierConfig

CUTS_EACH = ("top_k", "contiguous")
"""Discretizers that keep the ratio in each document."""


class Range(NamedTuple):
    """Ratios that one predictor serves."""

    low: float
    high: float

    @property
    def middle(self) -> float:
        """The ratio that is taken where none is asked for: as many times the lowest as the highest is of it."""
        return self.within(round(math.sqrt(self.low * self.high), 3))

    def spread(self, n: int) -> list[float]:
        """Take ratios from the lowest to the highest, each so many times the one before."""
        factor = (self.high / self.low) ** (1 / (n - 1)) if n > 1 else 1.0
        return [self.within(round(self.low * factor**step, 4)) for step in range(n)]

    def within(self, ratio: float) -> float:
        """Bring a ratio that was rounded back into the range."""
        return min(self.high, max(self.low, ratio))


@dataclass(frozen=True, slots=True)
class NetworksConfig:
    """Which networks are trained, and how."""

    network: NetworkConfig = field(default_factory=NetworkConfig)
    train: TrainConfig = field(default_factory=TrainConfig)

    @property
    def classifier(self) -> "ClassifierConfig":
        """The same, for one network."""
        from fresh.training.config import ClassifierConfig

        return ClassifierConfig(self.network, self.train)


@dataclass(frozen=True, slots=True)
class CutConfig(NetworksConfig):
    """How scores are cut to rationales."""

    discretizer: str = "top_k"
    """What cuts scores to rationales: top_k, contiguous, global_top_k, global_contiguous or threshold."""
    ratio: float | str = 0.2
    """Share of the words to keep, such as 0.2; or LOW:HIGH, such as 0.05:0.5, for a predictor that serves all ratios
    between them."""
    minimum: float | None = None
    """Share of the words that each document surely keeps under a global budget; half the ratio if not given."""
    cutoff: float = 0.0
    """Lowest score that the threshold discretizer keeps."""

    def __post_init__(self) -> None:
        raise_all(self.wrong_cut())

    def wrong_cut(self) -> str | None:
        """Say what is wrong with the way scores are cut, if anything."""
        if self.discretizer not in DISCRETIZERS:
            return suggest(self.discretizer, "a discretizer", DISCRETIZERS)
        try:
            for ratio in self.ratios or (self.one_ratio,):
                TopK(ratio)
            self.make_discretizer()
        except ValueError as error:
            return str(error)
        if self.ratios is not None and self.discretizer not in CUTS_EACH:
            return f"A range of ratios needs the discretizer top_k or contiguous, got {self.discretizer}."
        return None

    @property
    def ratios(self) -> Range | None:
        """The range of ratios, if one was asked for."""
        if not isinstance(self.ratio, str):
            return None
        try:
            low, high = map(float, self.ratio.split(":"))
        except ValueError:
            raise ValueError(f"ratio must be a number, or two as in 0.05:0.5, got {self.ratio!r}.") from None
        if not low < high:
            raise ValueError(f"ratio must go from a smaller number to a larger one, got {self.ratio}.")
        return Range(low, high)

    @property
    def one_ratio(self) -> float:
        """The ratio, or the one in the middle of a range."""
        return self.ratios.middle if self.ratios else float(self.ratio)

    def make_discretizer(self, ratio: float | None = None) -> Discretizer:
        """Make the discretizer from the settings that concern it."""
        kind = DISCRETIZERS[self.discretizer]
        values = {setting.name: getattr(self, setting.name) for setting in fields(kind)}
        if "ratio" in values:
            values["ratio"] = self.one_ratio if ratio is None else ratio
        discretizer: Discretizer = kind(**values)
        return discretizer


@dataclass(frozen=True, slots=True)
class _TaggerConfig:
    """Whether a network learns to choose words, and from what."""

    tagger: bool = False
    """Train a tagger on the rationales that the scorer makes, on people's, or on both; it then chooses words itself, in
    one pass."""
    distil: bool = False
    """Train a tagger on the rationales of a slow scorer, so that explaining costs one pass."""
    crf: bool = False
    """Have the tagger decide on neighbouring words together (a conditional random field)."""
    human: float = 0.0
    """Share of the training documents, of those that have one, on which the tagger learns from people's rationales."""

    def __post_init__(self) -> None:
        alone = " and ".join(name for name, given in (("crf", self.crf), ("human", self.human)) if given)
        raise_all(
            f"human must be from 0 to 1, got {self.human}." if not 0 <= self.human <= 1 else None,
            f"{alone} can only be had with a tagger: tagger=True." if alone and not self.tags else None,
            "distil learns from the scorer alone: leave human out, or take tagger in place of distil."
            if self.distil and self.human
            else None,
        )

    @property
    def tags(self) -> bool:
        """Whether there is a tagger."""
        return self.tagger or self.distil


@dataclass(frozen=True, slots=True)
class FreshConfig(CutConfig):
    """How rationales are made and a predictor is trained on them."""

    scorer: str = "attention_gradient"
    """What scores words: attention, gradient, attention_gradient, attention_shift, integrated_gradients, occlusion,
    lime, kernel_shap or random."""
    folds: int = 1
    """Parts into which the training documents are cut, so that the rationales of each come from networks that were
    trained without it; 1 for networks trained on all of them."""
    scoring: ScorerConfig = field(default_factory=ScorerConfig)
    tagging: _TaggerConfig = field(default_factory=_TaggerConfig)

    def __post_init__(self) -> None:
        from fresh.attribution.registry import check_scorer_name

        raise_all(
            check_scorer_name(self.scorer),
            self.wrong_cut(),
            *check_min(1, folds=self.folds),
            "layer must be -1 with long=chunk: attention is there what the head weighs words by."
            if self.network.long == "chunk" and self.scoring.layer != -1
            else None,
            "layer=all adds up what raises the answer, which attention alone does not say: name one layer, or take the "
            "scorer attention_shift or attention_gradient."
            if self.scorer == "attention" and self.scoring.layer == "all"
            else None,
            "Scores of a tagger run from 0 to 1 and those of a scorer do not, so that no cutoff serves both: choose "
            "another discretizer than threshold."
            if self.tagging.tags and self.discretizer == "threshold"
            else None,
            "folds are of no use to random words: leave them out."
            if self.folds > 1 and self.scorer == "random"
            else None,
            "Random words are drawn from whole documents: take long=stagger or long=chunk."
            if self.scorer == "random" and self.network.long == "truncate"
            else None,
            "A tagger cannot learn to find random words: choose another scorer."
            if self.tagging.tags and self.scorer == "random" and self.tagging.human < 1
            else None,
        )

    def with_seed(self, seed: int) -> "FreshConfig":
        """Take another seed."""
        return replace(self, train=replace(self.train, seed=seed))


@dataclass(frozen=True, slots=True)
class FullTextConfig(NetworksConfig):
    """How a predictor of whole documents is trained."""

    def __post_init__(self) -> None:
        raise_all(
            "full_text reads every word: take long=stagger or long=chunk." if self.network.long == "truncate" else None
        )


@dataclass(frozen=True, slots=True)
class RandomConfig(CutConfig):
    """How many words are drawn, and how a predictor of them is trained."""

    def __post_init__(self) -> None:
        alone = f"Random words are cut by top_k or contiguous, got {self.discretizer}."
        whole = "Random words are drawn from whole documents: take long=stagger or long=chunk."
        raise_all(whole if self.network.long == "truncate" else None)
        raise_all(self.wrong_cut(), alone if self.discretizer not in CUTS_EACH else None)


@dataclass(frozen=True, slots=True)
class HumanConfig(NetworksConfig):
    """How a predictor of people's rationales is trained."""

    def __post_init__(self) -> None:
        raise_all(
            "human reads all that people marked: take long=stagger or long=chunk."
            if self.network.long == "truncate"
            else None
        )
