"""Work that runs share: support models, gates, and the scores of all documents, each made once."""

import zipfile
import zlib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

import numpy as np

from fresh._io import atomic_write
from fresh.attribution import is_targeted
from fresh.attribution.support_model import SupportModel
from fresh.audit.target_class import other_targets, score_for
from fresh.data.splits import Splits
from fresh.document import Document, Saliency
from fresh.methods.bastings import Bastings
from fresh.methods.config import RATIO_DISCRETIZERS, FreshConfig, GateConfig, LeiConfig
from fresh.methods.joint import fit_joint
from fresh.methods.lei import Lei
from fresh.methods.rationales import build_scorer, score_all
from fresh.rationale import Words
from fresh.training.checkpoint import is_training_complete
from fresh.training.config import TrainConfig
from fresh.training.loop import RunContext, inference_precision

PARTS = ("train", "dev", "test")
SCORES_FILE = "scores.npz"
_OTHERS = "test scores for "
DocumentKey = tuple[str, Words, Words]


@dataclass(frozen=True, slots=True)
class StoredScores:
    """A scorer that looks up stored scores."""

    saliencies: Mapping[DocumentKey, Saliency]
    notes: tuple[str, ...] = ()  # warnings from the training of the support model
    for_others: Mapping[str, Sequence[Saliency]] = field(default_factory=dict)
    """Scores of the test documents for other classes than the predicted one, by the name of the class."""

    def score(self, documents: Sequence[Document]) -> list[Saliency]:
        """Look up the scores of documents."""
        return [self.saliencies[_document_key(document)] for document in documents]

    def share_unread(self, documents: Sequence[Document]) -> float:
        """Compute the share of words that the support model did not read."""
        pairs = [(saliency.n_read, len(saliency.scores)) for saliency in self.score(documents)]
        return 1 - sum(n if n_read is None else n_read for n_read, n in pairs) / sum(n for _, n in pairs)


def _document_key(document: Document) -> DocumentKey:
    return document.id, document.words, document.query


def is_trained(config: TrainConfig, context: RunContext) -> bool:
    """Return whether the context's folder holds a network whose training is complete."""
    return is_training_complete(context.checkpoint_path, config.epochs, config.patience)


def train_gate(splits: Splits, config: GateConfig, context: RunContext) -> None:
    """Train a gate, and keep the best state for each way to cut it; the context has the name of the method."""
    # One training serves all cuts, which affect only which epoch is best on dev.
    first, *others = RATIO_DISCRETIZERS
    method = Lei if isinstance(config, LeiConfig) else Bastings
    fit_joint(method, splits, replace(config, discretizer=first), context, others)


def gate_context(discretizer: str, context: RunContext) -> RunContext:
    """Return the context with a gate's best state for one way to cut it."""
    is_first = discretizer == RATIO_DISCRETIZERS[0]
    return context if is_first or context.folder is None else replace(context, folder=context.folder / discretizer)


def save_scores(
    folder: Path, splits: Splits, config: FreshConfig, support: SupportModel, context: RunContext, audit: bool = False
) -> None:
    """Score all documents in the precision of training, and write the scores and the training's notes to a file.

    :param audit: Score the test documents for other classes too.
    """
    scorer = build_scorer(config, support, None)
    arrays: dict[str, np.ndarray] = {"notes": np.array(context.notes, dtype=str)}
    for part in PARTS:
        with inference_precision(support.classifier, config.train):
            saliencies = score_all(scorer, getattr(splits, part), context.progress, f"scores of {part}")
        arrays[f"{part} scores"] = np.concatenate([saliency.scores for saliency in saliencies])
        arrays[f"{part} targets"] = np.array([saliency.target for saliency in saliencies])
        # -1 for documents that were read as a whole: an array of integers has no None.
        arrays[f"{part} read"] = np.array([-1 if item.n_read is None else item.n_read for item in saliencies])
    if audit and is_targeted(scorer):
        documents = [example.document for example in splits.test]
        with inference_precision(support.classifier, config.train):
            for name, targets in other_targets(scorer, documents, config.train.seed).items():
                saliencies = score_for(scorer, documents, targets, context.progress)
                arrays[f"{_OTHERS}{name}"] = np.concatenate([saliency.scores for saliency in saliencies])
    folder.mkdir(parents=True, exist_ok=True)
    with atomic_write(folder / SCORES_FILE) as place, place.open("wb") as file:
        np.savez(file, **arrays)  # type: ignore[arg-type]


def load_scores(folder: Path, splits: Splits) -> StoredScores | None:
    """Read the scores of all documents; None if they are missing, damaged, or for other documents."""
    try:
        with np.load(folder / SCORES_FILE, allow_pickle=False) as arrays:
            saliencies = {key: own for part in PARTS for key, own in _read_part(arrays, part, splits)}
            ends = np.cumsum([len(example.document.words) for example in splits.test])
            others = {
                name.removeprefix(_OTHERS): [Saliency(scores, "") for scores in np.split(arrays[name], ends[:-1])]
                for name in arrays.files
                if name.startswith(_OTHERS)
            }
            return StoredScores(saliencies, tuple(arrays["notes"].tolist()), others)
    # Which of these numpy raises depends on where a file is cut off, or on which of its bytes has changed.
    except (OSError, ValueError, KeyError, EOFError, zipfile.BadZipFile, zlib.error):
        return None


def _read_part(arrays: Mapping[str, np.ndarray], part: str, splits: Splits) -> Iterator[tuple[DocumentKey, Saliency]]:
    documents = [example.document for example in getattr(splits, part)]
    ends = np.cumsum([len(document.words) for document in documents])
    scores = arrays[f"{part} scores"]
    if len(scores) != ends[-1]:
        raise ValueError(f"There are {len(scores)} scores for {ends[-1]} words.")
    columns = np.split(scores, ends[:-1]), arrays[f"{part} targets"].tolist(), arrays[f"{part} read"].tolist()
    for document, own, target, n_read in zip(documents, *columns, strict=True):
        yield _document_key(document), Saliency(own, target, document.id, None if n_read < 0 else n_read)
