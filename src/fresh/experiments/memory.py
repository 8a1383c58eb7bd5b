"""What earlier plans found in files that have not changed since, so that a plan need not read them again."""

import contextlib
import functools
import json
import os
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import fresh
from fresh._io import write_text
from fresh.experiments.grid import RunSpec, short_hash
from fresh.experiments.sources import About, Sources
from fresh.experiments.store import RunStore, read_record
from fresh.pipeline import RunSettings

MOST_FILES = 5000
"""In larger folders, looking at all files would take longer than reading a corpus."""
Stamp = tuple[str, int, int, int]


@dataclass(frozen=True, slots=True)
class Memory:
    """Keeps what is known of corpora in a folder of runs, under names that change with every file."""

    runs: RunStore
    stamps: dict[tuple[Path, ...], list[Stamp] | None] = field(default_factory=dict)

    def recall(self, pairs: Sequence[tuple[RunSpec, RunSettings]], sources: Sources) -> dict[str, Path]:
        """Tell sources what is known of their files, and say where to keep what is not."""
        unknown: dict[str, Path] = {}
        for cell, run in pairs:
            key = sources.key(cell, run)
            if key in sources.known or key in unknown:
                continue
            place = self.place(key, _files_of(cell, run, sources.data_dir))
            found = None if place is None else _about_in(read_record(place))
            if found is not None:
                sources.known[key] = found
            elif place is not None:
                unknown[key] = place
        return unknown

    def place(self, key: str, places: tuple[Path, ...]) -> Path | None:
        """Say where it is kept what some files hold; nowhere if there are too many of them."""
        if places not in self.stamps:
            self.stamps[places] = _stamps_of(places)
        stamps = self.stamps[places]
        return (
            None if stamps is None else self.runs.path / "known" / f"{short_hash([key, stamps, _code_stamps()])}.json"
        )

    def keep(self, known: Mapping[str, About], places: Mapping[str, Path]) -> None:
        """Write down what was found out, as far as the disk takes it: the next plan can find it out again."""
        for key, place in places.items():
            with contextlib.suppress(OSError):
                place.parent.mkdir(parents=True, exist_ok=True)
                with self.runs.claimed(f"known-{place.stem}", patient=True):
                    write_text(place, json.dumps(known[key]._asdict()))


def _about_in(record: Mapping[str, object] | None) -> About | None:
    """Read what was written down, if it is whole."""
    digest, n_words = (record or {}).get("digest"), (record or {}).get("n_words")
    return About(digest, n_words) if isinstance(digest, str) and isinstance(n_words, int) else None


def _files_of(cell: RunSpec, run: RunSettings, data_dir: Path | None) -> tuple[Path, ...]:
    """List the files and folders in which a corpus is looked for."""
    if not cell.data:
        return () if data_dir is None else (data_dir,)
    return tuple(Path(name) for name in (*cell.data, run.config.data.dev, run.config.data.test) if name)


def _stamps_of(places: Sequence[Path]) -> list[Stamp] | None:
    """Take down size and times of all files; none if there are too many. A change of a file changes one of them."""
    found: list[Stamp] = []
    for file in (file for place in places for file in _files_in(place)):
        with contextlib.suppress(FileNotFoundError):  # a link to nowhere, or gone since
            about = file.stat()
            found.append((str(file.absolute()), about.st_size, about.st_mtime_ns, about.st_ctime_ns))
        if len(found) > MOST_FILES:
            return None
    return sorted(found)


def _files_in(place: Path) -> Iterator[Path]:
    """Walk through all files of a folder and of those in it; a file is its own."""
    if not place.is_dir():
        yield from [place] if place.exists() else []
    for folder, _, names in os.walk(place, followlinks=True):
        yield from (Path(folder) / name for name in names)


@functools.cache
def _code_stamps() -> list[Stamp]:
    """Take down the same of the code that reads: another version of it may read otherwise."""
    return _stamps_of(sorted(Path(str(fresh.__file__)).parent.rglob("*.py"))) or []
