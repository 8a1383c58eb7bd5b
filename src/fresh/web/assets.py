"""Files of the pages: read once, kept by browsers for good, since a change changes their address."""

import hashlib
from collections.abc import Mapping
from importlib.resources import files

from jinja2 import Environment, PackageLoader, StrictUndefined
from starlette.responses import Response

from fresh.web.errors import Problem

KINDS = {".css": "text/css; charset=utf-8", ".js": "text/javascript; charset=utf-8", ".svg": "image/svg+xml"}
FOREVER = "public, max-age=31536000, immutable"
"""What is said to caches of files whose address holds their digest."""


def files_of(package: str, folder: str = "") -> dict[str, bytes]:
    """Read the styles, scripts and pictures of a package, or of a folder in it."""
    place = files(package).joinpath(folder)
    return {item.name: item.read_bytes() for item in place.iterdir() if item.name.endswith(tuple(KINDS))}


class Assets:
    """The files that pages ask for; all share one digest, so that a script finds others beside itself."""

    def __init__(self, content: Mapping[str, bytes]) -> None:
        self.content = dict(content)
        whole = hashlib.sha256()
        for name in sorted(self.content):
            whole.update(name.encode() + b"\0" + self.content[name] + b"\0")
        self.digest = whole.hexdigest()[:12]

    def url(self, name: str) -> str:
        """Say where a file is served."""
        assert name in self.content, name
        return f"/static/{self.digest}/{name}"

    def serve(self, digest: str, name: str) -> Response:
        """Answer with a file; only names that are known are looked up, and no path is ever opened."""
        content = self.content.get(name)
        if content is None or digest != self.digest:
            raise Problem(404, "There is no such file in this version of the pages. Load the page again.")
        kind = KINDS[name[name.rindex(".") :]]
        return Response(content, media_type=kind, headers={"Cache-Control": FOREVER, "ETag": f'"{self.digest}"'})


def templates_of(package: str, folder: str, assets: Assets) -> Environment:
    """Find the templates of a package; all that is put into them is escaped, and nothing may be missing."""
    loader = PackageLoader(package, folder)
    environment = Environment(
        loader=loader, autoescape=True, undefined=StrictUndefined, trim_blocks=True, lstrip_blocks=True
    )
    environment.globals["asset"] = assets.url
    return environment
