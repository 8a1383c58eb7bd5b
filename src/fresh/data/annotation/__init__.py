"""Annotation tools: write tasks with the model's rationales for people to correct, and read what they marked."""

from fresh.data.annotation.tools import TOOLS, ExportResult, export, export_paths, read_explanations

__all__ = ["TOOLS", "ExportResult", "export", "export_paths", "read_explanations"]
