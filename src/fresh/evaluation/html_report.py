"""A report as a page: what was measured, and the documents that it was measured on."""

import datetime
import importlib.metadata
from pathlib import Path

from fresh._io import write_text
from fresh.config import flatten
from fresh.evaluation.evaluation import Evaluation
from fresh.evaluation.measures import AGREEMENT_MEASURES
from fresh.rationalizer import Rationalizer
from fresh.reporting.html import AgreementRow, ScoreRow, View, render
from fresh.reporting.report import estimate

MAX_DOCUMENTS_SHOWN = 500
AGREEMENT_COLUMNS = dict(zip(AGREEMENT_MEASURES, ("precision", "recall", "token F1", "IoU-F1", "AUPRC"), strict=True))
GUARANTEE = (
    "Given the words shown, nothing else can change the answer. It is computed from these words and, where there is "
    "one, from the query. The number of words shown is part of what is shown: with a fixed ratio, it reveals the "
    "length of the document.\n\n"
    "Why these words were selected is not covered: the extractor reads the whole document, and other words can change "
    "which words are shown.\n\n"
    "This follows from how the model is built. It was not tested here: to test it, run fresh audit."
)
PACKAGES = ("fresh-rationales", "torch", "transformers", "numpy")


def report_view(model: Rationalizer, evaluation: Evaluation, title: str, data: str = "test documents") -> View:
    """Lay out everything that is known of a model."""
    report, figures = evaluation.report, evaluation.report.figures
    shown = _select_documents(evaluation, MAX_DOCUMENTS_SHOWN)
    installed = {item.metadata["Name"] for item in importlib.metadata.distributions()}
    headline = (
        ScoreRow(row.name, estimate(row, "macro_f1"), estimate(row, "accuracy"), estimate(row, "kept"), own=row.own)
        for row in report.rows
    )
    agreement = {} if figures is None else {AGREEMENT_COLUMNS[one.name]: one.figure for one in figures.agreement}
    return View(
        title=title,
        headline=tuple(headline),
        documents=tuple((evaluation.examples[place], evaluation.explained[place]) for place in shown),
        data=data,
        n_documents=report.n_documents,
        when=f"{datetime.datetime.now(tz=datetime.UTC):%d %B %Y}".lstrip("0"),
        settings=tuple((name, str(value)) for name, value in flatten(model.settings)),
        versions=tuple((name, importlib.metadata.version(name)) for name in PACKAGES if name in installed),
        classes=report.own.classes,
        figures=figures,
        full_text=next((row.macro_f1 for row in report.rows if row.name.startswith("full text")), None),
        agreement=(AgreementRow(report.own.name, agreement, own=True),) if agreement else (),
        verdicts=report.verdicts,
        guarantee=report.guarantee or GUARANTEE,
        notes=report.all_notes,
    )


def _select_documents(evaluation: Evaluation, most: int) -> list[int]:
    """Select the documents to show: all, or the wrong predictions first, evenly spaced where there are too many."""
    pairs = list(zip(evaluation.examples, evaluation.explained, strict=True))
    wrong = [number for number, (example, item) in enumerate(pairs) if example.label != item.prediction.label]
    right = sorted(set(range(len(pairs))) - set(wrong))
    # Most questions are about wrong predictions, so they are shown first when there is no room for all.
    first = [wrong[place] for place in evenly_spaced(len(wrong), most)]
    return sorted([*first, *(right[place] for place in evenly_spaced(len(right), most - len(first)))])


def evenly_spaced(n: int, most: int) -> list[int]:
    """List places from all over a sequence, at most so many of them."""
    return list(range(n)) if n <= most else [number * n // most for number in range(most)]


def report_path(folder: Path) -> Path:
    """Name the page of a model: beside its folder, not in it, since the page holds the texts of test documents."""
    return folder.with_name(f"{folder.name}-report.html")


def write_html_report(path: Path, model: Rationalizer, evaluation: Evaluation, name: str, data: str) -> None:
    """Write a page about a model and its evaluation.

    :param name: Path or name of the model.
    :param data: Path or name of the data.
    """
    write_text(path, render(report_view(model, evaluation, Path(name).name, Path(data).name)))
