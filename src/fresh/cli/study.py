import argparse
import shlex
import shutil
import sys
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import TYPE_CHECKING, Any

from fresh import study
from fresh._io import atomic_write
from fresh._optional import optional_import
from fresh.cli.options import add_shared, check_outputs, flags_of, write_texts
from fresh.text import plural

if TYPE_CHECKING:
    from fresh.rationalizer import Rationalizer
    from fresh.study.store import Store

SUMMARY = "Run a study in which people read rationales"
ABOUT = """\
Run the paper's human evaluation, or your own: people read rationales alone, as
a predictor does, choose a label, and rate their confidence and how readable the
words are.

  fresh study new STUDY.toml --out my-study     make a study with sign-in codes
  fresh study serve my-study                    serve the pages for annotators
  fresh study results my-study                  show tables, agreement and tests

STUDY is the folder of the study, or the URL of its database:
postgresql://USER@HOST/NAME. For the options and examples of an action:
fresh study ACTION --help
"""
_NEW = """\
Make a study from a settings file. The whole file is checked before anything is
written. For all settings, see docs/how-to/study.md.

  fresh study new STUDY.toml --out my-study

  # STUDY.toml
  corpus = "movies"           # a corpus of the paper (its test split), or a file
  data_dir = "corpora"        # its folder, for a corpus of the paper
  sample = 100                # documents, with the corpus's mix of labels
  [conditions.human]
  kind = "human"              # or full_text
  [conditions."FRESH"]
  model = "runs/fresh"        # folder of a saved model
  [conditions."random words"]
  kind = "random_non_contiguous"    # or random_contiguous; keeps the text order
  like = "FRESH"              # as many words as FRESH keeps of each document
  [labels]                    # as annotators see them
  POS = "Positive"
  NEG = "Negative"
"""
_SERVE = """\
Serve a study. Annotators open the URL, sign in with their codes, agree to take
part, and answer one text a page. Every answer is on disk before the next page
is shown: if the server is killed, start it again with the same command.

  fresh study serve my-study                     http://127.0.0.1:8000/
  fresh study serve my-study --host 0.0.0.0      for other machines, unencrypted
  fresh study serve my-study --allow-host study.example.org --https \\
      --trusted-proxy 127.0.0.1                  behind a reverse proxy

The admin page is at /admin. Its secret is printed once, when the study is first
served; the database holds a hash of it. Use --new-admin-secret if you lost it,
or --admin-secret-file FILE to keep it out of the terminal. To stop the server,
press Ctrl-C.
"""
_STATUS = """\
Show the progress of a study, and of each annotator who has started: answers,
median time per answer (a dash if none was measured, as on pages without
scripts), and failed attention checks.

"review" marks annotators who failed more than one attention check, or their
only one, and those who took less than a second for most answers. Excluded
annotators are not marked.

  fresh study status my-study
"""
_EXCLUDE = """\
Exclude an annotator, for example after failed attention checks. None of their
answers count, and others get the items. The answers stay in the database and in
exports (with `counted` false). To undo this: fresh study readmit.

  fresh study exclude my-study 3
"""
_EXPORT = """\
Write answers (csv, jsonl), the progress of participants (prolific), or items
and settings for another tool (mturk, potato, label_studio).

  fresh study export my-study --as csv --output answers.csv
  fresh study export my-study --as mturk --output batch.csv
"""
_IMPORT = """\
Import answers to exported items from another tool, or the status of
participants from Prolific. A file with an error is refused as a whole. Answers
beyond the plan of the study are left out and listed. An answer that is imported
twice counts once.

  fresh study import my-study Batch_1_batch_results.csv --as mturk
  fresh study import my-study prolific_export.csv --as prolific
  fresh study import my-study items-annotated --as potato
"""
_FORMATS = ("csv", "jsonl", "mturk", "prolific", "potato", "label_studio")


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.usage = "fresh study ACTION [options]"
    subparsers = parser.add_subparsers(dest="action", required=True, metavar="ACTION", prog="fresh study")
    actions: dict[str, argparse.ArgumentParser] = {}
    for name, (summary, about, function) in _ACTIONS.items():
        description = f"{summary}.\n\n  {about}" if about.startswith("fresh ") else about
        formatter = argparse.RawDescriptionHelpFormatter
        actions[name] = subparsers.add_parser(
            name, help=summary, description=description, formatter_class=formatter, allow_abbrev=False
        )
        actions[name].set_defaults(act=function)
        if name != "new":
            actions[name].add_argument("study", metavar="STUDY", help="Folder of the study, or URL of its database")
    actions["new"].add_argument("file", type=Path, metavar="STUDY.toml", help="Settings of the study")
    place = actions["new"].add_mutually_exclusive_group(required=True)
    place.add_argument("--out", metavar="FOLDER", help="Folder to create, with a database and the codes")
    place.add_argument("--database", metavar="URL", help="An empty database: postgresql://USER:PASSWORD@HOST/NAME")
    actions["new"].add_argument("--codes", metavar="FILE", help="File for the sign-in codes (default: codes.csv)")
    add_shared(actions["new"], "--device")
    _add_serve_arguments(actions["serve"])
    actions["codes"].add_argument("number", type=int, metavar="N", help="Number of codes")
    add_shared(actions["codes"], "--output")
    for name in ("leave", "exclude", "readmit"):
        actions[name].add_argument("annotator", metavar="ANNOTATOR", help="Number, or name on a crowd platform")
    add_shared(actions["results"], "--json", "--markdown")
    actions["results"].add_argument("--csv", metavar="FILE", help="Write the main table as CSV")
    text = "Draw a figure: .png, .svg or .pdf"
    actions["results"].add_argument("--figure", nargs="+", type=Path, default=[], metavar="FILE", help=text)
    for name in ("export", "import"):
        actions[name].add_argument("--as", dest="form", required=True, choices=_FORMATS, help="Format")
    actions["export"].add_argument("--output", required=True, type=Path, metavar="FILE", help="File to write")
    actions["import"].add_argument("file", type=Path, metavar="FILE", help="File, or the output folder of Potato")
    for name in ("new", "codes", "results", "export"):
        add_shared(actions[name], "--overwrite")
    for action in actions.values():
        action.set_defaults(options=flags_of(action))


