"""Draws figures for color-blind readers and for print without color; the same runs give the same bytes."""

import math
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from fresh._io import atomic_write
from fresh._optional import optional_import
from fresh.experiments.figures import TRIALS, FigureData, Line, Panel
from fresh.experiments.results import SECONDS
from fresh.reporting.figure_style import COLORS, MARKERS, NO_METADATA, STYLE, check_figure_paths

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

STYLES = ("-", "--", "-.", (0, (3, 1, 1, 1, 1, 1)))
LEVEL_STYLES = ((0, (1, 1)), (0, (5, 3)), (0, (7, 2, 1, 2)))
LIGHT = "A0"  # opacity of the color inside a mark, up to FF
MAX_TICKS = 6
MAX_MARKS = 24  # maximum number of marks on a line; of more points, some are not marked
N_COLUMNS = 3  # maximum number of panels side by side
WIDTH, HEIGHT = 3.1, 2.5
"""Size of a panel in inches."""
UNITS = ((3 * 3600, "hours", 3600), (600, "minutes", 60), (0, "seconds", 1))
"""For each unit of time, the seconds from which it is used, and its length."""


def plot_figure(data: FigureData, paths: Sequence[Path]) -> None:
    """Draw a figure into files, in the formats that their suffixes name."""
    check_figure_paths(paths)
    matplotlib = optional_import("matplotlib", "plot", "A figure")
    figures = optional_import("matplotlib.figure", "plot", "A figure")
    with matplotlib.rc_context():
        matplotlib.rcdefaults()  # what a user has set must not change the bytes
        matplotlib.rcParams.update(STYLE)
        figure = draw_figure(data, figures.Figure)
        for path in paths:
            with atomic_write(path) as partial:
                figure.savefig(partial, format=path.suffix[1:], metadata=NO_METADATA[path.suffix])


