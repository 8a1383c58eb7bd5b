"""Replay: predictions are computed again from rationales alone, and must be those reported or saved."""

import json
import sys
from collections import defaultdict, deque
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field, fields
from pathlib import Path
from typing import Any

import numpy as np

from fresh.data.readers import parse_json_lines
from fresh.document import Document, Explanation, Mask
from fresh.errors import DataError
from fresh.predictor import Predictor, rationale_text
from fresh.rationale import Prediction, Rationale
from fresh.rationalizer import BATCH_SIZE, Rationalizer
from fresh.reporting.report import Verdict
from fresh.text import plural

# Counterexamples that are shown whole; all are counted.
MAX_SHOWN = 3
# Differences that are named; all are counted.
MAX_NAMED = 20
# Sums depend on what is computed in one batch: two orders differed by 7.8e-08 at most (docs/results/audit.md).
# How far probabilities may be apart when the same rationales are read in another order.
ROUNDING = 1e-5
# How far a probability may be from the saved one where the file does not show which documents were one batch.
SAVED_ROUNDING = 1e-6
OTHER_BATCHES = (
    "All differences are as small as those of rounding: they occur where documents were explained in other batches. "
    "Explain them with explain_stream, in the order in which they are audited, or let the audit explain them."
)
INCOMPLETE_BATCHES = (
    "{count:,} of them differ from the saved ones in the last digits, by at most "
    f"{SAVED_ROUNDING}: lines were left out, moved or changed, so the file does not show which documents were "
    "explained in one batch. Rounding then differs."
)
OTHER_MACHINE = (
    f"No probability is further than {SAVED_ROUNDING} from the saved one, and no label or word differs: this happens "
    "where predictions were computed on another machine or device, or with another number of threads. Replay them "
    "where they were computed."
)


def replay(predictor: Predictor, explained: Sequence[Explanation], seed: int = 0) -> Verdict:
    """Have the predictor predict again, from nothing but the words of the rationales and the queries.

    :param explained: Reported explanations, in the batches of ``explain_stream``.
    :param seed: Seeds the order in which all rationales are read once more.
    """
    rationales = [rewrite(item.rationale) for item in explained]
    again: list[Prediction] = []
    for start in range(0, len(rationales), BATCH_SIZE):  # the same batches round in the same way
        again += predictor.predict(rationales[start : start + BATCH_SIZE])
    different = [pair for pair in zip(explained, again, strict=True) if pair[0].prediction != pair[1]]
    counted = f"{plural(len(explained), 'prediction')} computed again, {len(different):,} different."
    if different:
        says = (
            f"{len(different):,} of {plural(len(explained), 'prediction')}, computed again from the words of their "
            f"rationales alone, {'differs' if len(different) == 1 else 'differ'} from those reported."
        )
        apart = float(np.max([distance(item.prediction, answer) for item, answer in different]))
        lines = [counted, f"The largest difference of a probability is {apart:.1e}."]
        if apart <= ROUNDING and all(item.prediction.label == answer.label for item, answer in different):
            lines.append(OTHER_BATCHES)
        for item, answer in different[:MAX_SHOWN]:
            lines += [
                f"document {item.document.id!r}, rationale: {' '.join(item.rationale.words)}",
                *([f"  query: {' '.join(item.document.query)}"] if item.document.query else []),
                f"  reported: {format_prediction(item.prediction)}",
                f"  from the rationale alone: {format_prediction(answer)}",
            ]
        return Verdict("replay", "broken", says, tuple(lines))
    # In the same order, a predictor that an extractor secretly informs would repeat itself: 1.0 apart in another order.
    order = np.random.default_rng(seed).permutation(len(rationales)).tolist()
    shuffled = predictor.predict([rationales[place] for place in order])
    # With NumPy, here and in `distance`, the largest is NaN if any is; Python's `max` would depend on the order.
    pairs = zip(order, shuffled, strict=True)
    apart = float(np.max([0.0, *(distance(again[place], answer) for place, answer in pairs)]))
    evidence = (counted, f"Read once more in another order: probabilities are at most {apart:.1e} apart.")
    if not apart <= ROUNDING:  # so that NaN fails too
        says = "Predictions are not computed from the rationale alone: they depend on what else is read with it."
        return Verdict("replay", "broken", says, evidence)
    says = (
        f"All {len(explained):,} predictions, computed again from the words of their rationales alone, equal those "
        "reported, bit for bit."
    )
    return Verdict("replay", "holds", says, evidence)


