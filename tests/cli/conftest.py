"""Saved models of toy reviews, and commands that use them."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import small
from command import Command, Shown
from fresh.attribution.support_model import SupportModel
from fresh.cli.main import main
from fresh.data.splits import Splits
from fresh.predictor import Predictor
from fresh.rationalizer import Rationalizer
from fresh.selection.discretizers import TopK

ON_CPU = ("audit", "compare", "evaluate", "explain", "export", "verify")


@pytest.fixture
def command(capsys: pytest.CaptureFixture[str]) -> Command:
    """Runs `fresh` with arguments on the CPU, checks the exit status, and returns what was printed."""

    def run(*arguments: object, status: int = 0) -> Shown:
        given = [*map(str, arguments), *(("--device", "cpu") if arguments[0] in ON_CPU else ())]
        capsys.readouterr()
        assert main(given) == status
        return Shown(*capsys.readouterr())

    return run


@pytest.fixture(autouse=True)
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty working directory, and a terminal of 80 columns."""
    monkeypatch.setenv("COLUMNS", "80")
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.fixture
def sst(toy: Splits, here: Path) -> tuple[str, ...]:
    """Toy documents as the corpus sst in the working directory; the options that name it."""
    for name in ("train", "dev", "test"):
        rows = [{"document": row["text"], "label": row["label"]} for row in small.rows(getattr(toy, name)[:12])]
        small.write_jsonl(here / f"{name}.jsonl", rows)
    return ("sst", "--data-dir", ".")


@pytest.fixture
def interrupt(monkeypatch: pytest.MonkeyPatch) -> Callable[[object, str], None]:
    """Replaces a function by one in which somebody presses Ctrl-C."""

    def interrupted(*_given: Any, **_named: Any) -> None:
        raise KeyboardInterrupt

    return lambda owner, name: monkeypatch.setattr(owner, name, interrupted)


@pytest.fixture(scope="session")
def model(support: SupportModel, predictor: Predictor) -> Rationalizer:
    """A model of one length."""
    return small.rationalizer(support, predictor, TopK(0.2))


@pytest.fixture(scope="session")
def saved(model: Rationalizer, tmp_path_factory: pytest.TempPathFactory) -> str:
    """Its folder."""
    folder = tmp_path_factory.mktemp("saved") / "model"
    model.save_pretrained(folder)
    return str(folder)


@pytest.fixture(scope="session")
def saved_attention(support: SupportModel, predictor: Predictor, tmp_path_factory: pytest.TempPathFactory) -> str:
    """The folder of a model that scores by attention, which takes one pass, and was trained with seed 5."""
    extractor = small.rationalizer(support, predictor, TopK(0.2), "attention").extractor
    folder = tmp_path_factory.mktemp("attention") / "model"
    Rationalizer(extractor, predictor, {"method": "fresh", "train": {"seed": 5}}).save_pretrained(folder)
    return str(folder)
