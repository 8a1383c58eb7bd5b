from collections.abc import Callable
from pathlib import Path

import pytest

import small
from command import Command, Shown
from experiments import row
from fresh.cli.main import main
from fresh.config import list_settings
from fresh.data.splits import Splits
from fresh.methods.config import METHODS, RunConfig, settings_of_methods
from fresh.rationalizer import Rationalizer

pytestmark = pytest.mark.filterwarnings("ignore:The gate has collapsed")  # after one epoch

Train = Callable[..., Shown]


@pytest.fixture(scope="module")
def files(toy: Splits, tmp_path_factory: pytest.TempPathFactory) -> list[str]:
    """Annotated data, as arguments of the command."""
    place = tmp_path_factory.mktemp("data")
    train, dev, test = (
        str(small.write_jsonl(place / f"{name}.jsonl", map(row, getattr(small.some(toy, 24, 8), name))))
        for name in ("train", "dev", "test")
    )
    return [train, "--dev", dev, "--test", test]


@pytest.fixture
def train(files: list[str], encoders: dict[str, Path], here: Path, command: Command) -> Train:
    """Trains a model, in the folder `model`."""
    options = small.options(encoders["bert"], epochs=1)
    return lambda *more, status=0: command("train", *files, "--out", "model", *options, *more, status=status)


NAMES = {
    "fresh": "FRESH (attention_gradient)",
    "lei": "Lei et al.",
    "bastings": "Bastings et al.",
    "full_text": "all words",
    "human": "human rationales",
}


@pytest.mark.parametrize("method", METHODS)
def test_every_method_saves_a_model(method: str, train: Train, toy: Splits, command: Command) -> None:
    shown = train("--method", method).out
    hint = "" if method == "human" else ' Try: fresh explain model "Some text."'  # it knows annotated texts only
    assert shown.endswith(f"Saved in model.{hint}\n")
    assert NAMES.get(method, "") in shown
    document = toy.test[0].document
    assert f" of {len(document.words)} words:" in command("explain", "model", document.text).out


@pytest.mark.parametrize(
    ("options", "name"),
    [
        (["--tagger", "--human", "1", "--crf", "--discretizer", "contiguous"], "FRESH (tagger)"),
        (["--long", "chunk", "--scorer", "attention"], "FRESH (attention)"),
        (["--method", "lei", "--human", "0.5", "--long", "chunk", "--draws", "2"], "Lei et al."),
        (["--method", "lei", "--no-reward-baseline", "--lambda-1", "0.1", "--lambda-2", "0.5"], "Lei et al."),
        (["--method", "bastings", "--no-two-sided", "--discretizer", "contiguous"], "Bastings et al."),
        (["--method", "bastings", "--long", "truncate"], "Bastings et al."),
        (["--method", "full_text", "--long", "chunk"], "all words"),
    ],
)
def test_valid_combinations_save_a_model(options: list[str], name: str, train: Train, command: Command) -> None:
    assert name in train(*options, "--no-baseline").out
    command("explain", "model", "a good film")


def test_one_model_serves_a_range_of_ratios(train: Train, command: Command) -> None:
    shown = train("--ratio", "0.1:0.5", "--no-baseline").out
    assert "the same, at 0.1" in shown
    assert "the same, at 0.5" in shown
    explain = ("explain", "model", "the film was a good story of two old")
    for ratio, n_words in ((0.1, 1), (0.3, 3), (0.5, 5)):
        assert f", from {n_words} of 9 words:" in command(*explain, "--ratio", ratio).out
    assert "From these words on, the prediction stays the same:" in command(*explain, "--curve").out
    assert "must be in [0.1, 0.5]" in command(*explain, "--ratio", "0.6", status=1).err


def test_a_model_of_human_rationales_reads_annotated_documents_only(train: Train, command: Command) -> None:
    train("--method", "human", "--no-baseline")
    shown = command("explain", "model", "a film that nobody marked", status=1)
    assert "Document 'TEXT' has no human rationale" in shown.err
    assert "method=fresh" in shown.err


def test_help_names_the_methods_that_have_a_setting(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit, match=r"^0$"):
        main(["train", "--help"])
    shown = capsys.readouterr().out.splitlines()
    assert [line.removeprefix("settings: ") for line in shown if line.startswith("settings: ")] == [
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
    words = " ".join(" ".join(shown).split())
    flags = [line.split()[0].rstrip(",") for line in shown if line.startswith("  --")]
    for setting in (*list_settings(RunConfig), *(setting for setting, _ in settings_of_methods().values())):
        assert f"--{setting.name.replace('_', '-')}" in flags
        assert setting.help.split(".")[0][:40] in words
    assert len(flags) == len(set(flags))


def test_a_settings_file_names_the_method(train: Train) -> None:
    Path("run.toml").write_text('method = "lei"\nlambda_1 = 0.05\n[train]\nseed = 4\n', encoding="utf-8")
    train("--config", "run.toml", "--lambda-2", "2", "--no-baseline")
    settings = Rationalizer.from_pretrained("model").settings
    assert (settings["method"], settings["lambda_1"], settings["lambda_2"]) == ("lei", 0.05, 2)
    assert settings["train"]["seed"] == 4
