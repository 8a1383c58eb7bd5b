"""`fresh audit`."""

import argparse
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from fresh.cli.options import READS_LABELS, add_reading, check_output, data_given, reading, settings_given

if TYPE_CHECKING:
    from rich.console import Console

    from fresh.audit import Audit
    from fresh.document import Example
    from fresh.progress import Progress
    from fresh.rationalizer import Rationalizer

BROKEN = 3
"""Exit status where the audit found that something does not hold."""
SUMMARY = "try to break a model's guarantee, and look for what leaks past it"
ABOUT = """\
Try to break the guarantee of a model (given the words shown, nothing else can change the answer), and look for what
leaks past it. Data is read and divided as for training, and the test part is audited: give the files that the model was
trained with.

  fresh audit my-model reviews.csv --text review --label sentiment --markdown audit.md
  fresh audit my-model train.jsonl --dev dev.jsonl --test test.jsonl --trials 10000 --json audit.json
  fresh audit sst-model sst --data-dir corpora
  fresh audit my-model new-reviews.csv --text review --label sentiment --whole      # none of it was trained on
  fresh audit my-model reviews.csv --text review --explained explained.jsonl        # what fresh explain saved earlier

Exit status: 0 if all holds, also where somebody should look; 3 if something is broken; 1 if the audit could not be run.
"""
OTHER_SEED = (
    "The model was trained with seed {trained}. With seed {given}, what is cut off for test may have been trained on: "
    "leave --seed out, or name the test file with --test."
)
TRIALS = 2000
FOR_EXPLAINED = ("html", "whole", "trials", "seed", "data_dir", "dev", "test", "dev_share", "test_share")
"""Options that a replay of saved explanations has no use for."""
REPLAYED = (
    "Where replay holds, the saved answers are those that the model gives to the saved words and nothing else. The "
    "other checks of the audit were not run: leave --explained out for them."
)
READS_SPLITS = (*READS_LABELS, "dev", "test", "dev_share", "test_share")


def add(parser: argparse.ArgumentParser, whole: bool) -> None:
    """Describe `fresh audit`."""
    parser.usage = "fresh audit MODEL DATA [DATA ...] [options]"
    parser.description = ABOUT
    parser.add_argument("model", metavar="MODEL", help="folder of a saved model, or its name on the model hub")
    parser.add_argument("data", nargs="+", metavar="DATA", help="a file or several, a folder, or the name of a corpus")
    parser.add_argument("--data-dir", metavar="DIR", help="folder with the files of a named corpus")
    parser.add_argument("--whole", action="store_true", help="all of DATA is new to the model: audit all of it")
    parser.add_argument(
        "--explained", metavar="FILE", help="only replay what fresh explain saved for all of DATA; needs no labels"
    )
    parser.add_argument("--trials", type=int, metavar="N", help=f"changes tried (default: {TRIALS})")
    parser.add_argument(
        "--seed",
        type=int,
        metavar="N",
        help="draws what is cut off for dev and test, and the trials (default: as trained)",
    )
    parser.add_argument("--json", metavar="FILE", help="also write the verdicts to a file")
    parser.add_argument("--markdown", metavar="FILE", help="the same for people")
    parser.add_argument("--html", metavar="FILE", help="write a page with verdicts, all figures and the documents")
    parser.add_argument("--overwrite", action="store_true", help="replace files that are there already")
    if whole:
        add_reading(parser, READS_SPLITS)


def run(args: argparse.Namespace) -> int:
    """Audit a saved model, show the verdicts, and write them down."""
    from rich.console import Console

    from fresh.audit import audit
    from fresh.evaluation.evaluation import evaluate
    from fresh.evaluation.html_report import write_html_report
    from fresh.progress import Terminal
    from fresh.rationalizer import Rationalizer

    for name in filter(None, (args.json, args.markdown, args.html)):
        for source in filter(None, (args.data[0], args.explained)):
            check_output(name, source, args.overwrite)
    progress = Terminal()
    if args.explained is not None:
        found = _replay(args, progress)
        _show(Console(), found)
        return _finish(args, found)
    model = Rationalizer.from_pretrained(args.model, device=args.device)
    trained = model.settings.get("train", {}).get("seed", 0)
    if args.seed is None:
        args.seed = trained
    elif args.seed != trained and not getattr(args, "test", ""):
        progress.say(OTHER_SEED.format(trained=trained, given=args.seed))
    examples, others = _read(args, model, progress)
    n_trials = TRIALS if args.trials is None else args.trials
    measured = evaluate(model, examples, progress) if args.html else None
    explained = None if measured is None else measured.explained
    found = audit(model, examples, others, n_trials, args.seed, progress, explained)
    _show(Console(), found)
    if measured is not None:
        write_html_report(Path(args.html), model, found.add_to(measured), args.model, args.data[0])
    return _finish(args, found)


