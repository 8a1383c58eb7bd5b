"""The audit: which checks are run, what each says, and what the guarantee covers."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from types import MappingProxyType
from typing import Any

from fresh.audit.degenerate import check_content
from fresh.audit.duplicates import AUDITED, check_splits
from fresh.audit.independent import check_independent
from fresh.audit.invariance import check_invariance
from fresh.audit.leakage import check_length, check_masks
from fresh.audit.replay import replay
from fresh.audit.stability import check_stability
from fresh.audit.target_class import check_target_class
from fresh.document import Example, Explanation
from fresh.evaluation.evaluation import Evaluation, check_labels, explain_all
from fresh.highlight import CONTROL_PICTURES
from fresh.predictor import Predictor
from fresh.progress import SILENT, Progress
from fresh.rationalizer import Rationalizer
from fresh.reporting.report import Verdict
from fresh.reporting.tables import markdown_table

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
number of words shown gives away, answers that change with the class that words are selected for, rationales that only \
the model's own predictor understands, answers that change with words that are not shown, rationales without content, \
test documents that were trained on. If they find no sign, that is no proof.

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


def audit(  # noqa: PLR0913
    model: Rationalizer,
    examples: Sequence[Example],
    others: Mapping[str, Sequence[Example]] = MappingProxyType({}),
    n_trials: int = 2000,
    seed: int = 0,
    progress: Progress = SILENT,
    explained: Sequence[Explanation] | None = None,
    *,
    reader: Predictor | None = None,
) -> Audit:
    """Try to break the guarantee of a model, and look for what leaks past it.

    :param examples: Labeled documents, preferably the test split.
    :param others: The other splits of the same corpus by name, the earliest first, to look for duplicates.
    :param n_trials: How many times words outside the rationale are changed.
    :param seed: Seeds every random choice.
    :param explained: Reported explanations of the examples, to be checked, in the batches of ``explain_stream``. By
        default, the model explains the examples now.
    :param reader: An independent reader of the same corpus; by default that of the model, if it has one.
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
    # A check is a function in a file of its own that returns a verdict, and a line here.
    verdicts = [replay(model.predictor, explained, seed), check_invariance(model, explained, n_trials, seed, progress)]
    with progress.task("masks alone", 3) as advance:
        for target, labels in (("label", gold), ("decision", decisions)):
            verdicts.append(check_masks(explained, labels, target, seed))
            advance(1, "")
        verdicts.append(check_length(explained, gold, seed))
        advance(1, "")
    verdicts += [
        check_target_class(model, examples, explained, seed, progress),
        check_independent(model, examples, explained, reader or model.load_reader()),
        check_stability(model, explained, seed, progress),
        check_splits(examples, others, "" if model.report is None else model.report.measured_on),
        check_content(explained),
    ]
    return Audit(tuple(verdicts))
