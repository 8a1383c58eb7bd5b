"""Messages that name options of `fresh train`, told to somebody who wrote a grid file."""

import functools
import re
from collections.abc import Mapping
from typing import get_args

from fresh.config import Setting, settings_of
from fresh.methods.config import RunConfig, settings_of_methods

OPTION = re.compile(r"--([a-z]+(?:-[a-z]+)*)(?: ('[^']*'|[a-z_]+\b))?")
"""An option, and perhaps its value."""
WHERE = "(Settings stand in a row, in [corpora.NAME] or in [settings] of the grid file, or behind --set.)"


def for_grids(message: str) -> str:
    """Name settings as a grid file does, where a message names them as options; say where they stand."""
    told = OPTION.sub(lambda found: _as_setting(found[0], found[1], found[2] or ""), message)
    return message if told == message else f"{told} {WHERE}"


def _as_setting(whole: str, option: str, value: str) -> str:
    """Write an option as a setting, if it is one.

    :param whole: The option as it stands in the message, with what follows.
    :param value: What follows: its value, or a word of the message.
    """
    setting = known().get(option.replace("-", "_"))
    if setting is None:
        return whole
    rest = f" {value}" if value else ""
    if setting.kind is bool:
        return f"{setting.name} = true{rest}"
    if value.startswith("'"):
        return f"{setting.name} = {value}"
    return f"{setting.name} = '{value}'" if value in get_args(setting.kind) else setting.name + rest


@functools.cache
def known() -> Mapping[str, Setting]:
    """List the settings of all trainings by their names."""
    of_methods = {name: setting for name, (setting, _) in settings_of_methods().items()}
    return {**{setting.name: setting for setting in settings_of(RunConfig)}, **of_methods}
