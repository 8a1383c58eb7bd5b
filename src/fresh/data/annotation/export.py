"""Explanations to files for annotation tools, with the model's words already marked."""

import itertools
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from fresh.config import suggest
from fresh.data.annotation import doccano, label_studio, potato
from fresh.document import Explanation
from fresh.errors import DataError


@dataclass(frozen=True, slots=True)
class _Tool:
    """How a tool wants its tasks."""

    title: str
    ending: str
    write: Callable[[Explanation], str]
    """Writes one task."""
    brackets: tuple[str, str, str] = ("", "\n", "\n")
    """What stands before, between and after all tasks."""
    settings_ending: str = ""
    settings: Callable[[str, Sequence[str], bool], str] | None = None
    """Writes the tool's own settings: for a file of tasks, with these classes, with queries or without."""


@dataclass(frozen=True, slots=True)
class Exported:
    """What was written."""

    count: int
    files: tuple[Path, ...]
    """The tasks and, where the tool wants some, its settings."""


def export(explanations: Iterable[Explanation], path: str | Path, tool: str) -> Exported:
    """Write explanations as tasks for a tool, as they come; the files appear when all is written.

    :param tool: The name of the tool: label_studio, doccano or potato.
    """
    chosen, target = _find_tool(tool), Path(path)
    _check_target(target, chosen)
    rest = iter(explanations)
    first = next(rest, None)  # before anything is written: an input that cannot be read leaves no file behind
    if first is None:
        raise DataError("There is nothing to export: no text was explained.")
    partial = target.with_name(f"{target.name}.partial")
    seen = _Seen()
    try:
        with partial.open("w", encoding="utf-8", newline="\n") as file:
            file.writelines(_laid_out(seen.watched(itertools.chain([first], rest)), chosen))
        files = {target: partial, **_written_settings(target, chosen, seen)}
    except BaseException:  # also Ctrl-C: what was begun goes, and the reason on its way
        partial.unlink(missing_ok=True)
        raise
    for place, written in reversed(files.items()):  # the tasks last: when they are there, all is
        written.replace(place)
    return Exported(seen.count, tuple(files))


class _Seen:
    """What is learned about all explanations while they pass."""

    def __init__(self) -> None:
        self.count = 0
        self.labels: set[str] = set()
        self.asks = False

    def watched(self, explanations: Iterable[Explanation]) -> Iterator[Explanation]:
        """Pass explanations on, and count them and their classes."""
        for explanation in explanations:
            try:
                explanation.document.text.encode()
            except UnicodeEncodeError as error:
                raise DataError(
                    f"The text of document {explanation.document.id!r} holds half a character ({error.reason}). "
                    "Mend it, or leave it out."
                ) from error
            self.count += 1
            self.labels |= explanation.prediction.probabilities.keys()
            self.asks |= bool(explanation.document.query)
            yield explanation if explanation.document.id else _numbered(explanation, self.count)


def _numbered(explanation: Explanation, number: int) -> Explanation:
    """Give a document that has no name one, by which tools tell tasks apart."""
    return replace(explanation, document=replace(explanation.document, id=f"document-{number}"))


def _laid_out(explanations: Iterable[Explanation], tool: _Tool) -> Iterator[str]:
    """Write tasks one after the other, with what stands around them."""
    before, between, after = tool.brackets
    yield before
    for number, explanation in enumerate(explanations):
        yield f"{between if number else ''}{tool.write(explanation)}"
    yield after


def files_of(path: str | Path, tool: str) -> tuple[Path, ...]:
    """Name the files that an export writes, and refuse a place that it could not write to."""
    chosen, target = _find_tool(tool), Path(path)
    _check_target(target, chosen)
    return (target,) if chosen.settings is None else (target, _settings_place(target, chosen))


def _settings_place(target: Path, tool: _Tool) -> Path:
    """Name the file of the tool's settings, beside the tasks."""
    return target.with_name(target.name.removesuffix(tool.ending) + tool.settings_ending)


def _written_settings(target: Path, tool: _Tool, seen: _Seen) -> dict[Path, Path]:
    """Write the tool's settings beside the tasks: where they belong, and where they are for now."""
    if tool.settings is None:
        return {}
    place = _settings_place(target, tool)
    partial = place.with_name(f"{place.name}.partial")
    partial.write_text(tool.settings(target.name, sorted(seen.labels), seen.asks), encoding="utf-8", newline="\n")
    return {place: partial}


def _find_tool(name: str) -> _Tool:
    """Find a tool by its name."""
    if name in TOOLS:
        return TOOLS[name]
    raise DataError(suggest(name, "a tool that can be exported to", TOOLS))


def _check_target(target: Path, tool: _Tool) -> None:
    """Refuse a place that the tool would not read, or that cannot be written to."""
    if not target.name.endswith(tool.ending):
        raise DataError(
            f"{tool.title} reads {tool.ending} files, but the output is {target.name}. "
            f"Give it the ending {tool.ending}."
        )
    if not target.parent.is_dir():
        raise DataError(f"There is no folder {target.parent} to write to. Make it first.")


TOOLS: dict[str, _Tool] = {
    "label_studio": _Tool(
        "Label Studio",
        label_studio.ENDING,
        label_studio.write,
        ("[\n", ",\n", "\n]\n"),
        label_studio.SETTINGS_ENDING,
        label_studio.settings,
    ),
    "doccano": _Tool("doccano", doccano.ENDING, doccano.write),
    "potato": _Tool(
        "Potato",
        potato.ENDING,
        potato.write,
        settings_ending=potato.SETTINGS_ENDING,
        settings=potato.settings,
    ),
}
