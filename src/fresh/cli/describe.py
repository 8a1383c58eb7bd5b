"""`fresh describe`: sizes, lengths, labels, human rationales and duplicates of data; the paper's table of data."""

import argparse
import statistics
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from fresh.cli import options
from fresh.cli.table import show_table

if TYPE_CHECKING:
    from fresh.document import Example
    from fresh.reporting.tables import Table

SUMMARY = "Describe data in numbers"
ABOUT = """\
Count documents, labels, words and human rationales, and find documents that an
earlier split holds already.

  fresh describe reviews.csv --text review --label sentiment
  fresh describe sst agnews evinf movies multirc --data-dir DATA
  fresh describe sst movies --data-dir DATA --as latex --output data.tex

All data that `fresh train` reads can be described. A file without splits is
described as a whole.
"""
_NONE = "–"
_HEADER = (
    *("corpus", "split", "documents", "words", "query words", "words marked", "with marks"),
    *("classes", "seen before"),
)
_NOTES = (
    "Words and query words: mean / maximum of a document. Words marked: share of a document's words in its human "
    "rationale, mean / maximum, over the documents that have one.",
    "Seen before: documents whose text and query equal those of a document in an earlier split, ignoring case.",
)


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.usage = "fresh describe DATA [DATA ...] [options]"
    parser.add_argument("data", nargs="+", metavar="DATA", help="Files, folders, or names of the paper's corpora")
    options.add_shared(parser, "--data-dir")
    text = "Format of the table (default: markdown)"
    parser.add_argument("--as", dest="form", choices=("markdown", "csv", "latex"), help=text)
    parser.add_argument("--output", default="-", metavar="FILE", help="Write to a file")
    options.add_shared(parser, "--overwrite")
    options.add_data_settings(parser, (*options.LABEL_SETTINGS, "dev", "test"))


def run(args: argparse.Namespace) -> None:
    options.check_outputs(args, args.output, source=args.data[0])
    described = [one for name in args.data for one in describe(Path(name).name or name, _read(name, args))]
    show_table(description_table(described), args.form, args.output)


def _read(name: str, args: argparse.Namespace) -> "Mapping[str, Sequence[Example]]":
    """Read the splits of a named corpus, or of a file or folder."""
    from fresh.data.corpora import CORPORA, find_corpus
    from fresh.data.splits import BadRows, read_parts
    from fresh.errors import DataError

    if args.data_dir is not None:
        if name not in CORPORA and Path(name).suffix:
            raise DataError(f"{name} is not a corpus of {args.data_dir}. Describe files without --data-dir.")
        splits = find_corpus(name).read(Path(args.data_dir))
        return {part: getattr(splits, part) for part in ("train", "dev", "test")}
    if name in CORPORA and not Path(name).exists():  # as in fresh.pipeline, which loads torch
        raise DataError(f"{name} is the name of a corpus. Give the folder of its files: data_dir=FOLDER.")
    bad = BadRows()
    parts = read_parts(name, options.data_config(args), bad)
    options.report_bad_rows(bad)
    empty = next((part for part, examples in parts.items() if not examples), None)
    if empty is not None:
        raise DataError(f"{name} has no examples for {empty}. Add some, or leave it out.")
    return parts if len(parts) > 1 else {"all": parts["train"]}


@dataclass(frozen=True, slots=True)
class _Description:
    """One split of a corpus in numbers; each pair is a mean and a maximum."""

    corpus: str
    split: str
    n_documents: int
    words: tuple[float, float]
    query_words: tuple[float, float] | None
    """None without queries."""
    marked: tuple[float, float] | None
    """Share of the words in human rationales; None without any."""
    n_marked: int
    """Documents with a human rationale."""
    classes: Mapping[str, int]
    """Documents of each label of the corpus, sorted by label."""
    n_seen: int
    """Documents that an earlier split holds already."""

    def cells(self) -> tuple[str, ...]:
        """Format a row of the table."""
        from fresh.metrics.bootstrap import short

        shares = " / ".join(short(count / self.n_documents) for count in self.classes.values())
        words, query = (
            _NONE if pair is None else f"{pair[0]:,.0f} / {pair[1]:,.0f}" for pair in (self.words, self.query_words)
        )
        marked = _NONE if self.marked is None else " / ".join(map(short, self.marked))
        n_marked = f"{self.n_marked:,}" if self.n_marked else _NONE
        counts = (f"{self.n_documents:,}", words, query, marked, n_marked, shares, f"{self.n_seen:,}")
        return (self.corpus, self.split, *counts)

    def record(self) -> dict[str, object]:
        """Return all figures in full."""
        record: dict[str, object] = {"corpus": self.corpus, "split": self.split, "documents": self.n_documents}
        pairs = {"words": self.words, "query words": self.query_words, "words marked": self.marked}
        for name, pair in pairs.items():
            record[f"{name} mean"], record[f"{name} most"] = pair or ("", "")
        classes = "; ".join(f"{label}: {count}" for label, count in self.classes.items())
        return {**record, "with marks": self.n_marked, "classes": classes, "seen before": self.n_seen}


def describe(corpus: str, parts: "Mapping[str, Sequence[Example]]") -> list[_Description]:
    """Describe each split of a corpus.

    :param parts: Examples by split, the earliest first; each split has at least one.
    """
    from fresh.audit.duplicates import normalize

    labels = sorted({example.label for examples in parts.values() for example in examples})
    seen: set[tuple[str, str]] = set()
    described: list[_Description] = []
    for split, examples in parts.items():
        keys = [normalize(example.document) for example in examples]
        counts = Counter(example.label for example in examples)
        query_lengths = [len(example.document.query) for example in examples]
        shares = [example.human.ratio for example in examples if example.human is not None and example.human.ratio]
        split_described = _Description(
            corpus=corpus,
            split=split,
            n_documents=len(examples),
            words=_spread([len(example.document.words) for example in examples]),
            query_words=_spread(query_lengths) if any(query_lengths) else None,
            marked=_spread(shares) if shares else None,
            n_marked=len(shares),
            classes={label: counts[label] for label in labels},
            n_seen=sum(key in seen for key in keys),
        )
        described.append(split_described)
        seen |= set(keys)  # after the split, so that repetitions inside it do not count
    return described


def _spread(values: Sequence[float]) -> tuple[float, float]:
    return statistics.fmean(values), max(values)


def description_table(described: Sequence[_Description]) -> "Table":
    """Make a table of all splits of all corpora."""
    from fresh.reporting.tables import Table

    labels = {one.corpus: ", ".join(one.classes) for one in described}
    notes = (*_NOTES, *(f"Classes of {corpus}: {names}." for corpus, names in labels.items()))
    rows = tuple(one.cells() for one in described)
    return Table(_HEADER, rows, tuple(one.record() for one in described), 2, notes=notes)
