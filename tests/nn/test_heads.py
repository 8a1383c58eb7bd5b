import itertools
import os
import subprocess
import sys
from collections.abc import Callable, Sequence
from typing import Any

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor, nn

from fresh.nn.batch import NO_WORD
from fresh.nn.heads import (
    RECURRENT_WIDTH,
    AttentiveHead,
    FastDropout,
    LinearChainCRF,
    TokenHead,
    _pool_words,
    _Recurrent,
    use_fast_dropout,
)
from networks import both_ways

WIDE = 5
TEXTS = ([NO_WORD, 0, 0, 1, NO_WORD, NO_WORD, 1, 2, NO_WORD], [NO_WORD, 0, NO_WORD], [NO_WORD, NO_WORD])
"""Texts by the word of each token: in two windows, of which the second word has its share in both; short; empty."""
N_WORDS = (3, 1, 0)


def side_by_side(texts: Sequence[Sequence[int]], width: int = 0) -> Tensor:
    """The word of each token of padded texts. Shape: (texts, tokens)."""
    width = max(width, *map(len, texts))
    return torch.tensor([[*text, *[NO_WORD] * (width - len(text))] for text in texts])


def numbers(*shape: int, seed: int = 0) -> Tensor:
    return torch.randn(shape, generator=torch.Generator().manual_seed(seed))


def made(kind: Callable[..., Any], *given: object) -> Any:
    """A network of some kind, the same each time."""
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(4)
        return kind(*given).eval()


def weighing() -> AttentiveHead:
    head: AttentiveHead = made(AttentiveHead, WIDE, 3, 0.5)
    nn.init.constant_(head.importance.weight, 0.5)  # so that words weigh unlike
    return head


# Pieces to words


@st.composite
def owners(draw: st.DrawFn) -> list[int]:
    """The word of each token of a text; tokens of no word stand anywhere, also inside a word."""
    sizes = draw(st.lists(st.integers(1, 3), max_size=5))
    found = [word for word, size in enumerate(sizes) for _ in range(size)]
    for place in draw(st.lists(st.integers(0, len(found)), min_size=1, max_size=4)):
        found.insert(place, NO_WORD)
    return found


@given(st.lists(owners(), min_size=1, max_size=4), st.integers(0, 9), st.sampled_from((-4.0, 0.0, 4.0)))
def test_a_word_has_the_largest_values_of_its_tokens(texts: list[list[int]], seed: int, shift: float) -> None:
    word_of = side_by_side(texts)
    hidden = numbers(*word_of.shape, WIDE, seed=seed) + shift
    words, n_words = _pool_words(hidden, word_of)
    assert words.shape == hidden.shape
    assert n_words.tolist() == [len(set(text) - {NO_WORD}) for text in texts]
    for row, text in enumerate(texts):
        for word in range(int(n_words[row])):
            vectors = [hidden[row, place].tolist() for place, owner in enumerate(text) if owner == word]
            assert words[row, word].tolist() == [max(values) for values in zip(*vectors, strict=True)]
        assert not words[row, n_words[row] :].any()


@given(st.lists(owners(), min_size=1, max_size=4), st.integers(0, 9))
def test_of_tokens_that_are_equally_large_the_first_learns(texts: list[list[int]], seed: int) -> None:
    word_of = side_by_side(texts)
    hidden = numbers(*word_of.shape, WIDE, seed=seed).double().round().requires_grad_()  # many are equal
    weights = numbers(*hidden.shape, seed=seed + 1).double()
    words, _ = _pool_words(hidden, word_of)
    expected = torch.zeros_like(hidden)
    for row, text in enumerate(texts):
        for word, column in itertools.product(set(text) - {NO_WORD}, range(WIDE)):
            places = [place for place, owner in enumerate(text) if owner == word]
            best = max(places, key=lambda place: hidden[row, place, column].item())
            expected[row, best, column] = weights[row, word, column]
    (found,) = torch.autograd.grad((words * weights).sum(), hidden)
    assert torch.equal(found, expected)


# Words in order


@pytest.mark.parametrize("sizes", [(7,), (1, 4, 7), (5, 0, 5)])
def test_a_recurrent_layer_does_as_torch_does_with_each_text_alone(sizes: tuple[int, ...]) -> None:
    layer, words = made(_Recurrent, WIDE), numbers(len(sizes), 9, WIDE)
    lstm = both_ways(layer)
    with torch.no_grad():
        found = layer(words, torch.tensor(sizes))
        assert found.shape == (len(sizes), 9, 2 * RECURRENT_WIDTH)
        for row, size in enumerate(sizes):
            if size:
                torch.testing.assert_close(found[row, :size], lstm(words[row : row + 1, :size])[0][0])


