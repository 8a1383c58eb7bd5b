"""Packages and names that are imported late: optional ones, and those that take long to import."""

import importlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

from fresh.errors import MissingExtraError

MODELS = ("torch", "transformers", "tokenizers", "safetensors", "huggingface_hub")


def optional_import(module: str, extra: str, purpose: str) -> Any:
    """Import an optional module, or say which extra installs it.

    :param module: What to import.
    :param extra: The extra of this distribution that installs it.
    :param purpose: What it is needed for, as the start of a sentence.
    """
    try:
        return importlib.import_module(module)
    except ModuleNotFoundError as error:
        raise _missing_extra(purpose, module.partition(".")[0], extra) from error


@contextmanager
def explain_missing_extra(purpose: str) -> Iterator[None]:
    """Say which extra is missing if an import inside the block fails for want of one."""
    try:
        yield
    except ModuleNotFoundError as error:
        if error.name not in MODELS:
            raise
        raise _missing_extra(purpose, str(error.name), "models") from error


def _missing_extra(purpose: str, package: str, extra: str) -> MissingExtraError:
    return MissingExtraError(f"{purpose} needs {package}. Install it with: pip install 'fresh-rationales[{extra}]'")


def lazy_exports(package: str, names: Mapping[str, Sequence[str]]) -> Callable[[str], Any]:
    """Make the `__getattr__` of a package that imports its public names on first use.

    :param names: Public names by the module of the package that defines them.
    """
    homes = {name: f"{package}.{module}" for module, group in names.items() for name in group}

    def load(name: str) -> Any:
        if name not in homes:
            raise AttributeError(f"module {package!r} has no attribute {name!r}")
        with explain_missing_extra(f"{package}.{name}"):
            return getattr(importlib.import_module(homes[name]), name)

    return load
