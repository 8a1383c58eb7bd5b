import csv
import io
import statistics
import subprocess
import sys
from pathlib import Path

import pytest

import small
from fresh.cli.main import main
from fresh.data.splits import Splits
from made_up_runs import Made, seeds, write

MADE = [
    *seeds("full text", 0.9, 0.92, settings={"method": "full_text"}),
    *seeds("ours, top_k", 0.8, 0.82, settings={"discretizer": "top_k", "ratio": 0.2}),
    *seeds("ours, global", 0.7, 0.75, settings={"discretizer": "global_top_k", "ratio": 0.2}),
    Made("ours, top_k", None, 2, settings={"discretizer": "top_k", "ratio": 0.2}, failure="ValueError: no"),
]


@pytest.fixture
def runs(tmp_path: Path) -> str:
    """A folder of runs, with a figure that its grid file asks for."""
    figure = {"x": "ratio", "by": "discretizer", "where": {"method": "fresh"}, "against": "full text"}
    return str(write(tmp_path / "runs", MADE, figure=figure))


def refused(arguments: list[str], message: str, capsys: pytest.CaptureFixture[str]) -> None:
    """Check the words of an error."""
    assert main(arguments) == 1
    assert capsys.readouterr().err == f"fresh {arguments[0]}: {message}\n"