def _add_serve_arguments(parser: argparse.ArgumentParser) -> None:
    parser.usage = "fresh study serve STUDY [options]"
    add_shared(parser, "--host", "--port", "--allow-host")
    text = "The study is reachable over HTTPS only, through a proxy; marks cookies as secure"
    parser.add_argument("--https", action="store_true", help=text)
    text = "Address or network of a proxy whose X-Forwarded-For and X-Forwarded-Proto are trusted; can be repeated"
    many: dict[str, Any] = {"action": "append", "default": [], "metavar": "ADDRESS"}
    parser.add_argument("--trusted-proxy", dest="trusted_proxies", help=text, **many)
    text = "Hours without a click after which people must sign in again (default: 12)"
    parser.add_argument("--session-hours", type=float, default=12.0, metavar="HOURS", help=text)
    secret = parser.add_mutually_exclusive_group()
    text = "File with the secret of the admin page; created with a new one if it does not exist"
    secret.add_argument("--admin-secret-file", type=Path, metavar="FILE", help=text)
    secret.add_argument("--new-admin-secret", action="store_true", help="Make and print a new secret of the admin page")


def run(args: argparse.Namespace) -> None:
    optional_import("alembic", "study", "A study")  # one hint for all packages of the extra
    from sqlalchemy.exc import OperationalError

    try:
        if args.action == "new":
            _new(args)
            return
        with closing(study.open_study(args.study)) as store:
            args.act(args, store)
    except OperationalError as error:
        raise ValueError(f"The database of the study cannot be used: {error.orig}.") from error


