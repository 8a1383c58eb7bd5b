"""What every method makes: a model, and which words of train and of dev it kept; and how rationales become lessons."""

from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np

from fresh.attribution.support_model import SupportModel
from fresh.document import Example, Mask, Saliency
from fresh.methods.config import CutConfig, NetworksConfig, Range
from fresh.nn.encoder import pinned
from fresh.predictor import TrainingPairs
from fresh.rationale import Rationale
from fresh.rationalizer import Rationalizer
from fresh.selection.extractors import select_masks

N_VERSIONS = 8
"""Versions of each training rationale, of various lengths, through which the epochs go in turn."""
N_LENGTHS = 32
"""Different ratios of a range that training meets."""
N_DEV_LENGTHS = 4
"""Different ratios of a range at which a state is judged."""


@dataclass(frozen=True, slots=True)
class MethodResult:
    """What training made, and which words of train and of dev it kept."""

    model: Rationalizer
    find_masks: Callable[[], list[Mask]]
    """Says which words of train are kept; that may take a while, and not everybody asks."""
    find_dev_masks: Callable[[], list[Mask]]
    support: SupportModel | None = None
    """A model of full text that was trained on the way, if any."""
    kept_by_gate: float | None = None
    """Share of the words of dev that a gate, if there is one, is likely to keep before it is cut to its length."""

    @property
    def masks(self) -> list[Mask]:
        """Which words of train are kept."""
        return self.find_masks()

    @property
    def dev_masks(self) -> list[Mask]:
        """Which words of dev are kept."""
        return self.find_dev_masks()


def cut_examples(examples: Sequence[Example], masks: Sequence[Mask]) -> list[tuple[Rationale, str]]:
    """Cut documents to their rationales, and put the labels beside them."""
    return [(example.document.cut(mask), example.label) for example, mask in zip(examples, masks, strict=True)]


def pairs_of_many_lengths(
    train: tuple[Sequence[Example], Sequence[Saliency]],
    dev: tuple[Sequence[Example], Sequence[Saliency]],
    config: CutConfig,
    ratios: Range,
) -> TrainingPairs:
    """Cut documents to rationales of lengths drawn from a range: each anew for some epochs, those of dev at a few."""
    examples, scores = train
    generator = np.random.default_rng((config.train.seed, len(examples)))
    lengths = ratios.spread(N_LENGTHS)
    pairs: list[tuple[Rationale, str]] = []
    for _ in range(N_VERSIONS):
        drawn = generator.integers(N_LENGTHS, size=len(examples))
        pairs += cut_examples(examples, _select_various(scores, [lengths[place] for place in drawn.tolist()], config))
    dev_examples, dev_scores = dev
    dev_pairs = [
        pair
        for ratio in ratios.spread(N_DEV_LENGTHS)
        for pair in cut_examples(dev_examples, _select_various(dev_scores, [ratio] * len(dev_scores), config))
    ]
    return TrainingPairs(pairs, dev_pairs, N_VERSIONS)


def _select_various(scores: Sequence[Saliency], ratios: Sequence[float], config: CutConfig) -> list[Mask]:
    """Cut the scores of each document at a ratio of its own."""
    masks: dict[int, Mask] = {}
    for ratio in sorted(set(ratios)):
        places = [place for place, own in enumerate(ratios) if own == ratio]
        found = select_masks(config.make_discretizer(ratio), [scores[place] for place in places])
        masks.update(zip(places, found, strict=True))
    return [masks[place] for place in range(len(scores))]


def settings_record(config: NetworksConfig, method: str) -> dict[str, Any]:
    """Turn settings into plain values for a card: an encoder of the hub with its commit, no path of this machine."""
    settings = {"method": method, **asdict(config)}
    encoder = Path(config.network.encoder)
    settings["network"]["encoder"] = encoder.resolve().name if encoder.is_dir() else pinned(config.network.encoder)
    return settings