def _finish(args: argparse.Namespace, found: "Audit") -> int:
    """Write the verdicts to the files that were asked for, and turn them into the exit status."""
    from fresh._io import write_text

    for name, text in ((args.json, found.to_json()), (args.markdown, found.to_markdown())):
        if name:
            write_text(Path(name), text)
    return 0 if found.holds else BROKEN


def _replay(args: argparse.Namespace, progress: "Progress") -> "Audit":
    """Compute answers again that were saved, from the saved rationales alone."""
    from fresh.audit import Audit, replay_saved
    from fresh.data.splits import BadRows, read_documents
    from fresh.evaluation.warnings import drop_too_long
    from fresh.rationalizer import Rationalizer

    useless = [name for name in FOR_EXPLAINED if getattr(args, name, None) not in (None, False)]
    if useless:
        flag = f"--{useless[0].replace('_', '-')}"
        raise ValueError(f"--explained only computes saved answers again, for which {flag} is of no use: leave it out.")
    if len(args.data) > 1:
        raise ValueError("--explained is for the one file that was explained: name it alone.")
    if not Path(args.explained).exists():
        raise ValueError(f"There is no file {args.explained}. Name a file that `fresh explain --output` wrote.")
    model, bad = Rationalizer.from_pretrained(args.model, device=args.device), BadRows()
    documents = read_documents(args.data[0], reading(args), bad)
    if reading(args).skip_bad:
        documents = drop_too_long(documents, model, bad)
    found = replay_saved(model, list(documents), Path(args.explained))
    if bad.count:
        progress.say(bad.summary())
    return Audit((found,), REPLAYED)


def _read(
    args: argparse.Namespace, model: "Rationalizer", progress: "Progress"
) -> "tuple[Sequence[Example], dict[str, Sequence[Example]]]":
    """Read and divide the data as training does, or not at all; leave out what the model cannot read if asked to."""
    from fresh.data.splits import BadRows, read_examples
    from fresh.evaluation.warnings import drop_too_long_examples
    from fresh.methods.baselines import keep_annotated
    from fresh.pipeline import read_splits, resolve_settings
    from fresh.selection.extractors import HumanRationales

    bad, others = BadRows(), {}
    examples: Sequence[Example]
    if args.whole:
        if len(args.data) > 1 or args.data_dir:
            raise ValueError("--whole is for one file that the model has not seen: name it alone.")
        examples = list(read_examples(args.data[0], reading(args), bad))
    else:
        settings = resolve_settings(data_given(args), args.data_dir, None, settings_given(args))
        splits = read_splits(data_given(args), args.data_dir, settings, progress)
        splits = keep_annotated(splits, progress) if isinstance(model.extractor, HumanRationales) else splits
        examples, others = splits.test, {"train": splits.train, "dev": splits.dev}
        bad.total = len(examples)
    if reading(args).skip_bad:
        examples = drop_too_long_examples(examples, model, bad)
    if bad.count:
        progress.say(bad.summary())
    return examples, dict(others)


def _show(console: "Console", audit: "Audit") -> None:
    """Print the verdicts, each with its evidence, and what the guarantee covers."""
    from rich.padding import Padding
    from rich.text import Text

    from fresh.highlight import CONTROL_PICTURES
    from fresh.reporting.console import STYLES

    def put(text: Text, indent: int = 0) -> None:
        if console.is_terminal:
            console.print(Padding(text, (0, 0, 0, indent), expand=False))
        else:  # a file is no place to break lines
            console.print(Text(" " * indent).append(text), soft_wrap=True)

    for verdict in audit.verdicts:
        head = Text.assemble((verdict.found, STYLES[verdict.found]), " ", (verdict.name, "bold"))
        put(head.append(f": {verdict.says.translate(CONTROL_PICTURES)}"))
        for line in verdict.evidence:
            put(Text(line.translate(CONTROL_PICTURES), "dim"), 4)
    put(Text(f"\n{audit.guarantee}\n"))
    broken = [verdict.name for verdict in audit.verdicts if verdict.found == "broken"]
    looks = [verdict.name for verdict in audit.verdicts if verdict.found == "look here"]
    told = f"Broken: {', '.join(broken)}." if broken else "Nothing is broken."
    put(Text(told + (f" Look at: {', '.join(looks)}." if looks else "")))
