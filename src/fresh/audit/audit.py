"""The audit: tries to break the wall, and looks for what leaks past it."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from types import MappingProxyType
from typing import Any

from fresh.audit.degenerate import LEAST, find_degenerate
from fresh.audit.duplicates import find_twins_among
from fresh.audit.invariance import try_to_break
from fresh.audit.leakage import NO_CHOICE, Leak, Leaks, find_leaks, find_length_leak
from fresh.audit.replay import replay
from fresh.audit.target_class import asked_class
from fresh.data.splits import dataset_digest
from fresh.document import Example, Explanation
from fresh.errors import MissingExtraError
from fresh.evaluation.evaluate import Evaluation, explain_all
from fresh.evaluation.gold_labels import check_labels
from fresh.highlight import CONTROL_PICTURES
from fresh.progress import SILENT, Progress
from fresh.rationalizer import Rationalizer
from fresh.reporting.report import in_cell
from fresh.reporting.verdict import Verdict

AUDITED = "test"
"""The name of the split that is audited."""
MOST_PAIRS = 5
"""Twins that are named."""
COUNTED = (
    "The predictor can count the words shown: answers may be right because of their number, whatever the words say. "
    "This is true even if the number only reflects the document's length."
)
NONE: Mapping[str, Sequence[Example]] = MappingProxyType({})
GUARANTEE = """\
What is certain where replay and invariance hold: given the words shown (and the query, where there is one), nothing \
else can change the answer. It is computed from these words, in their order: not from the document's other words, and \
not from word positions. The number of words shown is part of what is shown, and the predictor can count \
them: with a fixed ratio this number reveals the length of the document. Other words can still change the answer by \
changing which words are chosen. Whoever reads the rationale has read all that the predictor read.

What is not certain: why these words were chosen. The extractor has read the whole document. It could decide by itself \
and choose words that tell the predictor what it decided; every answer would still be made from the shown words, and \
they would explain little (Jacovi and Goldberg, 2021). No check can prove that a choice was made for good reasons. \
The other checks look for signs that it was not: masks that give labels or decisions away, labels that the number of \
words shown gives away, answers that change with the class that words are chosen for, rationales without content, test \
documents that were trained on. Where they find none, that is no proof; where they say "look here", somebody should \
look.

