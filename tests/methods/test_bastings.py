import math
from dataclasses import replace
from typing import Any

import pytest
import torch
from torch import Tensor

from fresh.attribution.support_model import text_of
from fresh.data.splits import Splits
from fresh.methods.bastings import MAX_MULTIPLIER, MIN_MULTIPLIER, Bastings, token_factors
from fresh.methods.config import BastingsConfig
from fresh.methods.joint import GateOutputs, cross_entropies, kept_share
from fresh.nn.batch import NO_WORD
from fresh.nn.hardkuma import HardKuma
from fresh.training.distributed import ProcessGroup
from gates import by_hand, gated_by, seen_by_gate
from small import Configure

ALWAYS, NEVER = (100.0, -100.0), (-100.0, 100.0)
"""Outputs of a gate that is sure of a 1, and of a 0."""


def sure(gated: GateOutputs, kept: Tensor) -> GateOutputs:
    """Have the gate be sure of what it keeps."""
    outputs = torch.where(kept.unsqueeze(-1), torch.tensor(ALWAYS), torch.tensor(NEVER))
    return replace(gated, outputs=outputs)


def some_words(gated: GateOutputs) -> Tensor:
    """Choose words at random, none of the second text and all of the third."""
    kept = (torch.rand(gated.is_word.shape, generator=torch.Generator().manual_seed(1)) < 0.5) & gated.is_word
    kept[0, 0], kept[1], kept[2] = True, False, gated.is_word[2]
    return kept


def test_tokens_have_the_numbers_of_their_words(uneven: Splits, configure: Configure) -> None:
    _, gated = seen_by_gate(uneven, configure("bastings"))
    kept = some_words(gated)
    numbers = torch.rand(kept.shape, generator=torch.Generator().manual_seed(2)).clamp(min=0.01) * kept
    batch = gated.reduce(kept)
    found = token_factors(numbers, kept, batch)
    assert found.shape == batch.ids.shape
    for row, owners, own in zip(found, batch.word_of, (row[row > 0] for row in numbers), strict=True):
        wanted = [1.0 if owner == NO_WORD else float(own[owner]) for owner in owners.tolist()]
        assert row.tolist() == wanted
    assert (batch.word_of[0] == 0).sum() == len("strange")
    assert found[1].tolist() == [1.0] * len(found[1])  # special tokens, the query and padding


NO_PRESSURE = {"lagrange_rate": 1e-9, "lagrange_square": 0}


@pytest.mark.parametrize("long", ["stagger", "chunk"])
@pytest.mark.parametrize("layers", [1, "all"])
def test_numbers_of_1_leave_the_text_as_it_is(layers: Any, long: str, uneven: Splits, configure: Configure) -> None:
    config = configure("bastings", layers=layers, long=long, **NO_PRESSURE)
    model, gated = seen_by_gate(uneven, config)
    kept = some_words(gated)
    found = model.loss(sure(gated, kept))
    wrong = cross_entropies(model.reader, gated.reduce(kept), gated.labels)
    beyond = kept.sum(1) / gated.n_words - 0.2
    assert torch.allclose(found, wrong + config.lagrange_start * beyond, atol=1e-6)
    plain = model.reader.collate(model.reader.tokenizer([text_of(item.document) for item in uneven.train]))
    everything = model.loss(sure(gated, gated.is_word))
    assert torch.allclose(everything, cross_entropies(model.reader, plain, gated.labels), atol=1e-4)


@pytest.mark.parametrize("layers", [0, 1, "all"])
def test_gradients_of_the_reader_reach_the_gate(layers: Any, uneven: Splits, configure: Configure) -> None:
    config = configure("bastings", layers=layers, lagrange_start=MIN_MULTIPLIER)
    model, gated = seen_by_gate(uneven, config)
    loss = model.loss(gated).sum()
    [gradient] = torch.autograd.grad(loss, gated.outputs)
    assert gradient[gated.is_word].abs().max() > 1e-6
    assert gradient[~gated.is_word].abs().sum() == 0


