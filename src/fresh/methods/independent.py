"""The independent reader: a predictor of random words, which shares no code with any extractor (Jethani et al., 2021).

An extractor reads everything, so it could tell a predictor that is trained on its rationales what to answer, by which
harmless words it selects. A predictor that was trained on random words of the same documents, without any extractor,
has learned no such code. It is kept as a model that reads every word of what it is given.
"""

from dataclasses import replace
from pathlib import Path

import numpy as np

from fresh.data.fingerprints import TrainingFingerprints
from fresh.data.splits import Splits
from fresh.document import Example, Mask
from fresh.errors import ModelError
from fresh.methods.config import CutConfig
from fresh.methods.registry import settings_record
from fresh.predictor import Predictor
from fresh.rationale import Rationale
from fresh.rationalizer import Rationalizer
from fresh.selection.discretizers import budget
from fresh.selection.extractors import FullText
from fresh.training.config import ClassifierConfig
from fresh.training.fit import TrainingPairs
from fresh.training.loop import RunContext

METHOD, NAME = "independent", "independent reader"
_N_VERSIONS = 8  # of each training document, which the epochs read in turn


def train_independent(splits: Splits, config: ClassifierConfig, context: RunContext | None = None) -> Rationalizer:
    """Train a predictor on random words of the documents: half of the time as many as a rationale has.

    :param config: Settings of a method. The seed plays no part, so that runs that differ in it share a reader.
    """
    generator = np.random.default_rng(0)
    ratio = config.one_ratio if isinstance(config, CutConfig) else CutConfig().one_ratio

    def cut(examples: tuple[Example, ...]) -> list[tuple[Rationale, str]]:
        return [
            (item.document.cut(sample_mask(len(item.document.words), ratio, generator)), item.label)
            for item in examples
        ]

    own = ClassifierConfig(config.network, replace(config.train, seed=0))
    versions = [pair for _ in range(_N_VERSIONS) for pair in cut(splits.train)]
    data = TrainingPairs(versions, cut(splits.dev), _N_VERSIONS)
    [predictor] = Predictor.train_many([data], [own], (context or RunContext()).with_name(NAME))
    needs_query = bool(splits.train[0].document.query)
    settings = settings_record(METHOD, own)
    texts = TrainingFingerprints.from_documents(example.document for example in (*splits.train, *splits.dev))
    return Rationalizer(FullText(), predictor, settings, needs_query, fingerprints=texts)


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
