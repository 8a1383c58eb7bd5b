import os
from pathlib import Path
from typing import Any

import pytest

import annotated
import small
from fresh.cli.main import main
from fresh.data.corpora import find_corpus
from fresh.data.splits import Splits
from fresh.document import Mask

DATA = Path(os.environ.get("FRESH_DATA") or Path(__file__).parents[4] / "shared" / "data")


@pytest.fixture(scope="module")
def reviews() -> Splits:
    if not DATA.is_dir() and os.environ.get("CI") == "true":
        pytest.fail(f"The corpora are not at {DATA}. Name their folder in FRESH_DATA.")
    if not DATA.is_dir():
        pytest.skip(f"The corpora are not at {DATA}. Name their folder in FRESH_DATA.")
    return find_corpus("movies").read(DATA / "movies")


@pytest.mark.parametrize(
    ("tool", "by_people"),
    [
        ("label_studio", annotated.label_studio),
        ("label_studio", annotated.json_min),
        ("doccano", annotated.doccano),
        ("doccano", annotated.doccano_sequences),
    ],
)
def test_what_people_marked_in_films_survives_every_tool(
    tool: str, by_people: Any, reviews: Splits, tmp_path: Path
) -> None:
    given = [
        annotated.explanation(e.document, e.human, {"NEG": "bad", "POS": "good"}[e.label])
        for e in reviews.test
        if e.human is not None
    ]
    assert len(given) == 199
    path = annotated.write_list(tmp_path / "export.json", by_people(annotated.exported(given, tmp_path, tool)))
    found = annotated.read(path, tokenised=True)
    assert [e.human for e in found] == [e.mask for e in given]
    assert [(e.document.text, e.label) for e in found] == [(e.document.text, e.prediction.label) for e in given]


def test_a_tagger_learns_from_what_a_tool_exported(
    toy: Splits, encoders: dict[str, Path], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    items = [
        annotated.explanation(e.document, Mask.from_spans([(0, 1)], len(e.document.words)), label)
        for e, label in zip(small.some(toy).train, ["good", "bad"] * 24, strict=True)
    ]
    tasks = annotated.label_studio(annotated.exported(items, tmp_path, "label_studio"))
    first = tasks[0]["annotations"][0]["result"][0]["value"]
    first |= {"end": first["end"] - 1, "text": first["text"][:-1]}
    tasks[1]["annotations"] = []
    path = annotated.write_list(tmp_path / "export.json", tasks)
    options = [*small.options(encoders["bert"], epochs=1), "--human=1", "--tagger", "--no-baseline"]
    assert main(["train", str(path), "--out", str(tmp_path / "model"), *options]) == 0
    told = " ".join(capsys.readouterr().err.split())
    assert (
        "Left out 1 of 48 rows: export.json, row 2: nobody has annotated it. "
        "1 span cut a word and was widened to whole words." in told
    )
