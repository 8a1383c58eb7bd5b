import itertools
import re
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor
from torch.nn import functional

import fresh.methods.joint
import small
from fresh.data.splits import Splits
from fresh.document import Document, Example, Mask
from fresh.errors import DataError
from fresh.methods import lei
from fresh.methods.gate_config import BastingsConfig, LeiConfig
from fresh.methods.joint import GateOutputs, JointModel, _collapse, changes, finished
from fresh.methods.lei import _expected, _regulariser, draw
from fresh.nn.batch import NO_WORD
from fresh.nn.tokenizer import Text
from fresh.pipeline import train
from fresh.progress import SILENT
from fresh.selection.discretizers import TopK, budget
from fresh.selection.extractors import SaliencyExtractor
from fresh.selection.tagger import Tagger
from fresh.training.distributed import ProcessGroup
from fresh.training.loop import RunContext
from gates import account_of, answering, by_hand, configured, gated_by, loss_of, seen_by_gate, untrained

WORDS = st.lists(st.lists(st.booleans(), min_size=1, max_size=6), min_size=1, max_size=4)


@pytest.fixture(scope="module")
def few(toy: Splits) -> Splits:
    """Eight documents with a rationale and eight without."""
    return Splits((*toy.train[:8], *toy.train[-8:]), toy.dev[:8], toy.test[:8])


# What a draw costs


def test_words_beyond_the_ratio_and_breaks_cost_what_the_paper_says() -> None:
    kept = torch.tensor([[1.0, 0, 1, 1], [1, 0, 0, 0], [0, 0, 1, 0], [1, 1, 1, 1]])
    found = _regulariser(kept, torch.tensor([4, 1, 3, 4]), LeiConfig(ratio=0.5, lambda_1=2, lambda_2=3))
    # Beyond the ratio: 1/4, 1/2, none, 1/2. Breaks: 2 of 3, none of a word alone, 1 of 2 but none at padding, none.
    assert found.tolist() == pytest.approx([0.5 + 2, 1 + 0, 0 + 1.5, 1 + 0])


@given(WORDS, st.sampled_from((0.1, 0.5, 0.9)))
def test_each_document_costs_what_it_costs_alone(rows: list[list[bool]], ratio: float) -> None:
    kept = torch.zeros(len(rows), max(map(len, rows)) + 2)
    for number, row in enumerate(rows):
        kept[number, : len(row)] = torch.tensor(row)
    config = LeiConfig(ratio=ratio, lambda_1=0.7, lambda_2=0.3)
    found = _regulariser(kept, torch.tensor([len(row) for row in rows]), config)
    for cost, row in zip(found.tolist(), rows, strict=True):
        beyond = max(0.0, sum(row) / len(row) - ratio)
        breaks = sum(one != other for one, other in itertools.pairwise(row)) / max(1, len(row) - 1)
        assert cost == pytest.approx(0.7 * beyond + 0.3 * breaks, abs=1e-6)


def test_changes_are_as_large_as_the_differences() -> None:
    found = changes(torch.tensor([[0.25, 1.0, 0.5], [0.5, 1.0, 1.0]]), torch.tensor([3, 1]))
    assert found.tolist() == [(0.75 + 0.5) / 2, 0]


def settled(model: JointModel, cost: float) -> None:
    """End a step whose draws cost so much."""
    model.tally.add(torch.tensor([cost]), torch.tensor([True]))
    model.tally.settle(ProcessGroup())


def test_a_draw_is_compared_with_what_draws_have_cost_of_late() -> None:
    model = by_hand(account_of(PAYING))
    assert _expected(model, torch.tensor(2.0)) == 2
    settled(model, 2)
    assert _expected(model, torch.tensor(5.0)) == 2
    settled(model, 5)
    assert model.moving.tolist() == pytest.approx([0.9 * 2 + 0.1 * 5, 2])
    assert _expected(model, torch.tensor(0.0)) == pytest.approx(2.3)


# REINFORCE

LOGITS = torch.tensor([0.3, -0.8, 1.1])
TABLE = torch.tensor([[0.0, 0], [1, -1], [-1, 2], [0, 1], [2, 0], [1, 1], [-2, 1], [3, 0]])
PAYING = LeiConfig(ratio=0.4, lambda_1=1.5, lambda_2=0.8)


def exact_gradient() -> Tensor:
    """Differentiate the expected cost of three words, draw by draw."""
    logits = LOGITS.clone().requires_grad_()
    kept = torch.tensor(list(itertools.product((0.0, 1.0), repeat=3)))
    likely = torch.distributions.Bernoulli(logits=logits).log_prob(kept).sum(1).exp()  # type: ignore[no-untyped-call]
    wrong = functional.cross_entropy(TABLE, torch.ones(8, dtype=torch.int64), reduction="none")
    costs = wrong + _regulariser(kept, torch.full((8,), 3), PAYING)
    [gradient] = torch.autograd.grad((likely * costs).sum(), logits)
    return gradient


