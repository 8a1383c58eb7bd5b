import copy
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch
from torch import Tensor, nn

from fresh.attribution.support_model import SupportModel
from fresh.data.splits import Splits
from fresh.nn.device import choose_device
from fresh.training.config import ClassifierConfig
from fresh.training.loop import RunContext, TrainingJob, fit, fixed_seed, padding_of
from shared_training import CONFIG, fit_on, loss_of, network, same, train


def weights(model: nn.Module) -> dict[str, Tensor]:
    return copy.deepcopy(model.state_dict())


def test_the_same_seed_gives_the_same_weights() -> None:
    assert same(train(), train())
    assert not same(train(), network())
    assert not same(train(), train(replace(CONFIG, seed=1)))


def test_the_global_state_does_not_matter() -> None:
    first = train()
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(12345)
        assert same(first, train())


def test_what_is_frozen_stays() -> None:
    assert torch.equal(train().state_dict()["0.bias"], network().state_dict()["0.bias"])


@pytest.mark.parametrize(
    ("scores", "best"), [([0.1, 0.5, 0.3, 0.4], 2), ([0.5, 0.5, 0.5, 0.5], 1), ([0.1, 0.2, 0.3, 0.4], 4)]
)
def test_the_best_epoch_is_left_the_earliest_where_they_tie(scores: list[float], best: int) -> None:
    assert same(train(scores=scores), train(replace(CONFIG, epochs=best)))


def test_patience_ends_training() -> None:
    model = network()
    left = iter([0.3, 0.5, 0.4, 0.5, 0.6])
    found = fit_on(model, loss_of(model), lambda: next(left), replace(CONFIG, epochs=5, patience=2), RunContext())
    assert found == (0.3, 0.5, 0.4, 0.5)  # two epochs without a better one than the second
    assert not model.training


def test_every_text_is_seen_once_an_epoch() -> None:
    seen: list[int] = []
    model = network()
    plain = loss_of(model)

    def step(numbers: Tensor, width: int, dense: bool) -> Tensor:
        seen.extend(numbers.tolist())
        return plain(numbers, width, dense)

    fit_on(model, step, lambda: 1.0, replace(CONFIG, epochs=2), RunContext())
    assert sorted(seen) == sorted(2 * list(range(40)))
    assert seen[:40] != seen[40:]


def test_every_epoch_drops_out_other_numbers() -> None:
    drawn: list[float] = []
    model = network()
    plain = loss_of(model)

    def step(numbers: Tensor, width: int, dense: bool) -> Tensor:
        drawn.append(torch.rand(1).item())
        return plain(numbers, width, dense)

    fit_on(model, step, lambda: 1.0, replace(CONFIG, epochs=2), RunContext())
    assert drawn[0] != drawn[5]  # five steps an epoch


def test_an_epoch_reads_the_texts_that_are_listed_for_it() -> None:
    listed = {0: [3, 5, 39], 1: [0, 5], 2: [7, 7, 7, 1, 2, 3, 4, 8, 9]}
    seen: list[list[int]] = [[]]
    model = network()
    plain = loss_of(model)

    def step(numbers: Tensor, width: int, dense: bool) -> Tensor:
        assert width == max(numbers.tolist()) + 2
        seen[-1].extend(numbers.tolist())
        return plain(numbers, width, dense)

    def validate() -> float:
        seen.append([])
        return 1.0

    config = replace(CONFIG, epochs=3, batch_size=2)
    job = TrainingJob(model, range(2, 42), step, validate, config, RunContext(), torch.device("cpu"))
    fit(replace(job, numbers=lambda epoch: np.array(listed[epoch])))
    assert [sorted(numbers) for numbers in seen] == [*map(sorted, listed.values()), []]
    assert padding_of(replace(job, numbers=lambda _epoch: np.array([4, 4, 4]))) == 0
    assert [sorted(batch.numbers.tolist()) for batch in replace(job, numbers=lambda _epoch: np.array([4])).deal(0)] == [
        [4]
    ]


class Stopped:
    """Watches no one, and breaks off at some step."""

    def __init__(self, model: nn.Module, at: int) -> None:
        self.plain, self.left = loss_of(model), at

    def __call__(self, numbers: Tensor, width: int, dense: bool) -> Tensor:
        self.left -= 1
        if self.left < 0:
            raise KeyboardInterrupt
        return self.plain(numbers, width, dense)


