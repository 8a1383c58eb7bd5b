"""The commands of `fresh`, one file each; what they need is loaded when they run."""

from types import ModuleType

from fresh.cli import (
    audit,
    compare,
    demo,
    describe,
    evaluate,
    explain,
    export,
    plot,
    run,
    search,
    serve,
    study,
    table,
    train,
    verify,
)

COMMANDS: dict[str, ModuleType] = {
    "describe": describe,
    "train": train,
    "search": search,
    "explain": explain,
    "verify": verify,
    "evaluate": evaluate,
    "compare": compare,
    "export": export,
    "serve": serve,
    "audit": audit,
    "run": run,
    "table": table,
    "plot": plot,
    "study": study,
    "demo": demo,
}
"""Each has a SUMMARY, and functions add (its options) and run."""
