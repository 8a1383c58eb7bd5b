"""What the command line takes: the commands, their options and their help."""

import argparse
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from fresh.config import Setting

Command = Callable[[argparse.Namespace], int]
SHAPE = argparse.RawDescriptionHelpFormatter

ABOUT = """\
Text classification that shows exactly the words an answer was made from.

  fresh demo                                   train on film reviews and look at the answers; a few minutes
  fresh train reviews.csv --out my-model       train on your own data
  fresh search --help                          look for good settings by training many times
  fresh explain my-model "A lovely film."      classify a text and see from which words
  fresh evaluate my-model more-reviews.csv     measure on labelled data
"""

TRAIN = """\
Train a classifier that shows the words its answers are made from, measure it, and save it.

  fresh train reviews.csv --text review --label sentiment --out my-model
  fresh train train.jsonl --dev dev.jsonl --test test.jsonl --scorer attention --ratio 0.1 --out my-model
  fresh train sst --data-dir corpora --out sst-model

Training that was broken off goes on when the same command is given again.
"""

SEARCH = """\
Train again and again with settings that are drawn, judge each model on dev, and write down the best settings. For the
method lei it is the search of the paper: 20 trials, lambda_1 from 0.01 to 1 on a log scale, lambda_2 of 0, 0.5, 1, 2.

  fresh search reviews.csv --method lei --out my-search
  fresh train reviews.csv --config my-search/best.toml --out my-model
  fresh search reviews.csv --space learning_rate=1e-5:1e-3:log --space layers=1,2,3 --trials 10 --out my-search

A search that was broken off goes on when the same command is given again.
"""

EVALUATE = """\
Measure a model on labelled text: macro-F1, accuracy and the share of words that was read, beside full text and random
words.

  fresh evaluate my-model more-reviews.csv --text review --label sentiment --json report.json
"""

EXPLAIN = """\
Classify text and show from which words.

  fresh explain my-model "A lovely film."
  fresh explain my-model --input reviews.csv --text review --output explained.jsonl
"""


def build_parser(given: Sequence[str], run: Mapping[str, Command]) -> argparse.ArgumentParser:
    """Describe the commands; settings are read only for the command that shows them."""
    parser = argparse.ArgumentParser("fresh", description=ABOUT, formatter_class=SHAPE)
    commands = parser.add_subparsers(dest="command", required=True, metavar="COMMAND")
    for name, (add, summary) in COMMANDS.items():
        command = commands.add_parser(name, help=summary, formatter_class=SHAPE, allow_abbrev=False)
        add(command, given[:1] == [name])
        flags = [flag for action in command._actions for flag in action.option_strings]
        command.set_defaults(run=run[name], options=flags)
    return parser


def add_train(parser: argparse.ArgumentParser, whole: bool) -> None:
    """Describe `fresh train`."""
    parser.usage = "fresh train DATA [DATA ...] --out MODEL [options]"
    parser.description = TRAIN
    parser.add_argument("data", nargs="+", metavar="DATA", help="a file or several, a folder, or the name of a corpus")
    parser.add_argument("--out", required=True, metavar="MODEL", help="folder to save the model in")
    parser.add_argument("--data-dir", metavar="DIR", help="folder with the files of a named corpus")
    parser.add_argument("--config", metavar="FILE.toml", help="settings file; options given here go before it")
    parser.add_argument("--overwrite", action="store_true", help="replace a model that is there already")
    if whole:
        add_settings(parser)


def add_search(parser: argparse.ArgumentParser, whole: bool) -> None:
    """Describe `fresh search`."""
    parser.usage = "fresh search DATA [DATA ...] --out FOLDER [options]"
    parser.description = SEARCH
    parser.add_argument("data", nargs="+", metavar="DATA", help="a file or several, a folder, or the name of a corpus")
    parser.add_argument("--out", required=True, metavar="FOLDER", help="folder of the search")
    parser.add_argument("--trials", type=int, default=20, help="how many trainings in all (default: %(default)s)")
    parser.add_argument("--space", action="append", metavar="NAME=VALUES", help="what is drawn; may be given again")
    parser.add_argument("--data-dir", metavar="DIR", help="folder with the files of a named corpus")
    parser.add_argument("--config", metavar="FILE.toml", help="settings file; options given here go before it")
    if whole:
        add_settings(parser)


