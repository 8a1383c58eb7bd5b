import json
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import small
from certified import changed, write
from fresh.attribution.support_model import SupportModel
from fresh.audit.certificates.certify import certify
from fresh.audit.certificates.format import FIELDS
from fresh.audit.certificates.verify import TOLERANCE, verify
from fresh.document import Document
from fresh.persistence import predictor_digest
from fresh.predictor import Predictor
from fresh.selection.discretizers import TopK

DOCS = Path(__file__).parents[3] / "docs"
PAGE, GUIDE = ((DOCS / name).read_text(encoding="utf-8") for name in ("reference/certificates.md", "how-to/certify.md"))
BLOCK = re.compile(r"```python\n(.*?)```", re.DOTALL)
DOCUMENTS = [Document.from_text('The film,\x7f was "good"!', id="é/\\"), Document.from_text("an awful 😀 \ud800 story")]


@pytest.fixture(scope="module")
def place(support: SupportModel, predictor: Predictor, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with a model and a file of certificates."""
    folder = tmp_path_factory.mktemp("docs")
    small.rationalizer(support, predictor, TopK(1.0)).save_pretrained(folder / "my-model")
    certify(folder / "my-model", DOCUMENTS, folder / "real.jsonl", device="cpu")
    return folder


def checked_without_fresh(file: Path) -> subprocess.CompletedProcess[str]:
    """Run the program of the reference page, which needs nothing but Python."""
    [code] = BLOCK.findall(PAGE)
    return subprocess.run([sys.executable, "-I", "-c", code, str(file)], capture_output=True, text=True, check=False)


def test_the_program_of_the_reference_page_finds_the_final_digest(place: Path) -> None:
    done = checked_without_fresh(place / "real.jsonl")
    assert (done.stderr, done.returncode) == ("", 0)
    assert done.stdout.strip() == verify(place / "real.jsonl", place / "my-model", device="cpu").digest


@given(st.data())
@settings(max_examples=10, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_it_finds_a_changed_byte_too(place: Path, data: st.DataObject) -> None:
    content = data.draw(changed((place / "real.jsonl").read_bytes()))
    assert checked_without_fresh(write(place / "changed.jsonl", content)).returncode == 1


def test_the_reference_page_names_every_field_and_the_tolerance() -> None:
    rows = re.findall(r"^\| `(\w+)` \| (\w+) \|", PAGE, re.MULTILINE)
    for kind, fields in FIELDS.items():
        assert {name for name, where in rows if where in ("all", kind)} == fields
    for page in (PAGE, GUIDE):
        assert f"{TOLERANCE:.5f}" in page


def test_the_digest_of_a_predictor_is_as_the_reference_page_says(place: Path) -> None:
    code = "import hashlib, json, pathlib, sys\np = pathlib.Path(sys.argv[1])\n" + (
        "pairs = sorted([str(f.relative_to(p)), hashlib.sha256(f.read_bytes()).hexdigest()] for f in p.rglob('*'))\n"
        "print(hashlib.sha256(json.dumps(pairs, separators=(',', ':')).encode()).hexdigest())"
    )
    command = [sys.executable, "-I", "-c", code, str(place / "my-model/predictor")]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    header: dict[str, Any] = json.loads((place / "real.jsonl").read_bytes().splitlines()[0])
    assert done.stdout.strip() == header["predictor_sha256"] == predictor_digest(place / "my-model/predictor")


def test_the_python_of_the_guide_runs(
    place: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    [code] = BLOCK.findall(GUIDE)
    monkeypatch.chdir(place)
    exec(compile(code, "certify.md", "exec"), {"__name__": "guide"})  # noqa: S102
    shown = capsys.readouterr().out
    assert shown.startswith("2 ")
    assert "True 2 ()\n2 certificates: all hold, and the predictor is the same." in shown
