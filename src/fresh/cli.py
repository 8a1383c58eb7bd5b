"""The command `fresh`: a function a command; what they need is loaded when they run."""

import argparse
import itertools
import json
import sys
import warnings
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any

from fresh.arguments import Command, build_parser
from fresh.extras import MissingExtraError, explained

if TYPE_CHECKING:
    from fresh.data import DataConfig
    from fresh.document import Explanation

INTERRUPTED = 130


def main(arguments: Sequence[str] | None = None) -> int:
    """Run a command and return its exit status."""
    given = sys.argv[1:] if arguments is None else list(arguments)
    name = " ".join(("fresh", *given[:1]))
    warnings.formatwarning = lambda message, *_about, **_more: f"Warning: {message}\n"
    try:
        with explained(name):
            args = parse(build_parser(given, COMMANDS), given)
            return int(args.run(args))
    except BrokenPipeError:
        sys.stderr.close()
        return 0
    except KeyboardInterrupt:
        print("\nInterrupted.", file=sys.stderr)
        return INTERRUPTED
    except (ValueError, TypeError, MissingExtraError, OSError) as error:
        print(f"{name}: {error}", file=sys.stderr)
        return 1


def parse(parser: argparse.ArgumentParser, given: Sequence[str]) -> argparse.Namespace:
    """Read the command line; the TEXT to explain may also stand behind options, which argparse does not see."""
    from fresh.config import unknown

    args, rest = parser.parse_known_args(given)
    if args.command == "explain" and args.text_given is None and len(rest) == 1 and not rest[0].startswith("-"):
        args.text_given = rest.pop()
    if rest:
        wrong = [unknown(item.partition("=")[0], "an option", args.options) for item in rest if item.startswith("--")]
        told = "\n".join(wrong) or f"{' '.join(rest)} was not expected."
        print(f"fresh {args.command}: {told}\nSee: fresh {args.command} --help", file=sys.stderr)
        raise SystemExit(2)
    return args


def run_train(args: argparse.Namespace) -> int:
    """Train, measure, save, and show the table."""
    from rich.console import Console

    from fresh.recipe import train
    from fresh.show import show_report
    from fresh.team import team
    from fresh.unfinished import unfinished

    places = {"out": args.out, "overwrite": args.overwrite, "data_dir": args.data_dir, "config": args.config}
    try:
        model = train(data_given(args), **places, **settings_given(args))
    except KeyboardInterrupt:
        kept = unfinished(Path(args.out))
        print(f"\nInterrupted. {kept or 'No epoch was finished, so nothing is kept.'}", file=sys.stderr)
        return INTERRUPTED
    if not team().leads:
        return 0
    if model.report is not None:
        show_report(Console(), model.report)
    asked = ' --query "A question?"' if model.asks else ""
    hint = "" if model.settings["method"] == "human" else f' Try: fresh explain {args.out} "Some text."{asked}'
    print(f"Saved in {args.out}.{hint}")
    return 0


def data_given(args: argparse.Namespace) -> str | list[str]:
    """Take the one place of the data, or all of several."""
    places: list[str] = args.data
    return places[0] if len(places) == 1 else places


def settings_given(args: argparse.Namespace) -> dict[str, Any]:
    """Take the settings of a training run out of all that was given."""
    from fresh.config import settings_of
    from fresh.methods.named import settings_of_methods
    from fresh.recipe import RunConfig

    names = {setting.name for setting in settings_of(RunConfig)} | settings_of_methods().keys()
    return {name: value for name, value in vars(args).items() if name in names}


def run_search(args: argparse.Namespace) -> int:
    """Look for good settings and say how to use them."""
    from fresh.search import BEST, search

    how = {"trials": args.trials, "space": args.space or ()}
    places = {"out": args.out, "data_dir": args.data_dir, "config": args.config}
    try:
        best = search(data_given(args), **places, **how, **settings_given(args))
    except KeyboardInterrupt:
        print("\nInterrupted. Give the same command again to go on with the trials that are left.", file=sys.stderr)
        return INTERRUPTED
    shown = ", ".join(f"{name} {value:.4g}" for name, value in best.items())
    print(f"Best: {shown}. Train with it: fresh train ... --config {Path(args.out) / BEST}")
    return 0


def run_explain(args: argparse.Namespace) -> int:
    """Explain one text on the screen, or many as JSON lines."""
    from rich.console import Console

    from fresh.document import Document
    from fresh.rationalizer import Rationalizer
    from fresh.show import show_curve, show_explanation

    if (args.text_given is None) == (args.input is None):
        raise ValueError("Give either a TEXT or an --input file.")
    if args.curve and (args.input is not None or args.ratio is not None):
        raise ValueError("--curve goes through all ratios of one TEXT: leave --input and --ratio out.")
    if args.input is not None:
        return explain_file(args)
    document = Document.from_text(args.text_given, args.query, "TEXT")
    model = Rationalizer.from_pretrained(args.model, device=args.device)
    if args.curve:
        show_curve(Console(), model.curve(document))
    else:
        show_explanation(Console(), model.explain(document, ratio=args.ratio))
    return 0