Nor does it say that the words are a good reason, or the reason a person would give: only that \
the answer was computed from them."""


@dataclass(frozen=True, slots=True)
class Audit:
    """What the audit found, one verdict a check, and what its guarantee covers."""

    verdicts: tuple[Verdict, ...]
    guarantee: str = GUARANTEE

    @property
    def holds(self) -> bool:
        """Whether nothing is broken."""
        return all(verdict.found != "broken" for verdict in self.verdicts)

    def beside(self, measured: Evaluation) -> Evaluation:
        """Put the verdicts into the report of what was measured."""
        report = replace(measured.report, verdicts=self.verdicts, guarantee=self.guarantee)
        return replace(measured, report=report)

    def to_dict(self) -> dict[str, Any]:
        """Turn it into plain values, for JSON."""
        return {"holds": self.holds, **asdict(self)}

    def to_json(self) -> str:
        """Write it down."""
        return json.dumps(self.to_dict(), indent=2, ensure_ascii=True) + "\n"  # also half a character can be written

    def to_markdown(self) -> str:
        """Lay it out as a table, with the evidence below."""
        head = ["| check | verdict | finding |", "| --- | --- | --- |"]
        body = [f"| {item.name} | {item.found} | {in_cell(item.says)} |" for item in self.verdicts]
        proof = [line for item in self.verdicts if item.evidence for line in ("", f"## {item.name}", "", *_block(item))]
        return "\n".join((*head, *body, *proof, "", "## What the guarantee covers", "", self.guarantee)) + "\n"


def _block(verdict: Verdict) -> list[str]:
    """Set evidence apart as it is, since words of documents stand in it."""
    return [f"    {_on_one_line(line)}" for line in verdict.evidence]


def _on_one_line(text: str) -> str:
    """Show signs that would steer a page or end a line."""
    return text.translate(CONTROL_PICTURES).replace("\n", " ")


def audit(
    model: Rationalizer,
    examples: Sequence[Example],
    others: Mapping[str, Sequence[Example]] = NONE,
    n_trials: int = 2000,
    seed: int = 0,
    progress: Progress = SILENT,
    explained: Sequence[Explanation] | None = None,
) -> Audit:
    """Try to break the wall of a model, and look for what leaks past it.

    :param examples: Labelled documents, best those of test.
    :param others: Other splits of the same corpus by their names, the earliest first, to look for twins.
    :param n_trials: How many times words outside the rationale are changed.
    :param seed: Draws all that is drawn.
    :param explained: What was reported for the examples, if that is to be checked, in the groups of ``explain_stream``;
        else the model explains them now.
    """
    _check(model, examples, others, explained)
    if explained is None:
        explained = explain_all(model, [example.document for example in examples], progress, "explaining")
    verdicts = (
        replay(model.predictor, explained, seed),
        try_to_break(model, explained, n_trials, seed, progress).verdict,
        *_leaking(examples, explained, seed, progress),
        asked_class(model, examples, explained, seed, progress),
        _hygiene(examples, others, "" if model.report is None else model.report.measured_on),
        _degenerate(explained),
    )
    return Audit(verdicts)


def _check(
    model: Rationalizer,
    examples: Sequence[Example],
    others: Mapping[str, Sequence[Example]],
    explained: Sequence[Explanation] | None,
) -> None:
    """Refuse what cannot be audited."""
    if not examples:
        raise ValueError("There are no documents to audit with. Give some that can be used.")
    check_labels(model.labels, examples)
    if AUDITED in others:
        raise ValueError(f"The examples that are audited are called {AUDITED}: give other splits other names.")
    if explained is None:
        return
    if len(explained) != len(examples):
        raise ValueError(
            f"There are {len(examples)} examples but {len(explained)} explanations. Give one each, in the same order."
        )
    for example, item in zip(examples, explained, strict=True):
        if example.document != item.document:
            raise ValueError(
                f"The explanation of document {item.document.id!r} stands where that of {example.document.id!r} "
                "should. Give one for each example, in the same order."
            )


def _leaking(
    examples: Sequence[Example], explained: Sequence[Explanation], seed: int, progress: Progress
) -> tuple[Verdict, Verdict, Verdict]:
    """See whether masks alone give labels and decisions away, and whether the number of words shown gives labels."""
    gold = [example.label for example in examples]
    targets = {"label": gold, "decision": [item.prediction.label for item in explained]}
    with progress.task("masks alone", len(targets) + 1) as advance:
        found: list[Verdict] = []
        for target, labels in targets.items():
            found.append(_leaks_of(explained, labels, target, seed))
            advance(1, "")
        length = _length_and_labels(explained, gold, seed)
        advance(1, "")
    return found[0], found[1], length


def _leaks_of(explained: Sequence[Explanation], labels: Sequence[str], target: str, seed: int) -> Verdict:
    """See whether masks alone give something away."""
    name, masks = f"masks and {target}s", [item.mask for item in explained]
    if all(mask.kept.all() for mask in masks):
        return Verdict(name, "not run", "Every mask keeps all words, so that there is no choice to give anything away.")
    try:
        leaks = find_leaks(masks, labels, target, _texts_of(explained), seed=seed)
    except MissingExtraError as error:
        return Verdict(name, "not run", str(error))
    if leaks.mask.n_labels < 2:
        return Verdict(name, "not run", leaks.mask.verdict)
    worst = max((leaks.mask, leaks.length), key=lambda leak: (_tells(leak, leaks), leak.score))
    evidence = (f"{leaks.mask.n_masks:,} masks of {leaks.mask.n_labels} {target}s.", *leaks.verdicts)
    if worst.found and not _tells(worst, leaks):
        return Verdict(name, "holds", f"{worst.verdict} {NO_CHOICE}", evidence)
    return Verdict(name, "look here" if worst.found else "holds", worst.verdict, evidence)


def _length_and_labels(explained: Sequence[Explanation], labels: Sequence[str], seed: int) -> Verdict:
    """See whether the number of words shown predicts the label, also where it only follows the document's length."""
    name = "length and labels"
    try:
        leak = find_length_leak([item.mask for item in explained], labels, texts=_texts_of(explained), seed=seed)
    except MissingExtraError as error:
        return Verdict(name, "not run", str(error))
    if leak.n_labels < 2:
        return Verdict(name, "not run", leak.verdict)
    evidence = (f"{leak.n_masks:,} rationales of {leak.n_labels} labels.", *((COUNTED,) if leak.found else ()))
    return Verdict(name, "look here" if leak.found else "holds", leak.verdict, evidence)


