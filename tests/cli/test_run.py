import re
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import fresh.experiments.local
import fresh.experiments.run
from experiments import Inline, reports, toy_grid
from fresh.cli.main import main
from fresh.data.splits import Splits
from fresh.training.checkpoint import is_training_complete


@pytest.fixture
def grid(toy: Splits, encoders: dict[str, Path], tmp_path: Path) -> Callable[..., str]:
    """Write a grid over a toy corpus."""
    return lambda *rows, **parts: str(toy_grid(tmp_path, toy, encoders["bert"], *rows, **parts))


@pytest.fixture
def inline(monkeypatch: pytest.MonkeyPatch) -> None:
    """Have the work done in this process, which spares the time to begin others."""
    monkeypatch.setattr(
        fresh.experiments.local, "LocalExecutor", lambda out, data_dir, _n_workers: Inline(out, data_dir)
    )


def run(capsys: pytest.CaptureFixture[str], *arguments: str) -> tuple[int, str, list[str]]:
    status = main(["run", *arguments])
    shown = capsys.readouterr()
    return status, shown.out, shown.err.splitlines()


@pytest.mark.usefixtures("inline")
def test_the_command_says_so_when_a_table_loses_runs(
    grid: Callable[..., str], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    out = str(tmp_path / "runs")
    path = grid({"method": "full_text", "seed": [0, 1, 2]}, name="main")
    few = ("--documents", "12", "--set", "epochs=1")
    assert run(capsys, path, "--out", out, *few)[1] == f"3 of 3 runs are done. Table: fresh table {out} main\n"
    assert run(capsys, path, "--out", out, *few, "--set", "seed=1")[1] == (
        f"1 of 1 runs are done. Table: fresh table {out} main\n"
        "Runs of an earlier plan of main that are no longer in its table: 2. "
        "The command that planned them brings them back.\n"
    )
    two = run(capsys, path, "--out", out, *few, "--set", "seed=1,2")
    assert two == (0, f"2 of 2 runs are done. Table: fresh table {out} main\n", [])
    assert run(capsys, path, "--out", out, *few)[1] == f"3 of 3 runs are done. Table: fresh table {out} main\n"


@pytest.mark.usefixtures("inline")
def test_the_command_does_all_runs_and_says_where_the_table_is(
    grid: Callable[..., str], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    out = str(tmp_path / "runs")
    path = grid({"name": "ours", "scorer": "attention"}, {"method": "full_text"}, name="main")
    status, said, lines = run(capsys, path, "--out", out, "--documents", "12", "--set", "epochs=1")
    assert (status, said) == (0, f"2 of 2 runs are done. Table: fresh table {out} main\n")
    assert [re.sub(r"\.\d{3}|1\.000", "F1", line) for line in lines] == [
        "main: 2 of 2 runs to do (4 of 4 tasks), 1 at a time.",
        "[1/4] toy, support model, seed 0: done",
        "[2/4] toy, scores of attention, seed 0: done",
        "[3/4] toy, ours, seed 0: macro-F1 F1",
        "[4/4] toy, full_text, seed 0: macro-F1 F1",
    ]
    before = reports(tmp_path / "runs")
    again = run(capsys, path, "--out", out, "--documents", "12", "--set", "epochs=1")
    assert again == (0, said, [])
    assert reports(tmp_path / "runs") == before
    assert run(capsys, path, "--out", out, "--set", "epochs=1")[0] == 0
    assert len(reports(tmp_path / "runs")) == 4


@pytest.mark.usefixtures("inline")
def test_failures_are_told_in_the_end_and_can_be_tried_again(
    grid: Callable[..., str], tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    def train(*_given: Any) -> None:
        raise RuntimeError("out of luck")

    path, out = grid({"method": ["human", "random"]}, settings={"epochs": 1}), str(tmp_path / "runs")
    with monkeypatch.context() as patch:
        patch.setattr(fresh.experiments.worker, "train", train)
        status, said, lines = run(capsys, path, "--out", out)
    told = [
        "failed: toy, human, seed 0: RuntimeError: out of luck",
        "failed: toy, random, seed 0: RuntimeError: out of luck",
        "To retry failed runs, repeat the command with --retry.",
    ]
    assert (status, said) == (1, f"0 of 2 runs are done. Table: fresh table {out} grid\n")
    begun = "grid: 2 of 2 runs to do (2 of 2 tasks), 1 at a time."
    assert lines == [
        begun,
        "[1/2] toy, human, seed 0: failed: RuntimeError: out of luck",
        "[2/2] toy, random, seed 0: failed: RuntimeError: out of luck",
        *told,
    ]
    assert run(capsys, path, "--out", out) == (1, said, told)
    status, said, lines = run(capsys, path, "--out", out, "--retry")
    assert (status, said) == (0, f"2 of 2 runs are done. Table: fresh table {out} grid\n")
    assert [begun, len(lines)] == [lines[0], 3]


@pytest.mark.usefixtures("inline")
def test_what_a_failure_asks_for_comes_before_the_next_try(
    grid: Callable[..., str], tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    damaged = tmp_path / "kept.safetensors"
    damaged.write_text("no state", encoding="utf-8")
    monkeypatch.setattr(fresh.experiments.worker, "train", lambda *_given: is_training_complete(damaged, 1, 1))
    _, _, lines = run(capsys, grid({"method": "random"}), "--out", str(tmp_path / "runs"))
    assert lines[-2].endswith(" Delete the file to start over.")
    assert lines[-1] == "Fix the problems above first. To retry failed runs, repeat the command with --retry."


def test_a_setting_that_is_given_twice_is_refused_before_anything_is_loaded(tmp_path: Path) -> None:
    told = "seed is given twice. List all of its values together: seed=one,two."
    given = ["run", "grid.toml", "--out", str(tmp_path), "--set", "seed=0", "--set", "seed=1"]
    code = f"import sys; from fresh.cli.main import main; sys.exit(10 * main({given!r}) + ('torch' in sys.modules))"
    ended = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert (ended.returncode, ended.stderr) == (10, f"fresh run: {told}\n")


def test_a_file_that_is_no_grid(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    missing = str(tmp_path / "no.toml")
    told = f"fresh run: The grid file {missing} cannot be read (No such file or directory)."
    assert run(capsys, missing, "--out", str(tmp_path)) == (1, "", [told])
    (tmp_path / "bad.toml").write_text("rows = [", encoding="utf-8")
    status, _, [told] = run(capsys, str(tmp_path / "bad.toml"), "--out", str(tmp_path))
    assert status == 1
    assert told.startswith(f"fresh run: {tmp_path / 'bad.toml'} is not a TOML file: ")


@pytest.mark.parametrize("place", ["here", "here/runs"])
def test_a_file_in_the_place_of_the_folder_is_named(
    place: str, grid: Callable[..., str], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "here").write_text("mine", encoding="utf-8")
    out = str(tmp_path / place)
    told = f"{out} cannot be a folder of runs, because {tmp_path / 'here'} is a file. Choose another folder."
    assert run(capsys, grid({"method": "full_text"}), "--out", out) == (1, "", [f"fresh run: {told}"])
    assert main(["table", out]) == 1
    assert capsys.readouterr().err == f"fresh table: {told}\n"


def test_a_full_disk_is_named(
    grid: Callable[..., str], tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    def write_text(*_given: Any) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(fresh.experiments.store, "write_text", write_text)
    found = run(capsys, grid({"method": "full_text"}), "--out", str(tmp_path / "runs"))
    assert found == (
        1,
        "",
        ["fresh run: [Errno 28] No space left on device. Free some space on that disk."],
    )


def test_an_interrupt_is_no_failure(
    grid: Callable[..., str], tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    def interrupted(*_given: Any) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(fresh.experiments.local.LocalExecutor, "start", interrupted)
    status, said, lines = run(capsys, grid({"method": "full_text"}), "--out", str(tmp_path / "runs"))
    told = "Interrupted. To do the remaining runs, repeat the same command."
    assert (status, said, lines[1:]) == (130, "", ["", told])
    assert reports(tmp_path / "runs") == {}
