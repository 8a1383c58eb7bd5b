"""The look of figures: readable for color-blind eyes and in print without color; the same data gives the same bytes."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from fresh.errors import ConfigError

ENDINGS = (".png", ".svg", ".pdf")
# Okabe and Ito's palette without its yellow, which cannot be seen on white.
COLORS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#000000")
# 11 markers and 7 colors have no common divisor, so lines repeat only after 77.
MARKERS = ("o", "s", "^", "D", "v", "P", "X", "<", ">", "*", "p")
STYLE: dict[str, Any] = {
    "font.family": "DejaVu Sans",
    "font.size": 9,
    "axes.titlesize": 9,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.grid": True,
    "axes.axisbelow": True,
    "grid.color": "#dddddd",
    "grid.linewidth": 0.6,
    "lines.linewidth": 1.4,
    "lines.markersize": 4.5,
    "legend.frameon": False,
    "legend.title_fontsize": 8,
    "savefig.dpi": 200,
    "svg.fonttype": "path",
    "svg.hashsalt": "fresh",
    "pdf.fonttype": 42,
    "text.parse_math": False,
}
# Metadata that would differ between two runs on the same data.
NO_METADATA: dict[str, dict[str, None]] = {
    ".png": {"Software": None},
    ".svg": {"Date": None},
    ".pdf": {"CreationDate": None},
}


def check_figure_paths(paths: Sequence[Path]) -> None:
    """Refuse files of an unknown format, before any work is done."""
    for path in paths:
        if path.suffix not in ENDINGS:
            known = f"{', '.join(ENDINGS[:-1])} or {ENDINGS[-1]}"
            raise ConfigError(f"The name of a figure must end in {known}, got {path}.")
