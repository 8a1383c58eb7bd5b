"""The contract of every method: its answers are made from rationales alone."""

from pathlib import Path

import pytest

from fresh.attribution import SCORERS
from fresh.audit.invariance import try_to_break
from fresh.audit.replay import replay
from fresh.data.splits import Splits
from fresh.methods.config import METHODS
from fresh.methods.registry import train_method
from fresh.training.loop import RunContext
from method_cases import CASES, Case, configured, given_to

pytestmark = pytest.mark.filterwarnings("ignore:The gate has collapsed")  # for want of epochs

FEW = {"samples": 8, "steps": 2}
ALL = {
    **CASES,
    **{f"fresh with {name}": Case("fresh", {"scorer": name, **FEW}) for name in SCORERS},
    **{
        f"fresh cut by {name}": Case("fresh", {"discretizer": name})
        for name in ("contiguous", "global_top_k", "global_contiguous")
    },
    "tagger with queries": Case("fresh", {"tagger": True}, asks=True),
    "human with queries": Case("human", {}, asks=True),
}


def test_every_method_is_tried() -> None:
    assert {case.method for case in ALL.values()} == set(METHODS)


@pytest.mark.parametrize("name", ALL)
def test_no_answer_moves_when_dropped_words_do(
    name: str, toy: Splits, toy_pairs: Splits, encoders: dict[str, Path]
) -> None:
    case = ALL[name]
    splits = given_to(case, toy, toy_pairs)
    config = configured(case.method, encoders["bert"], **case.settings)
    model = train_method(case.method, splits, config, RunContext(), None).model
    explained = list(model.explain_stream(example.document for example in splits.test))
    assert replay(model.predictor, explained).found == "holds"
    trials = try_to_break(model, explained, 300)
    assert trials.verdict.found == "holds", "\n".join(trials.verdict.evidence)
    assert trials.kinds.total() == 300
