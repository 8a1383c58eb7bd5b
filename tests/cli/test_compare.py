import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

import fresh.cli.compare
import small
from fresh.attribution.support_model import SupportModel
from fresh.cli.compare import _find_models, _show
from fresh.cli.main import main
from fresh.data.splits import Splits
from fresh.document import Example
from fresh.evaluation.comparison import compare, compare_groups
from fresh.predictor import Predictor
from fresh.rationalizer import Rationalizer
from fresh.selection.discretizers import TopK
from stubs import examples, stub

CPU = ("--device", "cpu")


@pytest.fixture(scope="module")
def models(support: SupportModel, predictor: Predictor) -> dict[str, Rationalizer]:
    """Two ways to choose words, two runs each."""
    made = {name: small.rationalizer(support, predictor, TopK(ratio)) for name, ratio in (("a", 0.2), ("b", 0.5))}
    return {
        f"{name}-{seed}": replace(model, settings={"method": name, "train": {"seed": seed}})
        for name, model in made.items()
        for seed in (1, 2)
    }


@pytest.fixture(scope="module")
def runs(models: dict[str, Rationalizer], tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("runs")
    for name, model in models.items():
        model.save_pretrained(folder / name)
    (folder / "a-3.partial").mkdir()
    return folder


@pytest.fixture
def data(toy: Splits, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    """Work in a folder that holds nothing but labelled and marked texts."""
    monkeypatch.chdir(tmp_path)
    small.write_jsonl(tmp_path / "test.jsonl", [marked_row(example) for example in toy.test])
    return "test.jsonl"


def marked_row(example: Example) -> dict[str, Any]:
    assert example.human is not None
    places = example.document.spans
    marks = [[places[first][0], places[after - 1][1]] for first, after in example.human.spans]
    [row] = small.rows([example])
    return {**row, "rationale": marks}


def test_models_are_shown_side_by_side_and_written(
    runs: Path,
    models: dict[str, Rationalizer],
    toy: Splits,
    data: str,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    outputs = ("--json", "out.json", "--markdown", "out.md", "--html", "out.html")
    assert main(["compare", f"short={runs}/a-1/", f"long={runs}/b-1", "--data", data, *outputs, *CPU]) == 0
    table = compare({"short": models["a-1"], "long": models["b-1"]}, toy.test)
    assert Path("out.json").read_text(encoding="utf-8") == table.to_json()
    assert Path("out.md").read_text(encoding="utf-8") == table.to_markdown()
    assert Path("out.html").read_text(encoding="utf-8") == table.to_html(data)
    assert sorted(path.name for path in Path().iterdir()) == ["out.html", "out.json", "out.md", data]
    shown = capsys.readouterr()
    assert max(map(len, shown.out.splitlines())) <= 80
    figures = [
        part for cells in (*table.score_cells(), *table.test_cells()) for cell in cells for part in cell.split("\n")
    ]
    assert all(figure in shown.out for figure in figures)
    assert " ".join(shown.out.split()).endswith(" ".join(table.notes))
    assert "explaining long" in shown.err


def test_long_names_are_broken_and_figures_are_not(
    runs: Path, data: str, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    assert main(["compare", f"{runs}/a-1", f"{runs}/b-1/", "--data", data, "--against", f"{runs}/a-1/", *CPU]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert max(map(len, lines)) <= 80
    names = "".join(line.split("│")[1].strip() for line in lines if line.startswith("│"))
    assert names.startswith(f"{runs}/a-1{runs}/b-1")
    assert names.replace(" ", "").count(f"{runs}/b-1−{runs}/a-1") == 2


def test_runs_are_found_by_patterns(
    runs: Path, models: dict[str, Rationalizer], toy: Splits, data: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["compare", f"a={runs}/a-*", f"b={runs}/b-*", "--data", data, "--json", "out.json", *CPU]) == 0
    groups = {name: {f"{runs}/{name}-{seed}": models[f"{name}-{seed}"] for seed in (1, 2)} for name in "ab"}
    assert Path("out.json").read_text(encoding="utf-8") == compare_groups(groups, toy.test).to_json()
    shown = capsys.readouterr()
    left = f"a={runs}/a-*: left out, not saved models: {runs}/a-3.partial\n"
    assert shown.err.startswith(left)
    assert "There are no paired tests" in shown.out


def test_one_match_is_one_model(runs: Path, data: str) -> None:
    assert main(["compare", f"a={runs}/a-1*", f"b={runs}/b-[2]", "--data", data, "--json", "out.json", *CPU]) == 0
    found = json.loads(Path("out.json").read_text(encoding="utf-8"))
    assert found["test"] == "paired permutation test, on the same documents"
    assert [row["name"] for row in found["rows"]] == ["a", "b"]


def test_the_test_part_of_a_corpus_is_read(runs: Path, toy: Splits, data: str) -> None:
    for part in ("train", "dev", "test"):
        rows = [{"document": row["text"], "label": row["label"]} for row in small.rows(getattr(toy, part)[:20])]
        small.write_jsonl(Path(f"{part}.jsonl"), rows[: 5 if part == "test" else 20])
    corpus = ("--data", "sst", "--data-dir", ".")
    assert main(["compare", f"{runs}/a-1", f"{runs}/b-1", *corpus, "--json", "out.json", *CPU]) == 0
    assert json.loads(Path("out.json").read_text(encoding="utf-8"))["n_documents"] == 5


def test_texts_that_are_too_long_are_left_out_of_all_when_asked(
    runs: Path, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    texts = [{"text": text, "label": "pos"} for text in ("a good film", "good " * 5000)]
    path = str(small.write_jsonl(tmp_path / "in.jsonl", texts))
    assert main(["compare", f"{runs}/a-1", f"{runs}/b-1", "--data", path, "--skip-bad", *CPU]) == 0
    shown = capsys.readouterr()
    assert shown.err.startswith("Left out 1 of 2 rows: Text 'in-2' has 5000 words")
    assert shown.out.startswith("1 document ")


def test_models_are_loaded_one_at_a_time(runs: Path, data: str, monkeypatch: pytest.MonkeyPatch) -> None:
    loaded: list[str] = []
    real = Rationalizer.from_pretrained

    def watched(name: str, **about: Any) -> Rationalizer:
        loaded.append(Path(name).name)
        return real(name, **about)

    monkeypatch.setattr(Rationalizer, "from_pretrained", watched)
    assert main(["compare", f"{runs}/a-1", f"{runs}/b-1", "--data", data, *CPU]) == 0
    assert loaded == ["a-1", "b-1", "a-1", "b-1"]  # to check all before any work, then to answer


def test_a_folder_with_a_sign_in_its_name_is_one_model(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    Path("ratio=0.2").mkdir()
    assert _find_models(["ratio=0.2", "x=there"]) == {"ratio=0.2": ["ratio=0.2"], "x": ["there"]}


def test_a_name_cannot_steer_the_terminal(capsys: pytest.CaptureFixture[str]) -> None:
    _show(compare({"\x1b[31mred": stub("pn"), "[b]": stub("nn")}, examples("pn")))
    shown = capsys.readouterr().out
    assert "\x1b" not in shown
    assert "␛[31mred" in shown
    assert "− [b]" in shown


# What is refused


@pytest.fixture
def refused(data: str, capsys: pytest.CaptureFixture[str]) -> Callable[..., None]:
    """Check that a comparison is refused with some words, and leaves nothing behind."""

    def check(message: str, *arguments: str, data: str = data) -> None:
        before = {path: path.read_bytes() for path in Path().iterdir() if path.is_file()}
        assert main(["compare", *arguments, "--data", data, *CPU]) == 1
        shown = capsys.readouterr()
        assert shown.out == ""
        assert shown.err == f"fresh compare: {message}\n"
        assert {path: path.read_bytes() for path in Path().iterdir() if path.is_file()} == before

    return check


def test_an_output_is_replaced_when_asked(runs: Path, data: str) -> None:
    Path("out.json").write_text("mine", encoding="utf-8")
    options = ("--json", "out.json", "--overwrite")
    assert main(["compare", f"{runs}/a-1", f"{runs}/b-1", "--data", data, *options, *CPU]) == 0
    assert json.loads(Path("out.json").read_text(encoding="utf-8"))["n_documents"] == 32


def test_models_of_other_labels_or_data_are_refused(refused: Callable[..., None], runs: Path, tmp_path: Path) -> None:
    names = f"{runs}/a-1", f"{runs}/b-1"
    small.write_jsonl(tmp_path / "odd.jsonl", [{"text": "a film", "label": "great"}])
    refused(
        "The model was trained with the labels neg, pos, but the data also has great (1), first in document 'odd-1'. "
        "Leave such documents out, or train a model with these labels.",
        *names,
        data="odd.jsonl",
    )
    asks = replace(Rationalizer.from_pretrained(runs / "a-1"), needs_query=True)
    asks.save_pretrained(tmp_path / "asks")
    told = "Models trained with and without queries cannot be compared: "
    refused(f"{told}asks was trained with queries, {runs}/a-1 without. Leave one out.", names[0], "asks")


def test_nothing_is_written_in_the_middle(runs: Path, data: str, monkeypatch: pytest.MonkeyPatch) -> None:
    def broken_off(*_about: Any) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(fresh.cli.compare, "_show", broken_off)
    assert main(["compare", f"{runs}/a-1", f"{runs}/b-1", "--data", data, "--json", "out.json", *CPU]) == 130
    assert not Path("out.json").exists()
