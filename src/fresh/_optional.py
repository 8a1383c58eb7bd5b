"""Optional packages: load one, or say which extra brings it."""

import importlib
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from fresh.errors import MissingExtraError

MODELS = ("torch", "transformers", "tokenizers", "safetensors", "huggingface_hub")


def optional_import(module: str, extra: str, purpose: str) -> Any:
    """Import an optional module.

    :param module: What to import.
    :param extra: The extra of this distribution that installs it.
    :param purpose: What it is needed for, as the start of a sentence.
    """
    try:
        return importlib.import_module(module)
    except ModuleNotFoundError as error:
        raise MissingExtraError(
            f"{purpose} needs {module.partition('.')[0]}. Install it with: pip install 'fresh-rationales[{extra}]'"
        ) from error


@contextmanager
def explain_missing_extra(purpose: str) -> Iterator[None]:
    """Say which extra is missing when an import inside the block fails for want of one."""
    try:
        yield
    except ModuleNotFoundError as error:
        if error.name not in MODELS:
            raise
        raise MissingExtraError(
            f"{purpose} needs {error.name}. Install it with: pip install 'fresh-rationales[models]'"
        ) from error