def test_a_recurrent_layer_stays_as_in_training_since_a_gpu_has_no_gradients_otherwise() -> None:
    for head in (weighing(), made(TokenHead, WIDE, 1, 0.5, True)):
        head.train().eval()
        modes = {name: part.training for name, part in head.named_modules()}
        in_training = {name for name, mode in modes.items() if mode}
        assert in_training == {"recurrent", "recurrent.forwards", "recurrent.backwards"}


# Words that are weighed


def test_a_recurrent_layer_reads_with_16_bits_on_a_processor_without_avx_512() -> None:
    code = (
        "import torch; from fresh.nn.heads import _Recurrent\n"
        "layer, words = _Recurrent(5), torch.ones(2, 3, 5)\n"
        "with torch.autocast('cpu', torch.bfloat16): layer(words, torch.tensor([3, 1])).sum().backward()\n"
        "assert all(weight.grad.any() for weight in layer.parameters())"
    )
    subprocess.run([sys.executable, "-c", code], env={**os.environ, "ONEDNN_MAX_CPU_ISA": "AVX2"}, check=True)


@torch.no_grad()
def test_the_weighing_head_by_hand() -> None:
    head, word_of = weighing(), side_by_side(TEXTS, width=15)
    hidden = numbers(3, 15, WIDE)
    logits, weights = head(hidden, word_of)
    words, _ = _pool_words(hidden, word_of)
    for row, n_words in enumerate(N_WORDS):
        expected, summed = torch.zeros(15), torch.zeros(2 * RECURRENT_WIDTH)
        if n_words:
            read = both_ways(head.recurrent)(words[row : row + 1, :n_words])[0][0]  # (words, 2 * RECURRENT_WIDTH)
            expected[:n_words] = (torch.tanh(head.key(read)) @ head.importance.weight[0]).softmax(-1)
            summed = expected[:n_words] @ read
        torch.testing.assert_close(weights[row], expected)
        torch.testing.assert_close(logits[row], head.out(head.middle(summed).clamp(min=0)))
        assert not weights[row, n_words:].any()
    assert weights[0, :3].std() > 0.001


def test_weights_are_as_exact_as_the_network() -> None:
    hidden, word_of = numbers(3, 9, WIDE), side_by_side(TEXTS)
    with torch.no_grad():
        _, exact = weighing().double()(hidden.double(), word_of)
        _, half = weighing().bfloat16()(hidden.bfloat16(), word_of)
    assert exact.dtype == torch.float64
    assert half.dtype == torch.float32


# Words that are tagged


@torch.no_grad()
def test_words_that_are_nearly_alike_are_told_apart_with_16_bits() -> None:
    head = made(TokenHead, WIDE, 1, 0.5, False)
    word_of = side_by_side([[NO_WORD, *range(20), NO_WORD]])
    hidden = numbers(1, 1, WIDE) + 1e-3 * numbers(1, 22, WIDE, seed=1)
    exact, _ = head(hidden, word_of)
    with torch.autocast("cpu", torch.bfloat16):
        found, _ = head(hidden, word_of)
    torch.testing.assert_close(found, exact, rtol=0, atol=0)
    assert len(set(found[0, :20, 0].tolist())) == 20


@torch.no_grad()
def test_words_are_weighed_with_more_digits_than_16_bits_have() -> None:
    """Rounded to 16 bits, a weight before the softmax is rounded by up to a 256th of it."""
    head, word_of = weighing(), side_by_side([[NO_WORD, *range(20), NO_WORD]])
    seen: list[Tensor] = []
    head.key.register_forward_hook(lambda _module, _inputs, output: seen.append(output))
    with torch.autocast("cpu", torch.bfloat16):
        _, weights = head(numbers(1, 22, WIDE), word_of)
    scores = torch.tanh(seen[0]).float() @ head.importance.weight[0]
    torch.testing.assert_close(weights[:, :20], scores[:, :20].softmax(-1), rtol=1e-5, atol=0)


@torch.no_grad()
@pytest.mark.parametrize("reads", [False, True])
def test_each_word_is_tagged_by_what_it_is(reads: bool) -> None:
    head, word_of = made(TokenHead, WIDE, 2, 0.5, reads), side_by_side(TEXTS)
    hidden = numbers(3, 9, WIDE)
    found, n_words = head(hidden, word_of)
    assert found.shape == (3, 9, 2)
    assert n_words.tolist() == list(N_WORDS)
    words, _ = _pool_words(hidden, word_of)
    for row, size in enumerate(N_WORDS[:2]):
        own = words[row : row + 1, :size]
        vectors = both_ways(head.recurrent)(own)[0][0] if head.recurrent else own[0]
        torch.testing.assert_close(found[row, :size], vectors @ head.out.weight.T + head.out.bias)


