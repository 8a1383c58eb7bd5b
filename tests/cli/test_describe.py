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
from fresh.cli.describe import describe
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
    plain = [example("a", "pos"), example("b c", "neg")]
    table = describe([("toy", {"train": TRAIN, "dev": DEV}), ("plain", {"all": plain})])
    assert table.rows == (
        ("toy", "train", "3", "3 / 4", "1 / 2", ".750 / 1.000", "2", ".333 / .667", "0"),
        # Case does not matter for documents seen before, the query does.
        ("toy", "dev", "3", "2 / 2", "1 / 1", "–", "–", ".000 / 1.000", "1"),
        ("plain", "all", "2", "2 / 2", "–", "–", "–", ".500 / .500", "0"),
    )
    assert table.notes[2:] == ("Classes of toy: neg, pos.", "Classes of plain: neg, pos.")
    keys = ["corpus", "split", "documents"]
    keys += [f"{name} {kind}" for name in ("words", "query words", "words marked") for kind in ("mean", "most")]
    keys += ["with marks", "classes", "seen before"]
    toy, _, last = table.records
    assert list(last) == keys
    assert list(last.values()) == ["plain", "all", 2, 1.5, 2, *[""] * 4, 0, "neg: 1; pos: 1", 0]
    assert [toy[key] for key in keys[3:9]] == [3, 4, pytest.approx(4 / 3), 2, 0.75, 1]


@given(st.lists(st.tuples(documents(), st.sampled_from("ab")), min_size=1, max_size=6))
def test_a_repeated_split_has_been_seen_before(pairs: list[tuple[Document, str]]) -> None:
    examples = [Example(document, label) for document, label in pairs]
    first, second = describe([("toy", {"train": examples, "test": [*examples, *examples]})]).records
    # Repetitions inside a split do not count.
    assert (first["seen before"], second["seen before"]) == (0, 2 * len(examples))


# From the paper's table of data: documents, words, query words and words marked of the splits that are here unchanged.
PAPER: dict[tuple[str, ...], tuple[str, str, str, float, float]] = {
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
    table = describe([(corpus, {part: getattr(splits, part) for part in ("train", "dev", "test")})])
    for row, record in zip(table.rows, table.records, strict=True):
        if row[:2] in PAPER:
            *texts, mean, most = PAPER[row[:2]]
            assert list(row[2:5]) == texts
            marked = (record["words marked mean"], record["words marked most"])
            assert marked == pytest.approx((mean, most), abs=0.0051)


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
