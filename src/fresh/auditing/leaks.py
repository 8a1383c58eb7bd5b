"""What a mask gives away by its shape alone, without the words it keeps."""

import warnings
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fresh.auditing.shapes import Features, count_features, document_features, length_features, shape_features
from fresh.document import Mask
from fresh.extras import load_extra

Codes = NDArray[np.int64]

N_SHUFFLES = 99
"""Labels are shuffled so often; the smallest p is one hundredth."""
N_FOLDS = 3
"""Parts of the masks, each guessed by classifiers that learnt from the others."""
LEAST = 10
"""Masks that a label needs; rarer labels are left out."""
MOST = 2_000
"""Masks that are looked at; of more, so many are drawn."""
ALARM = 0.01
"""A p that is no higher counts as a leak."""
PURPOSE = "The check of what masks give away"


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
            return f"No clear sign that {self.source} gives the {self.target} away: {figures}."
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
            said += (
                "The length of the document is no choice of the extractor: what it gives away is no leak of the mask.",
            )
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
    check(masks, labels, texts, n_shuffles)
    apart = one_of_each(texts, seed) if texts is not None else list(range(len(masks)))
    counts = Counter(labels[row] for row in apart)
    left_out = tuple(sorted(label for label in set(labels) if counts[label] < LEAST))
    rows = drawn([row for row in apart if counts[labels[row]] >= LEAST], seed)
    usable, codes = [masks[row] for row in rows], encoded([labels[row] for row in rows])
    n_labels = len(set(codes.tolist()))

    def guess(source: str, plain: Features, more: Features) -> Leak:
        seen = measure(Traces.of(plain, more), codes, n_shuffles, seed)
        return Leak(source, target, *seen, n_masks=len(rows), n_labels=n_labels, left_out=left_out)

    if n_labels < 2:
        alone = (1.0, 1.0, 1.0, 1.0, 1.0, len(rows), n_labels, left_out)  # who knows one label is always right
        return Leaks(*(Leak(source, target, *alone) for source in SOURCES))
    counted, none = count_features(usable), np.zeros((len(rows), 0))
    return Leaks(
        guess(SOURCES[0], shape_features(usable), counted),
        guess(SOURCES[1], length_features(usable), counted),
        guess(SOURCES[2], document_features(usable), none),
    )


SOURCES = ("the mask alone", "the length of the rationale alone", "the length of the document alone")


@dataclass(frozen=True, slots=True)
class Traces:
    """What each classifier sees of the masks."""

    plain: NDArray[np.float32]
    """For the tree."""
    scaled: Features
    """For the logistic regression: standardised over all masks, which uses no label."""

    @classmethod
    def of(cls, plain: Features, more: Features) -> "Traces":
        """Standardise; columns that never change are left out."""
        whole = np.hstack([plain, more])
        spread = whole.std(axis=0)
        moving = spread > 1e-9 * (1 + np.abs(whole).max(axis=0))
        scaled = (whole[:, moving] - whole[:, moving].mean(axis=0)) / spread[moving]
        return cls(plain.astype(np.float32), np.hstack([scaled, np.zeros((len(whole), 1))]))


def measure(traces: Traces, codes: Codes, n_shuffles: int, seed: int) -> tuple[float, float, float, float, float]:
    """Guess the labels, and shuffled ones many times.

    :return: Score of each classifier, mean and 95th percentile of the better score on shuffled labels, p.
    """
    generator = np.random.default_rng(seed)
    learn = load_extra("sklearn", "sklearn", PURPOSE)
    with warnings.catch_warnings(), learn.config_context(skip_parameter_validation=True, assume_finite=True):
        warnings.simplefilter("ignore")  # a regression that has not quite settled guesses well enough
        linear, tree = cross_validate(traces, codes, generator)
        shuffled = [max(cross_validate(traces, generator.permutation(codes), generator)) for _ in range(n_shuffles)]
    as_good = sum(score >= max(linear, tree) for score in shuffled)
    p = (1 + as_good) / (1 + n_shuffles)
    return linear, tree, float(np.mean(shuffled)), float(np.percentile(shuffled, 95)), p


def cross_validate(traces: Traces, codes: Codes, generator: np.random.Generator) -> tuple[float, float]:
    """Guess each part from the others and score all guesses together, for each classifier."""
    parts = folds(codes, generator)
    weights = 1 / np.bincount(codes)[codes]  # so that each label counts the same
    scores: list[float] = []
    models: tuple[tuple[Any, Features | NDArray[np.float32]], ...] = tuple(
        zip(classifiers(), (traces.scaled, traces.plain), strict=True)
    )
    for model, seen in models:
        guesses = np.zeros_like(codes)
        for part in range(N_FOLDS):
            held = parts == part
            model.fit(seen[~held], codes[~held], weights[~held] / weights[~held].mean())
            guesses[held] = model.predict(seen[held])
        scores.append(balanced_accuracy(codes, guesses))
    return scores[0], scores[1]


def classifiers() -> tuple[Any, Any]:
    """Make the two classifiers: one that weighs and adds, one that asks a few questions in turn."""
    linear = load_extra("sklearn.linear_model", "sklearn", PURPOSE)
    tree = load_extra("sklearn.tree", "sklearn", PURPOSE)
    return (
        linear.LogisticRegression(C=0.1, tol=1e-2),
        tree.DecisionTreeClassifier(max_depth=4, min_samples_leaf=5, random_state=0),
    )


def folds(codes: Codes, generator: np.random.Generator) -> Codes:
    """Give each mask a part, with the same mix of labels in each."""
    order = generator.permutation(len(codes))
    order = order[np.argsort(codes[order], kind="stable")]
    parts = np.empty_like(codes)
    parts[order] = np.arange(len(codes)) % N_FOLDS
    return parts


def balanced_accuracy(gold: Codes, guesses: Codes) -> float:
    """Take the mean over labels of the share that was guessed right."""
    right = np.bincount(gold, weights=gold == guesses)
    return float((right / np.bincount(gold)).mean())


def encoded(labels: Sequence[str]) -> Codes:
    """Give each label that there is a number, from 0."""
    places = {label: place for place, label in enumerate(sorted(set(labels)))}
    return np.array([places[label] for label in labels], dtype=np.int64)


def one_of_each(texts: Sequence[str], seed: int) -> list[int]:
    """Draw one row of each text."""
    order = np.random.default_rng(seed).permutation(len(texts)).tolist()
    return sorted({texts[row]: row for row in order}.values())


def drawn(rows: list[int], seed: int) -> list[int]:
    """Draw rows where there are too many."""
    if len(rows) <= MOST:
        return rows
    return sorted(np.random.default_rng(seed).choice(rows, size=MOST, replace=False).tolist())


def check(masks: Sequence[Mask], labels: Sequence[str], texts: Sequence[str] | None, n_shuffles: int) -> None:
    """Refuse masks without a label or text, and too little shuffling."""
    if len(masks) != len(labels):
        raise ValueError(f"There are {len(masks)} masks but {len(labels)} labels. Give one each.")
    if texts is not None and len(texts) != len(masks):
        raise ValueError(f"There are {len(masks)} masks but {len(texts)} texts. Give one each.")
    if not len(masks):
        raise ValueError("There are no masks to look at. Give at least one.")
    if n_shuffles < 99:
        raise ValueError(f"n_shuffles must be at least 99, got {n_shuffles}: with fewer no p can be as low as {ALARM}.")
