"""A view as one HTML file: no request leaves it, and nothing in a text can run in it."""

import base64
import hashlib
from importlib import resources
from string import Template

from fresh.highlight import escape_text, isolate
from fresh.reporting.html import sections
from fresh.reporting.html.charts import charts
from fresh.reporting.html.packed import pack
from fresh.reporting.html.view import View

STYLES = ("page.css", "explorer.css", "print.css")
SCRIPTS = ("unpack.js", "marks.js", "list.js", "explorer.js", "keys.js")
NAMES = {
    "results": "Results",
    "figures": "Figures",
    "agreement": "People",
    "audit": "Audit",
    "comparisons": "Comparisons",
    "documents": "Documents",
    "about": "About",
}


def render(view: View) -> str:
    """Write a page that needs no other file, no server and no network."""
    style = "".join(map(_read, STYLES))
    script = '"use strict";\n(() => {\n' + "".join(map(_read, SCRIPTS)) + "})();\n"
    before = (
        sections.headline(view.headline, view.whiskers)
        + charts(view)
        + sections.agreement(view.agreement)
        + sections.audit(view.verdicts, view.guarantee)
        + sections.comparisons(view.pairs, view.tests)
    )
    after = sections.about(view)
    return Template(_read("page.html")).substitute(
        policy=_policy(script, style),
        style=style,
        script=script,
        title=isolate(view.title),
        name=escape_text(view.title),
        facts=" · ".join(map(isolate, _header_facts(view))),
        links=_links(before + after),
        before=before,
        after=after,
        data=pack(view.documents),
    )


def _header_facts(view: View) -> list[str]:
    """Say in a line what the page is about."""
    n_shown = len(view.documents)
    n_documents = view.n_documents or n_shown
    count = "1 document" if n_documents == 1 else f"{n_documents:,} documents"
    shown = f"{n_shown:,} of them shown" if n_shown < n_documents else ""
    return [fact for fact in (view.data, count, shown, view.when) if fact]


def _links(body: str) -> str:
    """Link to the parts that are there; the documents always are."""
    there = [id for id in NAMES if id == "documents" or f'<section id="{id}"' in body]
    return "".join(f'<a href="#{id}">{NAMES[id]}</a>' for id in there)


def _policy(script: str, style: str) -> str:
    """Allow this one script and this one style sheet, and nothing else at all."""
    rules = (
        "default-src 'none'",
        f"script-src '{_digest(script)}'",
        f"style-src '{_digest(style)}'",
        "img-src data:",  # the empty icon, so that no browser asks for one
        "base-uri 'none'",
        "form-action 'none'",
        "require-trusted-types-for 'script'",
    )
    return "; ".join(rules)


def _digest(text: str) -> str:
    """Name a text as a Content-Security-Policy does."""
    return "sha256-" + base64.b64encode(hashlib.sha256(text.encode("utf-8")).digest()).decode("ascii")


def _read(name: str) -> str:
    """Read a file that comes with this package."""
    return resources.files("fresh.reporting.html").joinpath(name).read_text(encoding="utf-8")
