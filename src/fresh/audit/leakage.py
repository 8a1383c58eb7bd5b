"""What a mask gives away by its shape alone, without the words it keeps."""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from fresh.audit.mask_features import (
    Features,
    count_features,
    document_features,
    length_features,
    shape_features,
    shown_features,
)
from fresh.audit.probes import Codes, Traces, measure
from fresh.document import Mask

N_SHUFFLES = 99
"""Labels are shuffled so often; the smallest p is one hundredth."""
LEAST = 10
"""Masks that a label needs; rarer labels are left out."""
MOST = 2_000
"""Masks that are looked at; of more, so many are drawn."""
ALARM = 0.01
"""A p that is no higher counts as a leak."""
NO_CHOICE = (
    "The extractor does not choose the document's length, so what the length reveals is not a leak through the mask."
)


@dataclass(frozen=True, slots=True)
class Leak:
    """How well simple classifiers guess labels from one kind of trace, beside the same for shuffled labels."""

    source: str
    """What the classifiers saw."""
    target: str
    """What they guessed."""
    linear: float
    """Balanced accuracy of a logistic regression, cross-validated."""
    tree: float
    """Balanced accuracy of a small decision tree, cross-validated."""
    shuffled_mean: float
    """Mean score when the labels are shuffled."""
    shuffled_high: float
    """Score that 95 % of the shufflings do not exceed."""
    p: float
    """How often shuffled labels are guessed as well."""
    n_masks: int
    n_labels: int
    left_out: tuple[str, ...] = ()
    """Labels that are too rare to be guessed."""

    @property
    def score(self) -> float:
        """The better of the two classifiers; the better is taken for shuffled labels too, so that p stays honest."""
        return max(self.linear, self.tree)

    @property
    def found(self) -> bool:
        """Whether it is more than chance."""
        return self.p <= ALARM

    @property
    def verdict(self) -> str:
        """Say it in plain words."""
        if self.n_labels < 2:
            return f"There are no two {self.target}s with {LEAST} masks or more, so that none can be given away."
        figures = (
            f"balanced accuracy {self.score:.3f}; with shuffled {self.target}s {self.shuffled_mean:.3f} on average and "
            f"at most {self.shuffled_high:.3f} in 95 % of the shufflings; p = {self.p:.2f}"
        )
        if not self.found:
            says = f"No clear sign that {self.source} gives the {self.target} away: {figures}"
            return f"{says}, and only up to {ALARM} is it clear."
        gain = (self.score - self.shuffled_mean) / (1 - self.shuffled_mean)
        how = "a little" if gain < 0.1 else "in part" if gain < 0.5 else "for the most part"
        return f"{self.source[0].upper()}{self.source[1:]} gives the {self.target} away {how}: {figures}."


@dataclass(frozen=True, slots=True)
class Leaks:
    """What the whole mask gives away, what its length alone does, and what the document's length does anyway."""

    mask: Leak
    length: Leak
    document: Leak

    @property
    def verdicts(self) -> tuple[str, ...]:
        """Say it all in plain words, one sentence each."""
        said = tuple(leak.verdict for leak in (self.mask, self.length, self.document))
        if self.document.found and (self.mask.found or self.length.found):
            said += (NO_CHOICE,)
        left = self.mask.left_out
        if left:
            said += (f"Left out for having fewer than {LEAST} masks: {', '.join(left)}.",)
        return said


def find_leaks(
    masks: Sequence[Mask],
    labels: Sequence[str],
    target: str = "label",
    texts: Sequence[str] | None = None,
    n_shuffles: int = N_SHUFFLES,
    seed: int = 0,
) -> Leaks:
    """Try to guess labels from masks alone, from their lengths alone, and from the lengths of the documents.

    :param labels: A gold label, or the model's decision, for each mask.
    :param target: What the labels are, in the singular, for the verdicts.
    :param texts: Names the text of each mask, where several masks belong to one. Then one mask of each is drawn: else
        the length of a text would tell which text it is, and with it the labels that are known of its other masks.
    :param n_shuffles: How often labels are shuffled to see what chance gives.
    :param seed: Draws masks where there are many, parts, and shufflings.
    """
    data = _Usable.of(masks, labels, target, texts, n_shuffles, seed)
    if data.n_labels < 2:
        return Leaks(*(data.nothing(source) for source in SOURCES))
    counted, none = count_features(data.masks), np.zeros((len(data.masks), 0))
    return Leaks(
        data.guess(SOURCES[0], shape_features(data.masks), counted),
        data.guess(SOURCES[1], length_features(data.masks), counted),
        data.guess(SOURCES[2], document_features(data.masks), none),
    )


