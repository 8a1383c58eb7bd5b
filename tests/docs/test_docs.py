import ast
import pkgutil
import re
import runpy
import sys
from pathlib import Path
from typing import Any

import pytest

import fresh
import small
from fresh import persistence
from fresh.audit import checks
from fresh.cli import audit as audit_command
from fresh.data.splits import Splits
from fresh.evaluation import html_report as report_page
from fresh.rationalizer import Rationalizer

ROOT = Path(__file__).parents[2]
PAGES = sorted([ROOT / "README.md", ROOT / "CONTRIBUTING.md", *(ROOT / "docs").rglob("*.md")])
FRONT = ("README.md", "docs/concepts/wall.md", "docs/concepts/leaks.md", "src/fresh/web/pages/serve.html")
SECURITY = ROOT / "docs/concepts/security.md"
LINK = re.compile(r"\[[^\]]*\]\(([^)\s]+)\)")
BLOCK = re.compile(r"```python\n(.*?)```", re.DOTALL)


@pytest.mark.parametrize("page", PAGES, ids=[str(page.relative_to(ROOT)) for page in PAGES])
def test_every_link_leads_somewhere(page: Path) -> None:
    targets = [link.partition("#")[0] for link in LINK.findall(page.read_text(encoding="utf-8"))]
    inside = [target for target in targets if target and "://" not in target]
    assert [target for target in inside if not (page.parent / target).exists()] == []


def test_the_page_of_settings_is_up_to_date(monkeypatch: pytest.MonkeyPatch) -> None:
    script = ROOT / "docs/reference/make_settings.py"
    monkeypatch.setattr(sys, "argv", [str(script), "--check"])
    with pytest.raises(SystemExit) as caught:
        runpy.run_path(str(script), run_name="__main__")
    assert caught.value.code == 0


def test_the_readme_names_every_package() -> None:
    tree = (ROOT / "README.md").read_text(encoding="utf-8").partition("## The tree")[2]
    modules = {path.name for path in (ROOT / "src/fresh").glob("*.py")}
    folders = [f"{path.parent.name}/" for path in (ROOT / "src/fresh").glob("*/__init__.py")]
    assert [name for name in folders if not re.search(rf"(^|\s){re.escape(name)}", tree)] == []
    assert [name for name in re.findall(r"\b(\w+\.py)\b", tree) if name not in modules] == []


PROMISE = re.compile(r"given the words shown[^.]{0,70}?, nothing else can change the answer", re.IGNORECASE)


@pytest.mark.parametrize(
    "text",
    [
        *((ROOT / name).read_text(encoding="utf-8") for name in FRONT),
        checks.GUARANTEE,
        report_page.GUARANTEE,
        audit_command.ABOUT,
        persistence.CARD_TEXT,
    ],
    ids=[*FRONT, "audit", "report", "help", "card"],
)
def test_the_promise_is_the_same_everywhere(text: str) -> None:
    assert PROMISE.search(" ".join(text.split()))


def test_nowhere_is_it_said_that_other_words_have_no_influence() -> None:
    """They can change which words are shown, and so the answer to a document."""
    said = [path for path in (ROOT / "src").rglob("*") if path.suffix in (".py", ".html", ".js")]
    texts = {
        path: " ".join(path.read_text(encoding="utf-8").split()) for path in (*PAGES, *said) if path.name != "log.md"
    }
    wrong = re.compile(
        r"cannot influence|(have|has|had) (a|no) part in (it|the answer)|and read nothing else", re.IGNORECASE
    )
    assert [path for path, text in texts.items() if wrong.search(text)] == []


def test_the_scorer_of_the_guide_is_short_and_runs(
    toy: Splits, encoders: dict[str, Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    [code] = BLOCK.findall((ROOT / "docs/how-to/own-scorer.md").read_text(encoding="utf-8"))
    scorer = code[code.index("class LongWords") : code.index("model = fresh.train")].rstrip()
    assert len(scorer.splitlines()) <= 10
    real = fresh.train

    def quickly(data: str, **settings: Any) -> Rationalizer:
        quick = small.settings(encoders["bert"], epochs=1, baseline=False)
        return real(data, progress=fresh.SILENT, **quick, **settings)

    small.write_csv(tmp_path / "reviews.csv", small.rows(small.some(toy).train))
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(fresh, "train", quickly, raising=False)
    names: dict[str, Any] = {"__name__": "guide"}
    exec(compile(code, "own-scorer.md", "exec"), names)  # noqa: S102
    found = names["model"].explain("it was a preposterously bad film of two")
    assert found.rationale.words == ("preposterously", "film")


REFERENCE = re.compile(r"`(fresh(?:\.[A-Za-z_]\w*)+)\(?")
CODE = [(page, code) for page in PAGES if page.name != "log.md" for code in BLOCK.findall(page.read_text("utf-8"))]


@pytest.mark.parametrize(("page", "code"), CODE, ids=[str(page.relative_to(ROOT)) for page, _ in CODE])
def test_python_code_imports_what_exists(page: Path, code: str) -> None:
    tree = ast.parse(code)
    imports: list[ast.stmt] = [node for node in tree.body if isinstance(node, ast.Import | ast.ImportFrom)]
    exec(compile(ast.Module(imports, []), str(page), "exec"), {})  # noqa: S102
    for node in ast.walk(tree):
        if isinstance(node, ast.Attribute) and re.fullmatch(r"fresh(\.\w+)+", name := ast.unparse(node)):
            pkgutil.resolve_name(name)


def test_pages_refer_to_names_that_exist() -> None:
    names = {name for page in PAGES if page.name != "log.md" for name in REFERENCE.findall(page.read_text("utf-8"))}
    wrong = []
    for name in sorted(names):
        try:
            pkgutil.resolve_name(name)
        except (ImportError, AttributeError):
            wrong.append(name)
    assert wrong == []


def test_all_public_names_can_be_imported() -> None:
    packages = [f"fresh.{path.parent.name}" for path in (ROOT / "src/fresh").glob("*/__init__.py")]
    for package in ("fresh", *sorted(packages)):
        module = pkgutil.resolve_name(package)
        for name in getattr(module, "__all__", ()):
            assert getattr(module, name) is not None


# The page on safety promises only what a test checks.


def test_every_test_that_the_page_names_is_there() -> None:
    named = set(re.findall(r"`(test_\w+)`", SECURITY.read_text(encoding="utf-8")))
    there = {
        name
        for file in (ROOT / "tests").rglob("test_*.py")
        for name in re.findall(r"^def (test_\w+)", file.read_text(encoding="utf-8"), re.M)
    }
    assert len(named) > 30
    assert named - there == set()


def test_every_promise_of_a_table_names_a_test() -> None:
    rows = [line for line in SECURITY.read_text(encoding="utf-8").splitlines() if line.startswith("| ")]
    promises = [row for row in rows if not row.startswith(("| promise", "| ---"))]
    assert [row for row in promises if "`test_" not in row.rsplit("|", 2)[1]] == []
