"""Replay of a file: saved answers are computed again from the saved rationales alone."""

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from fresh.audit.replay import read_back, write_down
from fresh.audit.saved import Saved, match, read_saved, restored
from fresh.document import Document, Explanation
from fresh.errors import DataError
from fresh.predictor import Predictor, rationale_text
from fresh.rationale import Prediction
from fresh.rationalizer import BATCH_SIZE, Rationalizer
from fresh.reporting.verdict import Verdict

TOLERANCE = 1e-6
"""How far a probability may be from the saved one where the file does not tell what was explained together."""
MOST_NAMED = 20
"""Differences that are named; all are counted."""
OTHER_COMPANY = (
    "{count:,} of them differ from the saved ones in the last digits, by no more than "
    f"{TOLERANCE}: lines were left out, moved or changed, or the work was broken off, so that the file does not tell "
    "what was explained together. Sums are then rounded otherwise."
)
ONLY_ROUNDING = (
    f"No probability is further than {TOLERANCE} from the saved one, and no label or word differs: so it looks where "
    "answers were computed on another machine or device, or with another number of threads. Replay them where they "
    "were made."
)


@dataclass(slots=True)
class _Tally:
    """What is found out while answers are computed again."""

    differences: list[str] = field(default_factory=list)
    """One for each line and thing that differs."""
    lines: set[int] = field(default_factory=set)
    n_near: int = 0
    """Answers that are held equal though they are not to the bit."""
    only_rounding: bool = True

    def add(self, saved: Saved, reason: str, rounding: bool = False) -> None:
        """Note a difference."""
        self.differences.append(f"line {saved.line}, document {saved.id!r}: {reason}")
        self.lines.add(saved.line)
        self.only_rounding &= rounding


def replay_saved(model: Rationalizer, documents: Sequence[Document], path: Path) -> Verdict:
    """Have the predictor answer again, from nothing but the saved words of a file and the queries.

    :param documents: All that were explained, in their order.
    :param path: What ``fresh explain`` wrote.
    """
    saved = read_saved(path)
    _check_labels(saved, model.labels, path)
    found = match(saved, documents)
    if not any(found):
        raise DataError(
            f"None of the {len(saved):,} documents of {path.name} is in the data: the first is {saved[0].id!r}, that "
            f"of the data {documents[0].id!r}. Give the file that was explained, with the same `id`."
        )
    tally = _Tally()
    known = {document.id for document in documents}
    explained = [_explanation_of(item, document, known, tally) for item, document in zip(saved, found, strict=True)]
    for start in range(0, len(saved), BATCH_SIZE):  # in the same company, so that sums are rounded the same way
        part = slice(start, start + BATCH_SIZE)
        together = explained[part]
        whole = [item is not None and item.document for item in together] == list(documents[part])
        _compare(model.predictor, list(zip(saved[part], together, strict=True)), whole, tally)
    there = {id(document) for document in found}
    missing = [document.id for document in documents if id(document) not in there]
    return _verdict_of(tally, len(saved), missing, len(documents))


def _check_labels(saved: Sequence[Saved], labels: Sequence[str], path: Path) -> None:
    """Refuse explanations of a model with other labels."""
    if all(item.probabilities.keys() != set(labels) for item in saved):
        raise DataError(
            f"{path.name} was not written with this model: its labels are {', '.join(saved[0].probabilities)}, those "
            f"of the model {', '.join(labels)}. Name the model that explained it."
        )


def _explanation_of(
    saved: Saved, document: Document | None, known: Collection[str], tally: _Tally
) -> Explanation | None:
    """Make the explanation that was saved; note what does not fit the document or itself.

    :param known: Ids of all documents.
    """
    if document is None:
        again = "an earlier line explains it already."
        tally.add(saved, again if saved.id in known else "there is no such document in the data.")
        return None
    if saved.words not in (None, document.words):
        tally.add(saved, "the saved words are not those of the text.")
    made = restored(saved, document)
    if isinstance(made, str):
        tally.add(saved, made)
        return None
    if saved.ratio != made.ratio:
        n_kept = len(made.rationale.words)
        tally.add(saved, f"the ratio is {saved.ratio!r}, but {n_kept} of {len(document.words)} words are kept.")
    if saved.probability != made.prediction.probability:
        tally.add(
            saved,
            f"the probability is {saved.probability!r}, but that of its label {made.prediction.label!r} "
            f"{made.prediction.probability!r}.",
        )
    return made


