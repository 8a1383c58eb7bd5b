"""`fresh export`."""

import argparse
import sys
from collections.abc import Iterator
from typing import TYPE_CHECKING

from fresh.cli import options

if TYPE_CHECKING:
    from fresh.document import Explanation
    from fresh.progress import Progress

SUMMARY = "Export explanations to an annotation tool"
ABOUT = """\
Explain texts and write them as tasks of an annotation tool, with the model's
label and words already annotated, for people to correct.

  fresh export my-model --input reviews.csv --text review \\
      --tool label_studio --output tasks.json
  fresh export my-model --input reviews.csv --text review \\
      --tool doccano --output tasks.jsonl
"""


def add_arguments(parser: argparse.ArgumentParser, with_settings: bool) -> None:
    """Describe `fresh export`."""
    parser.description = ABOUT
    options.add_model(parser)
    text = "File with texts; - for JSON lines from standard input"
    parser.add_argument("--input", required=True, metavar="FILE", help=text)
    parser.add_argument("--tool", required=True, metavar="TOOL", help="label_studio, doccano or potato")
    text = "File for the tasks: .json for label_studio, .jsonl for the others"
    parser.add_argument("--output", required=True, metavar="FILE", help=text)
    options.add_ratio(parser)
    options.add_overwrite(parser)
    options.add_device(parser)
    if with_settings:
        options.add_data_settings(parser, options.TEXT_SETTINGS)


def run(args: argparse.Namespace) -> int:
    """Explain texts and write them as tasks; the files appear when all are written."""
    from fresh.data.annotation import export, export_paths
    from fresh.data.splits import BadRows, read_documents
    from fresh.evaluation.warnings import drop_too_long
    from fresh.progress import Terminal
    from fresh.rationalizer import Rationalizer

    for path in export_paths(args.output, args.tool):
        options.check_output(str(path), args.input, args.overwrite)
    config, bad = options.data_config(args), BadRows()
    documents = read_documents(args.input, config, bad)
    model = Rationalizer.from_pretrained(args.model, device=args.device)
    if config.skip_bad:
        documents = drop_too_long(documents, model, bad)
    explanations = _with_progress(model.explain_stream(documents, ratio=args.ratio), Terminal())
    try:
        written = export(explanations, args.output, args.tool)
    except KeyboardInterrupt:
        print("\nInterrupted. Nothing is written.", file=sys.stderr)
        return options.INTERRUPTED
    options.report_bad_rows(bad)
    tasks = "1 task" if written.count == 1 else f"{written.count:,} tasks"
    tasks_file, *others = map(str, written.files)
    print(f"Wrote {tasks} to {tasks_file}{''.join(f', and settings for them to {file}' for file in others)}.")
    return 0


def _with_progress(explanations: Iterator["Explanation"], progress: "Progress") -> Iterator["Explanation"]:
    with progress.task("explaining", None) as advance:
        for explanation in explanations:
            yield explanation
            advance(1, "")
