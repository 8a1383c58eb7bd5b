"""The settings of all methods by their names; listed without loading what trains."""

from dataclasses import replace

from fresh.config import Setting, list_settings
from fresh.methods.config import FreshConfig, FullTextConfig, HumanConfig, NetworksConfig, RandomConfig
from fresh.methods.gate_config import BastingsConfig, LeiConfig

CONFIGS: dict[str, type[NetworksConfig]] = {
    "fresh": FreshConfig,
    "lei": LeiConfig,
    "bastings": BastingsConfig,
    "full_text": FullTextConfig,
    "random": RandomConfig,
    "human": HumanConfig,
}


def settings_of_methods() -> dict[str, tuple[Setting, list[str]]]:
    """List the settings of all methods by their names, each with the names of the methods it is for."""
    found: dict[str, tuple[Setting, list[str]]] = {}
    for method, config in CONFIGS.items():
        for setting in list_settings(config):
            known, owners = found.get(setting.name, (setting, []))
            # What stands in different places for different methods is shown as if it stood in none.
            shown = known if known.path == setting.path else replace(setting, path=setting.name)
            found[setting.name] = shown, [*owners, method]
    return found