def rewrite(rationale: Rationale) -> Rationale:
    """Return the same words and query, without the id."""
    # Through JSON, so that nothing but words and query can reach the predictor, whatever object was reported.
    # With escapes, the halves of a surrogate pair would be joined when they are read back.
    words, query = json.loads(json.dumps((rationale.words, rationale.query), ensure_ascii=False))
    return Rationale(tuple(words), tuple(query))


def distance(first: Prediction, second: Prediction) -> float:
    """Return the largest difference of a probability; 1 where other labels have one."""
    if first.probabilities.keys() != second.probabilities.keys():
        return 1.0
    return float(np.max([abs(value - second.probabilities[label]) for label, value in first.probabilities.items()]))


def format_prediction(prediction: Prediction) -> str:
    """Write the label and all probabilities, to the last bit."""
    table = ", ".join(f"{label} {value!r}" for label, value in prediction.probabilities.items())
    return f"{prediction.label} ({table})"


# Saved explanations: read from their file, and matched with the data

HINT = "Name a file that `fresh explain --output` wrote."


@dataclass(frozen=True, slots=True)
class SavedExplanation:
    """A line of a file of explanations."""

    where: str
    """Its place in the file, such as "line 7"."""
    id: str
    label: str
    probability: float
    probabilities: dict[str, float]
    rationale: list[dict[str, Any]]
    """Runs of kept words: where their characters start and end in the text, and what they are."""
    ratio: float
    words: list[str] | None
    """All words of the document, if they were saved."""


def read_saved(path: Path) -> list[SavedExplanation]:
    """Read the explanations of a file; refuse a file of something else."""
    if path.is_dir():
        raise DataError(f"{path} is a folder. {HINT}")
    if not path.is_file():
        raise DataError(f"There is no file {path}. {HINT}")
    names, saved = [item.name for item in fields(SavedExplanation)[1:]], []
    with path.open("rb") as file:
        for row in parse_json_lines(file, path.name):
            if row.error:
                raise DataError(f"{row.error.brief} {HINT}")
            values = {"words": None, **row.values}  # not every line has the words
            for name in names:
                if name not in values:
                    raise DataError(f"{row.place} is not an explanation: it has no {name}. {HINT}")
                if not _is_valid(name, values[name]):
                    raise DataError(f"{row.place} is not an explanation: its {name} cannot be read. {HINT}")
            saved.append(SavedExplanation(row.where, **{name: values[name] for name in names}))
    if not saved:
        raise DataError(f"{path} holds no explanations. {HINT}")
    return saved


def _is_valid(name: str, value: Any) -> bool:
    """Say whether a field can be read. Types are exact: JSON's true is an integer of Python, and no number."""
    match name:
        case "id" | "label":
            return type(value) is str
        case "probability" | "ratio":
            return type(value) in (int, float) and abs(value) <= sys.float_info.max
        case "probabilities":
            return type(value) is dict and bool(value) and all(_is_valid("probability", one) for one in value.values())
        case "words":
            return value is None or (type(value) is list and all(type(word) is str for word in value))
    kinds = {"start": int, "end": int, "text": str}
    return type(value) is list and all(
        type(span) is dict and {key: type(item) for key, item in span.items()} == kinds for span in value
    )


def match_documents(saved: Sequence[SavedExplanation], documents: Iterable[Document]) -> list[Document | None]:
    """Find the document of each explanation by its id; of several with one id, the next whose text fits."""
    by_id: defaultdict[str, deque[Document]] = defaultdict(deque)
    for document in documents:
        by_id[document.id].append(document)
    matched: list[Document | None] = []
    for item in saved:
        left = by_id[item.id]
        # Ids need not be unique: of several documents, the words decide.
        fitting = (document for document in left if _misplaced(item, document) is None)
        found = next(fitting, left[0] if left else None)
        if found is not None:
            left.remove(found)
        matched.append(found)
    return matched


