"""A case for every way to train."""

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import small
from fresh.attribution import SCORERS
from fresh.config import from_mapping
from fresh.data.splits import Splits
from fresh.methods.config import METHODS
from fresh.methods.registry import MethodResult, train_method


@dataclass(frozen=True, slots=True)
class Case:
    method: str
    settings: dict[str, Any]
    asks: bool = False


CASES = {
    **{name: Case(name, {}) for name in METHODS},
    "tagger": Case("fresh", {"tagger": True}),
    "tagger with crf": Case("fresh", {"tagger": True, "crf": True}),
    "tagger with people": Case("fresh", {"tagger": True, "human": 0.5}),
    "tagger of people": Case("fresh", {"tagger": True, "human": 1.0, "discretizer": "contiguous"}),
    "distilled": Case("fresh", {"distil": True, "scorer": "occlusion"}),
    "cross-fitted": Case("fresh", {"folds": 2}),
    "cross-fitted tagger": Case("fresh", {"folds": 2, "tagger": True}),
    "cross-fitted tagger of people with crf": Case("fresh", {"folds": 2, "tagger": True, "crf": True, "human": 1.0}),
    "cross-fitted tagger with a common budget": Case(
        "fresh", {"folds": 2, "tagger": True, "discretizer": "global_contiguous"}
    ),
    "tagger of all lengths": Case("fresh", {"tagger": True, "ratio": "0.1:0.5"}),
    "all lengths": Case("fresh", {"ratio": "0.1:0.5"}),
    "fresh in windows": Case("fresh", {"long": "chunk"}),
    "fresh with queries": Case("fresh", {}, asks=True),
    **{
        f"{name} {what}": Case(name, others, asks)
        for name in ("lei", "bastings")
        for what, others, asks in (
            ("in windows", {"long": "chunk"}, False),
            ("with queries", {"discretizer": "contiguous"}, True),
            ("with people", {"human": 0.5, "ratio": 0.4}, False),
        )
    },
}
ALL = {
    **CASES,
    **{f"fresh with {name}": Case("fresh", {"scorer": name, "samples": 8, "steps": 2}) for name in SCORERS},
    **{
        f"fresh cut by {name}": Case("fresh", {"discretizer": name})
        for name in ("contiguous", "global_top_k", "global_contiguous")
    },
    "tagger with queries": Case("fresh", {"tagger": True}, asks=True),
    "human with queries": Case("human", {}, asks=True),
}
Trained = Callable[[str], tuple[Splits, MethodResult]]


def train_case(name: str, toy: Splits, toy_pairs: Splits, encoder: Path) -> tuple[Splits, MethodResult]:
    case = ALL[name]
    config = from_mapping(METHODS[case.method], small.settings(encoder, epochs=1, seed=2, **case.settings))
    splits = small.some(toy_pairs if case.asks else toy, 32, 8)
    return splits, train_method(case.method, splits, config)
