import json
import re
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

import small
from command import Command
from experiments import row
from fresh.attribution.support_model import SupportModel
from fresh.cli.compare import _find_models, _show
from fresh.data.splits import Splits
from fresh.evaluation.comparison import compare, compare_groups
from fresh.predictor import Predictor
from fresh.rationalizer import Rationalizer
from fresh.selection.discretizers import TopK
from stubs import examples, stub


@pytest.fixture(scope="module")
def models(support: SupportModel, predictor: Predictor) -> dict[str, Rationalizer]:
    """Two ratios, two runs each."""
    made = {name: small.rationalizer(support, predictor, TopK(ratio)) for name, ratio in (("a", 0.2), ("b", 0.5))}
    return {
        f"{name}-{seed}": replace(model, settings={"method": name, "train": {"seed": seed}})
        for name, model in made.items()
        for seed in (1, 2)
    }


@pytest.fixture(scope="module")
def runs(models: dict[str, Rationalizer], tmp_path_factory: pytest.TempPathFactory) -> str:
    folder = tmp_path_factory.mktemp("runs")
    for name, model in models.items():
        model.save_pretrained(folder / name)
    (folder / "a-3.partial").mkdir()
    return str(folder)


@pytest.fixture
def data(toy: Splits, here: Path) -> str:
    """Annotated texts, alone in the working directory."""
    return small.write_jsonl(here / "test.jsonl", map(row, toy.test)).name


def test_models_are_shown_side_by_side_and_written(
    runs: str, models: dict[str, Rationalizer], toy: Splits, data: str, command: Command
) -> None:
    outputs = ("--json", "out.json", "--markdown", "out.md", "--html", "out.html")
    shown = command("compare", f"short={runs}/a-1/", f"long={runs}/b-1", "--data", data, *outputs)
    table = compare({"short": models["a-1"], "long": models["b-1"]}, toy.test)
    assert Path("out.json").read_text(encoding="utf-8") == table.to_json()
    assert Path("out.md").read_text(encoding="utf-8") == table.to_markdown()
    assert Path("out.html").read_text(encoding="utf-8") == table.to_html(data)
    assert sorted(path.name for path in Path().iterdir()) == ["out.html", "out.json", "out.md", data]
    assert max(map(len, shown.out.splitlines())) <= 80
    figures = [
        part
        for cells in (*table.score_cells(), *table.test_cells(), *table.overlap_cells())
        for cell in cells
        for part in re.split(r"\n| \(|\)$", cell)
    ]
    assert all(figure in shown.out for figure in figures)
    assert " ".join(shown.out.split()).endswith(" ".join(table.notes))
    assert "explaining long" in shown.err


def test_long_names_are_wrapped_and_figures_are_not(runs: str, data: str, command: Command) -> None:
    shown = command("compare", f"{runs}/a-1", f"{runs}/b-1/", "--data", data, "--against", f"{runs}/a-1/").out
    lines = shown.splitlines()
    assert max(map(len, lines)) <= 80
    names = "".join(line.split("│")[1].strip() for line in lines if line.startswith("│"))
    assert names.startswith(f"{runs}/a-1{runs}/b-1")
    assert names.replace(" ", "").count(f"{runs}/b-1−{runs}/a-1") == 2


def test_a_pattern_names_the_runs_of_a_group(
    runs: str, models: dict[str, Rationalizer], toy: Splits, data: str, command: Command
) -> None:
    shown = command("compare", f"a={runs}/a-*", f"b={runs}/b-*", "--data", data, "--json", "out.json")
    groups = {name: {f"{runs}/{name}-{seed}": models[f"{name}-{seed}"] for seed in (1, 2)} for name in "ab"}
    assert Path("out.json").read_text(encoding="utf-8") == compare_groups(groups, toy.test).to_json()
    assert shown.err.startswith(f"a={runs}/a-*: left out, not saved models: {runs}/a-3.partial\n")
    assert "There are no paired tests" in shown.out


def test_a_pattern_with_one_match_is_one_model(runs: str, data: str, command: Command) -> None:
    Path("out.json").write_text("replaced", encoding="utf-8")
    outputs = ("--json", "out.json", "--overwrite")
    command("compare", f"a={runs}/a-1*", f"b={runs}/b-[2]", "--data", data, *outputs)
    found = json.loads(Path("out.json").read_text(encoding="utf-8"))
    assert found["test"] == "paired permutation test, on the same documents"
    assert [row["name"] for row in found["rows"]] == ["a", "b"]
    assert found["n_documents"] == 32


def test_the_test_split_of_a_corpus_is_read(runs: str, sst: tuple[str, ...], command: Command) -> None:
    small.write_jsonl(Path("test.jsonl"), [{"document": "a film", "label": "pos"}])
    command("compare", f"{runs}/a-1", f"{runs}/b-1", "--data", *sst, "--json", "out.json")
    assert json.loads(Path("out.json").read_text(encoding="utf-8"))["n_documents"] == 1


def test_models_are_loaded_one_at_a_time(
    runs: str, data: str, command: Command, monkeypatch: pytest.MonkeyPatch
) -> None:
    loaded: list[str] = []
    real = Rationalizer.from_pretrained

    def from_pretrained(name: str, **about: Any) -> Rationalizer:
        loaded.append(Path(name).name)
        return real(name, **about)

    monkeypatch.setattr(Rationalizer, "from_pretrained", from_pretrained)
    command("compare", f"{runs}/a-1", f"{runs}/b-1", "--data", data)
    assert loaded == ["a-1", "b-1", "a-1", "b-1"]  # to check all before any work, then to answer


def test_a_folder_with_an_equals_sign_in_its_name_is_one_model() -> None:
    Path("ratio=0.2").mkdir()
    assert _find_models(["ratio=0.2", "x=there"]) == {"ratio=0.2": ["ratio=0.2"], "x": ["there"]}


def test_a_name_cannot_control_the_terminal(capsys: pytest.CaptureFixture[str]) -> None:
    _show(compare({"\x1b[31mred": stub("pn"), "[b]": stub("nn")}, examples("pn")))
    shown = capsys.readouterr().out
    assert "\x1b" not in shown
    assert "␛[31mred" in shown
    assert "− [b]" in shown
