"""How much an answer owes to the class that words were chosen for: the scorer is asked about other classes."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from fresh.attribution.registry import CUSTOM, Targeted, scorer_to_dict, with_target
from fresh.document import Document, Example, Explanation, Mask, Saliency
from fresh.metrics.classification import accuracy, macro_f1
from fresh.progress import SILENT, Progress
from fresh.rationale import Prediction
from fresh.rationalizer import BATCH_SIZE, Rationalizer
from fresh.reporting.verdict import Verdict
from fresh.selection.extractors import SaliencyExtractor, score_validated, select_masks
from fresh.selection.tagger import Tagger

LEAST_STAYING = 0.5
"""Share of the answers that must stay when words are chosen for another class."""
PREDICTED, RUNNER_UP, RANDOM = "the class that the support model predicts", "its runner-up", "a random class"


@dataclass(frozen=True, slots=True)
class _Asked:
    """How the predictor did with words that were chosen for some class of each document."""

    chosen_for: str
    accuracy: float
    macro_f1: float
    n_documents: int
    n_same: int
    """Rationales that are the same as those for the predicted class."""
    n_other: int
    """Documents that were asked about a class that is not the model's answer."""
    n_stayed: int
    """Those of them whose answer stays as it was."""
    n_followed: int
    """Those of them whose answer then is the class that was asked about; others change to a third class."""

    @property
    def stayed(self) -> float:
        """Share of the answers that stay."""
        return self.n_stayed / self.n_other if self.n_other else 1.0

    @property
    def followed(self) -> float:
        """Share of the answers that go where the scorer was sent."""
        return self.n_followed / self.n_other if self.n_other else 0.0

    @property
    def sentence(self) -> str:
        """Say it in plain words."""
        text = f"Words for {self.chosen_for}: accuracy {self.accuracy:.3f}, macro-F1 {self.macro_f1:.3f}"
        if self.chosen_for == PREDICTED:
            return f"{text}."
        return (
            f"{text}; of {self.n_other:,} documents asked about another class than was answered, {self.n_stayed:,} "
            f"({self.stayed:.1%}) keep their answer and {self.n_followed:,} ({self.followed:.1%}) change it to that "
            f"class; {self.n_same:,} of {self.n_documents:,} rationales stay the same."
        )


def asked_class(
    model: Rationalizer,
    examples: Sequence[Example],
    explained: Sequence[Explanation],
    seed: int = 0,
    progress: Progress = SILENT,
) -> Verdict:
    """Compare accuracy with words chosen for the predicted class, for its runner-up and for a random class.

    :param seed: Draws the random classes.
    """
    reason = _why_not(model)
    if reason is not None:
        return Verdict("asked class", "not run", reason)
    own, *others = _compare_classes(model, examples, explained, seed, progress)
    runner_up, random = others
    if runner_up.n_same == runner_up.n_documents or not all(item.n_other for item in others):
        says = "Words for another class are the same words, or none was asked about, so that nothing is shown."
        return Verdict("asked class", "not run", says, tuple(item.sentence for item in (own, *others)))
    gain = own.accuracy - random.accuracy
    share = (
        f"Choosing words for {PREDICTED}, and not for {RANDOM}, brings {gain:.3f} of the accuracy {own.accuracy:.3f}."
    )
    lines = (*(item.sentence for item in (own, *others)), share)
    says = (
        f"When words are chosen for a class other than the answer, {runner_up.stayed:.1%} of the answers stay for "
        f"{RUNNER_UP} and {random.stayed:.1%} for {RANDOM}; accuracy is {own.accuracy:.3f} with words for {PREDICTED}, "
        f"{runner_up.accuracy:.3f} for {RUNNER_UP} and {random.accuracy:.3f} for {RANDOM}"
    )
    if min(runner_up.stayed, random.stayed) < LEAST_STAYING:
        says += ": answers depend on the class that words are chosen for."
        return Verdict("asked class", "look here", says, lines)
    return Verdict("asked class", "holds", f"{says}: at least half of the answers stay.", lines)


