"""The commands of `fresh`, one file each; what they need is loaded when they run."""

from types import ModuleType

from fresh.commands import audit, demo, evaluate, explain, search, train

COMMANDS: dict[str, ModuleType] = {
    "train": train,
    "search": search,
    "explain": explain,
    "evaluate": evaluate,
    "audit": audit,
    "demo": demo,
}
"""Each has a SUMMARY, and functions add (its options) and run."""
