"""The cards between table and audit: length against F1, calibration, confusion, when less is read, each class."""

from collections.abc import Sequence

from fresh.highlight import isolate
from fresh.metrics.classification import Bin, ClassScore
from fresh.metrics.estimate import Estimate, Measure
from fresh.reporting.html.drawing import draw_calibration, draw_curve, filled
from fresh.reporting.html.layout import card, figure, folded, numbers, row, section, small_print, table
from fresh.reporting.html.view import Confusion, LengthCurve, View

NUMBERS = "As a table"
MANY = 6
"""Labels beyond which a confusion matrix needs the width of the page."""


def charts(view: View) -> str:
    """Put the cards side by side, as many as there are."""
    cards = (
        _curve_card(view.curve) if view.curve is not None else "",
        _calibration_card(view.bins, view.calibration) if view.bins else "",
        _confusion_card(view.confusion) if view.confusion is not None else "",
        _less_read_card(view.less_read) if view.less_read else "",
        _classes_card(view.classes) if view.classes else "",
    )
    return section("figures", "Figures", f'<div class="cards">{"".join(cards)}</div>' if any(cards) else "")


def _curve_card(curve: LengthCurve) -> str:
    """Show how well longer rationales do."""
    points = sorted(curve.points, key=lambda point: point.ratio)
    rows = [row(f"{point.ratio:.0%}", (("macro-F1", figure(point.macro_f1)),)) for point in points]
    says = ["The same predictor reads every length."]
    says += ["The band is the 95 % interval."] if len(points) > 1 else []
    if curve.full_text is not None:
        says.append(f"The dashed line is the full text, at {curve.full_text:.3f}.")
    laid = folded(NUMBERS, numbers(("share read", "macro-F1"), rows))
    return card("Length against F1", draw_curve(curve), small_print(" ".join(says)), laid)


def _calibration_card(bins: Sequence[Bin], measures: Sequence[Measure]) -> str:
    """Show whether the model is right as often as it is sure."""
    rows = [
        row(
            f"{sure:.3f}",
            (("right", figure(Estimate.of(right, one.accuracy_between))), ("documents", f"{one.count:,}")),
        )
        for one, sure, right in filled(bins)
    ]
    errors = small_print("<br>".join(f"{isolate(one.name)} {figure(one.figure)}" for one in measures))
    says = "On the dashed line the model is right as often as it is sure; larger dots are more documents."
    laid = folded(NUMBERS, numbers(("how sure", "how often right", "documents"), rows))
    return card("Calibration", draw_calibration(bins), small_print(says), errors, laid)


def _confusion_card(matrix: Confusion) -> str:
    """Show gold labels down and predicted ones across; a darker cell is a larger share of its row."""
    n_labels = len(matrix.labels)
    many = n_labels > MANY
    over = f'<tr><td></td><th class="over" scope="colgroup" colspan="{n_labels}">predicted</th></tr>'
    names = "".join(f'<th scope="col">{isolate(label)}</th>' for label in matrix.labels)
    rows = "".join(
        f'<tr><th scope="row">{isolate(label)}</th>{_confusion_cells(counts, place, many)}</tr>'
        for place, (label, counts) in enumerate(zip(matrix.labels, matrix.counts, strict=True))
    )
    head = f'<thead>{over}<tr><td class="over">gold</td>{names}</tr></thead>'
    caption = '<caption class="unseen">Gold labels down, predicted labels across</caption>'
    kind = "confusion many" if many else "confusion"
    body = f'<table class="{kind}">{caption}{head}<tbody>{rows}</tbody></table>'
    scrolls = ' tabindex="0" role="group" aria-label="Confusion matrix"' if many else ""
    laid = f'<div class="wide"{scrolls}>{body}</div>'
    says = "A darker cell is a larger share" if many else "Shares are"
    return card("Confusion matrix", laid, small_print(f"{says} of the documents of a gold label."), whole=many)


def _confusion_cells(counts: Sequence[int], place: int, many: bool) -> str:
    """Write what the documents of one gold label were taken for; among many labels there is room for counts only."""
    total = sum(counts) or 1
    return "".join(
        f'<td class="shade-{round(10 * count / total)}{" hit" if across == place else ""}">'
        f"{count:,}{'' if many else f' <small>{count / total:.0%}</small>'}</td>"
        for across, count in enumerate(counts)
    )


def _classes_card(classes: Sequence[ClassScore]) -> str:
    """Show how well each class was found."""
    names = ("precision", "recall", "F1", "documents")
    rows = [row(one.label, tuple(zip(names, _class_cells(one), strict=True))) for one in classes]
    return card("Each class", table(("class", *names), rows, "How well each class was found"), whole=True)


def _class_cells(score: ClassScore) -> tuple[str, str, str, str]:
    """Write the scores of a class with their intervals, and its documents."""
    return (
        figure(Estimate.of(score.precision, score.precision_between)),
        figure(Estimate.of(score.recall, score.recall_between)),
        figure(Estimate.of(score.f1, score.f1_between)),
        f"{score.support:,}",
    )


def _less_read_card(measures: Sequence[Measure]) -> str:
    """Show what it costs to read less."""
    says = (
        "How much less probable the answer to the full text becomes when less is read: the rationale alone "
        "(sufficiency, near 0 where it is enough) or all but the rationale (comprehensiveness)."
    )
    rows = [row(one.name, (("loss of probability", figure(one.figure)),)) for one in measures]
    return card("When less is read", numbers(("measure", "loss of probability"), rows), small_print(says))
