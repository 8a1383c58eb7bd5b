"""Settings of all methods, and of a training run."""

import math
from dataclasses import dataclass, field, fields, replace
from typing import Literal, NamedTuple

import numpy as np

from fresh.attribution.config import ScorerConfig
from fresh.config import Setting, check_above, check_min, list_settings, raise_all, suggest
from fresh.data.config import DataConfig
from fresh.selection.discretizers import DISCRETIZERS, Discretizer, TopK
from fresh.training.config import ClassifierConfig

_LEAST_RATIO = 0.05  # that an independent predictor serves
RATIO_DISCRETIZERS = ("top_k", "contiguous")  # they keep the ratio in each document


class Range(NamedTuple):
    """Ratios that one predictor serves."""

    low: float
    high: float

    @property
    def middle(self) -> float:
        """The default ratio: the geometric mean of both ends."""
        return min(self.high, max(self.low, round(math.sqrt(self.low * self.high), 3)))

    def spread(self, n: int) -> list[float]:
        """Return ratios from the lowest to the highest, evenly on a logarithmic scale."""
        ratios: list[float] = np.geomspace(self.low, self.high, n).round(4).clip(self.low, self.high).tolist()
        return ratios


@dataclass(frozen=True, slots=True)
class CutConfig(ClassifierConfig):
    """How scores are cut to rationales."""

    discretizer: str = "top_k"
    """Cuts scores to rationales: top_k, contiguous, global_top_k, global_contiguous or threshold."""
    ratio: float | str = 0.2
    """Share of the words to keep, such as 0.2; or LOW:HIGH, such as 0.05:0.5, for a predictor that serves all ratios
    in between."""
    minimum: float | None = None
    """Minimum share of the words that each document keeps under a global budget. By default, half the ratio."""
    cutoff: float = 0.0
    """Minimum score of a word that the threshold discretizer keeps."""

    def __post_init__(self) -> None:
        raise_all(self._check_cut())

    def _check_cut(self) -> str | None:
        if self.discretizer not in DISCRETIZERS:
            return suggest(self.discretizer, "a discretizer", DISCRETIZERS)
        try:
            for ratio in self.ratios or (self.one_ratio,):
                TopK(ratio)
            self.make_discretizer()
        except ValueError as error:
            return str(error)
        return self._check_ratio_discretizer("A range of ratios needs") if self.ratios else None

    def _check_ratio_discretizer(self, need: str) -> str | None:
        if self.discretizer in RATIO_DISCRETIZERS:
            return None
        return f"{need} discretizer=top_k or discretizer=contiguous, got {self.discretizer}."

    @property
    def ratios(self) -> Range | None:
        """The range of ratios, if there is one."""
        if not isinstance(self.ratio, str):
            return None
        try:
            low, high = map(float, self.ratio.split(":"))
        except ValueError:
            raise ValueError(f"ratio must be a number, or two such as 0.05:0.5, got {self.ratio!r}.") from None
        if not low < high:
            raise ValueError(f"ratio must go from a smaller number to a larger one, got {self.ratio}.")
        return Range(low, high)

    @property
    def one_ratio(self) -> float:
        """The ratio, or the middle of the range."""
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
class TaggerConfig:
    """Whether a network learns to choose words, and what it learns from."""

    tagger: bool = False
    """Train a tagger on the scorer's rationales, on people's, or on both; it then chooses the words, in one pass."""
    distil: bool = False
    """Train a tagger on the rationales of a slow scorer, so that explaining takes one pass."""
    crf: bool = False
    """Let the tagger decide on neighboring words together (a conditional random field)."""
    human: float = 0.0
    """Share of the training documents with people's rationales whose rationales the tagger learns from."""

    def __post_init__(self) -> None:
        needing = " and ".join(name for name, is_set in (("crf", self.crf), ("human", self.human)) if is_set)
        raise_all(
            _check_human(self.human),
            f"Only a tagger takes {needing}: choose tagger=True." if needing and not self.has_tagger else None,
            "distil learns from the scorer alone. Leave human out, or choose tagger=True in place of distil=True."
            if self.distil and self.human
            else None,
        )

    @property
    def has_tagger(self) -> bool:
        """Whether a tagger is trained."""
        return self.tagger or self.distil


