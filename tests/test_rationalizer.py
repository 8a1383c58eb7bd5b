import math
from collections.abc import Sequence
from dataclasses import FrozenInstanceError, replace
from operator import length_hint
from pathlib import Path
from typing import Any
from unittest.mock import patch

import numpy as np
import pytest

import small
from fresh.attribution.support_model import SupportModel
from fresh.config import from_mapping
from fresh.data.splits import Splits
from fresh.document import Document, Explanation
from fresh.methods.config import FreshConfig
from fresh.methods.fresh import train
from fresh.predictor import Predictor
from fresh.rationalizer import Rationalizer
from fresh.selection.discretizers import TopK
from fresh.selection.extractors import FullText
from fresh.training.config import ClassifierConfig
from toy import DECIDING

TEXT = "The film, was good and it plays in the sea."


@pytest.fixture(scope="module")
def query_model(pair_support: SupportModel) -> Rationalizer:
    pair = small.rationalizer(pair_support, Predictor(pair_support.classifier), TopK(0.2))
    return replace(pair, needs_query=True)


@pytest.fixture(scope="module")
def documents(toy: Splits) -> list[Document]:
    """Documents of many lengths, some unlike all training documents."""
    strange = Document.from_text("Étonnant 😀 naïve-ish: it's GOOD, [SEP] 3.5/5!", id="strange")
    long = Document.from_words(["the", "film"] * 60 + ["awful"], id="long")
    return [*(example.document for example in toy.test), strange, long]


def test_a_text_gives_the_explanation_of_its_document_and_a_list_a_list(rationalizer: Rationalizer) -> None:
    from_text, from_document = rationalizer.explain(TEXT), rationalizer.explain(Document.from_text(TEXT))
    assert from_text.document == from_document.document == Document.from_text(TEXT)
    assert (from_text.mask, from_text.prediction) == (from_document.mask, from_document.prediction)
    found = rationalizer.explain([Document.from_text("it was awful", id="x"), TEXT, "a great story"])
    assert [item.document.text for item in found] == ["it was awful", TEXT, "a great story"]
    assert found[0].document.id == "x"
    assert rationalizer.explain([]) == []


def test_an_explanation_holds_the_rationale_object_that_was_read(
    rationalizer: Rationalizer, documents: list[Document]
) -> None:
    with patch.object(Predictor, "predict", autospec=True, side_effect=Predictor.predict) as predict:
        explained = rationalizer.explain(documents)
    [(_, read)] = (call.args for call in predict.call_args_list)
    for explanation, rationale in zip(explained, read, strict=True):
        assert explanation.rationale is rationale is explanation.rationale


def test_an_explanation_is_consistent(rationalizer: Rationalizer, documents: list[Document]) -> None:
    for document, found in zip(documents, rationalizer.explain(documents), strict=True):
        assert found.document is document
        assert set(found.prediction.probabilities) == set(rationalizer.labels) == {"neg", "pos"}
        assert sum(found.prediction.probabilities.values()) == pytest.approx(1, abs=1e-9)
        assert found.prediction.label == max(found.prediction.probabilities, key=found.prediction.probabilities.get)  # type: ignore[arg-type]
        assert found.prediction.probability == max(found.prediction.probabilities.values())
        assert int(found.mask.kept.sum()) == math.ceil(len(document.words) / 5)
        shown = " ".join(document.text[start:end] for start, end in found.spans)
        assert "".join(shown.split()) == "".join(found.rationale.words)
        assert found.saliency is not None
        lowest_kept = found.saliency.scores[found.mask.kept].min()
        assert lowest_kept >= found.saliency.scores[~found.mask.kept].max()


def test_fresh_finds_the_deciding_word(toy: Splits, quick: ClassifierConfig) -> None:
    # With integrated gradients, any seed will do; on a network of two layers, other scorers need a lucky one.
    model = train(toy, FreshConfig(scorer="integrated_gradients", network=quick.network, train=quick.train)).model
    found = model.explain([example.document for example in toy.test])
    correct = [item.prediction.label == example.label for item, example in zip(found, toy.test, strict=True)]
    kept = [bool(DECIDING & set(item.rationale.words)) for item in found]
    assert np.mean(correct) > 0.95
    assert np.mean(kept) > 0.95


def test_a_full_text_model_has_no_scores(predictor: Predictor) -> None:
    found = Rationalizer(FullText(), predictor).explain(TEXT)
    assert found.saliency is None
    assert found.mask.ratio == 1
    assert found.rationale.words == found.document.words