def _why_not(model: Rationalizer) -> str | None:
    """Say why words cannot be chosen for another class, if they cannot."""
    extractor = model.extractor
    if not isinstance(extractor, SaliencyExtractor):
        return "No scorer chooses the words, so that none can be asked about another class."
    if isinstance(extractor.scorer, Tagger):
        return "A tagger or gate has learnt which words to keep and cannot be asked about a class."
    if isinstance(extractor.scorer, Targeted):
        return None
    record = scorer_to_dict(extractor.scorer)
    if record["name"] == CUSTOM:
        return f"The scorer {record['class']} is one of your own, which cannot be asked about a given class."
    return f"Scores of {record['name']} are the same whatever class they are to explain."


def _compare_classes(
    model: Rationalizer,
    examples: Sequence[Example],
    explained: Sequence[Explanation],
    seed: int,
    progress: Progress = SILENT,
) -> list[_Asked]:
    """Choose words for the runner-up of the support model, and for a random class, cut and read as always."""
    extractor = model.extractor
    assert isinstance(extractor, SaliencyExtractor)
    scorer = extractor.scorer
    assert isinstance(scorer, Targeted)
    documents = [example.document for example in examples]
    runners_up = [_runner_up(prediction) for prediction in scorer.support.predict(documents)]
    generator = np.random.default_rng(seed)
    drawn = [model.labels[place] for place in generator.integers(len(model.labels), size=len(documents)).tolist()]
    answers = [item.prediction.label for item in explained]
    gold = [example.label for example in examples]
    right = accuracy(gold, answers), macro_f1(gold, answers, model.labels)
    rows = [_Asked(PREDICTED, *right, len(documents), len(documents), 0, 0, 0)]
    for name, classes in ((RUNNER_UP, runners_up), (RANDOM, drawn)):
        masks = select_masks(extractor.discretizer, _score_for(scorer, documents, classes, progress))
        rationales = [document.cut(mask) for document, mask in zip(documents, masks, strict=True)]
        found = [prediction.label for prediction in model.predictor.predict(rationales)]
        rows.append(_compared(name, model.labels, examples, explained, (classes, masks, found)))
    return rows


def _runner_up(prediction: Prediction) -> str:
    """Take the second most probable label; the earlier one where they tie."""
    others = [label for label in prediction.probabilities if label != prediction.label]
    return max(others, key=lambda label: prediction.probabilities[label])


def _score_for(
    scorer: Targeted, documents: Sequence[Document], classes: Sequence[str], progress: Progress
) -> list[Saliency]:
    """Score each document for a class of its own; those of one class together."""
    found: dict[int, Saliency] = {}
    with progress.task("asking about others", len(documents)) as advance:
        for label in sorted(set(classes)):
            asked = with_target(scorer, label)
            places = [place for place, own in enumerate(classes) if own == label]
            for start in range(0, len(places), BATCH_SIZE):
                some = places[start : start + BATCH_SIZE]
                found.update(zip(some, score_validated(asked, [documents[place] for place in some]), strict=True))
                advance(len(some), "")
    return [found[place] for place in range(len(documents))]


def _compared(
    name: str,
    labels: Sequence[str],
    examples: Sequence[Example],
    explained: Sequence[Explanation],
    asked: tuple[Sequence[str], Sequence[Mask], Sequence[str]],
) -> _Asked:
    """Count what changed.

    :param asked: The class that each document was asked about, the words that were kept, and the answer.
    """
    classes, masks, answers = asked
    gold = [example.label for example in examples]
    same = sum(item.mask == mask for item, mask in zip(explained, masks, strict=True))
    rows = zip((item.prediction.label for item in explained), classes, answers, strict=True)
    others = [row for row in rows if row[0] != row[1]]
    n_stayed = sum(answer == own for own, _, answer in others)
    n_followed = sum(answer == label for _, label, answer in others)
    right = accuracy(gold, answers), macro_f1(gold, answers, labels)
    return _Asked(name, *right, len(examples), same, len(others), n_stayed, n_followed)
