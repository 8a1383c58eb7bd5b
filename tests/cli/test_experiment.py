import csv
import io
import json
import subprocess
import sys
from pathlib import Path

import pytest

import small
from command import Command
from experiments import toy_grid
from fresh.data.splits import Splits
from made_up_runs import Made, seeds, write

MADE = [
    *seeds("full text", 0.9, 0.92, settings={"method": "full_text"}),
    *seeds("ours, top_k", 0.8, 0.82, settings={"discretizer": "top_k", "ratio": 0.2}),
    *seeds("ours, global", 0.7, 0.75, settings={"discretizer": "global_top_k", "ratio": 0.2}),
    Made("ours, top_k", None, 2, settings={"discretizer": "top_k", "ratio": 0.2}, failure="ValueError: no"),
]
TEST = ("--test", "discretizer=global_top_k:top_k")


@pytest.fixture
def runs(here: Path) -> Path:
    """A folder of runs, with a figure that its grid file asks for."""
    figure = {"x": "ratio", "by": "discretizer", "where": {"method": "fresh"}, "against": "full text"}
    return write(here / "runs", MADE, figure=figure)


def test_a_markdown_table_has_what_is_missing_below_it(runs: Path, command: Command) -> None:
    assert command("table", runs, "main").out == (
        "| row          |                  sst |\n"
        "| ------------ | -------------------: |\n"
        "| full text    |     .910 (.900–.920) |\n"
        "| ours, top_k  | .810 (.800–.820) 2/3 |\n"
        "| ours, global |     .725 (.700–.750) |\n"
        "\nmacro-F1: mean (min–max) over seeds.\n"
        "\n2/3: 2 of 3 seeds are done; such cells are not ranked.\n"
        "\n7 runs: 6 done, 1 failed, 0 open.\n"
        "\nfailed: sst, ours, top_k, seed 2: ValueError: no\n"
    )


def test_a_csv_table_goes_to_a_file(runs: Path, command: Command) -> None:
    outputs = ("--format", "csv", "--output", "table.csv")
    table = ("table", runs, "--relative", "full text", "--where", "discretizer=global_top_k", *outputs)
    shown = command(*table)
    [record] = csv.DictReader(io.StringIO(Path("table.csv").read_text(encoding="utf-8")))
    assert record["n"] == "2"
    assert float(record["mean"]) == pytest.approx(0.725 / 0.91)
    assert "2 runs: 2 done, 0 failed, 0 open." in shown.err
    message = "fresh table: table.csv already exists. Choose another path, or replace it: --overwrite.\n"
    assert command(*table, status=1).err == message
    command(*table, "--overwrite")


def test_csv_notes_do_not_mention_bold(command: Command) -> None:
    first = seeds("a", 0.1, 0.11, 0.12, settings={"scorer": "a"})
    runs = write(Path("runs"), [*first, *seeds("b", 0.9, 0.91, 0.92, settings={"scorer": "b"})])
    for more in ([], ["--test", "scorer=a:b"]):
        assert "bold: " in command("table", runs, *more).out.lower()
        assert "bold" not in command("table", runs, *more, "--format", "csv").err.lower()


def test_a_setting_is_tested(runs: Path, command: Command) -> None:
    shown = command("table", runs, "main", *TEST, "--format", "latex").out
    assert shown.startswith("% \\usepackage{booktabs}\n\\begin{tabular}{llrrrrrrr}\n")
    assert "global\\_top\\_k $-$ top\\_k & .725 (.700--.750)" in shown


def test_a_figure_is_drawn_as_the_grid_says(runs: Path, command: Command) -> None:
    shown = command("plot", runs, "--output", "a.png", "a.svg")  # the only experiment there
    assert shown.out == "Drawn: a.png, a.svg\n5 runs: 4 done, 1 failed, 0 open.\n"
    svg = Path("a.svg").read_text(encoding="utf-8")
    assert all(f"<!-- {name} -->" in svg for name in ("sst", "top_k", "global_top_k", "full text", "ratio"))
    command("plot", runs, "main", "--x", "seed", "--where", "row=full text", "--output", "b.png")


