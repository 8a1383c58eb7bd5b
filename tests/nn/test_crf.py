import itertools

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor

from fresh.nn.crf import LinearChainCRF

NUMBERS = st.floats(-4, 4, allow_nan=False, width=32)


def random_chain(seed: int) -> LinearChainCRF:
    chain = LinearChainCRF()
    generator = torch.Generator().manual_seed(seed)
    with torch.no_grad():
        for weight in chain.parameters():
            weight.copy_(torch.randn(weight.shape, generator=generator))
    return chain.double()


def score_by_hand(chain: LinearChainCRF, logits: list[float], tags: tuple[int, ...]) -> float:
    total: float = (chain.begin[tags[0]] + chain.end[tags[-1]]).item()
    total += sum(logit for logit, tag in zip(logits, tags, strict=True) if tag)
    return total + sum(chain.change[left, right].item() for left, right in itertools.pairwise(tags))


def all_ways(chain: LinearChainCRF, logits: list[float]) -> dict[tuple[int, ...], float]:
    ways = itertools.product((0, 1), repeat=len(logits))
    return {tags: score_by_hand(chain, logits, tags) for tags in ways}


def side_by_side(rows: list[list[float]], filling: float = 7.0) -> tuple[Tensor, Tensor]:
    width = max(map(len, rows)) + 1
    filled = [row + [filling] * (width - len(row)) for row in rows]
    return torch.tensor(filled, dtype=torch.float64), torch.tensor([len(row) for row in rows])


@given(st.lists(st.lists(NUMBERS, min_size=1, max_size=6), min_size=1, max_size=3), st.integers(0, 99))
def test_all_is_as_enumeration_has_it(rows: list[list[float]], seed: int) -> None:
    chain = random_chain(seed)
    logits, n_words = side_by_side(rows)
    totals, marginals = chain.log_total(logits, n_words), chain.marginals(logits, n_words)
    for number, row in enumerate(rows):
        ways = all_ways(chain, row)
        total = torch.tensor(list(ways.values()), dtype=torch.float64).logsumexp(0)
        torch.testing.assert_close(totals[number], total)
        for word in range(len(row)):
            kept = torch.tensor([score for tags, score in ways.items() if tags[word]], dtype=torch.float64)
            torch.testing.assert_close(marginals[number, word], (kept.logsumexp(0) - total).exp())
        assert marginals[number, len(row) :].abs().max() == 0


@given(st.lists(NUMBERS, min_size=1, max_size=6), st.integers(0, 99), st.data())
def test_the_likelihood_of_tags_is_as_enumeration_has_it(row: list[float], seed: int, data: st.DataObject) -> None:
    chain = random_chain(seed)
    tags = tuple(data.draw(st.lists(st.integers(0, 1), min_size=len(row), max_size=len(row))))
    ways = all_ways(chain, row)
    total = torch.tensor(list(ways.values()), dtype=torch.float64).logsumexp(0)
    logits, n_words = side_by_side([row])
    given_tags = torch.tensor([[*tags, 1]])
    torch.testing.assert_close(chain.log_likelihood(logits, given_tags, n_words), (ways[tags] - total).reshape(1))


def test_probabilities_of_all_ways_sum_to_one() -> None:
    chain = random_chain(3)
    logits, n_words = side_by_side([[0.5, -1.0, 2.0, 0.1]])
    ways = torch.tensor([[*tags, 0] for tags in itertools.product((0, 1), repeat=4)])
    likely = chain.log_likelihood(logits.expand(16, -1), ways, n_words.expand(16))
    assert likely.exp().sum().item() == pytest.approx(1)


def test_without_ties_between_words_it_is_a_sigmoid_for_each() -> None:
    logits, n_words = side_by_side([[0.5, -1.0, 2.0]])
    marginals = LinearChainCRF().double().marginals(logits, n_words)
    torch.testing.assert_close(marginals[0, :3], logits[0, :3].sigmoid())


def test_long_texts_stay_exact_and_gradients_stay_numbers() -> None:
    chain = random_chain(1)
    logits = torch.randn(2, 3001, dtype=torch.float64, generator=torch.Generator().manual_seed(0), requires_grad=True)
    n_words = torch.tensor([3000, 17])
    total = chain.log_total(logits, n_words)
    reached = chain.begin + torch.stack([torch.zeros(2), logits[:, 0]], -1)
    for word in range(1, 3000):
        moved = (reached.unsqueeze(-1) + chain.change).logsumexp(1)
        moved = moved + torch.stack([torch.zeros(2), logits[:, word]], -1)
        reached = torch.where((word < n_words).unsqueeze(1), moved, reached)
    torch.testing.assert_close(total, (reached + chain.end).logsumexp(-1))
    total.sum().backward()  # type: ignore[no-untyped-call]
    assert logits.grad is not None
    assert logits.grad.isfinite().all()
    assert all(weight.grad is not None and weight.grad.isfinite().all() for weight in chain.parameters())
