"""Packages and names that are imported late: optional ones, and those that take long to import."""

import importlib
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from lazy_loader import attach_stub

from fresh.errors import MissingExtraError

MODELS = ("torch", "transformers", "tokenizers", "safetensors", "huggingface_hub")


def optional_import(module: str, extra: str, purpose: str) -> Any:
    """Import an optional module, or say which extra installs it.

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


def lazy_package(name: str, file: str) -> tuple[Callable[[str], Any], Callable[[], list[str]], list[str]]:
    """Make `__getattr__`, `__dir__` and `__all__` of a package whose stub lists its public names.

    Each name is imported on first use: torch alone takes seconds, and the command's help should need neither it nor
    any other optional package.

    :param name: The package, `__name__`.
    :param file: Its `__file__`; the stub lies beside it.
    """
    load, list_names, names = attach_stub(name, file)

    def load_or_explain(attribute: str) -> Any:
        with explain_missing_extra(f"{name}.{attribute}"):
            return load(attribute)

    return load_or_explain, list_names, names
