import importlib.metadata
import itertools
import json
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

import fresh
import small
from certified import Watched, read
from fresh.attribution.support_model import SupportModel
from fresh.audit.certificates.certify import certify, certifying
from fresh.audit.certificates.verify import verify
from fresh.document import Document
from fresh.errors import ModelError, OutputError
from fresh.persistence import predictor_digest
from fresh.predictor import Predictor
from fresh.rationalizer import BATCH_SIZE, Rationalizer
from fresh.selection.discretizers import TopK
from fresh.selection.extractors import FullText, SaliencyExtractor

WORDS = ["an", "awful", "film", "by", "two", "old", "men", "“great”", "😀"]


def test_each_prediction_has_a_line_with_all_that_it_was_computed_from(
    folder: Path, documents: list[Document], tmp_path: Path
) -> None:
    target = tmp_path / "certificates.jsonl"
    with certifying(folder, target, device="cpu") as certifier:
        explained = list(certifier.explain(documents))
        assert not target.exists()
    model = Rationalizer.from_pretrained(folder, device="cpu")
    assert [item.prediction for item in explained] == [item.prediction for item in model.explain(documents)]
    header, *lines, closing = [json.loads(line) for line in target.read_text(encoding="ascii").splitlines()]
    for line, explanation in zip(lines, explained, strict=True):
        words = list(explanation.rationale.words)
        assert (line["id"], line["label"]) == (explanation.document.id, explanation.prediction.label)
        assert (line["input"]["words"], line["input"]["query"]) == (words, [])
        if "\ud800" not in words:  # the tokenizer itself takes no half of a pair
            ids = model.predictor.classifier.encoder.tokenizer([words], is_split_into_words=True)["input_ids"][0]
            assert line["input"]["pieces"] == ids
        assert {name: float(text) for name, text in line["probabilities"]} == explanation.prediction.probabilities
        assert line["predictor_sha256"] == header["predictor_sha256"] == predictor_digest(folder / "predictor")
        version = importlib.metadata.version("fresh-rationales")
        assert (line["format"], line["version"], line["group"]) == (1, version, 0)
    assert (closing["count"], closing["sha256"]) == (3, certifier.digest)
    assert not list(tmp_path.glob("*.partial"))


def test_the_digest_of_a_predictor_covers_all_but_hidden_files(tmp_path: Path) -> None:
    for name in ("a.json", "sub/b.json", ".hidden", ".git/c"):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text(name, encoding="utf-8")
    before = predictor_digest(tmp_path)
    (tmp_path / ".hidden").write_text("other", encoding="utf-8")
    (tmp_path / ".git/c").unlink()
    assert predictor_digest(tmp_path) == before
    (tmp_path / "sub/b.json").rename(tmp_path / "b.json")
    moved = predictor_digest(tmp_path)
    (tmp_path / "adapter_config.json").write_text("{}", encoding="utf-8")
    assert len({before, moved, predictor_digest(tmp_path)}) == 3


def test_one_call_certifies_any_number(folder: Path, documents: list[Document], tmp_path: Path) -> None:
    watched = Watched()
    target = tmp_path / "certificates.jsonl"
    done = certify(folder, iter(documents), target, device="cpu", progress=watched)
    assert done.count == 3
    assert watched.done == [("certifying", None, 3)]
    assert json.loads(target.read_bytes().splitlines()[-1])["sha256"] == done.digest
    assert fresh.certify is certify
    assert certify(folder, [], tmp_path / "none.jsonl", device="cpu").count == 0


def test_memory_does_not_grow_with_the_number_of_documents(predictor: Predictor, tmp_path: Path) -> None:
    Rationalizer(FullText(), predictor).save_pretrained(tmp_path / "model")
    taken = 0

    def endless() -> Iterator[Document]:
        nonlocal taken
        for number in itertools.count():
            taken += 1
            yield Document.from_words((WORDS * 3)[: 1 + number % 23], id=str(number))

    with certifying(tmp_path / "model", tmp_path / "out.jsonl", device="cpu") as certifier:
        for number, explanation in enumerate(certifier.explain(endless())):
            assert explanation.document.id == str(number)
            assert taken <= number + BATCH_SIZE
            if number == 2 * BATCH_SIZE - 1:
                break
    certificates, faults = read((tmp_path / "out.jsonl").read_bytes())
    assert faults == []
    # Whole groups, which are recomputed in the batches that they were computed in.
    verdict = verify(tmp_path / "out.jsonl", tmp_path / "model", device="cpu")
    assert (verdict.count, verdict.n_exact, verdict.n_faults) == (2 * BATCH_SIZE, 2 * BATCH_SIZE, 0)
    assert [item.group for item in certificates] == [number // BATCH_SIZE for number in range(2 * BATCH_SIZE)]


@pytest.mark.parametrize("reason", [KeyboardInterrupt, ValueError, SystemExit])
def test_an_interrupted_run_leaves_no_file(
    folder: Path, documents: list[Document], tmp_path: Path, reason: type[BaseException]
) -> None:
    target = tmp_path / "certificates.jsonl"
    certify(folder, documents[:1], target, device="cpu")

    def interrupted() -> Iterator[Document]:
        yield from (replace(documents[0], id=str(number)) for number in range(BATCH_SIZE))
        raise reason

    with pytest.raises(reason):
        certify(folder, interrupted(), target, device="cpu", overwrite=True)
    assert list(tmp_path.iterdir()) == []


def test_a_file_is_kept_until_there_is_a_prediction(folder: Path, documents: list[Document], tmp_path: Path) -> None:
    target = tmp_path / "certificates.jsonl"
    certify(folder, documents[:1], target, device="cpu")
    before = target.read_bytes()
    with pytest.raises(ValueError, match="has a query, but this model was trained without"):
        certify(folder, [Document.from_text("a film", "why?")], target, device="cpu", overwrite=True)
    assert target.read_bytes() == before
    certify(folder, documents[:2], target, device="cpu", overwrite=True)
    assert target.read_bytes() != before


def test_a_custom_scorer_is_passed_again(
    support: SupportModel, predictor: Predictor, documents: list[Document], tmp_path: Path
) -> None:
    own = Rationalizer(SaliencyExtractor(small.LongWords(support), TopK(0.3), support), predictor)
    own.save_pretrained(tmp_path / "own")
    with certifying(tmp_path / "own", tmp_path / "out.jsonl", device="cpu", scorer=small.LongWords) as certifier:
        explained = list(certifier.explain(documents))
    assert [item.mask for item in explained] == [item.mask for item in own.explain(documents)]
    assert verify(tmp_path / "out.jsonl", tmp_path / "own", device="cpu").n_exact == 3


def test_existing_files_are_not_replaced_and_a_predictor_alone_cannot_certify(
    folder: Path, documents: list[Document], tmp_path: Path
) -> None:
    target = tmp_path / "certificates.jsonl"
    target.write_bytes(b"mine")
    with pytest.raises(OutputError, match="already exists"):
        certify(folder, documents, target)
    with pytest.raises(ModelError, match="predictor"):
        certify(folder / "predictor", documents, tmp_path / "out.jsonl")
    assert [path.read_bytes() for path in tmp_path.iterdir()] == [b"mine"]
