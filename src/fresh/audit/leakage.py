"""What a mask gives away by its shape alone, without the words that it keeps."""

import os
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from fresh.document import Explanation, Mask
from fresh.reporting.report import Verdict

# With 99 shuffles, the smallest p is 1 / 100: the alarm, which about one of a hundred harmless extractors raises.
N_SHUFFLES = 99
ALARM = 0.01
# Rarer labels are left out: with three folds, six or seven masks remain to learn a label from.
MIN_MASKS = 10
# A larger sample is reduced to this size, at which the probes of `find_leaks` take 5 s of one processor.
MAX_MASKS = 2_000
DOCUMENT_LENGTH_NOTE = (
    "The extractor does not choose the length of the document, so what this length reveals is not a leak through the "
    "mask."
)
COUNTING_NOTE = (
    "The predictor can count the words shown: predictions may be right because of their number, whatever the words "
    "say. This is so even if the number only reflects the length of the document."
)

Features = NDArray[np.float64]
# Labels as numbers from 0.
Codes = NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class Leak:
    """How well simple classifiers predict labels from one kind of trace, and how well they predict shuffled labels."""

    source: str
    """What the classifiers saw."""
    target: str
    """What they predicted."""
    linear: float
    """Balanced accuracy of a logistic regression, cross-validated."""
    tree: float
    """Balanced accuracy of a small decision tree, cross-validated."""
    shuffled_mean: float
    """Mean score on shuffled labels."""
    shuffled_high: float
    """Score that 95 % of the shuffles do not exceed."""
    p: float
    """How often shuffled labels are predicted as well."""
    n_masks: int
    n_labels: int
    left_out: tuple[str, ...] = ()
    """Labels that are too rare."""

    @property
    def score(self) -> float:
        """The better of the two classifiers; p stays honest, since the better one is taken for shuffled labels too."""
        return max(self.linear, self.tree)

    @property
    def found(self) -> bool:
        """Whether the score is better than chance."""
        return self.p <= ALARM

    @property
    def verdict(self) -> str:
        """The result in words."""
        if self.n_labels < 2:
            target = self.target
            return f"Fewer than two {target}s have {MIN_MASKS} masks or more, so no {target} can be given away."
        figures = (
            f"balanced accuracy {self.score:.3f}; with shuffled {self.target}s {self.shuffled_mean:.3f} on average and "
            f"at most {self.shuffled_high:.3f} in 95 % of the shuffles; p = {self.p:.2f}"
        )
        if not self.found:
            says = f"No clear sign that {self.source} gives the {self.target} away: {figures}"
            return f"{says}, where only {ALARM} or less is a clear sign."
        gain = (self.score - self.shuffled_mean) / (1 - self.shuffled_mean)
        extent = "a little" if gain < 0.1 else "in part" if gain < 0.5 else "for the most part"
        return f"{self.source[0].upper()}{self.source[1:]} gives the {self.target} away {extent}: {figures}."


@dataclass(frozen=True, slots=True)
class Leaks:
    """What the whole mask gives away, what its length alone does, and what the document's length does anyway."""

    mask: Leak
    length: Leak
    document: Leak

    @property
    def verdicts(self) -> tuple[str, ...]:
        """The results in words, one sentence each."""
        lines = [leak.verdict for leak in (self.mask, self.length, self.document)]
        if self.document.found and (self.mask.found or self.length.found):
            lines.append(DOCUMENT_LENGTH_NOTE)
        if self.mask.left_out:
            lines.append(f"Left out for having fewer than {MIN_MASKS} masks: {', '.join(self.mask.left_out)}.")
        return tuple(lines)


