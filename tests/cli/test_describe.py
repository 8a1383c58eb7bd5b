import csv
import io
import statistics
from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

import small
from command import Command
from fresh.cli.describe import _Description, describe, description_table
from fresh.data.splits import Splits
from fresh.document import Document, Example, Mask
from strategies import documents


def example(text: str, label: str, query: str = "", marked: int | None = None) -> Example:
    """Make an example whose first words are marked."""
    words = text.split()
    human = None if marked is None else Mask.from_spans([(0, marked)] if marked else [], len(words))
    return Example(Document.from_words(words, query.split(), text), label, human)


TRAIN = [example("a b", "pos", "q", 1), example("a b c d", "neg", "q q", 0), example("x y z", "pos", "q", 3)]
DEV = [example("A B", "pos", "q"), example("a b", "pos", "r"), example("new", "pos", "q")]


def test_figures_equal_those_counted_by_hand() -> None:
    train, dev = describe("toy", {"train": TRAIN, "dev": DEV})
    assert train == _Description(
        corpus="toy",
        split="train",
        n_documents=3,
        words=(3, 4),
        query_words=(pytest.approx(4 / 3), 2),  # type: ignore[arg-type]
        marked=(0.75, 1),
        n_marked=2,
        classes={"neg": 1, "pos": 2},
        n_seen=0,
    )
    assert (dev.marked, dev.n_marked) == (None, 0)
    assert dev.classes == {"neg": 0, "pos": 3}
    assert dev.n_seen == 1  # case does not matter, the query does


def test_the_table_explains_its_columns() -> None:
    plain = [example("a", "pos"), example("b c", "neg")]
    sheet = description_table([*describe("toy", {"train": TRAIN, "dev": DEV}), *describe("plain", {"all": plain})])
    assert sheet.rows == (
        ("toy", "train", "3", "3 / 4", "1 / 2", ".750 / 1.000", "2", ".333 / .667", "0"),
        ("toy", "dev", "3", "2 / 2", "1 / 1", "–", "–", ".000 / 1.000", "1"),
        ("plain", "all", "2", "2 / 2", "–", "–", "–", ".500 / .500", "0"),
    )
    assert sheet.notes[2:] == ("Classes of toy: neg, pos.", "Classes of plain: neg, pos.")
    assert sheet.records[2] == {
        "corpus": "plain",
        "split": "all",
        "documents": 2,
        "words mean": 1.5,
        "words most": 2,
        "query words mean": "",
        "query words most": "",
        "words marked mean": "",
        "words marked most": "",
        "with marks": 0,
        "classes": "neg: 1; pos: 1",
        "seen before": 0,
    }


@given(st.lists(st.tuples(documents(), st.sampled_from("ab")), min_size=1, max_size=6))
def test_a_repeated_split_has_been_seen_before(pairs: list[tuple[Document, str]]) -> None:
    examples = [Example(document, label) for document, label in pairs]
    first, second = describe("toy", {"train": examples, "test": [*examples, *examples]})
    assert (first.n_seen, second.n_seen) == (0, 2 * len(examples))  # repetitions inside a split do not count
    assert sum(first.classes.values()) == first.n_documents
    assert first.words[0] <= first.words[1]


# From the paper's table of data: documents, words, query words and words marked of the splits that are here unchanged.
PAPER = {
    ("movies", "train"): ("1,600", "773 / 2,809", "–", 0.09, 0.5),
    ("movies", "test"): ("199", "795 / 2,122", "–", 0.31, 0.91),
    ("multirc", "train"): ("24,029", "305 / 618", "18 / 92", 0.17, 0.73),
    ("multirc", "dev"): ("3,214", "305 / 562", "18 / 83", 0.19, 0.76),
    ("multirc", "test"): ("4,848", "290 / 490", "18 / 80", 0.18, 0.56),
}


@pytest.mark.parametrize("corpus", ["movies", "multirc"])
def test_figures_equal_those_of_the_paper(
    corpus: str, corpora_dir: Path, read_corpus: Callable[[str, Path], Splits]
) -> None:
    splits = read_corpus(corpus, corpora_dir)
    for found in describe(corpus, {part: getattr(splits, part) for part in ("train", "dev", "test")}):
        if (corpus, found.split) in PAPER:
            *texts, mean, most = PAPER[corpus, found.split]
            assert list(found.cells()[2:5]) == texts
            assert found.marked == pytest.approx((mean, most), abs=0.0051)


@pytest.mark.usefixtures("here")
def test_files_are_described(toy: Splits, command: Command) -> None:
    small.write_csv(Path("toy.csv"), small.rows(toy.test))
    rows = command("describe", "toy.csv").out.splitlines()
    n_words = [len(example.document.words) for example in toy.test]
    words = f"{statistics.fmean(n_words):.0f} / {max(n_words)}"
    cells = [cell.strip() for cell in rows[2].strip("|").split("|")]
    assert cells == ["toy.csv", "all", "32", words, "–", "–", "–", ".500 / .500", "0"]
    assert rows[-1] == "Classes of toy.csv: neg, pos."
    small.write_csv(Path("more.csv"), small.rows(toy.test[:8]))
    shown = command("describe", "toy.csv", "--test", "more.csv", "--as", "csv").out
    [train, test] = csv.DictReader(io.StringIO(shown))
    assert (train["split"], test["split"], test["documents"], test["seen before"]) == ("train", "test", "8", "8")
