"""The contract of every way to train: predictions are computed from rationales alone, and can be certified."""

from pathlib import Path

import pytest

from certified import read, resealed, write
from fresh.audit.certificates.certify import certify
from fresh.audit.certificates.verify import verify
from fresh.audit.invariance import check_invariance
from fresh.audit.replay import replay
from fresh.document import Document
from fresh.methods.config import METHODS
from fresh.nn.classifier import Classifier
from fresh.nn.config import NetworkConfig
from fresh.nn.encoder import load_encoder
from fresh.nn.tokenizer import LongPolicy
from fresh.predictor import Predictor
from fresh.rationale import Rationale
from fresh.rationalizer import Rationalizer
from fresh.selection.extractors import FullText
from method_cases import ALL, CASES, Trained
from tiny import N_POSITIONS

pytestmark = pytest.mark.filterwarnings("ignore:The gate has collapsed")  # for want of epochs


def test_every_method_is_tried() -> None:
    assert {case.method for case in ALL.values()} == set(METHODS)


def certificates_hold(model: Rationalizer, documents: list[Document], place: Path, ratio: float | None = None) -> None:
    """Certify answers, see that they hold to the bit, and that another rationale would not."""
    model.save_pretrained(place / "model")
    certify(place / "model", documents, place / "out.jsonl", device="cpu", ratio=ratio)
    verdict = verify(place / "out.jsonl", place / "model/predictor", device="cpu")
    assert (verdict.count, verdict.n_exact, verdict.faults) == (len(documents), len(documents), ())
    certificates, _ = read((place / "out.jsonl").read_bytes())
    explained = model.explain(documents, ratio=ratio)
    assert [item.rationale for item in certificates] == [item.rationale for item in explained]
    assert [item.prediction for item in certificates] == [item.prediction for item in explained]
    forged = resealed((place / "out.jsonl").read_bytes(), lambda records: records[1]["input"]["words"].append("x"))
    assert [fault.line for fault in verify(write(place / "out.jsonl", forged), place / "model").faults] == [2]


@pytest.mark.parametrize("name", ALL)
def test_every_method_reads_rationales_alone(name: str, trained: Trained, tmp_path: Path) -> None:
    splits, result = trained(name)
    model = result.model
    documents = [example.document for example in splits.test]
    explained = list(model.explain_stream(iter(documents)))
    assert replay(model.predictor, explained).found == "holds"
    invariance = check_invariance(model, explained, 300)
    assert invariance.found == "holds", "\n".join(invariance.evidence)
    if name in CASES:
        certificates_hold(model, documents, tmp_path)


@pytest.mark.parametrize("ratio", [0.1, 0.33, 0.5])
def test_certificates_of_any_ratio_hold(ratio: float, trained: Trained, tmp_path: Path) -> None:
    splits, result = trained("all lengths")
    certificates_hold(result.model, [example.document for example in splits.test], tmp_path, ratio)


@pytest.mark.parametrize("architecture", ["bert", "roberta", "mpnet", "modernbert"])
@pytest.mark.parametrize("long", ["stagger", "chunk"])
def test_certificates_of_long_texts_hold(
    long: LongPolicy, architecture: str, encoders: dict[str, Path], tmp_path: Path
) -> None:
    network = NetworkConfig(str(encoders[architecture]), long=long, layers="all")
    predictor = Predictor(Classifier(load_encoder(network.encoder, "start"), ("neg", "pos"), network))
    words = [*["the", "film", "was", "a", "good", "story", "of", "two", "old", "men"], "Unknown", "中文", "\ud800"]
    documents = [Document.from_words((words * 40)[:n_words], id=str(n_words)) for n_words in (1, 7, 60, 90, 300, 301)]
    longest = predictor.token_ids([Rationale(documents[-1].words)])[0]
    assert len(longest) > 4 * N_POSITIONS
    certificates_hold(Rationalizer(FullText(), predictor), documents, tmp_path)
