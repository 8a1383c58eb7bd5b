import copy
import warnings
from dataclasses import replace
from pathlib import Path
from unittest.mock import Mock

import pytest
import torch
from torch import Tensor, nn

import small
from fresh.config import from_mapping
from fresh.data.splits import Splits
from fresh.methods.config import METHODS
from fresh.methods.registry import train_method
from fresh.metrics.classification import macro_f1
from fresh.nn.classifier import Classifier
from fresh.nn.tokenizer import Text
from fresh.training.distributed import ProcessGroup
from fresh.training.step import Bf16Weights, RunningMean, TrainStep
from networks import read, untrained
from training_toys import CPU, SIZES, STEP_CONFIG, Limited, distance, loss_of, make_steps, network, same, step_through

MEMORY = "Out of GPU memory: smaller batches"


def plain() -> nn.Sequential:
    return network(dropout=0)


def adamw(sizes: list[int], max_norm: float, factors: list[float] | None = None) -> nn.Sequential:
    """Train as torch does."""
    model = plain()
    trained = [weight for weight in model.parameters() if weight.requires_grad]
    optimizer = torch.optim.AdamW(trained, lr=0.05, weight_decay=0.01)
    for size, factor in zip(sizes, factors or [1.0] * len(sizes), strict=True):
        optimizer.param_groups[0]["lr"] = 0.05 * factor
        optimizer.zero_grad()
        (loss_of(model)(torch.arange(size), 5, True) / 8).backward()  # type: ignore[no-untyped-call]
        nn.utils.clip_grad_norm_(model.parameters(), max_norm)
        optimizer.step()
    return model


def test_a_step_is_that_of_adamw_with_clipping() -> None:
    model = plain()
    step_through(model, loss_of(model), SIZES)
    assert distance(model, adamw(SIZES, 0.3)) < 1e-6
    assert distance(model, adamw(SIZES, 100)) > 1e-3  # so clipping matters here,
    assert distance(model, adamw(SIZES, 1e-3)) > 1e-3  # and not in every step
    assert torch.equal(model.state_dict()["0.bias"], plain().state_dict()["0.bias"])
    assert all(weight.grad is None for weight in model.parameters())


FACTORS = [0.1, 0.5, 1.0, 0.6, 0.25, 0.0]


@pytest.mark.parametrize("as_on_a_gpu", [False, True])
def test_each_step_has_its_factor_of_the_learning_rate(as_on_a_gpu: bool) -> None:
    model = plain()
    step = TrainStep(model, loss_of(model), replace(STEP_CONFIG, schedule="linear"), ProcessGroup())
    [settings] = step.optimizer.param_groups
    if as_on_a_gpu:
        settings["lr"] = torch.tensor(0.05)
    rate = settings["lr"]
    make_steps(step, SIZES, FACTORS)
    assert not as_on_a_gpu or settings["lr"] is rate  # a recorded step reads no other tensor
    assert distance(model, adamw(SIZES, 0.3, FACTORS)) < 1e-6
    assert distance(model, adamw(SIZES, 0.3)) > 1e-3


def test_a_step_samples_from_its_seed_wherever_memory_ran_out(warned: list[warnings.WarningMessage]) -> None:
    sampled: list[float] = []
    model = plain()
    limited = Limited(model)

    def loss(numbers: Tensor, width: int, dense: bool) -> Tensor:
        sampled.append(torch.rand(1).item())
        return limited(numbers, width, dense)

    step = make_steps(TrainStep(model, loss, STEP_CONFIG, ProcessGroup()), [4, 4, 4], seeds=[3, 3, 4])
    assert sampled[0] == sampled[1] != sampled[2]
    limited.most = 4
    make_steps(step, [8], seeds=[3])
    assert sampled[3] == sampled[4] == sampled[0] != sampled[5]  # the whole, and both parts


# Out of memory


@pytest.mark.parametrize("n_parts", [2, 3, 4, 16])
def test_gradients_of_parts_sum_to_those_of_the_whole(n_parts: int) -> None:
    whole, parts = plain(), plain()
    step_through(whole, loss_of(whole), SIZES)
    loss = Limited(parts)
    step_through(parts, loss, SIZES, n_parts)
    sizes = [len(part) for part in torch.arange(8).tensor_split(min(n_parts, 8))]
    assert [len(call) for call in loss.calls[: len(sizes)]] == sizes
    assert loss.shapes == {(5, True)}  # the longest text, and not the rounded width
    assert distance(whole, parts) < 1e-6
    assert distance(whole, plain()) > 0.1


@pytest.mark.parametrize("most", [1, 2, 3, 5, 8])
def test_out_of_memory_a_batch_is_read_in_parts(most: int, warned: list[warnings.WarningMessage]) -> None:
    whole, limited = plain(), plain()
    step_through(whole, loss_of(whole), SIZES)
    loss = Limited(limited, most)
    with pytest.warns(RuntimeWarning, match=MEMORY) as caught:
        step_through(limited, loss, SIZES)
    assert len(caught) == 1
    assert distance(whole, limited) < 1e-6
    read = [call for call in loss.calls if len(call) <= most]
    assert sorted(number for call in read for number in call) == sorted(n for size in SIZES for n in range(size))
    assert len(loss.calls) - len(read) <= 4  # it is not tried again in the next steps


