"""`fresh export`."""

import argparse
import sys
from collections.abc import Iterator
from typing import TYPE_CHECKING

from fresh.cli.options import INTERRUPTED, READS, add_reading, check_output, reading

if TYPE_CHECKING:
    from fresh.document import Explanation
    from fresh.progress import Progress

SUMMARY = "write explanations for an annotation tool, where people correct them"
ABOUT = """\
Explain texts and write them for an annotation tool, with the model's class and its words already marked.

  fresh export my-model --input reviews.csv --text review --tool label_studio --output tasks.json
  fresh export my-model --input reviews.csv --text review --tool doccano --output tasks.jsonl
"""


def add(parser: argparse.ArgumentParser, whole: bool) -> None:
    """Describe `fresh export`."""
    parser.description = ABOUT
    parser.add_argument("model", metavar="MODEL", help="folder of a saved model, or its name on the model hub")
    parser.add_argument(
        "--input", required=True, metavar="FILE", help="file with texts; - for JSON lines from standard input"
    )
    parser.add_argument("--tool", required=True, metavar="TOOL", help="label_studio, doccano or potato")
    parser.add_argument(
        "--output", required=True, metavar="FILE", help="file for the tasks; .json for label_studio, else .jsonl"
    )
    parser.add_argument("--ratio", type=float, help="share of words to read, for a model of a range of ratios")
    parser.add_argument("--overwrite", action="store_true", help="replace output files that are there already")
    if whole:
        add_reading(parser, READS)


def run(args: argparse.Namespace) -> int:
    """Explain texts and write them as tasks; the files appear when all is written."""
    from fresh.data.annotation import export, export_paths
    from fresh.data.splits import BadRows, read_documents
    from fresh.evaluation.warnings import drop_too_long
    from fresh.progress import Terminal
    from fresh.rationalizer import Rationalizer

    for file in export_paths(args.output, args.tool):
        check_output(str(file), args.input, args.overwrite)
    reads, bad = reading(args), BadRows()
    documents = read_documents(args.input, reads, bad)
    model = Rationalizer.from_pretrained(args.model, device=args.device)
    if reads.skip_bad:
        documents = drop_too_long(documents, model, bad)
    explanations = _watched(model.explain_stream(documents, ratio=args.ratio), Terminal())
    try:
        written = export(explanations, args.output, args.tool)
    except KeyboardInterrupt:
        print("\nInterrupted. Nothing is written.", file=sys.stderr)
        return INTERRUPTED
    if bad.count or bad.widened:
        print(bad.summary(), file=sys.stderr)
    tasks = "1 task" if written.count == 1 else f"{written.count:,} tasks"
    tasks_file, *settings = map(str, written.files)
    print(f"Wrote {tasks} to {tasks_file}{''.join(f', and settings for them to {file}' for file in settings)}.")
    return 0


def _watched(explanations: Iterator["Explanation"], progress: "Progress") -> Iterator["Explanation"]:
    """Pass explanations on and show how many there were."""
    with progress.task("explaining", None) as advance:
        for explanation in explanations:
            yield explanation
            advance(1, "")
