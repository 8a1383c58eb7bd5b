import itertools
import re
from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np
import pytest

import fresh.pipeline
import fresh.training.fit
import fresh.training.loop
import small
from fresh.data.splits import Splits
from fresh.errors import ConfigError, OutputError
from fresh.pipeline import _RUN_FILE, describe_unfinished, partial_folder, train
from fresh.progress import SILENT
from fresh.rationalizer import Rationalizer
from small import Saying
from training_hooks import interrupt_training, list_epochs

EPOCHS = 3
Run = Callable[..., Rationalizer]
"""Trains a model for a folder, with the usual settings where no others are given."""
Interrupt = Callable[[int, int], Path]
"""Interrupts training after some epochs, and some steps of the next one; returns the folder of the model."""


@pytest.fixture(scope="module", autouse=True)
def every_epoch_is_better() -> Iterator[None]:
    """Make the last epoch the best, so that a model depends on all of them."""
    scores = itertools.count(1)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(fresh.training.fit, "_make_validate", lambda *_given: lambda: float(next(scores)))
        yield


@pytest.fixture(scope="module")
def run(toy: Splits, encoders: dict[str, Path]) -> Run:
    usual = small.run_settings(encoders["bert"], epochs=EPOCHS, dropout=0.3, data=small.some(toy, 48, 8))
    return lambda out, **others: train(out=out, **{"progress": SILENT, **usual, **others})


@pytest.fixture(scope="module")
def uninterrupted(run: Run, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A model that was trained in one go."""
    place = tmp_path_factory.mktemp("uninterrupted") / "model"
    run(place)
    return place


@pytest.fixture
def interrupted(run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Interrupt:
    def interrupt(n_epochs: int, n_steps: int) -> Path:
        with monkeypatch.context() as patch:
            interrupt_training(patch, n_epochs, n_steps + 1)
            patch.setattr(fresh.pipeline, "CHECKPOINT_SECONDS", 0)
            with pytest.raises(KeyboardInterrupt):
                run(tmp_path / "model")
        return tmp_path / "model"

    return interrupt


def state(folder: Path) -> tuple[bytes, bytes]:
    """Everything that distinguishes two saved models: the manifest holds the digest of every file."""
    return (folder / "config.json").read_bytes(), (folder / "README.md").read_bytes()


NETWORKS = ("support model", "predictor", "independent reader", "complement")


@pytest.mark.parametrize("network", range(4), ids=NETWORKS)
def test_a_resumed_training_gives_the_same_model_to_the_bit(
    network: int, uninterrupted: Path, run: Run, interrupted: Interrupt
) -> None:
    folder = interrupted(network * EPOCHS + 1, 2)
    assert not folder.exists()
    said = Saying()
    run(folder, progress=said)
    assert state(folder) == state(uninterrupted)
    [line] = [line for line in said.lines if line.startswith("Resuming")]
    epochs = [*([EPOCHS] * network), 1]
    kept = "; ".join(
        f"{name}: {n} epochs?, best dev macro-F1 [0-9.]+" for name, n in zip(NETWORKS, epochs, strict=False)
    )
    assert re.fullmatch(f"Resuming the interrupted training. Checkpoints: {kept}.", line)
    assert sorted(path.name for path in folder.parent.iterdir()) == ["model", "model-report.html"]


def test_a_training_interrupted_at_once_keeps_nothing(interrupted: Interrupt) -> None:
    assert describe_unfinished(interrupted(0, 2)) == ""


@pytest.mark.parametrize("damage", [None, "{"])
def test_checkpoints_that_cannot_be_resumed_are_only_described(damage: str | None, interrupted: Interrupt) -> None:
    folder = interrupted(1, 1)
    note = partial_folder(folder) / _RUN_FILE
    note.unlink() if damage is None else note.write_text(damage, encoding="utf-8")
    shown = describe_unfinished(folder)
    assert re.fullmatch(r"Checkpoints: support model: 1 epoch, best dev macro-F1 [0-9.]+\.", shown)


def test_another_run_is_not_resumed(run: Run, toy: Splits, interrupted: Interrupt) -> None:
    folder = interrupted(1, 1)
    expected = (
        f"{folder}.partial holds an interrupted training that differs in: ratio, train.seed. "
        "Finish that one first, choose another folder, or discard it: overwrite=True."
    )
    with pytest.raises(ConfigError, match=f"^{re.escape(expected)}$"):
        run(folder, ratio=0.5, seed=7)
    with pytest.raises(ConfigError, match=r"training that differs in: data\. Finish"):
        run(folder, data=small.some(toy, 47, 8))


def test_overwriting_discards_another_run(
    run: Run, interrupted: Interrupt, uninterrupted: Path, tmp_path: Path
) -> None:
    folder = interrupted(1, 1)
    run(folder, overwrite=True, ratio=0.5, baseline=False)
    undisturbed = tmp_path / "fresh" / folder.name  # the card, whose digest is in config.json, names it
    run(undisturbed, ratio=0.5, baseline=False)
    assert state(folder)[0] == state(undisturbed)[0]
    assert state(folder)[0] != state(uninterrupted)[0]
    assert sorted(path.name for path in tmp_path.iterdir()) == ["fresh", "model", "model-report.html"]


def test_fewer_epochs_finish_with_those_that_are_done(
    run: Run, interrupted: Interrupt, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = interrupted(EPOCHS + 2, 1)
    epochs = list_epochs(monkeypatch)
    model = run(folder, epochs=2, baseline=False)
    assert epochs == []
    assert model.settings["train"]["epochs"] == 2
    assert np.isfinite(small.reported(model.report).rows[1].macro_f1)


def test_a_folder_of_other_files_is_not_discarded(run: Run, tmp_path: Path) -> None:
    notes = tmp_path / "model.partial" / "notes.txt"
    notes.parent.mkdir()
    notes.write_text("mine", encoding="utf-8")
    with pytest.raises(OutputError, match=rf"^{re.escape(str(notes.parent))} holds other files"):
        run(tmp_path / "model", overwrite=True)
    assert notes.read_text(encoding="utf-8") == "mine"


@pytest.mark.parametrize("name", ["support_model.safetensors", "run.json"])
def test_damaged_checkpoints_can_be_discarded(name: str, interrupted: Interrupt, run: Run, uninterrupted: Path) -> None:
    folder = interrupted(1, 2)
    partial = folder.with_name(f"{folder.name}.partial")
    (partial / name).write_bytes((partial / name).read_bytes()[:20])
    with pytest.raises(ConfigError) as caught:
        run(folder)
    assert str(caught.value) == (
        f"{partial} holds an interrupted training that is damaged. "
        "Choose another folder, or discard it: overwrite=True."
    )
    run(folder, overwrite=True)
    assert state(folder) == state(uninterrupted)