def test_parts_are_halved_until_they_fit_in_each_epoch(warned: list[warnings.WarningMessage]) -> None:
    model = plain()
    loss = Limited(model, 2)
    step = step_through(model, loss, [8, 8])
    assert [len(call) for call in loss.calls] == [8, 4, *[2] * 4, *[2] * 4]
    assert [number for call in loss.calls[2:6] for number in call] == list(range(8))
    assert len(warned) == 1
    loss.most = 8  # another process has left the GPU
    step.start_epoch()
    make_steps(step, [8])
    assert [len(call) for call in loss.calls[10:]] == [8]


@pytest.mark.parametrize("error", [torch.OutOfMemoryError("full"), RuntimeError("CUDA error: out of memory")])
def test_gradients_before_an_error_count_once(error: RuntimeError, warned: list[warnings.WarningMessage]) -> None:
    whole, broken = plain(), plain()
    step_through(whole, loss_of(whole), [8])
    errors = iter([None, error])  # in the second of two parts

    def loss(numbers: Tensor, width: int, dense: bool) -> Tensor:
        if raised := next(errors, None):
            raise raised
        return loss_of(broken)(numbers, width, dense)

    step_through(broken, loss, [8], n_parts=2)
    assert distance(whole, broken) < 1e-6
    assert len(warned) == 1


@pytest.mark.parametrize(
    ("size", "error", "n_warnings"),
    [(1, torch.OutOfMemoryError("full"), 0), (5, torch.OutOfMemoryError("full"), 1), (8, RuntimeError("another"), 0)],
)
def test_a_text_that_does_not_fit_alone_and_other_errors_are_raised(
    size: int, error: RuntimeError, n_warnings: int, warned: list[warnings.WarningMessage]
) -> None:
    model = plain()
    with pytest.raises(type(error), match=f"^{error}$"):
        step_through(model, Mock(side_effect=error), [size])
    assert same(model, plain())
    assert len(warned) == n_warnings


@pytest.mark.parametrize(("n_texts", "width", "n_parts"), [(8, 362, 1), (8, 363, 2), (24, 560, 8), (1, 4096, 1)])
def test_long_texts_are_read_in_parts_on_a_cpu(n_texts: int, width: int, n_parts: int) -> None:
    model = plain()
    loss = Limited(model)
    TrainStep(model, loss, STEP_CONFIG, ProcessGroup())._add_gradients(torch.arange(n_texts), width, True)
    assert len(loss.calls) == n_parts


# Divergence


@pytest.mark.parametrize("value", [float("nan"), float("inf")])
def test_the_first_step_whose_gradients_are_not_finite_is_reported(value: float) -> None:
    model, factors = plain(), iter([1.0, 1.0, value, 1.0, value])
    step = TrainStep(model, lambda *batch: loss_of(model)(*batch) * next(factors), STEP_CONFIG, ProcessGroup())
    reported: list[int | None] = []
    for _ in range(5):
        make_steps(step, [4])
        reported.append(step.finish_epoch())
    assert reported == [None, None, 3, 3, 3]
    step.start_epoch()
    assert step.finish_epoch() is None


# Running means


@pytest.mark.parametrize("most", [1000, 8, 3, 1])
@pytest.mark.usefixtures("warned")
def test_a_running_mean_is_that_of_a_step_whatever_parts_it_is_made_in(most: int) -> None:
    means: list[float] = []
    mean = RunningMean(lambda value: means.append(float(value)), CPU)
    model = nn.Sequential(*plain(), mean)
    limited = Limited(model[:4], most)

    def loss(numbers: Tensor, width: int, dense: bool) -> Tensor:
        mean.add(numbers.float(), numbers != 3)
        return limited(numbers, width, dense)

    step_through(model, loss, [8, 4, 16, 1])
    counted = [[number for number in range(size) if number != 3] for size in (8, 4, 16, 1)]
    assert means == pytest.approx([sum(numbers) / len(numbers) for numbers in counted])


def test_a_running_mean_of_no_texts_is_0_and_is_not_saved() -> None:
    means: list[float] = []
    mean = RunningMean(lambda value: means.append(float(value)), CPU)
    mean.add(torch.tensor([5.0]), torch.tensor([False]))
    mean.finish_step(ProcessGroup())
    assert means == [0]
    assert mean.state_dict() == {}


# Weights of 16 bits

TEXTS = [Text(("good", "film")), Text(("bad", "old", "story", "of", "two", "men"))]


def backward(model: Classifier) -> None:
    """Compute gradients as a training step does."""
    with torch.autocast("cpu", torch.bfloat16):
        logits = model(read(model, TEXTS)).logits
    nn.functional.cross_entropy(logits.float(), torch.tensor([0, 1])).backward()  # type: ignore[no-untyped-call]


