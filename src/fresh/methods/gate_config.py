"""Settings of the methods that train a gate along."""

from dataclasses import dataclass

from fresh.config import check_above, check_min, raise_all
from fresh.methods.config import CUTS_EACH, CutConfig


@dataclass(frozen=True, slots=True)
class GateConfig(CutConfig):
    """What all methods with a gate have in common."""

    lambda_2: float = 0.0
    """How much is paid for each beginning and end of a run of kept words."""
    human: float = 0.0
    """Share of the training documents with people's rationales from which tagger or gate learn."""

    def wrong_gate(self) -> list[str | None]:
        """Say what is wrong with the settings of a gate, if anything."""
        one_length = "A gate is trained for one ratio; a range is for method=fresh."
        cut = f"A gate is cut by top_k or contiguous, got {self.discretizer}."
        return [
            self.wrong_cut(),
            one_length if isinstance(self.ratio, str) else None,
            cut if self.discretizer not in CUTS_EACH else None,
            *check_min(0, lambda_2=self.lambda_2),
            f"human must be from 0 to 1, got {self.human}." if not 0 <= self.human <= 1 else None,
        ]


@dataclass(frozen=True, slots=True)
class LeiConfig(GateConfig):
    """How the gate pays for its draws."""

    lambda_1: float = 0.3
    """How much is paid for the share of words that is kept beyond the ratio."""
    draws: int = 1
    """How often words are drawn from each document in a step."""
    reward_baseline: bool = True
    """Compare what a draw costs with the moving mean of costs, so that learning is steadier; off is the original."""

    def __post_init__(self) -> None:
        raise_all(*self.wrong_gate(), *check_min(0, lambda_1=self.lambda_1), *check_min(1, draws=self.draws))


@dataclass(frozen=True, slots=True)
class BastingsConfig(GateConfig):
    """How the gate is held to its length."""

    lagrange_start: float = 1e-5
    """Lagrange multiplier of the length at the beginning."""
    lagrange_rate: float | None = None
    """How fast it grows while too much is kept, and shrinks while too little is; 0.001 if not given, or 0.01 if it can
    only grow."""
    lagrange_square: float = 5.0
    """Weight of the square of what is kept beyond or below the ratio, which keeps the multiplier from swinging."""
    lagrange_decay: float = 0.9
    """Share of the moving mean of what is kept beyond the ratio that stays in each step."""
    two_sided: bool = True
    """Hold the gate to its length from both sides; off, only too much costs, and more and more, as in the code of the
    FRESH paper."""

    def __post_init__(self) -> None:
        raise_all(
            *self.wrong_gate(),
            *check_above(0, lagrange_start=self.lagrange_start, lagrange_rate=self.rate),
            *check_min(0, lagrange_square=self.lagrange_square),
            f"lagrange_decay must be at least 0 and below 1, got {self.lagrange_decay}."
            if not 0 <= self.lagrange_decay < 1
            else None,
        )

    @property
    def rate(self) -> float:
        """How fast the multiplier moves."""
        usual = 0.001 if self.two_sided else 0.01
        return usual if self.lagrange_rate is None else self.lagrange_rate
