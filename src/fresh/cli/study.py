"""`fresh study`."""

import argparse
import errno
import shutil
import sys
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import TYPE_CHECKING

from fresh._optional import optional_import
from fresh.cli import study_serve
from fresh.cli.options import check_output, flags_of
from fresh.cli.study_people import add_people, check_codes, write_codes

if TYPE_CHECKING:
    from fresh.rationalizer import Rationalizer
    from fresh.study.items import Plan
    from fresh.study.store import Store

SUMMARY = "let people read rationales, and see what they make of them"
ABOUT = """\
Run the paper's human evaluation, or your own: people read rationales alone, as a predictor does, choose a label, and
say how confident they are and how readable the words are.

  fresh study new STUDY.toml --out my-study        draw the sample, cut it in all conditions, make sign-in codes
  fresh study serve my-study                       the pages on which people answer, and one to look after it
  fresh study status my-study                      how far it is, and whom to look at
  fresh study codes my-study 5 --output more.csv   five more annotators
  fresh study exclude my-study 3                   nothing of annotator 3 counts; see also leave, readmit, pause, resume
  fresh study results my-study                     tables, agreement, tests; also before it is finished
  fresh study export my-study --as mturk --output batch.csv
  fresh study import my-study results.csv --as mturk

A study is named by its folder, or by the address of its database: postgresql://USER@HOST/NAME.
`fresh study new --help` shows what STUDY.toml says.
"""
NEW = """\
Make a study from a file that says what is shown to whom. All that stands against it is told before anything is written.

  # STUDY.toml
  corpus = "movies"                    # one of the paper's (its test part), or a file: corpus = "reviews.csv"
  data_dir = "corpora"                 # for a corpus of the paper
  title = "Film reviews"
  sample = 100                         # documents, with the corpus's mix of labels
  per_item = 3                         # annotators of each item
  practice = 4                         # items with feedback at the start
  checks = 3                           # attention checks for each annotator
  [conditions.human]
  kind = "human"
  [conditions."FRESH"]
  model = "runs/fresh"                 # folder of any saved model
  [conditions."random words"]
  kind = "random_non_contiguous"       # or random_contiguous; text order is kept
  like = "FRESH"                       # as many words as FRESH keeps of the same document
  [conditions."full text"]
  kind = "full_text"
  [labels]                             # as people shall read them
  POS = "Positive"
  NEG = "Negative"

Other settings: seed, annotators, most, hours, casing, [texts] consent, instructions, question, thanks, and for a file
of your own, text, label, query, id, rationale, tokenised. See docs/how-to/study.md.
"""
EXPORT = """\
Write answers (csv, jsonl), participants with what they have done (prolific), or the items for another tool to show,
with its settings beside them.

  fresh study export my-study --as csv --output answers.csv
  fresh study export my-study --as mturk --output batch.csv             batch.csv, and its page batch.html
  fresh study export my-study --as potato --output items.jsonl          items.jsonl and items.config.yaml
  fresh study export my-study --as label_studio --output tasks.json     tasks.json and tasks.config.xml
"""
IMPORT = """\
Bring in answers that people gave in another tool to items that were exported to it, or what Prolific says of people. A
file that cannot be understood is refused whole; what the study's plan has no room for is left out and named; an answer
that is there already counts once.

  fresh study import my-study Batch_1_batch_results.csv --as mturk
  fresh study import my-study prolific_export.csv --as prolific         returned: left; rejected: excluded
  fresh study import my-study items-annotated --as potato               the folder that Potato writes, or its export
  fresh study import my-study project-1.json --as label_studio          exported as JSON, JSON-MIN, CSV or TSV
"""
WAYS_OUT = {
    **dict.fromkeys((errno.EACCES, errno.EPERM), "See that you may, or choose another place."),
    **dict.fromkeys((errno.ENOSPC, errno.EDQUOT), "Make room there, or choose another place."),
}
"""What to do where a file cannot be read or written."""
FORMS = ("csv", "jsonl", "mturk", "prolific", "potato", "label_studio")


def add(parser: argparse.ArgumentParser, whole: bool) -> None:
    """Describe `fresh study`."""
    parser.usage = "fresh study {new,serve,status,codes,pause,resume,leave,exclude,readmit,results,export,import} ..."
    parser.description = ABOUT
    actions = parser.add_subparsers(dest="action", required=True, metavar="ACTION", prog="fresh study")

    def action(name: str, about: str, made: Callable[[argparse.Namespace], int]) -> argparse.ArgumentParser:
        shape = argparse.RawDescriptionHelpFormatter
        made_parser = actions.add_parser(name, help=about, description=about, formatter_class=shape, allow_abbrev=False)
        made_parser.set_defaults(act=made)
        if name != "new":
            made_parser.add_argument("study", metavar="STUDY", help="folder of the study, or address of its database")
        return made_parser

    _add_new(action("new", "make a study", _new))
    study_serve.add(action("serve", study_serve.SUMMARY, study_serve.run))
    add_people(action)
    results = action("results", "tables, agreement and tests", _show_results)
    for name, about in (("json", "all figures"), ("markdown", "the tables"), ("csv", "the main table")):
        results.add_argument(f"--{name}", metavar="FILE", help=f"also write {about} to a file")
    results.add_argument("--figure", nargs="+", type=Path, default=[], metavar="FILE", help=".png, .svg or .pdf")
    for name, forms, made, about in (
        ("export", FORMS, _export, "answers as csv or jsonl; items for other tools"),
        ("import", FORMS, _import_file, "answers from elsewhere; what Prolific says of participants"),
    ):
        moved = action(name, about, made)
        moved.description = EXPORT if name == "export" else IMPORT
        moved.add_argument("--as", dest="form", required=True, choices=forms, help="in which form")
        if name == "import":
            moved.add_argument("file", type=Path, metavar="FILE", help="file to read; for potato also its folder")
        else:
            moved.add_argument("--output", required=True, metavar="FILE", help="file to write")
    for name, sub in actions.choices.items():
        if name in ("new", "codes", "results", "export"):
            sub.add_argument("--overwrite", action="store_true", help="replace files that are there already")
        sub.set_defaults(options=flags_of(sub))