def test_a_stream_reads_one_batch_at_a_time(rationalizer: Rationalizer, documents: list[Document]) -> None:
    unread = iter(documents)
    stream = rationalizer.explain_stream(unread, batch_size=4)
    assert length_hint(unread) == len(documents)
    for number in range(1, 9):
        next(stream)
        assert length_hint(unread) == len(documents) - 4 * math.ceil(number / 4)


def test_batches_and_their_order_do_not_matter(rationalizer: Rationalizer, documents: list[Document]) -> None:
    alone = [rationalizer.explain(document) for document in documents]
    for size in (1, 2, 5, 13, 34, 64):
        assert_same(alone, list(rationalizer.explain_stream(iter(documents), batch_size=size)))
    order = np.random.default_rng(0).permutation(len(documents))
    assert_same([alone[number] for number in order], rationalizer.explain([documents[number] for number in order]))


def assert_same(some: Sequence[Explanation], others: Sequence[Explanation]) -> None:
    """Check that masks and labels are equal; sums over batches of another shape may differ in their last digits."""
    for one, other in zip(some, others, strict=True):
        assert (one.document, one.mask, one.prediction.label) == (other.document, other.mask, other.prediction.label)
        for label, probability in one.prediction.probabilities.items():
            assert other.prediction.probabilities[label] == pytest.approx(probability, abs=1e-5)


def test_queries_come_with_all_documents_or_with_none(rationalizer: Rationalizer, query_model: Rationalizer) -> None:
    with pytest.raises(ValueError, match=r"^Document 'x' has no query, but this model was trained with queries\. Give"):
        query_model.explain(Document.from_text("a good film", id="x"))
    with pytest.raises(ValueError, match=r"^Document '' has a query, but .* trained without queries\. Leave it out\.$"):
        rationalizer.explain("a good film", query="praise?")


def test_a_query_reaches_the_predictor(query_model: Rationalizer) -> None:
    found = query_model.explain("the film was good", query="Any praise?")
    assert found.rationale.query == ("Any", "praise", "?")
    other = query_model.explain("the film was good", query="blame")
    assert found.prediction.probabilities != other.prediction.probabilities


def test_a_rationalizer_is_frozen(rationalizer: Rationalizer, predictor: Predictor) -> None:
    with pytest.raises(
        AttributeError, match=r"^A rationalizer is frozen: predictor cannot be changed\. Create another one"
    ):
        rationalizer.predictor = predictor
    with pytest.raises(FrozenInstanceError):
        rationalizer.predictor.classifier = predictor.classifier  # type: ignore[misc]


def test_one_seed_gives_one_model_and_another_seed_another(
    toy: Splits, encoders: dict[str, Path], tmp_path: Path
) -> None:
    for name, seed in (("one", 0), ("same", 0), ("other", 1)):
        config = from_mapping(FreshConfig, small.settings(encoders["bert"], epochs=1, seed=seed))
        train(small.some(toy), config).model.save_pretrained(tmp_path / name)
    one, same, other = (small.digests(tmp_path / name) for name in ("one", "same", "other"))
    assert one == same
    changed = {file for file in one if one[file] != other[file]}
    assert changed == {
        f"{half}/{file}.safetensors" for half in ("extractor", "predictor") for file in ("model", "head")
    }


def test_a_file_is_explained_like_its_texts(rationalizer: Rationalizer, tmp_path: Path) -> None:
    file = small.write_csv(tmp_path / "in.csv", [{"review": TEXT}, {"review": "a bad film"}])
    found = list(rationalizer.explain_file(file, text="review"))
    assert [item.document.id for item in found] == ["in-1", "in-2"]
    assert [item.prediction.label for item in found] == [
        rationalizer.explain(text).prediction.label for text in (TEXT, "a bad film")
    ]
    assert found[0].ratio == found[0].mask.ratio == 3 / 12


@pytest.mark.parametrize(
    ("given", "kind"),
    [([("a good film", "pos")], "tuple"), ([None], "NoneType"), (0.5, "float"), ({"a film": 1}, "dict")],
)
def test_only_texts_and_documents_can_be_explained(given: Any, kind: str, rationalizer: Rationalizer) -> None:
    with pytest.raises(TypeError, match=rf"^Texts and documents can be explained, got {kind}\.$"):
        rationalizer.explain(given)


def test_a_batch_has_at_least_one_document(rationalizer: Rationalizer) -> None:
    with pytest.raises(ValueError, match=r"^batch_size must be at least 1, got 0\.$"):
        list(rationalizer.explain_stream([], batch_size=0))
