import re
from pathlib import Path
from typing import Any

import pytest

import fresh.training.fit
import small
from fresh.attribution.support_model import SupportModel
from fresh.config import from_mapping
from fresh.data.splits import BadRows, Splits
from fresh.document import Document, Example
from fresh.errors import DataError, TooLongError
from fresh.evaluation.warnings import drop_too_long, drop_too_long_splits
from fresh.nn.config import NetworkConfig
from fresh.pipeline import train
from fresh.predictor import Predictor
from fresh.progress import SILENT, _Silent
from fresh.rationalizer import Rationalizer
from fresh.selection.discretizers import TopK
from fresh.selection.extractors import FullText

LONG = Example(Document.from_words(["good"] * 100_000, id="monster"), "pos")
WAY_OUT = (
    "Split it, or train a model that reads it in windows (long=chunk), only its beginning (long=truncate) or more at "
    "once (a larger max_pieces)."
)
REASON = f"Text 'monster' has 100000 words, or 100000 pieces, but only 4094 can be read. {WAY_OUT}"


class Saying(_Silent):
    """Keeps what is said."""

    def __init__(self) -> None:
        self.lines: list[str] = []

    def say(self, line: str) -> None:
        self.lines.append(line)


def with_monster(splits: Splits, part: str) -> Splits:
    """Put the long document into one of the splits."""
    parts = {name: getattr(splits, name) for name in ("train", "dev", "test")}
    return Splits(**{**parts, part: (LONG, *parts[part])})


@pytest.mark.parametrize("part", ["train", "dev", "test"])
def test_a_document_that_is_too_long_is_named_before_any_training(
    part: str, toy: Splits, encoders: dict[str, Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fit(*_arguments: Any) -> None:
        raise AssertionError("training began")

    monkeypatch.setattr(fresh.training.fit, "fit_side_by_side", fit)
    with pytest.raises(TooLongError, match=f"^{re.escape(REASON)}$"):
        train(
            with_monster(small.some(toy), part),
            out=tmp_path / "model",
            progress=SILENT,
            **small.run_settings(encoders["bert"]),
        )
    assert not list(tmp_path.iterdir())


def test_a_document_that_is_too_long_can_be_left_out(toy: Splits, encoders: dict[str, Path]) -> None:
    said, some = Saying(), small.some(toy)
    settings = small.run_settings(encoders["bert"], epochs=1, baseline=False, skip_bad=True)
    model = train(with_monster(some, "test"), progress=said, **settings)
    assert small.reported(model.report).n_documents == len(some.test)
    assert f"Left out 1 of 81 rows: {REASON}" in said.lines


def test_a_split_of_nothing_but_monsters_is_an_error(toy: Splits, encoders: dict[str, Path]) -> None:
    splits = Splits(toy.train, toy.dev, (LONG,))
    config = from_mapping(NetworkConfig, {"encoder": str(encoders["bert"])})
    with pytest.raises(DataError, match=r"^There are no examples for test\."):
        drop_too_long_splits(splits, config, skip_bad=True, progress=SILENT)


def test_truncating_says_what_is_not_read(toy: Splits, encoders: dict[str, Path]) -> None:
    def example(n_words: int) -> Example:
        return Example(Document.from_words(["good"] * n_words, id=str(n_words)), "pos")

    said = Saying()
    bad = Example(Document.from_words(["bad"] * 62, id="bad"), "neg")
    splits = Splits((example(62), bad), (example(62),), (example(248),))
    config = NetworkConfig(str(encoders["bert"]), long="truncate")
    assert drop_too_long_splits(splits, config, skip_bad=False, progress=said) == splits
    assert said.lines == ["Truncating leaves 42.9% of the words unread; long=stagger reads all."]


def test_nothing_is_said_where_all_is_read(toy: Splits, encoders: dict[str, Path]) -> None:
    said = Saying()
    config = NetworkConfig(str(encoders["bert"]), long="truncate")
    assert drop_too_long_splits(toy, config, skip_bad=True, progress=said) == toy
    assert said.lines == []


@pytest.mark.parametrize("scored", [True, False])
def test_documents_of_a_stream_are_left_out_one_by_one(
    scored: bool, support: SupportModel, predictor: Predictor
) -> None:
    model = small.rationalizer(support, predictor, TopK(0.2)) if scored else Rationalizer(FullText(), predictor)
    short, bad = Document.from_text("a good film"), BadRows()
    assert list(drop_too_long(iter([short, LONG.document, short]), model, bad)) == [short, short]
    assert bad.count == 1
    assert bad.messages == [REASON]
