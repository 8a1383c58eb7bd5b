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
        from fresh.recipe import RunConfig

        add_settings(parser, RunConfig)


def add_explain(parser: argparse.ArgumentParser, whole: bool) -> None:
    """Describe `fresh explain`."""
    parser.description = EXPLAIN
    parser.add_argument("model", metavar="MODEL", help="folder of a saved model, or its name on the model hub")
    parser.add_argument("text_given", nargs="?", metavar="TEXT", help="a text to explain")
    parser.add_argument("--query", metavar="QUERY", help="query of TEXT; with --input, the column that holds queries")
    parser.add_argument("--input", metavar="FILE", help="file with many texts; - for JSON lines from standard input")
    parser.add_argument("--output", default="-", metavar="FILE", help="file for JSON lines; - for standard output")
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


def add_settings(parser: argparse.ArgumentParser, settings: type) -> None:
    """Add an option for every setting, section by section."""
    from fresh.config import settings_of

    groups: dict[str, Any] = {}
    for setting in settings_of(settings):
        section = setting.path.rpartition(".")[0] or "method"
        group = groups.setdefault(section, parser.add_argument_group(f"settings: {section.rpartition('.')[2]}"))
        add_setting(group, setting)


def add_setting(group: Any, setting: "Setting") -> None:
    """Add an option for a setting, with its help and its default; what is not given stays unsaid."""
    from fresh.config import kinds_of

    flag = f"--{setting.name.replace('_', '-')}"
    text = setting.help.replace("%", "%%")
    if setting.kind is bool:
        action = argparse.BooleanOptionalAction if setting.default else "store_true"
        group.add_argument(flag, dest=setting.path, action=action, default=argparse.SUPPRESS, help=text)
    else:
        shown = f" (default: {setting.default})" if setting.default not in ("", None) else ""
        kinds = kinds_of(setting.kind)
        metavar = "N" if int in kinds else "X" if float in kinds else "NAME"
        group.add_argument(flag, dest=setting.path, default=argparse.SUPPRESS, metavar=metavar, help=text + shown)


COMMANDS: dict[str, tuple[Callable[[argparse.ArgumentParser, bool], None], str]] = {
    "train": (add_train, "train a model on labelled text"),
    "explain": (add_explain, "classify text and show from which words"),
    "evaluate": (add_evaluate, "measure a model on labelled text"),
    "demo": (add_demo, "train on film reviews that come along; a few minutes"),
}
