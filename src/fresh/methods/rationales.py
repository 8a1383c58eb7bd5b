"""Training rationales: from scores, taggers and people to the pairs that predictors learn from."""

from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, is_dataclass, replace
from functools import partial
from typing import Any

import numpy as np

from fresh.attribution import Scorer, ScorerFactory, make_scorer, needs_support
from fresh.attribution.attention import Attention, AttentionGradient
from fresh.attribution.support_model import SUPPORT, SupportModel
from fresh.data.splits import Splits
from fresh.document import Example, Mask, Saliency
from fresh.errors import DataError
from fresh.methods.config import CutConfig, FreshConfig, Range
from fresh.nn.batch import IntArray
from fresh.progress import Progress
from fresh.rationale import Rationale
from fresh.selection.discretizers import Discretizer, GlobalContiguous, GlobalTopK
from fresh.selection.extractors import SaliencyExtractor, score_validated, select_masks
from fresh.selection.tagger import Tagger
from fresh.training.distributed import process_group
from fresh.training.feature_cache import FeatureStore
from fresh.training.fit import TrainingPairs
from fresh.training.loop import RunContext

N_VERSIONS = 8  # of each training rationale, of various lengths, which the epochs read in turn
N_LENGTHS, N_DEV_LENGTHS = 32, 4  # different ratios of a range in training, and on dev
# Documents that a scorer gets at once: enough that batches of similar length fill a GPU, and progress still moves.
_CHUNK = 1024


@dataclass(frozen=True, slots=True)
class ScoredSplits:
    """An extractor, and the scores of train and dev that it cuts."""

    extractor: SaliencyExtractor
    scores: list[Saliency]
    dev_scores: list[Saliency]

    def masks(self) -> list[Mask]:
        """Select the words of train that are kept."""
        return select_masks(self.extractor.discretizer, self.scores)

    def dev_masks(self) -> list[Mask]:
        """Select the words of dev that are kept."""
        return select_masks(self.extractor.discretizer, self.dev_scores)


def build_scorer(config: FreshConfig, support: SupportModel | None, factory: ScorerFactory | None) -> Scorer:
    """Make the scorer that the settings name, or a custom one."""
    if factory is not None and support is not None:
        return factory(support)
    return make_scorer(config.scorer, support, {**asdict(config.scoring), "seed": config.train.seed})


def trains_support(config: FreshConfig, scorer: ScorerFactory | None) -> bool:
    """Whether a support model is needed."""
    return config.tagging.human < 1 and (scorer is not None or needs_support(config.scorer))


def score_and_cut(
    splits: Splits, config: FreshConfig, scorer: Scorer, context: RunContext, support: SupportModel | None
) -> ScoredSplits:
    """Score the documents of train and dev; a budget over all of train becomes a cutoff for single documents."""
    scores = score_all(scorer, splits.train, context.progress, "scores of train", context.feature_store)
    dev_scores = score_all(scorer, splits.dev, context.progress, "scores of dev", context.feature_store)
    discretizer = learn_cutoff(config.make_discretizer(), scores)
    extractor = SaliencyExtractor(scorer, discretizer, None if isinstance(scorer, Tagger) else support)
    return ScoredSplits(extractor, scores, dev_scores)


def learn_cutoff(discretizer: Discretizer, saliencies: Sequence[Saliency]) -> Discretizer:
    """Turn a budget over all of train into the cutoff that serves single documents."""
    return discretizer.learn(saliencies) if isinstance(discretizer, GlobalTopK | GlobalContiguous) else discretizer


