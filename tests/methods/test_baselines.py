from pathlib import Path
from typing import Any

import pytest

import small
from fresh.data.splits import Splits
from fresh.document import Document
from fresh.errors import DataError
from fresh.methods.registry import train_method
from fresh.pipeline import train
from fresh.progress import SILENT
from fresh.selection.extractors import SaliencyExtractor
from fresh.training.loop import RunContext
from small import Configure, Saying


def test_random_words_keep_their_order_and_are_the_same_each_time(toy: Splits, configure: Configure) -> None:
    model = train_method("random", small.some(toy, 16, 8), configure("random", epochs=1, ratio=0.5)).model
    assert isinstance(model.extractor, SaliencyExtractor)
    assert model.extractor.support is None
    document = Document.from_words([str(number) for number in range(20)], id="twenty")
    words = model.explain(document).rationale.words
    assert list(words) == sorted(words, key=int)
    assert len(words) == 10
    assert words != tuple(str(number) for number in range(10))
    assert model.explain(document).rationale.words == words


def test_human_reads_only_documents_with_a_rationale(toy: Splits, configure: Configure) -> None:
    saying, splits = Saying(), Splits((*toy.train[:16], *toy.train[-4:]), toy.dev[:8], toy.test[:8])
    result = train_method("human", splits, configure("human", epochs=1), RunContext(progress=saying))
    assert saying.lines[0] == "Left out: 4 documents without a human rationale."
    assert result.masks() == [example.human for example in toy.train[:16]]
    with pytest.raises(ValueError, match=rf"'{toy.train[-1].document.id}'.*method=fresh"):
        result.model.explain(toy.train[-1].document)


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"method": "human"}, r"^method=human reads people's rationales, but no train document has one"),
        ({"tagger": True, "human": 0.5}, r"^human=0\.5 needs people's rationales, but no training document has one"),
        ({"method": "lei", "human": 0.5}, r"^human=0\.5 needs people's rationales"),
        ({"method": "bastings", "human": 0.5}, r"^human=0\.5 needs people's rationales"),
    ],
)
def test_data_without_rationales_is_refused(
    settings: dict[str, Any], message: str, toy: Splits, encoders: dict[str, Path]
) -> None:
    parts = (map(small.unmarked, part[:16]) for part in (toy.train, toy.dev, toy.test))
    with pytest.raises(DataError, match=message):
        train(Splits(*map(tuple, parts)), progress=SILENT, **small.run_settings(encoders["bert"], epochs=1), **settings)