def find_leaks(
    masks: Sequence[Mask],
    labels: Sequence[str],
    target: str = "label",
    texts: Sequence[str] | None = None,
    n_shuffles: int = N_SHUFFLES,
    seed: int = 0,
) -> Leaks:
    """Predict labels from masks alone, from their lengths alone, and from the lengths of the documents.

    :param labels: A gold label, or the model's decision, for each mask.
    :param target: What the labels are, in the singular, for the verdicts.
    :param texts: The text of each mask, where several masks share one. Then one mask of each is sampled: otherwise the
        length of a text would identify it, and with it the labels of its other masks.
    :param n_shuffles: How often labels are shuffled to find what chance gives.
    :param seed: Seeds the sample of masks, the folds and the shuffles.
    """
    sources = {
        "the mask alone": (shape_features, count_features),
        "the length of the rationale alone": (length_features, count_features),
        "the length of the document alone": (lambda masks: number_features(np.array(list(map(len, masks)))),),
    }
    return Leaks(*_probe(sources, masks, labels, target, texts, n_shuffles, seed))


def find_length_leak(
    masks: Sequence[Mask],
    labels: Sequence[str],
    target: str = "label",
    texts: Sequence[str] | None = None,
    n_shuffles: int = N_SHUFFLES,
    seed: int = 0,
) -> Leak:
    """Predict labels from the number of words shown, as a predictor could that counts words and reads none.

    Whether the length of the document also gives the label away makes no difference here. The parameters are those
    of `find_leaks`.
    """
    # A predictor can count the words shown, but it cannot know their share.
    sources = {"the number of words shown alone": (lambda masks: number_features(_count_kept(masks)), count_features)}
    [leak] = _probe(sources, masks, labels, target, texts, n_shuffles, seed)
    return leak


def _probe(
    sources: Mapping[str, tuple[Callable[[Sequence[Mask]], Features], ...]],
    masks: Sequence[Mask],
    labels: Sequence[str],
    target: str,
    texts: Sequence[str] | None,
    n_shuffles: int,
    seed: int,
) -> Iterator[Leak]:
    """Predict labels, and shuffled labels many times, from each kind of trace.

    :param sources: For each kind, features for both classifiers, and further ones for the logistic regression.
    """
    for name, values in (("labels", labels), ("texts", texts)):
        if values is not None and len(values) != len(masks):
            raise ValueError(f"{name} must have one item for each of the {len(masks)} masks, got {len(values)}.")
    if not len(masks):
        raise ValueError("masks must have at least one item.")
    if n_shuffles < N_SHUFFLES:
        raise ValueError(f"n_shuffles must be at least {N_SHUFFLES}, so that p can reach {ALARM}, got {n_shuffles}.")
    candidates: Sequence[int] = range(len(masks))
    if texts is not None:
        order = np.random.default_rng(seed).permutation(len(texts)).tolist()
        # A dictionary keeps the last row of each text, which is a random one in this order.
        candidates = sorted({texts[row]: row for row in order}.values())
    counts = Counter(labels[row] for row in candidates)
    left_out = tuple(sorted(label for label in set(labels) if counts[label] < MIN_MASKS))
    rows = [row for row in candidates if counts[labels[row]] >= MIN_MASKS]
    if len(rows) > MAX_MASKS:
        rows = sorted(np.random.default_rng(seed).choice(rows, size=MAX_MASKS, replace=False).tolist())
    known = sorted({labels[row] for row in rows})
    codes = np.array([known.index(labels[row]) for row in rows], dtype=np.int64)
    chosen = [masks[row] for row in rows]
    for source, describes in sources.items():
        scores = (1.0,) * 5  # with one label, every prediction is right
        if len(known) > 1:
            columns = [describe(chosen) for describe in describes]
            scores = run_probes(columns[0], np.hstack(columns), codes, n_shuffles, seed)
        yield Leak(source, target, *scores, len(chosen), len(known), left_out)


# Verdicts


