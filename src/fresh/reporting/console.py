"""Explanations and reports in a terminal, and explanations as JSON."""

from typing import Any

from rich import box
from rich.console import Console
from rich.table import Table
from rich.text import Text

from fresh.document import Explanation
from fresh.highlight import CONTROL_PICTURES
from fresh.reporting.report import Report, row_cells
from fresh.selection.extractors import Curve
from fresh.text import plural

HIGHLIGHT = "bold underline green"
# How each verdict is shown.
STYLES = {"holds": "green", "broken": "bold red", "look here": "bold yellow", "not run": "dim"}


def show_explanation(console: Console, explanation: Explanation, gold: str | None = None) -> None:
    """Print the prediction, and the document with the words that it was computed from."""
    prediction = explanation.prediction
    line = Text.assemble(_safe(prediction.label, "bold"), f" (probability {prediction.probability:.2f})")
    if gold is not None:
        line.append(_safe(" right" if gold == prediction.label else f" wrong: it is {gold}", "italic"))
    n_words, n_read = len(explanation.mask), None if explanation.saliency is None else explanation.saliency.n_read
    truncated = "" if n_read is None or n_read >= n_words else f", selected among the first {n_read}"
    line.append(f", from {int(explanation.mask.kept.sum())} of {plural(n_words, 'word')}{truncated}:", style="dim")
    console.print(line)
    text = explanation.document.text.translate(CONTROL_PICTURES)
    marked, position = Text(), 0
    for start, end in explanation.spans:
        marked.append(text[position:start], style="dim")
        # Where there are no colors, brackets mark the words that were read.
        marked.append(f"[{text[start:end]}]" if console.color_system is None else text[start:end], style=HIGHLIGHT)
        position = end
    console.print(marked.append(text[position:], style="dim"), soft_wrap=not console.is_terminal)
    console.print()


def show_curve(console: Console, curve: Curve) -> None:
    """Print the predictions from growing rationales, and the shortest rationale that is enough."""
    table = Table(title="Predictions from growing rationales", title_justify="left")
    for name in ("words", "share", "prediction", "probability"):
        table.add_column(name, justify="left" if name == "prediction" else "right")
    for point in curve.points:
        answer, n_kept = point.prediction, int(point.mask.kept.sum())
        table.add_row(str(n_kept), f"{point.ratio:.0%}", _safe(answer.label), f"{answer.probability:.2f}")
    console.print(table)
    console.print("From these words on, the prediction stays the same:")
    show_explanation(console, curve.minimal)


def show_report(console: Console, report: Report) -> None:
    """Print the scores, figures, verdicts and notes of a report."""
    table = _plain_table(f"{report.n_documents:,} test document{'s' if report.n_documents != 1 else ''}")
    table.add_column("what is read")
    for name in ("macro-F1", "accuracy", "words"):
        table.add_column(name, justify="right")
    for row in report.rows:
        # The share of words goes without its interval, so that the table fits into 80 columns.
        table.add_row(*map(_safe, row_cells(row)[:3]), f"{row.kept:.1%}", style="bold" if row.own else None)
    console.print(table)
    if report.figures is not None:
        measures, figures = _plain_table(show_header=False), report.figures
        for measure in (*figures.calibration, *figures.faithfulness, *figures.agreement):
            measures.add_row(measure.name, str(measure.figure))
        console.print(measures)
        console.print("In brackets: 95 % bootstrap intervals over the documents.", style="dim", highlight=False)
        if figures.agreement:
            people = f"Agreement with people: over {plural(figures.n_marked, 'document')} with a human rationale."
            console.print(people, style="dim", highlight=False)
    if report.verdicts:
        audit = _plain_table("Audit", show_header=False)
        for verdict in report.verdicts:
            audit.add_row(Text(verdict.name), Text(verdict.found, STYLES[verdict.found]), _safe(verdict.says))
        console.print(audit)
    for note in report.all_notes:
        console.print(_safe(note))


def _plain_table(title: str | None = None, show_header: bool = True) -> Table:
    return Table(title=title, title_justify="left", box=box.SIMPLE_HEAD, pad_edge=False, show_header=show_header)


def _safe(text: str, style: str = "") -> Text:
    """Show a text as it is: neither markup nor control characters can steer the terminal."""
    return Text(text.translate(CONTROL_PICTURES), style)


def to_record(explanation: Explanation, scores: bool = False) -> dict[str, Any]:
    """Return an explanation as plain values, for JSON.

    :param scores: Add all words and, where there are any, the scores that the rationale was selected by.
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