def _new(args: argparse.Namespace) -> None:
    if args.out is not None and Path(args.out).exists():
        raise ValueError(f"{args.out} already exists. Choose another folder.")
    codes_file = Path(args.codes or Path(args.out or ".") / "codes.csv")
    if args.out is None or args.codes:
        check_outputs(args, codes_file, source=args.file)
        _try_to_write(codes_file)

    def load(folder: str) -> "Rationalizer":
        from fresh.rationalizer import Rationalizer  # only for studies with models: torch takes seconds to load

        return Rationalizer.from_pretrained(folder, device=args.device)

    settings = study.read_study(args.file)
    plan = study.make_plan(settings, study.read_documents(settings.config, args.file), load)
    if args.out is not None:
        Path(args.out).mkdir(parents=True)  # fails if it exists by now: only a folder of this very command is removed
    try:
        with closing(study.create_study(args.out if args.out is not None else args.database, plan)) as store:
            codes = study.add_annotators(store, plan.study.config.annotators or store.design.min_annotators)
        _write_codes(codes_file, codes)
    except BaseException:  # also Ctrl-C: the same command must work again
        if args.out is not None:
            shutil.rmtree(args.out, ignore_errors=True)
        raise
    size = f"{plural(len(plan.documents), 'document')} in {plural(len(plan.study.conditions), 'condition')}"
    print(f"{size}, {plural(store.design.n_planned, 'answer')} wanted.")
    print(f"{plural(len(codes), 'sign-in code')} in {codes_file}, and nowhere else. Give one to each annotator.")
    if len(codes) < store.design.min_annotators:
        at_least = plural(store.design.min_annotators, "annotator")
        print(f"The study needs at least {at_least}. To add some: fresh study codes.")
    for warning in plan.warnings:
        print(warning)


def _try_to_write(path: Path) -> None:
    # Before there are any codes: they are stored nowhere else, and would be lost.
    probe = path.with_name(f"{path.name}.partial")
    probe.touch(mode=0o600)
    probe.unlink()


def _write_codes(path: Path, codes: list[str]) -> None:
    lines = ["annotator,code", *(f"{code.partition('-')[0]},{code}" for code in codes)]
    _write_private(path, "".join(f"{line}\n" for line in lines))


def _write_private(path: Path, text: str) -> None:
    """Write a file that only its owner can read."""
    with atomic_write(path) as partial:
        partial.touch(mode=0o600)
        partial.write_text(text, encoding="utf-8")


def _serve(args: argparse.Namespace, store: "Store") -> None:
    optional_import("fastapi", "web", "fresh study serve")
    from fresh.study.web.app import StudyServeConfig, create_app
    from fresh.web.server import bind, serve, server_url

    hosts = frozenset(name.lower() for name in args.allow_hosts)
    config = StudyServeConfig(args.host, hosts, args.https, args.session_hours, frozenset(args.trusted_proxies))
    with bind(args.host, args.port) as listener:
        about_secret = _set_admin_secret(store, args)
        app = create_app(store, config)
        url = server_url(listener)
        print(f"Serving {store.about['title']!r} at {url} (press Ctrl-C to stop)")
        print(f"Admin page: {url}admin. {about_secret}", flush=True)
        serve(app, listener, config.trusted_proxies)


def _set_admin_secret(store: "Store", args: argparse.Namespace) -> str:
    """Make sure that the admin page has a secret, and say where to find it."""
    from fresh.study.annotators import make_admin_secret, set_admin_secret

    path: Path | None = args.admin_secret_file
    if path is not None and path.exists():
        set_admin_secret(store, path.read_text(encoding="utf-8"))
        return f"Its secret is in {path}."
    secret = make_admin_secret(store, args.new_admin_secret or path is not None)
    if secret is None:
        return "Its secret was shown or saved earlier. To make a new one: --new-admin-secret."
    if path is None:
        return f"Its secret, shown only this once: {secret}"
    _write_private(path, f"{secret}\n")
    return f"Its secret was written to {path}."


def _status(args: argparse.Namespace, store: "Store") -> None:
    from fresh.study.display import cannot_complete

    overview = study.get_overview(store)
    if overview.paused:
        print("The study is paused. To resume it: fresh study resume.")
    people = plural(len(overview.annotators), "annotator")
    print(f"{overview.n_answered:,} of {plural(overview.n_planned, 'answer')}, by {len(overview.started)} of {people}.")
    if overview.n_more:
        command = f"fresh study codes {_quote_study(args.study)} {overview.n_more}"
        print(f"{cannot_complete(overview.n_more)} Make codes: {command}")
    for person in overview.started:
        name = f" ({person.outside})" if person.outside else ""
        time = "–" if person.seconds is None else f"{person.seconds:.1f}"
        checks = f", {person.n_failed} of {plural(person.n_checks, 'check')} failed" if person.n_checks else ""
        look = " - review" if person.flagged else ""
        answers = plural(person.n_answered, "answer") + (f", {time} s an answer" if person.n_answered else "")
        print(f"  annotator {person.id}{name}: {person.status}, {answers}{checks}{look}")


