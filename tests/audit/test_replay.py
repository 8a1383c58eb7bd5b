import json
import re
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given

import cheats
import small
from fresh.audit.replay import (
    INCOMPLETE_BATCHES,
    OTHER_BATCHES,
    OTHER_MACHINE,
    _Tally,
    format_prediction,
    match_documents,
    read_saved,
    replay,
    replay_saved,
    restore,
    rewrite,
)
from fresh.data.splits import Splits
from fresh.document import Document, Explanation, Mask
from fresh.errors import DataError
from fresh.rationale import Prediction, Rationale
from fresh.rationalizer import BATCH_SIZE, Rationalizer
from fresh.reporting.console import to_record
from fresh.reporting.report import Verdict
from strategies import documents

Records = list[dict[str, Any]]
Replayed = Callable[[Callable[[Records], Any]], Verdict]
N_MANY = BATCH_SIZE + 40


@pytest.fixture(scope="module")
def many(toy: Splits) -> list[Document]:
    """More documents than one batch."""
    return [example.document for example in (*toy.train, *toy.dev, *toy.test)][:N_MANY]


@pytest.fixture(scope="module")
def explained(model: Rationalizer, many: list[Document]) -> list[Explanation]:
    return list(model.explain_stream(iter(many)))


@given(documents())
def test_words_and_query_are_rewritten_without_the_id(document: Document) -> None:
    halves = Rationale(("\ud83d\ude00", "\ud800"), ("\ude00",))  # of characters, which are not joined
    for rationale in (document.cut(Mask.full(len(document.words))), halves):
        assert rewrite(rationale) == rationale
        assert rewrite(rationale).id == ""


def test_no_explanations_replay(model: Rationalizer) -> None:
    assert replay(model.predictor, []).found == "holds"


def test_reported_predictions_are_computed_again(model: Rationalizer, explained: list[Explanation]) -> None:
    found = replay(model.predictor, explained)
    assert (found.name, found.found) == ("replay", "holds")
    assert re.match(rf"All {N_MANY} predictions.*bit for bit", found.says)
    assert found.evidence[0] == f"{N_MANY} predictions computed again, 0 different."
    assert found.evidence[1].startswith("Read once more in another order: probabilities are at most ")


def test_a_doctored_prediction_is_found(model: Rationalizer, explained: list[Explanation]) -> None:
    honest = explained[N_MANY - 1]
    lie = Prediction(honest.prediction.label, {"neg": 0.25, "pos": 0.75})
    found = replay(model.predictor, [*explained[:-1], replace(honest, prediction=lie)])
    assert found.found == "broken"
    assert found.says.startswith(f"1 of {N_MANY} predictions, computed again")
    assert found.evidence[0] == f"{N_MANY} predictions computed again, 1 different."
    assert found.evidence[2:] == (
        f"document {honest.document.id!r}, rationale: {' '.join(honest.rationale.words)}",
        f"  reported: {honest.prediction.label} (neg 0.25, pos 0.75)",
        f"  from the rationale alone: {format_prediction(honest.prediction)}",
    )


def test_a_doctored_mask_is_found(model: Rationalizer, explained: list[Explanation]) -> None:
    doctored = [replace(item, mask=~item.mask, rationale=item.document.cut(~item.mask)) for item in explained]
    found = replay(model.predictor, doctored)
    assert found.found == "broken"
    assert sum(line.startswith("document ") for line in found.evidence) == 3


def test_the_last_bit_counts_and_rounding_is_explained(model: Rationalizer, explained: list[Explanation]) -> None:
    first = explained[0].prediction
    nudged = Prediction(first.label, {label: value * (1 - 2e-16) for label, value in first.probabilities.items()})
    assert nudged != first
    [other] = {*first.probabilities} - {first.label}  # which is never a matter of rounding
    for lie, is_rounding in ((nudged, True), (Prediction(other, first.probabilities), False)):
        found = replay(model.predictor, [replace(explained[0], prediction=lie), *explained[1:]])
        assert (found.found, OTHER_BATCHES in found.evidence) == ("broken", is_rounding)


def test_a_query_is_shown(model: Rationalizer) -> None:
    document = Document.from_words(("a", "good", "film"), ("praise", "it"), "asked")
    found = replay(model.predictor, [cheats.explained(document, Mask.full(3), cheats.sure("pos"))])
    assert "  query: praise it" in found.evidence


def test_a_predictor_with_other_information_is_found(model: Rationalizer, toy: Splits) -> None:
    """It knows documents by their ids, or is told positions by the extractor."""
    passed, texts = list[int](), [example.document for example in toy.test]
    labels = {example.document.id: example.label for example in toy.test}
    knowing, receiver = (
        cheats.Answering(model.predictor.classifier, answer)
        for answer in (lambda _, rationale: cheats.sure(labels.get(rationale.id, "neg")), cheats.receiver(passed))
    )
    found = replay(knowing, replace(model, predictor=knowing).explain(texts))
    assert found.found == "broken"
    assert found.says.startswith("16 of 32 predictions")
    informed = replace(model, extractor=cheats.Smuggler(model.extractor, passed), predictor=receiver)
    found = replay(receiver, informed.explain(texts))
    assert found.found == "broken"
    assert "depend on what else is read" in found.says
    assert found.evidence[1] == "Read once more in another order: probabilities are at most 1.0e+00 apart."


