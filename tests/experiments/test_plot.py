import sys
from dataclasses import replace
from pathlib import Path

import matplotlib as mpl
import numpy as np
import pytest
from matplotlib.figure import Figure

from fresh.errors import ConfigError, MissingExtraError
from fresh.experiments.figures import FigureConfig, FigureData, Kind, Level, Line, Panel, Point
from fresh.experiments.plot import STYLES, _x_label, draw_figure, plot_figure
from fresh.reporting.figure_style import COLORS, MARKERS

BANDS = "bands, or bars: from the lowest to the highest seed"
POINTS = (Point(1, 0.5, 0.4, 0.6), Point(2, 0.7, 0.7, 0.7))


def draw(panel: Panel, kind: Kind = "lines", x: str = "") -> Figure:
    return draw_figure(FigureData(FigureConfig(kind, x), (panel,), ()), Figure)


def note(figure: Figure) -> str:
    return figure.legends[0].get_title().get_text()


def made(kind: Kind = "lines", n_lines: int = 2, n_panels: int = 4, x: str = "") -> FigureData:
    """Make up a figure."""
    lines = tuple(Line(f"line {number} of $x_1$", POINTS) for number in range(n_lines))
    panels = tuple(Panel(f"panel {number}", lines, (Level("full text", 0.8),)) for number in range(n_panels))
    return FigureData(FigureConfig(kind, x), panels, ())


@pytest.mark.parametrize("kind", ["lines", "scatter", "evp"])
def test_the_same_runs_give_the_same_bytes(kind: Kind, tmp_path: Path) -> None:
    first, second = ([tmp_path / f"{name}.{end}" for end in ("png", "svg", "pdf")] for name in "ab")
    before = dict(mpl.rcParams)
    plot_figure(made(kind), first)
    with mpl.rc_context({"lines.linewidth": 9, "font.size": 30}):  # what a user may have set
        plot_figure(made(kind), second)
    assert [place.read_bytes() for place in first] == [place.read_bytes() for place in second]
    assert [place.read_bytes()[:4] for place in first] == [b"\x89PNG", b"<?xm", b"%PDF"]
    text = first[1].read_text(encoding="utf-8")
    assert ("<dc:date>" in text, "<text" in text) == (False, False)  # it has no date and needs no font
    assert dict(mpl.rcParams) == before


def test_lines_differ_in_more_than_color() -> None:
    figure = draw_figure(made(n_lines=7), Figure)
    lines = [line for line in figure.axes[0].get_lines() if line.get_marker() != "None"]
    assert [line.get_marker() for line in lines] == list(MARKERS[:7])
    assert [line.get_color() for line in lines] == list(COLORS)
    assert len({(line.get_linestyle(), line.get_marker()) for line in lines}) == 7
    assert len({line.get_linestyle() for line in lines}) >= len(STYLES) - 1
    # So do the marks of forty rows.
    [axes] = draw_figure(made("scatter", n_lines=40, n_panels=1), Figure).axes
    marks = [drawn for drawn in axes.collections if len(np.asarray(drawn.get_offsets()))]
    looks = {(str(mark.get_edgecolor()), str(mark.get_paths()[0].vertices)) for mark in marks}
    assert len(looks) == 40


def test_points_of_too_few_runs_are_hollow_and_the_legend_says_so() -> None:
    lines = (Line("a", (POINTS[0]._replace(whole=False), POINTS[1])),)
    for kind in ("lines", "scatter", "evp"):
        notes = note(draw(Panel("sst", lines), kind)).split("\n")
        assert notes == [*([] if kind == "scatter" else [BANDS]), "hollow: not all runs are done"]
    assert note(draw_figure(made(), Figure)) == BANDS
    assert note(draw_figure(made("scatter"), Figure)) == ""
    assert note(draw(Panel("sst", (Line("a", POINTS[1:]),)))) == ""  # one seed
    [axes] = draw(Panel("sst", lines)).axes
    [line, hollow] = axes.get_lines()
    assert (line.get_markevery(), hollow.get_markerfacecolor()) == ([1], "white")
    assert (hollow.get_marker(), hollow.get_color()) == (line.get_marker(), line.get_color())
    assert np.asarray(hollow.get_xydata()).tolist() == [[1, 0.5]]
    [axes] = draw(Panel("sst", lines), "scatter").axes
    insides = [(np.asarray(mark.get_offsets()).tolist(), len(mark.get_facecolor())) for mark in axes.collections]
    assert insides == [([[1, 0.5]], 0), ([[2, 0.7]], 1)]


def test_a_flat_line_of_too_few_runs_has_a_star() -> None:
    panel = Panel("sst", (Line("a", POINTS),), (Level("full text", 0.8, whole=False), Level("random", 0.2)))
    figure = draw(panel)
    assert [text.get_text() for text in figure.legends[0].get_texts()] == ["a", "full text*", "random"]
    assert note(figure) == f"{BANDS}\nwith *: not all runs are done"
    both = replace(panel, lines=(Line("a", (POINTS[0]._replace(whole=False),)),))
    assert note(draw(both)) == f"{BANDS}\nhollow or with *: not all runs are done"