@pytest.mark.parametrize("kind", ["bert", "distilbert", "roberta", "mpnet", "modernbert"])
def test_gradients_are_those_of_an_encoder_of_16_bits(kind: str, encoders: dict[str, Path]) -> None:
    model = untrained(encoders[kind], dropout=0)
    half = copy.deepcopy(model)
    for weight in half.body.parameters():
        weight.data = weight.data.bfloat16()
    backward(half)
    rounded = Bf16Weights(model)
    with rounded.swapped_in():
        inside = model.body.dtype
        backward(model)
    assert (inside, model.body.dtype) == (torch.bfloat16, torch.float32)
    assert all(weight.grad is None for weight in model.body.parameters())
    rounded.accumulate_grads()
    assert any(weight.grad is not None and weight.grad.any() for weight in model.body.parameters())
    for (name, weight), other in zip(model.named_parameters(), half.parameters(), strict=True):
        expected = None if other.grad is None else other.grad.float()
        torch.testing.assert_close(weight.grad, expected, rtol=0, atol=0, msg=name)


def test_rounded_gradients_add_up_and_can_be_dropped(encoders: dict[str, Path]) -> None:
    model = untrained(encoders["bert"], dropout=0)
    rounded, weight = Bf16Weights(model), model.encoder.word_embeddings.weight
    totals: list[Tensor] = []
    for finish in ((rounded.accumulate_grads, rounded.accumulate_grads), (rounded.zero_grad, rounded.accumulate_grads)):
        model.zero_grad()
        for keep_or_drop in finish:
            with rounded.swapped_in():
                backward(model)
            keep_or_drop()
        assert weight.grad is not None
        totals.append(weight.grad.clone())
    assert torch.equal(totals[0], 2 * totals[1])


def test_rounded_weights_follow_the_exact_ones_and_are_swapped_out(encoders: dict[str, Path]) -> None:
    model = untrained(encoders["bert"], dropout=0)
    rounded, weight = Bf16Weights(model), model.encoder.word_embeddings.weight
    with torch.no_grad():
        weight.add_(1)
    with rounded.swapped_in():
        assert torch.equal(model.encoder.word_embeddings.weight, weight.bfloat16())
    assert model.encoder.word_embeddings.weight is weight
    with pytest.raises(KeyError), rounded.swapped_in():
        raise KeyError
    assert model.encoder.word_embeddings.weight is weight


def test_frozen_weights_are_rounded_too_and_get_no_gradient(encoders: dict[str, Path]) -> None:
    model = untrained(encoders["bert"], layers=1, dropout=0)
    rounded = Bf16Weights(model)
    with rounded.swapped_in():
        assert {weight.dtype for weight in model.body.parameters()} == {torch.bfloat16}
        backward(model)
    rounded.accumulate_grads()
    learned = {name for name, weight in model.named_parameters() if weight.grad is not None}
    assert learned == {name for name, weight in model.named_parameters() if weight.requires_grad} != set()


def answers(toy: Splits, method: str, encoder: Path, **settings: object) -> tuple[list[str], Classifier]:
    """Train with 16 bits and classify the test documents."""
    config = from_mapping(METHODS[method], small.settings(encoder, precision="bf16", **settings))
    model = train_method(method, toy, config).model
    explained = model.explain([example.document for example in toy.test])
    return [item.prediction.label for item in explained], model.predictor.classifier


def test_networks_learn_with_16_bits(toy: Splits, encoders: dict[str, Path]) -> None:
    found, model = answers(toy, "fresh", encoders["bert"], epochs=6, scorer="integrated_gradients")
    assert {weight.dtype for weight in model.parameters()} == {torch.float32}
    assert macro_f1([example.label for example in toy.test], found, toy.labels) > 0.9


@pytest.mark.filterwarnings("ignore:The gate has collapsed")
def test_gates_compute_with_exact_weights_and_others_with_rounded_ones(
    toy: Splits, encoders: dict[str, Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    rounded: list[type] = []
    real = Bf16Weights.__init__

    def init(self: Bf16Weights, model: nn.Module) -> None:
        rounded.append(type(model))
        real(self, model)

    monkeypatch.setattr(Bf16Weights, "__init__", init)
    for method, expected in (("lei", []), ("bastings", []), ("fresh", [Classifier, Classifier])):
        answers(small.some(toy, 32, 8), method, encoders["bert"], epochs=1)
        assert rounded == expected


@pytest.mark.filterwarnings("ignore:The gate has collapsed")
@pytest.mark.parametrize("layers", [1, "all"])
@pytest.mark.parametrize("long", ["stagger", "chunk"])
@pytest.mark.parametrize(
    ("method", "others"), [("lei", {}), ("bastings", {}), ("fresh", {"distil": True, "crf": True})]
)
def test_all_kinds_of_networks_can_be_trained_with_16_bits(
    method: str, others: dict[str, bool], long: str, layers: int | str, toy: Splits, encoders: dict[str, Path]
) -> None:
    splits = small.some(toy, 32, 8)
    found, _ = answers(splits, method, encoders["bert"], epochs=1, long=long, layers=layers, **others)
    assert set(found) <= set(toy.labels)
