import json
import re
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

import cheats
from fresh.attribution.support_model import SupportModel
from fresh.audit.checks import GUARANTEE, Audit, audit
from fresh.data.splits import Splits
from fresh.document import Document, Example
from fresh.predictor import Predictor
from fresh.rationalizer import Rationalizer
from fresh.reporting.report import Report, Verdict

DATA_FILES = Path(__file__).parents[1] / "data_files" / "audit"
NAMES = ["replay", "invariance", "masks and labels", "masks and decisions", "length and labels", "target class"]
NAMES += ["independent reader", "stability", "split hygiene", "degenerate rationales"]


@pytest.fixture(scope="module")
def found(rationalizer: Rationalizer, support: SupportModel, toy: Splits) -> Audit:
    others = {"train": toy.train, "dev": toy.dev}
    return audit(rationalizer, toy.test, others, n_trials=100, reader=Predictor(support.classifier))


@pytest.fixture
def only_the_wall(monkeypatch: pytest.MonkeyPatch) -> None:
    """Leave out the slowest checks, where they are not what is tested."""
    for check in ("check_masks", "check_length", "check_target_class"):
        monkeypatch.setattr(f"fresh.audit.checks.{check}", lambda *_, check=check: Verdict(check, "not run", ""))


def verdicts(found: Audit) -> dict[str, Verdict]:
    return {verdict.name: verdict for verdict in found.verdicts}


# The whole


def test_every_check_has_a_verdict_with_evidence(found: Audit) -> None:
    assert list(verdicts(found)) == NAMES
    assert all(verdict.found in ("holds", "look here") for verdict in found.verdicts)
    assert all(verdict.evidence and re.search(r"\d", verdict.evidence[0]) for verdict in found.verdicts[:6])
    assert found.holds
    assert found.guarantee == GUARANTEE


def test_the_guarantee_says_what_it_does_not_cover() -> None:
    for sentence in (
        "What is certain where replay and invariance hold: given the words shown, nothing else can change the answer.",
        "with a fixed ratio, this number reveals the length of the document.",
        "Other words can still change the answer by changing which words are selected.",
        "\n\nWhat is not certain: why these words were selected.",
        "\n\nThe guarantee does not say that the words are a good reason",
    ):
        assert sentence in GUARANTEE


def test_an_audit_as_json_and_markdown(found: Audit) -> None:
    record = json.loads(found.to_json())
    assert record == json.loads(json.dumps(found.to_dict()))
    assert not Audit((*found.verdicts, Verdict("replay", "broken", ""))).holds  # one is enough
    assert (record["holds"], record["guarantee"]) == (True, GUARANTEE)
    assert [tuple(item) for item in record["verdicts"]] == [("name", "found", "says", "evidence")] * len(NAMES)
    lines = ("one\ttwo", "a | b\n\ud800")
    text = Audit((Verdict("replay", "broken", "a|b\x1b", lines), Verdict("other", "not run", "c")), "It covers.")
    assert text.to_markdown() == (
        "| check | verdict | finding |\n| --- | --- | --- |\n| replay | broken | a\\|b␛ |\n| other | not run | c |\n"
        "\n## replay\n\n    one\ttwo\n    a | b �\n\n## What the guarantee covers\n\nIt covers.\n"
    )


def test_files_of_earlier_versions_are_written_in_the_same_way() -> None:
    old = json.loads((DATA_FILES / "audit.json").read_bytes())
    again = Audit(tuple(Verdict(**{**item, "evidence": tuple(item["evidence"])}) for item in old["verdicts"]))
    assert replace(again, guarantee=old["guarantee"]).to_json().encode() == (DATA_FILES / "audit.json").read_bytes()
    report = (DATA_FILES / "report.json").read_text(encoding="utf-8")
    assert Report.from_dict(json.loads(report)).to_json() == report


def test_bad_arguments_are_refused(model: Rationalizer, toy: Splits) -> None:
    two = toy.test[:2]
    explained = model.explain([item.document for item in two])
    dull = Example(Document.from_words(("a", "film"), id="x"), "dull")
    refused: list[tuple[Any, dict[str, Any], str]] = [
        ([], {}, r"examples must have at least one document"),
        ([dull], {}, r"labels neg, pos.*dull \(1\).*'x'"),
        (toy.test, {"others": {"test": toy.dev}}, r"others must not have the name 'test'"),
        (two, {"explained": explained[:1]}, r"one item for each of the examples, in their order"),
        (two, {"explained": explained[::-1]}, r"one item for each of the examples, in their order"),
        (two, {"n_trials": 0}, r"n_trials must be at least 1, got 0"),
    ]
    for examples, options, message in refused:
        with pytest.raises(ValueError, match=message):
            audit(model, examples, **options)


# Cheats


@pytest.mark.usefixtures("only_the_wall")
def test_reported_explanations_are_checked_and_a_doctored_one_is_found(rationalizer: Rationalizer, toy: Splits) -> None:
    explained = rationalizer.explain([example.document for example in toy.test])
    other = {"neg": "pos", "pos": "neg"}[explained[5].prediction.label]
    doctored = [*explained[:5], replace(explained[5], prediction=cheats.sure(other)), *explained[6:]]
    honest, lying = (audit(rationalizer, toy.test, n_trials=20, explained=given) for given in (explained, doctored))
    assert verdicts(honest)["replay"].found == "holds"
    assert verdicts(lying)["replay"].found == "broken"
    assert verdicts(lying)["invariance"].found == "holds"  # the model itself is honest
    assert not lying.holds


@pytest.mark.usefixtures("only_the_wall")
@pytest.mark.parametrize(
    ("cheat", "replayed"),
    [(cheats.FullTextReader, "broken"), (cheats.PositionReader, "broken"), (cheats.Disobedient, "holds")],
)
def test_a_model_that_reads_past_the_wall_is_broken(
    cheat: type[Rationalizer], replayed: str, rationalizer: Rationalizer, toy: Splits
) -> None:
    found = audit(cheat(rationalizer.extractor, rationalizer.predictor), toy.test, n_trials=200)
    assert not found.holds
    assert verdicts(found)["replay"].found == replayed
    verdict = verdicts(found)["invariance"]
    assert verdict.found == "broken"
    assert re.fullmatch(r"In \d+ of 200 trials, words outside the rationale changed the prediction\.", verdict.says)
    assert sum(line.endswith("; selected words are in brackets:") for line in verdict.evidence) == 3


def test_a_decision_in_the_number_of_words_is_flagged(support: SupportModel, predictor: Predictor, toy: Splits) -> None:
    odd = cheats.Answering(predictor.classifier, lambda _, rationale: cheats.odd_or_even(len(rationale.words)))
    model = Rationalizer(cheats.Teller(support), odd)
    found = audit(model, (*toy.dev, *toy.test), n_trials=100)
    assert found.holds  # the answer is made from the rationale alone, and the rationale explains nothing
    for target in ("label", "decision"):
        verdict = verdicts(found)[f"masks and {target}s"]
        assert verdict.found == "look here"
        assert f" gives the {target} away for the most part: balanced accuracy " in verdict.says
        assert len(verdict.evidence) == 4
        assert verdict.evidence[0] == f"64 masks of 2 {target}s."