@pytest.mark.parametrize("at", [0, 5, 8, 12, 19])
def test_a_broken_off_training_goes_on_as_if_nothing_had_happened(at: int, tmp_path: Path) -> None:
    scores = [0.1, 0.5, 0.2, 0.3]
    context = RunContext("support model", folder=tmp_path / "kept")
    model, left = network(), iter(scores)
    with pytest.raises(KeyboardInterrupt):
        fit_on(model, Stopped(model, at), lambda: next(left), CONFIG, context)
    assert (tmp_path / "kept" / "support_model.safetensors").is_file() == (at >= 5)
    resumed = train(scores=scores[at // 5 :], context=context)  # five steps an epoch
    assert same(resumed, train(scores=scores))


def test_a_finished_training_is_not_done_again(tmp_path: Path) -> None:
    context = RunContext(folder=tmp_path)
    first = train(context=context)
    model = network()
    scores = fit_on(model, Stopped(model, 0), lambda: pytest.fail("validated"), CONFIG, context)
    assert scores == (0.1, 0.2, 0.3, 0.4)
    assert same(model, first)


@pytest.mark.parametrize("at", [3, 100])
@pytest.mark.parametrize("strict", [False, True])
def test_training_leaves_no_trace(at: int, strict: bool) -> None:
    torch.use_deterministic_algorithms(strict)
    try:
        state, legacy = torch.get_rng_state(), np.random.get_state()[1].copy()  # type: ignore[index]  # noqa: NPY002
        model = network()
        try:
            fit_on(model, Stopped(model, at), lambda: 1.0, CONFIG, RunContext())
        except KeyboardInterrupt:
            assert at == 3
        assert torch.equal(torch.get_rng_state(), state)
        assert np.array_equal(np.random.get_state()[1], legacy)  # type: ignore[index]  # noqa: NPY002
        assert torch.are_deterministic_algorithms_enabled() is strict
        assert not torch.is_deterministic_algorithms_warn_only_enabled()
    finally:
        torch.use_deterministic_algorithms(False)


def test_a_seed_makes_the_numbers() -> None:
    drawn = []
    for seed in (0, 0, 1):
        with fixed_seed(seed):
            assert torch.are_deterministic_algorithms_enabled()
            assert not torch.backends.cuda.cudnn_sdp_enabled()  # type: ignore[no-untyped-call]
            drawn.append(torch.rand(3).tolist())
    assert drawn[0] == drawn[1]
    assert drawn[0] != drawn[2]
    assert torch.backends.cuda.cudnn_sdp_enabled()  # type: ignore[no-untyped-call]


def test_devices_by_name() -> None:
    assert choose_device("cpu") == torch.device("cpu")
    assert choose_device("auto").type in ("cpu", "cuda", "mps")


@pytest.mark.parametrize("name", ["cuda:x", "hpu", ""])
def test_a_device_that_cannot_be_used_is_named(name: str) -> None:
    reasons = {
        "cuda:x": "Invalid device string: 'cuda:x'",
        "hpu": "No module named 'torch.hpu'",
        "": "Device string must not be empty",
    }
    with pytest.raises(ValueError, match="cannot be used here") as caught:
        choose_device(name)
    assert str(caught.value) == f"device {name!r} cannot be used here: {reasons[name]}. Try device=auto."


@pytest.mark.skipif(torch.cuda.is_available(), reason="there is a GPU")
def test_a_gpu_that_is_not_there_is_named() -> None:
    with pytest.raises(ValueError, match=r"^device 'cuda:7' cannot be used here: \w[^\n]*[^.]\. Try device=auto\.$"):
        choose_device("cuda:7")


# The same for real networks


def test_a_support_model_trained_twice_is_the_same(toy: Splits, quick: ClassifierConfig, tmp_path: Path) -> None:
    config = ClassifierConfig(replace(quick.network, dropout=0.2), replace(quick.train, epochs=2))
    first = SupportModel.train(toy.train[:48], toy.dev, config)
    broken = ClassifierConfig(config.network, replace(config.train, epochs=1))
    SupportModel.train(toy.train[:48], toy.dev, broken, RunContext(folder=tmp_path))
    resumed = SupportModel.train(toy.train[:48], toy.dev, config, RunContext(folder=tmp_path))
    other = SupportModel.train(toy.train[:48], toy.dev, ClassifierConfig(config.network, replace(config.train, seed=1)))
    assert same(first.classifier, resumed.classifier)
    assert not same(first.classifier, other.classifier)


def test_the_query_is_learnt(pair_support: SupportModel, toy_pairs: Splits) -> None:
    documents = [example.document for example in toy_pairs.test]
    right = [
        prediction.label == example.label
        for prediction, example in zip(pair_support.predict(documents), toy_pairs.test, strict=True)
    ]
    assert np.mean(right) > 0.9
    good = [document for document in documents if {"good", "great"} & set(document.words)]
    for asked, label in (("praise", "pos"), ("blame", "neg")):
        answers = pair_support.predict([replace(document, query=(asked,)) for document in good])
        assert np.mean([answer.label == label for answer in answers]) > 0.9
