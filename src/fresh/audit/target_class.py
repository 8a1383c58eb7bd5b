"""How much a prediction depends on the class that words were selected for: the scorer explains other classes."""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from fresh.attribution import CUSTOM, TargetedScorer, is_targeted, scorer_to_dict, with_target
from fresh.document import Document, Example, Explanation, Saliency
from fresh.metrics.classification import accuracy, macro_f1
from fresh.progress import SILENT, Progress
from fresh.rationale import Prediction
from fresh.rationalizer import BATCH_SIZE, Rationalizer
from fresh.reporting.report import Verdict
from fresh.selection.extractors import SaliencyExtractor, score_validated, select_masks
from fresh.selection.tagger import Tagger
from fresh.text import plural

NAME = "target class"
# Share of the predictions that must stay when words are selected for another class.
MIN_SHARE_KEPT = 0.5
PREDICTED, RUNNER_UP, RANDOM = "the class that the support model predicts", "its runner-up", "a random class"


class _Outcome(NamedTuple):
    """What the predictor does with words that were selected for some class of each document."""

    accuracy: float
    share_kept: float
    """Share of the documents below whose prediction stays."""
    n_other: int
    """Documents whose words were selected for a class that is not the prediction."""
    n_same: int
    """Rationales that are the same as those for the predicted class."""
    sentence: str


def check_target_class(
    model: Rationalizer,
    examples: Sequence[Example],
    explained: Sequence[Explanation],
    seed: int = 0,
    progress: Progress = SILENT,
) -> Verdict:
    """Compare accuracy with words selected for the predicted class, for its runner-up and for a random class.

    :param seed: Seeds the random classes.
    """
    extractor = model.extractor
    if not isinstance(extractor, SaliencyExtractor):
        return Verdict(NAME, "not run", "No scorer selects the words, so they cannot be selected for another class.")
    scorer = extractor.scorer
    if isinstance(scorer, Tagger):
        says = "A tagger or gate has learned which words to keep and cannot explain a given class."
        return Verdict(NAME, "not run", says)
    if not is_targeted(scorer):
        record = scorer_to_dict(scorer)
        says = f"Scores of {record['name']} are the same for every class."
        if record["name"] == CUSTOM:
            says = f"The custom scorer {record['class']} cannot explain a given class."
        return Verdict(NAME, "not run", says)
    documents, gold = [example.document for example in examples], [example.label for example in examples]
    targets = other_targets(scorer, documents, seed)

    def select(name: str) -> _Outcome:
        masks = select_masks(extractor.discretizer, score_for(scorer, documents, targets[name], progress))
        rationales = [document.cut(mask) for document, mask in zip(documents, masks, strict=True)]
        predicted = [prediction.label for prediction in model.predictor.predict(rationales)]
        # Documents with words for another class than the prediction: the others show nothing.
        others = [row for row in zip(predictions, targets[name], predicted, strict=True) if row[0] != row[1]]
        n_other, n_same = len(others), sum(item.mask == mask for item, mask in zip(explained, masks, strict=True))
        n_kept = sum(label == own for own, _, label in others)
        n_followed = sum(label == target for _, target, label in others)  # others change to a third class
        share_kept, share_followed = n_kept / max(1, n_other), n_followed / max(1, n_other)
        sentence = (
            f"Words for {name}: accuracy {accuracy(gold, predicted):.3f}, "
            f"macro-F1 {macro_f1(gold, predicted, model.labels):.3f}; "
            f"of {plural(n_other, 'document')} with words for another class than the prediction, {n_kept:,} "
            f"({share_kept:.1%}) keep their prediction and {n_followed:,} ({share_followed:.1%}) change it to that "
            f"class; {n_same:,} of {plural(len(examples), 'rationale')} stay the same."
        )
        return _Outcome(accuracy(gold, predicted), share_kept, n_other, n_same, sentence)

    predictions = [item.prediction.label for item in explained]
    own_accuracy, own_f1 = accuracy(gold, predictions), macro_f1(gold, predictions, model.labels)
    runner_up, random = select(RUNNER_UP), select(RANDOM)
    own = f"Words for {PREDICTED}: accuracy {own_accuracy:.3f}, macro-F1 {own_f1:.3f}."
    lines = [own, runner_up.sentence, random.sentence]
    if runner_up.n_same == len(examples) or not (runner_up.n_other and random.n_other):
        says = "Words for another class are the same words, or every class is the prediction: nothing can be shown."
        return Verdict(NAME, "not run", says, tuple(lines))
    lines.append(
        f"Selecting words for {PREDICTED}, and not for {RANDOM}, contributes {own_accuracy - random.accuracy:.3f} of "
        f"the accuracy {own_accuracy:.3f}."
    )
    says = (
        f"When words are selected for a class other than the prediction, {runner_up.share_kept:.1%} of the predictions "
        f"stay for {RUNNER_UP} and {random.share_kept:.1%} for {RANDOM}; accuracy is {own_accuracy:.3f} with words for "
        f"{PREDICTED}, {runner_up.accuracy:.3f} for {RUNNER_UP} and {random.accuracy:.3f} for {RANDOM}"
    )
    if min(runner_up.share_kept, random.share_kept) < MIN_SHARE_KEPT:
        says += ": predictions depend on the class that words are selected for."
        return Verdict(NAME, "look here", says, tuple(lines))
    return Verdict(NAME, "holds", f"{says}: at least half of the predictions stay.", tuple(lines))


def other_targets(scorer: TargetedScorer, documents: Sequence[Document], seed: int) -> dict[str, list[str]]:
    """Name classes of each document that words can be selected for, besides the predicted one."""
    # The runner-up of the support model, not of the predictor: the scorer explains the class of the support model. Gold
    # labels play no part, so the words do not become better than the model could select.
    labels = scorer.support.classifier.labels
    sampled = np.random.default_rng(seed).integers(len(labels), size=len(documents))
    runners_up = [_runner_up(prediction) for prediction in scorer.support.predict(documents)]
    return {RUNNER_UP: runners_up, RANDOM: [labels[number] for number in sampled]}


def _runner_up(prediction: Prediction) -> str:
    # In a tie, `max` takes the earlier label.
    others = [label for label in prediction.probabilities if label != prediction.label]
    return max(others, key=prediction.probabilities.__getitem__)


def score_for(
    scorer: TargetedScorer, documents: Sequence[Document], targets: Sequence[str], progress: Progress
) -> list[Saliency]:
    """Score each document for its own target; those of one target together."""
    found: dict[int, Saliency] = {}
    with progress.task("other classes", len(documents)) as advance:
        for label in sorted(set(targets)):
            targeted = with_target(scorer, label)
            places = [place for place, own in enumerate(targets) if own == label]
            for start in range(0, len(places), BATCH_SIZE):
                batch = places[start : start + BATCH_SIZE]
                found.update(zip(batch, score_validated(targeted, [documents[place] for place in batch]), strict=True))
                advance(len(batch), "")
    return [found[place] for place in range(len(documents))]
