import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any, get_args, get_type_hints

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import small
from fresh.attribution.support_model import SupportModel
from fresh.config import list_settings
from fresh.data.splits import Splits
from fresh.document import Document, Example, Saliency
from fresh.errors import ConfigError, DataError
from fresh.methods.listed import settings_of_methods
from fresh.methods.registry import METHODS, train_method
from fresh.methods.result import MethodResult
from fresh.methods.run_config import RunConfig
from fresh.pipeline import resolve_settings, train
from fresh.progress import SILENT
from fresh.rationalizer import Rationalizer
from fresh.selection.discretizers import budget
from fresh.selection.extractors import FullText, HumanRationales, SaliencyExtractor
from fresh.selection.tagger import Tagger
from fresh.training.loop import RunContext
from shared_methods import CASES, Case, configured, given_to
from strategies import masks, with_other_dropped_words

pytestmark = pytest.mark.filterwarnings("ignore:The gate has collapsed")  # for want of epochs


@pytest.fixture(scope="module", params=CASES)
def made(
    request: pytest.FixtureRequest, toy: Splits, toy_pairs: Splits, encoders: dict[str, Path]
) -> tuple[Case, Splits, MethodResult]:
    """A model of each kind, hardly trained."""
    case = CASES[request.param]
    splits = given_to(case, toy, toy_pairs)
    config = configured(case.method, encoders["bert"], **case.settings)
    return case, splits, train_method(case.method, splits, config, RunContext(), None)


def test_training_ends_in_a_pair_of_extractor_and_predictor(made: tuple[Case, Splits, MethodResult]) -> None:
    case, splits, trained = made
    model = trained.model
    assert type(model) is Rationalizer
    assert model.labels == splits.labels
    assert model.settings["method"] == case.method
    assert model.needs_query == case.asks
    for part, kept in ((splits.train, trained.masks), (splits.dev, trained.dev_masks)):
        assert [len(mask) for mask in kept] == [len(example.document.words) for example in part]
    if case.settings.get("folds", 1) == 1:
        assert trained.dev_masks == model.extractor.extract([example.document for example in splits.dev])


def wanted(case: Case, example: Example) -> int:
    """Say how many words a method has to keep."""
    n_words = len(example.document.words)
    if case.method == "human":
        assert example.human is not None
        return int(example.human.kept.sum())
    ratio = case.settings.get("ratio", 0.2)
    return n_words if case.method == "full_text" else budget(n_words, 0.224 if isinstance(ratio, str) else ratio)


def test_rationales_are_as_long_as_asked(made: tuple[Case, Splits, MethodResult]) -> None:
    case, splits, trained = made
    explained = trained.model.explain([example.document for example in splits.test])
    kept = [int(item.mask.kept.sum()) for item in explained]
    assert kept == [wanted(case, example) for example in splits.test]
    if case.settings.get("discretizer") == "contiguous":
        assert all(len(item.mask.spans) == 1 for item in explained)


@given(st.data())
@settings(max_examples=8, deadline=None)
def test_a_dropped_word_cannot_matter(made: tuple[Case, Splits, MethodResult], data: st.DataObject) -> None:
    _, splits, trained = made
    document = data.draw(st.sampled_from(splits.test)).document
    [own] = trained.model.extractor.extract([document])
    for mask in (own, data.draw(masks(document))):
        other = data.draw(with_other_dropped_words(document, mask))
        assert other.cut(mask) == document.cut(mask)
        predictor = trained.model.predictor
        assert predictor.predict([other.cut(mask)]) == predictor.predict([document.cut(mask)])


def test_a_saved_model_gives_the_same_answers(made: tuple[Case, Splits, MethodResult], tmp_path: Path) -> None:
    _, splits, trained = made
    trained.model.save_pretrained(tmp_path / "model")
    again = Rationalizer.from_pretrained(tmp_path / "model", device="cpu")
    assert again.settings == trained.model.settings
    assert again.ratios == trained.model.ratios
    documents = [example.document for example in splits.test]
    for one, other in zip(trained.model.explain(documents), again.explain(documents), strict=True):
        assert one.mask == other.mask
        assert one.prediction == other.prediction


# Single methods


def test_every_method_has_its_extractor(toy: Splits, encoders: dict[str, Path]) -> None:
    found = {
        name: train_method(name, small.some(toy, 16, 8), configured(name, encoders["bert"]), RunContext(), None).model
        for name in ("full_text", "random", "human")
    }
    assert isinstance(found["full_text"].extractor, FullText)
    assert isinstance(found["human"].extractor, HumanRationales)
    random = found["random"].extractor
    assert isinstance(random, SaliencyExtractor)
    assert random.support is None
    assert not isinstance(random.scorer, Tagger)


def test_random_words_keep_their_order_and_are_the_same_each_time(toy: Splits, encoders: dict[str, Path]) -> None:
    splits = small.some(toy, 16, 8)
    model = train_method("random", splits, configured("random", encoders["bert"], ratio=0.5), RunContext(), None).model
    document = Document.from_words([str(number) for number in range(20)], id="twenty")
    words = model.explain(document).rationale.words
    assert list(words) == sorted(words, key=int)
    assert len(words) == 10
    assert words != tuple(str(number) for number in range(10))
    assert model.explain(document).rationale.words == words


