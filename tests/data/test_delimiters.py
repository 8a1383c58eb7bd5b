import gzip
import re
from pathlib import Path

import pytest

from fresh.data.splits import DataConfig, read_documents, read_examples
from fresh.errors import DataError


@pytest.mark.parametrize(
    ("name", "header", "seen", "read"),
    [
        ("reviews.csv", "text;label", "semicolons", "commas"),
        ("reviews.csv", "text\tlabel", "tabs", "commas"),
        ("reviews.csv.gz", "text|label", "bars", "commas"),
        ("reviews.tsv", "text,label", "commas", "tabs"),
        ("reviews.tsv", "text;label", "semicolons", "tabs"),
    ],
)
def test_another_delimiter_is_named(tmp_path: Path, name: str, header: str, seen: str, read: str) -> None:
    content = f"{header}\na good film{header[4]}pos\n".encode()
    (tmp_path / name).write_bytes(gzip.compress(content) if name.endswith("gz") else content)
    message = (
        f"{name}, line 1: {seen} stand between the columns, where {read} are read: {header!r}. "
        "Save it with commas as .csv, or with tabs as .tsv."
    )
    with pytest.raises(DataError, match=f"^{re.escape(message)}$"):
        list(read_examples(tmp_path / name, DataConfig()))


def test_a_single_column_is_no_riddle(tmp_path: Path) -> None:
    (tmp_path / "texts.csv").write_text("text\na good; film\n", encoding="utf-8")
    [document] = read_documents(tmp_path / "texts.csv", DataConfig())
    assert document.text == "a good; film"
