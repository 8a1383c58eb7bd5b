"""A report as a page: what was measured, and the documents it was measured on."""

import datetime
import importlib.metadata
from collections.abc import Iterable
from pathlib import Path

from fresh._io import write_text
from fresh.config import flatten
from fresh.evaluation.evaluate import Evaluation
from fresh.evaluation.measures import AGREEMENT
from fresh.metrics.estimate import Estimate
from fresh.rationalizer import Rationalizer
from fresh.reporting.html import AgreementRow, Confusion, DocumentView, HeadlineRow, LengthCurve, View, render
from fresh.reporting.report import Figures, Report, Row

SHOWN = 500
"""Documents that a page shows, at most."""
GUARANTEE = (
    "Given the words shown as read (and the query, where there is one), nothing else can change the answer. The number "
    "of words shown is part of what is shown: with a fixed ratio it reveals the length of the document.\n\n"
    "Why these words were chosen is not covered: the extractor reads the whole document, and other words can change "
    "which words are shown."
)
UNAUDITED = "That is how the model is built. It was not put to the test here: fresh audit does that."
PACKAGES = ("fresh-rationales", "torch", "transformers", "numpy")


def page_of(
    model: Rationalizer,
    found: Evaluation,
    title: str,
    data: str = "test documents",
) -> View:
    """Lay out all that is known of a model."""
    report = found.report
    chosen = _choose(found, SHOWN)
    return View(
        title=title,
        headline=tuple(map(_headline_row, report.rows)),
        documents=tuple(DocumentView.of(found.examples[number], found.explained[number]) for number in chosen),
        data=data,
        n_documents=report.n_documents,
        when=f"{datetime.datetime.now(tz=datetime.UTC):%d %B %Y}".lstrip("0"),
        settings=tuple((name, str(value)) for name, value in flatten(model.settings)),
        versions=tuple((name, importlib.metadata.version(name)) for name in _installed(PACKAGES)),
        classes=next(row.classes for row in report.rows if row.own),
        curve=_curve_of(report),
        confusion=None if report.figures is None else Confusion(report.figures.labels, report.figures.confusion),
        bins=() if report.figures is None else report.figures.bins,
        calibration=() if report.figures is None else report.figures.calibration,
        less_read=() if report.figures is None else report.figures.faithfulness,
        agreement=() if report.figures is None else _agreement_of(report.figures, _own_name(report)),
        verdicts=report.verdicts,
        guarantee=report.guarantee or f"{GUARANTEE}\n\n{UNAUDITED}",
        notes=report.remarks,
    )


def _choose(found: Evaluation, most: int) -> list[int]:
    """Choose the documents to show: all, or the wrong answers and as many of the right ones as there is room for."""
    pairs = list(zip(found.examples, found.explained, strict=True))
    wrong = [number for number, (example, item) in enumerate(pairs) if example.label != item.prediction.label]
    right = sorted(set(range(len(pairs))) - set(wrong))
    first = [wrong[place] for place in _spread(len(wrong), most)]
    return sorted([*first, *(right[place] for place in _spread(len(right), most - len(first)))])


def _spread(n: int, most: int) -> list[int]:
    """Choose numbers below n, evenly, and at most so many."""
    return list(range(n)) if n <= most else [number * n // most for number in range(most)]


def _installed(names: Iterable[str]) -> Iterable[str]:
    """Leave out packages that are not there."""
    known = {item.metadata["Name"] for item in importlib.metadata.distributions()}
    return (name for name in names if name in known)


def _own_name(report: Report) -> str:
    """Find what the model is called in the table."""
    return next(row.name for row in report.rows if row.own)


def _headline_row(row: Row) -> HeadlineRow:
    """Show a row of the table."""
    f1, accuracy = Estimate.of(row.macro_f1, row.macro_f1_between), Estimate.of(row.accuracy, row.accuracy_between)
    return HeadlineRow(row.name, f1, accuracy, Estimate.of(row.kept, row.kept_between), own=row.own)


def _curve_of(report: Report) -> LengthCurve | None:
    """Show what longer rationales bring."""
    if report.figures is None or not report.figures.lengths:
        return None
    full = [row.macro_f1 for row in report.rows if row.name.startswith("full text")]
    return LengthCurve(report.figures.lengths, full[0] if full else None)


def _agreement_of(figures: Figures, name: str) -> tuple[AgreementRow, ...]:
    """Show how far rationales are what people marked."""
    if not figures.agreement:
        return ()
    found = {measure.name: measure.figure for measure in figures.agreement}
    precision, recall, f1, iou, area = (found.get(column) for column in AGREEMENT)
    return (AgreementRow(name, precision, recall, f1, iou, area, own=True),)


def report_of(folder: Path) -> Path:
    """Name the page that goes with a model: beside its folder, since it holds the texts of test documents."""
    return folder.with_name(f"{folder.name}-report.html")


def check_report(path: Path, overwrite: bool) -> None:
    """Refuse to replace a page unless asked to."""
    if path.exists() and not overwrite:
        raise ValueError(
            f"{path} is there already. Choose another folder for the model, or replace it: overwrite=True."
        )


def write_page(path: Path, model: Rationalizer, found: Evaluation, name: str, data: str) -> None:
    """Write a page about a model and what it was measured on, by the names of their files."""
    write_text(path, render(page_of(model, found, Path(name).name, Path(data).name)))