def test_names_replace_those_in_a_figure(runs: Path, command: Command) -> None:
    command("plot", runs, "--name", "ratio=share of words", "--name", "sst=SST = the treebank", "--output", "a.svg")
    svg = Path("a.svg").read_text(encoding="utf-8")
    assert all(f"<!-- {name} -->" in svg for name in ("share of words", "SST = the treebank", "top_k"))
    assert not any(f"<!-- {name} -->" in svg for name in ("ratio", "sst"))


@pytest.mark.parametrize(
    "text", ['{"version": 1, "figures": {}}', '{"version": 1, "figures": {"macro-F1": "high"}}', "x"]
)
def test_a_damaged_report_is_named_and_not_counted(text: str, runs: Path, command: Command) -> None:
    place = runs / "runs/sst-ours, global-1/report.json"
    place.write_text(text, encoding="utf-8")
    note = (
        f"damaged: {place}, the report of sst, ours, global, seed 1, has no metrics that can be read. "
        "Repeat the `fresh run` command to redo the run.\n"
    )
    shown = command("table", runs, "main").out
    assert "| ours, global |             .700 1/2 |\n" in shown
    failure = "failed: sst, ours, top_k, seed 2: ValueError: no"
    assert shown.endswith(f"\n7 runs: 5 done, 1 failed, 1 open.\n\n{failure}\n\n{note}")
    assert command("table", runs, "main", *TEST).out.endswith(f"\n{note}")
    shown = command("plot", runs, "--output", "a.png").out
    assert shown.endswith(f"\n5 runs: 3 done, 1 failed, 1 open.\n{note}")


def test_a_grid_that_was_run_has_a_table_and_a_figure(
    toy: Splits, encoders: dict[str, Path], here: Path, command: Command
) -> None:
    grid = toy_grid(
        here,
        small.some(toy),
        encoders["bert"],
        {"name": "full text", "method": "full_text"},
        {"name": "ours", "scorer": "attention", "discretizer": ["top_k", "contiguous"], "ratio": 0.2},
        name="tiny",
        grid={"seed": [0, 1]},
        settings={"epochs": 1},
        figure={"by": "discretizer", "against": "full text", "where": {"method": "fresh"}},
    )
    command("run", grid, "--out", "runs", "--workers", "1")
    table = ("table", "runs", "tiny", "--rows", "discretizer", "--columns", "ratio", "--format", "csv")
    shown = command(*table, "--manifest", "m.json")
    assert json.loads(Path("m.json").read_text(encoding="utf-8"))["runs"]["done"] == 6
    cells = list(csv.DictReader(io.StringIO(shown.out)))
    expected = [("top_k", "0.2", "2"), ("contiguous", "0.2", "2"), ("–", "–", "2")]
    assert [(cell["discretizer"], cell["ratio"], cell["n"]) for cell in cells] == expected
    assert all(0 <= float(cell["min"]) <= float(cell["mean"]) <= float(cell["max"]) <= 1 for cell in cells)
    assert "6 runs: 6 done, 0 failed, 0 open." in shown.err
    assert "top_k − contiguous" in command("table", "runs", "tiny", "--test", "discretizer=top_k:contiguous").out
    command("plot", "runs", "tiny", "--output", "a.png")


@pytest.mark.parametrize("width", [40, 60, 200])
def test_a_terminal_shows_all_figures_in_full(
    runs: Path, width: int, monkeypatch: pytest.MonkeyPatch, command: Command
) -> None:
    monkeypatch.setenv("COLUMNS", str(width))
    monkeypatch.setattr("sys.stdout.isatty", lambda: True)
    shown = command("table", runs, "main", *TEST).out
    assert all(figure in shown for figure in (".725", "(.700–.750)", ".810", "(.800–.820)", "2/3", "-.085"))
    assert "…" not in shown


def test_tables_and_descriptions_need_no_torch(runs: Path, toy: Splits) -> None:
    place = small.write_csv(runs.with_name("toy.csv"), small.rows(toy.test))
    commands = (["table", str(runs)], ["plot", str(runs), "--output", "a.png"], ["describe", str(place)])
    loop = f"for command in {commands!r}: assert main(command) == 0"
    code = f"import sys\nfrom fresh.cli.main import main\n{loop}\nprint('torch' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.splitlines()[-1] == "False"
