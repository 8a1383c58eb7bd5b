"""Models and certificates that version 0.1.0 wrote on 2026-11-18 (commit 0923d3f) load, and give the same answers.

The archive holds a model of each kind with a tiny encoder, the output of `fresh explain --scores` for six texts, and
certificates of two models.
"""

import json
import tarfile
from pathlib import Path
from typing import Any

import pytest

from fresh.audit.certificates.verify import verify
from fresh.cli.main import main
from fresh.rationalizer import Rationalizer
from fresh.reporting.console import to_record

ARCHIVE = Path(__file__).parent / "data_files" / "models_0923d3f.tar.xz"
NAMES = ("saliency", "query", "range", "tagger", "bastings", "human", "full_text")


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("older")
    with tarfile.open(ARCHIVE) as archive:
        archive.extractall(folder, filter="data")
    return folder


def read_lines(path: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]


@pytest.mark.parametrize("name", NAMES)
def test_an_older_model_gives_the_same_answers(name: str, place: Path, tmp_path: Path) -> None:
    model = Rationalizer.from_pretrained(place / "models" / name, device="cpu")
    texts = place / ("queries.jsonl" if name == "query" else "texts.jsonl")
    expected = read_lines(place / "explained" / f"{name}.jsonl")
    model.save_pretrained(tmp_path / "again")
    for loaded in (model, Rationalizer.from_pretrained(tmp_path / "again", device="cpu")):
        found = [to_record(explanation, scores=True) for explanation in loaded.explain_file(texts)]
        for one, other in zip(found, expected, strict=True):
            numbers = {name for name in other if name in ("probability", "probabilities", "scores")}
            assert {name: one[name] for name in one.keys() - numbers} == {k: other[k] for k in other.keys() - numbers}
            for name_of_number in numbers:
                assert one[name_of_number] == pytest.approx(other[name_of_number], abs=1e-5)
    assert model.report is not None
    assert model.fingerprints is not None


@pytest.mark.parametrize("name", ["saliency", "query"])
def test_older_certificates_are_valid(name: str, place: Path) -> None:
    certificates, model = place / "certificates" / f"{name}.jsonl", place / "models" / name
    assert verify(certificates, model, device="cpu").holds
    assert main(["verify", str(certificates), str(model), "--device", "cpu"]) == 0
