"""`fresh explain`."""

import argparse
import itertools
import json
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar

from fresh.cli import explain_on_ray
from fresh.cli.options import INTERRUPTED, READS, add_engine, add_reading, check_output, opened, reading

if TYPE_CHECKING:
    from fresh.document import Document, Explanation
    from fresh.rationalizer import Rationalizer

    Explain = Callable[[Iterator[Document]], Iterator[Explanation]]

Item = TypeVar("Item")

SUMMARY = "classify text and show from which words"
ABOUT = """\
Classify text and show from which words.

  fresh explain my-model "A lovely film."
  fresh explain my-model --input reviews.csv --text review --output explained.jsonl
  fresh explain my-model --input reviews.csv --text review --output explained.jsonl --certify certificates.jsonl
  fresh explain my-model --input reviews.csv --text review --output explained.jsonl --engine ray --address 10.0.0.1:6379

With --engine ray, a large file is explained on all nodes of a Ray cluster, one model a card or, without cards, a core.
The same lines come out in the same order, when all are done. The files need to be on this machine only.
"""


def add(parser: argparse.ArgumentParser, whole: bool) -> None:
    """Describe `fresh explain`."""
    parser.description = ABOUT
    parser.add_argument("model", metavar="MODEL", help="folder of a saved model, or its name on the model hub")
    parser.add_argument("text_given", nargs="?", metavar="TEXT", help="a text to explain")
    parser.add_argument("--query", metavar="QUERY", help="query of TEXT; with --input, the column that holds queries")
    parser.add_argument("--input", metavar="FILE", help="file with many texts; - for JSON lines from standard input")
    parser.add_argument("--output", default="-", metavar="FILE", help="file for JSON lines; - for standard output")
    parser.add_argument("--ratio", type=float, help="share of words to read, for a model of a range of ratios")
    parser.add_argument("--curve", action="store_true", help="show the answers to growing rationales of TEXT")
    parser.add_argument("--scores", action="store_true", help="also write all words and their scores")
    parser.add_argument("--certify", metavar="FILE", help="also write certificates, for fresh verify")
    add_engine(parser, "on which many texts are explained")
    parser.add_argument("--workers", type=int, metavar="N", help="with --engine ray: models at work, at most")
    parser.add_argument("--overwrite", action="store_true", help="replace an output file that is there already")
    if whole:
        add_reading(parser, [name for name in READS if name != "query"])


def run(args: argparse.Namespace) -> int:
    """Explain one text on the screen, or many as JSON lines."""
    from rich.console import Console

    from fresh.document import Document
    from fresh.reporting.console import show_curve, show_explanation

    _check_options(args)
    if args.input is not None:
        return (explain_on_ray.explain_file if args.engine == "ray" else _explain_file)(args)
    document = Document.from_text(args.text_given, args.query, "TEXT")
    with _loaded(args) as (model, explain):
        if args.curve:
            show_curve(Console(), model.curve(document))
        else:
            [explanation] = explain(iter([document]))
            show_explanation(Console(), explanation)
    return 0


def _check_options(args: argparse.Namespace) -> None:
    """Refuse options that do not go together, and places that must not be written to."""
    explain_on_ray.check_options(args)
    if (args.text_given is None) == (args.input is None):
        raise ValueError("Give either a TEXT or an --input file.")
    if args.curve and (args.input is not None or args.ratio is not None):
        raise ValueError("--curve goes through all ratios of one TEXT: leave --input and --ratio out.")
    if args.curve and args.certify is not None:
        raise ValueError("--curve shows many answers and --certify is for one: leave either out.")
    if args.input is not None:
        check_output(args.output, args.input, args.overwrite)
    if args.certify is None:
        return
    if args.certify == "-":
        raise ValueError("Certificates are not written to standard output. Name a file: --certify certificates.jsonl.")
    if args.input is not None and Path(args.certify).resolve() == Path(args.output).resolve():
        raise ValueError(f"--output and --certify both name {args.certify}. Choose another file for the certificates.")
    check_output(args.certify, args.input or "", args.overwrite)


@contextmanager
def _loaded(args: argparse.Namespace) -> Iterator[tuple["Rationalizer", "Explain"]]:
    """Load the model, with a function that explains and, if asked to, certifies."""
    from fresh.rationalizer import Rationalizer

    if args.certify is None:
        model = Rationalizer.from_pretrained(args.model, device=args.device)
        yield model, lambda documents: model.explain_stream(documents, ratio=args.ratio)
        return
    from fresh.audit.certificates import certifying

    with certifying(args.model, args.certify, device=args.device, overwrite=args.overwrite) as certifier:
        yield certifier.model, lambda documents: certifier.explain(documents, args.ratio)
    n_certificates = f"{certifier.count:,} certificate{'s' if certifier.count != 1 else ''}"
    print(f"Predictor digest: {certifier.maker.predictor_sha256}", file=sys.stderr)
    print(f"{n_certificates} in {args.certify}. Final digest: {certifier.digest}", file=sys.stderr)


def _explain_file(args: argparse.Namespace) -> int:
    """Explain the texts of a file one after the other; each line that is written is whole."""
    from fresh.data.examples import count_rows
    from fresh.data.splits import BadRows, read_documents
    from fresh.evaluation.warnings import drop_too_long
    from fresh.progress import SILENT, Terminal
    from fresh.reporting.console import to_record

    reads, bad, done = reading(args), BadRows(), 0
    documents = read_documents(args.input, reads, bad)
    progress = SILENT if args.output == "-" else Terminal()
    uncertified = "" if args.certify is None else " There are no certificates."
    try:
        with _loaded(args) as (model, explain):
            fitting = _begun(drop_too_long(documents, model, bad) if reads.skip_bad else documents)
            total = None if progress is SILENT else count_rows(args.input, reads)
            with progress.task("explaining", total) as advance:
                explanations = _begun(explain(fitting))
                with opened(args.output) as output:
                    for explanation in explanations:
                        output.write(json.dumps(to_record(explanation, args.scores), ensure_ascii=False) + "\n")
                        done += 1
                        advance(1, "")
    except KeyboardInterrupt:
        print(f"\nInterrupted. {done} texts are explained; what is written is valid.{uncertified}", file=sys.stderr)
        return INTERRUPTED
    except ValueError as error:
        raise ValueError(
            f"{error} ({done} texts before it are explained and written.{uncertified})" if done else str(error)
        ) from error
    if bad.count or bad.widened:
        print(bad.summary(), file=sys.stderr)
    return 0


def _begun(items: Iterator[Item]) -> Iterator[Item]:
    """Make the first one now, so that an input that cannot be read leaves no output behind."""
    first = list(itertools.islice(items, 1))
    return itertools.chain(first, items)
