"""Figures of experiments: for colour-blind eyes and for print without colour; the same runs give the same bytes."""

import math
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from fresh._io import atomic_write
from fresh._optional import optional_import
from fresh.experiments.curves import Drawing, Line, Panel
from fresh.experiments.figure_config import TRIALS
from fresh.experiments.results import SECONDS
from fresh.reporting.figure_style import COLORS, MARKERS, NO_METADATA, STYLE, check_figure_paths

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

STYLES = ("-", "--", "-.", (0, (3, 1, 1, 1, 1, 1)))
LEVEL_STYLES = ((0, (1, 1)), (0, (5, 3)), (0, (7, 2, 1, 2)))
LIGHT = "A0"
"""How much of a colour is seen inside a mark, of FF."""
MOST_TICKS = 6
MOST_MARKS = 24
"""On a line; of more points some are not marked."""
PER_LINE = 3
"""Panels side by side, at most."""
WIDTH, HEIGHT = 3.1, 2.5
"""Of a panel, in inches."""
UNITS = ((3 * 3600, "hours", 3600), (600, "minutes", 60), (0, "seconds", 1))
"""From so many seconds on, time is told in a unit of so many."""


def plot(drawing: Drawing, places: Sequence[Path]) -> None:
    """Draw a figure into files; their endings say in which form."""
    check_figure_paths(places)
    matplotlib = optional_import("matplotlib", "plot", "A figure")
    figures = optional_import("matplotlib.figure", "plot", "A figure")
    with matplotlib.rc_context():
        matplotlib.rcdefaults()  # what a user has set must not change the bytes
        matplotlib.rcParams.update(STYLE)
        figure = draw(drawing, figures.Figure)
        for place in places:
            with atomic_write(place) as partial:
                figure.savefig(partial, format=place.suffix[1:], metadata=NO_METADATA[place.suffix])


