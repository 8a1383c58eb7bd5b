import argparse
import itertools
import json
import sys
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager, nullcontext
from pathlib import Path
from typing import TYPE_CHECKING, Any

from fresh._io import atomic_write, open_lines
from fresh.cli import options
from fresh.text import plural

if TYPE_CHECKING:
    from fresh.document import Document, Explanation
    from fresh.rationalizer import Rationalizer

    Explain = Callable[[Iterator[Document]], Iterator[Explanation]]

SUMMARY = "Classify text and show which words were read"
ABOUT = """\
Classify text and show the words that each answer was computed from.

  fresh explain my-model "A lovely film."
  fresh explain my-model --input reviews.csv --text review \\
      --output explained.jsonl
  fresh explain my-model --input reviews.csv --text review \\
      --output explained.jsonl --certify certificates.jsonl

With --engine ray, all nodes of a Ray cluster explain a large file, one model
for each GPU or, without GPUs, for each core. Only this machine needs to see the
files. The output is the same.
"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.usage = "fresh explain MODEL [TEXT] [options]"
    options.add_shared(parser, "model")
    parser.add_argument("text_given", nargs="?", metavar="TEXT", help="A text to explain")
    parser.add_argument("--query", metavar="QUERY", help="The query about TEXT, or the column of queries in --input")
    parser.add_argument("--input", metavar="FILE", help="File with many texts; - for JSON lines from standard input")
    parser.add_argument("--output", default="-", metavar="FILE", help="File for JSON lines (default: standard output)")
    parser.add_argument("--curve", action="store_true", help="Show the answers for growing rationales of TEXT")
    parser.add_argument("--scores", action="store_true", help="Also write all words and their scores")
    parser.add_argument("--certify", metavar="FILE", help="Also write certificates, for fresh verify")
    parser.add_argument("--sign", metavar="FILE", help="Sign the certificates with this Ed25519 private key (PEM)")
    text = "With --engine ray: most models at work (default: as many as the cluster has room for)"
    parser.add_argument("--workers", type=int, metavar="N", help=text)
    options.add_shared(parser, "--engine", "--address", "--ratio", "--overwrite", "--device")
    options.add_data_settings(parser, [name for name in options.TEXT_SETTINGS if name != "query"])


def run(args: argparse.Namespace) -> None:
    from rich.console import Console

    from fresh.document import Document
    from fresh.reporting.console import show_curve, show_explanation

    _check_options(args)
    if args.input is not None:
        (_explain_on_cluster if args.engine == "ray" else _explain_file)(args)
        return
    document = Document.from_text(args.text_given, args.query, "TEXT")
    with _load(args) as (model, explain):
        if args.curve:
            show_curve(Console(), model.curve(document))
        else:
            [explanation] = explain(iter([document]))
            show_explanation(Console(), explanation)


def _check_options(args: argparse.Namespace) -> None:
    options.check_engine(args)
    if args.engine == "ray":
        _check_cluster_options(args)
    elif args.workers is not None:
        raise ValueError("--workers is for a Ray cluster: add --engine ray, or leave it out.")
    if (args.text_given is None) == (args.input is None):
        raise ValueError("Give either a TEXT or an --input file.")
    if args.curve and (args.input is not None or args.ratio is not None):
        raise ValueError("--curve shows all ratios of one TEXT: leave --input and --ratio out.")
    if args.curve and args.certify is not None:
        raise ValueError("--curve shows many answers, and --certify is for one: leave one of them out.")
    if args.input is not None:
        options.check_outputs(args, args.output, source=args.input)
    _check_certify_options(args)


def _check_certify_options(args: argparse.Namespace) -> None:
    if args.certify is None:
        if args.sign is not None:
            raise ValueError("--sign signs certificates: name a file for them with --certify.")
        return
    if args.certify == "-":
        raise ValueError("Certificates cannot go to standard output. Name a file: --certify certificates.jsonl.")
    if args.sign is not None and Path(args.sign).resolve() in (
        Path(args.certify).resolve(),
        Path(args.output).resolve(),
    ):
        raise ValueError(f"{args.sign} is the key. Choose another file for the output.")
    if args.input is not None and Path(args.certify).resolve() == Path(args.output).resolve():
        raise ValueError(f"--output and --certify both name {args.certify}. Choose another file for the certificates.")
    options.check_outputs(args, args.certify, source=args.input)


def _check_cluster_options(args: argparse.Namespace) -> None:
    for name, flag in (("text_given", "TEXT"), ("curve", "--curve"), ("certify", "--certify")):
        if getattr(args, name):
            raise ValueError(f"--engine ray is for files: leave {flag} out.")
    if args.input == "-" or args.output == "-":
        raise ValueError("--engine ray needs files: name them with --input and --output.")
    if args.workers is not None and args.workers < 1:
        raise ValueError(f"--workers must be at least 1, got {args.workers}.")


@contextmanager
def _load(args: argparse.Namespace) -> Iterator[tuple["Rationalizer", "Explain"]]:
    """Load the model, with a function that explains and, if asked to, certifies."""
    if args.certify is None:
        model = options.load_model(args)
        yield model, lambda documents: model.explain_stream(documents, ratio=args.ratio)
        return
    from fresh.audit.certificates import certifying

    with certifying(
        args.model, args.certify, device=args.device, overwrite=args.overwrite, sign=args.sign
    ) as certifier:
        yield certifier.model, lambda documents: certifier.explain(documents, args.ratio)
    print(f"Predictor digest: {certifier.maker.predictor_sha256}", file=sys.stderr)
    n_certificates = plural(certifier.count, "certificate")
    print(f"{n_certificates} in {args.certify}. Final digest: {certifier.digest}", file=sys.stderr)


def _explain_file(args: argparse.Namespace) -> None:
    # Whatever happens, the lines that are written are whole.
    from fresh.data.examples import BadRows, count_rows, read_documents
    from fresh.progress import SILENT, Terminal
    from fresh.reporting.console import to_record

    config, bad, done = options.data_config(args), BadRows(), 0
    documents = read_documents(args.input, config, bad)
    # With lines on standard output, a bar on standard error would break them in a terminal.
    progress = SILENT if args.output == "-" else Terminal()
    uncertified = "" if args.certify is None else " There are no certificates."
    try:
        with _load(args) as (model, explain):
            fitting = _start(options.drop_too_long(documents, args, model, bad))
            total = None if progress is SILENT else count_rows(args.input, config)
            with progress.task("explaining", total) as advance:
                explanations = _start(explain(fitting))
                with nullcontext(sys.stdout) if args.output == "-" else open_lines(Path(args.output)) as output:
                    for explanation in explanations:
                        output.write(json.dumps(to_record(explanation, args.scores), ensure_ascii=False) + "\n")
                        done += 1
                        advance(1, "")
                    output.flush()  # here, a closed pipe is still caught; when Python exits, it is not
    except KeyboardInterrupt as error:
        raise KeyboardInterrupt(f"{plural(done, 'text')} explained; the output is valid.{uncertified}") from error
    except ValueError as error:
        if not done:
            raise
        written = f"{plural(done, 'text')} explained and written before it.{uncertified}"
        raise ValueError(f"{error} ({written})") from error
    options.report_bad_rows(bad)


def _start(items: Iterator[Any]) -> Iterator[Any]:
    """Compute the first item now, so that an unreadable input leaves no output behind."""
    first = list(itertools.islice(items, 1))
    return itertools.chain(first, items)


def _explain_on_cluster(args: argparse.Namespace) -> None:
    """Explain the texts of a file on a cluster; the output appears when all are explained, or not at all."""
    from fresh.data.examples import BadRows, count_rows
    from fresh.experiments.ray_explain import ExplainRequest, explain_on_cluster
    from fresh.progress import Terminal

    config, bad = options.data_config(args), BadRows()
    request = ExplainRequest(args.input, config, args.ratio, args.scores, args.device)
    with (
        options.hint_on_interrupt("Nothing was written."),
        closing(explain_on_cluster(args.model, request, bad, args.address, args.workers)) as lines,
        Terminal().task("explaining", count_rows(args.input, config)) as advance,
        atomic_write(Path(args.output)) as path,
        path.open("w", encoding="utf-8") as output,
    ):
        for group in lines:
            output.write(group)
            advance(group.count("\n"), "")
    options.report_bad_rows(bad)
