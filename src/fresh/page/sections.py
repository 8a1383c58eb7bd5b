"""The parts of the page that stand still, each as HTML; a part of which nothing is known is left out."""

from collections.abc import Sequence
from itertools import chain

from fresh.highlight import plain
from fresh.page.drawing import bounds, draw_calibration, draw_curve, ends, whisker
from fresh.page.view import AgreementRow, Comparison, Confusion, Estimate, Facts, HeadlineRow, Verdict, View

SIGNS = {"holds": "✓", "broken": "✗", "look here": "!", "not run": "–"}
AGREEMENT = {"precision": "precision", "recall": "recall", "token_f1": "token F1", "iou_f1": "IoU-F1", "auprc": "AUPRC"}


def section(id: str, title: str, body: str, says: str = "") -> str:
    """Put a title over a part of the page; nothing where there is no part."""
    told = f'<p class="says">{says}</p>' if says else ""
    head = f'<h2 id="{id}-title">{title}</h2>{told}'
    return f'<section id="{id}" aria-labelledby="{id}-title">{head}{body}</section>' if body else ""


def table(heads: Sequence[str], rows: Sequence[str], name: str) -> str:
    """Lay out a table; on a narrow screen each row becomes a block."""
    head = "".join(f'<th scope="col">{head}</th>' for head in heads)
    body = "".join(rows)
    return f'<table class="stack"><caption class="unseen">{name}</caption><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>'


def row(name: str, cells: Sequence[tuple[str, str]], own: bool = False) -> str:
    """Lay out a row: its name, then cells with the names of their columns."""
    tag = ' <span class="tag">this model</span>' if own else ""
    body = "".join(f'<td data-name="{column}">{cell}</td>' for column, cell in cells)
    return f'<tr{" class=own" if own else ""}><th scope="row">{plain(name)}{tag}</th>{body}</tr>'


def figure(estimate: Estimate | None, form: str = ".3f") -> str:
    """Write a figure with its interval."""
    if estimate is None:
        return '<span class="muted" aria-label="not measured">–</span>'
    if estimate.low is None:
        return f'<span class="figure"><b>{estimate.value:{form}}</b></span>'
    between = f"{estimate.low:{form}} to {estimate.high:{form}}"
    return f'<span class="figure"><b>{estimate.value:{form}}</b> <small>{between}</small></span>'


def headline(rows: Sequence[HeadlineRow]) -> str:
    """The model beside what it is held against."""
    f1_low, f1_high = bounds(ends(one.macro_f1 for one in rows))
    low, high = bounds(ends(one.accuracy for one in rows))
    own = next((one for one in rows if one.own), None)
    laid = [
        row(
            one.name,
            (
                ("macro-F1", figure(one.macro_f1) + whisker(one.macro_f1, f1_low, f1_high, own and own.macro_f1.value)),
                ("accuracy", figure(one.accuracy) + whisker(one.accuracy, low, high, own and own.accuracy.value)),
                ("words kept", figure(one.kept, ".1%")),
            ),
            one.own,
        )
        for one in rows
    ]
    heads = (
        "what is read",
        f'macro-F1 <span class="range"><span>{f1_low:g}</span><span>{f1_high:g}</span></span>',
        f'accuracy <span class="range"><span>{low:g}</span><span>{high:g}</span></span>',
        "words kept",
    )
    says = "The same documents, read in several ways."
    if any(one.macro_f1.low is not None for one in rows):
        says += " Whiskers and small figures are 95 % intervals."
    return section("results", "Results", table(heads, laid, "How well each way of reading did"), says)


def charts(view: View) -> str:
    """Length against F1, calibration, confusion and each class, side by side."""
    cards: list[str] = []
    if view.curve is not None:
        points = sorted(view.curve.points, key=lambda point: point.ratio)
        rows = [row(f"{point.ratio:.0%}", (("macro-F1", figure(point.macro_f1)),)) for point in points]
        cards.append(card("Length against F1", draw_curve(view.curve) + figures(("share read", "macro-F1"), rows)))
    if view.calibration is not None:
        bins = view.calibration.bins
        rows = [
            row(f"{one.confidence:.3f}", (("right", f"{one.accuracy:.3f}"), ("documents", f"{one.count:,}")))
            for one in bins
            if one.count
        ]
        summary = (
            f'<p class="says">ECE {figure(view.calibration.ece)} · Brier {figure(view.calibration.brier)}. '
            "Dots on the dashed line: right as often as sure. Larger dots: more documents.</p>"
        )
        drawing = draw_calibration(view.calibration) + summary
        cards.append(card("Calibration", drawing + figures(("how sure", "how often right", "documents"), rows)))
    if view.confusion is not None:
        cards.append(card("Confusion matrix", confusion(view.confusion)))
    if view.classes:
        rows = [
            row(
                one.label,
                (
                    ("precision", f"{one.precision:.3f}"),
                    ("recall", f"{one.recall:.3f}"),
                    ("F1", f"{one.f1:.3f}"),
                    ("documents", f"{one.support:,}"),
                ),
            )
            for one in view.classes
        ]
        cards.append(card("Each class", figures(("class", "precision", "recall", "F1", "documents"), rows, "open")))
    return section("figures", "Figures", f'<div class="cards">{"".join(cards)}</div>' if cards else "")


