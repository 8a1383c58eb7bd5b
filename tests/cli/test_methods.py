from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

import pytest

import small
from fresh.cli.main import main
from fresh.config import list_settings
from fresh.data.splits import Splits
from fresh.document import Example
from fresh.methods.config import METHODS, RunConfig, settings_of_methods
from fresh.rationalizer import Rationalizer

pytestmark = pytest.mark.filterwarnings("ignore:The gate has collapsed")  # for want of epochs

CPU = ("--device", "cpu")


def marked(examples: Iterable[Example]) -> list[dict[str, Any]]:
    """Write examples as a file has them, with what people marked."""
    rows: list[dict[str, Any]] = []
    for example in examples:
        places = example.document.spans
        spans = example.human.spans if example.human is not None else ()
        rationale = [[places[first][0], places[after - 1][1]] for first, after in spans]
        rows.append({"text": example.document.text, "label": example.label, "rationale": rationale})
    return rows


@pytest.fixture(scope="module")
def files(toy: Splits, tmp_path_factory: pytest.TempPathFactory) -> list[str]:
    """Where the data is, as it is given to the command."""
    place = tmp_path_factory.mktemp("data")
    train, dev, test = (
        str(small.write_jsonl(place / f"{name}.jsonl", marked(getattr(small.some(toy, 24, 8), name))))
        for name in ("train", "dev", "test")
    )
    return [train, "--dev", dev, "--test", test]


@pytest.fixture
def trained(files: list[str], encoders: dict[str, Path], tmp_path: Path) -> Callable[..., tuple[int, str]]:
    """Run `fresh train` with some more options; the exit status, and where the model is."""

    def run(*more: str) -> tuple[int, str]:
        options = small.options(encoders["bert"], epochs=1)
        return main(["train", *files, "--out", str(tmp_path / "model"), *options, *more]), str(tmp_path / "model")

    return run


NAMES = {
    "fresh": "FRESH (attention_gradient)",
    "lei": "Lei et al.",
    "bastings": "Bastings et al.",
    "full_text": "all words",
    "human": "human rationales",
}


@pytest.mark.parametrize("method", METHODS)
def test_every_method_ends_in_a_saved_model(
    method: str, trained: Callable[..., tuple[int, str]], toy: Splits, capsys: pytest.CaptureFixture[str]
) -> None:
    status, model = trained("--method", method)
    assert status == 0
    shown = capsys.readouterr().out
    hint = "" if method == "human" else f' Try: fresh explain {model} "Some text."'  # people marked no other texts
    assert shown.endswith(f"Saved in {model}.{hint}\n")
    assert NAMES.get(method, "") in shown
    text = toy.test[0].document.text
    assert main(["explain", model, text, *CPU]) == 0
    assert f" of {len(toy.test[0].document.words)} words:" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("options", "name"),
    [
        (["--tagger", "--human", "0.5", "--crf"], "FRESH (tagger)"),
        (["--tagger", "--human", "1", "--discretizer", "contiguous"], "FRESH (tagger)"),
        (["--distil", "--scorer", "occlusion"], "FRESH (tagger)"),
        (["--folds", "2"], "FRESH (attention_gradient)"),
        (["--long", "chunk", "--scorer", "attention"], "FRESH (attention)"),
        (["--method", "lei", "--human", "0.5", "--long", "chunk", "--draws", "2"], "Lei et al."),
        (["--method", "lei", "--no-reward-baseline", "--lambda-1", "0.1", "--lambda-2", "0.5"], "Lei et al."),
        (["--method", "bastings", "--no-two-sided", "--discretizer", "contiguous"], "Bastings et al."),
        (["--method", "bastings", "--long", "truncate"], "Bastings et al."),
        (["--method", "full_text", "--long", "chunk"], "all words"),
    ],
    ids=" ".join,
)
def test_combinations_that_make_sense_end_in_a_saved_model(
    options: list[str], name: str, trained: Callable[..., tuple[int, str]], capsys: pytest.CaptureFixture[str]
) -> None:
    status, model = trained(*options, "--no-baseline")
    assert status == 0
    assert name in capsys.readouterr().out
    assert main(["explain", model, "a good film", *CPU]) == 0


