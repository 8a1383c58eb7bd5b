"""`fresh serve`."""

import argparse
import math

from fresh.commands.options import add_listening

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
    from fresh.extras import load_extra

    load_extra("fastapi", "web", "fresh serve")
    from fresh.web.measures import Measures
    from fresh.web.models import load
    from fresh.web.serve import ServeConfig, create_app
    from fresh.web.server import address_of, bind, serve

    if not 0 < args.timeout < math.inf:
        raise ValueError(f"--timeout must be more than 0 seconds, and a number, got {args.timeout:g}.")
    with bind(args.host, args.port) as taken:  # before the models, which take longer to load than to say so
        measures = Measures()
        models = load(args.models, args.device, measures)
        config = ServeConfig(args.host, frozenset(name.lower() for name in args.allow_host), args.timeout)
        app = create_app(models, measures, config)
        print(f"Serving {', '.join(models.served)} at {address_of(taken)} (Ctrl-C ends it)", flush=True)
        serve(app, taken)
    return 0