@dataclass(frozen=True, slots=True)
class FreshConfig(CutConfig):
    """How FRESH makes rationales and trains a predictor on them."""

    scorer: str = "attention_gradient"
    """Scores words: attention, gradient, attention_gradient, attention_shift, integrated_gradients, occlusion, lime,
    kernel_shap or random."""
    folds: int = 1
    """Number of folds of the training documents; the rationales of each fold come from networks that are trained on the
    other folds. With 1, all rationales come from a network that is trained on all documents."""
    predictor: Literal["own", "independent"] = "own"
    """What answers: a predictor that is trained on the extractor's rationales (own), or one that is trained on random
    words and has never seen a choice of the extractor (independent). With top_k and contiguous, the latter serves
    every ratio from 0.05 to 1."""
    scoring: ScorerConfig = field(default_factory=ScorerConfig)
    tagging: TaggerConfig = field(default_factory=TaggerConfig)

    def __post_init__(self) -> None:
        from fresh.attribution import check_scorer_name

        is_random, tagging = self.scorer == "random", self.tagging
        raise_all(
            check_scorer_name(self.scorer),
            self._check_cut(),
            *check_min(1, folds=self.folds),
            "layer must be -1 with long=chunk, where attention is how the head weighs words."
            if self.network.long == "chunk" and self.scoring.layer != -1
            else None,
            "layer=all adds up what raises the answer, which scorer=attention does not say. Name one layer, or choose "
            "scorer=attention_shift or scorer=attention_gradient."
            if self.scorer == "attention" and self.scoring.layer == "all"
            else None,
            "No cutoff serves both a tagger, whose scores are from 0 to 1, and a scorer. Choose a discretizer other "
            "than threshold."
            if tagging.has_tagger and self.discretizer == "threshold"
            else None,
            "folds has no effect with scorer=random. Leave it out." if self.folds > 1 and is_random else None,
            _check_whole(self, "Random words are sampled from whole documents") if is_random else None,
            *self._check_independent(),
            "A tagger cannot learn to find random words. Choose another scorer."
            if tagging.has_tagger and is_random and tagging.human < 1
            else None,
        )

    def _check_independent(self) -> list[str | None]:
        if self.predictor == "own":
            return []
        return [
            _check_whole(self, "predictor=independent learns from words of whole documents"),
            "folds has no effect with predictor=independent, which never sees a rationale. Leave it out."
            if self.folds > 1
            else None,
        ]

    @property
    def served_ratios(self) -> Range | None:
        """The range of ratios that the predictor serves, if there is one."""
        if self.ratios or self.predictor == "own" or self.discretizer not in RATIO_DISCRETIZERS:
            return self.ratios
        return Range(min(_LEAST_RATIO, self.one_ratio), 1.0)


@dataclass(frozen=True, slots=True)
class GateConfig(CutConfig):
    """What all methods with a gate have in common."""

    lambda_2: float = 0.0
    """Cost of each beginning and end of a run of kept words."""
    human: float = 0.0
    """Share of the training documents with people's rationales whose rationales the gate learns from."""

    def _check_gate(self) -> list[str | None]:
        return [
            self._check_cut(),
            "A range of ratios needs method=fresh; a gate has one ratio." if isinstance(self.ratio, str) else None,
            "class_weight=balanced is not for gates, whose costs have a scale of their own. Leave it out."
            if self.train.class_weight != "none"
            else None,
            self._check_ratio_discretizer("A gate needs"),
            *check_min(0, lambda_2=self.lambda_2),
            _check_human(self.human),
        ]


@dataclass(frozen=True, slots=True)
class LeiConfig(GateConfig):
    """How the gate of Lei et al. learns."""

    # Macro-F1 on SST: .783 with 0.3, .701 with 1.
    lambda_1: float = 0.3
    """Cost of the share of words that is kept beyond the ratio."""
    draws: int = 1
    """Number of samples of words from each document in a training step."""
    reward_baseline: bool = True
    """Compare the cost of a sample with the moving average of costs, which makes learning steadier; off is the original
    method."""

    def __post_init__(self) -> None:
        raise_all(*self._check_gate(), *check_min(0, lambda_1=self.lambda_1), *check_min(1, draws=self.draws))


