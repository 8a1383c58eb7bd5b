import json
import re
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

import cheats
import small
from fresh.attribution.random import Random
from fresh.attribution.support_model import SupportModel
from fresh.audit.audit import COUNTED, GUARANTEE, Audit, _degenerate, _hygiene, _leaks_of, _length_and_labels, audit
from fresh.data.splits import Splits, dataset_digest
from fresh.document import Document, Example, Explanation, Mask
from fresh.errors import MissingExtraError
from fresh.predictor import Predictor
from fresh.rationalizer import Rationalizer
from fresh.reporting.verdict import Verdict
from fresh.selection.discretizers import TopK
from fresh.selection.extractors import SaliencyExtractor
from tiny import FILLERS

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
def model(support: SupportModel, predictor: Predictor) -> Rationalizer:
    return small.rationalizer(support, predictor, TopK(0.2))


@pytest.fixture(scope="module")
def found(model: Rationalizer, toy: Splits) -> Audit:
    return audit(model, toy.test, {"train": toy.train, "dev": toy.dev}, n_trials=100)


def missing() -> Any:
    raise MissingExtraError("It needs sklearn.")


@pytest.fixture
def no_leaks(monkeypatch: pytest.MonkeyPatch) -> None:
    """Leave out the slowest checks, where they are not what is tested."""
    for name in ("find_leaks", "find_length_leak"):
        monkeypatch.setattr(f"fresh.audit.audit.{name}", lambda *_given, **_more: missing())


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
    assert first.startswith(
        "What is certain where replay and invariance hold: given the words shown (and the query, where there is one), "
        "nothing else can change the answer."
    )
    assert "with a fixed ratio this number reveals the length of the document" in first
    assert "Other words can still change the answer by changing which words are chosen." in first
    assert second.startswith("What is not certain: why these words were chosen.")
    assert third.startswith("Nor does it say that the words are a good reason")


def test_it_can_be_written_down(found: Audit) -> None:
    record = json.loads(found.to_json())
    assert record == json.loads(json.dumps(found.to_dict()))
    assert (record["holds"], record["guarantee"]) == (True, GUARANTEE)
    assert [tuple(item) for item in record["verdicts"]] == [("name", "found", "says", "evidence")] * len(NAMES)


def test_one_broken_verdict_is_enough() -> None:
    kinds = ("holds", "look here", "not run")
    fine = tuple(Verdict(name, name, "") for name in kinds)  # type: ignore[arg-type]
    assert Audit(fine).holds
    assert not Audit((*fine, Verdict("replay", "broken", ""))).holds


def test_it_is_laid_out_for_people() -> None:
    lines = ("one\ttwo", "a | b\n\ud800")
    text = Audit((Verdict("replay", "broken", "a|b\x1b", lines), Verdict("other", "not run", "c")), "It covers.")
    assert text.to_markdown() == (
        "| check | verdict | finding |\n| --- | --- | --- |\n| replay | broken | a\\|b␛ |\n| other | not run | c |\n"
        "\n## replay\n\n    one\ttwo\n    a | b �\n\n## What the guarantee covers\n\nIt covers.\n"
    )
    assert json.loads(text.to_json())["verdicts"][0]["evidence"] == list(lines)
    text.to_json().encode("utf-8")


@pytest.mark.usefixtures("no_leaks")
def test_explanations_may_be_given_and_a_doctored_one_is_found(model: Rationalizer, toy: Splits) -> None:
    explained = model.explain([example.document for example in toy.test])
    other = {"neg": "pos", "pos": "neg"}[explained[5].prediction.label]
    doctored = [*explained[:5], replace(explained[5], prediction=cheats.sure(other)), *explained[6:]]
    honest, lying = (audit(model, toy.test, n_trials=20, explained=given) for given in (explained, doctored))
    assert verdicts(honest)["replay"].found == "holds"
    assert verdicts(lying)["replay"].found == "broken"
    assert verdicts(lying)["invariance"].found == "holds"  # the model itself is honest
    assert not lying.holds


# Cheats


@pytest.mark.usefixtures("no_leaks")
@pytest.mark.parametrize("cheat", [cheats.FullTextReader, cheats.PositionReader])
def test_a_model_that_reads_past_the_wall_is_broken(
    cheat: type[Rationalizer], model: Rationalizer, toy: Splits
) -> None:
    found = audit(cheat(model.extractor, model.predictor), toy.test, n_trials=100)
    assert not found.holds
    assert verdicts(found)["replay"].found == verdicts(found)["invariance"].found == "broken"


