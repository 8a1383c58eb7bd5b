"""The training loop: on a small network, and on real ones."""

import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor, nn

import fresh
import fresh.pipeline
import fresh.training.loop
import small
from fresh.attribution.support_model import SupportModel
from fresh.data.splits import Splits
from fresh.experiments.grid import key_settings, result_settings
from fresh.pipeline import resolve_settings
from fresh.progress import Advance
from fresh.training.config import LATER, ClassifierConfig
from fresh.training.loop import RunContext, TrainingJob, fit, fixed_seed
from fresh.training.step import TrainStep
from training_hooks import interrupt_training
from training_toys import CONFIG, STEPS, inputs_of, loss_of, make_job, network, same, train


def test_the_same_seed_gives_the_same_weights() -> None:
    first = train()
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(12345)  # which does not matter
        assert same(first, train())
    assert not same(first, network())
    assert not same(first, train(replace(CONFIG, seed=1)))
    assert torch.equal(first.state_dict()["0.bias"], network().state_dict()["0.bias"])  # it is frozen


@pytest.mark.parametrize(
    ("scores", "best"), [([0.1, 0.5, 0.3, 0.4], 2), ([0.5, 0.5, 0.5, 0.5], 1), ([0.1, 0.2, 0.3, 0.4], 4)]
)
def test_the_best_epoch_wins_and_the_earliest_of_a_tie(scores: list[float], best: int) -> None:
    assert same(train(scores=scores), train(replace(CONFIG, epochs=best)))


def test_patience_ends_training() -> None:
    model, left = network(), iter([0.3, 0.5, 0.4, 0.5, 0.6])
    fit(make_job(model, loss_of(model), lambda: next(left), replace(CONFIG, epochs=5, patience=2)))
    assert list(left) == [0.6]  # two epochs without a better one than the second
    assert not model.training


def test_every_epoch_reads_every_text_in_another_order_with_other_dropout() -> None:
    model, seen, sampled = network(), list[int](), list[float]()

    def loss(numbers: Tensor, width: int, dense: bool) -> Tensor:
        seen.extend(numbers.tolist())
        sampled.append(torch.rand(1).item())
        return loss_of(model)(numbers, width, dense)

    fit(make_job(model, loss, lambda: 1.0, replace(CONFIG, epochs=2)))
    assert sorted(seen) == sorted(2 * list(range(40)))
    assert seen[:40] != seen[40:]
    assert sampled[0] != sampled[STEPS]


class Counting:
    """Counts the steps of a task."""

    total: int | None = None
    n_done = 0

    def say(self, line: str) -> None:
        pass

    @contextmanager
    def task(self, _name: str, total: int | None) -> Iterator[Advance]:
        self.total = total

        def advance(n_steps: int, _note: str) -> None:
            self.n_done += n_steps

        yield advance


def test_an_epoch_reads_the_texts_that_are_listed_for_it() -> None:
    listed = {0: [3, 5, 39], 1: [0, 5], 2: [7, 7, 7, 1, 2, 3, 4, 8, 9]}
    seen: list[list[int]] = [[]]
    model = network()

    def loss(numbers: Tensor, width: int, dense: bool) -> Tensor:
        assert width == max(numbers.tolist()) + 2
        seen[-1].extend(numbers.tolist())
        return loss_of(model)(numbers, width, dense)

    def validate() -> float:
        seen.append([])
        return 1.0

    config = replace(CONFIG, epochs=3, batch_size=2)
    counted = Counting()
    job = TrainingJob(model, inputs_of(range(2, 42)), loss, validate, config, RunContext(progress=counted))
    job = replace(job, texts_of_epoch=lambda epoch: np.array(listed[epoch]))
    fit(job)
    assert [sorted(numbers) for numbers in seen] == [*map(sorted, listed.values()), []]
    assert counted.n_done == counted.total != 3 * len(job.batches(0))
    assert "40 texts, 0.0% padding" in replace(job, texts_of_epoch=lambda _epoch: np.array([4, 4, 4])).describe()
    [batch] = replace(job, texts_of_epoch=lambda _epoch: np.array([4])).batches(0)
    assert batch.numbers.tolist() == [4]


# Interrupts