SOURCES = ("the mask alone", "the length of the rationale alone", "the length of the document alone")
WORDS_SHOWN = "the number of words shown alone"


def find_length_leak(
    masks: Sequence[Mask],
    labels: Sequence[str],
    target: str = "label",
    texts: Sequence[str] | None = None,
    n_shuffles: int = N_SHUFFLES,
    seed: int = 0,
) -> Leak:
    """Try to guess labels from the number of words shown, as a predictor could that counts words and reads none.

    Whether the length of the document gives the label away as well does not matter here. Parameters are those of
    `find_leaks`.
    """
    data = _Usable.of(masks, labels, target, texts, n_shuffles, seed)
    if data.n_labels < 2:
        return data.nothing(WORDS_SHOWN)
    return data.guess(WORDS_SHOWN, shown_features(data.masks), count_features(data.masks))


@dataclass(frozen=True, slots=True)
class _Usable:
    """Masks whose labels are frequent enough, and how these are guessed."""

    masks: Sequence[Mask]
    codes: Codes
    target: str
    left_out: tuple[str, ...]
    n_shuffles: int
    seed: int

    @classmethod
    def of(
        cls,
        masks: Sequence[Mask],
        labels: Sequence[str],
        target: str,
        texts: Sequence[str] | None,
        n_shuffles: int,
        seed: int,
    ) -> "_Usable":
        """Leave out rare labels, and sample where there are many masks."""
        _check(masks, labels, texts, n_shuffles)
        apart = _one_of_each(texts, seed) if texts is not None else list(range(len(masks)))
        counts = Counter(labels[row] for row in apart)
        left_out = tuple(sorted(label for label in set(labels) if counts[label] < LEAST))
        rows = _drawn([row for row in apart if counts[labels[row]] >= LEAST], seed)
        codes = _encoded([labels[row] for row in rows])
        return cls([masks[row] for row in rows], codes, target, left_out, n_shuffles, seed)

    @property
    def n_labels(self) -> int:
        """How many labels there are to guess."""
        return len(set(self.codes.tolist()))

    def guess(self, source: str, plain: Features, more: Features) -> Leak:
        """Guess labels from features, and shuffled labels many times."""
        seen = measure(Traces.of(plain, more), self.codes, self.n_shuffles, self.seed)
        return Leak(source, self.target, *seen, len(self.masks), self.n_labels, self.left_out)

    def nothing(self, source: str) -> Leak:
        """Say that there is nothing to guess: who knows one label is always right."""
        return Leak(source, self.target, 1.0, 1.0, 1.0, 1.0, 1.0, len(self.masks), self.n_labels, self.left_out)


def _encoded(labels: Sequence[str]) -> Codes:
    """Give each label that there is a number, from 0."""
    places = {label: place for place, label in enumerate(sorted(set(labels)))}
    return np.array([places[label] for label in labels], dtype=np.int64)


def _one_of_each(texts: Sequence[str], seed: int) -> list[int]:
    """Draw one row of each text."""
    order = np.random.default_rng(seed).permutation(len(texts)).tolist()
    return sorted({texts[row]: row for row in order}.values())


def _drawn(rows: list[int], seed: int) -> list[int]:
    """Draw rows where there are too many."""
    if len(rows) <= MOST:
        return rows
    return sorted(np.random.default_rng(seed).choice(rows, size=MOST, replace=False).tolist())


def _check(masks: Sequence[Mask], labels: Sequence[str], texts: Sequence[str] | None, n_shuffles: int) -> None:
    """Refuse masks without a label or text, and too little shuffling."""
    if len(masks) != len(labels):
        raise ValueError(f"There are {len(masks)} masks but {len(labels)} labels. Give one each.")
    if texts is not None and len(texts) != len(masks):
        raise ValueError(f"There are {len(masks)} masks but {len(texts)} texts. Give one each.")
    if not len(masks):
        raise ValueError("There are no masks to look at. Give at least one.")
    if n_shuffles < 99:
        raise ValueError(f"n_shuffles must be at least 99, got {n_shuffles}: with fewer no p can be as low as {ALARM}.")
