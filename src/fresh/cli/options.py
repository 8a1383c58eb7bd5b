"""Options that several commands share, and how their values are used."""

import argparse
import re
import shlex
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from fresh import _io
from fresh.config import Setting, from_mapping, list_settings, union_types

if TYPE_CHECKING:
    from fresh.data.config import DataConfig
    from fresh.data.examples import BadRows
    from fresh.document import Document, Example
    from fresh.predictor import Predictor
    from fresh.rationalizer import Rationalizer

TEXT_SETTINGS = ("text", "query", "id", "tokenised", "format", "skip_bad", "max_row_mb", "max_unpacked")
"""Settings of how to read texts."""
LABEL_SETTINGS = (*TEXT_SETTINGS, "label", "rationale", "agreement")
"""Settings of how to read labeled texts."""
_SHARED: dict[str, dict[str, Any]] = {
    "model": {"metavar": "MODEL", "help": "Folder of a saved model, or its name on the Hugging Face Hub"},
    "data": {"nargs": "+", "metavar": "DATA", "help": "One or several files, a folder, or the name of a corpus"},
    "runs": {"type": Path, "metavar": "RUNS", "help": "Folder of runs that `fresh run` made"},
    "experiment": {"nargs": "?", "metavar": "EXPERIMENT", "help": "Name of an experiment (default: all)"},
    "--data-dir": {"metavar": "DIR", "help": "Folder with the files of a named corpus"},
    "--config": {"metavar": "FILE.toml", "help": "Settings file; command-line options override it"},
    "--output": {"default": "-", "metavar": "FILE", "help": "Write to a file"},
    "--json": {"metavar": "FILE", "help": "Write all figures as JSON"},
    "--markdown": {"metavar": "FILE", "help": "Write the tables as Markdown"},
    "--overwrite": {"action": "store_true", "help": "Replace output that already exists"},
    "--device": {"default": "auto", "metavar": "NAME", "help": "auto (default), cpu, cuda, cuda:1 or mps"},
    "--reader": {
        "metavar": "FOLDER",
        "help": "Independent reader that fresh.methods.train_independent trained (default: the model's own)",
    },
    "--ratio": {"type": float, "metavar": "X", "help": "Share of the words to read, of a model for a range of ratios"},
    "--where": {"action": "append", "metavar": "NAME=VALUES", "help": "Only runs with these values; can be repeated"},
    "--engine": {"choices": ("local", "ray"), "default": "local", "help": "This machine (default), or a Ray cluster"},
    "--address": {
        "metavar": "ADDRESS",
        "help": "HOST:PORT of the Ray cluster, or auto (default: RAY_ADDRESS, or else this machine)",
    },
    "--host": {"default": "127.0.0.1", "help": "Address to listen on (default: 127.0.0.1, this machine)"},
    "--port": {"type": int, "default": 8000, "help": "Port to listen on; 0 for a free one (default: 8000)"},
    "--allow-host": {"dest": "allow_hosts", "action": "append", "default": [], "metavar": "NAME"}
    | {"help": "Additional host name of the server, such as that of a reverse proxy; can be repeated"},
}
"""Arguments that several commands have."""
# A parameter in backticks, before "must" at the start of a line, or assigned a value after a space or parenthesis:
# paths and quoted texts of users that look like an assignment (runs/ratio=0.3, 'a=b') stay as they are.
_QUOTES = "'\""
_PARAMETER = re.compile(
    r"`(?P<name>[a-z]\w*)`|^(?P<subject>[a-z]\w*)(?= must )"
    r"|(?<![^\s(])(?P<assigned>[a-z]\w*)=(?P<value>'[^']*'|\"[^\"]*\"|[\w:+-]+(?:\.\w+)*)(?![\w/=])",
    re.MULTILINE,
)


def flags_of(parser: argparse.ArgumentParser) -> dict[str, list[str]]:
    """List the flags of a command by the parameters that they set."""
    # argparse has no public list of its arguments.
    return {action.dest: list(action.option_strings) for action in parser._actions if action.option_strings}


def with_flags(message: str, flags: Mapping[str, Sequence[str]], arguments: Sequence[str] = ()) -> str:
    """Replace the parameters that a message names by the flags of a command.

    Messages of the library name a parameter in backticks, as `name=value`, or as the first word before "must".

    :param flags: Flags by parameter.
    :param arguments: What the user typed, which is never replaced.
    """

    def flag_for(match: re.Match[str]) -> str:
        name, value = match["name"] or match["subject"] or match["assigned"], match["value"]
        if name not in flags or match[0] in arguments:
            return match[0]
        if value == "False":
            return f"--no-{flags[name][0].removeprefix('--')}"
        return flags[name][0] if value in (None, "True") else f"{flags[name][0]} {shlex.quote(value.strip(_QUOTES))}"

    return _PARAMETER.sub(flag_for, message)


def add_shared(parser: argparse.ArgumentParser, *names: str) -> None:
    """Add arguments that several commands have."""
    for name in names:
        parser.add_argument(name, **_SHARED[name])


def add_data_settings(parser: argparse.ArgumentParser, names: Sequence[str]) -> None:
    """Add settings of how to read data."""
    from fresh.data.config import DataConfig

    group = parser.add_argument_group("settings: data")
    for setting in list_settings(DataConfig):
        if setting.name in names:
            _add_setting(group, setting)


