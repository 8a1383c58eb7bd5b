"""`fresh study serve`."""

import argparse
from contextlib import closing
from pathlib import Path
from typing import TYPE_CHECKING

from fresh.cli.options import add_listening

if TYPE_CHECKING:
    from fresh.study.store import Store

SUMMARY = "the pages on which people answer"
ABOUT = """\
Serve a study. Annotators open the address, sign in with their codes, agree, read the instructions, practise, and answer
one text a page; whoever stops comes back with the code and goes on. Every answer is on the disk before the next page
comes, so that a server that is killed loses none; start it again with the same command.

  fresh study serve my-study                                     then open http://127.0.0.1:8000/
  fresh study serve my-study --host 0.0.0.0                      reachable from other machines, without encryption
  fresh study serve my-study --allow-host study.example.org --https --trusted-proxy 127.0.0.1
                                                                 behind a reverse proxy with https
  fresh study serve postgresql://me@db.example.org/films         several servers may work on one study

The page for whoever runs the study is at /admin: progress, agreement, whom to look at, pause, exclude, new codes,
results, files. Its secret is drawn when the study is served for the first time and printed once; the database has only
a hash of it. Lost? --new-admin-secret. To keep it out of the terminal: --admin-secret-file FILE.
End the server with Ctrl-C.
"""


def add(parser: argparse.ArgumentParser) -> None:
    """Describe `fresh study serve`."""
    parser.usage = "fresh study serve STUDY [options]"
    parser.description = ABOUT
    add_listening(parser)
    parser.add_argument(
        "--https", action="store_true", help="it is reached over https only, through a proxy: cookies too"
    )
    parser.add_argument(
        "--trusted-proxy",
        dest="trusted_proxies",
        action="append",
        default=[],
        metavar="ADDRESS",
        help="address or network of a reverse proxy; only from there X-Forwarded-For and X-Forwarded-Proto are "
        "believed (default: from nowhere); may be given again",
    )
    parser.add_argument(
        "--session-hours",
        type=float,
        default=12.0,
        metavar="HOURS",
        help="after so long without a click people sign in again (default: 12)",
    )
    secret = parser.add_mutually_exclusive_group()
    secret.add_argument(
        "--admin-secret-file",
        type=Path,
        metavar="FILE",
        help="file with the secret of the admin page; if it is not there, it is written with a new one",
    )
    secret.add_argument(
        "--new-admin-secret", action="store_true", help="draw a new secret of the admin page, and print it"
    )


def run(args: argparse.Namespace) -> int:
    """Serve a study until Ctrl-C."""
    from fresh._optional import optional_import

    optional_import("fastapi", "web", "fresh study serve")
    from fresh.study.store import open_study
    from fresh.study.web.app import StudyServeConfig, create_app
    from fresh.web.server import bind, serve, server_url

    hosts = frozenset(name.lower() for name in args.allow_hosts)
    config = StudyServeConfig(args.host, hosts, args.https, args.session_hours, frozenset(args.trusted_proxies))
    with bind(args.host, args.port) as taken, closing(open_study(args.study)) as store:
        told = _admin_secret(store, args)
        app = create_app(store, config)
        address = server_url(taken)
        print(f"Serving {store.about['title']!r} at {address} (Ctrl-C ends it)")
        print(f"Admin page: {address}admin. {told}", flush=True)
        serve(app, taken, config.trusted_proxies)
    return 0


def _admin_secret(store: "Store", args: argparse.Namespace) -> str:
    """See that the admin page has a secret, and say where it is."""
    from fresh.study.annotators import make_admin_secret, set_admin_secret

    path: Path | None = args.admin_secret_file
    if path is not None and path.exists():
        set_admin_secret(store, path.read_text(encoding="utf-8"))
        return f"Its secret is in {path}."
    made = make_admin_secret(store, args.new_admin_secret or path is not None)
    if made is None:
        return "Its secret was shown, or written to a file, before; a new one: --new-admin-secret."
    if path is None:
        return f"Its secret, shown this once: {made}"
    _write_secret(path, made)
    return f"Its secret was written to {path}."


def _write_secret(path: Path, secret: str) -> None:
    """Write a secret so that only its owner can read the file."""
    from fresh._io import atomic_write

    with atomic_write(path) as partial:
        partial.touch(mode=0o600)
        partial.write_text(f"{secret}\n", encoding="utf-8")
