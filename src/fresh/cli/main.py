"""The command `fresh`."""

import argparse
import importlib
import signal
import sys
import threading
import warnings
from collections.abc import Iterator, Sequence
from contextlib import contextmanager

from fresh._io import describe_error
from fresh._optional import explain_missing_extra
from fresh.cli.options import flags_of, setting_names, with_flags
from fresh.config import suggest
from fresh.errors import MissingExtraError
from fresh.highlight import CONTROL_PICTURES

COMMANDS = {
    name: importlib.import_module(f"fresh.cli.{name}")
    for name in (
        *("demo", "describe", "train", "search", "explain", "verify", "evaluate", "audit", "compare", "export"),
        *("serve", "run", "table", "plot", "study"),
    )
}
"""Modules with SUMMARY, ABOUT and two functions: add_arguments, and run, which returns an exit status or None for 0.

They import what they need when they run, so that help is instant.
"""
INTERRUPTED = 130
"""Exit status after Ctrl-C, as shells have it: 128 and the number of the signal."""
TERMINATED = 143
"""Exit status after SIGTERM, which keeps what Ctrl-C keeps."""
_FORMAT = argparse.RawDescriptionHelpFormatter
_ABOUT = """\
Text classification that shows exactly the words each answer was computed from.

  fresh demo                               train on film reviews, in minutes
  fresh train reviews.csv --out my-model   train on your own data
  fresh explain my-model "A lovely film."  classify a text and see the words
  fresh evaluate my-model more.csv         measure a model on labeled data
  fresh audit my-model reviews.csv         try to break its guarantee
  fresh serve my-model                     use it in the browser and over JSON

To see the options and examples of a command: fresh COMMAND --help
"""


def main(arguments: Sequence[str] | None = None) -> int:
    """Run a command and return its exit status."""
    given = sys.argv[1:] if arguments is None else list(arguments)
    name = " ".join(("fresh", *given[:1]))
    # By default, a warning shows a file and a line of code, which say nothing to a user.
    warnings.formatwarning = lambda message, *_about, **_more: f"Warning: {message}\n".translate(CONTROL_PICTURES)
    args, terminated = argparse.Namespace(options={}), list[int]()
    try:
        with explain_missing_extra(name), _interrupt_on_sigterm(terminated):
            args = _parse(_build_parser(given), given)
            return int(args.run(args) or 0)
    except BrokenPipeError:
        sys.stderr.close()  # else Python reports the broken pipe once more when it exits
        return 0
    except KeyboardInterrupt as interrupt:  # raised again with a hint by the commands that have one
        print(with_flags(" ".join(("\nInterrupted.", *interrupt.args)), args.options), file=sys.stderr)
        return TERMINATED if terminated else INTERRUPTED
    except (ValueError, TypeError, MissingExtraError, OSError) as error:
        message = with_flags(describe_error(error), args.options, given)
        print(f"{name}: {message}".translate(CONTROL_PICTURES), file=sys.stderr)
        return 1


@contextmanager
def _interrupt_on_sigterm(received: list[int]) -> Iterator[None]:
    """Treat SIGTERM like Ctrl-C inside the block, and note that it was received."""
    if threading.current_thread() is not threading.main_thread():  # others cannot set a handler
        yield
        return

    def interrupt(number: int, _frame: object) -> None:
        received.append(number)
        raise KeyboardInterrupt

    before = signal.signal(signal.SIGTERM, interrupt)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, before)


def _build_parser(given: Sequence[str]) -> argparse.ArgumentParser:
    """Build the parser, with the options of the command that is run: listing its settings takes time."""
    parser = argparse.ArgumentParser("fresh", description=_ABOUT, formatter_class=_FORMAT)
    commands = parser.add_subparsers(dest="command", required=True, metavar="COMMAND")
    for name, module in COMMANDS.items():
        command = commands.add_parser(
            name, help=module.SUMMARY, description=module.ABOUT, formatter_class=_FORMAT, allow_abbrev=False
        )
        if given[:1] == [name]:
            module.add_arguments(command)
            command.set_defaults(run=module.run, options=flags_of(command))
    return parser


def _parse(parser: argparse.ArgumentParser, given: Sequence[str]) -> argparse.Namespace:
    """Parse the command line; argparse does not find a TEXT that follows options."""
    args, rest = parser.parse_known_args(given)
    if args.command == "explain" and args.text_given is None and len(rest) == 1 and not rest[0].startswith("-"):
        args.text_given = rest.pop()
    if rest:
        flags = [flag for flags in args.options.values() for flag in flags]
        problems: list[str] = []
        for option in (item.partition("=")[0] for item in rest if item.startswith("--")):
            name = option.removeprefix("--").replace("-", "_")
            if args.command == "run" and name in setting_names():
                problems.append(f"{option} is not an option. It is a setting of all runs: --set {name}=VALUE.")
            else:
                problems.append(suggest(option, "an option", flags))
        hint = " Give one TEXT, in quotes, or a file with --input." if args.command == "explain" else ""
        message = "\n".join(problems) or f"Unexpected: {' '.join(rest)}.{hint}"
        text = f"fresh {args.command}: {message}\nSee: fresh {args.command} --help"
        print(text.translate(CONTROL_PICTURES), file=sys.stderr)
        raise SystemExit(2)
    return args