def draw(drawing: Drawing, make: "Callable[..., Figure]") -> "Figure":
    """Draw all panels, and one legend for them."""
    n_across = min(PER_LINE, len(drawing.panels))
    n_down = math.ceil(len(drawing.panels) / n_across)
    names = [*drawing.names, *drawing.level_names]
    labels = [f"{drawing.config.called(name)}{'*' if name in drawing.starred else ''}" for name in names]
    n_entries = max(1, min(len(names), int(n_across * WIDTH * 11 // max(8, 5 + max(map(len, labels))))))
    told = list(notes(drawing))
    legend = 0.22 * (math.ceil(len(names) / n_entries) + len(told)) + 0.1
    figure = make(figsize=(WIDTH * n_across + 0.3, HEIGHT * n_down + legend), layout="constrained")
    places = figure.subplots(n_down, n_across, squeeze=False).flat
    label, unit = _x_label(drawing)
    handles: dict[str, Any] = {}
    for number, axes in enumerate(places):
        if number >= len(drawing.panels):
            axes.set_axis_off()
            continue
        handles |= _draw_panel(axes, drawing, drawing.panels[number], unit)
        _set_ticks(axes, drawing, drawing.panels[number])
        if number % n_across == 0:
            axes.set_ylabel(_y_label(drawing))
        if number + n_across >= len(drawing.panels):
            axes.set_xlabel(label)
    look: dict[str, Any] = {"loc": "outside lower center", "ncols": n_entries, "title": "\n".join(told) or None}
    figure.legend([handles[name] for name in names], labels, **look)
    return figure


def notes(drawing: Drawing) -> Iterator[str]:
    """Say, line by line, what is not plain to see."""
    if drawing.config.kind != "scatter" and any(point.low < point.high for point in drawing.points):
        yield "bands, or bars: from the lowest to the highest seed"
    hollow = any(not point.whole for point in drawing.points)
    signs = [sign for sign, there in (("hollow", hollow), ("with *", bool(drawing.starred))) if there]
    if signs:
        yield f"{' or '.join(signs)}: not all runs are done"
    if drawing.starts:
        yield "a flat line begins at the time of one run"


def _draw_panel(axes: "Axes", drawing: Drawing, panel: Panel, unit: float) -> dict[str, Any]:
    """Draw one panel, and say what stands for which name in the legend."""
    names, level_names = drawing.names, drawing.level_names
    drawn: dict[str, Any] = {}
    axes.set_title(drawing.config.called(panel.name))
    for line in panel.lines:
        place = names.index(line.name)
        draw_one = _draw_marks if drawing.config.kind == "scatter" else _draw_line
        drawn[line.name] = draw_one(axes, line, place, unit)
    end = max(point.x for line in panel.lines for point in line.points) / unit
    for level in panel.levels:
        place = level_names.index(level.name)
        style = LEVEL_STYLES[place % len(LEVEL_STYLES)]
        look: dict[str, Any] = {"color": ("black", "#777777")[place % 2], "linestyle": style, "linewidth": 1.2}
        if level.x is None:
            drawn[level.name] = axes.axhline(level.y, **look)
        else:
            ends = (level.x / unit, max(end, level.x / unit))
            [drawn[level.name]] = axes.plot(ends, (level.y, level.y), marker="|", markersize=9, markevery=[0], **look)
    return drawn


def _set_ticks(axes: "Axes", drawing: Drawing, panel: Panel) -> None:
    """Put ticks where points are, if there are few; a search begins at nothing, and has no half trials."""
    xs = sorted({point.x for line in panel.lines for point in line.points})
    if drawing.config.kind == "evp":
        axes.set_xlim(left=0)
        if drawing.config.x == TRIALS:
            axes.locator_params(axis="x", integer=True)
    elif drawing.config.kind == "lines" and len(xs) <= MOST_TICKS:
        axes.set_xticks(xs, [f"{x:g}".replace("0.", ".", 1) if abs(x) < 1 else f"{x:g}" for x in xs])
        axes.margins(x=0.08)


def _draw_line(axes: "Axes", line: Line, place: int, unit: float) -> Any:
    """Draw a line, with the range over seeds as a band; a whisker where there is one point only."""
    xs, ys = [point.x / unit for point in line.points], [point.y for point in line.points]
    lows, highs = [point.low for point in line.points], [point.high for point in line.points]
    colour = COLORS[place % len(COLORS)]
    style, marker = STYLES[place % len(STYLES)], MARKERS[place % len(MARKERS)]
    if len(xs) > 1:
        axes.fill_between(xs, lows, highs, color=colour, alpha=0.15, linewidth=0)
    else:
        axes.vlines(xs, lows, highs, color=colour, linewidth=1)
    marked = range(0, len(xs), -(-len(xs) // MOST_MARKS))
    filled = [number for number in marked if line.points[number].whole]
    [drawn] = axes.plot(xs, ys, color=colour, linestyle=style, marker=marker, markevery=filled)
    for number in marked:
        if not line.points[number].whole:
            axes.plot(xs[number], ys[number], color=colour, linestyle="none", marker=marker, markerfacecolor="white")
    return drawn


def _draw_marks(axes: "Axes", line: Line, place: int, unit: float) -> Any:
    """Draw a mark for each run, light inside, so that many can lie above each other."""
    colour, marker = COLORS[place % len(COLORS)], MARKERS[place % len(MARKERS)]
    look: dict[str, Any] = {"marker": marker, "edgecolors": colour, "linewidths": 1.0, "s": 26}
    for whole, inside in ((False, "none"), (True, f"{colour}{LIGHT}")):
        chosen = [point for point in line.points if point.whole is whole]
        xs, ys = [point.x / unit for point in chosen], [point.y for point in chosen]
        drawn = axes.scatter(xs, ys, facecolors=inside, **look)
    return drawn


def _x_label(drawing: Drawing) -> tuple[str, float]:
    """Name what goes across, and say by how much it is divided."""
    config = drawing.config
    if config.kind != "evp":
        return config.called(config.x), 1.0
    if config.x == TRIALS:
        return config.names.get(TRIALS, "number of trials"), 1.0
    most = max(*(point.x for point in drawing.points), *drawing.starts, 0.0)
    name, size = next((name, size) for least, name, size in UNITS if most >= least)
    own = config.names.get(SECONDS)
    return f"{name} of training" if own is None else f"{own} ({name})", float(size)


def _y_label(drawing: Drawing) -> str:
    """Name what goes up."""
    name = drawing.config.called(drawing.config.y)
    return f"expected best {name}" if drawing.config.kind == "evp" else name