def check_masks(explained: Sequence[Explanation], labels: Sequence[str], target: str, seed: int = 0) -> Verdict:
    """See whether masks alone give labels or decisions away.

    :param target: What the labels are, in the singular: label or decision.
    """
    name, masks = f"masks and {target}s", [item.mask for item in explained]
    if all(mask.kept.all() for mask in masks):
        return Verdict(name, "not run", "Every mask keeps all words, so no selection can give anything away.")
    leaks = find_leaks(masks, labels, target, _shared_texts(explained), seed=seed)
    if leaks.mask.n_labels < 2:
        return Verdict(name, "not run", leaks.mask.verdict)

    def beats_document_length(leak: Leak) -> bool:
        return leak.found and not (leaks.document.found and leaks.document.score >= leak.score)

    # A leak that the length of the document explains is not the choice of the extractor: the other one counts first.
    worst = max((leaks.mask, leaks.length), key=lambda leak: (beats_document_length(leak), leak.score))
    evidence = (f"{leaks.mask.n_masks:,} masks of {leaks.mask.n_labels} {target}s.", *leaks.verdicts)
    if beats_document_length(worst):
        return Verdict(name, "look here", worst.verdict, evidence)
    return Verdict(name, "holds", " ".join((worst.verdict, *[DOCUMENT_LENGTH_NOTE] * worst.found)), evidence)


def check_length(explained: Sequence[Explanation], gold: Sequence[str], seed: int = 0) -> Verdict:
    """See whether the number of words shown predicts the label, also where it only follows the document's length."""
    name = "length and labels"
    leak = find_length_leak([item.mask for item in explained], gold, texts=_shared_texts(explained), seed=seed)
    if leak.n_labels < 2:
        return Verdict(name, "not run", leak.verdict)
    evidence = (f"{leak.n_masks:,} rationales of {leak.n_labels} labels.", *[COUNTING_NOTE] * leak.found)
    return Verdict(name, "look here" if leak.found else "holds", leak.verdict, evidence)


def _shared_texts(explained: Sequence[Explanation]) -> list[str] | None:
    """Return the text of each rationale where several may share one, as with queries."""
    if any(item.document.query for item in explained):
        return [" ".join(item.document.words) for item in explained]
    return None


# Features: how many words a mask keeps and where, never which words they are. All shapes: (masks, features).

# Parts of a document in which kept words are counted.
N_PARTS = 10
# Remainders of counts are features, since a label can hide in them: odd for one class, even for another.
MODULI = (2, 3, 4)
MAX_COUNT_FEATURES = 20
# A number of kept words becomes a feature if at least this many masks keep it.
MIN_COUNT = 5


def shape_features(masks: Sequence[Mask]) -> Features:
    """Describe each mask: length, first and last kept word, runs, gaps, where the kept words lie.

    The length of the document is not among them, but the share kept and relative places correlate with it.
    """
    return np.hstack([length_features(masks), np.array([_place_features(mask) for mask in masks], dtype=np.float64)])


def length_features(masks: Sequence[Mask]) -> Features:
    """Describe only how many words each mask keeps: number, share, remainders."""
    kept = _count_kept(masks)
    return np.column_stack([kept, [mask.ratio for mask in masks], _remainders(kept)])


def count_features(masks: Sequence[Mask]) -> Features:
    """Mark which frequent number of words each mask keeps, for the logistic regression, which knows no thresholds."""
    kept = _count_kept(masks)
    counts, frequencies = np.unique(kept, return_counts=True)
    order = np.argsort(-frequencies, kind="stable")
    frequent = counts[order][: min(MAX_COUNT_FEATURES, int((frequencies >= MIN_COUNT).sum()))]
    return np.asarray(kept[:, None] == frequent, dtype=np.float64)


def number_features(counts: Codes) -> Features:
    """Describe only how many words there are: of documents, which need no selection for that, or of those shown."""
    return np.column_stack([counts, np.log1p(counts), _remainders(counts)])


def _count_kept(masks: Sequence[Mask]) -> Codes:
    return np.array([mask.kept.sum() for mask in masks], dtype=np.int64)


def _remainders(counts: Codes) -> Features:
    # Odd or even needs only one column.
    columns = [counts % modulus == rest for modulus in MODULI for rest in range(modulus - (modulus == 2))]
    return np.column_stack(columns).astype(np.float64)


