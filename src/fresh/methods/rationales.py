"""Which words are kept: a support model's scores, cut; what a tagger makes of that; and all of it cross-fitted."""

from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, is_dataclass, replace
from typing import Any

import numpy as np

from fresh.attribution.registry import Scorer, ScorerFactory, make_scorer, needs_support
from fresh.attribution.support_model import SupportModel
from fresh.data.splits import Splits
from fresh.document import Example, Mask, Saliency
from fresh.errors import DataError
from fresh.methods.config import FreshConfig
from fresh.nn.batch import IntArray
from fresh.progress import Progress
from fresh.selection.discretizers import Discretizer, GlobalContiguous, GlobalTopK
from fresh.selection.extractors import SaliencyExtractor, score_validated, select_masks
from fresh.selection.tagger import Tagger
from fresh.training.distributed import process_group
from fresh.training.loop import RunContext

SUPPORT = "support model"
AT_ONCE = 1024
"""Documents that a scorer is given at once."""


@dataclass(frozen=True, slots=True)
class ScoredSplits:
    """An extractor, and what it makes of train and of dev."""

    extractor: SaliencyExtractor
    scores: list[Saliency]
    dev_scores: list[Saliency]

    @property
    def masks(self) -> list[Mask]:
        """Which words of train are kept."""
        return select_masks(self.extractor.discretizer, self.scores)

    @property
    def dev_masks(self) -> list[Mask]:
        """Which words of dev are kept."""
        return select_masks(self.extractor.discretizer, self.dev_scores)


def extract_training_rationales(
    splits: Splits, config: FreshConfig, support: SupportModel | None, context: RunContext, scorer: ScorerFactory | None
) -> ScoredSplits:
    """Score words and cut the scores."""
    chosen = _make_chooser(splits, config, support, context, scorer)
    return score_and_cut(splits, config, chosen, context, None if config.tagging.tags else support)


def _make_chooser(
    splits: Splits,
    config: FreshConfig,
    support: SupportModel | None,
    context: RunContext,
    scorer: ScorerFactory | None,
    only: IntArray | None = None,
) -> Scorer:
    """Make what scores words in the end: the scorer, or a tagger that learnt from it, from people, or from both.

    :param only: Numbers of the training documents that a tagger learns from; all if not given.
    """
    if not config.tagging.tags:
        return build_scorer(config, support, scorer)
    marked = None
    if config.tagging.human < 1:
        marked = score_and_cut(splits, config, build_scorer(config, support, scorer), context, support)
    return train_tagger(splits, config, marked, context, only)


def score_and_cut(
    splits: Splits, config: FreshConfig, scorer: Scorer, context: RunContext, support: SupportModel | None
) -> ScoredSplits:
    """Score the documents of train and dev; a budget over all of train becomes a cut-off for single documents."""
    scores = score_all(scorer, splits.train, context.progress, "scores of train")
    dev_scores = score_all(scorer, splits.dev, context.progress, "scores of dev")
    if support is not None and support.seen is not None:
        support.seen.forget()
    return ScoredSplits(
        SaliencyExtractor(scorer, learned(config.make_discretizer(), scores), support), scores, dev_scores
    )


def train_tagger(
    splits: Splits, config: FreshConfig, marked: ScoredSplits | None, context: RunContext, only: IntArray | None = None
) -> Tagger:
    """Train a tagger on masks, on people's rationales, or on both.

    :param only: Numbers of the training documents to learn from; all if not given.
    """
    share, seed = config.tagging.human, config.train.seed
    wanted = targets(splits.train, None if marked is None else marked.masks, share, seed)
    dev_wanted = targets(splits.dev, None if marked is None else marked.dev_masks, float(marked is None), seed)
    usable = np.array([number for number, mask in enumerate(wanted) if mask is not None], dtype=np.int64)
    chosen = usable if only is None else np.intersect1d(usable, only)
    if not len(chosen):
        raise _too_few(config)
    return Tagger.train(
        [
            (example.document, Mask.from_spans([], len(example.document.words)) if mask is None else mask)
            for example, mask in zip(splits.train, wanted, strict=True)
        ],
        [(item.document, mask) for item, mask in zip(splits.dev, dev_wanted, strict=True) if mask is not None],
        config.make_discretizer(),
        config.classifier,
        "chain" if config.tagging.crf else "words",
        context.named("tagger" + context.name.removeprefix(SUPPORT)),
        chosen,
    )


def check_rationales(splits: Splits, share: float) -> None:
    """Refuse to begin where people's rationales are asked for that nobody made."""
    wanted = {"training": splits.train} if share < 1 else {"training": splits.train, "dev": splits.dev}
    for name, examples in wanted.items():
        if share and not any(map(has_rationale, examples)):
            raise DataError(
                f"human={share:g} asks for people's rationales, but no {name} document has one. Give data with "
                "rationales, or leave human out."
            )


def targets(examples: Sequence[Example], masks: Sequence[Mask] | None, share: float, seed: int) -> list[Mask | None]:
    """Take people's rationales for a share of the documents that have one, and the masks, if any, for the others.

    Documents are drawn from the seed; those of a smaller share are among those of a larger one.
    """
    order = np.random.default_rng((seed, len(examples))).permutation(len(examples)).tolist()
    marked = [number for number in order if has_rationale(examples[number])]
    found: list[Mask | None] = [None] * len(examples) if masks is None else list(masks)
    n_people = max(1, round(share * len(marked))) if share else 0
    for number in marked[:n_people]:
        found[number] = examples[number].human
    return found


