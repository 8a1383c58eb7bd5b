"""The independent reader: a predictor of random words, which shares no code with any extractor (Jethani et al., 2021).

An extractor reads everything, so it could tell a predictor that is trained on its rationales what to answer, by which
harmless words it selects. A predictor that was trained on random words of the same documents, without any extractor,
has learned no such code. It is kept in the folder of the model that it judges, or as a model of its own, which reads
every word of what it is given.
"""

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import TypeVar

import numpy as np

from fresh.data.fingerprints import TrainingFingerprints
from fresh.data.splits import Splits
from fresh.document import Example, Mask
from fresh.errors import ModelError
from fresh.methods.config import CutConfig
from fresh.methods.rationales import cut_examples
from fresh.methods.registry import settings_record
from fresh.predictor import Predictor
from fresh.rationale import Rationale
from fresh.rationalizer import Rationalizer
from fresh.selection.discretizers import budget
from fresh.selection.extractors import FullText
from fresh.training.config import ClassifierConfig
from fresh.training.fit import TrainingPairs
from fresh.training.loop import RunContext

SomeConfig = TypeVar("SomeConfig", bound=ClassifierConfig)
METHOD, NAME = "independent", "independent reader"
_N_VERSIONS = 8  # of each training document at most, which the epochs read in turn


def train_independent(splits: Splits, config: ClassifierConfig, context: RunContext | None = None) -> Rationalizer:
    """Train an independent reader as a model of its own, for models that were trained without one.

    :param config: Settings of a method. The seed plays no part, as in `shared_config`.
    """
    shared = shared_config(config)
    [predictor] = train_readers(splits, [shared], context or RunContext())
    needs_query = bool(splits.train[0].document.query)
    settings = settings_record(METHOD, ClassifierConfig(shared.network, shared.train))
    texts = TrainingFingerprints.from_documents(example.document for example in (*splits.train, *splits.dev))
    return Rationalizer(FullText(), predictor, settings, needs_query, fingerprints=texts)


def shared_config(config: SomeConfig) -> SomeConfig:
    """Return the settings of a reader that judges other predictors: with one seed, so that all runs can share it."""
    return replace(config, train=replace(config.train, seed=0))


def train_readers(splits: Splits, configs: Sequence[ClassifierConfig], context: RunContext) -> list[Predictor]:
    """Train a predictor on random words of the documents for each of several settings, such as seeds, side by side."""
    data = []
    for config in configs:
        ratio = config.one_ratio if isinstance(config, CutConfig) else CutConfig().one_ratio
        n_versions = min(_N_VERSIONS, config.train.epochs)
        # A generator for each version: a training that is resumed with more or fewer epochs reads the same words.
        dev, *versions = (
            _cut_at_random(splits.train if version else splits.dev, ratio, (config.train.seed, version))
            for version in range(n_versions + 1)
        )
        data.append(TrainingPairs([pair for version in versions for pair in version], dev, n_versions))
    return Predictor.train_many(data, configs, context.with_name(NAME))


def _cut_at_random(examples: Sequence[Example], ratio: float, seed: tuple[int, int]) -> list[tuple[Rationale, str]]:
    generator = np.random.default_rng(seed)
    masks = [sample_mask(len(example.document.words), ratio, generator) for example in examples]
    return cut_examples(examples, masks)


def sample_mask(n_words: int, ratio: float, generator: np.random.Generator) -> Mask:
    """Sample words, scattered or in one run: as many as a rationale has, or any number, short ones more often."""
    n_kept = budget(n_words, ratio) if generator.random() < 0.5 else round(n_words ** generator.random())
    kept = np.zeros(n_words, dtype=np.bool_)
    if generator.random() < 0.5:
        start = int(generator.integers(n_words - n_kept + 1))
        kept[start : start + n_kept] = True
    else:
        kept[generator.choice(n_words, n_kept, replace=False)] = True
    return Mask(kept)


def is_independent(model: Rationalizer) -> bool:
    """Say whether the predictor of a model is itself an independent reader."""
    return model.settings.get("predictor") == METHOD or model.settings.get("method") == METHOD


def find_mismatch(reader: Rationalizer, model: Rationalizer) -> str | None:
    """Say why a reader cannot judge the rationales of a model, if anything."""
    if reader.settings.get("method") != METHOD:
        return "is a model, but no independent reader."
    if reader.labels != model.labels:
        return f"answers with {', '.join(reader.labels)}, but the model with {', '.join(model.labels)}."
    if reader.needs_query != model.needs_query:
        return "was trained with queries, but the model without, or the other way round."
    own, other = (each.settings.get("network", {}).get("encoder") for each in (reader, model))
    if own != other:
        return f"has the encoder {own}, but the model has {other}."
    # A model that was shared on the hub has no digests of its texts.
    mine, others = reader.fingerprints, model.fingerprints
    if mine is not None and others is not None and not np.array_equal(mine.digests, others.digests):
        return "was trained on other texts than the model."
    return None


def load_reader(folder: str | Path, model: Rationalizer, device: str = "auto") -> Rationalizer:
    """Load a reader; raise if it was trained with another corpus, encoder or set of labels than a model."""
    reader = Rationalizer.from_pretrained(folder, device=device)
    problem = find_mismatch(reader, model)
    if problem is not None:
        raise ModelError(f"{folder} {problem} Train one for this model: fresh.methods.train_independent.")
    return reader