def drawn_gradients(model: JointModel, n: int, config: LeiConfig) -> Tensor:
    """Differentiate the loss of many draws from three words and some padding. Shape: (n, words)."""
    padded = torch.cat([LOGITS, torch.tensor([0.7, -0.2])])
    outputs = padded.repeat(n, 1).unsqueeze(-1).requires_grad_()
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        losses = draw(model, gated_by(outputs, [3] * n, [1] * n), config)
    [gradient] = torch.autograd.grad(losses.sum(), outputs)
    assert gradient[:, 3:].abs().sum() == 0
    return gradient[:, :3, 0]


@pytest.mark.parametrize("compared", [True, False])
def test_the_gradient_of_draws_is_on_average_that_of_the_expected_cost(compared: bool) -> None:
    model, n = by_hand(account_of(PAYING), answering(TABLE)), 100_000
    config = replace(PAYING, reward_baseline=compared)
    drawn_gradients(model, 64, config)  # something to compare with
    model.tally.settle(ProcessGroup())
    found = drawn_gradients(model, n, config)
    error = found.std(0) / n**0.5
    assert ((found.mean(0) - exact_gradient()).abs() < 4 * error).all()
    assert (error < 0.01).all()


def test_comparing_makes_gradients_steadier() -> None:
    spread = {}
    for compared in (True, False):
        model, config = by_hand(account_of(PAYING), answering(TABLE)), replace(PAYING, reward_baseline=compared)
        drawn_gradients(model, 64, config)
        model.tally.settle(ProcessGroup())
        spread[compared] = drawn_gradients(model, 10_000, config).std(0)
    assert (spread[True] < spread[False]).all()


def test_the_reader_learns_from_its_errors_alone() -> None:
    table = TABLE.clone().requires_grad_()
    outputs = torch.full((1, 3, 1), 50.0)  # keeps all three
    loss = draw(by_hand(account_of(PAYING), answering(table)), gated_by(outputs, [3], [1]), PAYING)
    [found] = torch.autograd.grad(loss.sum(), table)
    assert found[:7].abs().sum() == 0
    assert torch.allclose(found[7], TABLE[7].softmax(0) - torch.tensor([0.0, 1.0]))


# What is left of a text


@pytest.mark.parametrize("long", ["stagger", "chunk"])
@pytest.mark.parametrize("asks", [True, False])
def test_what_is_left_is_what_cutting_leaves(
    asks: bool, long: str, toy: Splits, toy_pairs: Splits, encoders: dict[str, Path]
) -> None:
    splits = small.some(toy_pairs if asks else toy, 12, 4)
    longest = Example(Document.from_words(["strange", "words"] * 30, ("praise",) if asks else ()), "pos")
    splits = replace(splits, train=(longest, *splits.train))
    model, gated = seen_by_gate(splits, configured(LeiConfig, encoders["bert"], long=long), "words")
    kept = (torch.rand(gated.there.shape, generator=torch.Generator().manual_seed(1)) < 0.4) & gated.there
    kept[1], kept[2] = False, gated.there[2]
    found = gated.reduce(kept)
    rows = [row[: len(item.document.words)].numpy() for row, item in zip(kept, splits.train, strict=True)]
    cut = [item.document.cut(Mask(row)) for row, item in zip(rows, splits.train, strict=True)]
    wanted = model.reader.collate(model.reader.tokenizer([Text(item.words, item.query, item.id) for item in cut]))
    there, width = wanted.mask.bool(), wanted.mask.shape[1]
    for name in ("ids", "types", "positions", "word_of"):
        assert torch.equal(getattr(found, name)[:, :width][there], getattr(wanted, name)[there])
    for name in ("ids", "mask", "word_of"):
        assert torch.equal(getattr(found, name)[:, :width], getattr(wanted, name))
    assert not found.mask[:, width:].any()
    assert (found.word_of[:, width:] == NO_WORD).all()


def test_texts_below_0_count_for_nothing(few: Splits, encoders: dict[str, Path]) -> None:
    def cost(_model: JointModel, gated: GateOutputs) -> Tensor:
        return torch.full((len(gated.numbers),), 2.0)

    loss = loss_of(few, configured(LeiConfig, encoders["bert"]), "words", cost)
    assert loss(torch.tensor([0, -1, 3]), 16, False) == 4


def test_means_are_over_the_texts_that_count() -> None:
    gated = replace(gated_by(torch.zeros(3, 2, 1), [2, 2, 2], [0, 0, 0]), numbers=torch.tensor([4, -1, 0]))
    assert gated.mean(torch.tensor([1.0, float("nan"), 3.0])) == 2


# People's rationales


