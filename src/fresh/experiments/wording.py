"""Names of all settings of `fresh train`, for grid files."""

import functools
from collections.abc import Mapping

from fresh.config import Setting, list_settings
from fresh.methods.config import RunConfig, settings_of_methods


@functools.cache
def known() -> Mapping[str, Setting]:
    """List the settings of all trainings by their names."""
    of_methods = {name: setting for name, (setting, _) in settings_of_methods().items()}
    return {**{setting.name: setting for setting in list_settings(RunConfig)}, **of_methods}
