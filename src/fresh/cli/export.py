import argparse
from collections.abc import Iterator
from typing import TYPE_CHECKING

from fresh.cli import options
from fresh.text import plural

if TYPE_CHECKING:
    from fresh.document import Explanation

SUMMARY = "Export explanations to an annotation tool"
ABOUT = """\
Explain texts and write them as tasks of an annotation tool, with the model's
label and words already annotated, for people to correct.

  fresh export my-model --input reviews.csv --text review \\
      --tool label_studio --output tasks.json
  fresh export my-model --input reviews.csv --text review \\
      --tool doccano --output tasks.jsonl
"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    options.add_shared(parser, "model")
    parser.add_argument("--input", required=True, metavar="FILE", help="Texts; - for JSON lines from standard input")
    parser.add_argument("--tool", required=True, metavar="TOOL", help="label_studio, doccano or potato")
    parser.add_argument("--output", required=True, metavar="FILE", help="Tasks: .json for label_studio, else .jsonl")
    options.add_shared(parser, "--ratio", "--overwrite", "--device")
    options.add_data_settings(parser, options.TEXT_SETTINGS)


def run(args: argparse.Namespace) -> None:
    from fresh.data.annotation import export, export_paths
    from fresh.data.examples import BadRows, read_documents
    from fresh.progress import Terminal

    options.check_outputs(args, *export_paths(args.output, args.tool), source=args.input)
    bad = BadRows()
    documents = read_documents(args.input, options.data_config(args), bad)
    model = options.load_model(args)
    documents = options.drop_too_long(documents, args, model, bad)
    with options.hint_on_interrupt("Nothing was written."), Terminal().task("explaining", None) as advance:

        def explanations() -> Iterator["Explanation"]:
            for explanation in model.explain_stream(documents, ratio=args.ratio):
                yield explanation
                advance(1, "")

        written = export(explanations(), args.output, args.tool)
    options.report_bad_rows(bad)
    tasks_file, *others = map(str, written.files)
    settings = "".join(f", and settings for them to {file}" for file in others)
    print(f"Wrote {plural(written.count, 'task')} to {tasks_file}{settings}.")