def _texts_of(explained: Sequence[Explanation]) -> list[str] | None:
    """Name the text of each rationale where several may belong to one, as with queries."""
    asks = any(item.document.query for item in explained)
    return [" ".join(item.document.words) for item in explained] if asks else None


def _tells(leak: Leak, leaks: Leaks) -> bool:
    """Say whether something gives labels away better than the length of the document does, which nobody chose."""
    return leak.found and not (leaks.document.found and leaks.document.score >= leak.score)


def _hygiene(examples: Sequence[Example], others: Mapping[str, Sequence[Example]], left_out: str = "") -> Verdict:
    """See whether splits have documents in common, and whether they are the splits of the model.

    :param left_out: Digest of the documents that training left out for test, if it is known.
    """
    known = {name: part for name, part in others.items() if part}
    if known and left_out and left_out != dataset_digest(examples):
        says = (
            "These are not the documents that training left out for test: some of them may have been trained on. Give "
            "the files of the training as they were, or, if all documents are new, say so (whole=True)."
        )
        return Verdict("split hygiene", "look here", says)
    if not known:
        says = "Only one split is known, so that there is nothing to compare it with."
        return Verdict("split hygiene", "not run", says)
    found = find_twins_among({**known, AUDITED: examples})
    lines = [overlap.sentence for overlap in found.overlaps]
    lines += [
        f"{pair.second_split} {pair.second!r} and {pair.first_split} {pair.first!r}: "
        + ("the same" if pair.exact else f"{pair.similarity:.0%} alike")
        + (", other labels" if pair.labels_differ else "")
        for pair in found.pairs[:MOST_PAIRS]
    ]
    if found.clean:
        says = "No document is in two splits, word for word or nearly."
        return Verdict("split hygiene", "holds", says, tuple(lines))
    pairs = "1 pair" if found.n_pairs == 1 else f"{found.n_pairs:,} pairs"
    says = f"{pairs} of documents in different splits: the same, or nearly."
    return Verdict("split hygiene", "look here", says, tuple(lines))


def _degenerate(explained: Sequence[Explanation]) -> Verdict:
    """See whether rationales say something to a reader."""
    if len(explained) < LEAST:
        says = f"There are {len(explained)} documents; at least {LEAST} are needed to say something of all of them."
        return Verdict("degenerate rationales", "not run", says)
    decisions = [item.prediction.label for item in explained]
    found = find_degenerate([item.document for item in explained], [item.mask for item in explained], decisions)
    bad = [finding for finding in found if finding.degenerate]
    lines = [
        f"{finding.sentence} See: {', '.join(map(repr, finding.ids))}." if finding.degenerate else finding.sentence
        for finding in sorted(found, key=lambda finding: not finding.degenerate)
    ]
    if bad:
        says = " ".join(finding.sentence for finding in bad)
        return Verdict("degenerate rationales", "look here", says, tuple(lines))
    says = "No sign of rationales that say nothing: stop words only, always the first words, one word for a class."
    return Verdict("degenerate rationales", "holds", says, tuple(lines))