def add_explain(parser: argparse.ArgumentParser, whole: bool) -> None:
    """Describe `fresh explain`."""
    parser.description = EXPLAIN
    parser.add_argument("model", metavar="MODEL", help="folder of a saved model, or its name on the model hub")
    parser.add_argument("text_given", nargs="?", metavar="TEXT", help="a text to explain")
    parser.add_argument("--query", metavar="QUERY", help="query of TEXT; with --input, the column that holds queries")
    parser.add_argument("--input", metavar="FILE", help="file with many texts; - for JSON lines from standard input")
    parser.add_argument("--output", default="-", metavar="FILE", help="file for JSON lines; - for standard output")
    parser.add_argument("--ratio", type=float, help="share of words to read, for a model of a range of ratios")
    parser.add_argument("--curve", action="store_true", help="show the answers to growing rationales of TEXT")
    parser.add_argument("--scores", action="store_true", help="also write all words and their scores")
    parser.add_argument("--overwrite", action="store_true", help="replace an output file that is there already")
    if whole:
        add_reading(parser, ("text", "id", "tokenised", "skip_bad"))


def add_evaluate(parser: argparse.ArgumentParser, whole: bool) -> None:
    """Describe `fresh evaluate`."""
    parser.description = EVALUATE
    parser.add_argument("model", metavar="MODEL", help="folder of a saved model, or its name on the model hub")
    parser.add_argument("data", metavar="DATA", help="file with labelled texts")
    parser.add_argument("--json", metavar="FILE", help="also write the report to a file")
    if whole:
        add_reading(parser, ("text", "label", "query", "id", "tokenised", "skip_bad"))


def add_demo(parser: argparse.ArgumentParser, whole: bool) -> None:
    """Describe `fresh demo`."""
    parser.add_argument("--out", default="fresh-demo", metavar="MODEL", help="folder for the model (%(default)s)")
    parser.add_argument("--overwrite", action="store_true", help="replace a model that is there already")


def add_reading(parser: argparse.ArgumentParser, names: Sequence[str]) -> None:
    """Add the settings that say how a file is read, and where to compute."""
    from fresh.config import settings_of
    from fresh.data import DataConfig

    group = parser.add_argument_group("settings: data")
    for setting in settings_of(DataConfig):
        if setting.name in names:
            add_setting(group, setting)
    parser.add_argument("--device", default="auto", help="where to compute: auto, cpu, cuda, ... (default: auto)")


def add_settings(parser: argparse.ArgumentParser) -> None:
    """Add an option for every setting, section by section; those of single methods under their names."""
    from fresh.config import settings_of
    from fresh.methods.named import METHODS, settings_of_methods
    from fresh.recipe import RunConfig

    groups: dict[str, Any] = {}

    def place(setting: "Setting", title: str) -> None:
        if title not in groups:
            groups[title] = parser.add_argument_group(f"settings: {title}")
        add_setting(groups[title], setting)

    for setting in settings_of(RunConfig):
        place(setting, setting.path.rpartition(".")[0] or "method")
    for setting, methods in sorted(settings_of_methods().values(), key=lambda item: -len(item[1])):
        section = setting.path.rpartition(".")[0].rpartition(".")[2]
        owners = "" if len(methods) == len(METHODS) else f" ({', '.join(methods)})"
        place(setting, f"{section or 'rationales'}{owners}")


def add_setting(group: Any, setting: "Setting") -> None:
    """Add an option for a setting, with its help and its default; what is not given stays unsaid."""
    from fresh.config import kinds_of

    flag = f"--{setting.name.replace('_', '-')}"
    text = setting.help.replace("%", "%%")
    if setting.kind is bool:
        action = argparse.BooleanOptionalAction if setting.default else "store_true"
        group.add_argument(flag, dest=setting.name, action=action, default=argparse.SUPPRESS, help=text)
    else:
        shown = f" (default: {setting.default})" if setting.default not in ("", None) else ""
        kinds = kinds_of(setting.kind)
        metavar = "N" if int in kinds else "X" if float in kinds else "NAME"
        group.add_argument(flag, dest=setting.name, default=argparse.SUPPRESS, metavar=metavar, help=text + shown)


COMMANDS: dict[str, tuple[Callable[[argparse.ArgumentParser, bool], None], str]] = {
    "train": (add_train, "train a model on labelled text"),
    "search": (add_search, "look for good settings by training many times"),
    "explain": (add_explain, "classify text and show from which words"),
    "evaluate": (add_evaluate, "measure a model on labelled text"),
    "demo": (add_demo, "train on film reviews that come along; a few minutes"),
}