def card(title: str, body: str) -> str:
    """Frame one figure."""
    return f'<div class="card"><h3>{title}</h3>{body}</div>'


def figures(heads: Sequence[str], rows: Sequence[str], opened: str = "") -> str:
    """A plain table of numbers, open or folded."""
    head = "".join(f'<th scope="col">{head}</th>' for head in heads)
    laid = f'<div class="wide"><table class="plain"><thead><tr>{head}</tr></thead><tbody>{"".join(rows)}</tbody></table></div>'
    return laid if opened else f"<details><summary>Figures</summary>{laid}</details>"


def confusion(matrix: Confusion) -> str:
    """Gold labels down, predicted labels across; a darker cell is a larger share of its row."""
    head = "".join(f'<th scope="col">{plain(label)}</th>' for label in matrix.labels)
    rows: list[str] = []
    for place, (label, counts) in enumerate(zip(matrix.labels, matrix.counts, strict=True)):
        total = sum(counts) or 1
        cells = "".join(
            f'<td class="shade-{round(10 * count / total)}{" hit" if across == place else ""}">'
            f"{count:,} <small>{count / total:.0%}</small></td>"
            for across, count in enumerate(counts)
        )
        rows.append(f'<tr><th scope="row">{plain(label)}</th>{cells}</tr>')
    corner = '<tr><td></td><th class="over" scope="colgroup" colspan="{}">predicted</th></tr>'.format(len(matrix.labels))
    return (
        f'<div class="wide"><table class="confusion"><caption class="unseen">Gold labels down, predicted labels across'
        f'</caption><thead>{corner}<tr><td class="over">gold</td>{head}</tr></thead>'
        f'<tbody>{"".join(rows)}</tbody></table></div><p class="says">Shares are of each gold label.</p>'
    )


def agreement(rows: Sequence[AgreementRow]) -> str:
    """How well rationales agree with those of people."""
    if not rows:
        return ""
    columns = [field for field in AGREEMENT if any(getattr(one, field) is not None for one in rows)]
    laid = [row(one.name, [(AGREEMENT[field], figure(getattr(one, field))) for field in columns], one.own) for one in rows]
    heads = ("rationales of", *(AGREEMENT[field] for field in columns))
    says = "Words the model read against words people marked, as ERASER measures it."
    return section("agreement", "Agreement with people", table(heads, laid, "Agreement with people"), says)


def audit(verdicts: Sequence[Verdict], guarantee: str) -> str:
    """What the audit found, with its evidence."""
    items = "".join(
        f'<li class="verdict {one.found.replace(" ", "-")}"><span class="sign" aria-hidden="true">{SIGNS[one.found]}</span>'
        f'<div><h3>{plain(one.name)} <span class="found">{one.found}</span></h3><p>{plain(one.says)}</p>{evidence(one)}</div></li>'
        for one in verdicts
    )
    told = "".join(f"<p>{plain(paragraph)}</p>" for paragraph in guarantee.split("\n\n") if paragraph.strip())
    covers = f'<div class="guarantee"><h3>What is guaranteed, and what is not</h3>{told}</div>' if told else ""
    return section("audit", "Audit", (f'<ul class="verdicts">{items}</ul>' if items else "") + covers)


def evidence(verdict: Verdict) -> str:
    """What a verdict rests on, folded."""
    lines = "".join(f"<li>{plain(line)}</li>" for line in verdict.evidence)
    return f"<details><summary>Evidence</summary><ul>{lines}</ul></details>" if lines else ""


def comparisons(pairs: Sequence[Comparison]) -> str:
    """How far models are apart, tested on the same documents."""
    if not pairs:
        return ""
    low, high = bounds([0.0, *chain.from_iterable(ends([one.difference]) for one in pairs)])
    laid = [
        row(
            f"{one.first} − {one.second}",
            (
                ("measure", plain(one.measure)),
                ("difference", figure(one.difference, "+.3f") + whisker(one.difference, low, high, 0.0)),
                ("p", p_value(one.p)),
                ("p, corrected", "–" if one.corrected_p is None else p_value(one.corrected_p)),
            ),
        )
        for one in pairs
    ]
    heads = ("first − second", "measure", "difference", "p", "p, corrected")
    says = "Paired tests on the same documents; the hairline is no difference."
    return section("comparisons", "Comparisons", table(heads, laid, "Paired comparisons"), says)


def p_value(p: float) -> str:
    """Write how surprising a difference would be by chance."""
    return "&lt; 0.001" if p < 0.001 else f"{p:.3f}"


def about(view: View) -> str:
    """Notes, settings and versions."""
    notes = "".join(f"<li>{plain(note)}</li>" for note in view.notes)
    parts = [f'<ul class="notes">{notes}</ul>' if notes else "", facts("Settings", view.settings)]
    parts.append(facts("Versions", view.versions))
    return section("about", "About", "".join(parts))


def facts(title: str, given: Facts) -> str:
    """Names and values."""
    laid = "".join(f"<div><dt>{plain(name)}</dt><dd>{plain(value)}</dd></div>" for name, value in given)
    return f'<h3>{title}</h3><dl class="facts">{laid}</dl>' if laid else ""
