"""Lei et al.: the cost of a sample, and its gradient."""

import itertools
from dataclasses import replace

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor
from torch.nn import functional

from fresh.methods.config import LeiConfig
from fresh.methods.lei import Lei, regularizer
from fresh.training.distributed import ProcessGroup
from gates import answering, by_hand, gated_by

WORDS = st.lists(st.lists(st.booleans(), min_size=1, max_size=6), min_size=1, max_size=4)


@given(WORDS, st.sampled_from((0.1, 0.5, 0.9)))
def test_each_document_costs_what_it_costs_alone(rows: list[list[bool]], ratio: float) -> None:
    kept = torch.zeros(len(rows), max(map(len, rows)) + 2)
    for number, row in enumerate(rows):
        kept[number, : len(row)] = torch.tensor(row)
    config = LeiConfig(ratio=ratio, lambda_1=0.7, lambda_2=0.3)
    found = regularizer(kept, torch.tensor([len(row) for row in rows]), config)
    for cost, row in zip(found.tolist(), rows, strict=True):
        beyond = max(0.0, sum(row) / len(row) - ratio)
        breaks = sum(one != other for one, other in itertools.pairwise(row)) / max(1, len(row) - 1)
        assert cost == pytest.approx(0.7 * beyond + 0.3 * breaks, abs=1e-6)


def finish_step(model: Lei, cost: float) -> None:
    """End a step whose samples have this cost."""
    model.running_mean.add(torch.tensor([cost]), torch.tensor([True]))
    model.running_mean.finish_step(ProcessGroup())


def test_the_baseline_is_the_moving_average_of_costs() -> None:
    model = by_hand(PAYING)
    assert model.baseline(torch.tensor(2.0)) == 2
    finish_step(model, 2)
    assert model.baseline(torch.tensor(5.0)) == 2
    finish_step(model, 5)
    assert model.moving.tolist() == pytest.approx([0.9 * 2 + 0.1 * 5, 2])
    assert model.baseline(torch.tensor(0.0)) == pytest.approx(2.3)


# REINFORCE

LOGITS = torch.tensor([0.3, -0.8, 1.1])
TABLE = torch.tensor([[0.0, 0], [1, -1], [-1, 2], [0, 1], [2, 0], [1, 1], [-2, 1], [3, 0]])
PAYING = LeiConfig(ratio=0.4, lambda_1=1.5, lambda_2=0.8)


def exact_gradient() -> Tensor:
    """Differentiate the expected cost of three words, sample by sample."""
    logits = LOGITS.clone().requires_grad_()
    kept = torch.tensor(list(itertools.product((0.0, 1.0), repeat=3)))
    likely = torch.distributions.Bernoulli(logits=logits).log_prob(kept).sum(1).exp()  # type: ignore[no-untyped-call]
    wrong = functional.cross_entropy(TABLE, torch.ones(8, dtype=torch.int64), reduction="none")
    costs = wrong + regularizer(kept, torch.full((8,), 3), PAYING)
    [gradient] = torch.autograd.grad((likely * costs).sum(), logits)
    return gradient


def sampled_gradients(model: Lei, n: int) -> Tensor:
    """Differentiate the loss of many samples from three words and some padding. Shape: (n, words)."""
    padded = torch.cat([LOGITS, torch.tensor([0.7, -0.2])])
    outputs = padded.repeat(n, 1).unsqueeze(-1).requires_grad_()
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        losses = model.loss(gated_by(outputs, [3] * n, [1] * n))
    [gradient] = torch.autograd.grad(losses.sum(), outputs)
    assert gradient[:, 3:].abs().sum() == 0
    return gradient[:, :3, 0]


def test_gradients_of_samples_are_unbiased_and_a_baseline_reduces_their_variance() -> None:
    n, errors = 100_000, dict[bool, Tensor]()
    for compared in (True, False):
        model = by_hand(replace(PAYING, reward_baseline=compared), answering(TABLE))
        sampled_gradients(model, 64)  # something to compare with
        model.running_mean.finish_step(ProcessGroup())
        found = sampled_gradients(model, n)
        errors[compared] = found.std(0) / n**0.5
        assert ((found.mean(0) - exact_gradient()).abs() < 4 * errors[compared]).all()
    assert (errors[False] < 0.01).all()
    assert (errors[True] < errors[False]).all()


def test_the_reader_learns_from_its_own_errors_only() -> None:
    table = TABLE.clone().requires_grad_()
    outputs = torch.full((1, 3, 1), 50.0)  # keeps all three
    loss = by_hand(PAYING, answering(table)).loss(gated_by(outputs, [3], [1]))
    [found] = torch.autograd.grad(loss.sum(), table)
    assert found[:7].abs().sum() == 0
    assert torch.allclose(found[7], TABLE[7].softmax(0) - torch.tensor([0.0, 1.0]))
