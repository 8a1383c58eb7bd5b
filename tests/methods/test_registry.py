"""What all methods have in common."""

from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import small
from experiments import write_toy
from fresh.attribution import SCORERS
from fresh.cli.main import main
from fresh.data.splits import Splits
from fresh.errors import ConfigError
from fresh.methods.config import METHODS
from fresh.methods.registry import MethodResult
from fresh.persistence import read_files
from fresh.pipeline import train
from fresh.progress import SILENT
from fresh.rationalizer import Rationalizer
from fresh.selection.discretizers import budget
from fresh.selection.extractors import SaliencyExtractor
from fresh.selection.tagger import Tagger
from method_cases import CASES, Case, Trained
from strategies import masks, with_other_dropped_words

GATES = ("lei", "bastings")
pytestmark = pytest.mark.filterwarnings("ignore:The gate has collapsed")  # for want of epochs


@pytest.fixture(scope="module", params=CASES)
def made(request: pytest.FixtureRequest, trained: Trained) -> tuple[Case, Splits, MethodResult]:
    """A model of each kind, hardly trained."""
    return CASES[request.param], *trained(request.param)


def test_training_ends_in_a_pair_of_extractor_and_predictor(made: tuple[Case, Splits, MethodResult]) -> None:
    case, splits, result = made
    model = result.model
    assert type(model) is Rationalizer
    assert model.labels == splits.labels
    assert model.settings["method"] == case.method
    assert model.needs_query == case.asks
    for part, kept in ((splits.train, result.masks()), (splits.dev, result.dev_masks())):
        assert [len(mask) for mask in kept] == [len(example.document.words) for example in part]
    if case.settings.get("folds", 1) == 1:
        assert result.dev_masks() == model.extractor.extract([example.document for example in splits.dev])


def test_rationales_are_as_long_as_asked(made: tuple[Case, Splits, MethodResult]) -> None:
    case, splits, result = made
    explained = result.model.explain([example.document for example in splits.test])
    if "contiguous" in case.settings.get("discretizer", ""):
        assert all(len(item.mask.spans) == 1 for item in explained)
    if "global" in case.settings.get("discretizer", ""):
        return  # how long one is depends on all
    ratio = 1.0 if case.method == "full_text" else case.settings.get("ratio", 0.2)
    for item, example in zip(explained, splits.test, strict=True):
        if case.method == "human":
            assert item.mask == example.human
        else:
            n_expected = budget(len(example.document.words), 0.224 if isinstance(ratio, str) else ratio)
            assert int(item.mask.kept.sum()) == n_expected


@given(st.data())
@settings(max_examples=8)
def test_a_dropped_word_cannot_matter(made: tuple[Case, Splits, MethodResult], data: st.DataObject) -> None:
    _, splits, result = made
    document = data.draw(st.sampled_from(splits.test)).document
    [own] = result.model.extractor.extract([document])
    for mask in (own, data.draw(masks(document))):
        other = data.draw(with_other_dropped_words(document, mask))
        assert other.cut(mask) == document.cut(mask)
        predictor = result.model.predictor
        assert predictor.predict([other.cut(mask)]) == predictor.predict([document.cut(mask)])


def test_a_saved_model_gives_the_same_answers(made: tuple[Case, Splits, MethodResult], tmp_path: Path) -> None:
    case, splits, result = made
    result.model.save_pretrained(tmp_path / "model")
    again = Rationalizer.from_pretrained(tmp_path / "model", device="cpu")
    again.save_pretrained(tmp_path / "again")
    assert small.digests(tmp_path / "again") == small.digests(tmp_path / "model")
    assert again.settings == result.model.settings
    assert again.ratios == result.model.ratios
    documents = [example.document for example in splits.test]
    assert small.answers(result.model.explain(documents)) == small.answers(again.explain(documents))
    if isinstance(result.model.extractor, SaliencyExtractor):
        assert isinstance(again.extractor, SaliencyExtractor)
        tagger = again.extractor.scorer
        assert isinstance(tagger, Tagger) == (case.method in GATES or bool({"tagger", "distil"} & case.settings.keys()))
        assert not isinstance(tagger, Tagger) or (tagger.network.kind == "chain") == ("crf" in case.settings)


def test_a_custom_scorer_is_for_fresh(toy: Splits, encoders: dict[str, Path]) -> None:
    with pytest.raises(ConfigError, match=r"^scorer is a setting of fresh, not of the method lei"):
        train(toy, scorer=small.LongWords, method="lei", progress=SILENT, **small.run_settings(encoders["bert"]))


WAYS = {
    **{name: ("--method", name) for name in METHODS if name != "fresh"},
    **{name: ("--scorer", name) for name in SCORERS},
    "tagger": ("--tagger", "--crf"),
    "range": ("--ratio", "0.1:0.5"),
    "contiguous": ("--discretizer", "contiguous"),
    "chunk": ("--long", "chunk", "--max-pieces", "16"),
    "audited": ("--audit",),
}


@pytest.mark.slow
@pytest.mark.parametrize("way", WAYS)
def test_equal_trainings_have_equal_bytes(way: str, toy: Splits, encoders: dict[str, Path], tmp_path: Path) -> None:
    data = str(write_toy(tmp_path / "toy", toy, 32, 8))
    options = [*small.options(encoders["bert"], dropout=0.3, seed=5), *WAYS[way]]
    for name in ("first", "second"):
        assert main(["train", data, "--out", str(tmp_path / name / "model"), *options]) == 0
    first, second = (read_files(tmp_path / name / "model") for name in ("first", "second"))
    assert first.keys() == second.keys()
    assert [name for name in first if first[name] != second[name]] == []
    assert main(["train", data, "--out", str(tmp_path / "other" / "model"), *options, "--seed", "6"]) == 0
    other, name = read_files(tmp_path / "other" / "model"), "predictor/model.safetensors"
    assert other[name] != first[name]
