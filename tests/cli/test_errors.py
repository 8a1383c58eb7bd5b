import json
import re
import signal
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import fresh.experiments.search
import fresh.pipeline
import small
from command import Command
from fresh.rationalizer import Rationalizer
from training_hooks import interrupt_training

GOOD = [{"text": f"a {word} film of {n}", "label": word} for n in range(6) for word in ("good", "bad")]


@pytest.fixture
def reviews(here: Path) -> Path:
    """A file that can be trained on."""
    return small.write_jsonl(here / "reviews.jsonl", GOOD)


def test_an_unknown_device_is_refused(encoders: dict[str, Path], reviews: Path, here: Path, command: Command) -> None:
    options = small.options(encoders["bert"], device="cud")
    shown = command("train", reviews, "--out", "model", *options, status=1)
    assert re.fullmatch(r"fresh train: device 'cud' cannot be used here: .*\. Try --device auto\.", shown.last)
    assert [path.name for path in here.iterdir()] == ["reviews.jsonl"]


@pytest.fixture
def in_batches_of_three(monkeypatch: pytest.MonkeyPatch) -> None:
    """Explain three documents at a time."""
    real = Rationalizer.explain_stream
    monkeypatch.setattr(
        Rationalizer, "explain_stream", lambda self, documents, **named: real(self, documents, 3, **named)
    )


@pytest.mark.usefixtures("in_batches_of_three")
def test_a_bad_row_leaves_the_lines_before_it(saved: str, command: Command) -> None:
    source = small.write_jsonl(Path("in.jsonl"), [*GOOD[:7], {"text": None}, *GOOD])
    shown = command("explain", saved, "--input", source, "--output", "out.jsonl", status=1)
    found = [json.loads(line)["id"] for line in Path("out.jsonl").read_text(encoding="utf-8").splitlines()]
    assert found == [f"in-{number}" for number in range(1, 8)]
    assert shown.last == (
        "fresh explain: in.jsonl, line 8: the text has no words. Fix the row, or leave such rows out with --skip-bad. "
        "(7 texts explained and written before it.)"
    )


@pytest.mark.usefixtures("in_batches_of_three")
def test_explaining_can_be_interrupted(
    saved: str, reviews: Path, monkeypatch: pytest.MonkeyPatch, command: Command
) -> None:
    real, calls = Rationalizer.explain, iter(range(2))

    def explain(self: Rationalizer, *arguments: Any, **named: Any) -> Any:
        if next(calls, None) is None:
            raise KeyboardInterrupt
        return real(self, *arguments, **named)

    monkeypatch.setattr(Rationalizer, "explain", explain)
    shown = command("explain", saved, "--input", reviews, status=130)
    found = [json.loads(line)["id"] for line in shown.out.splitlines()]
    assert found == [f"reviews-{number}" for number in range(1, 7)]
    assert shown.err == "\nInterrupted. 6 texts explained; the output is valid.\n"


@pytest.mark.parametrize(("number", "status"), [(signal.SIGINT, 130), (signal.SIGTERM, 143)])
def test_training_can_be_interrupted(
    number: signal.Signals,
    status: int,
    encoders: dict[str, Path],
    reviews: Path,
    monkeypatch: pytest.MonkeyPatch,
    command: Command,
) -> None:
    interrupt_training(monkeypatch, epochs=1, by=number)
    monkeypatch.setattr(fresh.pipeline, "CHECKPOINT_SECONDS", 0)
    before = signal.getsignal(signal.SIGTERM)
    shown = command("train", reviews, "--out", "model", *small.options(encoders["bert"]), status=status)
    assert signal.getsignal(signal.SIGTERM) is before
    assert re.search(
        r"\nInterrupted\. Checkpoints: support model: 1 epoch, best dev macro-F1 \d\.\d{3}\. To resume, repeat the "
        r"same command, or give fewer --epochs to finish with those that are done\.\n$",
        shown.err,
    )
    assert sorted(path.name for path in Path().iterdir()) == ["model.partial", "reviews.jsonl"]


def test_a_search_can_be_interrupted(
    encoders: dict[str, Path], reviews: Path, interrupt: Callable[[object, str], None], command: Command
) -> None:
    interrupt(fresh.experiments.search, "train_method")
    options = small.options(encoders["bert"], epochs=1)
    shown = command("search", reviews, "--method=lei", "--out", "search", *options, status=130)
    assert re.search(r"\nInterrupted\. .*repeat the same command\.\n$", shown.err)
