import pytest
import torch
from torch import nn

from fresh.nn.fast_layers import (
    FEW,
    QuickDropout,
    QuickLinear,
    _QuickEmbedding,
    _rows_by_product,
    _with_bias,
    swap_fast_layers,
)


@pytest.mark.parametrize("p", [0.1, 0.2, 0.5, 0.9])
def test_as_many_are_dropped_as_asked_for_and_the_mean_stays(p: float) -> None:
    torch.manual_seed(0)
    found = QuickDropout(p).train()(torch.ones(1001, 1003))
    assert float((found == 0).float().mean()) == pytest.approx(p, abs=0.002)
    assert float(found.mean()) == pytest.approx(1, abs=0.01)
    assert found.unique().tolist() == pytest.approx([0, 1 / (1 - p)], rel=1e-4)


def test_neighbours_are_dropped_independently() -> None:
    torch.manual_seed(0)
    kept = (QuickDropout(0.5).train()(torch.ones(400_000)) > 0).float() - 0.5
    for apart in (1, 2, 3, 4, 8):
        assert abs(float((kept[apart:] * kept[:-apart]).mean())) < 0.002


def test_a_seed_gives_the_same_again_and_another_seed_does_not() -> None:
    dropout, values = QuickDropout(0.3).train(), torch.ones(100)

    def drawn(seed: int) -> list[float]:
        torch.manual_seed(seed)
        found: list[float] = dropout(values).tolist()
        return found

    assert drawn(1) == drawn(1)
    assert drawn(1) != drawn(2)


def test_gradients_pass_where_values_do() -> None:
    values = torch.randn(50, requires_grad=True)
    found = QuickDropout(0.4).train()(values)
    found.sum().backward()
    assert values.grad is not None
    torch.testing.assert_close(values.grad * values.detach(), found.detach())


@pytest.mark.parametrize(("p", "training"), [(0.0, True), (0.5, False)])
def test_where_nothing_is_dropped_nothing_changes(p: float, training: bool) -> None:
    values = torch.randn(20)
    assert torch.equal(QuickDropout(p).train(training)(values), values)


def test_certain_dropout_leaves_nothing() -> None:
    assert not QuickDropout(1.0).train()(torch.ones(20)).any()


def test_all_dropout_of_a_network_is_quickened_and_nothing_else() -> None:
    network = nn.Sequential(nn.Linear(2, 2), nn.Dropout(0.3), nn.Sequential(nn.Dropout(0.1), nn.Dropout1d(0.2)))
    swap_fast_layers(network)
    inner = network[2]
    assert isinstance(inner, nn.Sequential)
    kinds = [type(part) for part in (network[0], network[1], inner[0], inner[1])]
    assert kinds == [QuickLinear, QuickDropout, QuickDropout, nn.Dropout1d]
    assert [network[1].p, inner[0].p] == [0.3, 0.1]


@pytest.mark.parametrize("precise", [torch.float32, torch.bfloat16])
def test_rows_of_a_table_by_a_product_are_the_same_and_learn_the_same(precise: torch.dtype) -> None:
    torch.manual_seed(0)
    table, numbers = torch.randn(3, 5).to(precise).requires_grad_(), torch.tensor([[0, 2, 2], [1, 0, 2]])
    weights = torch.randn(2, 3, 5).to(precise)
    with torch.autocast("cpu", torch.bfloat16):  # which must not round what a table holds
        found = _rows_by_product(numbers, table)
    expected = nn.functional.embedding(numbers, table)
    assert torch.equal(found, expected)
    assert found.dtype == precise
    ours, theirs = (torch.autograd.grad((rows * weights).sum(), table)[0] for rows in (found, expected))
    assert torch.allclose(ours, theirs, atol=1e-6 if precise is torch.float32 else 0.05)


@pytest.mark.parametrize("shape", [(3,), (4, 3), (2, 5, 3)])
@pytest.mark.parametrize("coarse", [False, True])
def test_a_bias_that_learns_by_a_product_learns_the_same(shape: tuple[int, ...], coarse: bool) -> None:
    torch.manual_seed(0)
    layer, values = nn.Linear(3, 7), torch.randn(shape, requires_grad=True)
    learning = (values, layer.weight, layer.bias)
    with torch.autocast("cpu", torch.bfloat16, enabled=coarse):
        found, expected = _with_bias(*learning), layer(values)
    assert torch.equal(found, expected)
    weights = torch.randn(expected.shape)
    ours, theirs = (torch.autograd.grad((out.float() * weights).sum(), learning) for out in (found, expected))
    near = 0.05 if coarse else 1e-5
    for one, other in zip(ours, theirs, strict=True):
        torch.testing.assert_close(one, other, rtol=near, atol=near)


def test_what_a_linear_layer_puts_out_may_be_changed_in_place() -> None:
    """As DeBERTa and Longformer do with their queries."""
    torch.manual_seed(0)
    layer, values = nn.Linear(3, 7), torch.randn(2, 5, 3, requires_grad=True)
    learning = (values, layer.weight, layer.bias)
    found, expected = _with_bias(*learning), layer(values)
    found /= 2
    ours, theirs = (torch.autograd.grad(out.square().sum(), learning) for out in (found, expected / 2))
    for one, other in zip(ours, theirs, strict=True):
        torch.testing.assert_close(one, other)


def test_linear_layers_do_as_before_where_there_is_no_gpu() -> None:
    layer, values = nn.Linear(3, 7), torch.randn(4, 3)
    network = nn.Sequential(layer)
    swap_fast_layers(network)
    assert torch.equal(network.train()(values), nn.functional.linear(values, layer.weight, layer.bias))
    assert list(network.state_dict()) == ["0.weight", "0.bias"]


def test_tables_of_few_rows_are_quickened_and_no_others() -> None:
    tables = [nn.Embedding(2, 4), nn.Embedding(FEW + 1, 4), nn.Embedding(2, 4, padding_idx=0)]
    weights = [table.weight.detach().clone() for table in tables]
    network = nn.Sequential(*tables)
    swap_fast_layers(network)
    assert [type(table) for table in network] == [_QuickEmbedding, nn.Embedding, nn.Embedding]
    assert all(torch.equal(now, before) for now, before in zip(network.parameters(), weights, strict=True))
    assert torch.equal(network[0](torch.tensor([1, 0])), weights[0][[1, 0]])
    assert network[0].weight.requires_grad
