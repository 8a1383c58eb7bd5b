"""Data that is made to take all time or memory: refused within seconds, in words."""

import gzip
import subprocess
import sys
import tarfile
from collections.abc import Callable
from pathlib import Path

import pytest

from data_files import sparse_tar

MEGABYTE = 1024**2
GOOD = b"text,label\na good film,pos\nan awful film,neg\n"


def packed(block: bytes, times: int) -> bytes:
    """Pack a block many times over; a gzip file may have several members."""
    return gzip.compress(block, 9) * times


def tar_of(size: int, content: bytes, kind: bytes = tarfile.REGTYPE) -> bytes:
    """Write the head of a file in a tar, and packed content behind it."""
    member = tarfile.TarInfo("corpus/docs/a.txt")
    member.size, member.type = size, kind
    return gzip.compress(member.tobuf(tarfile.GNU_FORMAT)) + content


ZEROS = bytes(16 * MEGABYTE)
ROW = b'{"text": "a film", "label": "pos"}\n'
HOSTILE: dict[str, Callable[[], bytes]] = {
    "columns.csv": lambda: b",".join(b"%d" % number for number in range(1_000_000)) + b"\n",
    "line.csv": lambda: GOOD + b"a " * 24 * MEGABYTE,
    "cell.csv": lambda: GOOD + b'"' + b"a\n" * 24 * MEGABYTE,
    "line.jsonl": lambda: b'{"text": "' + b"a " * 24 * MEGABYTE + b'", "label": "pos"}\n',
    "line.json": lambda: b'[{"text": "' + b"a " * 24 * MEGABYTE + b'", "label": "pos"}]\n',
    "deep.jsonl": lambda: b"[" * 8 * MEGABYTE,
    "deep.json": lambda: b"[" * 8 * MEGABYTE,
    "zeros.jsonl.gz": lambda: packed(ZEROS, 640),
    "lines.csv.gz": lambda: packed(b"\n" * 16 * MEGABYTE, 640),
    "rows.jsonl.gz": lambda: packed(ROW * (16 * MEGABYTE // len(ROW)), 640),
    "rows.json.gz": lambda: packed(ROW * (16 * MEGABYTE // len(ROW)), 640),
    "zeros.tar.gz": lambda: tar_of(640 * len(ZEROS), packed(ZEROS, 640)),
    "head.tar.gz": lambda: tar_of(64 * len(ZEROS), packed(ZEROS, 64), tarfile.XHDTYPE),
    "members.tar.gz": lambda: packed(tarfile.TarInfo("corpus/docs/a.txt").tobuf() * 4096, 640),
    "sparse.tar": sparse_tar,
}


COMMAND = """
import resource, sys
from fresh.cli.main import main
main(["describe", sys.argv[1]])
with open("/proc/self/status") as file:
    [peak] = [int(line.split()[1]) for line in file if line.startswith("VmHWM:")]
used = resource.getrusage(resource.RUSAGE_SELF)
print(used.ru_utime + used.ru_stime, peak * 1024)
"""


def describe(path: Path) -> tuple[str, float, float]:
    """Run `fresh describe`: what it says, its seconds of computing, and the most memory that it had, in megabytes."""
    done = subprocess.run([sys.executable, "-c", COMMAND, str(path)], capture_output=True, text=True, check=True)
    seconds, peak = done.stdout.splitlines()[-1].split()
    return done.stderr, float(seconds), int(peak) / MEGABYTE


@pytest.mark.slow
@pytest.mark.parametrize("name", HOSTILE)
def test_hostile_data_is_refused_within_seconds(name: str, tmp_path: Path) -> None:
    (tmp_path / "good.csv").write_bytes(GOOD)
    (tmp_path / name).write_bytes(HOSTILE[name]())
    nothing, seconds_of_good, memory_of_good = describe(tmp_path / "good.csv")
    said, seconds, memory = describe(tmp_path / name)
    sys.stdout.write(f"{name}: {seconds - seconds_of_good:.2f} s, {memory - memory_of_good:.0f} MB more: {said}")
    assert nothing == ""
    assert said.startswith(f"fresh describe: {name}")
    assert said.count("\n") == 1
    assert seconds - seconds_of_good < 5
    assert memory - memory_of_good < 200
