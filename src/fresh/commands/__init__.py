"""The commands of `fresh`, one file each; what they need is loaded when they run."""

from types import ModuleType

from fresh.commands import audit, compare, demo, evaluate, explain, export, run, search, train, verify

COMMANDS: dict[str, ModuleType] = {
    "train": train,
    "search": search,
    "explain": explain,
    "verify": verify,
    "evaluate": evaluate,
    "compare": compare,
    "export": export,
    "audit": audit,
    "run": run,
    "demo": demo,
}
"""Each has a SUMMARY, and functions add (its options) and run."""