@pytest.mark.parametrize("steps", [0, 5, 8, 12, 19])
def test_an_interrupted_training_ends_the_same(steps: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    scores, context = [0.1, 0.5, 0.2, 0.3], RunContext("support model", folder=tmp_path / "kept")
    with monkeypatch.context() as patch:
        interrupt_training(patch, *divmod(steps, STEPS))
        with pytest.raises(KeyboardInterrupt):
            train(scores=scores, context=context)
    assert (tmp_path / "kept" / "support_model.safetensors").is_file() == (steps >= STEPS)
    assert same(train(scores=scores[steps // STEPS :], context=context), train(scores=scores))


def test_trainings_side_by_side_stop_when_one_is_interrupted(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(fresh.training.loop, "GraphedTrainStep", TrainStep)
    monkeypatch.setattr(TrainingJob, "uses_graphs", True)  # as on a GPU: one thread each
    endless, begun = replace(CONFIG, epochs=10**6, patience=10**6), threading.Event()

    def go_on() -> float:
        begun.set()
        return 0.5

    def interrupt() -> float:
        assert begun.wait(60)
        raise KeyboardInterrupt

    jobs: list[TrainingJob] = []
    for name, validate in (("one", interrupt), ("other", go_on)):
        model, context = network(), RunContext(name, folder=tmp_path, checkpoint_every=1000)
        jobs.append(make_job(model, loss_of(model), validate, endless, context=context))
    with pytest.raises(KeyboardInterrupt):
        fit(*jobs)
    assert [path.stem for path in tmp_path.glob("*.safetensors")] == ["other"]


@pytest.mark.parametrize("interrupted", [False, True])
@pytest.mark.parametrize("strict", [False, True])
def test_training_leaves_no_trace(interrupted: bool, strict: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    torch.use_deterministic_algorithms(strict)
    try:
        state, legacy = torch.get_rng_state(), np.random.get_state()[1].copy()  # type: ignore[index]  # noqa: NPY002
        if interrupted:
            interrupt_training(monkeypatch, 0, 3)
        with pytest.raises(KeyboardInterrupt) if interrupted else nullcontext():
            train()
        assert torch.equal(torch.get_rng_state(), state)
        assert np.array_equal(np.random.get_state()[1], legacy)  # type: ignore[index]  # noqa: NPY002
        assert torch.are_deterministic_algorithms_enabled() is strict
        assert not torch.is_deterministic_algorithms_warn_only_enabled()
    finally:
        torch.use_deterministic_algorithms(False)


def test_a_fixed_seed() -> None:
    sampled = []
    for seed in (0, 0, 1):
        with fixed_seed(seed):
            assert torch.are_deterministic_algorithms_enabled()
            assert not torch.backends.cuda.cudnn_sdp_enabled()  # type: ignore[no-untyped-call]
            sampled.append(torch.rand(3).tolist())
    assert sampled[0] == sampled[1] != sampled[2]
    assert torch.backends.cuda.cudnn_sdp_enabled()  # type: ignore[no-untyped-call]


# Divergence


def diverging(model: nn.Module, at: int, value: float) -> Any:
    """Make a loss that is not finite in one step."""
    factors = iter([*[1.0] * at, value])
    return lambda *batch: loss_of(model)(*batch) * next(factors, 1.0)


@pytest.mark.parametrize("value", [float("nan"), float("inf")])
@pytest.mark.parametrize(("scores", "best"), [([0.25], 1), ([0.25, 0.5], 2), ([0.5, 0.25, 0.3], 1)])
@pytest.mark.parametrize("step", [1, 3, 5])
def test_divergence_keeps_the_best_state_before(step: int, scores: list[float], best: int, value: float) -> None:
    run = RunContext()
    model, left, context = network(), iter(scores), run.with_name("some network")
    loss = diverging(model, len(scores) * STEPS + step - 1, value)
    where = rf"^some network: .*step {step} of epoch {len(scores) + 1}"
    with pytest.warns(RuntimeWarning, match=rf"{where}.*epoch {best}, dev score {max(scores):.3f}.*rate") as caught:
        fit(make_job(model, loss, lambda: next(left), context=context))
    assert list(left) == []
    assert same(model, train(replace(CONFIG, epochs=best)))
    assert not model.training
    assert run.notes == [str(warning.message) for warning in caught]  # all networks of a run share them


@pytest.mark.parametrize("step", [1, 4])
def test_divergence_in_the_first_epoch_is_an_error(step: int) -> None:
    model, context = network(), RunContext("some network")
    loss = diverging(model, step - 1, float("nan"))
    with pytest.raises(ValueError, match=rf"^some network: training diverged in step {step} of epoch 1.*learning_rate"):
        fit(make_job(model, loss, lambda: pytest.fail("validated"), context=context))
    assert context.notes == RunContext().notes == []


def test_a_diverged_training_resumes_from_before_it_diverged(tmp_path: Path) -> None:
    model, left, scores = network(), iter([0.25, 0.5]), [0.25, 0.5, 0.75, 0.6]
    loss = diverging(model, 2 * STEPS, float("nan"))
    with pytest.warns(RuntimeWarning, match="epoch 3"):
        fit(make_job(model, loss, lambda: next(left), context=RunContext(folder=tmp_path)))
    assert same(train(scores=scores[2:], context=RunContext(folder=tmp_path)), train(scores=scores))


# Real networks


def test_the_query_is_learned(pair_support: SupportModel, toy_pairs: Splits) -> None:
    documents = [example.document for example in toy_pairs.test]
    predicted = [prediction.label for prediction in pair_support.predict(documents)]
    assert np.mean([label == example.label for label, example in zip(predicted, toy_pairs.test, strict=True)]) > 0.9
    good = [document for document in documents if {"good", "great"} & set(document.words)]
    for query, label in (("praise", "pos"), ("blame", "neg")):
        answers = pair_support.predict([replace(document, query=(query,)) for document in good])
        assert np.mean([answer.label == label for answer in answers]) > 0.9


@pytest.mark.parametrize("pooling", ["start", "mean"])
@pytest.mark.parametrize("layers", [1, "all"])
def test_few_files_run_in_a_training_step(
    layers: Any, pooling: Any, toy: Splits, quick: ClassifierConfig, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A step is small enough to be understood."""
    names, root = {"training/loop.py"}, Path(fresh.__file__).parent
    real = TrainStep.__call__

    def profile(frame: Any, _event: str, _argument: object) -> None:
        path = Path(frame.f_code.co_filename)
        if path.is_relative_to(root):
            names.add(path.relative_to(root).as_posix())

    def step(self: TrainStep, *given: Any) -> None:
        sys.setprofile(profile)
        try:
            real(self, *given)
        finally:
            sys.setprofile(None)

    monkeypatch.setattr(TrainStep, "__call__", step)
    network = replace(quick.network, pooling=pooling, layers=layers)
    SupportModel.train(toy.train[:16], toy.dev[:4], ClassifierConfig(network, replace(quick.train, epochs=1)))
    in_training = {name for name in names if name.startswith("training/")}
    assert in_training == {"training/loop.py", "training/step.py", "training/fit.py"}
    assert len(names) <= 8, sorted(names)


# Learning rates that change


def test_a_resumed_training_continues_its_schedule(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    config, context, factors = replace(CONFIG, schedule="linear"), RunContext(folder=tmp_path), list[float]()
    real = TrainStep.__call__

    def step(self: TrainStep, batch: Any, numbers: Tensor, rate_factor: float, seed: int) -> None:
        factors.append(rate_factor)
        real(self, batch, numbers, rate_factor, seed)

    monkeypatch.setattr(TrainStep, "__call__", step)
    whole = train(config)
    expected, peak = factors.copy(), factors.index(max(factors))
    assert expected == sorted(expected[:peak]) + sorted(expected[peak:], reverse=True)
    assert expected[-1] == pytest.approx(0.5 / len(expected) / 0.9)
    assert not same(whole, train())
    factors.clear()
    with monkeypatch.context() as patch:
        interrupt_training(patch, 1)
        with pytest.raises(KeyboardInterrupt):
            train(config, context=context)
    assert same(train(config, [0.2, 0.3, 0.4], context), whole)
    assert factors == expected


def test_runs_without_a_schedule_keep_their_keys(toy: Splits, encoders: dict[str, Path]) -> None:
    given = {**small.run_settings(encoders["bert"]), "attention_dropout": "encoder"}
    constant, linear = (
        resolve_settings("texts.jsonl", None, None, {**given, **more}) for more in ({}, {"schedule": "linear"})
    )
    assert result_settings(constant)["train.schedule"] == "constant"
    assert key_settings(constant).keys() == result_settings(constant).keys() - LATER.keys()
    assert key_settings(linear)["train.schedule"] == "linear"
    # An interrupted run may resume with more epochs, unless its schedule depends on their number.
    names = {"train.schedule", "train.epochs"}
    assert not names & fresh.pipeline.run_identity(constant, small.some(toy), None).keys()
    assert names <= fresh.pipeline.run_identity(linear, small.some(toy), None).keys()
