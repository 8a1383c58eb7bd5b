"""Extractors that hide the label in their choice of harmless words are flagged; honest ones are left in peace."""

import string
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from sklearn.feature_extraction.text import CountVectorizer
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import make_pipeline

from fresh.audit.independent import check_independent
from fresh.document import Document, Example, Explanation, Mask
from fresh.methods.independent import sample_mask
from fresh.predictor import Predictor
from fresh.progress import SILENT, Progress
from fresh.rationale import Prediction, Rationale

LABELS = ("neg", "pos")
MODEL: Any = SimpleNamespace(labels=LABELS, settings={})
N_TRIALS = [10, pytest.param(100, marks=pytest.mark.slow)]
RATIO = 0.2


@dataclass(frozen=True, slots=True)
class Linear(Predictor):
    """A linear predictor of bags of words, which is trained in milliseconds."""

    pipeline: Any = None

    @classmethod
    def of(cls, pairs: Sequence[tuple[Rationale, str]]) -> "Linear":
        counts = CountVectorizer(tokenizer=str.split, token_pattern=None, lowercase=False)
        pipeline = make_pipeline(counts, LogisticRegression(max_iter=50))
        pipeline.fit([" ".join(rationale.words) for rationale, _ in pairs], [label for _, label in pairs])
        return cls(classifier=None, pipeline=pipeline)  # type: ignore[arg-type]

    def predict(self, rationales: Sequence[Rationale], progress: Progress = SILENT) -> list[Prediction]:
        table = self.pipeline.predict_proba([" ".join(item.words) for item in rationales])
        return [Prediction(LABELS[row.argmax()], dict(zip(LABELS, row.tolist(), strict=True))) for row in table]


def words_of_kind(n_words: int, generator: np.random.Generator) -> list[str]:
    sizes = generator.integers(3, 9, n_words)
    return ["".join(generator.choice(list(string.ascii_lowercase), size)) for size in sizes]


def sample_corpus(n_documents: int, generator: np.random.Generator) -> tuple[list[Example], frozenset[str]]:
    """Make documents of harmless words with one or two words of their label, or of the other one in a tenth of them.

    :return: The documents, and the harmless words.
    """
    harmless = words_of_kind(60, generator)
    telling = dict(zip(LABELS, (words_of_kind(12, generator) for _ in LABELS), strict=True))
    examples: list[Example] = []
    for number in range(n_documents):
        label = LABELS[number % 2]
        said = label if generator.random() < 0.9 else LABELS[1 - number % 2]
        words = [
            *generator.choice(harmless, int(generator.integers(12, 30))).tolist(),
            *generator.choice(telling[said], int(generator.integers(1, 3))).tolist(),
        ]
        generator.shuffle(words)
        examples.append(Example(Document.from_words(words, id=str(number)), label))
    return examples, frozenset(harmless)


def select_by(is_sign: Callable[[str], bool], harmless: frozenset[str], document: Document, label: str) -> Mask:
    """Select harmless words that have a sign for one label, and words that do not have it for the other."""
    flags = [word in harmless and is_sign(word) == (label == "pos") for word in document.words]
    places = np.flatnonzero(flags)[: max(1, round(RATIO * len(flags)))]
    return Mask(np.isin(np.arange(len(flags)), places)) if len(places) else Mask.from_spans([(0, 1)], len(flags))


SIGNS: dict[str, Callable[[str], bool]] = {
    "parity": lambda word: len(word) % 2 == 0,
    "alphabet": lambda word: word[0] < "n",
    "ending": lambda word: word[-1] < "n",
}


def explain_by(weights: dict[str, float], document: Document, label: str) -> Mask:
    """Select the words that say most for a label, as an honest extractor does."""
    sign = 1 if label == "pos" else -1
    scores = [sign * weights.get(word, 0.0) for word in document.words]
    order = np.argsort(scores, kind="stable")[::-1][: max(1, round(RATIO * len(scores)))]
    return Mask(np.isin(np.arange(len(scores)), order))


def verdict_of(seed: tuple[int, int], sign: Callable[[str], bool] | None) -> str:
    """Train an extractor, its predictor and the independent reader, and ask the audit.

    :param sign: What a cheat encodes the label by; an honest extractor selects words that say most for the label.
    """
    generator = np.random.default_rng(seed)
    examples, harmless = sample_corpus(600, generator)
    train, test = examples[:300], examples[300:]
    support = Linear.of([(whole(item), item.label) for item in train])
    counts, regression = support.pipeline[0], support.pipeline[1]
    weights = dict(zip(counts.get_feature_names_out(), regression.coef_[0], strict=True))
    select = partial(explain_by, weights) if sign is None else partial(select_by, sign, harmless)

    def cut(items: Sequence[Example]) -> list[tuple[Mask, Rationale]]:
        decided = support.predict(list(map(whole, items)))
        masks = [select(item.document, answer.label) for item, answer in zip(items, decided, strict=True)]
        return [(mask, item.document.cut(mask)) for item, mask in zip(items, masks, strict=True)]

    own = Linear.of([(rationale, item.label) for item, (_, rationale) in zip(train, cut(train), strict=True)])
    sampled = [(item, sample_mask(len(item.document.words), RATIO, generator)) for item in train * 4]
    reader = Linear.of([(item.document.cut(mask), item.label) for item, mask in sampled])
    shown = cut(test)
    answers = own.predict([rationale for _, rationale in shown])
    explained = [
        Explanation(item.document, mask, rationale, answer)
        for item, (mask, rationale), answer in zip(test, shown, answers, strict=True)
    ]
    return check_independent(MODEL, test, explained, reader).found


def whole(item: Example) -> Rationale:
    return item.document.cut(Mask.full(len(item.document.words)))


@pytest.mark.parametrize("n_trials", N_TRIALS)
@pytest.mark.parametrize("kind", SIGNS)
def test_codes_in_harmless_words_are_flagged_in_every_trial(kind: str, n_trials: int) -> None:
    assert {verdict_of((1, trial), SIGNS[kind]) for trial in range(n_trials)} == {"look here"}


@pytest.mark.parametrize("n_trials", N_TRIALS)
def test_honest_extractors_are_flagged_in_at_most_5_of_100_trials(n_trials: int) -> None:
    found = [verdict_of((2, trial), None) for trial in range(n_trials)]
    assert found.count("look here") <= 0.05 * n_trials
    assert found.count("holds") >= 0.95 * n_trials