def add_settings(parser: argparse.ArgumentParser) -> None:
    """Add all settings of a training run in groups; those of single methods go by their names."""
    from fresh.methods.config import METHODS, RunConfig, settings_of_methods

    titled = [(setting.path.rpartition(".")[0] or "method", setting) for setting in list_settings(RunConfig)]
    for setting, methods in sorted(settings_of_methods().values(), key=lambda item: -len(item[1])):
        section = setting.path.rpartition(".")[0].rpartition(".")[2] or "rationales"
        owners = "" if len(methods) == len(METHODS) else f" ({', '.join(methods)})"
        titled.append((f"{section}{owners}", setting))
    groups: dict[str, Any] = {}
    for title, setting in titled:
        if title not in groups:
            groups[title] = parser.add_argument_group(f"settings: {title}")
        _add_setting(groups[title], setting)


def _add_setting(group: Any, setting: Setting) -> None:
    """Add an option for a setting; it is left out of the namespace unless given, so that files can set it."""
    # argparse takes a % in help for a format.
    flag, text = f"--{setting.name.replace('_', '-')}", setting.help.replace("%", "%%").removesuffix(".")
    if setting.kind is bool:
        action = argparse.BooleanOptionalAction if setting.default else "store_true"
        group.add_argument(flag, dest=setting.name, action=action, default=argparse.SUPPRESS, help=text)
        return
    default = f" (default: {setting.default})" if setting.default not in ("", None) else ""
    kinds = union_types(setting.kind)
    metavar = "N" if int in kinds else "X" if float in kinds else "NAME"
    group.add_argument(flag, dest=setting.name, default=argparse.SUPPRESS, metavar=metavar, help=text + default)


def check_engine(args: argparse.Namespace) -> None:
    """Raise if the address of a cluster is given, but no cluster is used."""
    if args.address is not None and args.engine != "ray":
        raise ValueError("--address is for a Ray cluster: add --engine ray, or leave it out.")


def check_outputs(args: argparse.Namespace, *paths: str | Path | None, source: str | Path | None = None) -> None:
    """Raise unless output can be written to all files; `-` is standard output, None an option that was not given."""
    for path in paths:
        if path is not None and path != "-":
            _io.check_output(path, overwrite=args.overwrite, source=source)


def write_texts(args: argparse.Namespace, texts: Mapping[str, Callable[[], str]]) -> None:
    """Write the files that options name, each with a function that returns its text."""
    for name, make_text in texts.items():
        if path := getattr(args, name):
            _io.write_text(Path(path), make_text())


@contextmanager
def hint_on_interrupt(hint: str) -> Iterator[None]:
    """Have `main` say after Ctrl-C how to go on."""
    try:
        yield
    except KeyboardInterrupt as error:
        raise KeyboardInterrupt(hint) from error


def load_model(args: argparse.Namespace) -> "Rationalizer":
    """Load the model of a command."""
    from fresh.rationalizer import Rationalizer

    return Rationalizer.from_pretrained(args.model, device=args.device)


def load_reader(args: argparse.Namespace, model: "Rationalizer") -> "Predictor | None":
    """Load the independent reader that is given, or else that of the model, if there is one."""
    from fresh.methods.independent import load_reader

    if args.reader is None:
        return model.load_reader()
    return load_reader(args.reader, model, args.device).predictor


def setting_names() -> set[str]:
    """Name all settings of a training run."""
    from fresh.methods.config import RunConfig, settings_of_methods

    return {setting.name for setting in list_settings(RunConfig)} | settings_of_methods().keys()


def run_settings(args: argparse.Namespace) -> dict[str, Any]:
    """Return the settings of a training run that were given."""
    names = setting_names()
    return {name: value for name, value in vars(args).items() if name in names}


def data_config(args: argparse.Namespace) -> "DataConfig":
    """Return the settings of how to read data."""
    from fresh.data.config import DataConfig

    names = {setting.name for setting in list_settings(DataConfig)}
    given = {name: value for name, value in vars(args).items() if name in names and value is not None}
    return from_mapping(DataConfig, given)


def data_source(args: argparse.Namespace) -> str | list[str]:
    """Return the one place of the data, or all of several."""
    places: list[str] = args.data
    return places[0] if len(places) == 1 else places


def drop_too_long(
    documents: "Iterator[Document]", args: argparse.Namespace, model: "Rationalizer", bad: "BadRows"
) -> "Iterator[Document]":
    """Leave out documents that a model cannot read, if asked to."""
    from fresh.evaluation import warnings

    return warnings.drop_too_long(documents, model, bad) if data_config(args).skip_bad else documents


def report_bad_rows(bad: "BadRows") -> None:
    """Print which rows were left out or changed."""
    if bad.count or bad.widened:
        print(bad.summary(), file=sys.stderr)


def read_labeled(args: argparse.Namespace, load_models: "Callable[[], Iterable[Rationalizer]]") -> "list[Example]":
    """Read labeled texts, or the test split of a corpus; if asked to, leave out and report what a model cannot read.

    :param load_models: Loads the models; called after the texts have been read.
    """
    from fresh.data import BadRows, load_splits, read_examples
    from fresh.data.corpora import check_corpus_folder, find_corpus
    from fresh.data.eraser import is_eraser
    from fresh.evaluation.warnings import drop_too_long_examples

    config, bad = data_config(args), BadRows()
    if args.data_dir is not None:
        examples = list(find_corpus(args.data).read(Path(args.data_dir)).test)
        bad.total = len(examples)
    elif is_eraser(Path(check_corpus_folder(args.data))) and Path(args.data).exists():
        examples = list(load_splits(args.data, config, 0, bad).test)
    else:
        examples = list(read_examples(args.data, config, bad))
    for model in load_models() if config.skip_bad else ():
        examples = drop_too_long_examples(examples, model, bad)
    report_bad_rows(bad)
    return examples