# Dropout


@pytest.mark.parametrize("p", [0.1, 0.2, 0.5, 0.9])
def test_dropout_drops_its_share_independently_and_keeps_the_mean(p: float) -> None:
    torch.manual_seed(0)
    found = FastDropout(p).train()(torch.ones(1001, 1003))
    assert float((found == 0).float().mean()) == pytest.approx(p, abs=0.002)
    assert float(found.mean()) == pytest.approx(1, abs=0.01)
    assert found.unique().tolist() == pytest.approx([0, 1 / (1 - p)], rel=1e-4)
    kept = (found > 0).float().flatten() - (1 - p)
    for apart in (1, 2, 3, 4, 8):
        assert abs(float((kept[apart:] * kept[:-apart]).mean())) < 0.002


def test_dropout_follows_the_seed_and_passes_gradients_where_it_passes_values() -> None:
    values = torch.randn(100, requires_grad=True)
    found = []
    for seed in (1, 1, 2):
        torch.manual_seed(seed)
        found.append(FastDropout(0.3).train()(values))
    assert [torch.equal(found[0], other) for other in found[1:]] == [True, False]
    [gradient] = torch.autograd.grad(found[0].sum(), values)
    torch.testing.assert_close(gradient * values, found[0])


@pytest.mark.parametrize(("p", "training", "kept"), [(0.0, True, 1), (0.5, False, 1), (1.0, True, 0)])
def test_dropout_at_its_edges(p: float, training: bool, kept: int) -> None:
    values = torch.randn(20)
    assert torch.equal(FastDropout(p).train(training)(values), values * kept)


def test_all_dropout_of_a_network_is_replaced_and_nothing_else() -> None:
    network = nn.Sequential(nn.Linear(2, 2), nn.Dropout(0.3), nn.Sequential(nn.Dropout(0.1), nn.Dropout1d(0.2)))
    use_fast_dropout(network)
    parts = [network[0], network[1], *network[2].children()]
    assert [type(part) for part in parts] == [nn.Linear, FastDropout, FastDropout, nn.Dropout1d]
    assert [part.p for part in parts[1:3]] == [0.3, 0.1]


# Linear chains


SCORES = st.floats(-4, 4, allow_nan=False, width=32)


def random_chain(seed: int) -> LinearChainCRF:
    chain = LinearChainCRF()
    generator = torch.Generator().manual_seed(seed)
    with torch.no_grad():
        for weight in chain.parameters():
            weight.copy_(torch.randn(weight.shape, generator=generator))
    return chain.double()


def all_ways(chain: LinearChainCRF, logits: list[float]) -> dict[tuple[int, ...], float]:
    """Score each way to tag the words of a text."""
    found: dict[tuple[int, ...], float] = {}
    for tags in itertools.product((0, 1), repeat=len(logits)):
        own = sum(logit for logit, tag in zip(logits, tags, strict=True) if tag)
        changes = sum(chain.change[left, right].item() for left, right in itertools.pairwise(tags))
        found[tags] = (chain.begin[tags[0]] + chain.end[tags[-1]]).item() + own + changes
    return found


@given(st.lists(st.lists(SCORES, min_size=1, max_size=6), min_size=1, max_size=3), st.integers(0, 99), st.data())
def test_all_is_as_enumeration_has_it(rows: list[list[float]], seed: int, data: st.DataObject) -> None:
    chain = random_chain(seed)
    width = max(map(len, rows)) + 1
    logits = torch.tensor([row + [7.0] * (width - len(row)) for row in rows], dtype=torch.float64)
    n_words = torch.tensor([len(row) for row in rows])
    tags = data.draw(st.lists(st.lists(st.integers(0, 1), min_size=width, max_size=width), min_size=3, max_size=3))
    totals, marginals = chain.log_total(logits, n_words), chain.marginals(logits, n_words)
    likelihoods = chain.log_likelihood(logits, torch.tensor(tags[: len(rows)]), n_words)
    for number, row in enumerate(rows):
        ways = all_ways(chain, row)
        total = torch.tensor(list(ways.values()), dtype=torch.float64).logsumexp(0)
        torch.testing.assert_close(totals[number], total)
        torch.testing.assert_close(likelihoods[number], ways[tuple(tags[number][: len(row)])] - total)
        for word in range(len(row)):
            kept = torch.tensor([score for tags, score in ways.items() if tags[word]], dtype=torch.float64)
            torch.testing.assert_close(marginals[number, word], (kept.logsumexp(0) - total).exp())
        assert marginals[number, len(row) :].abs().max() == 0


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
