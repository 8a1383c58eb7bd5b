"""`fresh describe`."""

import argparse
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from fresh.cli.options import READS_LABELS, add_setting, check_output, reading
from fresh.cli.table import put, show

if TYPE_CHECKING:
    from fresh.document import Example

SUMMARY = "describe a corpus, or data of your own, in numbers"
ABOUT = """\
Count documents, classes and words, what people marked, and what is in an earlier split already.

  fresh describe reviews.csv --text review --label sentiment
  fresh describe sst agnews evinf movies multirc --data-dir DATA
  fresh describe sst movies --data-dir DATA --as latex --output data.tex

What `fresh train` reads can be described; a file without splits is described as a whole.
"""
READS = (*READS_LABELS, "dev", "test")


def add(parser: argparse.ArgumentParser, whole: bool) -> None:
    """Describe `fresh describe`."""
    parser.usage = "fresh describe DATA [DATA ...] [options]"
    parser.description = ABOUT
    parser.add_argument("data", nargs="+", metavar="DATA", help="files, folders, or names of the paper's corpora")
    parser.add_argument("--data-dir", metavar="DIR", help="folder with the files of named corpora")
    parser.add_argument("--as", dest="form", choices=("markdown", "csv", "latex"), help="form of the table")
    parser.add_argument("--output", default="-", metavar="FILE", help="write to a file")
    parser.add_argument("--overwrite", action="store_true", help="replace the file if it is there already")
    if whole:
        from fresh.config import list_settings
        from fresh.data.splits import DataConfig

        group = parser.add_argument_group("settings: data")
        for setting in list_settings(DataConfig):
            if setting.name in READS:
                add_setting(group, setting)


def run(args: argparse.Namespace) -> int:
    """Describe all data in one table."""
    from fresh.cli.dataset_summary import describe, description_sheet

    check_output(args.output, args.data[0], args.overwrite)
    sheet = description_sheet([one for name in args.data for one in describe(_called(name), _read(name, args))])
    if args.output == "-" and args.form is None and sys.stdout.isatty():
        show(sheet)
    else:
        put(sheet, args.form or "markdown", args.output)
    return 0


def _called(name: str) -> str:
    """Name data by its file or folder."""
    return Path(name).name or name


def _read(name: str, args: argparse.Namespace) -> "Mapping[str, Sequence[Example]]":
    """Read the splits of a named corpus, or those that a file or folder has."""
    from fresh.data.corpora import CORPORA, find_corpus
    from fresh.data.splits import BadRows, read_parts
    from fresh.errors import DataError

    if args.data_dir is not None and name not in CORPORA and Path(name).suffix:
        raise DataError(f"{name} is no corpus of {args.data_dir}. Describe files by themselves, without --data-dir.")
    if args.data_dir is not None:
        splits = find_corpus(name).read(Path(args.data_dir))
        return {part: getattr(splits, part) for part in ("train", "dev", "test")}
    if name in CORPORA and not Path(name).exists():
        raise DataError(f"{name} is the name of a corpus. Give the folder of its files: --data-dir FOLDER.")
    bad = BadRows()
    parts = read_parts(name, reading(args), bad)
    if bad.count or bad.widened:
        print(bad.summary(), file=sys.stderr)
    empty = next((part for part, examples in parts.items() if not examples), None)
    if empty is not None:
        raise DataError(f"{name} holds no examples for {empty}. Give some, or leave it out.")
    return parts if len(parts) > 1 else {"all": parts["train"]}
