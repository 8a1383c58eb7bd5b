"""A training that was broken off: what is kept of it, and how it goes on."""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from safetensors import SafetensorError, safe_open

from fresh.errors import ConfigError
from fresh.persistence import drop_folder
from fresh.progress import Progress

NOTE = "run.json"
ENCODER = "network.encoder"


def partial_of(folder: Path) -> Path:
    """Name the folder that keeps an unfinished training."""
    return folder.with_name(f"{folder.name}.partial")


def begin(folder: Path, overwrite: bool, wanted: Mapping[str, Any], progress: Progress) -> Path:
    """Make the folder for unfinished work, or go on with the one that is there if it is of the same run."""
    partial = partial_of(folder)
    if (partial / NOTE).is_file():
        problem = _mismatch(folder, wanted)
        if problem is None:
            progress.say(f"Going on with the training that was broken off. {_kept_of(folder)}".rstrip())
            return partial
        if not overwrite:
            raise ConfigError(f"{partial} holds a training that was broken off and {problem}")
    elif partial.exists() and (partial.is_file() or any(partial.iterdir())):
        raise ConfigError(
            f"{partial} is where unfinished training is kept, but it holds other files, which are not touched. "
            "Choose another folder for the model."
        )
    drop_folder(partial)
    partial.mkdir(parents=True)
    (partial / NOTE).write_text(json.dumps(wanted), encoding="utf-8")
    return partial


def _mismatch(folder: Path, wanted: Mapping[str, Any]) -> str | None:
    """Say why what is kept cannot go on as the run that is wanted, if it cannot."""
    try:
        found = json.loads((partial_of(folder) / NOTE).read_text(encoding="utf-8"))
        _kept_of(folder)
    except (ValueError, SafetensorError, KeyError, TypeError):
        return "is damaged. Choose another folder, or discard it: overwrite=True."
    if found == wanted:
        return None
    changed = {key for key in {*found, *wanted} if found.get(key) != wanted.get(key)}
    if "train.schedule" in changed:
        changed.discard("train.epochs")  # which are noted for one of them only
    # The encoder's value is shown: for one of the hub it has a commit, which is needed to finish the training.
    values = {ENCODER: f" (it was {found.get(ENCODER)})"}
    names = ", ".join(f"{name}{values.get(name, '')}" for name in sorted(changed))
    return f"differs in: {names}. Finish that one first, choose another folder, or discard it: overwrite=True."


def unfinished(folder: Path) -> str:
    """Say what is kept of a training that was broken off, if anything, and how to go on."""
    kept = _kept_of(folder)
    try:
        wanted = json.loads((partial_of(folder) / NOTE).read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return kept  # nobody can go on from there
    fewer = "" if "train.epochs" in wanted else "; a smaller `epochs` then makes do with what is done"
    return kept and f"{kept} Give the same command again to go on from there{fewer}."


def _kept_of(folder: Path) -> str:
    """List what is kept of a training that was broken off."""
    kept: list[str] = []
    for path in sorted(partial_of(folder).glob("*.safetensors"), key=lambda path: path.stat().st_mtime):
        with safe_open(path, "np") as file:
            scores = json.loads(file.metadata()["scores"])
        name = path.stem.replace("_", " ")
        kept.append(f"{name}: {len(scores)} epochs, best dev macro-F1 {max(scores):.3f}")
    return f"Kept: {'; '.join(kept)}." if kept else ""