@dataclass(frozen=True, slots=True)
class BastingsConfig(GateConfig):
    """How the gate of Bastings et al. keeps to its length."""

    # HardKuma on SST at a ratio of 0.2 has .790 to .798 with these values, and .33 to .69 with one side only.
    lagrange_start: float = 1e-5
    """Initial Lagrange multiplier of the length."""
    lagrange_rate: float | None = None
    """Learning rate of the multiplier, which grows while too many words are kept and, with two_sided=True, shrinks
    while too few are. By default 0.001, or 0.01 with two_sided=False."""
    lagrange_square: float = 5.0
    """Weight of the square of the deviation from the ratio, which keeps the multiplier from oscillating."""
    lagrange_decay: float = 0.9
    """Decay of the moving average of the deviation from the ratio."""
    two_sided: bool = True
    """Hold the gate to its length from both sides; off, only keeping too many words costs something, and more and more,
    as in the code of the FRESH paper."""

    def __post_init__(self) -> None:
        raise_all(
            *self._check_gate(),
            *check_above(0, lagrange_start=self.lagrange_start, lagrange_rate=self.rate),
            *check_min(0, lagrange_square=self.lagrange_square),
            None if 0 <= (decay := self.lagrange_decay) < 1 else f"lagrange_decay must be in [0, 1), got {decay}.",
        )

    @property
    def rate(self) -> float:
        """The learning rate of the multiplier."""
        default = 0.001 if self.two_sided else 0.01
        return default if self.lagrange_rate is None else self.lagrange_rate


@dataclass(frozen=True, slots=True)
class FullTextConfig(ClassifierConfig):
    """How a predictor of whole documents is trained."""

    def __post_init__(self) -> None:
        raise_all(_check_whole(self, "full_text reads every word"))


@dataclass(frozen=True, slots=True)
class RandomConfig(CutConfig):
    """How many words are sampled, and how a predictor of them is trained."""

    def __post_init__(self) -> None:
        raise_all(
            _check_whole(self, "Random words are sampled from whole documents"),
            self._check_cut(),
            self._check_ratio_discretizer("Random words need"),
        )


@dataclass(frozen=True, slots=True)
class HumanConfig(ClassifierConfig):
    """How a predictor of people's rationales is trained."""

    def __post_init__(self) -> None:
        raise_all(_check_whole(self, "human reads all words that people marked"))


def _check_human(share: float) -> str | None:
    return None if 0 <= share <= 1 else f"human must be in [0, 1], got {share}."


def _check_whole(config: ClassifierConfig, reason: str) -> str | None:
    return f"{reason}: choose long=stagger or long=chunk." if config.network.long == "truncate" else None


METHODS: dict[str, type[ClassifierConfig]] = {
    "fresh": FreshConfig,
    "lei": LeiConfig,
    "bastings": BastingsConfig,
    "full_text": FullTextConfig,
    "random": RandomConfig,
    "human": HumanConfig,
}
"""The settings of each method."""


@dataclass(frozen=True, slots=True)
class RunConfig:
    """Settings of a training run that are the same for all methods."""

    method: Literal["fresh", "lei", "bastings", "full_text", "random", "human"] = "fresh"
    """How words are chosen: by the scores of a support model (fresh), by a gate that is trained with the predictor
    (lei, bastings), not at all (full_text), at random (random), or by people (human)."""
    baseline: bool = True
    """Also train predictors for comparison: an independent reader, which is kept with the model, one on dropped words,
    and one on full text if no support model is trained."""
    audit: bool = True
    """Audit the trained model: try to break its guarantee, and measure what leaks past it."""
    data: DataConfig = field(default_factory=DataConfig)


def settings_of_methods() -> dict[str, tuple[Setting, list[str]]]:
    """List the settings of all methods by their names, each with the names of its methods."""
    listed: dict[str, tuple[Setting, list[str]]] = {}
    for method, config in METHODS.items():
        for setting in list_settings(config):
            known, owners = listed.get(setting.name, (setting, []))
            # Without a path if it differs between methods.
            shown = known if known.path == setting.path else replace(setting, path=setting.name)
            listed[setting.name] = shown, [*owners, method]
    return listed
