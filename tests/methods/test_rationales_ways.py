import re
from pathlib import Path
from typing import Any

import pytest

import small
from fresh.attribution.config import ScorerConfig
from fresh.attribution.support_model import SupportModel
from fresh.config import from_mapping
from fresh.data.splits import Splits
from fresh.document import Example
from fresh.errors import ConfigError, DataError
from fresh.methods.config import CutConfig, FreshConfig, _TaggerConfig
from fresh.methods.fresh import train, train_and_mark
from fresh.nn.config import NetworkConfig
from fresh.rationalizer import Rationalizer
from fresh.selection.discretizers import TopK
from fresh.selection.extractors import SaliencyExtractor
from fresh.selection.tagger import Tagger
from fresh.training.loop import RunContext
from shared_marking import config_of

# From settings to a saved model


WAYS: dict[str, dict[str, Any]] = {
    "distil": {"distil": True, "scorer": "gradient"},
    "tagger": {"tagger": True},
    "crf": {"tagger": True, "crf": True},
    "some people": {"tagger": True, "human": 0.5},
    "people": {"tagger": True, "human": 1},
    "people in order": {"tagger": True, "human": 1, "crf": True, "folds": 2},
    "folds": {"folds": 2},
    "tagger in folds": {"tagger": True, "folds": 2},
    "contiguous": {"tagger": True, "discretizer": "contiguous"},
    "common budget": {"tagger": True, "discretizer": "global_contiguous", "folds": 2},
    "any length": {"tagger": True, "ratio": "0.1:0.5"},
}


@pytest.mark.parametrize("way", WAYS)
def test_every_way_ends_in_a_model_that_can_be_saved(
    way: str, toy: Splits, encoders: dict[str, Path], tmp_path: Path
) -> None:
    splits = small.some(toy, 24, 8)
    model = train(splits, config_of(encoders, epochs=1, **WAYS[way]))
    assert isinstance(model.extractor, SaliencyExtractor)
    kind = model.extractor.scorer.network.kind if isinstance(model.extractor.scorer, Tagger) else None
    assert kind == (None if way == "folds" else "chain" if WAYS[way].get("crf") else "words")
    model.save_pretrained(tmp_path / "model")
    loaded = Rationalizer.from_pretrained(tmp_path / "model", device="cpu")
    documents = [item.document for item in splits.test]
    for one, other in zip(model.explain(documents), loaded.explain(documents), strict=True):
        assert one.mask == other.mask
        assert one.prediction == other.prediction
    assert loaded.settings["tagging"]["tagger"] == WAYS[way].get("tagger", False)