def _place_features(mask: Mask) -> list[float]:
    """Describe where one mask keeps words; a mask that keeps none is all zeros."""
    kept = np.flatnonzero(mask.kept)
    if not len(kept):
        return [0.0] * (N_PARTS + 19)
    first, last, n_words = int(kept[0]), int(kept[-1]), len(mask)
    steps = np.diff(kept)
    gaps = steps[steps > 1] - 1  # dropped words between two runs
    runs = np.diff(np.concatenate([[-1], np.flatnonzero(steps > 1), [len(kept) - 1]]))
    return [
        *(1, first, last, n_words - 1 - last, last - first + 1),
        *(first / n_words, (last + 1) / n_words, float(kept.mean() + 0.5) / n_words),
        *(first % 2, last % 2, first == 0, last == n_words - 1),
        *(len(runs), len(runs) % 2, float(runs.mean()), int(runs.max())),
        *((float(gaps.mean()), int(gaps.max()), float(gaps.std())) if len(gaps) else (0, 0, 0)),
        *(np.bincount(kept * N_PARTS // n_words, minlength=N_PARTS) / len(kept)).tolist(),
    ]


# Probes: two simple classifiers, one that weighs and adds, one that asks a few questions

N_FOLDS = 3


def run_probes(
    for_tree: Features, for_linear: Features, codes: Codes, n_shuffles: int, seed: int
) -> tuple[float, float, float, float, float]:
    """Predict the labels, and shuffled ones many times.

    :param for_tree: What the decision tree sees.
    :param for_linear: What the logistic regression sees.
    :return: Score of each classifier, mean and 95th percentile of the better score on shuffled labels, p.
    """
    # Imported before the threads begin, which would import them at the same time.
    from sklearn import config_context
    from sklearn.linear_model import LogisticRegression
    from sklearn.preprocessing import StandardScaler
    from sklearn.tree import DecisionTreeClassifier

    generator = np.random.default_rng(seed)
    labelings = []
    for number in range(1 + n_shuffles):
        labels = generator.permutation(codes) if number else codes
        labelings.append((labels, assign_folds(labels, generator)))
    scaled = StandardScaler().fit_transform(for_linear)  # over all masks, which uses no label
    plain = for_tree.astype(np.float32)

    def score(labeling: tuple[Codes, Codes]) -> Features:
        """Predict each fold from the others, and compute balanced accuracies of the regression and of the tree."""
        labels, folds = labeling
        weights = 1 / np.bincount(labels)[labels]  # so that each label counts the same
        predicted = np.zeros((2, len(labels)), dtype=np.int64)
        with config_context(assume_finite=True, skip_parameter_validation=True):
            for fold in range(N_FOLDS):
                held = folds == fold
                # Fitted hundreds of times on shuffled labels, so it stops early: a probe needs no exact weights.
                linear = LogisticRegression(C=0.1, tol=1e-2)
                tree = DecisionTreeClassifier(max_depth=4, min_samples_leaf=5, random_state=0)
                for row, model, inputs in ((0, linear, scaled), (1, tree, plain)):
                    model.fit(inputs[~held], labels[~held], weights[~held] / weights[~held].mean())
                    predicted[row, held] = model.predict(inputs[held])
        correct = [np.bincount(labels, weights=labels == row) for row in predicted]
        return np.asarray((correct / np.bincount(labels)).mean(axis=1))

    # Trees grow outside of Python's lock: with threads, the probes of an audit took 8.2 s instead of 9.5.
    with ThreadPoolExecutor(os.cpu_count()) as pool:
        scores = np.array(list(pool.map(score, labelings)))
    # The better classifier is taken for shuffled labels too: choosing it makes no difference then.
    best, *others = scores.max(axis=1).tolist()
    p = (1 + sum(score >= best for score in others)) / (1 + n_shuffles)
    return *scores[0].tolist(), float(np.mean(others)), float(np.percentile(others, 95)), p


def assign_folds(codes: Codes, generator: np.random.Generator) -> Codes:
    """Assign each mask to a fold at random, with the same mix of labels in each."""
    order = generator.permutation(len(codes))
    # Not StratifiedKFold: balanced folds are one stable sort, and every shuffle needs its own.
    order = order[np.argsort(codes[order], kind="stable")]
    folds = np.empty_like(codes)
    folds[order] = np.arange(len(codes)) % N_FOLDS
    return folds
