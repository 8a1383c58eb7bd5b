"""How figures look: for color-blind eyes and for print without color; the same data gives the same bytes."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from fresh.errors import ConfigError

ENDINGS = (".png", ".svg", ".pdf")
COLOURS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#000000")
"""Okabe and Ito's, without yellow, which is not seen on white."""
MARKERS = ("o", "s", "^", "D", "v", "P", "X", "<", ">", "*", "p")
"""So many that a marker comes in every colour before both repeat: after 77 lines."""
LOOK: dict[str, Any] = {
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
DATELESS: dict[str, dict[str, None]] = {
    ".png": {"Software": None},
    ".svg": {"Date": None},
    ".pdf": {"CreationDate": None},
}


def check_places(places: Sequence[Path]) -> None:
    """Refuse files that cannot be written, before any work is done."""
    for place in places:
        if place.suffix not in ENDINGS:
            raise ConfigError(f"{place} must end in {', '.join(ENDINGS[:-1])} or {ENDINGS[-1]}, which says its form.")