def test_no_support_model_is_trained_where_people_say_all(
    toy: Splits, encoders: dict[str, Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(*_given: Any, **_settings: Any) -> None:
        raise AssertionError("a support model was trained")

    monkeypatch.setattr(SupportModel, "train_many", refuse)
    config = config_of(encoders, epochs=1, tagger=True, human=1, folds=2)
    assert train_and_mark(small.some(toy, 24, 8), config, RunContext()).support is None
    with pytest.raises(AssertionError):
        train(small.some(toy, 24, 8), config_of(encoders, epochs=1, tagger=True, human=0.5))


def test_a_distilled_model_keeps_its_support_model_for_comparison(toy: Splits, encoders: dict[str, Path]) -> None:
    trained = train_and_mark(small.some(toy, 24, 8), config_of(encoders, epochs=1, distil=True), RunContext())
    assert isinstance(trained.model.extractor, SaliencyExtractor)
    assert trained.model.extractor.support is None
    assert trained.support is not None
    assert [len(mask) for mask in trained.masks] == [len(item.document.words) for item in toy.train[:24]]
    assert [len(mask) for mask in trained.dev_masks] == [len(item.document.words) for item in toy.dev[:8]]


def test_people_must_have_marked_something_before_a_tagger_learns_from_them(
    toy: Splits, encoders: dict[str, Path]
) -> None:
    silent = tuple(Example(item.document, item.label) for item in toy.train[:24])
    with pytest.raises(DataError, match=r"^human=0\.5 asks for people's rationales, but no training document has"):
        train(Splits(silent, toy.dev, toy.test), config_of(encoders, epochs=1, tagger=True, human=0.5))


# What is refused


@pytest.mark.parametrize(
    ("settings", "expected"),
    [
        ({"tagger": True, "human": -0.1}, "human must be from 0 to 1, got -0.1."),
        ({"tagger": True, "human": 1.5}, "human must be from 0 to 1, got 1.5."),
        ({"tagger": True, "human": float("nan")}, "human must be from 0 to 1, got nan."),
        ({"crf": True}, "crf can only be had with a tagger: tagger=True."),
        ({"human": 0.2}, "human can only be had with a tagger: tagger=True."),
        ({"crf": True, "human": 0.2}, "crf and human can only be had with a tagger: tagger=True."),
        (
            {"distil": True, "human": 0.2},
            "distil learns from the scorer alone: leave human out, or take tagger in place of distil.",
        ),
        ({"human": 2}, "human must be from 0 to 1, got 2.\nhuman can only be had with a tagger: tagger=True."),
    ],
)
def test_a_tagger_that_makes_no_sense_is_refused(settings: dict[str, Any], expected: str) -> None:
    with pytest.raises(ValueError, match=f"^{re.escape(expected)}$"):
        _TaggerConfig(**settings)


@pytest.mark.parametrize(
    ("settings", "expected"),
    [
        ({"folds": 0}, "folds must be at least 1, got 0."),
        ({"folds": 2, "scorer": "random"}, "folds are of no use to random words: leave them out."),
        (
            {"discretizer": "threshold", "tagging": _TaggerConfig(tagger=True)},
            "Scores of a tagger run from 0 to 1 and those of a scorer do not, so that no cutoff serves both: choose "
            "another discretizer than threshold.",
        ),
        (
            {"scorer": "random", "network": NetworkConfig(long="truncate")},
            "Random words are drawn from whole documents: take long=stagger or long=chunk.",
        ),
        (
            {"scorer": "random", "tagging": _TaggerConfig(tagger=True)},
            "A tagger cannot learn to find random words: choose another scorer.",
        ),
        (
            {"scorer": "random", "tagging": _TaggerConfig(distil=True)},
            "A tagger cannot learn to find random words: choose another scorer.",
        ),
        (
            {"network": NetworkConfig(long="chunk"), "scoring": ScorerConfig(layer=-2)},
            "layer must be -1 with long=chunk: attention is there what the head weighs words by.",
        ),
        (
            {"scorer": "attention", "scoring": ScorerConfig(layer="all")},
            "layer=all adds up what raises the answer, which attention alone does not say: name one layer, or take the "
            "scorer attention_shift or attention_gradient.",
        ),
        (
            {"scorer": "gradeint", "ratio": 2.0, "folds": -1},
            "gradeint is not a scorer. Did you mean gradient?\nratio must be above 0 and at most 1, got 2.0.\n"
            "folds must be at least 1, got -1.",
        ),
    ],
)
def test_settings_that_make_no_sense_are_refused(settings: dict[str, Any], expected: str) -> None:
    with pytest.raises(ValueError, match=f"^{re.escape(expected)}$"):
        FreshConfig(**settings)


def test_people_can_teach_a_tagger_whatever_the_scorer() -> None:
    assert FreshConfig(scorer="random", tagging=_TaggerConfig(tagger=True, human=1)).tagging.tags


NOT_NUMBERS = "ratio must be a number, or two as in 0.05:0.5, got {!r}."
WRONG_WAY = "ratio must go from a smaller number to a larger one, got {}."


@pytest.mark.parametrize(
    ("ratio", "discretizer", "expected"),
    [
        ("0.5:0.05", "top_k", WRONG_WAY.format("0.5:0.05")),
        ("0.2:0.2", "contiguous", WRONG_WAY.format("0.2:0.2")),
        ("nan:0.2", "top_k", WRONG_WAY.format("nan:0.2")),
        ("low:high", "top_k", NOT_NUMBERS.format("low:high")),
        ("0.1:", "top_k", NOT_NUMBERS.format("0.1:")),
        ("0.1:0.2:0.3", "top_k", NOT_NUMBERS.format("0.1:0.2:0.3")),
        ("much", "top_k", NOT_NUMBERS.format("much")),
        ("0:0.5", "top_k", "ratio must be above 0 and at most 1, got 0.0."),
        ("-0.2:-0.1", "top_k", "ratio must be above 0 and at most 1, got -0.2."),
        ("0.5:1.5", "top_k", "ratio must be above 0 and at most 1, got 1.5."),
        *(
            ("0.05:0.5", name, f"A range of ratios needs the discretizer top_k or contiguous, got {name}.")
            for name in ("global_top_k", "global_contiguous", "threshold")
        ),
    ],
)
def test_a_range_that_makes_no_sense_is_refused(ratio: str, discretizer: str, expected: str) -> None:
    with pytest.raises(ValueError, match=f"^{re.escape(expected)}$"):
        CutConfig(ratio=ratio, discretizer=discretizer)
    with pytest.raises(ConfigError, match=f"^{re.escape(expected)}$"):
        from_mapping(FreshConfig, {"ratio": ratio, "discretizer": discretizer})


def test_a_ratio_may_be_written_as_text() -> None:
    assert from_mapping(FreshConfig, {"ratio": "0.3"}).make_discretizer() == TopK(0.3)
    assert from_mapping(FreshConfig, {"ratio": "0.3"}).ratios is None


def test_more_folds_than_documents_are_refused_before_any_training(
    toy: Splits, encoders: dict[str, Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(SupportModel, "train_many", lambda *_given, **_more: pytest.fail("trained all the same"))
    with pytest.raises(
        DataError, match=r"^folds=1000 is more than the \d+ different documents there are to train on\."
    ):
        train(toy, config_of(encoders, epochs=1, folds=1000))
