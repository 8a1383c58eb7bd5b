import pytest
import torch
from torch import nn

from fresh.dropout import QuickDropout, quicken


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
    quicken(network)
    inner = network[2]
    assert isinstance(inner, nn.Sequential)
    kinds = [type(part) for part in (network[0], network[1], inner[0], inner[1])]
    assert kinds == [nn.Linear, QuickDropout, QuickDropout, nn.Dropout1d]
    assert [network[1].p, inner[0].p] == [0.3, 0.1]