def supervised(few: Splits, encoder: Path, **others: Any) -> list[float]:
    """Compute what each training document adds to the loss when drawing costs nothing."""

    def cost(_model: JointModel, gated: GateOutputs) -> Tensor:
        return torch.zeros(len(gated.numbers))

    loss = loss_of(few, configured(LeiConfig, encoder, **others), "words", cost)
    return [float(loss(torch.tensor([number]), 16, False).detach()) for number in range(len(few.train))]


def test_people_are_learnt_from_where_they_marked_words(few: Splits, encoders: dict[str, Path]) -> None:
    assert supervised(few, encoders["bert"]) == [0] * 16
    found = supervised(few, encoders["bert"], human=1)
    assert [value > 0 for value in found] == [True] * 8 + [False] * 8
    half = supervised(few, encoders["bert"], human=0.5)
    assert sum(value > 0 for value in half) == 4
    quarter = supervised(few, encoders["bert"], human=0.25)
    assert {number for number in range(16) if quarter[number]} < {number for number in range(16) if half[number]}


def test_the_loss_against_people_weighs_what_they_marked(few: Splits, encoders: dict[str, Path]) -> None:
    config = configured(LeiConfig, encoders["bert"], human=1)
    model, _ = untrained(few, config, "words")
    marked = [(item.document, item.human) for item in few.train if item.human is not None]
    n_words = sum(len(document.words) for document, _ in marked)
    weight = (n_words - 8) / 8  # one word is marked in each of the eight
    scores = Tagger(model.gate).score([document for document, _ in marked])
    found = supervised(few, encoders["bert"], human=1)
    for value, saliency, (_, mask) in zip(found, scores, marked, strict=False):
        losses = np.where(mask.kept, -weight * np.log(saliency.scores), -np.log(1 - saliency.scores))
        assert value == pytest.approx(losses.mean(), rel=1e-4)


def test_a_gate_of_numbers_learns_from_people_too(few: Splits, encoders: dict[str, Path]) -> None:
    config = configured(BastingsConfig, encoders["bert"], human=1)
    loss = loss_of(few, config, "hardkuma", lambda _, gated: torch.zeros(len(gated.numbers)))
    assert float(loss(torch.tensor([0]), 16, False).detach()) > 0
    assert float(loss(torch.tensor([15]), 16, False).detach()) == 0


def test_nobody_can_be_learnt_from_where_nobody_marked(few: Splits, encoders: dict[str, Path]) -> None:
    silent = replace(few, train=few.train[8:])
    with pytest.raises(DataError, match=r"^human=0\.5 asks for people's rationales, but no training"):
        lei.train(silent, configured(LeiConfig, encoders["bert"], human=0.5))


# Collapse

NOTHING = (
    "The gate has collapsed: before the cut it keeps next to nothing (0.0% of the words of dev), so the cut decides "
    "which words are read. Try another seed, or other settings (fresh search)."
)
EVERYTHING = NOTHING.replace("next to nothing (0.0%", "nearly everything (100.0%")


@pytest.mark.parametrize(
    ("share", "ratio", "told"),
    [
        (0.0, 0.2, NOTHING),
        (1.0, 0.2, EVERYTHING),
        (0.021, 0.2, None),
        (0.94, 0.2, None),
        (0.98, 1.0, None),
        (1.0, 1.0, None),
    ],
)
def test_a_gate_that_says_nothing_is_found_out(share: float, ratio: float, told: str | None) -> None:
    assert _collapse(share, ratio) == told


@pytest.mark.parametrize(("bias", "told"), [(-20, NOTHING), (20, EVERYTHING)])
def test_a_collapsed_gate_is_told_and_still_cut(bias: float, told: str, few: Splits, encoders: dict[str, Path]) -> None:
    config = configured(LeiConfig, encoders["bert"])
    model, _ = untrained(few, config, "words")
    with torch.no_grad():
        model.gate.head.out.weight.zero_()
        model.gate.head.out.bias.fill_(bias)
    context = RunContext("lei")
    with pytest.warns(RuntimeWarning, match=f"^{re.escape(told)}$"):
        trained = finished(few, model, SaliencyExtractor(Tagger(model.gate), TopK(0.2)), config, context)
    assert context.notes == [told]
    assert trained.kept_by_gate == pytest.approx(float(bias > 0), abs=1e-6)
    assert [int(mask.kept.sum()) for mask in trained.masks] == [budget(len(mask), 0.2) for mask in trained.masks]


def test_a_collapsed_gate_stands_in_the_report(
    toy: Splits, encoders: dict[str, Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(fresh.methods.joint, "NOTHING", 10)
    settings = small.run_settings(encoders["bert"], epochs=1, method="lei", baseline=False)
    with pytest.warns(RuntimeWarning, match=r"^The gate has collapsed: before the cut it keeps next to nothing"):
        model = train(small.some(toy, 16, 8), progress=SILENT, **settings)
    *_, note = small.reported(model.report).notes
    assert note.startswith("The gate has collapsed: ")
