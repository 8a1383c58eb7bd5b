"""`fresh describe`: sizes, lengths, labels, human rationales and duplicates of data; the paper's table of data."""

import argparse
import statistics
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
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
    parser.add_argument("--as", dest="form", choices=("markdown", "csv", "latex"), help="Format (default: markdown)")
    options.add_shared(parser, "--data-dir", "--output", "--overwrite")
    options.add_data_settings(parser, (*options.LABEL_SETTINGS, "dev", "test"))


def run(args: argparse.Namespace) -> None:
    options.check_outputs(args, args.output, source=args.data[0])
    table = describe((Path(name).name or name, _read(name, args)) for name in args.data)
    show_table(table, args.form, args.output)


def _read(name: str, args: argparse.Namespace) -> "Mapping[str, Sequence[Example]]":
    """Read the splits of a named corpus, or of a file or folder."""
    from fresh.data.corpora import CORPORA, check_corpus_folder, find_corpus
    from fresh.data.examples import BadRows
    from fresh.data.splits import read_parts
    from fresh.errors import DataError

    if args.data_dir is not None:
        if name not in CORPORA and Path(name).suffix:
            raise DataError(f"{name} is not a corpus of {args.data_dir}. Describe files without --data-dir.")
        splits = find_corpus(name).read(Path(args.data_dir))
        return {part: getattr(splits, part) for part in ("train", "dev", "test")}
    bad = BadRows()
    parts = read_parts(check_corpus_folder(name), options.data_config(args), bad)
    options.report_bad_rows(bad)
    empty = next((part for part, examples in parts.items() if not examples), None)
    if empty is not None:
        raise DataError(f"{name} has no examples for {empty}. Add some, or leave it out.")
    return parts if len(parts) > 1 else {"all": parts["train"]}


def describe(corpora: "Iterable[tuple[str, Mapping[str, Sequence[Example]]]]") -> "Table":
    """Make a table with a row for each split of each corpus.

    :param corpora: Names, and examples by split, the earliest first; each split has at least one.
    """
    from fresh.audit.duplicates import normalize
    from fresh.metrics.bootstrap import short
    from fresh.reporting.tables import Table

    notes, rows, records = list(_NOTES), list[tuple[str, ...]](), list[dict[str, object]]()
    for corpus, parts in corpora:
        labels = sorted({example.label for examples in parts.values() for example in examples})
        notes.append(f"Classes of {corpus}: {', '.join(labels)}.")
        seen: set[tuple[str, str]] = set()
        for split, examples in parts.items():
            keys = [normalize(example.document) for example in examples]
            n_seen = sum(key in seen for key in keys)
            seen |= set(keys)  # after the split, so that repetitions inside it do not count
            counts = Counter(example.label for example in examples)
            n_query = [len(example.document.query) for example in examples]
            shares = [example.human.ratio for example in examples if example.human is not None and example.human.ratio]
            record: dict[str, object] = {"corpus": corpus, "split": split, "documents": len(examples)}
            cells = [corpus, split, f"{len(examples):,}"]
            figures: dict[str, Sequence[float]] = {
                "words": [len(example.document.words) for example in examples],
                "query words": n_query if any(n_query) else [],
                "words marked": shares,
            }
            for name, values in figures.items():
                pair = (statistics.fmean(values), max(values)) if values else None
                record[f"{name} mean"], record[f"{name} most"] = pair or ("", "")
                write = short if name == "words marked" else "{:,.0f}".format
                cells.append(" / ".join(map(write, pair)) if pair else _NONE)
            classes = "; ".join(f"{label}: {counts[label]}" for label in labels)
            records.append({**record, "with marks": len(shares), "classes": classes, "seen before": n_seen})
            class_shares = " / ".join(short(counts[label] / len(examples)) for label in labels)
            rows.append((*cells, f"{len(shares):,}" if shares else _NONE, class_shares, f"{n_seen:,}"))
    return Table(_HEADER, tuple(rows), tuple(records), 2, notes=tuple(notes))
