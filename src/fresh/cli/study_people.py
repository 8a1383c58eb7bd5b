"""`fresh study`: who takes part, and how they are doing."""

import argparse
import shlex
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import Protocol

from fresh.cli.options import check_output

STATUS = """\
Say how far a study is, and how everybody is doing who has begun: answers, median time of an answer (a dash where none
was measured, as on pages without scripts), failed attention checks.

"review" marks whoever failed more than one attention check, or their only one, and whoever took less than a second
for most answers; those who are excluded are not marked any more.
"""
PAUSE = """\
Give no more items out, until `fresh study resume`. Annotators are told to come back later; answers to what they have
before them are still saved.
"""
LEAVE = """\
Let an annotator go who gave up. What they answered counts; what they had before them goes to others.

  fresh study leave my-study 3                       by the number that `fresh study status` shows
  fresh study leave my-study 5e9088a8a4b6ed018b45    or by the name on a crowd platform
"""
EXCLUDE = """\
Set aside all that an annotator answered, for example since they failed attention checks: it counts in no result, and
others get the items. The answers stay in the database and in exports (`counted` is false there); `fresh study readmit`
brings the annotator back.
"""
READMIT = """\
Let an annotator take part again who left or was excluded. After an exclusion, what they answered counts again, unless
others have been given the items meanwhile.
"""


class _Action(Protocol):
    """Adds a command to `fresh study`."""

    def __call__(self, name: str, about: str, made: Callable[[argparse.Namespace], int]) -> argparse.ArgumentParser:
        """Add a command with its name, what it is for, and what it does."""
        ...


def add_people(action: _Action) -> None:
    """Describe the commands that are about people."""
    action("status", "how far it is, and whom to look at", status).description = STATUS
    codes = action("codes", "sign-in codes for more annotators", _more_codes)
    codes.add_argument("number", type=int, metavar="N", help="how many")
    codes.add_argument("--output", default="-", metavar="FILE", help="write them to a file")
    action("pause", "give nothing out for a while", _stop).description = PAUSE
    action("resume", "give items out again", _go_on)
    for name, about, told, made in (
        ("leave", "let an annotator go; what they answered counts", LEAVE, _let_go),
        ("exclude", "set aside all that an annotator answered", EXCLUDE, _set_aside),
        ("readmit", "let an annotator take part again", READMIT, _let_in),
    ):
        parser = action(name, about, made)
        parser.description = told
        parser.add_argument("annotator", metavar="ANNOTATOR", help="number, or name on a crowd platform")


def status(args: argparse.Namespace) -> int:
    """Say how far a study is."""
    from fresh.study.display import cannot_complete, plural
    from fresh.study.overview import get_overview
    from fresh.study.store import open_study

    with closing(open_study(args.study)) as store:
        found = get_overview(store)
    if found.paused:
        print("The study is paused: fresh study resume.")
    people = plural(len(found.annotators), "annotator")
    print(f"{found.n_answered:,} of {plural(found.n_planned, 'answer')}, by {len(found.started)} of {people}.")
    if found.n_more:
        print(
            f"{cannot_complete(found.n_more)} Make codes: fresh study codes {_named_study(args.study)} {found.n_more}"
        )
    for person in found.started:
        name = f" ({person.outside})" if person.outside else ""
        time = "–" if person.seconds is None else f"{person.seconds:.1f}"
        checks = f", {person.n_failed} of {plural(person.n_checks, 'check')} failed" if person.n_checks else ""
        look = " - review" if person.flagged else ""
        done = plural(person.n_answered, "answer") + (f", {time} s an answer" if person.n_answered else "")
        print(f"  annotator {person.id}{name}: {person.status}, {done}{checks}{look}")
    return 0


def _named_study(place: str) -> str:
    """Write the name of a study as a command takes it, without the password of its database."""
    from sqlalchemy import make_url

    from fresh.study.store import hide_password

    return shlex.quote(hide_password(make_url(place)) if "://" in place else place)


def _more_codes(args: argparse.Namespace) -> int:
    """Let more people take part."""
    from fresh.study.annotators import add_annotators
    from fresh.study.store import open_study

    check_output(args.output, "", args.overwrite)
    if args.output != "-":
        check_codes(Path(args.output))
    with closing(open_study(args.study)) as store:
        made = add_annotators(store, args.number)
    if args.output == "-":
        print("\n".join(made))
    else:
        write_codes(Path(args.output), made)
    return 0


def check_codes(path: Path) -> None:
    """Refuse a place for codes that cannot be written to, before there are any."""
    probe = path.with_name(f"{path.name}.partial")
    try:
        probe.touch(mode=0o600)
        probe.unlink()
    except OSError as error:
        raise ValueError(f"Codes cannot be written to {path} ({error.strerror}). Choose another file.") from error


def write_codes(path: Path, codes: list[str]) -> None:
    """Write codes so that only their owner can read the file."""
    from fresh._io import atomic_write

    with atomic_write(path) as partial:
        partial.touch(mode=0o600)
        partial.write_text(
            "".join(f"{line}\n" for line in ("annotator,code", *map(_numbered, codes))), encoding="utf-8"
        )


def _numbered(code: str) -> str:
    """Write a code beside the number of its annotator."""
    return f"{code.partition('-')[0]},{code}"


def _stop(args: argparse.Namespace) -> int:
    """Give nothing out."""
    from fresh.study.annotators import set_paused
    from fresh.study.store import open_study

    with closing(open_study(args.study)) as store:
        changed = set_paused(store, True)
    print("Paused: nothing is given out, answers are still saved." if changed else "It was paused already.")
    return 0


def _go_on(args: argparse.Namespace) -> int:
    """Give items out again."""
    from fresh.study.annotators import set_paused
    from fresh.study.store import open_study

    with closing(open_study(args.study)) as store:
        changed = set_paused(store, False)
    print("Items are given out again." if changed else "It was not paused.")
    return 0


def _let_go(args: argparse.Namespace) -> int:
    """Let an annotator go."""
    from fresh.study.annotators import find_annotator, leave
    from fresh.study.store import open_study

    with closing(open_study(args.study)) as store:
        person = find_annotator(store, args.annotator)
        if person.state == "excluded":
            raise ValueError(f"Annotator {person.id} is excluded. To let their answers count, use readmit, then leave.")
        n_free = leave(store, person.id)
    print(f"Annotator {person.id} has left; what they answered counts. Items that others get: {n_free:,}.")
    return 0


def _set_aside(args: argparse.Namespace) -> int:
    """Exclude an annotator."""
    from fresh.study.annotators import exclude, find_annotator
    from fresh.study.store import open_study

    with closing(open_study(args.study)) as store:
        person = find_annotator(store, args.annotator)
        n_free = exclude(store, person.id)
    print(f"Annotator {person.id} is excluded; nothing of theirs counts. Items that others get: {n_free:,}.")
    return 0


def _let_in(args: argparse.Namespace) -> int:
    """Let an annotator take part again."""
    from fresh.study.annotators import find_annotator, readmit
    from fresh.study.store import open_study

    with closing(open_study(args.study)) as store:
        person = find_annotator(store, args.annotator)
        if person.state == "active":
            raise ValueError(f"Annotator {person.id} takes part already.")
        n_gone = readmit(store, person.id)
    print(f"Annotator {person.id} takes part again, and what they answered counts.")
    if n_gone:
        print(f"Answers that do not count, since others were given the items: {n_gone:,}.")
    return 0
