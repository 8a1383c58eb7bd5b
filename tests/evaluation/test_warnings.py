import re
from dataclasses import replace
from io import StringIO
from pathlib import Path
from typing import Any
from unittest.mock import Mock

import pytest
from rich.console import Console

import fresh.training.fit
import small
from fresh.attribution.support_model import SupportModel
from fresh.config import from_mapping
from fresh.data import BadRows, Splits
from fresh.data.fingerprints import TrainingFingerprints
from fresh.document import Document, Example, Mask
from fresh.errors import DataError, TooLongError
from fresh.evaluation.comparison import compare
from fresh.evaluation.evaluation import evaluate
from fresh.evaluation.warnings import (
    MIN_DOCUMENTS,
    corpus_warnings,
    data_warnings,
    drop_too_long,
    drop_too_long_splits,
)
from fresh.methods.config import FreshConfig
from fresh.nn.config import NetworkConfig
from fresh.persistence import FINGERPRINTS
from fresh.pipeline import train
from fresh.predictor import Predictor
from fresh.progress import SILENT
from fresh.rationale import Prediction
from fresh.rationalizer import Rationalizer
from fresh.reporting.console import show_report
from fresh.selection.discretizers import TopK
from fresh.selection.extractors import FullText

# Documents that are few, of one class, known from training, or not annotated


@pytest.fixture(scope="module")
def trained(model: Rationalizer, toy: Splits) -> Rationalizer:
    """A model that knows its training documents."""
    return replace(model, fingerprints=TrainingFingerprints.from_documents(example.document for example in toy.train))


@pytest.fixture(scope="module")
def new(trained: Rationalizer, toy: Splits) -> list[Example]:
    """Test documents that are not in train too."""
    assert trained.fingerprints is not None
    return [example for example in toy.test if not trained.fingerprints.count([example.document])]


def assert_warned(warnings: tuple[str, ...], *patterns: str) -> None:
    assert len(warnings) == len(patterns), warnings
    assert all(re.match(pattern, warning) for pattern, warning in zip(patterns, warnings, strict=True)), warnings


def test_documents_known_from_training_are_counted(trained: Rationalizer, new: list[Example], toy: Splits) -> None:
    assert data_warnings(trained, new[-MIN_DOCUMENTS:]) == data_warnings(trained, new) == ()
    assert data_warnings(replace(trained, fingerprints=None), toy.train) == ()
    n_train = len(toy.train)
    assert_warned(data_warnings(trained, toy.train), rf"{n_train} of {n_train} documents .*training data")


@pytest.mark.parametrize(
    ("n_words", "settings", "expected"),
    [
        (10, {}, r"10 words or fewer.* at most 2 words with ratio=0\.2\. .*ratio=0\.5\."),
        (12, {"ratio": 0.25}, r"at most 3 words with ratio=0\.25\. .*ratio=0\.5\."),
        (19, {}, None),  # four words
        (5, {}, None),  # nothing is better
        (10, {"ratio": "0.1:0.5"}, None),
        (10, {"discretizer": "threshold"}, None),
    ],
)
def test_rationales_of_two_or_three_words_are_noticed_before_training(
    n_words: int, settings: dict[str, Any], expected: str | None
) -> None:
    texts = [Document.from_words(["a"] * n_words, id=str(number)) for number in range(24)]
    examples = tuple(Example(text, ("neg", "pos")[number % 2]) for number, text in enumerate(texts))
    found = [*corpus_warnings(Splits(examples, examples, examples), FreshConfig(**settings))]
    assert len(found) == (expected is not None)
    if expected is not None:
        assert re.search(expected, found[0])


def test_labels_of_few_documents_are_noticed_before_training() -> None:
    labels = ["pos"] * 20 + ["neg"] * 9 + ["mixed"] * 2
    examples = tuple(Example(Document.from_words(["a"] * 30, id=str(n)), label) for n, label in enumerate(labels))
    [found] = corpus_warnings(Splits(examples, examples, examples), FreshConfig())
    assert "label mixed (2), neg (9): " in found


def test_a_model_with_a_single_answer_is_noticed(trained: Rationalizer, toy: Splits) -> None:
    sure = Mock(wraps=trained.predictor)
    sure.classifier = trained.predictor.classifier
    sure.predict = lambda items, *_: [Prediction("pos", {"neg": 0.1, "pos": 0.9})] * len(items)
    notes = evaluate(replace(trained, predictor=sure), toy.test).report.notes
    assert any(note.startswith("Every answer is 'pos'") for note in notes)
    assert not any(note.startswith("Every answer") for note in evaluate(trained, toy.test).report.notes)


def test_few_documents_of_one_class(trained: Rationalizer, toy: Splits) -> None:
    model, good = replace(trained, fingerprints=None), [example for example in toy.test if example.label == "pos"]
    assert_warned(data_warnings(model, good[:12]), r"All documents have the label 'pos'", r"Only 12 documents.* 30, ")
    assert_warned(data_warnings(model, good[:1]), r"All documents have the label 'pos'", r"Only 1 document: ")