# Saved explanations


@pytest.fixture
def replayed(model: Rationalizer, many: list[Document], explained: list[Explanation], tmp_path: Path) -> Replayed:
    """Change what `fresh explain` writes, and replay it."""

    def replay(change: Callable[[Records], Any]) -> Verdict:
        records = [json.loads(json.dumps(to_record(item))) for item in explained]
        records = change(records) or records
        return replay_saved(model, many, small.write_jsonl(tmp_path / "explained.jsonl", records))

    return replay


@given(documents())
def test_a_saved_explanation_is_restored(tmp_path_factory: pytest.TempPathFactory, document: Document) -> None:
    masks = [Mask.full(len(document.words)), Mask.from_spans([(0, 1)], len(document.words))]
    explained = [cheats.explained(document, mask, Prediction("a", {"a": 0.75, "b": 0.25})) for mask in masks]
    path = small.write_jsonl(tmp_path_factory.getbasetemp() / "saved.jsonl", map(to_record, explained))
    tally, saved = _Tally(), read_saved(path)
    assert [item.where for item in saved] == ["line 1", "line 2"]
    assert [restore(item, document, tally) for item in saved] == explained
    assert tally.differences == []


def test_saved_predictions_are_computed_again_to_the_bit(replayed: Replayed) -> None:
    found = replayed(lambda _: None)
    assert (found.found, found.evidence) == ("holds", (f"{N_MANY} saved predictions computed again, 0 different.",))
    assert re.match(rf"All {N_MANY} saved predictions.*bit for bit\.$", found.says)


@pytest.mark.parametrize(
    ("change", "expected"),
    [
        (lambda records: records[::-1], "holds"),
        (lambda records: records[3::2], "look here"),
        (lambda records: records[: BATCH_SIZE + 7], "look here"),
    ],
)
def test_a_file_in_another_order_or_with_fewer_lines_is_equal_to_within_rounding(
    change: Callable[[Records], Records], expected: str, replayed: Replayed
) -> None:
    found = replayed(change)
    assert found.found == expected
    assert found.says.startswith("All ")
    assert len(found.evidence) <= 2 or " differ from the saved ones in the last digits" in found.evidence[-1]


def test_documents_without_a_prediction_and_repeated_lines_are_named(replayed: Replayed, many: list[Document]) -> None:
    found = replayed(lambda records: records[:5] + records[6:])
    assert found.found == "look here"
    assert found.says.endswith(f" 1 of {N_MANY} documents of the data has no prediction in the file.")
    assert found.evidence[1] == f"Without a prediction: {many[5].id!r}."
    few = replayed(lambda records: records[:10])
    assert few.says.endswith(f" {N_MANY - 10} of {N_MANY} documents of the data have no prediction in the file.")
    assert few.evidence[1].endswith(f"{many[29].id!r} and {N_MANY - 30} more.")
    doubled = replayed(lambda records: [*records, records[0]])
    assert doubled.found == "broken"
    assert f"line {N_MANY + 1}, document {many[0].id!r}: an earlier line explains it already." in doubled.evidence


def test_whole_groups_must_be_equal_to_the_bit_also_where_lines_are_missing_later(replayed: Replayed) -> None:
    def nudge(number: int, records: Records) -> Records:
        table = {label: value + 1e-9 for label, value in records[number]["probabilities"].items()}
        records[number] |= {"probabilities": table, "probability": table[records[number]["label"]]}
        return records[:-5]

    first = replayed(partial(nudge, 2))
    assert first.found == "broken"
    assert OTHER_MACHINE in first.evidence
    last = replayed(partial(nudge, BATCH_SIZE + 2))
    assert last.found == "look here"
    assert last.evidence[2].partition(" of them ")[2] == INCOMPLETE_BATCHES.partition(" of them ")[2]


def test_a_changed_label_is_named(replayed: Replayed, explained: list[Explanation]) -> None:
    honest = to_record(explained[290])
    other = {"neg": "pos", "pos": "neg"}[honest["label"]]
    changed = {"label": other, "probability": honest["probabilities"][other]}
    found = replayed(lambda records: records[290].update(changed))
    assert found.found == "broken"
    assert found.says.startswith(f"1 of {N_MANY} saved explanations are not what the model predicts")
    assert found.evidence == (
        f"{N_MANY} saved predictions computed again, 1 different.",
        f"line 291, document {honest['id']!r}: the label is {other!r}, but from the rationale alone it is "
        f"{honest['label']!r}.",
    )


