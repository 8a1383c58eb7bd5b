import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from fresh.nn.hardkuma import HIGH, LOW, HardKuma

SHAPES = st.floats(0.2, 8, allow_nan=False)


def of(a: float, b: float) -> HardKuma:
    return HardKuma(torch.tensor(a, dtype=torch.float64), torch.tensor(b, dtype=torch.float64))


def density(gate: HardKuma, value: torch.Tensor) -> torch.Tensor:
    """Density between 0 and 1, by the formula of the Kumaraswamy distribution."""
    inside = (value - LOW) / (HIGH - LOW)
    kuma = gate.a * gate.b * inside ** (gate.a - 1) * (1 - inside**gate.a) ** (gate.b - 1)
    return kuma / (HIGH - LOW)


def one(gate: HardKuma) -> torch.Tensor:
    """Probability of exactly 1: the mass that the Kumaraswamy distribution has beyond that end."""
    return (1 - ((1 - LOW) / (HIGH - LOW)) ** gate.a) ** gate.b


def integrate(values: torch.Tensor, points: torch.Tensor) -> float:
    return float(np.trapezoid(values.numpy(), points.numpy()))


@given(SHAPES, SHAPES)
def test_the_mean_is_that_of_density_and_mass(a: float, b: float) -> None:
    gate = of(a, b)
    points = torch.linspace(0, 1, 20_001, dtype=torch.float64)
    expected = integrate(density(gate, points) * points, points) + float(one(gate))
    assert float(gate.mean()) == pytest.approx(expected, abs=1e-4)


@given(SHAPES, SHAPES)
def test_mass_at_0_is_what_the_kumaraswamy_distribution_has_below(a: float, b: float) -> None:
    low = (0 - LOW) / (HIGH - LOW)
    assert float(of(a, b).zero()) == pytest.approx(1 - (1 - low**a) ** b, abs=1e-6)


@pytest.mark.parametrize(("a", "b"), [(0.5, 0.5), (1.0, 1.0), (2.0, 5.0), (5.0, 0.3)])
def test_draws_have_the_mass_the_mean_and_the_spread_of_the_distribution(a: float, b: float) -> None:
    gate = of(a, b)
    n = 400_000
    uniform = torch.rand(n, dtype=torch.float64, generator=torch.Generator().manual_seed(0))
    drawn = gate.sample(uniform)
    assert 0 <= float(drawn.min()) <= float(drawn.max()) <= 1
    for share, expected in (
        ((drawn == 0).double().mean(), gate.zero()),
        ((drawn == 1).double().mean(), one(gate)),
        (drawn.mean(), gate.mean()),
    ):
        assert float(share) == pytest.approx(float(expected), abs=5 / n**0.5)
    points = torch.linspace(0, 1, 20_001, dtype=torch.float64)
    for value in (0.25, 0.5, 0.75):
        below = float(gate.zero()) + integrate(density(gate, points[points <= value]), points[points <= value])
        assert float((drawn <= value).double().mean()) == pytest.approx(below, abs=5 / n**0.5)


def test_gradients_pass_through_draws_between_the_ends_and_not_at_them() -> None:
    outputs = torch.tensor([[0.2, 0.7]] * 3, requires_grad=True)
    drawn = HardKuma.of(outputs).sample(torch.tensor([0.001, 0.5, 0.999]))
    assert drawn[0] == 0
    assert 0 < drawn[1].item() < 1
    assert drawn[2] == 1
    [gradient] = torch.autograd.grad(drawn.sum(), outputs)
    assert gradient.ne(0).tolist() == [[False] * 2, [True] * 2, [False] * 2]


def test_a_draw_moves_with_its_shapes_as_differences_say() -> None:
    shapes = [torch.tensor(value, dtype=torch.float64, requires_grad=True) for value in (1.3, 0.8)]
    uniform = torch.tensor(0.4, dtype=torch.float64)
    assert torch.autograd.gradcheck(lambda a, b: HardKuma(a, b).sample(uniform), shapes)


@given(st.floats(-60, 60), st.floats(-60, 60), st.floats(0, 1))
def test_whatever_a_network_says_all_stays_finite(first: float, second: float, uniform: float) -> None:
    outputs = torch.tensor([first, second], requires_grad=True)
    gate = HardKuma.of(outputs)
    total = gate.sample(torch.tensor(uniform)) + gate.zero() + gate.mean()
    [gradient] = torch.autograd.grad(total, outputs)
    assert total.isfinite()
    assert gradient.isfinite().all()


def test_shapes_have_as_many_digits_as_what_they_are_made_from() -> None:
    outputs = torch.tensor([[0.3, -0.2]], dtype=torch.float64)
    assert HardKuma.of(outputs).mean().dtype == torch.float64
    assert HardKuma.of(outputs.bfloat16()).mean().dtype == torch.float32