def test_only_documents_with_a_rationale_are_read_as_people_did(toy: Splits, encoders: dict[str, Path]) -> None:
    class Saying:
        lines: list[str] = []  # noqa: RUF012

        def say(self, line: str) -> None:
            self.lines.append(line)

        task = staticmethod(SILENT.task)

    splits = Splits((*toy.train[:16], *toy.train[-4:]), toy.dev[:8], toy.test[:8])
    config = configured("human", encoders["bert"])
    trained = train_method("human", splits, config, RunContext(progress=Saying()), None)
    assert Saying.lines[0] == "4 documents without a human rationale are left out."
    assert trained.masks == [example.human for example in toy.train[:16]]
    expected = (
        f"Nobody had marked words of document {toy.train[-1].document.id!r} when this model was made, and people's "
        "rationales are all that it reads. Train with method=fresh to explain new documents."
    )
    with pytest.raises(ValueError, match=f"^{re.escape(expected)}$"):
        trained.model.explain(toy.train[-1].document)


def unmarked(splits: Splits) -> Splits:
    """Take people's rationales away."""
    parts = (splits.train, splits.dev, splits.test)
    return Splits(*(tuple(Example(example.document, example.label) for example in part) for part in parts))


@pytest.mark.parametrize(
    ("method", "others", "message"),
    [
        (
            "human",
            {},
            "method=human reads people's rationales, but no train document has one. Give data with rationales, or "
            "choose another method.",
        ),
        *(
            (
                method,
                others,
                "human=0.5 asks for people's rationales, but no training document has one. Give data with rationales, "
                "or leave human out.",
            )
            for method, others in (
                ("fresh", {"tagger": True, "human": 0.5}),
                ("lei", {"human": 0.5}),
                ("bastings", {"human": 0.5}),
            )
        ),
    ],
)
def test_people_must_have_marked_something(
    method: str, others: dict[str, Any], message: str, toy: Splits, encoders: dict[str, Path]
) -> None:
    splits = unmarked(small.some(toy, 16, 8))
    with pytest.raises(DataError, match=f"^{re.escape(message)}$"):
        train(splits, progress=SILENT, method=method, **small.run_settings(encoders["bert"], epochs=1), **others)


# Names and settings


def test_every_method_can_be_asked_for() -> None:
    assert get_args(get_type_hints(RunConfig)["method"]) == tuple(METHODS)
    for name in METHODS:
        assert type(resolve_settings("x.csv", None, None, {"method": name}).method) is METHODS[name].config


def test_a_misspelt_method_is_recognised() -> None:
    with pytest.raises(ConfigError, match=r"^basting is not a method\. Did you mean bastings\?$"):
        resolve_settings("x.csv", None, None, {"method": "basting"})


@pytest.mark.parametrize(
    ("given_settings", "message"),
    [
        ({"lambda_1": 0.1}, "lambda_1 is a setting of lei, not of the method fresh."),
        ({"method": "bastings", "lambda_1": 0.1}, "lambda_1 is a setting of lei, not of the method bastings."),
        ({"method": "lei", "lagrange_rate": 1}, "lagrange_rate is a setting of bastings, not of the method lei."),
        ({"lambda_2": 1}, "lambda_2 is a setting of lei and bastings, not of the method fresh."),
        ({"method": "lei", "tagging.crf": True}, "tagging.crf is a setting of fresh, not of the method lei."),
        ({"method": "lei", "scorer": "gradient"}, "scorer is a setting of fresh, not of the method lei."),
        ({"method": "lei", "lambda_3": 1}, "lambda_3 is not a setting. Did you mean lambda_2?"),
        ({"method": "human", "encoderr": "x"}, "encoderr is not a setting. Did you mean encoder?"),
        (
            {"method": "full_text", "ratio": 0.1, "epoch": 3, "seed": "x", "text": "label"},
            "ratio is a setting of fresh and lei and bastings and random, not of the method full_text.\n"
            "epoch is not a setting. Did you mean epochs?\n"
            "text and label both name the column 'label'. Give each its own.\n"
            "seed must be a whole number, got 'x'.",
        ),
    ],
)
def test_settings_of_other_methods_are_refused(given_settings: dict[str, Any], message: str) -> None:
    with pytest.raises(ConfigError) as caught:
        resolve_settings("x.csv", None, None, given_settings)
    assert str(caught.value) == message


def test_a_name_means_one_setting_in_every_method() -> None:
    for method in METHODS.values():
        names = [setting.name for config in (RunConfig, method.config) for setting in list_settings(config)]
        assert sorted(names) == sorted(set(names))
    listed = settings_of_methods()
    assert listed["human"][1] == ["fresh", "lei", "bastings"]
    assert listed["epochs"][1] == list(METHODS)
    assert all(setting.help.endswith(".") for setting, _ in listed.values())


class First:
    """A scorer of somebody's own."""

    def __init__(self, support: SupportModel) -> None:
        self.support = support

    def score(self, documents: Sequence[Document]) -> list[Saliency]:
        return [Saliency(-np.arange(len(item.words), dtype=float), "", item.id) for item in documents]


def test_a_gate_takes_no_scorer(toy: Splits, encoders: dict[str, Path]) -> None:
    with pytest.raises(ConfigError, match=r"^scorer is a setting of fresh, not of the method lei\.$"):
        train(toy, scorer=First, method="lei", progress=SILENT, **small.run_settings(encoders["bert"]))
