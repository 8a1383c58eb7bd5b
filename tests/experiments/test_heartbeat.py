import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from experiments import run, toy_grid
from fresh._io import write_text
from fresh.attribution import make_scorer
from fresh.attribution.support_model import SupportModel
from fresh.data.splits import Splits
from fresh.document import Document, Saliency
from fresh.experiments import heartbeat as pulse
from fresh.experiments.heartbeat import _Heartbeat, heartbeat, read_pulse
from fresh.methods.rationales import score_all
from fresh.progress import Advance


@pytest.fixture
def at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """Have every step written."""
    monkeypatch.setattr(pulse, "EVERY", 0.0)


@pytest.mark.usefixtures("at_once")
def test_it_says_what_is_being_done_and_how_much_of_it(tmp_path: Path) -> None:
    place = tmp_path / "pulse" / "key"
    with heartbeat(place) as progress:
        assert read_pulse(place) == ""
        with progress.task("scores of train", 8) as advance:
            assert read_pulse(place) == "scores of train 0%"
            advance(3, "")
            assert read_pulse(place) == "scores of train 38%"
            advance(5, "a note")
            assert read_pulse(place) == "scores of train 100%"
        with progress.task("something", None) as advance:
            advance(1, "")
            assert read_pulse(place) == "something"
    assert list(place.parent.iterdir()) == []


@given(st.lists(st.integers(0, 9)))
def test_it_is_not_written_more_often_than_it_is_read(steps: list[int]) -> None:
    written: list[str] = []
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(pulse, "write_text", lambda _place, told: written.append(told))
        patch.setattr(time, "monotonic", lambda: 7.0)
        with _Heartbeat(Path()).task("network", 100) as advance:
            for n_steps in steps:
                advance(n_steps, "")
    assert written == ["network 0%"]


def test_it_goes_with_the_task_however_that_ends(tmp_path: Path) -> None:
    place = tmp_path / "pulse" / "key"

    def broken() -> None:
        with heartbeat(place) as progress, progress.task("network", 2):
            assert read_pulse(place) == "network 0%"
            raise ValueError("broken")

    with pytest.raises(ValueError, match=r"^broken$"):
        broken()
    assert not place.exists()


def test_what_somebody_left_who_was_killed_is_not_told(tmp_path: Path) -> None:
    place = tmp_path / "key"
    place.write_text("network 99%")
    with heartbeat(place):
        assert read_pulse(place) == ""


def test_a_disk_that_takes_nothing_is_no_reason_to_stop(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with heartbeat(tmp_path / "gone" / "pulse" / "key") as progress, progress.task("network", 2) as advance:
        advance(2, "")
    assert not (tmp_path / "gone").exists()
    with _Heartbeat(tmp_path / "file" / "key").task("network", 2) as advance:
        advance(2, "")


@pytest.mark.usefixtures("at_once")
def test_workers_tell_how_far_each_of_their_tasks_has_come(
    toy: Splits, encoders: dict[str, Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    told: dict[str, list[str]] = {}

    def noted(place: Path, text: str) -> None:
        told.setdefault(place.name.partition("-")[0] if "-" in place.name else "run", []).append(text)
        write_text(place, text)

    monkeypatch.setattr(pulse, "write_text", noted)
    run(toy_grid(tmp_path, toy, encoders["bert"], {"scorer": "gradient"}))
    assert told["support"][-1] == "support model 100%"
    assert told["scores"][0] == "scores of train 0%"
    assert told["scores"][-1] == "scores of test 100%"
    assert "predictor 100%" in told["run"]
    assert list((tmp_path / "runs" / "pulse").iterdir()) == []


@pytest.mark.usefixtures("at_once")
@pytest.mark.parametrize(
    "name", ["gradient", "integrated_gradients", "attention", "attention_gradient", "occlusion", "lime"]
)
def test_scores_tell_of_documents_as_they_come(name: str, support: SupportModel, toy: Splits) -> None:
    told: list[int] = []

    class Noting:
        def say(self, line: str) -> None: ...

        @contextmanager
        def task(self, _name: str, _total: int | None) -> Iterator[Advance]:
            yield lambda steps, _note: told.append(steps)

    examples = toy.test[:7]
    plain = make_scorer(name, support, {"steps": 2, "samples": 8}).score([example.document for example in examples])
    scorer = make_scorer(name, support, {"steps": 2, "samples": 8})
    found = score_all(scorer, examples, Noting(), "scores")
    assert [item.scores.tolist() for item in found] == [item.scores.tolist() for item in plain]
    assert sum(told) == 7
    assert told[-1] == 0  # nothing was left to be told in the end
    assert support.on_scored is None


def test_a_scorer_that_tells_nothing_counts_in_the_end(support: SupportModel, toy: Splits) -> None:
    class Long:
        def score(self, documents: Sequence[Document]) -> list[Saliency]:
            return [Saliency(np.array([len(word) for word in item.words], float), "pos", item.id) for item in documents]

    saying = _Heartbeat(Path("nowhere"))
    written: list[str] = []
    saying.write = written.append  # type: ignore[method-assign, assignment]
    score_all(Long(), toy.test[:3], saying, "scores")
    assert written == ["scores 0%", "scores 100%"]


@pytest.mark.usefixtures("at_once")
def test_a_new_piece_of_work_is_always_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pulse, "EVERY", 1e9)
    place = tmp_path / "key"
    progress = _Heartbeat(place)
    for name in ("support model", "scores of train"):
        with progress.task(name, 10) as advance:
            advance(5, "")
            assert read_pulse(place) == f"{name} 0%"


def test_what_cannot_be_removed_is_no_reason_to_stop(tmp_path: Path) -> None:
    (tmp_path / "pulse").write_text("a file where a folder should be")
    with heartbeat(tmp_path / "pulse" / "key") as progress, progress.task("network", 2) as advance:
        advance(2, "")
    assert (tmp_path / "pulse").is_file()
