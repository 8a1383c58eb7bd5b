import errno
from pathlib import Path
from typing import Any

import pytest

from fresh._io import atomic_write, open_lines, write_text


def test_a_file_that_cannot_be_opened_is_not_cut(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "out.jsonl"
    path.write_text("one\nnotes without an end", encoding="utf-8")
    real = Path.open

    def fail_to_write(self: Path, mode: str = "r", **named: Any) -> Any:
        if mode == "w":
            raise OSError(errno.EMFILE, "Too many open files", str(self))
        return real(self, mode, **named)

    monkeypatch.setattr(Path, "open", fail_to_write)
    with pytest.raises(OSError, match="Too many open files"), open_lines(path):
        pass
    monkeypatch.undo()
    assert path.read_text(encoding="utf-8") == "one\nnotes without an end"


@pytest.mark.parametrize(("reason", "named"), [(errno.ENOSPC, True), (errno.ECONNRESET, False), (None, False)])
def test_only_errors_of_the_disk_name_the_file(tmp_path: Path, reason: int | None, named: bool) -> None:
    path = tmp_path / "out.jsonl"
    error = OSError("the pool is closed") if reason is None else OSError(reason, "failed")

    def write() -> None:
        with open_lines(path) as file:
            file.write("one\ntw")
            raise error

    with pytest.raises(OSError, match=r"failed|closed") as caught:
        write()
    assert caught.value.filename == (str(path) if named else None)
    assert path.read_text(encoding="utf-8") == "one\n"


def interrupted(path: Path) -> None:
    with atomic_write(path) as place:
        place.write_text("half", encoding="utf-8")
        raise KeyboardInterrupt


def test_a_file_is_written_in_one_move(tmp_path: Path) -> None:
    path = tmp_path / "a.html"
    write_text(path, "é")
    with pytest.raises(KeyboardInterrupt):
        interrupted(path)
    assert path.read_bytes() == "é".encode()
    assert list(tmp_path.iterdir()) == [path]