def _misplaced(saved: SavedExplanation, document: Document) -> str | None:
    """Say which saved words are first that the text does not have at their place."""
    for span in saved.rationale:
        start, end, text = span["start"], span["end"], span["text"]
        there = document.text[max(0, start) : max(0, end)]
        if there != text:
            return f"the kept words {text!r} are not in the text: it has {there!r} at characters {start} to {end}."
    return None


# Replay of saved explanations


@dataclass(slots=True)
class _Tally:
    """What is found while predictions are computed again."""

    differences: list[str] = field(default_factory=list)
    lines: set[str] = field(default_factory=set)
    """The lines that differ."""
    n_near: int = 0
    """Predictions that count as equal though their last digits differ."""
    only_rounding: bool = True

    def add(self, saved: SavedExplanation, reason: str, rounding: bool = False) -> None:
        self.differences.append(f"{saved.where}, document {saved.id!r}: {reason}")
        self.lines.add(saved.where)
        self.only_rounding &= rounding


def replay_saved(model: Rationalizer, documents: Sequence[Document], path: Path) -> Verdict:
    """Have the predictor predict again, from nothing but the saved words of a file and the queries.

    :param documents: All documents that were explained, in their order.
    :param path: A file that ``fresh explain`` wrote.
    """
    saved = read_saved(path)
    if all(item.probabilities.keys() != set(model.labels) for item in saved):
        raise DataError(
            f"{path.name} is from another model: its labels are {', '.join(saved[0].probabilities)}, but this model "
            f"has {', '.join(model.labels)}. Name the model that explained it."
        )
    matched = match_documents(saved, documents)
    if not any(matched):
        raise DataError(
            f"No document of {path.name} is in the data: the first is {saved[0].id!r}, but "
            f"the data begins with {documents[0].id!r}. Give the file that was explained, with the same `id`."
        )
    tally, known = _Tally(), {document.id for document in documents}
    restored: list[tuple[SavedExplanation, Explanation | None]] = []
    for item, document in zip(saved, matched, strict=True):
        if document is None:
            repeated = "an earlier line explains it already."
            tally.add(item, repeated if item.id in known else "there is no such document in the data.")
        restored.append((item, None if document is None else restore(item, document, tally)))
    for start in range(0, len(saved), BATCH_SIZE):  # the same batches round in the same way
        part = slice(start, start + BATCH_SIZE)
        is_batch = [item and item.document for _, item in restored[part]] == list(documents[part])
        _compare(model.predictor, restored[part], is_batch, tally)
    there = {id(document) for document in matched}
    missing = [document.id for document in documents if id(document) not in there]
    return _saved_verdict(tally, len(saved), missing, len(documents))


def restore(saved: SavedExplanation, document: Document, tally: _Tally) -> Explanation | None:
    """Rebuild a saved explanation, if possible, and note what does not fit the document or itself."""
    if saved.words not in (None, list(document.words)):
        tally.add(saved, "the saved words are not those of the text.")
    problem = _misplaced(saved, document)
    if problem is None and saved.label not in saved.probabilities:
        problem = f"the label {saved.label!r} has no probability."
    if problem is not None:
        tally.add(saved, problem)
        return None
    spans = tuple((span["start"], span["end"]) for span in saved.rationale)
    # Words that are only touched are left out; then the spans are others, below.
    kept = [any(first <= start and end <= last for first, last in spans) for start, end in document.spans]
    mask, prediction = Mask(np.array(kept, dtype=np.bool_)), Prediction(saved.label, saved.probabilities)
    explanation = Explanation(document, mask, document.cut(mask), prediction)
    if explanation.spans != spans:
        tally.add(saved, "the kept words are not whole words of the text, in order and each run of neighbors as one.")
        return None
    if saved.ratio != explanation.ratio:
        n_kept, n_words = len(explanation.rationale.words), plural(len(document.words), "word")
        tally.add(saved, f"the ratio is {saved.ratio!r}, but {n_kept} of {n_words} are kept.")
    stated, expected = saved.probability, prediction.probability
    if stated != expected:
        tally.add(saved, f"the probability is {stated!r}, but that of its label {saved.label!r} is {expected!r}.")
    return explanation


