"""The command `fresh`."""

import argparse
import sys
import warnings
from collections.abc import Sequence

from fresh._optional import explain_missing_extra
from fresh.cli.options import INTERRUPTED, flags_of, setting_names, with_flags
from fresh.cli.registry import COMMANDS
from fresh.errors import MissingExtraError
from fresh.highlight import CONTROL_PICTURES

SHAPE = argparse.RawDescriptionHelpFormatter
EXPECTED = {"explain": " Give one TEXT, in quotes, or a file with --input."}
"""What may have been meant where more was given than a command takes."""
ABOUT = """\
Text classification that shows exactly the words an answer was made from.

  fresh demo                                   train on film reviews and look at the answers; a few minutes
  fresh train reviews.csv --out my-model       train on your own data
  fresh search --help                          look for good settings by training many times
  fresh explain my-model "A lovely film."      classify a text and see from which words
  fresh verify certificates.jsonl my-model     check what fresh explain --certify wrote
  fresh evaluate my-model more-reviews.csv     measure on labelled data
  fresh audit my-model reviews.csv             try to break its guarantee, and look for what leaks past it
  fresh compare --help                         put models side by side, and test whether they differ
  fresh export --help                          let people correct the words in an annotation tool
  fresh serve my-model                         try it in the browser, and ask it over JSON
  fresh describe reviews.csv                   sizes, lengths and classes of data, and what people marked in it
  fresh run --help                             train and test a whole grid of models from one file
  fresh table runs                             its table, as Markdown, CSV or LaTeX
  fresh plot --help                            its figures
  fresh study --help                           let people read rationales, and see what they make of them
"""


def main(arguments: Sequence[str] | None = None) -> int:
    """Run a command and return its exit status."""
    given = sys.argv[1:] if arguments is None else list(arguments)
    name = " ".join(("fresh", *given[:1]))
    warnings.formatwarning = lambda message, *_about, **_more: f"Warning: {message}\n".translate(CONTROL_PICTURES)
    args = argparse.Namespace(options={})
    try:
        with explain_missing_extra(name):
            args = _parse(_build_parser(given), given)
            return int(args.run(args))
    except BrokenPipeError:
        sys.stderr.close()
        return 0
    except KeyboardInterrupt:
        print("\nInterrupted.", file=sys.stderr)
        return INTERRUPTED
    except (ValueError, TypeError, MissingExtraError, OSError) as error:
        from fresh._io import disk_hint

        message = with_flags(f"{error}{disk_hint(error)}", args.options, given)
        print(f"{name}: {message}".translate(CONTROL_PICTURES), file=sys.stderr)
        return 1


def _build_parser(given: Sequence[str]) -> argparse.ArgumentParser:
    """Describe the commands; settings are read only for the command that shows them."""
    parser = argparse.ArgumentParser("fresh", description=ABOUT, formatter_class=SHAPE)
    commands = parser.add_subparsers(dest="command", required=True, metavar="COMMAND")
    for name, module in COMMANDS.items():
        command = commands.add_parser(name, help=module.SUMMARY, formatter_class=SHAPE, allow_abbrev=False)
        module.add(command, given[:1] == [name])
        command.set_defaults(run=module.run, options=flags_of(command))
    return parser


def _parse(parser: argparse.ArgumentParser, given: Sequence[str]) -> argparse.Namespace:
    """Read the command line; the TEXT to explain may also stand behind options, which argparse does not see."""
    args, rest = parser.parse_known_args(given)
    if args.command == "explain" and args.text_given is None and len(rest) == 1 and not rest[0].startswith("-"):
        args.text_given = rest.pop()
    if rest:
        wrong = [_wrong_option(item.partition("=")[0], args) for item in rest if item.startswith("--")]
        told = "\n".join(wrong) or f"{' '.join(rest)} was not expected.{EXPECTED.get(args.command, '')}"
        print(
            f"fresh {args.command}: {told}\nSee: fresh {args.command} --help".translate(CONTROL_PICTURES),
            file=sys.stderr,
        )
        raise SystemExit(2)
    return args


def _wrong_option(option: str, args: argparse.Namespace) -> str:
    """Say that a command has no such option, and what may have been meant; a grid takes settings otherwise."""
    from fresh.config import suggest

    if args.command == "run":
        name = option.removeprefix("--").replace("-", "_")
        if name in setting_names():
            return f"{option} is not an option. It is a setting of all runs: --set {name}=VALUE."
    return suggest(option, "an option", [flag for flags in args.options.values() for flag in flags])
