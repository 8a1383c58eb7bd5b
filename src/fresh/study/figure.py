"""The results of a study as a figure: a panel for each measure, a line for each condition."""

from collections.abc import Sequence
from pathlib import Path

from fresh._io import atomic_write
from fresh._optional import optional_import
from fresh.reporting.figure_style import COLORS, MARKERS, NO_METADATA, STYLE, check_figure_paths
from fresh.study.results import Results

PANELS = (
    ("accuracy", "accuracy", (0, 1)),
    ("confidence", "confidence", (1, 4)),
    ("readability", "readability", (1, 5)),
)


def draw_results(results: Results, places: Sequence[Path]) -> None:
    """Draw means with their intervals into files; their endings say in which form."""
    check_figure_paths(places)
    matplotlib = optional_import("matplotlib", "plot", "A figure")
    figures = optional_import("matplotlib.figure", "plot", "A figure")
    rows = results.rows
    with matplotlib.rc_context():
        matplotlib.rcdefaults()  # what a user has set must not change the bytes
        matplotlib.rcParams.update(STYLE)
        figure = figures.Figure(figsize=(8.4, 0.9 + 0.35 * len(rows)), layout="constrained")
        for axes, (name, title, limits) in zip(figure.subplots(1, 3, sharey=True), PANELS, strict=True):
            for number, row in enumerate(rows):
                mean = row.accuracy if name == "accuracy" else getattr(row, name).mean
                colour, marker = COLORS[number % len(COLORS)], MARKERS[number % len(MARKERS)]
                axes.plot([mean.low, mean.high], [number, number], color=colour)
                axes.plot([mean.value], [number], color=colour, marker=marker, clip_on=False)
            axes.set_title(title)
            axes.set_xlim(*limits)
            axes.set_ylim(len(rows) - 0.5, -0.5)
            axes.set_yticks(range(len(rows)), [row.condition for row in rows])
        for place in places:
            with atomic_write(place) as partial:
                figure.savefig(partial, format=place.suffix[1:], metadata=NO_METADATA[place.suffix])