def _compare(
    predictor: Predictor, group: Sequence[tuple[Saved, Explanation | None]], whole: bool, tally: _Tally
) -> None:
    """Have the predictor answer to the rationales of a group, and note which answers are others.

    :param whole: The group is the one in which they were explained.
    """
    made = [(saved, item, read_back(write_down(item.rationale))) for saved, item in group if item is not None]
    _, too_long = predictor.classifier.words.measure([rationale_text(rationale) for _, _, rationale in made])
    for number, problem in too_long.items():
        tally.add(made[number][0], f"the predictor cannot read the kept words. {problem}")
    readable = [item for number, item in enumerate(made) if number not in too_long]
    answers = predictor.predict([rationale for _, _, rationale in readable])
    pairs = [(saved, item.prediction, answer) for (saved, item, _), answer in zip(readable, answers, strict=True)]
    far = any(any(_differences(given, answer, TOLERANCE)) for _, given, answer in pairs)
    allowed = 0.0 if whole and not too_long and not far else TOLERANCE  # one changed rationale moves all beside it
    for saved, given, answer in pairs:
        reasons = list(_differences(given, answer, allowed))
        for reason in reasons:
            tally.add(saved, reason, rounding=not far)
        tally.n_near += not reasons and given != answer


def _differences(saved: Prediction, answer: Prediction, allowed: float) -> Iterator[str]:
    """Say in what a saved prediction differs from the answer to its rationale."""
    if saved.probabilities.keys() != answer.probabilities.keys():
        yield f"the labels are {_named(saved.probabilities)}, but the predictor knows {_named(answer.probabilities)}."
        return
    if saved.label != answer.label:
        yield f"the label is {saved.label!r}, but from the rationale alone it is {answer.label!r}."
    for label, value in saved.probabilities.items():
        if abs(value - answer.probabilities[label]) > allowed:
            yield (
                f"the probability of {label!r} is {value!r}, but from the rationale alone it is "
                f"{answer.probabilities[label]!r}."
            )


def _named(probabilities: Mapping[str, float]) -> str:
    """List labels."""
    return ", ".join(map(repr, probabilities))


def _verdict_of(tally: _Tally, n_saved: int, missing: Sequence[str], n_documents: int) -> Verdict:
    """Put it in words.

    :param missing: Ids of documents of the data that the file says nothing about.
    """
    other_company = (OTHER_COMPANY.format(count=tally.n_near),) if tally.n_near else ()
    left_out = tuple(_without_answer(missing, n_documents))
    counted = f"{n_saved:,} saved predictions computed again, {len(tally.lines):,} differ."
    if not tally.differences:
        equal = "bit for bit" if not tally.n_near else f"bit for bit or to within {TOLERANCE}"
        says = (
            f"All {n_saved:,} saved predictions, computed again from the words of their rationales alone, equal those "
            f"in the file, {equal}."
        )
        if left_out:
            return Verdict("replay", "look here", f"{says} {left_out[0]}", (counted, *left_out[1:], *other_company))
        return Verdict("replay", "holds", says, (counted, *other_company))
    shown = tally.differences[:MOST_NAMED]
    left = len(tally.differences) - len(shown)
    more = (f"and {left:,} more {'difference' if left == 1 else 'differences'}.",) if left else ()
    rounding = (ONLY_ROUNDING,) if tally.only_rounding else ()
    says = (
        f"{len(tally.lines):,} of {n_saved:,} saved explanations are not what the model answers to the words of their "
        "rationales alone, or do not fit the data."
    )
    return Verdict("replay", "broken", says, (counted, *rounding, *shown, *more, *left_out, *other_company))


def _without_answer(missing: Sequence[str], n_documents: int) -> Iterator[str]:
    """Name the documents of the data that a file of answers leaves out, if any."""
    if missing:
        has = "has" if len(missing) == 1 else "have"
        yield f"{len(missing):,} of {n_documents:,} documents of the data {has} no answer in the file."
        rest = len(missing) - MOST_NAMED
        more = f" and {rest:,} more" if rest > 0 else ""
        yield f"Without an answer: {', '.join(map(repr, missing[:MOST_NAMED]))}{more}."
