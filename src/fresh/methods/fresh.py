"""FRESH (Jain et al., 2020): support model, scores, masks, and a predictor trained on rationales alone."""

from collections.abc import Sequence
from dataclasses import dataclass, field, fields, replace
from pathlib import Path
from typing import Any

from fresh.classifier import ClassifierConfig, NetworkConfig
from fresh.config import refuse, to_mapping, unknown
from fresh.data import Splits
from fresh.discretize import DISCRETIZERS, Discretizer, GlobalContiguous, GlobalTopK, TopK
from fresh.document import Example, Mask, Saliency
from fresh.encoder import load_encoder
from fresh.extractor import SaliencyExtractor, checked_scores, select_read
from fresh.extras import load_extra
from fresh.predictor import Predictor
from fresh.progress import Progress
from fresh.rationale import Rationale
from fresh.rationalizer import Rationalizer
from fresh.scorers import SaliencyScorer, ScorerConfig, ScorerFactory, make_scorer, needs_support, unknown_scorer
from fresh.support import Support
from fresh.team import team
from fresh.training import TrainConfig, Watch

AT_ONCE = 1024
"""Documents that are scored between two steps of the progress bar."""


@dataclass(frozen=True, slots=True)
class FreshConfig:
    """How rationales are made and a predictor is trained on them."""

    scorer: str = "attention_gradient"
    """What scores words: attention, gradient, attention_gradient, integrated_gradients, occlusion, lime, kernel_shap or
    random."""
    discretizer: str = "top_k"
    """What cuts scores to rationales: top_k, contiguous, global_top_k, global_contiguous or threshold."""
    ratio: float = 0.2
    """Share of the words to keep."""
    minimum: float | None = None
    """Share of the words that each document surely keeps under a global budget; half the ratio if not given."""
    cutoff: float = 0.0
    """Lowest score that the threshold discretizer keeps."""
    scoring: ScorerConfig = field(default_factory=ScorerConfig)
    network: NetworkConfig = field(default_factory=NetworkConfig)
    train: TrainConfig = field(default_factory=TrainConfig)

    def __post_init__(self) -> None:
        refuse(unknown_scorer(self.scorer), self.wrong_cut())

    def wrong_cut(self) -> str | None:
        """Say what is wrong with the way scores are cut, if anything."""
        if self.discretizer not in DISCRETIZERS:
            return unknown(self.discretizer, "a discretizer", DISCRETIZERS)
        try:
            TopK(self.ratio)
            self.make_discretizer()
        except ValueError as error:
            return str(error)
        return None

    @property
    def classifier(self) -> ClassifierConfig:
        """What concerns both the support model and the predictor."""
        return ClassifierConfig(self.network, self.train)

    def make_discretizer(self) -> Discretizer:
        """Make the discretizer from the settings that concern it."""
        kind = DISCRETIZERS[self.discretizer]
        discretizer: Discretizer = kind(**{setting.name: getattr(self, setting.name) for setting in fields(kind)})
        return discretizer


def train(
    splits: Splits, config: FreshConfig, watch: Watch | None = None, scorer: ScorerFactory | None = None
) -> Rationalizer:
    """Train a support model, cut its scores to rationales, and train a predictor on them.

    :param watch: Shows progress and keeps what was trained so far.
    :param scorer: Makes a scorer of your own from the support model, in place of ``config.scorer``.
    """
    return train_and_mark(splits, config, watch or Watch(), scorer).model


@dataclass(frozen=True, slots=True)
class Trained:
    """What training made, and which words of train and of dev it kept."""

    model: Rationalizer
    masks: list[Mask]
    dev_masks: list[Mask]


def train_and_mark(splits: Splits, config: FreshConfig, watch: Watch, scorer: ScorerFactory | None) -> Trained:
    """Train as :func:`train` does, and also return which words were kept."""
    [trained] = train_all(splits, [config], watch, scorer)
    return trained


def train_seeds(
    splits: Splits, config: FreshConfig, seeds: Sequence[int], watch: Watch | None = None
) -> list[Rationalizer]:
    """Train once for each seed, side by side on a GPU; whole documents run through the frozen layers once for all."""
    configs = [replace(config, train=replace(config.train, seed=seed)) for seed in seeds]
    return [trained.model for trained in train_all(splits, configs, watch or Watch(), None)]


