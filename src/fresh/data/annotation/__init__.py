"""To annotation tools and back, one file a tool."""

from fresh.data.annotation.export import TOOLS, Exported, export, files_of
from fresh.data.annotation.records import explained

__all__ = ["TOOLS", "Exported", "explained", "export", "files_of"]
