"""What runs share: support models and the scores of all documents, each made once and kept in a folder."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from fresh.data import Splits
from fresh.document import Document, Saliency
from fresh.methods.marking import SUPPORT, build_scorer
from fresh.methods.settings import FreshConfig
from fresh.rationale import Words
from fresh.support import Support
from fresh.training import Watch
from fresh.whole_file import written_whole

PARTS = ("train", "dev", "test")
SCORES = "scores.npz"


@dataclass(frozen=True, slots=True)
class Known:
    """A scorer that only says again what another one said."""

    scores: Mapping[tuple[str, Words, Words], Saliency]

    def score(self, documents: Sequence[Document]) -> list[Saliency]:
        """Return what is known of each document."""
        return [self.scores[told_apart(document)] for document in documents]


def told_apart(document: Document) -> tuple[str, Words, Words]:
    """Take what tells a document from others."""
    return document.id, document.words, document.query


def support_of(splits: Splits, config: FreshConfig, watch: Watch) -> Support:
    """Train a support model, or go on with the one that is kept in the watch's folder, to its end."""
    return Support.train(splits.train, splits.dev, config.classifier, watch.named(SUPPORT))


def is_kept(folder: Path) -> bool:
    """Say whether scores are there."""
    return (folder / SCORES).is_file()


def keep_scores(folder: Path, splits: Splits, config: FreshConfig, support: Support) -> None:
    """Score all documents and write the scores to a file."""
    scorer = build_scorer(config, support, None)
    arrays: dict[str, np.ndarray] = {}
    for part in PARTS:
        found = scorer.score([example.document for example in getattr(splits, part)])
        arrays[f"{part} scores"] = np.concatenate([saliency.scores for saliency in found])
        arrays[f"{part} targets"] = np.array([saliency.target for saliency in found])
        arrays[f"{part} read"] = np.array([-1 if item.n_read is None else item.n_read for item in found])
    folder.mkdir(parents=True, exist_ok=True)
    with written_whole(folder / SCORES) as place, place.open("wb") as file:
        np.savez(file, **arrays)  # type: ignore[arg-type]


def read_scores(folder: Path, splits: Splits) -> Known:
    """Read the scores of all documents."""
    known: dict[tuple[str, Words, Words], Saliency] = {}
    with np.load(folder / SCORES, allow_pickle=False) as arrays:
        for part in PARTS:
            documents = [example.document for example in getattr(splits, part)]
            ends = np.cumsum([len(document.words) for document in documents])
            scores = np.split(arrays[f"{part} scores"], ends[:-1])
            others = (arrays[f"{part} targets"].tolist(), arrays[f"{part} read"].tolist())
            for document, own, target, n_read in zip(documents, scores, *others, strict=True):
                known[told_apart(document)] = Saliency(own, target, document.id, None if n_read < 0 else n_read)
    return Known(known)
