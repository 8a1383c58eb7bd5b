"""Options that several commands share, and how their values are used."""

import argparse
import re
import shlex
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any

if TYPE_CHECKING:
    from fresh.config import Setting
    from fresh.data.splits import BadRows, DataConfig
    from fresh.document import Example
    from fresh.rationalizer import Rationalizer

INTERRUPTED = 130
"""Exit status of an interrupted command."""
TEXT_SETTINGS = ("text", "query", "id", "tokenised", "format", "skip_bad", "max_row_mb", "max_unpacked")
"""Settings of how to read texts."""
LABEL_SETTINGS = (*TEXT_SETTINGS, "label", "rationale", "agreement")
"""Settings of how to read labeled texts."""
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


def add_model(parser: argparse.ArgumentParser) -> None:
    """Add the model."""
    parser.add_argument("model", metavar="MODEL", help="Folder of a saved model, or its name on the Hugging Face Hub")


def add_data(parser: argparse.ArgumentParser) -> None:
    """Add the data of a training run."""
    text = "One or several files, a folder, or the name of a corpus"
    parser.add_argument("data", nargs="+", metavar="DATA", help=text)


def add_data_dir(parser: argparse.ArgumentParser) -> None:
    """Add the folder of named corpora."""
    parser.add_argument("--data-dir", metavar="DIR", help="Folder with the files of a named corpus")


def add_device(parser: argparse.ArgumentParser) -> None:
    """Add the device."""
    text = "Where to compute: auto, cpu, cuda, cuda:1, mps (default: auto)"
    parser.add_argument("--device", default="auto", metavar="NAME", help=text)


def add_overwrite(parser: argparse.ArgumentParser) -> None:
    """Add the permission to replace output."""
    parser.add_argument("--overwrite", action="store_true", help="Replace output that already exists")


def add_ratio(parser: argparse.ArgumentParser) -> None:
    """Add the ratio of explanations."""
    text = "Share of the words to read, for a model that was trained for a range of ratios"
    parser.add_argument("--ratio", type=float, metavar="X", help=text)


def add_data_settings(parser: argparse.ArgumentParser, names: Sequence[str]) -> None:
    """Add settings of how to read data."""
    from fresh.config import list_settings
    from fresh.data.splits import DataConfig

    group = parser.add_argument_group("settings: data")
    for setting in list_settings(DataConfig):
        if setting.name in names:
            _add_setting(group, setting)


def add_settings(parser: argparse.ArgumentParser) -> None:
    """Add all settings of a training run in groups; those of single methods go by their names."""
    from fresh.config import list_settings
    from fresh.methods.config import METHODS, RunConfig, settings_of_methods

    groups: dict[str, Any] = {}

    def add_to(title: str, setting: "Setting") -> None:
        if title not in groups:
            groups[title] = parser.add_argument_group(f"settings: {title}")
        _add_setting(groups[title], setting)

    for setting in list_settings(RunConfig):
        add_to(setting.path.rpartition(".")[0] or "method", setting)
    for setting, methods in sorted(settings_of_methods().values(), key=lambda item: -len(item[1])):
        section = setting.path.rpartition(".")[0].rpartition(".")[2]
        owners = "" if len(methods) == len(METHODS) else f" ({', '.join(methods)})"
        add_to(f"{section or 'rationales'}{owners}", setting)


def _add_setting(group: Any, setting: "Setting") -> None:
    """Add an option for a setting; it is left out of the namespace unless given, so that files can set it."""
    from fresh.config import union_types

    flag, text = f"--{setting.name.replace('_', '-')}", setting.help.replace("%", "%%").removesuffix(".")
    if setting.kind is bool:
        action = argparse.BooleanOptionalAction if setting.default else "store_true"
        group.add_argument(flag, dest=setting.name, action=action, default=argparse.SUPPRESS, help=text)
        return
    default = f" (default: {setting.default})" if setting.default not in ("", None) else ""
    kinds = union_types(setting.kind)
    metavar = "N" if int in kinds else "X" if float in kinds else "NAME"
    group.add_argument(flag, dest=setting.name, default=argparse.SUPPRESS, metavar=metavar, help=text + default)