def has_rationale(example: Example) -> bool:
    """Say whether people marked any word."""
    return example.human is not None and bool(example.human.kept.any())


def cross_fit(
    splits: Splits, config: FreshConfig, marked: ScoredSplits, context: RunContext, scorer: ScorerFactory | None
) -> ScoredSplits:
    """Have each training document scored by networks that were trained without it."""
    scores = list(marked.scores)
    for fold, part in enumerate(cut_in_parts(splits.train, config.folds, config.train.seed)):
        rest = np.setdiff1d(np.arange(len(scores)), part)
        if not len(rest) or len({splits.train[number].label for number in rest.tolist()}) < len(splits.labels):
            raise _too_few(config)
        others = context.named(f"{SUPPORT}, fold {fold + 1} of {config.folds}")
        found = _score_part(splits, config, others, scorer, part, rest)
        for number, saliency in zip(part.tolist(), found, strict=True):
            scores[number] = saliency
    discretizer = learned(config.make_discretizer(), scores)
    return replace(marked, extractor=replace(marked.extractor, discretizer=discretizer), scores=scores)


def _too_few(config: FreshConfig) -> DataError:
    """Say that folds are too small."""
    return DataError(f"folds={config.folds} leaves too few documents to train on. Choose fewer folds.")


def _score_part(
    splits: Splits,
    config: FreshConfig,
    context: RunContext,
    scorer: ScorerFactory | None,
    part: IntArray,
    rest: IntArray,
) -> list[Saliency]:
    """Train networks on the rest of the training documents, and score a part of them."""
    support = _train_support(splits, config, context, scorer, rest)
    asked = _make_chooser(splits, config, support, context, scorer, rest)
    return score_all(asked, [splits.train[number] for number in part.tolist()], context.progress, "scores of the fold")


def _train_support(
    splits: Splits, config: FreshConfig, context: RunContext, scorer: ScorerFactory | None, only: IntArray
) -> SupportModel | None:
    """Train a support model, if one is asked, on some of the training documents."""
    if not asks_support(config, scorer):
        return None
    return SupportModel.train(splits.train, splits.dev, config.classifier, context, only)


def asks_support(config: FreshConfig, scorer: ScorerFactory | None) -> bool:
    """Say whether anybody asks a support model."""
    return config.tagging.human < 1 and (scorer is not None or needs_support(config.scorer))


def cut_in_parts(examples: Sequence[Example], n_parts: int, seed: int) -> list[IntArray]:
    """Cut documents into parts of about equal size at random; those with the same words stay together."""
    groups: dict[tuple[str, ...], list[int]] = {}
    for number, example in enumerate(examples):
        groups.setdefault(example.document.words, []).append(number)
    if len(groups) < n_parts:
        raise DataError(
            f"folds={n_parts} is more than the {len(groups)} different documents there are to train on. Choose fewer."
        )
    order = np.random.default_rng((seed, n_parts)).permutation(len(groups))
    listed = list(groups.values())
    parts: list[list[int]] = [[] for _ in range(n_parts)]
    for place in order.tolist():
        min(parts, key=len).extend(listed[place])
    return [np.array(sorted(part), dtype=np.int64) for part in parts]


def build_scorer(config: FreshConfig, support: SupportModel | None, factory: ScorerFactory | None) -> Scorer:
    """Make the scorer that the settings name, or the user's own."""
    if factory is not None and support is not None:
        return factory(support)
    return make_scorer(config.scorer, support, {**asdict(config.scoring), "seed": config.train.seed})


def learned(discretizer: Discretizer, saliencies: Sequence[Saliency]) -> Discretizer:
    """Turn a budget over all of train into the cut-off that serves single documents."""
    return discretizer.learn(saliencies) if isinstance(discretizer, GlobalTopK | GlobalContiguous) else discretizer


def score_all(scorer: Scorer, examples: Sequence[Example], progress: Progress, name: str) -> list[Saliency]:
    """Score documents, some at a time; labels are left behind, and a team shares the work out."""
    documents = process_group().share([example.document for example in examples])
    saliencies: list[Saliency] = []
    n_told = 0
    with progress.task(name, len(documents)) as advance:

        def tell(n_scored: int) -> None:
            nonlocal n_told
            advance(n_scored - n_told, "")
            n_told = n_scored

        def tell_more(n_more: int) -> None:
            tell(min(n_told + n_more, len(saliencies) + AT_ONCE, len(documents)))  # a scorer may ask twice about one

        with_callback: Scorer = _told_by(scorer, tell_more)
        for start in range(0, len(documents), AT_ONCE):
            saliencies += score_validated(with_callback, documents[start : start + AT_ONCE])
            tell(len(saliencies))
    return process_group().join(saliencies)


def _told_by(scorer: Any, tell_more: Callable[[int], None]) -> Any:
    """Have a scorer tell how far it has come, if it asks a support model as those that come along do."""
    asks = is_dataclass(scorer) and isinstance(getattr(scorer, "support", None), SupportModel)
    return replace(scorer, support=scorer.support.with_callback(tell_more)) if asks else scorer
