import argparse
import socket
import sys

from fresh.cli.options import add_shared

SUMMARY = "Serve models in the browser and over JSON"
ABOUT = """\
Serve saved models: as a page in the browser, and as a JSON API. Each model is
loaded once, and requests that arrive together are computed in one batch.

  fresh serve my-model                    then open http://127.0.0.1:8000/
  fresh serve reviews=runs/3f2a/model     give a model a name
  fresh serve my-model --host 0.0.0.0     for other machines, without a password

  curl http://127.0.0.1:8000/v1/models/my-model/explain \\
      -H 'Content-Type: application/json' -d '{"text": "A lovely film."}'

The API is described at /v1/openapi.json. To stop the server, press Ctrl-C.
"""
_WARNING = """\
Anybody on the network can use this server: it has no password and no
encryption. Leave --host out to keep it to this machine, or put a reverse proxy
with a password in front of it.\
"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.usage = "fresh serve MODEL [MODEL ...] [options]"
    text = "Folder of a saved model, its name on the Hugging Face Hub, or NAME=MODEL"
    parser.add_argument("models", nargs="+", metavar="MODEL", help=text)
    add_shared(parser, "--host", "--port", "--allow-host")
    text = "Longest time for a request to arrive, and then for its answer (default: 30)"
    parser.add_argument("--timeout", type=float, default=30.0, metavar="SECONDS", help=text)
    add_shared(parser, "--device")


def run(args: argparse.Namespace) -> None:
    from fresh._optional import optional_import

    optional_import("fastapi", "web", "fresh serve")
    from fresh.serving.app import create_app
    from fresh.serving.config import ServeConfig
    from fresh.serving.models import load_models
    from fresh.web.metrics import ServerMetrics
    from fresh.web.security import is_loopback
    from fresh.web.server import serve, server_urls

    config = ServeConfig(args.host, frozenset(name.lower() for name in args.allow_hosts), args.timeout)
    with _listen(args) as listener:  # before the models, which take longer to load
        metrics = ServerMetrics()
        models = load_models(args.models, args.device, metrics)
        app = create_app(models, metrics, config)
        url, *others = server_urls(listener, config.allow_hosts)
        print(f"Serving {', '.join(models.served)} at {url} (press Ctrl-C to stop)", flush=True)
        if others:
            print(f"From other machines: {' or '.join(others)}", flush=True)
        if not is_loopback(listener.getsockname()[0]):
            print(_WARNING, file=sys.stderr, flush=True)
        serve(app, listener)


def _listen(args: argparse.Namespace) -> socket.socket:
    """Listen on the port; if that fails, also report what is wrong with the models."""
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
