"""The audit: which checks are run, what each says, and what the guarantee covers."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from types import MappingProxyType
from typing import Any

from fresh.audit.degenerate import MIN_RATIONALES, find_degenerate
from fresh.audit.duplicates import find_duplicates
from fresh.audit.invariance import check_invariance
from fresh.audit.leakage import DOCUMENT_LENGTH_NOTE, Leak, find_leaks, find_length_leak
from fresh.audit.replay import replay
from fresh.audit.target_class import check_target_class
from fresh.data.splits import dataset_digest
from fresh.document import Example, Explanation
from fresh.evaluation.evaluation import Evaluation, check_labels, explain_all
from fresh.highlight import CONTROL_PICTURES
from fresh.progress import SILENT, Progress
from fresh.rationalizer import Rationalizer
from fresh.reporting.report import Verdict
from fresh.reporting.tables import markdown_table

# The name of the split that is audited.
AUDITED = "test"
MAX_PAIRS_SHOWN = 5
NO_SPLITS: Mapping[str, Sequence[Example]] = MappingProxyType({})
GUARANTEE = """\
What is certain where replay and invariance hold: given the words shown, nothing else can change the answer. It is \
computed from these words in their order and, where there is one, from the query: not from the other words of the \
document, and not from word positions. The number of words shown is part of what is shown, and the predictor can count \
them: with a fixed ratio, this number reveals the length of the document. Other words can still change the answer by \
changing which words are selected. If you read the rationale, you have read everything that the predictor read.

What is not certain: why these words were selected. The extractor has read the whole document. It could decide by \
itself and select words that tell the predictor what it decided. Every answer would still be computed from the words \
shown, and they would explain little (Jacovi and Goldberg, 2021). No check can prove that words were selected for good \
reasons. The other checks look for signs that they were not: masks that give labels or decisions away, labels that the \
number of words shown gives away, answers that change with the class that words are selected for, rationales without \
content, test documents that were trained on. If they find no sign, that is no proof.

The guarantee does not say that the words are a good reason, or the reason a person would give: only that the answer \
was computed from them."""


@dataclass(frozen=True, slots=True)
class Audit:
    """One verdict for each check, and what the guarantee covers."""

    verdicts: tuple[Verdict, ...]
    guarantee: str = GUARANTEE

    @property
    def holds(self) -> bool:
        """Whether nothing is broken."""
        return all(verdict.found != "broken" for verdict in self.verdicts)

    def add_to(self, evaluation: Evaluation) -> Evaluation:
        """Return the evaluation with the verdicts in its report."""
        report = replace(evaluation.report, verdicts=self.verdicts, guarantee=self.guarantee)
        return replace(evaluation, report=report)

    def to_dict(self) -> dict[str, Any]:
        """Return plain values, for JSON."""
        return {"holds": self.holds, **asdict(self)}

    def to_json(self) -> str:
        """Return indented JSON, in ASCII: evidence may hold half a surrogate pair, which UTF-8 cannot encode."""
        return json.dumps(self.to_dict(), indent=2, ensure_ascii=True) + "\n"

    def to_markdown(self) -> str:
        """Return a table, with the evidence below it."""
        rows = [(item.name, item.found, item.says) for item in self.verdicts]
        lines = markdown_table(("check", "verdict", "finding"), rows)
        for verdict in self.verdicts:
            if verdict.evidence:
                # Evidence quotes documents: as an indented block, it is shown as it is.
                block = [f"    {line.translate(CONTROL_PICTURES)}".replace("\n", " ") for line in verdict.evidence]
                lines += ["", f"## {verdict.name}", "", *block]
        return "\n".join((*lines, "", "## What the guarantee covers", "", self.guarantee)) + "\n"


def audit(
    model: Rationalizer,
    examples: Sequence[Example],
    others: Mapping[str, Sequence[Example]] = NO_SPLITS,
    n_trials: int = 2000,
    seed: int = 0,
    progress: Progress = SILENT,
    explained: Sequence[Explanation] | None = None,
) -> Audit:
    """Try to break the guarantee of a model, and look for what leaks past it.

    :param examples: Labeled documents, preferably the test split.
    :param others: The other splits of the same corpus by name, the earliest first, to look for duplicates.
    :param n_trials: How many times words outside the rationale are changed.
    :param seed: Seeds every random choice.
    :param explained: Reported explanations of the examples, to be checked, in the batches of ``explain_stream``. By
        default, the model explains the examples now.
    """
    if not examples:
        raise ValueError("examples must have at least one document to audit with.")
    check_labels(model.labels, examples)
    if AUDITED in others:
        raise ValueError(f"others must not have the name {AUDITED!r}: that is the name of the examples audited.")
    documents = [example.document for example in examples]
    if explained is None:
        explained = explain_all(model, documents, progress, "explaining")
    if [item.document for item in explained] != documents:
        raise ValueError("explained must have one item for each of the examples, in their order.")
    gold, decisions = [example.label for example in examples], [item.prediction.label for item in explained]
    verdicts = [
        replay(model.predictor, explained, seed),
        check_invariance(model, explained, n_trials, seed, progress).verdict,
    ]
    with progress.task("masks alone", 3) as advance:
        for target, labels in (("label", gold), ("decision", decisions)):
            verdicts.append(_check_masks(explained, labels, target, seed))
            advance(1, "")
        verdicts.append(_check_length(explained, gold, seed))
        advance(1, "")
    verdicts += [
        check_target_class(model, examples, explained, seed, progress),
        _check_splits(examples, others, "" if model.report is None else model.report.measured_on),
        _check_content(explained),
    ]
    return Audit(tuple(verdicts))


def _check_masks(explained: Sequence[Explanation], labels: Sequence[str], target: str, seed: int) -> Verdict:
    """See whether masks alone give labels or decisions away."""
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
    if worst.found and not beats_document_length(worst):
        return Verdict(name, "holds", f"{worst.verdict} {DOCUMENT_LENGTH_NOTE}", evidence)
    return Verdict(name, "look here" if worst.found else "holds", worst.verdict, evidence)


def _check_length(explained: Sequence[Explanation], gold: Sequence[str], seed: int) -> Verdict:
    """See whether the number of words shown predicts the label, also where it only follows the document's length."""
    name = "length and labels"
    leak = find_length_leak([item.mask for item in explained], gold, texts=_shared_texts(explained), seed=seed)
    if leak.n_labels < 2:
        return Verdict(name, "not run", leak.verdict)
    evidence = (f"{leak.n_masks:,} rationales of {leak.n_labels} labels.",)
    if not leak.found:
        return Verdict(name, "holds", leak.verdict, evidence)
    counts = (
        "The predictor can count the words shown: predictions may be right because of their number, whatever the words "
        "say. This is so even if the number only reflects the length of the document."
    )
    return Verdict(name, "look here", leak.verdict, (*evidence, counts))