def draw_figure(data: FigureData, make: "Callable[..., Figure]") -> "Figure":
    """Draw all panels, and one legend for them."""
    n_across = min(N_COLUMNS, len(data.panels))
    n_down = math.ceil(len(data.panels) / n_across)
    names = [*data.names, *data.level_names]
    labels = [f"{data.config.display_name(name)}{'*' if name in data.starred else ''}" for name in names]
    # About 11 characters of a label fit into an inch, and the line and the space beside it take about 5.
    n_entries = max(1, min(len(names), int(n_across * WIDTH * 11 // max(8, 5 + max(map(len, labels))))))
    notes = list(_notes(data))
    legend = 0.22 * (math.ceil(len(names) / n_entries) + len(notes)) + 0.1
    figure = make(figsize=(WIDTH * n_across + 0.3, HEIGHT * n_down + legend), layout="constrained")
    places = figure.subplots(n_down, n_across, squeeze=False).flat
    label, unit = _x_label(data)
    handles: dict[str, Any] = {}
    for number, axes in enumerate(places):
        if number >= len(data.panels):
            axes.set_axis_off()
            continue
        handles |= _draw_panel(axes, data, data.panels[number], unit)
        if number % n_across == 0:
            name = data.config.display_name(data.config.y)
            axes.set_ylabel(f"expected best {name}" if data.config.kind == "evp" else name)
        if number + n_across >= len(data.panels):
            axes.set_xlabel(label)
    look: dict[str, Any] = {"loc": "outside lower center", "ncols": n_entries, "title": "\n".join(notes) or None}
    figure.legend([handles[name] for name in names], labels, **look)
    return figure


def _notes(data: FigureData) -> Iterator[str]:
    if data.config.kind != "scatter" and any(point.low < point.high for point in data.points):
        yield "bands, or bars: from the lowest to the highest seed"
    hollow = any(not point.whole for point in data.points)
    signs = [sign for sign, there in (("hollow", hollow), ("with *", bool(data.starred))) if there]
    if signs:
        yield f"{' or '.join(signs)}: not all runs are done"
    if data.starts:
        yield "a flat line begins at the time of one run"


def _draw_panel(axes: "Axes", data: FigureData, panel: Panel, unit: float) -> dict[str, Any]:
    names, level_names = data.names, data.level_names
    handles: dict[str, Any] = {}
    axes.set_title(data.config.display_name(panel.name))
    for line in panel.lines:
        place = names.index(line.name)
        draw_line = _draw_marks if data.config.kind == "scatter" else _draw_line
        handles[line.name] = draw_line(axes, line, place, unit)
    # A flat line over time starts where a run of its row ends, even if that is later than the whole search.
    xs = sorted({point.x for line in panel.lines for point in line.points})
    end = xs[-1] / unit
    for level in panel.levels:
        place = level_names.index(level.name)
        style = LEVEL_STYLES[place % len(LEVEL_STYLES)]
        look: dict[str, Any] = {"color": ("black", "#777777")[place % 2], "linestyle": style, "linewidth": 1.2}
        if level.x is None:
            handles[level.name] = axes.axhline(level.y, **look)
        else:
            ends = (level.x / unit, max(end, level.x / unit))
            [handles[level.name]] = axes.plot(ends, (level.y, level.y), marker="|", markersize=9, markevery=[0], **look)
    # Ticks at the points, if they are few; a search starts at zero, and has no half trials.
    if data.config.kind == "evp":
        axes.set_xlim(left=0)
        if data.config.x == TRIALS:
            axes.locator_params(axis="x", integer=True)
    elif data.config.kind == "lines" and len(xs) <= MAX_TICKS:
        axes.set_xticks(xs, [f"{x:g}".replace("0.", ".", 1) if abs(x) < 1 else f"{x:g}" for x in xs])
        axes.margins(x=0.08)
    return handles


def _draw_line(axes: "Axes", line: Line, place: int, unit: float) -> Any:
    # The range over seeds is a band, or a whisker for a single point.
    xs, ys = [point.x / unit for point in line.points], [point.y for point in line.points]
    lows, highs = [point.low for point in line.points], [point.high for point in line.points]
    color = COLORS[place % len(COLORS)]
    style, marker = STYLES[place % len(STYLES)], MARKERS[place % len(MARKERS)]
    if len(xs) > 1:
        axes.fill_between(xs, lows, highs, color=color, alpha=0.15, linewidth=0)
    else:
        axes.vlines(xs, lows, highs, color=color, linewidth=1)
    # Marks are sparse on long lines, which they would hide; each mark of an incomplete point is drawn over the line.
    marked = range(0, len(xs), -(-len(xs) // MAX_MARKS))
    filled = [number for number in marked if line.points[number].whole]
    [drawn] = axes.plot(xs, ys, color=color, linestyle=style, marker=marker, markevery=filled)
    for number in marked:
        if not line.points[number].whole:
            axes.plot(xs[number], ys[number], color=color, linestyle="none", marker=marker, markerfacecolor="white")
    return drawn


def _draw_marks(axes: "Axes", line: Line, place: int, unit: float) -> Any:
    # Translucent, so that overlapping marks stay visible.
    color, marker = COLORS[place % len(COLORS)], MARKERS[place % len(MARKERS)]
    look: dict[str, Any] = {"marker": marker, "edgecolors": color, "linewidths": 1.0, "s": 26}
    for whole, inside in ((False, "none"), (True, f"{color}{LIGHT}")):
        chosen = [point for point in line.points if point.whole is whole]
        xs, ys = [point.x / unit for point in chosen], [point.y for point in chosen]
        drawn = axes.scatter(xs, ys, facecolors=inside, **look)
    return drawn


def _x_label(data: FigureData) -> tuple[str, float]:
    # And the unit to divide the values by.
    config = data.config
    if config.kind != "evp":
        return config.display_name(config.x), 1.0
    if config.x == TRIALS:
        return config.names.get(TRIALS, "number of trials"), 1.0
    most = max(*(point.x for point in data.points), *data.starts, 0.0)
    name, size = next((name, size) for least, name, size in UNITS if most >= least)
    own = config.names.get(SECONDS)
    return f"{name} of training" if own is None else f"{own} ({name})", float(size)