def test_one_model_serves_a_range_of_ratios(
    trained: Callable[..., tuple[int, str]], capsys: pytest.CaptureFixture[str]
) -> None:
    status, model = trained("--ratio", "0.1:0.5", "--no-baseline")
    assert status == 0
    shown = capsys.readouterr().out
    assert "the same, at 0.1" in shown
    assert "the same, at 0.5" in shown
    text = "the film was a good story of two old"
    for ratio, n_words in (("0.1", 1), ("0.3", 3), ("0.5", 5)):
        assert main(["explain", model, text, "--ratio", ratio, *CPU]) == 0
        assert f", from {n_words} of 9 words:" in capsys.readouterr().out
    assert main(["explain", model, text, "--curve", *CPU]) == 0
    assert "From these words on, the prediction stays the same:" in capsys.readouterr().out
    assert main(["explain", model, text, "--ratio", "0.6", *CPU]) == 1
    assert "must be in [0.1, 0.5]" in capsys.readouterr().err


def test_a_model_of_one_length_serves_no_other(
    trained: Callable[..., tuple[int, str]], capsys: pytest.CaptureFixture[str]
) -> None:
    _, model = trained("--method", "lei", "--no-baseline")
    capsys.readouterr()
    for options, what in ((["--ratio", "0.3"], "Another ratio"), (["--curve"], "A curve")):
        assert main(["explain", model, "a good film", *options, *CPU]) == 1
        assert capsys.readouterr().err == (
            f"fresh explain: {what} needs a model that was trained for a range of ratios, such as --ratio 0.05:0.5. "
            "This one has a single ratio.\n"
        )


def test_a_model_of_people_s_rationales_reads_nothing_else(
    trained: Callable[..., tuple[int, str]], capsys: pytest.CaptureFixture[str]
) -> None:
    _, model = trained("--method", "human", "--no-baseline")
    capsys.readouterr()
    assert main(["explain", model, "a film that nobody marked", *CPU]) == 1
    told = capsys.readouterr().err
    assert "Document 'TEXT' has no human rationale" in told
    assert "method=fresh" in told


@pytest.mark.parametrize("options", [["--method=human"], ["--tagger", "--human=0.5"], ["--method=lei", "--human=0.5"]])
def test_people_must_have_marked_something(
    options: list[str],
    toy: Splits,
    encoders: dict[str, Path],
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    data = str(small.write_csv(tmp_path / "reviews.csv", small.rows(toy.train[:40])))
    quick = small.options(encoders["bert"], epochs=1)
    assert main(["train", data, "--out", str(tmp_path / "model"), *quick, *options]) == 1
    *_, last = capsys.readouterr().err.splitlines()
    assert last.startswith("fresh train: ")
    assert "people's rationales, but no " in last
    assert not (tmp_path / "model").exists()


def test_help_names_the_methods_that_a_section_is_for(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit, match=r"^0$"):
        main(["train", "--help"])
    shown = capsys.readouterr().out
    assert [line.removeprefix("settings: ") for line in shown.splitlines() if line.startswith("settings: ")] == [
        "method:",
        "data:",
        "network:",
        "train:",
        "engine:",
        "rationales (fresh, lei, bastings, random):",
        "rationales (fresh, lei, bastings):",
        "rationales (lei, bastings):",
        "rationales (fresh):",
        "scoring (fresh):",
        "tagging (fresh):",
        "rationales (lei):",
        "rationales (bastings):",
    ]
    flags = [line.split()[0].rstrip(",") for line in shown.splitlines() if line.startswith("  --")]
    named = {setting.name for setting in list_settings(RunConfig)} | settings_of_methods().keys()
    assert {f"--{name.replace('_', '-')}" for name in named} <= set(flags)
    assert len(flags) == len(set(flags))


def test_a_settings_file_names_the_method(
    trained: Callable[..., tuple[int, str]], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "run.toml"
    file.write_text('method = "lei"\nlambda_1 = 0.05\n[train]\nseed = 4\n', encoding="utf-8")
    status, model = trained("--config", str(file), "--lambda-2", "2", "--no-baseline")
    assert status == 0
    settings = Rationalizer.from_pretrained(model).settings
    assert (settings["method"], settings["lambda_1"], settings["lambda_2"]) == ("lei", 0.05, 2)
    assert settings["train"]["seed"] == 4
    capsys.readouterr()
    assert trained("--config", str(file), "--method", "fresh", "--overwrite")[0] == 1
    told = "lambda_1 is a setting of lei, not of the method fresh."
    assert capsys.readouterr().err == f"fresh train: {told}\n"
