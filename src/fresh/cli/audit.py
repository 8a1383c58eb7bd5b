import argparse
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from fresh.cli import options

if TYPE_CHECKING:
    from fresh.audit import Audit
    from fresh.document import Example
    from fresh.progress import Progress
    from fresh.rationalizer import Rationalizer

SUMMARY = "Try to break a model's guarantee, and look for leaks"
ABOUT = """\
Try to break the guarantee of a model (given the words shown, nothing else can
change the answer), and look for what leaks past it. Give the data that the
model was trained with: it is split as for training, and the test split is
audited.

  fresh audit my-model reviews.csv --text review --label sentiment \\
      --markdown audit.md
  fresh audit sst-model sst --data-dir corpora
  fresh audit my-model new.csv --whole           for data that is all new
  fresh audit my-model reviews.csv --explained explained.jsonl
                                    for what fresh explain wrote earlier

Exit status: 0 if nothing is broken, 3 if something is, and 1 if the audit could
not be run.
"""
_BROKEN = 3
_OTHER_SEED = (
    "The model was trained with seed {trained}. With seed {given}, the test split may hold training documents: leave "
    "--seed out, or name the test file with --test."
)
_TRIALS = 2000
_USELESS_WITH_EXPLAINED = (
    "html",
    "whole",
    "reader",
    "trials",
    "seed",
    "data_dir",
    "dev",
    "test",
    "dev_share",
    "test_share",
)
_REPLAYED = (
    "Where replay holds, the saved answers are those that the model gives to the saved words and nothing else. The "
    "other checks were not run: leave --explained out to run them."
)


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.usage = "fresh audit MODEL DATA [DATA ...] [options]"
    options.add_shared(parser, "model", "data", "--data-dir")
    parser.add_argument("--whole", action="store_true", help="Audit all of DATA, which is new to the model")
    parser.add_argument("--explained", metavar="FILE", help="Only replay what fresh explain wrote; needs no labels")
    parser.add_argument("--trials", type=int, metavar="N", help=f"Number of changes to try (default: {_TRIALS})")
    parser.add_argument("--seed", type=int, metavar="N", help="Seed of splits and trials (default: the training's)")
    parser.add_argument("--html", metavar="FILE", help="Write a page with verdicts, figures and documents")
    options.add_shared(parser, "--reader", "--json", "--markdown", "--overwrite", "--device")
    options.add_data_settings(parser, (*options.LABEL_SETTINGS, "dev", "test", "dev_share", "test_share"))


def run(args: argparse.Namespace) -> int:
    from fresh.progress import Terminal

    for source in (args.data[0], args.explained):
        options.check_outputs(args, args.json, args.markdown, args.html, source=source)
    result = _audit(args, Terminal()) if args.explained is None else _replay(args)
    options.write_texts(args, {"json": result.to_json, "markdown": result.to_markdown})
    return 0 if result.holds else _BROKEN


def _audit(args: argparse.Namespace, progress: "Progress") -> "Audit":
    from fresh.audit import audit
    from fresh.evaluation.baselines import Baselines
    from fresh.evaluation.evaluation import evaluate
    from fresh.evaluation.html_report import write_html_report

    # The same seed gives the same splits, so that the test split has no training documents.
    model = options.load_model(args)
    trained_seed = model.settings.get("train", {}).get("seed", 0)
    if args.seed is None:
        args.seed = trained_seed
    elif args.seed != trained_seed and not getattr(args, "test", ""):
        progress.say(_OTHER_SEED.format(trained=trained_seed, given=args.seed))
    examples, others = _read_data(args, model, progress)
    n_trials = _TRIALS if args.trials is None else args.trials
    reader = options.load_reader(args, model)
    evaluation = evaluate(model, examples, progress, Baselines(independent=reader)) if args.html else None
    explained = None if evaluation is None else evaluation.explained
    result = audit(model, examples, others, n_trials, args.seed, progress, explained, reader=reader)
    _show(result)
    if evaluation is not None:
        write_html_report(Path(args.html), model, result.add_to(evaluation), args.model, args.data[0])
    return result


