"""Changes of a saved model by somebody who recomputes its digests."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

from fresh.nn.encoder import digest_of
from fresh.persistence import manifest_digest

Change = Callable[[dict[str, Any]], object]


def forge_manifest(folder: Path, change: Change) -> None:
    path = folder / "config.json"
    manifest = json.loads(path.read_text(encoding="utf-8"))
    change(manifest)
    manifest["sha256"] = manifest_digest(manifest)
    path.write_text(json.dumps(manifest), encoding="utf-8")


def rehash(folder: Path) -> None:
    forge_manifest(
        folder, lambda manifest: manifest.update(files={name: digest_of(folder / name) for name in manifest["files"]})
    )


def forge(folder: Path, name: str, change: Change) -> None:
    content = json.loads((folder / name).read_text(encoding="utf-8"))
    change(content)
    (folder / name).write_text(json.dumps(content), encoding="utf-8")
    rehash(folder)