def add_engine(parser: argparse.ArgumentParser, workers: str) -> None:
    """Add the choice between this machine and a Ray cluster.

    :param workers: Help of the number of workers.
    """
    text = "Where to run: on this machine, or on a Ray cluster (default: local)"
    parser.add_argument("--engine", choices=("local", "ray"), default="local", help=text)
    text = "With --engine ray: HOST:PORT of the cluster, or auto (default: RAY_ADDRESS, or else this machine)"
    parser.add_argument("--address", metavar="ADDRESS", help=text)
    parser.add_argument("--workers", type=int, metavar="N", help=workers)


def add_listening(parser: argparse.ArgumentParser) -> None:
    """Add where a server listens, and its host names."""
    parser.add_argument("--host", default="127.0.0.1", help="Address to listen on (default: 127.0.0.1, this machine)")
    parser.add_argument("--port", type=int, default=8000, help="Port to listen on; 0 for a free one (default: 8000)")
    text = "Additional host name of the server, such as that of a reverse proxy; can be repeated"
    parser.add_argument("--allow-host", dest="allow_hosts", action="append", default=[], metavar="NAME", help=text)


def check_engine(args: argparse.Namespace) -> None:
    """Raise if the address of a cluster is given, but no cluster is used."""
    if args.address is not None and args.engine != "ray":
        raise ValueError("--address is for a Ray cluster: add --engine ray, or leave it out.")


def check_output(name: str, source: str, overwrite: bool) -> None:
    """Raise unless output can be written to a file; `-` is standard output."""
    from fresh import _io

    if name != "-":
        _io.check_output(name, overwrite=overwrite, source=source or None)


@contextmanager
def open_output(name: str) -> Iterator[IO[str]]:
    """Open a file to write lines to, or standard output."""
    if name == "-":
        yield sys.stdout
        sys.stdout.flush()
        return
    from fresh._io import open_lines

    with open_lines(Path(name)) as file:
        yield file


def setting_names() -> set[str]:
    """Name all settings of a training run."""
    from fresh.config import list_settings
    from fresh.methods.config import RunConfig, settings_of_methods

    return {setting.name for setting in list_settings(RunConfig)} | settings_of_methods().keys()


def run_settings(args: argparse.Namespace) -> dict[str, Any]:
    """Return the settings of a training run that were given."""
    names = setting_names()
    return {name: value for name, value in vars(args).items() if name in names}


def data_config(args: argparse.Namespace) -> "DataConfig":
    """Return the settings of how to read data."""
    from fresh.config import from_mapping, list_settings
    from fresh.data.splits import DataConfig

    names = {setting.name for setting in list_settings(DataConfig)}
    given = {name: value for name, value in vars(args).items() if name in names and value is not None}
    return from_mapping(DataConfig, given)


def data_source(args: argparse.Namespace) -> str | list[str]:
    """Return the one place of the data, or all of several."""
    places: list[str] = args.data
    return places[0] if len(places) == 1 else places


def report_bad_rows(bad: "BadRows") -> None:
    """Print which rows were left out or changed."""
    if bad.count or bad.widened:
        print(bad.summary(), file=sys.stderr)


def read_labeled(args: argparse.Namespace, load_models: "Callable[[], Iterable[Rationalizer]]") -> "list[Example]":
    """Read labeled texts; leave out and report those that a model cannot read, if asked to.

    :param load_models: Loads the models; called after the texts have been read.
    """
    from fresh.data.splits import BadRows
    from fresh.evaluation.warnings import drop_too_long_examples

    bad = BadRows()
    examples = _read_examples(args, bad)
    for model in load_models() if data_config(args).skip_bad else ():
        examples = drop_too_long_examples(examples, model, bad)
    report_bad_rows(bad)
    return examples


def _read_examples(args: argparse.Namespace, bad: "BadRows") -> "list[Example]":
    """Read the examples of a file, or the test split of a corpus or of an ERASER folder or tar."""
    from fresh.data.corpora import find_corpus
    from fresh.data.eraser import is_eraser
    from fresh.data.splits import load_splits, read_examples
    from fresh.pipeline import check_corpus_folder

    if args.data_dir is not None:
        examples = list(find_corpus(args.data).read(Path(args.data_dir)).test)
    elif is_eraser(Path(check_corpus_folder(args.data))) and Path(args.data).exists():
        return list(load_splits(args.data, data_config(args), 0, bad).test)
    else:
        return list(read_examples(args.data, data_config(args), bad))
    bad.total = len(examples)
    return examples
