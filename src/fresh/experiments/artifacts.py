"""What runs share: support models and the scores of all documents, each made once and kept in a folder."""

import contextlib
import itertools
import zipfile
import zlib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np

from fresh._io import atomic_write
from fresh.attribution.support_model import SupportModel
from fresh.data.splits import Splits
from fresh.document import Document, Saliency
from fresh.experiments.store import BusyError, RunStore
from fresh.methods import bastings, lei
from fresh.methods.config import RATIO_DISCRETIZERS, BastingsConfig, FreshConfig, GateConfig, LeiConfig
from fresh.methods.joint import fit_joint
from fresh.methods.rationales import SUPPORT, build_scorer, score_all
from fresh.persistence import remove_folder
from fresh.rationale import Words
from fresh.training.checkpoint import is_training_complete
from fresh.training.config import ClassifierConfig, TrainConfig
from fresh.training.loop import RunContext, inference_precision

PARTS = ("train", "dev", "test")
SCORES = "scores.npz"


@dataclass(frozen=True, slots=True)
class Known:
    """A scorer that only says again what another one said."""

    scores: Mapping[tuple[str, Words, Words], Saliency]
    notes: tuple[str, ...] = ()
    """What somebody should know who relies on them."""

    def score(self, documents: Sequence[Document]) -> list[Saliency]:
        """Return what is known of each document."""
        return [self.scores[_told_apart(document)] for document in documents]

    def share_unread(self, documents: Sequence[Document]) -> float:
        """Compute the share of all words that the support model did not read."""
        n_words = [len(document.words) for document in documents]
        read = [item.n_read for item in self.score(documents)]
        n_read = sum(whole if n is None else n for n, whole in zip(read, n_words, strict=True))
        return 1 - n_read / sum(n_words)


def _told_apart(document: Document) -> tuple[str, Words, Words]:
    """Take what tells a document from others."""
    return document.id, document.words, document.query


def support_of(splits: Splits, config: ClassifierConfig, context: RunContext) -> SupportModel:
    """Train a support model, or go on with the one that is kept in the watch's folder, to its end."""
    return SupportModel.train(splits.train, splits.dev, config, context.with_name(SUPPORT))


def is_trained(config: TrainConfig, context: RunContext) -> bool:
    """Say whether a network is kept that was trained to its end."""
    return is_training_complete(context.checkpoint_path, config.epochs, config.patience)


def train_gate(splits: Splits, config: GateConfig, context: RunContext) -> None:
    """Train a gate, and keep the states that are best for each way to cut it.

    :param watch: Has the name of the method.
    """
    own, *others = RATIO_DISCRETIZERS
    assert isinstance(config, LeiConfig | BastingsConfig)
    objective = lei.make_objective(config) if isinstance(config, LeiConfig) else bastings.make_objective(config)
    fit_joint(splits, replace(config, discretizer=own), objective, context, others)


def kept_for(discretizer: str, context: RunContext) -> RunContext:
    """Say where the state of a gate is that is best for how it is cut."""
    return context if discretizer == RATIO_DISCRETIZERS[0] else context.in_subfolder(discretizer)


def is_kept(folder: Path) -> bool:
    """Say whether scores are there."""
    return (folder / SCORES).is_file()


def keep_scores(folder: Path, splits: Splits, config: FreshConfig, support: SupportModel, context: RunContext) -> None:
    """Score all documents and write the scores to a file.

    It is done with the numbers that training computes with.

    :param watch: Has what was noted while the support model was trained.
    """
    scorer = build_scorer(config, support, None)
    arrays: dict[str, np.ndarray] = {"notes": np.array(context.notes, dtype=str)}
    for part in PARTS:
        with inference_precision(support.classifier, config.train):
            found = score_all(scorer, getattr(splits, part), context.progress, f"scores of {part}")
        arrays[f"{part} scores"] = np.concatenate([saliency.scores for saliency in found])
        arrays[f"{part} targets"] = np.array([saliency.target for saliency in found])
        arrays[f"{part} read"] = np.array([-1 if item.n_read is None else item.n_read for item in found])
    folder.mkdir(parents=True, exist_ok=True)
    with atomic_write(folder / SCORES) as place, place.open("wb") as file:
        np.savez(file, **arrays)  # type: ignore[arg-type]


def read_scores(folder: Path, splits: Splits) -> Known | None:
    """Read the scores of all documents, if they are there and whole."""
    try:
        with np.load(folder / SCORES, allow_pickle=False) as arrays:
            known = dict(itertools.chain.from_iterable(_scores_in(arrays, part, splits) for part in PARTS))
            return Known(known, tuple(arrays["notes"].tolist()))
    except (OSError, ValueError, KeyError, EOFError, zipfile.BadZipFile, zlib.error):
        return None


def _scores_in(
    arrays: Mapping[str, np.ndarray], part: str, splits: Splits
) -> Iterator[tuple[tuple[str, Words, Words], Saliency]]:
    """Give each document of a part of the corpus its scores."""
    documents = [example.document for example in getattr(splits, part)]
    ends = np.cumsum([len(document.words) for document in documents])
    scores = arrays[f"{part} scores"]
    if len(scores) != ends[-1]:
        raise ValueError(f"There are {len(scores)} scores for {ends[-1]} words.")
    others = (arrays[f"{part} targets"].tolist(), arrays[f"{part} read"].tolist())
    for document, own, target, n_read in zip(documents, np.split(scores, ends[:-1]), *others, strict=True):
        yield _told_apart(document), Saliency(own, target, document.id, None if n_read < 0 else n_read)


def drop_shared(runs: RunStore, key: str) -> None:
    """Remove what runs share, unless somebody is at it just now."""
    with contextlib.suppress(BusyError), runs.claimed(key):
        remove_folder(runs.shared(key))