def _quote_study(place: str) -> str:
    """Quote the place of a study for a command, without the password of its database."""
    from sqlalchemy import make_url

    return shlex.quote(repr(make_url(place)) if "://" in place else place)


def _codes(args: argparse.Namespace, store: "Store") -> None:
    check_outputs(args, args.output)
    if args.output == "-":
        print("\n".join(study.add_annotators(store, args.number)))
    else:
        _try_to_write(Path(args.output))
        _write_codes(Path(args.output), study.add_annotators(store, args.number))


def _pause_or_resume(args: argparse.Namespace, store: "Store") -> None:
    changed = study.set_paused(store, args.action == "pause")
    if args.action == "pause":
        print("Paused: no items are assigned; answers are still saved." if changed else "The study is already paused.")
    else:
        print("Resumed: items are assigned again." if changed else "The study was not paused.")


def _change_annotator(args: argparse.Namespace, store: "Store") -> None:
    from fresh.study.annotators import find_annotator

    person = find_annotator(store, args.annotator)
    if args.action == "readmit":
        if person.state == "active":
            raise ValueError(f"Annotator {person.id} is already taking part.")
        n_lost = study.readmit(store, person.id)
        print(f"Annotator {person.id} takes part again, and their answers count.")
        if n_lost:
            print(f"Answers that do not count, since others got the items meanwhile: {n_lost:,}.")
        return
    if args.action == "exclude":
        n_free, news = study.exclude(store, person.id), "is excluded; their answers do not count"
    elif person.state == "excluded":
        raise ValueError(f"Annotator {person.id} is excluded. To let their answers count, use readmit, then leave.")
    else:
        n_free, news = study.leave(store, person.id), "has left; their answers count"
    print(f"Annotator {person.id} {news}. Items that go to others: {n_free:,}.")


def _results(args: argparse.Namespace, store: "Store") -> None:
    check_outputs(args, args.json, args.markdown, args.csv, *args.figure)
    results = study.compute_results(store)
    print(results.to_markdown(), end="")
    write_texts(args, {"json": results.to_json, "markdown": results.to_markdown, "csv": results.table().to_csv})
    if args.figure:
        study.draw_results(results, args.figure)


def _export(args: argparse.Namespace, store: "Store") -> None:
    from fresh.study.export import export_paths

    check_outputs(args, *export_paths(args.form, args.output))
    print(f"Written: {', '.join(map(str, study.export_study(store, args.form, args.output)))}")


def _import(args: argparse.Namespace, store: "Store") -> None:
    done = study.import_study(store, args.form, args.file)
    print(f"{done.n_new:,} new, {done.n_existing:,} imported before, {len(done.skipped):,} left out.")
    for line in (*done.notes, *done.skipped):
        print(line, file=sys.stderr)


_ACTIONS: dict[str, tuple[str, str, Callable[..., None]]] = {
    "new": ("Make a study", _NEW, _new),
    "serve": ("Serve the pages of a study", _SERVE, _serve),
    "status": ("Show the progress, and annotators to review", _STATUS, _status),
    "codes": ("Make sign-in codes for more annotators", "fresh study codes my-study 5 --output more.csv", _codes),
    "pause": ("Stop assigning items, until `fresh study resume`", "fresh study pause my-study", _pause_or_resume),
    "resume": ("Assign items again after a pause", "fresh study resume my-study", _pause_or_resume),
    "leave": ("Remove an annotator; their answers count", "fresh study leave my-study 3", _change_annotator),
    "exclude": ("Exclude an annotator; their answers do not count", _EXCLUDE, _change_annotator),
    "readmit": ("Readmit an annotator who left or was excluded", "fresh study readmit my-study 3", _change_annotator),
    "results": ("Show tables, agreement and tests; also before the end", "fresh study results my-study", _results),
    "export": ("Write answers, or items for other tools", _EXPORT, _export),
    "import": ("Import answers from other tools, or from Prolific", _IMPORT, _import),
}
"""Summary, description or example, and function of each action; all but the first get the store too."""
