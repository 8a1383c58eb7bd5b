"""Write docs/reference/settings.md from the settings classes; --check only tests whether it is up to date."""

import sys
from pathlib import Path

from fresh.config import list_settings
from fresh.methods.config import METHODS, RunConfig, settings_of_methods

HEAD = """\
# Settings

Every setting is defined once and serves the command line (`--learning-rate 5e-5`), Python
(`fresh.train(..., learning_rate=5e-5)`), settings files (`learning_rate = 5e-5`, alone or under its section) and
`FreshClassifier` (those of the method fresh). Section headings name the methods that have a setting, unless all
have it. A misspelled setting is an error that suggests the nearest name; all errors are reported at once. Command-line
options override the settings file, which overrides settings of a corpus, which override the defaults. `make docs`
generates this page.
"""


def page() -> str:
    """Lay out a table for each section."""
    sections: dict[str, list[str]] = {}
    listed = [(setting, setting.path.rpartition(".")[0] or "run") for setting in list_settings(RunConfig)]
    for setting, methods in sorted(settings_of_methods().values(), key=lambda item: -len(item[1])):
        owners = "" if len(methods) == len(METHODS) else f" ({', '.join(methods)})"
        listed.append((setting, f"{setting.path.rpartition('.')[0].rpartition('.')[2] or 'rationales'}{owners}"))
    for setting, section in listed:
        default = "" if setting.default in ("", None) else f"`{setting.default}`"
        sections.setdefault(section, []).append(f"| `{setting.name}` | {default} | {setting.help} |")
    tables = (
        f"## {name}\n\n| name | default | meaning |\n| --- | --- | --- |\n" + "\n".join(rows)
        for name, rows in sections.items()
    )
    return HEAD + "\n" + "\n\n".join(tables) + "\n"


if __name__ == "__main__":
    target = Path(__file__).with_name("settings.md")
    if "--check" in sys.argv:
        sys.exit(0 if target.read_text(encoding="utf-8") == page() else "settings.md is out of date: make docs")
    target.write_text(page(), encoding="utf-8")
