"""Options that several commands share, and what is made of them."""

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
"""Exit status of a command that was broken off."""
QUOTES = "'\""
PARAMETER = re.compile(
    r"`(?P<name>[a-z]\w*)`|^(?P<subject>[a-z]\w*)(?= must )"
    r"|(?<![^\s(])(?P<assigned>[a-z]\w*)=(?P<value>'[^']*'|\"[^\"]*\"|[\w:+-]+(?:\.\w+)*)(?![\w/=])",
    re.MULTILINE,
)
READS = ("text", "query", "id", "tokenised", "format", "skip_bad", "max_row_mb", "max_unpacked")
"""Settings that say how texts are read."""
READS_LABELS = (*READS, "label", "rationale", "agreement")
"""Settings that say how labelled texts are read."""


def add_reading(parser: argparse.ArgumentParser, names: Sequence[str]) -> None:
    """Add the settings that say how a file is read, and where to compute."""
    from fresh.config import list_settings
    from fresh.data.splits import DataConfig

    group = parser.add_argument_group("settings: data")
    for setting in list_settings(DataConfig):
        if setting.name in names:
            add_setting(group, setting)
    parser.add_argument("--device", default="auto", help="where to compute: auto, cpu, cuda, ... (default: auto)")


def add_listening(parser: argparse.ArgumentParser) -> None:
    """Add what says where a server listens, and under which names."""
    parser.add_argument("--host", default="127.0.0.1", help="address to listen on (default: 127.0.0.1, this machine)")
    parser.add_argument("--port", type=int, default=8000, help="port to listen on; 0 for a free one (default: 8000)")
    parser.add_argument(
        "--allow-host",
        dest="allow_hosts",
        action="append",
        default=[],
        metavar="NAME",
        help="further name under which the server is reached, such as that of a reverse proxy; may be given again",
    )


def add_settings(parser: argparse.ArgumentParser) -> None:
    """Add an option for every setting, section by section; those of single methods under their names."""
    from fresh.config import list_settings
    from fresh.methods.config import METHODS, RunConfig, settings_of_methods

    groups: dict[str, Any] = {}

    def place(setting: "Setting", title: str) -> None:
        if title not in groups:
            groups[title] = parser.add_argument_group(f"settings: {title}")
        add_setting(groups[title], setting)

    for setting in list_settings(RunConfig):
        place(setting, setting.path.rpartition(".")[0] or "method")
    for setting, methods in sorted(settings_of_methods().values(), key=lambda item: -len(item[1])):
        section = setting.path.rpartition(".")[0].rpartition(".")[2]
        owners = "" if len(methods) == len(METHODS) else f" ({', '.join(methods)})"
        place(setting, f"{section or 'rationales'}{owners}")


def add_setting(group: Any, setting: "Setting") -> None:
    """Add an option for a setting, with its help and its default; what is not given stays unsaid."""
    from fresh.config import union_types

    flag = f"--{setting.name.replace('_', '-')}"
    text = setting.help.replace("%", "%%")
    if setting.kind is bool:
        action = argparse.BooleanOptionalAction if setting.default else "store_true"
        group.add_argument(flag, dest=setting.name, action=action, default=argparse.SUPPRESS, help=text)
    else:
        shown = f" (default: {setting.default})" if setting.default not in ("", None) else ""
        kinds = union_types(setting.kind)
        metavar = "N" if int in kinds else "X" if float in kinds else "NAME"
        group.add_argument(flag, dest=setting.name, default=argparse.SUPPRESS, metavar=metavar, help=text + shown)


def add_engine(parser: argparse.ArgumentParser, purpose: str) -> None:
    """Add the choice between this machine and a Ray cluster.

    :param purpose: What it is chosen for, as the end of a sentence.
    """
    parser.add_argument(
        "--engine", choices=("local", "ray"), default="local", help=f"machines {purpose}: this one, or a Ray cluster"
    )
    text = "with --engine ray: HOST:PORT of the cluster, or auto (default: RAY_ADDRESS, or else this machine alone)"
    parser.add_argument("--address", metavar="ADDRESS", help=text)


def check_engine(args: argparse.Namespace) -> None:
    """Refuse the address of a cluster where none is used."""
    if args.address is not None and args.engine != "ray":
        raise ValueError("--address is for a Ray cluster: add --engine ray, or leave it out.")