def explain_file(args: argparse.Namespace) -> int:
    """Explain the texts of a file one after the other; each line that is written is whole."""
    from fresh.data import BadRows, read_documents
    from fresh.lengths import leave_out_too_long
    from fresh.progress import SILENT, Terminal
    from fresh.rationalizer import Rationalizer
    from fresh.show import to_record

    check_output(args.output, args.input, args.overwrite)
    reads, bad, done = reading(args), BadRows(), 0
    documents = read_documents(args.input, reads, bad)
    model = Rationalizer.from_pretrained(args.model, device=args.device)
    if reads.skip_bad:
        documents = leave_out_too_long(documents, model, bad)
    progress = SILENT if args.output == "-" else Terminal()
    try:
        explanations = begun(model.explain_stream(documents, ratio=args.ratio))
        with opened(args.output) as output, progress.task("explaining", None) as advance:
            for explanation in explanations:
                output.write(json.dumps(to_record(explanation, args.scores), ensure_ascii=False) + "\n")
                done += 1
                advance(1, "")
    except KeyboardInterrupt:
        print(f"\nInterrupted. {done} texts are explained; what is written is valid.", file=sys.stderr)
        return INTERRUPTED
    except ValueError as error:
        raise ValueError(
            f"{error} ({done} texts before it are explained and written.)" if done else str(error)
        ) from error
    if bad.count:
        print(bad.summary(), file=sys.stderr)
    return 0


def reading(args: argparse.Namespace) -> "DataConfig":
    """Make the settings that say how a file is read."""
    from fresh.config import from_mapping, settings_of
    from fresh.data import DataConfig

    names = {setting.name for setting in settings_of(DataConfig)}
    given = {name: value for name, value in vars(args).items() if name in names and value is not None}
    return from_mapping(DataConfig, given)


def check_output(name: str, source: str, overwrite: bool) -> None:
    """Refuse to replace a file unless asked to, and the file that is read in any case."""
    if name != "-" and not Path(name).parent.is_dir():
        raise ValueError(f"There is no folder {Path(name).parent} to write to. Make it first.")
    if name == "-" or not Path(name).exists():
        return
    if not overwrite:
        raise ValueError(f"{name} is there already. Choose another file, or replace it: --overwrite.")
    if Path(source).exists() and Path(name).samefile(source):
        raise ValueError(f"{name} is the input. Choose another file for the output.")


def begun(explanations: Iterator["Explanation"]) -> Iterator["Explanation"]:
    """Make the first explanation now, so that an input that cannot be read leaves no output behind."""
    first = list(itertools.islice(explanations, 1))
    return itertools.chain(first, explanations)


@contextmanager
def opened(name: str) -> Iterator[IO[str]]:
    """Open the file to write to, or standard output."""
    if name == "-":
        yield sys.stdout
        sys.stdout.flush()
        return
    with Path(name).open("w", encoding="utf-8") as file:
        yield file


def run_evaluate(args: argparse.Namespace) -> int:
    """Measure a saved model and show the table."""
    from rich.console import Console

    from fresh.data import BadRows, read_examples
    from fresh.evaluate import evaluate
    from fresh.lengths import fitting_examples
    from fresh.progress import Terminal
    from fresh.rationalizer import Rationalizer
    from fresh.show import show_report

    if args.json and not Path(args.json).parent.is_dir():
        raise ValueError(f"There is no folder {Path(args.json).parent} to write the report to. Make it first.")
    reads, bad = reading(args), BadRows()
    examples = list(read_examples(args.data, reads, bad))
    model = Rationalizer.from_pretrained(args.model, device=args.device)
    if reads.skip_bad:
        examples = fitting_examples(examples, model, bad)
    if bad.count:
        print(bad.summary(), file=sys.stderr)
    report = evaluate(model, examples, Terminal())
    show_report(Console(), report)
    if args.json:
        partial = Path(f"{args.json}.partial")
        partial.write_text(report.to_json(), encoding="utf-8")
        partial.replace(args.json)
    return 0


def run_demo(args: argparse.Namespace) -> int:
    """Train on film reviews and look at the answers."""
    from rich.console import Console

    from fresh.demo import run

    run(Path(args.out), args.overwrite, Console())
    return 0


COMMANDS: dict[str, Command] = {
    "train": run_train,
    "search": run_search,
    "explain": run_explain,
    "evaluate": run_evaluate,
    "demo": run_demo,
}