def shorten(record: dict[str, Any]) -> None:
    span = record["rationale"][0]
    span.update(end=span["end"] - 1, text=span["text"][:-1])


@pytest.mark.parametrize(
    ("change", "expected"),
    [
        (lambda record: record["rationale"][0].update(text="x"), "the kept words 'x' are not in the text: it has "),
        (lambda record: record.update(probability=0.5), "the probability is 0.5, but that of its label "),
        (
            lambda record: record["probabilities"].update({record["label"]: 0.5}) or record.update(probability=0.5),
            "is 0.5, but from the rationale alone it is 0.",
        ),
        (shorten, "the kept words are not whole words of the text, in order and each run of neighbors as one."),
        (lambda record: record.update(ratio=1.0), "the ratio is 1.0, but "),
        (lambda record: record.update(words=["a"]), "the saved words are not those of the text."),
        (lambda record: record.update(label="nor"), "the label 'nor' has no probability."),
        (lambda record: record.update(id="other"), "there is no such document in the data."),
        (
            lambda record: record.update(label="a", probability=1.0, probabilities={"a": 1.0}),
            "the labels are a, but those of the predictor are neg, pos.",
        ),
    ],
)
def test_a_changed_field_is_named(change: Callable[[dict[str, Any]], Any], expected: str, replayed: Replayed) -> None:
    found = replayed(lambda records: change(records[4]))
    assert found.found == "broken"
    assert found.evidence[0] == f"{N_MANY} saved predictions computed again, 1 different."
    assert found.evidence[1].startswith("line 5, document ")
    assert expected in found.evidence[1]


def test_other_words_of_the_text_are_found_and_many_differences_counted(
    replayed: Replayed, explained: list[Explanation]
) -> None:
    first = explained[0]
    other = to_record(cheats.explained(first.document, ~first.mask, first.prediction))
    found = replayed(lambda records: records[0].update({name: other[name] for name in ("rationale", "ratio")}))
    assert found.evidence[0] == f"{N_MANY} saved predictions computed again, 1 different."
    assert found.evidence[1].startswith(f"line 1, document {first.document.id!r}: the ")
    assert "from the rationale alone it is" in found.evidence[1]
    found = replayed(lambda records: [record.update(ratio=0.99) for record in records] and None)
    assert found.evidence[-1] == f"and {N_MANY - 20} more differences."


def test_documents_with_one_id_are_distinguished_by_their_text(tmp_path: Path) -> None:
    first, second = (Document.from_words((word, "film"), (), "same") for word in ("good", "bad"))
    record = to_record(cheats.explained(second, Mask.from_spans([(0, 1)], 2), cheats.sure("neg")))
    saved = read_saved(small.write_jsonl(tmp_path / "explained.jsonl", [record, record, record]))
    assert match_documents(saved, [first, second]) == [second, first, None]


UNREADABLE = r"line 1 is not an explanation: its probability cannot be read"
LINE = '{"id": "a", "label": "b", "probability": %s, "probabilities": {"b": 1}, "rationale": %s, "ratio": 0}'


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", r"explained\.jsonl holds no explanations"),
        ("text,label\na,b\n", r"explained\.jsonl, line 1: broken JSON"),
        ('\n{"text": "a", "label": "b"}', r"line 2 is not an explanation: it has no id"),
        *((LINE % (number, "[]"), UNREADABLE) for number in ("NaN", "1" + 400 * "0", "true")),
        (LINE % (1, "[[0, 1]]"), r"line 1 is not an explanation: its rationale cannot be read"),
        (LINE % (1, '[{"start": true, "end": 1, "text": "a"}]'), r"line 1 is not .*its rationale cannot be read"),
    ],
)
def test_other_files_are_refused(text: str, message: str, tmp_path: Path) -> None:
    path = tmp_path / "explained.jsonl"
    path.write_text(text, encoding="utf-8")
    with pytest.raises(DataError, match=rf"{message}.*fresh explain --output"):
        read_saved(path)


def test_a_model_with_other_labels_and_data_with_other_names_are_refused(
    model: Rationalizer, many: list[Document], tmp_path: Path
) -> None:
    whole = Mask.full(len(many[0].words))
    foreign = cheats.explained(many[0], whole, Prediction("good", {"bad": 0.25, "good": 0.75}))
    path = small.write_jsonl(tmp_path / "explained.jsonl", [to_record(foreign)])
    with pytest.raises(DataError, match=r"explained\.jsonl is from another model.* bad, good.* neg, pos"):
        replay_saved(model, many, path)
    stranger = cheats.explained(Document.from_words(("film",), (), "stranger"), Mask.full(1), cheats.sure("neg"))
    with pytest.raises(DataError, match=rf"No document of.*'stranger'.*{many[0].id!r}.*`id`"):
        replay_saved(model, many, small.write_jsonl(path, [to_record(stranger)]))