def reading(args: argparse.Namespace) -> "DataConfig":
    """Make the settings that say how a file is read."""
    from fresh.config import from_mapping, list_settings
    from fresh.data.splits import DataConfig

    names = {setting.name for setting in list_settings(DataConfig)}
    given = {name: value for name, value in vars(args).items() if name in names and value is not None}
    return from_mapping(DataConfig, given)


def add_data_dir(parser: argparse.ArgumentParser) -> None:
    """Add the folder of a named corpus."""
    text = "folder with the files of a named corpus; its test part counts"
    parser.add_argument("--data-dir", metavar="DIR", help=text)


def _read_labelled(args: argparse.Namespace, bad: "BadRows") -> "list[Example]":
    """Read the labelled texts of a file, or the test part of a named corpus, of an ERASER folder or of its tar."""
    from fresh.data.corpora import find_corpus
    from fresh.data.eraser import is_eraser
    from fresh.data.splits import load_splits, read_examples
    from fresh.pipeline import check_corpus_folder

    if args.data_dir is not None:
        examples = list(find_corpus(args.data).read(Path(args.data_dir)).test)
    elif is_eraser(Path(check_corpus_folder(args.data))) and Path(args.data).exists():
        return list(load_splits(args.data, reading(args), 0, bad).test)
    else:
        return list(read_examples(args.data, reading(args), bad))
    bad.total = len(examples)
    return examples


def read_for(args: argparse.Namespace, models: "Callable[[], Iterable[Rationalizer]]") -> "list[Example]":
    """Read labelled texts, leave out what a model cannot read if asked to, and say so.

    :param models: Loads the models; called when the texts have been read.
    """
    from fresh.data.splits import BadRows
    from fresh.evaluation.warnings import drop_too_long_examples

    bad = BadRows()
    examples = _read_labelled(args, bad)
    for model in models() if reading(args).skip_bad else ():
        examples = drop_too_long_examples(examples, model, bad)
    if bad.count or bad.widened:
        print(bad.summary(), file=sys.stderr)
    return examples


def data_given(args: argparse.Namespace) -> str | list[str]:
    """Take the one place of the data, or all of several."""
    places: list[str] = args.data
    return places[0] if len(places) == 1 else places


def settings_given(args: argparse.Namespace) -> dict[str, Any]:
    """Take the settings of a training run out of all that was given."""
    names = setting_names()
    return {name: value for name, value in vars(args).items() if name in names}


def setting_names() -> set[str]:
    """Name all settings of a training run."""
    from fresh.config import list_settings
    from fresh.methods.config import RunConfig, settings_of_methods

    return {setting.name for setting in list_settings(RunConfig)} | settings_of_methods().keys()


def flags_of(parser: argparse.ArgumentParser) -> dict[str, list[str]]:
    """List the flags of a command by the parameters that they set."""
    return {action.dest: list(action.option_strings) for action in parser._actions if action.option_strings}


def with_flags(message: str, flags: Mapping[str, Sequence[str]], arguments: Sequence[str]) -> str:
    """Write the parameters that a message names as the flags of a command.

    A message names a parameter in backticks, with a value, or as its first word before "must".

    :param flags: Flags by parameter.
    :param arguments: What the user typed, which is repeated as it is.
    """

    def flag_for(match: re.Match[str]) -> str:
        name, value = match["name"] or match["subject"] or match["assigned"], match["value"]
        if name not in flags or match[0] in arguments:
            return match[0]
        if value == "False":
            return f"--no-{flags[name][0].removeprefix('--')}"
        return flags[name][0] if value in (None, "True") else f"{flags[name][0]} {shlex.quote(value.strip(QUOTES))}"

    return PARAMETER.sub(flag_for, message)


def check_output(name: str, source: str, overwrite: bool) -> None:
    """Raise unless output can be written to a file; `-` is standard output."""
    from fresh import _io

    if name != "-":
        _io.check_output(name, overwrite=overwrite, source=source or None)


@contextmanager
def opened(name: str) -> Iterator[IO[str]]:
    """Open the file to write lines to, or standard output."""
    if name == "-":
        yield sys.stdout
        sys.stdout.flush()
        return
    from fresh._io import open_lines

    with open_lines(Path(name)) as file:
        yield file
