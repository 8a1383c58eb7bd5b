"""A predictor reads rationales and nothing else: in types, under mypy, at run time, in imports and in its answers."""

import subprocess
import sys
import tomllib
from dataclasses import dataclass, fields
from pathlib import Path

import mypy.api
import numpy as np
import pytest

from fresh.document import Document, Example, Mask
from fresh.predictor import Predictor
from fresh.rationale import Rationale
from fresh.training.config import ClassifierConfig

ROOT = Path(__file__).parent.parent
FILM = Document.from_words(("a", "good", "film"), ("praise",), "film")


# 1. The type


def test_a_rationale_holds_words_query_and_id_only() -> None:
    assert [field.name for field in fields(Rationale)] == ["words", "query", "id"] == list(Rationale.__slots__)
    with pytest.raises((AttributeError, TypeError)):
        object.__setattr__(FILM.cut(Mask.full(3)), "positions", (0,))


# 2. The type checker

SNIPPET = """\
from fresh.document import Document, Example, Mask
from fresh.predictor import Predictor

def ask(predictor: Predictor, example: Example, mask: Mask) -> None:
    predictor.predict([example.document.cut(mask)])
    predictor.predict([example.document])
    predictor.predict([example])
    predictor.predict(["good"])
"""

SETTINGS = """\
[mypy]
strict = true
follow_imports = silent
[mypy-torch.*,transformers.*,tokenizers.*,safetensors.*,numpy.*,rich.*]
follow_imports = skip
"""


def test_mypy_accepts_rationales_only(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "snippet.py").write_text(SNIPPET, encoding="utf-8")
    (tmp_path / "mypy.ini").write_text(SETTINGS, encoding="utf-8")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("MYPYPATH", str(ROOT / "src"))
    out, errors, status = mypy.api.run(["snippet.py"])
    refused = [
        f'snippet.py:{line}: error: List item 0 has incompatible type "{kind}"; expected "Rationale"  [list-item]'
        for line, kind in ((6, "Document"), (7, "Example"), (8, "str"))
    ]
    assert out.splitlines() == [*refused, "Found 3 errors in 1 file (checked 1 source file)"]
    assert (errors, status) == ("", 1)


# 3. Run time


@dataclass(frozen=True)
class Duck:
    """Has every field of a rationale."""

    words: tuple[str, ...] = ("good",)
    query: tuple[str, ...] = ()
    id: str = ""


Heir = type("Heir", (Rationale,), {})
OTHERS = [FILM, Example(FILM, "pos"), "good", ("good",), Duck(), Heir(("good",)), None]


@pytest.mark.parametrize("other", OTHERS, ids=lambda other: type(other).__name__)
def test_a_predictor_reads_rationales_only(
    other: object, predictor: Predictor, quick: ClassifierConfig, monkeypatch: pytest.MonkeyPatch
) -> None:
    message = f"A predictor reads rationales only, got {type(other).__name__}. Use document.cut(mask)."
    good, bad = (Rationale(("good",)), "pos"), (Rationale(("bad",)), "neg")
    mixed: list[Rationale] = [Rationale(("good",)), other]  # type: ignore[list-item]
    wrong: list[tuple[Rationale, str]] = [good, bad, (other, "pos")]  # type: ignore[list-item]
    monkeypatch.setattr(Predictor, "__init__", lambda *_arguments: pytest.fail("trained"))
    for attempt in (
        lambda: predictor.predict(mixed),
        lambda: Predictor.train(wrong, [good], quick),
        lambda: Predictor.train([good, bad], wrong, quick),
    ):
        with pytest.raises(TypeError) as caught:
            attempt()
        assert str(caught.value) == message


# 4. Imports


FORBIDDEN = ("fresh.document", "fresh.data", "fresh.attribution", "fresh.selection")


def test_the_linter_has_a_contract_for_the_wall() -> None:
    about = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
    [wall] = [item for item in about["tool"]["importlinter"]["contracts"] if item["name"].startswith("The wall")]
    assert wall["source_modules"] == ["fresh.predictor"]
    assert set(FORBIDDEN) <= set(wall["forbidden_modules"])


def test_a_predictor_runs_without_the_forbidden_modules() -> None:
    code = "import sys, fresh.predictor; print(*sorted(name for name in sys.modules if name.startswith('fresh.')))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    loaded = set(done.stdout.split())
    assert "fresh.nn.classifier" in loaded
    assert not any(name == other or name.startswith(f"{other}.") for name in loaded for other in FORBIDDEN)


# 5. Answers


def test_a_kept_word_matters(predictor: Predictor) -> None:
    good, bad = Rationale(("good",)), Rationale(("bad",))
    answers = predictor.predict([good, bad])
    assert [answer.label for answer in answers] == ["pos", "neg"]
    assert np.isclose(sum(answers[0].probabilities.values()), 1)
