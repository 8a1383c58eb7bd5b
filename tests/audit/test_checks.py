import json
import re
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import cheats
from fresh.attribution.random import Random
from fresh.attribution.support_model import SupportModel
from fresh.audit.checks import (
    GUARANTEE,
    Audit,
    _check_content,
    _check_length,
    _check_masks,
    _check_splits,
    audit,
)
from fresh.audit.leakage import Leak, Leaks
from fresh.data.splits import Splits, dataset_digest
from fresh.document import Document, Example, Explanation, Mask
from fresh.predictor import Predictor
from fresh.rationalizer import Rationalizer
from fresh.reporting.report import Report, Verdict
from fresh.selection.discretizers import TopK
from fresh.selection.extractors import SaliencyExtractor
from tiny import FILLERS

DATA_FILES = Path(__file__).parents[1] / "data_files" / "audit"
NAMES = [
    "replay",
    "invariance",
    "masks and labels",
    "masks and decisions",
    "length and labels",
    "asked class",
    "split hygiene",
    "degenerate rationales",
]


@pytest.fixture(scope="module")
def found(occlusion_model: Rationalizer, toy: Splits) -> Audit:
    return audit(occlusion_model, toy.test, {"train": toy.train, "dev": toy.dev}, n_trials=100)


@pytest.fixture
def no_leaks(monkeypatch: pytest.MonkeyPatch) -> None:
    """Leave out the slowest checks, where they are not what is tested."""
    nothing = Leak("", "label", 1.0, 1.0, 1.0, 1.0, 1.0, 0, 1)
    monkeypatch.setattr("fresh.audit.checks.find_leaks", lambda *_given, **_more: Leaks(nothing, nothing, nothing))
    monkeypatch.setattr("fresh.audit.checks.find_length_leak", lambda *_given, **_more: nothing)


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
    first, second, third = GUARANTEE.split("\n\n")
    assert first.startswith("What is certain where replay and invariance hold: given the words shown, nothing else can")
    assert "with a fixed ratio, this number reveals the length of the document" in first
    assert "Other words can still change the answer by changing which words are selected." in first
    assert second.startswith("What is not certain: why these words were selected.")
    assert third.startswith("The guarantee does not say that the words are a good reason")


def test_one_broken_verdict_is_enough() -> None:
    fine = (Verdict("a", "holds", ""), Verdict("b", "look here", ""), Verdict("c", "not run", ""))
    assert Audit(fine).holds
    assert not Audit((*fine, Verdict("replay", "broken", ""))).holds


def test_an_audit_as_json_and_markdown(found: Audit) -> None:
    record = json.loads(found.to_json())
    assert record == json.loads(json.dumps(found.to_dict()))
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


@pytest.mark.usefixtures("no_leaks")
def test_reported_explanations_are_checked_and_a_doctored_one_is_found(
    occlusion_model: Rationalizer, toy: Splits
) -> None:
    explained = occlusion_model.explain([example.document for example in toy.test])
    other = {"neg": "pos", "pos": "neg"}[explained[5].prediction.label]
    doctored = [*explained[:5], replace(explained[5], prediction=cheats.sure(other)), *explained[6:]]
    honest, lying = (audit(occlusion_model, toy.test, n_trials=20, explained=given) for given in (explained, doctored))
    assert verdicts(honest)["replay"].found == "holds"
    assert verdicts(lying)["replay"].found == "broken"
    assert verdicts(lying)["invariance"].found == "holds"  # the model itself is honest
    assert not lying.holds


# Cheats


@pytest.mark.usefixtures("no_leaks")
@pytest.mark.parametrize("cheat", [cheats.FullTextReader, cheats.PositionReader])
def test_a_model_that_reads_past_the_wall_is_broken(
    cheat: type[Rationalizer], occlusion_model: Rationalizer, toy: Splits
) -> None:
    found = audit(cheat(occlusion_model.extractor, occlusion_model.predictor), toy.test, n_trials=100)
    assert not found.holds
    assert verdicts(found)["replay"].found == verdicts(found)["invariance"].found == "broken"


