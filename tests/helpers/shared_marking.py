"""What tests of marking share with others."""

from pathlib import Path
from typing import Any

import small
from fresh.config import from_mapping
from fresh.methods.config import FreshConfig


def config_of(encoders: dict[str, Path], **others: Any) -> FreshConfig:
    return from_mapping(FreshConfig, small.settings(encoders["bert"], **others))