@pytest.mark.parametrize(("takes", "start", "end"), [(30, 30, 120), (240, 240, 240), (7200, 120, 120)])
def test_a_flat_line_beside_a_search_begins_where_a_run_of_it_ends(takes: float, start: float, end: float) -> None:
    line = Line("a", (Point(60, 0.5, 0.5, 0.5), Point(120, 0.6, 0.6, 0.6)))
    panel = Panel("sst", (line,), (Level("ours", 0.7, x=takes), Level("whole", 0.8)))
    figure = draw(panel, "evp", "seconds")
    assert note(figure) == "a flat line begins at the time of one run"
    [axes] = figure.axes
    [_, ours, whole] = axes.get_lines()
    assert np.asarray(ours.get_xydata()).tolist() == [[start, 0.7], [end, 0.7]]  # in minutes if it is long
    assert np.asarray(whole.get_xydata()).tolist() == [[0, 0.8], [1, 0.8]]  # from side to side


def test_many_points_are_not_all_marked() -> None:
    points = tuple(Point(x, 0.5, 0.5, 0.5) for x in range(49))
    for n_points, step in ((20, 1), (24, 1), (25, 2), (49, 3)):
        [axes] = draw(Panel("a", (Line("b", points[:n_points]),))).axes
        assert axes.get_lines()[0].get_markevery() == list(range(0, n_points, step))
    [axes] = draw(Panel("sst", (Line("a", POINTS[:1]),))).axes
    [whisker] = axes.collections  # of a single point
    assert [np.asarray(path.vertices).tolist() for path in whisker.get_paths()] == [[[1, 0.4], [1, 0.6]]]


def test_one_legend_names_all_lines_and_axes_without_a_panel_are_empty() -> None:
    figure = draw_figure(made(), Figure)
    [legend] = figure.legends
    assert [text.get_text() for text in legend.get_texts()] == ["line 0 of $x_1$", "line 1 of $x_1$", "full text"]
    assert [axes.axison for axes in figure.axes] == [True] * 4 + [False] * 2
    assert [axes.get_title() for axes in figure.axes[:4]] == [f"panel {number}" for number in range(4)]
    assert [axes.get_xlabel() for axes in figure.axes[:4]] == ["", "ratio", "ratio", "ratio"]
    assert [axes.get_ylabel() for axes in figure.axes[:4]] == ["macro-F1", "", "", "macro-F1"]


def test_axes_panels_and_lines_may_have_other_names() -> None:
    names = {"ratio": "share", "macro-F1": "score", "panel 0": "SST", "line 1 of $x_1$": "ours", "full text": "whole"}
    drawn = made(n_panels=2)
    figure = draw_figure(replace(drawn, config=FigureConfig("lines", names=names)), Figure)
    first, second = figure.axes
    assert (first.get_title(), second.get_title()) == ("SST", "panel 1")
    assert (first.get_xlabel(), first.get_ylabel()) == ("share", "score")
    assert [text.get_text() for text in figure.legends[0].get_texts()] == ["line 0 of $x_1$", "ours", "whole"]
    assert set(names) <= set(drawn.all_names)
    names = {"trials": "tries", "dev macro-F1": "score on dev"}
    figure = draw_figure(replace(made("evp", n_panels=1), config=FigureConfig("evp", names=names)), Figure)
    assert (figure.axes[0].get_xlabel(), figure.axes[0].get_ylabel()) == ("tries", "expected best score on dev")
    timed = replace(made("evp", n_panels=1), config=FigureConfig("evp", "seconds", names={"seconds": "training"}))
    assert _x_label(timed) == ("training (seconds)", 1.0)


@pytest.mark.parametrize(("seconds", "unit", "size"), [(5, "seconds", 1), (1200, "minutes", 60), (2e4, "hours", 3600)])
def test_time_has_a_suitable_unit(seconds: float, unit: str, size: float) -> None:
    panel = Panel("sst", (Line("a", (Point(seconds, 0.5, 0.5, 0.5),)),))
    found = _x_label(FigureData(FigureConfig("evp", "seconds"), (panel,), ()))
    assert found == (f"{unit} of training", size)
    assert _x_label(made("evp"))[0] == "number of trials"


def test_what_cannot_be_written_is_reported(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(ConfigError, match=r"must end in \.png, \.svg or \.pdf, got .*a\.gif"):
        plot_figure(made(), [tmp_path / "a.gif"])
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    message = r"^A figure needs matplotlib\. Install it with: pip install 'fresh-rationales\[plot\]'$"
    with pytest.raises(MissingExtraError, match=message):
        plot_figure(made(), [tmp_path / "a.png"])