def test_a_decision_in_the_number_of_words_is_flagged(
    support: SupportModel, predictor: Predictor, toy: Splits, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("fresh.audit.checks.check_target_class", lambda *_given: Verdict("asked class", "not run", ""))
    model = Rationalizer(cheats.Teller(support), cheats.Counter(predictor.classifier))
    found = audit(model, (*toy.dev, *toy.test), n_trials=100)
    assert found.holds  # the answer is made from the rationale alone, and the rationale explains nothing
    for target in ("label", "decision"):
        verdict = verdicts(found)[f"masks and {target}s"]
        assert verdict.found == "look here"
        assert f" gives the {target} away for the most part: balanced accuracy " in verdict.says
        assert len(verdict.evidence) == 4
        assert verdict.evidence[0] == f"64 masks of 2 {target}s."


# Masks alone, and the number of words shown


def explanations(masks: Sequence[Mask], labels: Sequence[str], query: str = "") -> list[Explanation]:
    made = []
    for number, (mask, label) in enumerate(zip(masks, labels, strict=True)):
        document = Document.from_words([f"w{number}"] * len(mask), tuple(query.split()), str(number))
        made.append(Explanation(document, mask, document.cut(mask), cheats.sure(label)))
    return made


def test_without_a_choice_or_two_labels_masks_are_not_checked() -> None:
    whole = _check_masks(explanations([Mask.full(3)] * 4, ["pos", "neg"] * 2), ["pos", "neg"] * 2, "label", 0)
    assert (whole.name, whole.found, whole.evidence) == ("masks and labels", "not run", ())
    assert "keeps all words" in whole.says
    items = explanations([Mask.from_spans([(0, 1)], 3)] * 4, ["pos"] * 4)
    for found, target in (
        (_check_masks(items, ["pos"] * 4, "decision", 0), "decision"),
        (_check_length(items, ["pos"] * 4, 0), "label"),
    ):
        assert found.found == "not run"
        assert found.says.startswith(f"Fewer than two {target}s have 10 masks")


def test_documents_of_another_length_are_no_leak() -> None:
    generator, labels = np.random.default_rng(0), ["pos", "neg"] * 40
    sizes = [generator.integers(20, 30) if label == "pos" else generator.integers(5, 12) for label in labels]
    items = explanations([Mask.from_spans([(0, int(size) // 2)], int(size)) for size in sizes], labels)
    found = _check_masks(items, labels, "label", 0)
    assert found.found == "holds"
    assert found.evidence[-1].startswith("The extractor does not choose the length of the document")
    assert found.says.endswith(f"; p = 0.01. {found.evidence[-1]}")
    assert _check_length(items, labels, 0).found == "look here"


def test_labels_that_depend_on_length_only_are_flagged(predictor: Predictor) -> None:
    """Random words of a fixed share, and a predictor that counts them: right every time, and nothing is broken."""
    generator = np.random.default_rng(0)
    sizes = [int(generator.integers(16, 31) if number % 2 else generator.integers(4, 16)) for number in range(60)]
    examples = [
        Example(Document.from_words(generator.choice(FILLERS, size).tolist(), id=str(number)), label)
        for number, (size, label) in enumerate(zip(sizes, ["neg", "pos"] * 30, strict=True))
    ]
    model = Rationalizer(SaliencyExtractor(Random(), TopK(0.2)), cheats.LongOrShort(predictor.classifier))
    found = audit(model, examples, n_trials=50)
    explained = model.explain([example.document for example in examples])
    assert [item.prediction.label for item in explained] == [example.label for example in examples]
    assert found.holds
    verdict = verdicts(found)["length and labels"]
    assert verdict.found == "look here"
    assert verdict.says.startswith("The number of words shown alone gives the label away for the most part: balanced ")
    assert verdict.evidence[0] == "60 rationales of 2 labels."
    assert "can count the words shown" in verdict.evidence[1]


def test_the_number_of_words_shown_is_judged_by_itself() -> None:
    labels = ["pos", "neg"] * 40
    masks = [Mask.full(9 + number % 5 + 10 * (label == "pos")) for number, label in enumerate(labels)]
    assert _check_length(explanations(masks, labels), labels, 0).found == "look here"
    sizes = np.random.default_rng(3).integers(2, 12, size=80)
    masks = [Mask.from_spans([(0, int(size))], 20) for size in sizes]
    found = _check_length(explanations(masks, labels), labels, 0)
    assert found.found == "holds"
    assert found.says.startswith("No clear sign that the number of words shown alone gives the label away: balanced ")
    assert found.evidence == ("80 rationales of 2 labels.",)


def test_masks_that_share_a_text_are_checked_once(monkeypatch: pytest.MonkeyPatch) -> None:
    given: list[Any] = []
    nothing = Leak("", "label", 1.0, 1.0, 1.0, 1.0, 1.0, 0, 1)

    def find(_masks: Any, _labels: Any, _target: str, texts: Any, seed: int) -> Leaks:
        given.append((texts, seed))
        return Leaks(nothing, nothing, nothing)

    monkeypatch.setattr("fresh.audit.checks.find_leaks", find)
    for query in ("", "why"):
        _check_masks(explanations([Mask.from_spans([(0, 1)], 2)] * 2, ["pos"] * 2, query), ["pos"] * 2, "label", 7)
    assert given == [(None, 7), (["w0 w0", "w1 w1"], 7)]


# Splits and rationales


def example(text: str, label: str = "pos", id: str = "") -> Example:
    return Example(Document.from_words(text.split(), id=id), label)


def test_duplicates_in_other_splits_are_named() -> None:
    test = [example("a good film of old", id="t0"), example("something else altogether", id="t1")]
    found = _check_splits(test, {"train": [example("A good film of old", "neg", "r0")]}, "")
    assert (found.name, found.found) == ("split hygiene", "look here")
    assert found.says == "1 pair of documents in different splits: the same, or nearly."
    assert found.evidence[0].startswith("Of 2 examples of test, 1 have a duplicate in train and 0 a near-duplicate")
    assert found.evidence[1] == "test 't0' and train 'r0': the same, other labels"


def test_splits_without_duplicates_are_clean() -> None:
    others = {"train": [example("e f g h")], "more": [example("i j k l")], "none": []}
    found = _check_splits([example("a b c d")], others, "")
    assert found.found == "holds"
    assert found.evidence == tuple(
        f"No example of {later} has a duplicate or near-duplicate in {earlier}."
        for earlier, later in (("train", "more"), ("train", "test"), ("more", "test"))
    )
    assert _check_splits([example("a b c")], {"train": []}, "").found == "not run"


def test_documents_that_training_did_not_leave_out_are_flagged(toy: Splits) -> None:
    others, digest = {"train": toy.train, "dev": toy.dev}, dataset_digest(toy.test)
    assert _check_splits(toy.test, others, digest) == _check_splits(toy.test, others, "")
    found = _check_splits(toy.test[:-1], others, digest)
    assert found.found == "look here"
    assert re.search(r"not the documents that training left out.*whole=True", found.says)
    assert _check_splits(toy.test[:-1], {}, digest).found == "not run"


def test_degenerate_rationales_are_named() -> None:
    labels = ["pos", "neg"] * 6
    items = explanations([Mask.from_spans([(0, 1)], size) for size in range(4, 16)], labels)
    found = _check_content(items)
    assert (found.name, found.found) == ("degenerate rationales", "look here")
    assert found.says.startswith("12 of 12 rationales that leave words out are the first words of their document. ")
    assert found.evidence[0].endswith(" of their document. See: '0', '1', '2', '3', '4'.")
    few = _check_content(items[:3])
    assert (few.found, few.evidence) == ("not run", ())
    kept = [Mask.from_spans([(size % 3, size % 3 + 1 + size % 2)], size) for size in range(4, 16)]
    assert _check_content(explanations(kept, labels)).found == "holds"


def test_bad_arguments_are_refused(model: Rationalizer, toy: Splits) -> None:
    def refused(message: str, *given: Any, **more: Any) -> None:
        with pytest.raises(ValueError, match=message):
            audit(model, *given, **more)

    two = toy.test[:2]
    explained = model.explain([item.document for item in two])
    refused(r"examples must have at least one document", [])
    refused(r"labels neg, pos.*dull \(1\).*'x'", [example("a film", "dull", "x")])
    refused(r"others must not have the name 'test'", toy.test, {"test": toy.dev})
    refused(r"one item for each of the examples, in their order", two, explained=explained[:1])
    refused(r"one item for each of the examples, in their order", two, explained=explained[::-1])
    refused(r"n_trials must be at least 1, got 0", two, n_trials=0)
