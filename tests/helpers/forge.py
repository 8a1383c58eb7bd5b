"""Changes of a saved model by somebody who recomputes its digests."""

import json
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from fresh.nn.encoder import digest_of
from fresh.persistence import manifest_digest

Change = Callable[[dict[str, Any]], object] | Mapping[str, Any]
"""Changes the content of a file, or gives some of its fields another value."""


def forge_manifest(folder: Path, change: Change) -> None:
    _rewrite(folder / "config.json", change)
    _rewrite(folder / "config.json", lambda manifest: manifest.update(sha256=manifest_digest(manifest)))


def rehash(folder: Path) -> None:
    forge_manifest(
        folder, lambda manifest: manifest.update(files={name: digest_of(folder / name) for name in manifest["files"]})
    )


def forge(folder: Path, name: str, change: Change) -> None:
    _rewrite(folder / name, change)
    rehash(folder)


def _rewrite(path: Path, change: Change) -> None:
    content = json.loads(path.read_text(encoding="utf-8"))
    content.update(change) if isinstance(change, Mapping) else change(content)
    path.write_text(json.dumps(content), encoding="utf-8")
