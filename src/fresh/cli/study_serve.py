import argparse
from contextlib import closing
from pathlib import Path
from typing import TYPE_CHECKING

from fresh.cli.options import add_shared

if TYPE_CHECKING:
    from fresh.study.store import Store

SUMMARY = "Serve the pages of a study"
ABOUT = """\
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


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.usage = "fresh study serve STUDY [options]"
    add_shared(parser, "--host", "--port", "--allow-host")
    text = "The study is reachable over HTTPS only, through a proxy; marks cookies as secure"
    parser.add_argument("--https", action="store_true", help=text)
    parser.add_argument(
        "--trusted-proxy",
        dest="trusted_proxies",
        action="append",
        default=[],
        metavar="ADDRESS",
        help="IP address or network of a proxy whose X-Forwarded-For and X-Forwarded-Proto headers are trusted; can be "
        "repeated (default: none)",
    )
    text = "Hours without a click after which people must sign in again (default: 12)"
    parser.add_argument("--session-hours", type=float, default=12.0, metavar="HOURS", help=text)
    secret = parser.add_mutually_exclusive_group()
    text = "File with the secret of the admin page; created with a new one if it does not exist"
    secret.add_argument("--admin-secret-file", type=Path, metavar="FILE", help=text)
    secret.add_argument("--new-admin-secret", action="store_true", help="Make and print a new secret of the admin page")


def run(args: argparse.Namespace) -> None:
    from fresh._optional import optional_import

    optional_import("fastapi", "web", "fresh study serve")
    from fresh.study.store import open_study
    from fresh.study.web.app import StudyServeConfig, create_app
    from fresh.web.server import bind, serve, server_url

    hosts = frozenset(name.lower() for name in args.allow_hosts)
    config = StudyServeConfig(args.host, hosts, args.https, args.session_hours, frozenset(args.trusted_proxies))
    with bind(args.host, args.port) as listener, closing(open_study(args.study)) as store:
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
    write_private(path, f"{secret}\n")
    return f"Its secret was written to {path}."


def write_private(path: Path, text: str) -> None:
    """Write a file that only its owner can read."""
    from fresh._io import atomic_write

    with atomic_write(path) as partial:
        partial.touch(mode=0o600)
        partial.write_text(text, encoding="utf-8")
