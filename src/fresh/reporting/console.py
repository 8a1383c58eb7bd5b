"""Explanations and reports in a terminal, and explanations as JSON."""

from collections.abc import Sequence
from typing import Any

from rich import box
from rich.console import Console
from rich.table import Table
from rich.text import Text

from fresh.document import Explanation
from fresh.highlight import CONTROL_PICTURES
from fresh.reporting.report import Figures, Report, cells
from fresh.reporting.verdict import Verdict
from fresh.selection.extractors import Curve

READ = "bold underline green"
STYLES = {"holds": "green", "broken": "bold red", "look here": "bold yellow", "not run": "dim"}


def _highlighted(explanation: Explanation, plain: bool) -> Text:
    """Show a document with the words that were read; in plain text, between brackets."""
    text = explanation.document.text.translate(CONTROL_PICTURES)
    shown = Text()
    after = 0
    for start, end in explanation.spans:
        shown.append(text[after:start], style="dim")
        shown.append(f"[{text[start:end]}]" if plain else text[start:end], style=READ)
        after = end
    shown.append(text[after:], style="dim")
    return shown


def show_explanation(console: Console, explanation: Explanation, gold: str | None = None) -> None:
    """Print the answer and the document with the words it was made from."""
    prediction = explanation.prediction
    line = Text.assemble(
        (prediction.label.translate(CONTROL_PICTURES), "bold"), f" (probability {prediction.probability:.2f})"
    )
    if gold is not None:
        line.append(
            " right" if gold == prediction.label else f" wrong: it is {gold.translate(CONTROL_PICTURES)}",
            style="italic",
        )
    kept = int(explanation.mask.kept.sum())
    n_words, n_read = len(explanation.mask), None if explanation.saliency is None else explanation.saliency.n_read
    cut_off = "" if n_read is None or n_read >= n_words else f", of which only the first {n_read} were looked at"
    line.append(f", from {kept} of {n_words} words{cut_off}:", style="dim")
    console.print(line)
    console.print(_highlighted(explanation, plain=console.color_system is None), soft_wrap=not console.is_terminal)
    console.print()


def show_curve(console: Console, curve: Curve) -> None:
    """Print the answers to growing rationales, and the shortest that is enough."""
    table = Table(title="Answers to growing rationales", title_justify="left")
    for name in ("words", "share"):
        table.add_column(name, justify="right")
    table.add_column("answer")
    table.add_column("probability", justify="right")
    for point in curve.points:
        n_kept, prediction = int(point.mask.kept.sum()), point.prediction
        table.add_row(
            str(n_kept),
            f"{point.ratio:.0%}",
            Text(prediction.label.translate(CONTROL_PICTURES)),
            f"{prediction.probability:.2f}",
        )
    console.print(table)
    console.print("From these words on, the answer stays the same:")
    show_explanation(console, curve.minimal)


def show_report(console: Console, report: Report) -> None:
    """Print a table of what was measured."""
    title = f"{report.n_documents:,} test document{'s' if report.n_documents != 1 else ''}"
    table = Table(title=title, title_justify="left", box=box.SIMPLE_HEAD, pad_edge=False)
    table.add_column("what is read")
    for name in ("macro-F1", "accuracy", "words"):
        table.add_column(name, justify="right")
    for row in report.rows:
        what, f1, accuracy, _ = (Text(cell.translate(CONTROL_PICTURES)) for cell in cells(row))
        table.add_row(what, f1, accuracy, f"{row.kept:.1%}", style="bold" if row.own else None)  # it must fit
    console.print(table)
    if report.figures is not None:
        _show_figures(console, report.figures)
    if report.verdicts:
        _show_verdicts(console, report.verdicts)
    for line in report.remarks:
        console.print(line.translate(CONTROL_PICTURES), highlight=False, markup=False)


def _show_verdicts(console: Console, verdicts: Sequence[Verdict]) -> None:
    """Print what an audit found, without the evidence."""
    table = Table(title="Audit", title_justify="left", box=box.SIMPLE_HEAD, pad_edge=False, show_header=False)
    for verdict in verdicts:
        style = STYLES.get(verdict.found, "")
        table.add_row(Text(verdict.name), Text(verdict.found, style), Text(verdict.says.translate(CONTROL_PICTURES)))
    console.print(table)


def _show_figures(console: Console, figures: Figures) -> None:
    """Print what was measured of the model itself."""
    table = Table(box=box.SIMPLE_HEAD, pad_edge=False, show_header=False)
    marked = f" ({figures.n_marked:,} documents that people marked)"
    for note, measures in (("", figures.calibration), ("", figures.faithfulness), (marked, figures.agreement)):
        for number, measure in enumerate(measures):
            table.add_row(measure.name + (note if number == 0 else ""), str(measure.figure))
    console.print(table)
    console.print("In brackets: 95 % intervals, by drawing the documents anew.", style="dim")


def to_record(explanation: Explanation, scores: bool = False) -> dict[str, Any]:
    """Turn an explanation into plain values, for JSON.

    :param scores: Add all words and, where there are any, the scores that the rationale was cut from.
    """
    text = explanation.document.text
    record: dict[str, Any] = {
        "id": explanation.document.id,
        "label": explanation.prediction.label,
        "probability": explanation.prediction.probability,
        "probabilities": dict(explanation.prediction.probabilities),
        "rationale": [{"start": start, "end": end, "text": text[start:end]} for start, end in explanation.spans],
        "ratio": explanation.mask.ratio,
    }
    if scores:
        record["words"] = list(explanation.document.words)
    if scores and explanation.saliency is not None:
        record["scores"] = explanation.saliency.scores.tolist()
    return record
