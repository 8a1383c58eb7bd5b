"""To annotation tools and back, one file a tool."""

from fresh.annotation.exporting import TOOLS, Exported, export, files_of
from fresh.annotation.records import explained

__all__ = ["TOOLS", "Exported", "explained", "export", "files_of"]
