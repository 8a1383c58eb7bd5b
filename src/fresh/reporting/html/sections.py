"""The parts of the page that stand still, each as HTML; a part of which nothing is known is left out."""

from collections.abc import Sequence
from itertools import chain

from fresh.highlight import escape_text, isolate
from fresh.reporting.html.drawing import bounds, ends, whisker
from fresh.reporting.html.layout import facts, figure, folded, row, section, table
from fresh.reporting.html.view import AgreementRow, HeadlineRow, Pair, View
from fresh.reporting.verdict import Verdict

SIGNS = {"holds": "✓", "broken": "✗", "look here": "!", "not run": "–"}
AGREEMENT = {"precision": "precision", "recall": "recall", "token_f1": "token F1", "iou_f1": "IoU-F1", "auprc": "AUPRC"}


def headline(rows: Sequence[HeadlineRow], whiskers: str) -> str:
    """Show the model beside what it is held against.

    :param whiskers: Says what the ends of whiskers are.
    """
    f1_range, accuracy_range = bounds(ends(one.macro_f1 for one in rows)), bounds(ends(one.accuracy for one in rows))
    own = next((one for one in rows if one.own), None)
    laid = [
        row(
            one.name,
            (
                (
                    "macro-F1",
                    figure(one.macro_f1) + whisker(one.macro_f1, f1_range, own.macro_f1.value if own else None),
                ),
                (
                    "accuracy",
                    figure(one.accuracy) + whisker(one.accuracy, accuracy_range, own.accuracy.value if own else None),
                ),
                ("words kept", figure(one.kept, ".1%")),
            ),
            one.own,
        )
        for one in rows
    ]
    heads = ("what is read", f"macro-F1{_ruler(f1_range)}", f"accuracy{_ruler(accuracy_range)}", "words kept")
    sure = any(one.macro_f1.low is not None for one in rows)
    says = "The same documents, read in several ways." + (f" {escape_text(whiskers)}" if sure else "")
    return section("results", "Results", table(heads, laid, "How well each way of reading did"), says)


def _ruler(between: tuple[float, float]) -> str:
    """Say over a column of whiskers from where to where they run."""
    return f' <span class="range"><span>{between[0]:g}</span><span>{between[1]:g}</span></span>'


def agreement(rows: Sequence[AgreementRow]) -> str:
    """Show how well rationales agree with those of people."""
    fields = [field for field in AGREEMENT if any(getattr(one, field) is not None for one in rows)]
    laid = [
        row(one.name, [(AGREEMENT[field], figure(getattr(one, field))) for field in fields], one.own) for one in rows
    ]
    heads = ("rationales of", *(AGREEMENT[field] for field in fields))
    says = "Words that were read against words that people marked, as ERASER measures it."
    body = table(heads, laid, "Agreement with people") if rows else ""
    return section("agreement", "Agreement with people", body, says)


def audit(verdicts: Sequence[Verdict], guarantee: str) -> str:
    """Show what the audit found, and what is guaranteed."""
    items = "".join(map(_verdict_item, verdicts))
    told = "".join(f"<p>{isolate(paragraph)}</p>" for paragraph in guarantee.split("\n\n") if paragraph.strip())
    covers = f'<div class="guarantee"><h3>What is guaranteed, and what is not</h3>{told}</div>' if told else ""
    return section("audit", "Audit", (f'<ul class="verdicts">{items}</ul>' if items else "") + covers)


def _verdict_item(verdict: Verdict) -> str:
    """Show one verdict by sign, word and sentence, with its evidence folded."""
    sign = f'<span class="sign" aria-hidden="true">{SIGNS[verdict.found]}</span>'
    title = f'<h3>{isolate(verdict.name)} <span class="found">{verdict.found}</span></h3>'
    lines = "".join(f"<li>{isolate(line)}</li>" for line in verdict.evidence)
    evidence = folded("Evidence", f"<ul>{lines}</ul>") if lines else ""
    body = f"<div>{title}<p>{isolate(verdict.says)}</p>{evidence}</div>"
    return f'<li class="verdict {verdict.found.replace(" ", "-")}">{sign}{body}</li>'


def comparisons(pairs: Sequence[Pair], tests: str) -> str:
    """Show how far models are apart, where this was tested.

    :param tests: Says how they were compared.
    """
    tested = [(one, one.p) for one in pairs if one.p is not None]
    between = bounds([0.0, *chain.from_iterable(ends([one.difference]) for one, _ in tested)])
    laid = [
        row(
            f"{one.first} − {one.second}",
            (
                ("measure", isolate(one.measure)),
                ("difference", figure(one.difference, "+z.3f") + whisker(one.difference, between, 0.0)),
                ("p", _p_value(p)),
                ("p, corrected", "–" if one.adjusted is None else _p_value(one.adjusted)),
            ),
        )
        for one, p in tested
    ]
    heads = ("first − second", "measure", f"difference{_ruler(between)}", "p", "p, corrected")
    says = f"{escape_text(tests)}; the hairline is no difference."
    return section("comparisons", "Comparisons", table(heads, laid, "Comparisons of models") if tested else "", says)


def _p_value(p: float) -> str:
    """Write how surprising a difference would be by chance."""
    return "&lt; 0.001" if p < 0.001 else f"{p:.3f}"


def about(view: View) -> str:
    """Show notes, settings and versions."""
    notes = "".join(f"<li>{isolate(note)}</li>" for note in view.notes)
    listed = f'<ul class="notes">{notes}</ul>' if notes else ""
    return section("about", "About", listed + facts("Settings", view.settings) + facts("Versions", view.versions))
