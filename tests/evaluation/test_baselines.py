import re
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

import fresh
import small
from fresh.attribution.random import Random
from fresh.attribution.support_model import SupportModel
from fresh.data.splits import Splits
from fresh.document import Document, Example, Mask
from fresh.evaluation.baselines import Baselines, drawn_masks, is_baseline, most_frequent, train_baselines
from fresh.evaluation.html_report import check_report, report_of
from fresh.predictor import Predictor
from fresh.rationalizer import Rationalizer
from fresh.selection.discretizers import Contiguous, TopK
from fresh.selection.extractors import FullText, SaliencyExtractor
from fresh.selection.tagger import Tagger, build_tagger
from fresh.training.config import ClassifierConfig
from fresh.training.loop import RunContext


def labelled(*labels: str) -> list[Example]:
    return [Example(Document.from_text("a film"), label) for label in labels]


def test_the_most_frequent_label_is_the_first_of_several() -> None:
    assert most_frequent(labelled("b", "a", "b")) == "b"
    assert most_frequent(labelled("b", "a", "c", "a", "b")) == "a"


def test_what_others_are_held_against_is_not_held_against_itself(predictor: Predictor) -> None:
    random = SaliencyExtractor(Random(), TopK(0.2))
    assert is_baseline(Rationalizer(FullText(), predictor))
    assert is_baseline(Rationalizer(random, predictor, {"method": "random"}))
    assert not is_baseline(Rationalizer(random, predictor, {"method": "fresh"}))


def test_each_reads_its_own_part_and_a_model_of_full_text_is_trained_only_once(
    toy: Splits, support: SupportModel, predictor: Predictor, quick: ClassifierConfig, monkeypatch: pytest.MonkeyPatch
) -> None:
    splits = small.some(toy)
    model = small.rationalizer(support, predictor, Contiguous(0.4))
    masks, dev_masks = (
        model.extractor.extract([item.document for item in part]) for part in (splits.train, splits.dev)
    )
    taught: dict[str, list[tuple[str, ...]]] = {}

    def train(train: list[tuple[object, str]], dev: object, config: object, context: RunContext) -> Predictor:
        taught[context.name] = [rationale.words for rationale, _ in train]  # type: ignore[attr-defined]
        return predictor

    monkeypatch.setattr(Predictor, "train", train)
    found = train_baselines(splits, model, (masks, dev_masks), None, quick, RunContext())
    documents = [example.document for example in splits.train]
    drawn = drawn_masks(model, documents, masks)
    assert all(len(mask.spans) == 1 for mask in drawn)
    assert taught == {
        "random words": [item.cut(mask).words for item, mask in zip(documents, drawn, strict=True)],
        "complement": [item.cut(~mask).words for item, mask in zip(documents, masks, strict=True)],
        "full text": [item.words for item in documents],
    }
    assert found == Baselines(predictor, predictor, predictor, most_frequent(splits.train))
    taught.clear()
    assert train_baselines(splits, model, (masks, dev_masks), support, quick, RunContext()).full_text is support
    assert list(taught) == ["random words", "complement"]
    taught.clear()
    whole = replace(model, extractor=FullText())
    assert train_baselines(splits, whole, (masks, dev_masks), None, quick, RunContext()) == Baselines(
        majority=most_frequent(splits.train)
    )
    assert not taught


def test_no_word_is_drawn_that_truncating_left_unread(quick: ClassifierConfig, predictor: Predictor) -> None:
    network = replace(quick.network, long="truncate")
    model = Rationalizer(
        SaliencyExtractor(Tagger(build_tagger("words", replace(quick, network=network))), TopK(0.1)), predictor
    )
    document = Document.from_words(["film"] * 5000)
    [mask] = model.extractor.extract([document])
    [drawn] = drawn_masks(model, [document], [mask])
    last = int(np.flatnonzero(drawn.kept)[-1])
    assert drawn.kept.sum() == mask.kept.sum() > 0
    assert last < 512


def test_full_text_is_read_by_either_kind_of_model(toy: Splits, support: SupportModel, predictor: Predictor) -> None:
    documents = [example.document for example in toy.test[:4]]
    read = [Mask.full(len(document.words)) for document in documents]
    assert Baselines().read_all(documents, read) is None
    assert Baselines(support).read_all(documents, read) == support.predict(documents)
    whole = [document.cut(mask) for document, mask in zip(documents, read, strict=True)]
    assert Baselines(predictor).read_all(documents, read) == predictor.predict(whole)


@pytest.mark.parametrize("method", ["fresh", "lei"])
def test_what_truncating_leaves_unread_was_not_dropped(encoders: dict[str, Path], toy: Splits, method: str) -> None:
    few = Splits(toy.train[:16], toy.dev[:8], toy.test[:8])
    long = replace(few.train[0], document=Document.from_words(["film"] * 5000, id="long"), human=None)
    splits = Splits((long, *few.train[1:]), few.dev, (replace(long, label=few.test[0].label), *few.test[1:]))
    chosen = small.run_settings(encoders["bert"], epochs=1, method=method, long="truncate")
    model = fresh.train(splits, progress=fresh.SILENT, **chosen)
    assert model.report is not None
    kept = {row.name: row.kept for row in model.report.rows}
    assert kept["complement"] < 0.15  # 512 pieces of 5,000 words, and seven short documents


def test_the_page_of_a_model_stands_beside_its_folder(tmp_path: Path) -> None:
    page = report_of(tmp_path / "my.model")
    assert page == tmp_path / "my.model-report.html"
    check_report(page, overwrite=False)
    page.touch()
    check_report(page, overwrite=True)
    message = f"{page} is there already. Choose another folder for the model, or replace it: overwrite=True."
    with pytest.raises(ValueError, match=f"^{re.escape(message)}$"):
        check_report(page, overwrite=False)