def test_a_table_is_markdown_with_what_is_missing_below_it(runs: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["table", runs, "main"]) == 0
    assert capsys.readouterr().out == (
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


def test_a_table_as_comma_separated_values_goes_to_a_file(
    runs: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    place = tmp_path / "table.csv"
    command = ["table", runs, "--relative", "full text", "--format", "csv", "--output", str(place)]
    assert main(command) == 0
    records = list(csv.DictReader(io.StringIO(place.read_text(encoding="utf-8"))))
    assert [record["n"] for record in records] == ["2", "2", "2"]
    assert float(records[2]["mean"]) == pytest.approx(0.725 / 0.91)
    told = capsys.readouterr().err
    assert "7 runs: 6 done, 1 failed, 0 open." in told
    assert "are done" not in told
    told = f"{place} already exists. Choose another path, or replace it: --overwrite."
    refused(command, told, capsys)
    assert main([*command, "--overwrite"]) == 0


def test_nothing_is_said_of_bold_beside_comma_separated_values(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    made = [
        *seeds("a", 0.1, 0.11, 0.12, settings={"scorer": "a"}),
        *seeds("b", 0.9, 0.91, 0.92, settings={"scorer": "b"}),
    ]
    runs = str(write(tmp_path / "runs", made))
    for more in ([], ["--test", "scorer=a:b"]):
        assert main(["table", runs, *more]) == 0
        assert "bold: " in capsys.readouterr().out.lower()
        assert main(["table", runs, *more, "--format", "csv"]) == 0
        assert "bold" not in capsys.readouterr().err.lower()


def test_a_setting_is_tested(runs: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["table", runs, "main", "--test", "discretizer=global_top_k:top_k", "--format", "latex"]) == 0
    out = capsys.readouterr().out
    assert out.startswith("% \\usepackage{booktabs}\n\\begin{tabular}{llrrrrrrr}\n")
    assert "global\\_top\\_k $-$ top\\_k & .725 (.700--.750)" in out


def test_a_figure_is_drawn_as_the_grid_says(runs: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    places = [str(tmp_path / name) for name in ("a.png", "a.svg")]
    assert main(["plot", runs, "--output", *places]) == 0  # the only experiment there
    assert capsys.readouterr().out == f"Drawn: {', '.join(places)}\n5 runs: 4 done, 1 failed, 0 open.\n"
    svg = (tmp_path / "a.svg").read_text(encoding="utf-8")
    assert all(f"<!-- {name} -->" in svg for name in ("sst", "top_k", "global_top_k", "full text", "ratio"))
    assert main(["plot", runs, "main", "--x", "seed", "--where", "row=full text", "--output", f"{tmp_path}/b.png"]) == 0


def test_a_figure_has_the_names_that_are_given(runs: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    named = ["--name", "ratio=share of words", "--name", "sst=SST = the Stanford treebank"]
    assert main(["plot", runs, *named, "--output", f"{tmp_path}/a.svg"]) == 0
    capsys.readouterr()
    svg = (tmp_path / "a.svg").read_text(encoding="utf-8")
    assert all(f"<!-- {name} -->" in svg for name in ("share of words", "SST = the Stanford treebank", "top_k"))
    assert not any(f"<!-- {name} -->" in svg for name in ("ratio", "sst"))
    told = "ration is not an axis, a panel or a line of this figure. Did you mean ratio?"
    refused(["plot", runs, "--name", "ration=share", "--output", f"{tmp_path}/b.svg"], told, capsys)
    for wrong in ("ratio", "ratio=", "=share"):
        told = f"--name '{wrong}' must be NAME=TEXT, such as --name 'ratio=share of words'."
        refused(["plot", runs, "--name", wrong, "--output", f"{tmp_path}/b.svg"], told, capsys)
    assert not (tmp_path / "b.svg").exists()


def test_what_cannot_be_shown_is_refused(runs: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    refused(["table", runs, "mian"], f"{runs} holds no experiment mian. There are: main.", capsys)
    told = "No run matches: seed=2; method=full_text. Change --where."
    refused(["table", runs, "--where", "seed=2", "--where", "method=full_text"], told, capsys)
    told = "--test compares one figure: leave --relative out, and name one --figure."
    refused(["table", runs, "--test", "seed=0:1", "--figure", "macro-F1,kept"], told, capsys)
    refused(
        ["plot", runs, "--output", "a.gif"], "The name of a figure must end in .png, .svg or .pdf, got a.gif.", capsys
    )


@pytest.mark.parametrize(
    "text", ['{"version": 1, "figures": {}}', '{"version": 1, "figures": {"macro-F1": "high"}}', "x"]
)
def test_a_broken_report_is_named_and_not_counted(
    text: str, runs: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    place = tmp_path / "runs/runs/sst-ours, global-1/report.json"
    place.write_text(text, encoding="utf-8")
    told = (
        f"damaged: {place}, the report of sst, ours, global, seed 1, has no metrics that can be read. "
        "Repeat the `fresh run` command to redo the run."
    )
    assert main(["table", runs, "main"]) == 0
    out = capsys.readouterr().out
    assert "| ours, global |             .700 1/2 |\n" in out
    assert out.endswith(
        f"\n7 runs: 5 done, 1 failed, 1 open.\n\nfailed: sst, ours, top_k, seed 2: ValueError: no\n\n{told}\n"
    )
    assert main(["table", runs, "main", "--test", "discretizer=global_top_k:top_k"]) == 0
    assert capsys.readouterr().out.endswith(f"\n{told}\n")
    assert main(["plot", runs, "--output", f"{tmp_path}/a.png"]) == 0
    assert capsys.readouterr().out.endswith(f"\n5 runs: 3 done, 1 failed, 1 open.\n{told}\n")


def test_data_are_described(toy: Splits, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    place = small.write_csv(tmp_path / "toy.csv", small.rows(toy.test))
    assert main(["describe", str(place)]) == 0
    rows = capsys.readouterr().out.splitlines()
    n_words = [len(example.document.words) for example in toy.test]
    words = f"{statistics.fmean(n_words):.0f} / {max(n_words)}"
    cells = [cell.strip() for cell in rows[2].strip("|").split("|")]
    assert cells == ["toy.csv", "all", "32", words, "–", "–", "–", ".500 / .500", "0"]
    assert rows[-1] == "Classes of toy.csv: neg, pos."
    more = small.write_csv(tmp_path / "more.csv", small.rows(toy.test[:8]))
    assert main(["describe", str(place), "--test", str(more), "--as", "csv"]) == 0
    [train, test] = csv.DictReader(io.StringIO(capsys.readouterr().out))
    assert (train["split"], test["split"], test["documents"], test["seen before"]) == ("train", "test", "8", "8")


def test_data_that_are_not_there_are_refused(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    refused(["describe", "sts", "--data-dir", str(tmp_path)], "sts is not a corpus. Did you mean sst?", capsys)


def test_a_real_grid_has_a_table_and_a_figure(
    toy: Splits, encoders: dict[str, Path], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    for part in ("train", "dev", "test"):
        small.write_csv(tmp_path / f"{part}.csv", small.rows(getattr(small.some(toy), part)))
    grid = tmp_path / "tiny.toml"
    settings = small.settings(encoders["bert"], epochs=1)
    told = "\n".join(f"{name} = {value!r}" for name, value in settings.items())
    grid.write_text(
        f"[grid]\ncorpus = ['toy']\nseed = [0, 1]\n[settings]\n{told}\n[corpora.toy]\n"
        f"data = 'train.csv'\ndev = '{tmp_path}/dev.csv'\ntest = '{tmp_path}/test.csv'\n"
        "[figure]\nby = 'discretizer'\nagainst = 'full text'\nwhere = { method = 'fresh' }\n"
        "[[rows]]\nname = 'full text'\nmethod = 'full_text'\n"
        "[[rows]]\nname = 'ours'\nscorer = 'attention'\ndiscretizer = ['top_k', 'contiguous']\nratio = 0.2\n",
        encoding="utf-8",
    )
    runs = str(tmp_path / "runs")
    assert main(["run", str(grid), "--out", runs, "--workers", "1"]) == 0
    capsys.readouterr()
    assert main(["table", runs, "tiny", "--rows", "discretizer", "--columns", "ratio", "--format", "csv"]) == 0
    found = capsys.readouterr()
    cells = list(csv.DictReader(io.StringIO(found.out)))
    assert [(cell["discretizer"], cell["ratio"], cell["n"]) for cell in cells] == [
        ("top_k", "0.2", "2"),
        ("contiguous", "0.2", "2"),
        ("–", "–", "2"),
    ]
    assert all(0 <= float(cell["min"]) <= float(cell["mean"]) <= float(cell["max"]) <= 1 for cell in cells)
    assert "6 runs: 6 done, 0 failed, 0 open." in found.err
    assert main(["table", runs, "tiny", "--test", "discretizer=top_k:contiguous"]) == 0
    assert "top_k − contiguous" in capsys.readouterr().out
    assert main(["plot", runs, "tiny", "--output", str(tmp_path / "a.png")]) == 0


@pytest.mark.parametrize("width", [40, 60, 200])
def test_a_terminal_shows_every_figure_whole(
    runs: str, width: int, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("COLUMNS", str(width))
    monkeypatch.setattr("sys.stdout.isatty", lambda: True)
    assert main(["table", runs, "main", "--test", "discretizer=global_top_k:top_k"]) == 0
    shown = capsys.readouterr().out
    assert all(figure in shown for figure in (".725", "(.700–.750)", ".810", "(.800–.820)", "2/3", "-.085"))
    assert "…" not in shown


def test_tables_and_descriptions_need_no_torch(runs: str, toy: Splits, tmp_path: Path) -> None:
    place = small.write_csv(tmp_path / "toy.csv", small.rows(toy.test))
    commands = (["table", runs], ["plot", runs, "--output", f"{tmp_path}/a.png"], ["describe", str(place)])
    loop = f"for command in {commands!r}: assert main(command) == 0"
    code = f"import sys\nfrom fresh.cli.main import main\n{loop}\nprint('torch' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.splitlines()[-1] == "False"
