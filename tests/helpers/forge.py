"""Changes of a saved model by somebody who computes its digests anew."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

from fresh.nn.encoder import digest_of
from fresh.persistence import _manifest_digest

Change = Callable[[dict[str, Any]], object]


def forge_manifest(folder: Path, change: Change) -> None:
    """Change the manifest."""
    path = folder / "config.json"
    manifest = json.loads(path.read_text(encoding="utf-8"))
    change(manifest)
    manifest["sha256"] = _manifest_digest(manifest)
    path.write_text(json.dumps(manifest), encoding="utf-8")


def rehash(folder: Path) -> None:
    """Compute the digests of all files anew."""
    forge_manifest(
        folder, lambda manifest: manifest.update(files={name: digest_of(folder / name) for name in manifest["files"]})
    )


def forge(folder: Path, name: str, change: Change) -> None:
    """Change a JSON file."""
    content = json.loads((folder / name).read_text(encoding="utf-8"))
    change(content)
    (folder / name).write_text(json.dumps(content), encoding="utf-8")
    rehash(folder)