def test_a_decision_told_by_the_number_of_words_is_pointed_out(
    support: SupportModel, predictor: Predictor, toy: Splits, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("fresh.audit.audit.asked_class", lambda *_given: Verdict("asked class", "not run", ""))
    examples = (*toy.dev, *toy.test)
    model = Rationalizer(cheats.Teller(support), cheats.Counter(predictor.classifier))
    found = audit(model, examples, n_trials=100)
    assert found.holds  # the answer is made from the rationale alone, and the rationale explains nothing
    for name, target in (("masks and labels", "label"), ("masks and decisions", "decision")):
        verdict = verdicts(found)[name]
        assert verdict.found == "look here"
        assert f" gives the {target} away for the most part: balanced accuracy " in verdict.says
        assert len(verdict.evidence) == 4
        assert verdict.evidence[0] == f"64 masks of 2 {target}s."


# Masks alone


def explanations(masks: Sequence[Mask], labels: Sequence[str], query: str = "") -> list[Explanation]:
    made = []
    for number, (mask, label) in enumerate(zip(masks, labels, strict=True)):
        document = Document.from_words([f"w{number}"] * len(mask), tuple(query.split()), str(number))
        made.append(Explanation(document, mask, document.cut(mask), cheats.sure(label)))
    return made


def test_whole_documents_give_nothing_away() -> None:
    found = _leaks_of(explanations([Mask.full(3)] * 4, ["pos", "neg"] * 2), ["pos", "neg"] * 2, "label", 0)
    assert found == Verdict(
        "masks and labels", "not run", "Every mask keeps all words, so that there is no choice to give anything away."
    )


def test_one_label_cannot_be_given_away() -> None:
    found = _leaks_of(explanations([Mask.from_spans([(0, 1)], 3)] * 4, ["pos"] * 4), ["pos"] * 4, "decision", 0)
    assert found == Verdict(
        "masks and decisions",
        "not run",
        "There are no two decisions with 10 masks or more, so that none can be given away.",
    )


@pytest.mark.usefixtures("no_leaks")
def test_a_missing_package_is_named() -> None:
    found = _leaks_of(explanations([Mask.from_spans([(0, 1)], 3)], ["pos"]), ["pos"], "label", 0)
    assert found == Verdict("masks and labels", "not run", "It needs sklearn.")


def test_documents_of_another_length_are_no_leak() -> None:
    generator = np.random.default_rng(0)
    labels = ["pos", "neg"] * 40
    sizes = [generator.integers(20, 30) if label == "pos" else generator.integers(5, 12) for label in labels]
    masks = [Mask.from_spans([(0, int(size) // 2)], int(size)) for size in sizes]
    found = _leaks_of(explanations(masks, labels), labels, "label", 0)
    assert found.found == "holds"
    assert found.evidence[-1].startswith("The extractor does not choose the document's length")
    assert found.says.endswith(f"; p = 0.01. {found.evidence[-1]}")
    assert _length_and_labels(explanations(masks, labels), labels, 0).found == "look here"


# The number of words shown


def test_labels_that_depend_on_length_only_are_pointed_out(predictor: Predictor) -> None:
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
    assert verdict.evidence == ("60 rationales of 2 labels.", COUNTED)


def test_a_model_that_shows_every_word_shows_their_number_too() -> None:
    labels = ["pos", "neg"] * 30
    masks = [Mask.full(9 + number % 5 + 10 * (label == "pos")) for number, label in enumerate(labels)]
    assert _length_and_labels(explanations(masks, labels), labels, 0).found == "look here"


def test_a_number_of_words_that_says_nothing_is_fine() -> None:
    generator = np.random.default_rng(3)
    labels = ["pos", "neg"] * 40
    masks = [Mask.from_spans([(0, int(size))], 20) for size in generator.integers(2, 12, size=80)]
    found = _length_and_labels(explanations(masks, labels), labels, 0)
    assert found.found == "holds"
    assert found.says.startswith("No clear sign that the number of words shown alone gives the label away: balanced ")
    assert found.evidence == ("80 rationales of 2 labels.",)


def test_the_number_of_words_needs_two_labels_and_scikit_learn(monkeypatch: pytest.MonkeyPatch) -> None:
    items = explanations([Mask.from_spans([(0, 1)], 3)] * 4, ["pos"] * 4)
    says = "There are no two labels with 10 masks or more, so that none can be given away."
    assert _length_and_labels(items, ["pos"] * 4, 0) == Verdict("length and labels", "not run", says)
    monkeypatch.setattr("fresh.audit.audit.find_length_leak", lambda *_given, **_more: missing())
    assert _length_and_labels(items, ["pos"] * 4, 0) == Verdict("length and labels", "not run", "It needs sklearn.")


def test_texts_with_queries_are_looked_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    given: list[Any] = []

    def find(_masks: Any, _labels: Any, _target: str, texts: Any, seed: int) -> None:
        given.append((texts, seed))
        missing()

    monkeypatch.setattr("fresh.audit.audit.find_leaks", find)
    for query in ("", "why"):
        _leaks_of(explanations([Mask.from_spans([(0, 1)], 2)] * 2, ["pos"] * 2, query), ["pos"] * 2, "label", 7)
    assert given == [(None, 7), (["w0 w0", "w1 w1"], 7)]


# Splits and rationales


def example(text: str, label: str = "pos", id: str = "") -> Example:
    return Example(Document.from_words(text.split(), id=id), label)


def test_twins_in_other_splits_are_named() -> None:
    test = [example("a good film of old", id="t0"), example("something else altogether", id="t1")]
    train = [example("A good film of old", "neg", "r0")]
    found = _hygiene(test, {"train": train})
    assert (found.name, found.found) == ("split hygiene", "look here")
    assert found.says == "1 pair of documents in different splits: the same, or nearly."
    assert found.evidence == (
        "Of 2 examples of test, 1 have a duplicate in train and 0 a near-duplicate (50.0% together). "
        "In 1 of 1 such pairs the labels differ.",
        "test 't0' and train 'r0': the same, other labels",
    )


def test_splits_without_twins_are_clean() -> None:
    found = _hygiene([example("a b c d")], {"train": [example("e f g h")], "more": [example("i j k l")], "none": []})
    assert found.found == "holds"
    assert found.evidence == tuple(
        f"No example of {later} has a duplicate or near-duplicate in {earlier}."
        for earlier, later in (("train", "more"), ("train", "test"), ("more", "test"))
    )


def test_one_split_alone_has_no_twins() -> None:
    found = _hygiene([example("a b c")], {"train": []})
    assert found == Verdict(
        "split hygiene", "not run", "Only one split is known, so that there is nothing to compare it with."
    )


def test_degenerate_rationales_are_named() -> None:
    items = explanations([Mask.from_spans([(0, 1)], size) for size in range(4, 16)], ["pos", "neg"] * 6)
    found = _degenerate(items)
    assert (found.name, found.found) == ("degenerate rationales", "look here")
    assert found.says.startswith("12 of 12 rationales that leave words out are the first words of their document. ")
    assert found.evidence[0].endswith(" of their document. See: '0', '1', '2', '3', '4'.")
    few = _degenerate(items[:3])
    assert few.found == "not run"
    assert few.says == "There are 3 documents; at least 10 are needed to say something of all of them."
    kept = [Mask.from_spans([(size % 3, size % 3 + 1 + size % 2)], size) for size in range(4, 16)]
    assert _degenerate(explanations(kept, ["pos", "neg"] * 6)).found == "holds"


def test_documents_that_training_did_not_leave_out_are_said_to_be_others(toy: Splits) -> None:
    others = {"train": toy.train, "dev": toy.dev}
    known = _hygiene(toy.test, others, dataset_digest(toy.test))
    assert known == _hygiene(toy.test, others)
    found = _hygiene(toy.test[:-1], others, dataset_digest(toy.test))
    assert found.found == "look here"
    assert found.says == (
        "These are not the documents that training left out for test: some of them may have been trained on. Give "
        "the files of the training as they were, or, if all documents are new, say so (whole=True)."
    )
    assert _hygiene(toy.test[:-1], {}, dataset_digest(toy.test)).found == "not run"


# What is refused


def refused(message: str, *given: Any, **more: Any) -> None:
    with pytest.raises(ValueError, match=f"^{re.escape(message)}$"):
        audit(*given, **more)


def test_nothing_cannot_be_audited(model: Rationalizer) -> None:
    refused("There are no documents to audit with. Give some that can be used.", model, [])


def test_labels_that_were_never_learnt_are_refused(model: Rationalizer) -> None:
    refused(
        "These labels of the data were never learned: dull (1). The first such document is 'x'. "
        "Learned were: neg, pos. Leave such documents out, or train a model for them.",
        model,
        [example("a film", "dull", "x")],
    )


def test_what_is_audited_has_a_name_of_its_own(model: Rationalizer, toy: Splits) -> None:
    message = "The examples that are audited are called test: give other splits other names."
    refused(message, model, toy.test, {"test": toy.dev})


def test_explanations_must_be_those_of_the_examples(model: Rationalizer, toy: Splits) -> None:
    explained = model.explain([item.document for item in toy.test[:2]])
    message = "There are 2 examples but 1 explanations. Give one each, in the same order."
    refused(message, model, toy.test[:2], explained=explained[:1])
    message = (
        "The explanation of document 'test-1' stands where that of 'test-0' should. "
        "Give one for each example, in the same order."
    )
    refused(message, model, toy.test[:2], explained=explained[::-1])


def test_trials_are_counted_from_one(model: Rationalizer, toy: Splits) -> None:
    refused("n_trials must be at least 1, got 0.", model, toy.test[:2], n_trials=0)
