from typing import Any

import pytest

from fresh.data.config import DataConfig


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"text": ""}, "text must name a column, got ''"),
        ({"label": ""}, "label must name a column, got ''"),
        ({"text": "a", "query": "a"}, "text and query both name the column 'a'"),
        ({"agreement": 1.5}, r"agreement must be in \[0, 1\], got 1.5"),
        ({"max_row_mb": 0}, "max_row_mb must be at least 1, got 0"),
        ({"max_unpacked": 0}, "max_unpacked must be at least 1, got 0"),
        ({"dev_share": 0.0}, r"dev_share must be in \(0, 1\), got 0.0"),
        ({"test_share": 1.0}, r"test_share must be in \(0, 1\), got 1.0"),
        ({"dev_share": 0.5, "test_share": 0.5}, "dev_share and test_share must leave rows to train on, got 0.5"),
    ],
)
def test_settings_that_cannot_be_used_are_refused(settings: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=f"^{message}"):
        DataConfig(**settings)