def test_empty_rationales_among_others(trained: Rationalizer, new: list[Example]) -> None:
    nothing = Mask.from_spans([], len(new[0].document.words))
    warnings = data_warnings(trained, [replace(new[0], human=nothing), *new[1:]])
    assert_warned(warnings, rf"1 of {len(new)} human rationales are empty.*null")
    assert data_warnings(trained, [replace(new[0], human=None), *new[1:]]) == ()


def test_report_terminal_and_comparison_show_warnings(trained: Rationalizer, toy: Splits) -> None:
    report = evaluate(trained, toy.train[:4]).report
    assert_warned(report.notes, r"4 of 4 documents were in the training data", r"Only 4 documents")
    file = StringIO()
    show_report(Console(file=file, width=400), report)
    assert all(note in report.to_markdown() and note in file.getvalue() for note in report.notes)
    table = compare({"knows": trained, "does not": replace(trained, fingerprints=None)}, toy.train[:40])
    assert table.notes[0].startswith("knows: 40 of 40 documents were in the training data")
    assert table.to_dict()["cautions"] == [table.notes[0]]
    assert not any("does not: " in note for note in table.notes)


def test_a_saved_model_knows_its_training_documents(toy: Splits, encoders: dict[str, Path], tmp_path: Path) -> None:
    splits = small.some(toy)
    train(splits, out=tmp_path / "model", baseline=False, **small.run_settings(encoders["bert"], epochs=1))
    again = Rationalizer.from_pretrained(tmp_path / "model", device="cpu")
    assert again.fingerprints is not None
    assert again.fingerprints.count(example.document for example in (*splits.train, *splits.dev)) == 64
    assert FINGERPRINTS in small.digests(tmp_path / "model")


# Documents that are too long for a network

LONG = Example(Document.from_words(["good"] * 100_000, id="monster"), "pos")
TOO_LONG = r"'monster' has 100,000 words.*4094.*long=chunk.*long=truncate.*max_pieces"


def with_monster(splits: Splits, part: str) -> Splits:
    return replace(splits, **{part: (LONG, *getattr(splits, part))})


@pytest.mark.parametrize("part", ["train", "dev", "test"])
def test_a_document_that_is_too_long_is_named_before_any_training(
    part: str, toy: Splits, encoders: dict[str, Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(fresh.training.fit, "fit", lambda *_jobs: pytest.fail("training began"))
    splits, settings = with_monster(small.some(toy), part), small.run_settings(encoders["bert"])
    with pytest.raises(TooLongError, match=TOO_LONG):
        train(splits, out=tmp_path / "model", progress=SILENT, **settings)
    assert not list(tmp_path.iterdir())


def test_a_document_that_is_too_long_can_be_left_out(toy: Splits, encoders: dict[str, Path]) -> None:
    recorder, some = small.Saying(), small.some(toy)
    settings = small.run_settings(encoders["bert"], epochs=1, baseline=False, skip_bad=True)
    model = train(with_monster(some, "test"), progress=recorder, **settings)
    assert small.reported(model.report).n_documents == len(some.test)
    assert any(re.match(rf"Left out 1 of 81 rows: .*{TOO_LONG}", line) for line in recorder.lines)


def test_a_split_of_nothing_but_monsters_is_an_error(toy: Splits, encoders: dict[str, Path]) -> None:
    config = from_mapping(NetworkConfig, {"encoder": str(encoders["bert"])})
    with pytest.raises(DataError, match=r"no examples for test"):
        drop_too_long_splits(Splits(toy.train, toy.dev, (LONG,)), config, skip_bad=True, progress=SILENT)


def test_truncation_says_what_it_leaves_unread(toy: Splits, encoders: dict[str, Path]) -> None:
    def example(word: str, n_words: int) -> Example:
        return Example(Document.from_words([word] * n_words, id=str(n_words)), "pos" if word == "good" else "neg")

    recorder, config = small.Saying(), NetworkConfig(str(encoders["bert"]), long="truncate")
    assert drop_too_long_splits(toy, config, skip_bad=True, progress=recorder) == toy
    assert recorder.lines == []
    splits = Splits((example("good", 62), example("bad", 62)), (example("good", 62),), (example("good", 248),))
    assert drop_too_long_splits(splits, config, skip_bad=False, progress=recorder) == splits
    [line] = recorder.lines
    assert re.search(r"42\.9% of the words unread.*long=stagger", line)


@pytest.mark.parametrize("scored", [True, False])
def test_documents_of_a_stream_are_left_out_one_by_one(
    scored: bool, support: SupportModel, predictor: Predictor
) -> None:
    model = small.rationalizer(support, predictor, TopK(0.2)) if scored else Rationalizer(FullText(), predictor)
    short, bad = Document.from_text("a good film"), BadRows()
    assert list(drop_too_long(iter([short, LONG.document, short]), model, bad)) == [short, short]
    assert bad.count == 1
    assert re.search(TOO_LONG, bad.messages[0])