def score_all(
    scorer: Scorer, examples: Sequence[Example], progress: Progress, name: str, features: FeatureStore | None = None
) -> list[Saliency]:
    """Score documents, without their labels; several processes share them.

    :param features: The output of frozen layers, if the documents are those of a training.
    """
    group = process_group()
    documents = group.shard([example.document for example in examples])
    saliencies: list[Saliency] = []
    n_shown = 0
    with progress.task(name, len(documents)) as advance:

        def show(n_more: int) -> None:
            nonlocal n_shown
            n_shown += n_more
            advance(n_more, "")

        # The cache knows the texts of a training, all at once: not those of one process of several. On a GPU it has 16
        # bits, which scores must not have.
        network = scorer.support.classifier if isinstance(scorer, Attention | AttentionGradient) else None
        if network is None or network.split is None or network.device.type != "cpu" or group.size > 1:
            features = None
        reporting: Any = scorer
        has_support = is_dataclass(reporting) and isinstance(getattr(reporting, "support", None), SupportModel)
        if has_support:
            reporting = replace(reporting, support=replace(reporting.support, on_scored=show, features=features))
        n_at_once = _CHUNK if features is None else max(1, len(documents))
        for start in range(0, len(documents), n_at_once):
            saliencies += score_validated(reporting, documents[start : start + n_at_once])
            show(len(saliencies) - n_shown)  # a custom scorer may report no document, or some twice
    return group.gather(saliencies)


def has_rationale(example: Example) -> bool:
    """Whether people marked any word."""
    return example.human is not None and bool(example.human.kept.any())


def check_rationales(splits: Splits, share: float) -> None:
    """Raise if the data does not have the rationales of people that the settings ask for."""
    needed = {"training": splits.train} if share < 1 else {"training": splits.train, "dev": splits.dev}
    for name, examples in needed.items():
        if share and not any(map(has_rationale, examples)):
            problem = f"human={share:g} needs people's rationales, but no {name} document has one."
            raise DataError(f"{problem} Use data with rationales, or leave human out.")


def tagger_targets(
    examples: Sequence[Example], masks: Sequence[Mask] | None, share: float, seed: int
) -> list[Mask | None]:
    """Return people's rationales for a share of the documents that have one, and the masks, if any, for all others."""
    # One order for all shares: the documents of a smaller share are among those of a larger one.
    order = np.random.default_rng((seed, len(examples))).permutation(len(examples)).tolist()
    annotated = [number for number in order if has_rationale(examples[number])]
    targets: list[Mask | None] = [None] * len(examples) if masks is None else list(masks)
    n_human = max(1, round(share * len(annotated))) if share else 0
    for number in annotated[:n_human]:
        targets[number] = examples[number].human
    return targets


def make_final_scorer(
    splits: Splits, config: FreshConfig, make: Callable[[], Scorer], context: RunContext, only: IntArray | None = None
) -> Scorer:
    """Make the scorer, or train a tagger in its place: on the scorer's rationales, on people's, or on both.

    :param make: Makes the scorer; not called where a tagger learns from people alone.
    :param only: The numbers of the training documents to learn from; all by default.
    """
    if not config.tagging.has_tagger:
        return make()
    share, seed, masks, dev_masks = config.tagging.human, config.train.seed, None, None
    if share < 1:
        scored = score_and_cut(splits, config, make(), context, None)
        masks, dev_masks = scored.masks(), scored.dev_masks()
    targets = tagger_targets(splits.train, masks, share, seed)
    # Dev is never a mixture: the best epoch is chosen by one kind of masks.
    dev_targets = tagger_targets(splits.dev, dev_masks, float(share == 1), seed)
    if only is not None:
        chosen = set(only.tolist())
        targets = [mask if number in chosen else None for number, mask in enumerate(targets)]
    if not any(mask is not None for mask in targets):
        raise _too_few(config)
    return Tagger.train(
        # All documents, also where there is nothing to learn: frozen layers then read the same texts for every fold.
        [(example.document, mask) for example, mask in zip(splits.train, targets, strict=True)],
        [(example.document, mask) for example, mask in zip(splits.dev, dev_targets, strict=True) if mask is not None],
        config.make_discretizer(),
        config,
        "chain" if config.tagging.crf else "words",
        context.with_name("tagger" + context.name.removeprefix(SUPPORT)),
    )


