"""`fresh serve`."""

import argparse
import sys
from typing import TYPE_CHECKING

from fresh.cli.options import add_listening

if TYPE_CHECKING:
    import socket
    from collections.abc import Sequence

SUMMARY = "try models in the browser, and ask them over JSON"
ABOUT = """\
Serve saved models: a page on which anybody can try them, and a JSON interface. Each model is loaded once; requests that
come at the same time are read together.

  fresh serve my-model                                   then open http://127.0.0.1:8000/
  fresh serve my-model other-model --port 8080           choose between models on the page
  fresh serve reviews=runs/3f2a/model                    call a model by a name of your own
  fresh serve my-model --host 0.0.0.0                    reachable from other machines: there is no password

  curl http://127.0.0.1:8000/v1/models
  curl http://127.0.0.1:8000/v1/models/my-model/explain -H 'Content-Type: application/json' \\
       -d '{"text": "A lovely, funny film with a dull ending."}'

The interface is described in /v1/openapi.json; /health says whether models answer, /metrics has figures for Prometheus.
End it with Ctrl-C.
"""
OPEN = """\
Anybody in the network can use it: there is no password and no encryption. To keep it to this machine, leave --host out;
to let only some in, put a proxy with a password before it.\
"""


def add(parser: argparse.ArgumentParser, whole: bool) -> None:
    """Describe `fresh serve`."""
    parser.description = ABOUT
    parser.usage = "fresh serve MODEL [MODEL ...] [options]"
    parser.add_argument(
        "models", nargs="+", metavar="MODEL", help="folder of a saved model, its name on the model hub, or NAME=MODEL"
    )
    add_listening(parser)
    parser.add_argument(
        "--timeout", type=float, default=30.0, metavar="SECONDS", help="longest time for an answer (default: 30)"
    )
    parser.add_argument("--device", default="auto", help="where to compute: auto, cpu, cuda, ... (default: auto)")


def run(args: argparse.Namespace) -> int:
    """Load the models and serve them until Ctrl-C."""
    from fresh._optional import optional_import

    optional_import("fastapi", "web", "fresh serve")
    from fresh.serving.app import create_app
    from fresh.serving.config import ServeConfig
    from fresh.serving.models import load_models
    from fresh.web.metrics import ServerMetrics
    from fresh.web.server import serve, server_urls

    config = ServeConfig(args.host, frozenset(name.lower() for name in args.allow_hosts), args.timeout)
    with _listening(args) as taken:  # before the models, which take longer to load than to say so
        measures = ServerMetrics()
        models = load_models(args.models, args.device, measures)
        app = create_app(models, measures, config)
        print(_told(list(models.served), server_urls(taken, config.allow_hosts)), flush=True)
        _warn(taken)
        serve(app, taken)
    return 0


def _listening(args: argparse.Namespace) -> "socket.socket":
    """Take the port; if it cannot be had, say also what can be seen to be wrong with the models."""
    from fresh.serving.models import check_models
    from fresh.web.server import PortError, bind

    try:
        return bind(args.host, args.port)
    except PortError as error:
        try:
            check_models(args.models)
        except ValueError as other:
            raise PortError(f"{error}\n{other}") from other
        raise


def _told(names: "Sequence[str]", addresses: "Sequence[str]") -> str:
    """Say what is served, and where."""
    first, *others = addresses
    elsewhere = f"\nFrom other machines: {' or '.join(others)}" if others else ""
    return f"Serving {', '.join(names)} at {first} (Ctrl-C ends it){elsewhere}"


def _warn(taken: "socket.socket") -> None:
    """Say who can use what is reached from other machines."""
    from fresh.web.security import is_loopback

    if not is_loopback(taken.getsockname()[0]):
        print(OPEN, file=sys.stderr, flush=True)