def train_all(
    splits: Splits, configs: Sequence[FreshConfig], watch: Watch, scorer: ScorerFactory | None
) -> list[Trained]:
    """Train for settings that differ in no more than the seed."""
    check_ready(configs[0])
    classifiers = [config.classifier for config in configs]
    supports: Sequence[Support | None] = [None] * len(configs)
    if scorer is not None or needs_support(configs[0].scorer):
        supports = Support.train_many(splits.train, splits.dev, classifiers, watch.named("support model"))
    marked = [mark(splits, *pair, watch, scorer) for pair in zip(configs, supports, strict=True)]
    pairs = [(cut_all(splits.train, item.masks), cut_all(splits.dev, item.dev_masks)) for item in marked]
    predictors = Predictor.train_many(pairs, classifiers, watch.named("predictor"))
    asks = bool(splits.train[0].document.query)
    return [
        Trained(Rationalizer(item.extractor, predictor, written_down(config, scorer), asks), item.masks, item.dev_masks)
        for item, predictor, config in zip(marked, predictors, configs, strict=True)
    ]


@dataclass(frozen=True, slots=True)
class Marked:
    """An extractor, and what it keeps of train and of dev."""

    extractor: SaliencyExtractor
    masks: list[Mask]
    dev_masks: list[Mask]


def mark(
    splits: Splits, config: FreshConfig, support: Support | None, watch: Watch, scorer: ScorerFactory | None
) -> Marked:
    """Score words and cut the scores to masks."""
    asked = build_scorer(config, support, scorer)
    saliencies = score_all(asked, splits.train, watch.progress, "scores of train")
    extractor = SaliencyExtractor(asked, learned(config.make_discretizer(), saliencies), support)
    masks = select_read(extractor.discretizer, saliencies)
    dev_scores = score_all(asked, splits.dev, watch.progress, "scores of dev")
    if support is not None and support.seen is not None:
        support.seen.forget()
    return Marked(extractor, masks, select_read(extractor.discretizer, dev_scores))


def written_down(config: FreshConfig, scorer: ScorerFactory | None) -> dict[str, Any]:
    """Turn settings into plain values for a card: no path of this machine, and a scorer of one's own by its name."""
    settings = to_mapping(config)
    if Path(config.network.encoder).is_dir():
        settings["network"]["encoder"] = Path(config.network.encoder).resolve().name
    if scorer is not None:
        settings["scorer"] = name_of_factory(scorer)
    return settings


def name_of_factory(scorer: ScorerFactory) -> str:
    """Say what makes a scorer of one's own."""
    return str(getattr(scorer, "__qualname__", type(scorer).__qualname__))


def check_ready(config: FreshConfig) -> None:
    """Find out before any training whether the scorer will be able to work afterwards."""
    if config.scorer in ("attention", "attention_gradient") and config.scoring.layer != -1:
        load_encoder(config.network.encoder, config.network.pooling).below(config.scoring.layer)
    if config.scorer in ("lime", "kernel_shap"):
        load_extra("captum.attr", "captum", f"The scorer {config.scorer}")


def build_scorer(config: FreshConfig, support: Support | None, factory: ScorerFactory | None) -> SaliencyScorer:
    """Make the scorer that the settings name, or the user's own."""
    if factory is not None and support is not None:
        return factory(support)
    return make_scorer(config.scorer, support, {**to_mapping(config.scoring), "seed": config.train.seed})


def learned(discretizer: Discretizer, saliencies: Sequence[Saliency]) -> Discretizer:
    """Turn a budget over all of train into the cut-off that serves single documents."""
    return discretizer.learn(saliencies) if isinstance(discretizer, GlobalTopK | GlobalContiguous) else discretizer


def score_all(scorer: SaliencyScorer, examples: Sequence[Example], progress: Progress, name: str) -> list[Saliency]:
    """Score documents, some at a time; labels are left behind, and a team shares the work out."""
    documents = team().share([example.document for example in examples])
    saliencies: list[Saliency] = []
    with progress.task(name, len(documents)) as advance:
        for start in range(0, len(documents), AT_ONCE):
            part = documents[start : start + AT_ONCE]
            saliencies += checked_scores(scorer, part)
            advance(len(part), "")
    return team().join(saliencies)


def cut_all(examples: Sequence[Example], masks: Sequence[Mask]) -> list[tuple[Rationale, str]]:
    """Cut documents to their rationales, and put the labels beside them."""
    return [(example.document.cut(mask), example.label) for example, mask in zip(examples, masks, strict=True)]