def cross_fit(
    splits: Splits, config: FreshConfig, scored: ScoredSplits, context: RunContext, scorer: ScorerFactory | None
) -> ScoredSplits:
    """Score each training document with networks that were trained without it."""
    scores = list(scored.scores)
    for number, fold in enumerate(split_folds(splits.train, config.folds, config.train.seed)):
        rest = np.setdiff1d(np.arange(len(scores)), fold)
        # Without a class in the rest, the networks would have other labels.
        if not len(rest) or len({splits.train[place].label for place in rest.tolist()}) < len(splits.labels):
            raise _too_few(config)
        fold_context = context.with_name(f"{SUPPORT}, fold {number + 1} of {config.folds}")
        needs_support = trains_support(config, scorer)
        support = SupportModel.train(splits.train, splits.dev, config, fold_context, rest) if needs_support else None
        make = partial(build_scorer, config, support, scorer)
        final = make_final_scorer(splits, config, make, fold_context, rest)
        examples = [splits.train[place] for place in fold.tolist()]
        saliencies = score_all(final, examples, context.progress, "scores of the fold")
        for place, saliency in zip(fold.tolist(), saliencies, strict=True):
            scores[place] = saliency
    extractor = replace(scored.extractor, discretizer=learn_cutoff(config.make_discretizer(), scores))
    return replace(scored, extractor=extractor, scores=scores)


def split_folds(examples: Sequence[Example], n_folds: int, seed: int) -> list[IntArray]:
    """Split documents into folds of about equal size at random; documents with the same words stay together."""
    groups: dict[tuple[str, ...], list[int]] = {}
    for number, example in enumerate(examples):
        groups.setdefault(example.document.words, []).append(number)
    if len(groups) < n_folds:
        raise DataError(f"folds={n_folds} is more than the {len(groups)} different training documents. Choose fewer.")
    listed = list(groups.values())
    folds: list[list[int]] = [[] for _ in range(n_folds)]
    for place in np.random.default_rng((seed, n_folds)).permutation(len(groups)).tolist():
        min(folds, key=len).extend(listed[place])
    return [np.array(sorted(fold), dtype=np.int64) for fold in folds]


def _too_few(config: FreshConfig) -> DataError:
    return DataError(f"folds={config.folds} leaves too few documents to train on. Choose fewer folds.")


def cut_examples(examples: Sequence[Example], masks: Sequence[Mask]) -> list[tuple[Rationale, str]]:
    """Cut documents to rationales, with their labels."""
    return [(example.document.cut(mask), example.label) for example, mask in zip(examples, masks, strict=True)]


def cut_splits(splits: Splits, masks: Sequence[Mask], dev_masks: Sequence[Mask]) -> TrainingPairs[Rationale]:
    """Cut train and dev to rationales."""
    return TrainingPairs(cut_examples(splits.train, masks), cut_examples(splits.dev, dev_masks))


def cut_to_many_lengths(
    splits: Splits, scored: ScoredSplits, config: CutConfig, ratios: Range
) -> TrainingPairs[Rationale]:
    """Cut documents to rationales of many lengths: train in versions of random lengths, dev at a few ratios."""
    generator = np.random.default_rng((config.train.seed, len(splits.train)))
    lengths = np.array(ratios.spread(N_LENGTHS))
    pairs: list[tuple[Rationale, str]] = []
    for _ in range(N_VERSIONS):
        sampled, masks = lengths[generator.integers(N_LENGTHS, size=len(splits.train))], dict[int, Mask]()
        for ratio in np.unique(sampled).tolist():  # all documents of one ratio at once
            places = np.flatnonzero(sampled == ratio).tolist()
            selected = select_masks(config.make_discretizer(ratio), [scored.scores[place] for place in places])
            masks.update(zip(places, selected, strict=True))
        pairs += cut_examples(splits.train, [masks[place] for place in range(len(splits.train))])
    dev_pairs: list[tuple[Rationale, str]] = []
    for ratio in ratios.spread(N_DEV_LENGTHS):
        dev_pairs += cut_examples(splits.dev, select_masks(config.make_discretizer(ratio), scored.dev_scores))
    return TrainingPairs(pairs, dev_pairs, N_VERSIONS)