def _add_new(parser: argparse.ArgumentParser) -> None:
    """Describe `fresh study new`."""
    parser.description = NEW
    parser.add_argument("file", type=Path, metavar="STUDY.toml", help="what is shown to whom")
    place = parser.add_mutually_exclusive_group(required=True)
    place.add_argument("--out", metavar="FOLDER", help="folder to make, with a database of its own and the codes")
    place.add_argument("--database", metavar="URL", help="an empty database: postgresql://USER:PASSWORD@HOST/NAME")
    parser.add_argument("--codes", metavar="FILE", help="file for the sign-in codes (default: codes.csv)")
    parser.add_argument("--device", default="auto", help="where models compute: auto, cpu, cuda, ... (default: auto)")


def run(args: argparse.Namespace) -> int:
    """Do what was asked for."""
    optional_import("alembic", "study", "A study")
    from sqlalchemy.exc import OperationalError

    try:
        return int(args.act(args))
    except OperationalError as error:
        raise ValueError(f"The database of the study cannot be used: {error.orig}.") from error
    except OSError as error:
        way_out = WAYS_OUT.get(error.errno or 0)
        if way_out is None or error.filename is None:
            raise
        place = str(error.filename).removesuffix(".partial")
        raise ValueError(f"{place} cannot be read or written ({error.strerror}). {way_out}") from error


def _new(args: argparse.Namespace) -> int:
    """Make a study."""
    from fresh.study.config import read_study
    from fresh.study.display import plural
    from fresh.study.items import make_plan, read_documents

    if args.out is not None and Path(args.out).exists():
        raise ValueError(f"{args.out} is there already. Choose another folder.")
    codes = Path(args.codes or Path(args.out or ".") / "codes.csv")
    if args.out is None or args.codes:
        check_output(str(codes), str(args.file), args.overwrite)
        check_codes(codes)

    def load(folder: str) -> "Rationalizer":
        from fresh.rationalizer import Rationalizer

        return Rationalizer.from_pretrained(folder, device=args.device)

    study = read_study(args.file)
    plan = make_plan(study, read_documents(study.config, args.file), load)
    store, made = _write_study(args, plan, codes)
    shown = f"{plural(len(plan.documents), 'document')} in {plural(len(plan.study.conditions), 'condition')}"
    print(f"{shown}, {plural(store.design.n_planned, 'answer')} wanted.")
    are, they_are = ("is", "it is") if len(made) == 1 else ("are", "they are")
    print(
        f"{plural(len(made), 'sign-in code')} {are} in {codes}: {they_are} kept nowhere else. Give each annotator one."
    )
    if len(made) < store.design.min_annotators:
        print(f"At least {store.design.min_annotators} annotators are needed to complete it: fresh study codes.")
    for warning in plan.warnings:
        print(warning)
    return 0


def _write_study(args: argparse.Namespace, plan: "Plan", codes: Path) -> "tuple[Store, list[str]]":
    """Write a study and its codes; if that fails, nothing stays of a folder that was made for it."""
    from fresh.study.annotators import add_annotators
    from fresh.study.store import create_study, make_study_folder

    if args.out is not None:
        make_study_folder(Path(args.out))  # only what this very command has made is ever removed
    try:
        with closing(create_study(args.out if args.out is not None else args.database, plan)) as store:
            made = add_annotators(store, plan.study.config.annotators or store.design.min_annotators)
        write_codes(codes, made)
    except BaseException:  # also Ctrl-C: the same command must work again
        if args.out is not None:
            shutil.rmtree(args.out, ignore_errors=True)
        raise
    return store, made


def _show_results(args: argparse.Namespace) -> int:
    """Show all tables, and write them down."""
    from fresh._io import write_text
    from fresh.study.overview import compute_results
    from fresh.study.results import draw_results
    from fresh.study.store import open_study

    for name in (args.json, args.markdown, args.csv, *map(str, args.figure)):
        check_output(name or "-", "", args.overwrite)
    with closing(open_study(args.study)) as store:
        found = compute_results(store)
    print(found.to_markdown(), end="")
    made = {"json": found.to_json, "markdown": found.to_markdown, "csv": found.table().to_csv}
    for kind, write in made.items():
        if getattr(args, kind):
            write_text(Path(getattr(args, kind)), write())
    if args.figure:
        draw_results(found, args.figure)
    return 0


def _export(args: argparse.Namespace) -> int:
    """Write answers, or items for other tools."""
    from fresh.study.export import export_paths, export_study
    from fresh.study.store import open_study

    for place in export_paths(args.form, Path(args.output)):
        check_output(str(place), "", args.overwrite)
    with closing(open_study(args.study)) as store:
        files = export_study(store, args.form, Path(args.output))
    print(f"Written: {', '.join(map(str, files))}")
    return 0


def _import_file(args: argparse.Namespace) -> int:
    """Bring in answers that were given elsewhere."""
    from fresh.study.importing import import_study
    from fresh.study.store import open_study

    with closing(open_study(args.study)) as store:
        done = import_study(store, args.form, args.file)
    print(f"{done.n_new:,} new, {done.n_existing:,} there already, {len(done.skipped):,} left out.")
    for line in (*done.notes, *done.skipped):
        print(line, file=sys.stderr)
    return 0
