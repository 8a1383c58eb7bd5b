"""Scores and other shared work, some of it damaged."""

from contextlib import nullcontext
from pathlib import Path
from unittest.mock import Mock

import numpy as np
import pytest

from experiments import Writer, keys, metrics, run, tasks_of
from fresh.attribution import make_scorer
from fresh.attribution.support_model import SupportModel
from fresh.data.splits import Splits
from fresh.experiments.store import RunStore
from fresh.experiments.worker import Worker
from fresh.methods.rationales import score_all


@pytest.mark.parametrize("n_bytes", [0, 10, 1000, -50, -1])
def test_damaged_scores_are_replaced(
    n_bytes: int, grid: Writer, tmp_path: Path, store: RunStore, worker: Worker
) -> None:
    path = grid({"scorer": "attention"})
    run(path, "whole")
    names = keys(path)
    for task in tasks_of(path)[:2]:
        worker.perform(task)
    file = store.shared_folder(names["toy, scores of attention, seed 0"]) / "scores.npz"
    file.write_bytes(file.read_bytes()[:n_bytes])
    assert run(path).failures == {}
    assert file.read_bytes()[:4] == b"PK\x03\x04"
    assert np.load(file)["notes"].tolist() == []
    key = [names["toy, fresh, attention, seed 0"]]
    assert metrics(store, key) == metrics(RunStore(tmp_path / "whole"), key)


def test_scores_of_other_documents_are_not_used(grid: Writer, store: RunStore, worker: Worker) -> None:
    path = grid({"scorer": "attention"})
    support, scores, run_task = tasks_of(path)
    assert [worker.perform(task).status for task in (support, scores)] == ["done", "done"]
    file = store.shared_folder(scores.key) / "scores.npz"
    with np.load(file) as arrays:
        np.savez(file, **{**arrays, "test scores": arrays["test scores"][1:]})
    outcome = worker.perform(run_task)
    assert outcome.error.startswith("ValueError: The scores of this run are missing or damaged.")
    assert (outcome.status, outcome.error[-11:]) == ("failed", "retry=True.")
    assert run(path, retry=True).failures == {}


@pytest.mark.parametrize(
    "name", ["gradient", "integrated_gradients", "attention", "attention_gradient", "occlusion", "lime"]
)
def test_scorers_report_progress(name: str, support: SupportModel, toy: Splits) -> None:
    steps: list[int] = []
    progress = Mock(task=lambda *_about: nullcontext(lambda n_steps, _note: steps.append(n_steps)))
    scorer = make_scorer(name, support, {"steps": 2, "samples": 8})
    plain = scorer.score([example.document for example in toy.test[:7]])
    found = score_all(scorer, toy.test[:7], progress, "scores")
    assert [item.scores.tolist() for item in found] == [item.scores.tolist() for item in plain]
    assert (sum(steps), steps[-1]) == (7, 0)  # nothing is left to report at the end
    assert support.on_scored is None