def _compare(
    predictor: Predictor, batch: Sequence[tuple[SavedExplanation, Explanation | None]], is_batch: bool, tally: _Tally
) -> None:
    """Have the predictor read the rationales of a batch, and note which predictions differ.

    :param is_batch: These documents, and no others, were explained in one batch.
    """
    items = [(saved, item, rewrite(item.rationale)) for saved, item in batch if item]
    _, too_long = predictor.classifier.tokenizer.measure([rationale_text(rationale) for _, _, rationale in items])
    for number, problem in too_long.items():
        tally.add(items[number][0], f"the predictor cannot read the kept words. {problem}")
    readable = [item for number, item in enumerate(items) if number not in too_long]
    answers = predictor.predict([rationale for _, _, rationale in readable])
    pairs = [(saved, item.prediction, answer) for (saved, item, _), answer in zip(readable, answers, strict=True)]
    is_far = any(any(_differences(prediction, answer, SAVED_ROUNDING)) for _, prediction, answer in pairs)
    # One changed rationale changes the rounding of everything else in its batch.
    allowed = 0.0 if is_batch and not too_long and not is_far else SAVED_ROUNDING
    for saved, prediction, answer in pairs:
        reasons = list(_differences(prediction, answer, allowed))
        for reason in reasons:
            tally.add(saved, reason, rounding=not is_far)
        tally.n_near += not reasons and prediction != answer


def _differences(saved: Prediction, answer: Prediction, allowed: float) -> Iterator[str]:
    if saved.probabilities.keys() != answer.probabilities.keys():
        known, own = ", ".join(answer.probabilities), ", ".join(saved.probabilities)
        yield f"the labels are {own}, but those of the predictor are {known}."
        return
    if saved.label != answer.label:
        yield f"the label is {saved.label!r}, but from the rationale alone it is {answer.label!r}."
    for label, value in saved.probabilities.items():
        expected = answer.probabilities[label]
        if abs(value - expected) > allowed:
            yield f"the probability of {label!r} is {value!r}, but from the rationale alone it is {expected!r}."


def _saved_verdict(tally: _Tally, n_saved: int, missing: Sequence[str], n_documents: int) -> Verdict:
    """Decide on a verdict.

    :param missing: Ids of documents of the data that the file says nothing about.
    """
    left_out: list[str] = []
    if missing:
        share, have = f"{len(missing):,} of {plural(n_documents, 'document')}", "has" if len(missing) == 1 else "have"
        rest = f" and {len(missing) - MAX_NAMED:,} more" if len(missing) > MAX_NAMED else ""
        left_out = [
            f"{share} of the data {have} no prediction in the file.",
            f"Without a prediction: {', '.join(map(repr, missing[:MAX_NAMED]))}{rest}.",
        ]
    batches = [INCOMPLETE_BATCHES.format(count=tally.n_near)] if tally.n_near else []
    evidence = [f"{plural(n_saved, 'saved prediction')} computed again, {len(tally.lines):,} different."]
    if tally.differences:
        evidence += [OTHER_MACHINE] if tally.only_rounding else []
        evidence += tally.differences[:MAX_NAMED]
        if len(tally.differences) > MAX_NAMED:
            evidence.append(f"and {plural(len(tally.differences) - MAX_NAMED, 'more difference')}.")
        says = (
            f"{len(tally.lines):,} of {n_saved:,} saved explanations are not what the model predicts from the words of "
            "their rationales alone, or do not fit the data."
        )
        return Verdict("replay", "broken", says, (*evidence, *left_out, *batches))
    equal = f"bit for bit or to within {SAVED_ROUNDING}" if tally.n_near else "bit for bit"
    says = (
        f"All {n_saved:,} saved predictions, computed again from the words of their rationales alone, equal those in "
        f"the file, {equal}."
    )
    says = " ".join((says, *left_out[:1]))
    return Verdict("replay", "look here" if missing else "holds", says, (*evidence, *left_out[1:], *batches))