def _replay(args: argparse.Namespace) -> "Audit":
    from fresh.audit import Audit, replay_saved
    from fresh.data.examples import BadRows, read_documents

    useless = [name for name in _USELESS_WITH_EXPLAINED if getattr(args, name, None) not in (None, False)]
    if useless:
        raise ValueError(f"--explained only replays saved answers: leave {args.options[useless[0]][0]} out.")
    if len(args.data) > 1:
        raise ValueError("--explained is for one file: give only the file that was explained.")
    if not Path(args.explained).exists():
        raise ValueError(f"There is no file {args.explained}. Name a file that `fresh explain --output` wrote.")
    model, bad = options.load_model(args), BadRows()
    documents = read_documents(args.data[0], options.data_config(args), bad)
    documents = options.drop_too_long(documents, args, model, bad)
    verdict = replay_saved(model, list(documents), Path(args.explained))
    options.report_bad_rows(bad)
    result = Audit((verdict,), _REPLAYED)
    _show(result)
    return result


def _read_data(
    args: argparse.Namespace, model: "Rationalizer", progress: "Progress"
) -> "tuple[Sequence[Example], dict[str, Sequence[Example]]]":
    """Read the examples to audit, and the other splits, as training did."""
    from fresh.data.examples import BadRows, read_examples
    from fresh.evaluation.warnings import drop_too_long_examples
    from fresh.methods.baselines import keep_annotated
    from fresh.pipeline import read_splits, resolve_settings
    from fresh.selection.extractors import HumanRationales

    bad = BadRows()
    examples: Sequence[Example]
    others: dict[str, Sequence[Example]] = {}
    if args.whole:
        if len(args.data) > 1 or args.data_dir:
            raise ValueError("--whole is for one file that is new to the model: give only that file.")
        examples = list(read_examples(args.data[0], options.data_config(args), bad))
    else:
        settings = resolve_settings(options.data_source(args), args.data_dir, None, options.run_settings(args))
        splits = read_splits(options.data_source(args), args.data_dir, settings, progress)
        splits = keep_annotated(splits, progress) if isinstance(model.extractor, HumanRationales) else splits
        examples, others = splits.test, {"train": splits.train, "dev": splits.dev}
        bad.total = len(examples)
    if options.data_config(args).skip_bad:
        examples = drop_too_long_examples(examples, model, bad)
    options.report_bad_rows(bad)
    return examples, others


def _show(audit: "Audit") -> None:
    from rich.console import Console
    from rich.padding import Padding
    from rich.text import Text

    from fresh.highlight import CONTROL_PICTURES
    from fresh.reporting.console import STYLES

    console = Console()

    def show(text: Text, indent: int = 0) -> None:
        if console.is_terminal:
            console.print(Padding(text, (0, 0, 0, indent), expand=False))
        else:  # lines of files are not wrapped
            console.print(Text(" " * indent).append(text), soft_wrap=True)

    for verdict in audit.verdicts:
        title = Text.assemble((verdict.found, STYLES[verdict.found]), " ", (verdict.name, "bold"))
        show(title.append(f": {verdict.says.translate(CONTROL_PICTURES)}"))
        for line in verdict.evidence:
            show(Text(line.translate(CONTROL_PICTURES), "dim"), 4)
    show(Text(f"\n{audit.guarantee}\n"))
    broken = ", ".join(verdict.name for verdict in audit.verdicts if verdict.found == "broken")
    suspicious = ", ".join(verdict.name for verdict in audit.verdicts if verdict.found == "look here")
    summary = f"Broken: {broken}." if broken else "Nothing is broken."
    show(Text(f"{summary} Look at: {suspicious}." if suspicious else summary))
