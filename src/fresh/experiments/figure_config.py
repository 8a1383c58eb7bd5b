"""What a figure of an experiment shows: settings of `fresh plot`, and of [figure] in a grid file."""

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field, fields
from typing import Any, Literal

from fresh.config import from_mapping, suggest
from fresh.errors import ConfigError
from fresh.experiments.results import MAIN, SECONDS

Kind = Literal["lines", "scatter", "evp"]
TRIALS = "trials"
DEV = "dev macro-F1"
DEFAULTS: dict[Kind, dict[str, str]] = {
    "lines": {"x": "ratio", "y": MAIN, "by": "method"},
    "scatter": {"x": "kept", "y": MAIN, "by": "row"},
    "evp": {"x": TRIALS, "y": DEV, "by": "row"},
}


@dataclass(frozen=True, slots=True)
class _Layout:
    """What goes where in a figure."""

    kind: Kind = "lines"
    """lines: a figure over a setting; scatter: two figures, a mark a run; evp: how good the best of a search is after
    so many trials."""
    x: str = ""
    """What goes across: a setting for lines, a figure for scatter, trials or seconds for evp."""
    y: str = ""
    """The figure that goes up."""
    by: str = ""
    """What tells lines, or marks, apart; several settings with commas between them."""
    panels: str = "corpus"
    """What tells panels apart."""


@dataclass(frozen=True, slots=True)
class FigureConfig(_Layout):
    """What is drawn, of which runs; what is left out of the layout is what suits the kind."""

    where: Mapping[str, str] = field(default_factory=dict)
    """Only runs with these settings are drawn; several values with commas between them."""
    against: tuple[str, ...] = ()
    """Rows whose mean is drawn as a flat line."""
    names: Mapping[str, str] = field(default_factory=dict)
    """What to write in the place of the name of an axis, a panel or a line."""

    def __post_init__(self) -> None:
        for name, default in DEFAULTS[self.kind].items():
            if not getattr(self, name):
                object.__setattr__(self, name, default)
        if self.kind == "evp" and self.x not in (TRIALS, SECONDS):
            raise ConfigError(f"x must be {TRIALS} or {SECONDS} for the kind evp, got {self.x!r}.")

    def called(self, name: str) -> str:
        """Say what is written for a name."""
        return self.names.get(name, name)


def read_figure(given: Mapping[str, Any], options: Mapping[str, Any]) -> FigureConfig:
    """Put together what a grid file says of its figure and what is asked for; the latter goes first.

    A figure of another kind than the file's has nothing of the file's settings but the names.
    """
    same = "kind" not in options or options["kind"] == given.get("kind", "lines")
    named = [table(source.get("names", {}), "names", "{ ratio = 'share of words' }") for source in (given, options)]
    whole = {**(given if same else {}), **options, "names": {**named[0], **named[1]}}
    names = [item.name for item in fields(FigureConfig)]
    wrong = [suggest(name, "a setting of a figure", names) for name in whole if name not in names]
    if wrong:
        raise ConfigError("\n".join(wrong))
    own = [item.name for item in fields(_Layout)]
    layout = from_mapping(_Layout, {name: value for name, value in whole.items() if name in own})
    against = whole.get("against", ())
    where = table(whole.get("where", {}), "where", "{ method = 'lei' }")
    if not isinstance(against, str | Sequence):
        raise ConfigError(f"against must be the name of a row, or a list of them, got {against!r}.")
    rows = (against,) if isinstance(against, str) else tuple(map(str, against))
    chosen = {name: _joined(values) for name, values in where.items()}
    for name, text in whole["names"].items():
        if not isinstance(text, str):
            raise ConfigError(f"names must have a text for {name!r}, got {text!r}. Write a name with dots in quotes.")
    return FigureConfig(**asdict(layout), where=chosen, against=rows, names=whole["names"])


def table(value: Any, name: str, example: str) -> Mapping[str, Any]:
    """Refuse what is no table of names and values."""
    if not isinstance(value, Mapping):
        raise ConfigError(f"{name} must be a table of settings, as in {example}, got {value!r}.")
    return value


def _joined(values: Any) -> str:
    """Write one value, or several with commas."""
    several = isinstance(values, Sequence) and not isinstance(values, str)
    return ",".join(map(str, values)) if several else str(values)