def _shared_texts(explained: Sequence[Explanation]) -> list[str] | None:
    """Return the text of each rationale where several may share one, as with queries."""
    if any(item.document.query for item in explained):
        return [" ".join(item.document.words) for item in explained]
    return None


def _check_splits(examples: Sequence[Example], others: Mapping[str, Sequence[Example]], test_digest: str) -> Verdict:
    """See whether splits share documents, and whether they are the splits of the model.

    :param test_digest: Digest of the documents that training left out for test, if it is known.
    """
    name, known = "split hygiene", {name: part for name, part in others.items() if part}
    if not known:
        return Verdict(name, "not run", "Only one split is known: there is nothing to compare it with.")
    if test_digest and test_digest != dataset_digest(examples):
        says = (
            "These are not the documents that training left out for test: some of them may have been trained on. Use "
            "the unchanged training files or, if all documents are new, set whole=True."
        )
        return Verdict(name, "look here", says)
    found = find_duplicates({**known, AUDITED: examples})
    lines = [overlap.sentence for overlap in found.overlaps]
    for pair in found.pairs[:MAX_PAIRS_SHOWN]:
        alike = "the same" if pair.exact else f"{pair.similarity:.0%} alike"
        labels = ", other labels" if pair.labels_differ else ""
        lines.append(f"{pair.second_split} {pair.second!r} and {pair.first_split} {pair.first!r}: {alike}{labels}")
    if not found.n_pairs:
        return Verdict(name, "holds", "No document is in two splits, word for word or nearly.", tuple(lines))
    pairs = "1 pair" if found.n_pairs == 1 else f"{found.n_pairs:,} pairs"
    return Verdict(name, "look here", f"{pairs} of documents in different splits: the same, or nearly.", tuple(lines))


def _check_content(explained: Sequence[Explanation]) -> Verdict:
    """See whether rationales say something to a reader."""
    name = "degenerate rationales"
    if len(explained) < MIN_RATIONALES:
        says = f"There are {len(explained)} documents, but a statement about all needs at least {MIN_RATIONALES}."
        return Verdict(name, "not run", says)
    findings = find_degenerate(
        [item.document for item in explained],
        [item.mask for item in explained],
        [item.prediction.label for item in explained],
    )
    degenerate = [finding for finding in findings if finding.degenerate]
    lines = [f"{finding.sentence} See: {', '.join(map(repr, finding.ids))}." for finding in degenerate]
    lines += [finding.sentence for finding in findings if not finding.degenerate]
    if degenerate:
        return Verdict(name, "look here", " ".join(finding.sentence for finding in degenerate), tuple(lines))
    says = "No sign of rationales that say nothing: only stop words, always the first words, one word for a class."
    return Verdict(name, "holds", says, tuple(lines))