def multipliers(model: Bastings, beyond: float, steps: int) -> list[float]:
    """Follow the multiplier while rationales are so much too long."""
    found: list[float] = []
    for _ in range(steps):
        found.append(float(model.multiplier()))
        model.running_mean.add(torch.tensor([beyond]), torch.tensor([True]))
        model.running_mean.finish_step(ProcessGroup())
    return found


@pytest.mark.parametrize(("two_sided", "second"), [(True, 0.01 + 0.5 * 0.4), (False, 0.01 * math.exp(0.5 * 0.4))])
def test_the_multiplier_starts_at_its_setting_and_follows_the_moving_mean(two_sided: bool, second: float) -> None:
    config = BastingsConfig(lagrange_start=0.01, lagrange_rate=0.5, lagrange_decay=0.9, two_sided=two_sided)
    model = by_hand(config)
    assert multipliers(model, 0.4, 2) == pytest.approx([0.01, second])
    multipliers(model, -0.6, 1)
    assert model.moving.tolist() == pytest.approx([0.9 * 0.4 - 0.1 * 0.6, 0.5 * (0.4 + 0.4 + 0.3), 3])


BOUNDS = {True: (-MAX_MULTIPLIER, MAX_MULTIPLIER), False: (MIN_MULTIPLIER, MAX_MULTIPLIER)}


@pytest.mark.parametrize("two_sided", BOUNDS)
@pytest.mark.parametrize("beyond", [-0.2, 0.8])
def test_the_multiplier_stays_within_its_bounds(two_sided: bool, beyond: float) -> None:
    model, (low, high) = by_hand(BastingsConfig(lagrange_rate=20, two_sided=two_sided)), BOUNDS[two_sided]
    edge = high if beyond > 0 else low
    assert multipliers(model, beyond, 200)[-1] == pytest.approx(edge, rel=1e-4)
    back = multipliers(model, -beyond, 40)
    assert low <= min(back) <= max(back) <= high * (1 + 1e-4)
    assert back[-1] != pytest.approx(edge)  # it did not run away meanwhile, and comes back at once


@pytest.mark.parametrize(
    ("two_sided", "costs", "mean"),
    [(True, [0.2 * 0.3 + 2 * 0.1**2, 0.2 * -0.1 + 2 * 0.1**2], 0.1), (False, [0.2 * 0.3, 0.0], 0.15)],
)
def test_length_costs_the_multiplier_and_from_both_sides_a_square(
    two_sided: bool, costs: list[float], mean: float
) -> None:
    model = by_hand(BastingsConfig(lagrange_start=0.2, lagrange_square=4, two_sided=two_sided))
    gated = gated_by(torch.zeros(2, 3, 2), [3, 3], [0, 0])
    assert model.length_cost(gated, torch.tensor([0.3, -0.1])).tolist() == pytest.approx(costs, abs=1e-7)
    model.running_mean.finish_step(ProcessGroup())
    assert float(model.moving[0]) == pytest.approx(mean)  # one-sided, too few words never shrink the multiplier


@pytest.mark.parametrize(("a", "b", "share"), [(5.0, 100.0, 1.0), (1.3, 40.0, 0.2)])
def test_a_gate_keeps_the_words_whose_number_is_not_0(
    a: float, b: float, share: float, uneven: Splits, configure: Configure
) -> None:
    model, _ = seen_by_gate(uneven, configure("bastings"))
    with torch.no_grad():
        model.gate.head.out.weight.zero_()
        model.gate.head.out.bias.copy_(torch.tensor([math.log(math.expm1(shape)) for shape in (a, b)]))
    found = kept_share(model.gate, [example.document for example in uneven.dev])
    assert found == pytest.approx(share, abs=0.01)
    assert found != pytest.approx(float(HardKuma(torch.tensor(a), torch.tensor(b)).mean()), abs=0.1)
