"""Gates and readers that are trained together."""

import itertools
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

import fresh.methods.joint
import fresh.training.loop
import small
from fresh.data.splits import Splits
from fresh.document import Document, Example, Mask
from fresh.methods.joint import mean_changes, train_joint
from fresh.methods.lei import Lei
from fresh.methods.registry import train_method
from fresh.metrics.classification import macro_f1
from fresh.nn.batch import NO_WORD
from fresh.nn.tokenizer import Text
from fresh.pipeline import train
from fresh.progress import SILENT
from fresh.selection.discretizers import TopK, budget
from fresh.selection.extractors import SaliencyExtractor
from fresh.selection.tagger import Tagger
from fresh.training.loop import RunContext
from gates import gated_by, loss_of, seen_by_gate, untrained
from small import Configure
from training_hooks import interrupt_training


def test_neighbors_differ_as_often_as_their_probabilities_say() -> None:
    keep = torch.tensor([[0.5, 1.0, 0.0], [0.3, 0.9, 0.2], [0.4, 1.0, 1.0], [1.0, 0.0, 0.0]])
    second = (0.3 * 0.1 + 0.7 * 0.9 + 0.9 * 0.8 + 0.1 * 0.2) / 2
    expected = [(0.5 + 1) / 2, second, 0, 1 / 2]
    assert mean_changes(keep, torch.tensor([3, 3, 1, 3])).tolist() == pytest.approx(expected)


# Dropped words


@pytest.mark.parametrize("long", ["stagger", "chunk"])
@pytest.mark.parametrize("asks", [True, False])
def test_dropping_tokens_equals_cutting(
    asks: bool, long: str, toy: Splits, toy_pairs: Splits, configure: Configure
) -> None:
    splits = small.some(toy_pairs if asks else toy, 12, 4)
    longest = Example(Document.from_words(["strange", "words"] * 30, ("praise",) if asks else ()), "pos")
    splits = replace(splits, train=(longest, *splits.train))
    model, gated = seen_by_gate(splits, configure("lei", long=long))
    kept = (torch.rand(gated.is_word.shape, generator=torch.Generator().manual_seed(1)) < 0.4) & gated.is_word
    kept[1], kept[2] = False, gated.is_word[2]
    found = gated.reduce(kept)
    rows = [row[: len(item.document.words)].numpy() for row, item in zip(kept, splits.train, strict=True)]
    cut = [item.document.cut(Mask(row)) for row, item in zip(rows, splits.train, strict=True)]
    wanted = model.reader.collate(model.reader.tokenizer([Text(item.words, item.query, item.id) for item in cut]))
    there, width = wanted.mask.bool(), wanted.mask.shape[1]
    for name in ("ids", "types", "positions", "word_of"):
        assert torch.equal(getattr(found, name)[:, :width][there], getattr(wanted, name)[there])
    for name in ("ids", "mask", "word_of"):
        assert torch.equal(getattr(found, name)[:, :width], getattr(wanted, name))
    assert not found.mask[:, width:].any()
    assert (found.word_of[:, width:] == NO_WORD).all()


def test_texts_below_0_count_for_nothing(few: Splits, configure: Configure) -> None:
    loss = loss_of(few, configure("lei"), cost=2)
    assert loss(torch.tensor([0, -1, 3]), 16, False) == 4


def test_means_are_over_the_texts_that_count() -> None:
    gated = gated_by(torch.zeros(3, 2, 1), [2, 2, 2], [0, 0, 0])
    gated = replace(gated, counted=torch.tensor([True, False, True]))
    assert gated.mean(torch.tensor([1.0, float("nan"), 3.0])) == 2


# People's rationales


def supervised(few: Splits, configure: Configure, **others: Any) -> list[float]:
    """Compute what each training document adds to the loss when samples cost nothing."""
    loss = loss_of(few, configure("lei", **others))
    return [float(loss(torch.tensor([number]), 16, False).detach()) for number in range(len(few.train))]


def test_a_gate_learns_from_people_where_they_marked_words(few: Splits, configure: Configure) -> None:
    assert supervised(few, configure) == [0] * 16
    found = supervised(few, configure, human=1)
    assert [value > 0 for value in found] == [True] * 8 + [False] * 8
    half = supervised(few, configure, human=0.5)
    assert sum(value > 0 for value in half) == 4
    quarter = supervised(few, configure, human=0.25)
    assert {number for number in range(16) if quarter[number]} < {number for number in range(16) if half[number]}


def test_the_loss_against_people_weighs_what_they_marked(few: Splits, configure: Configure) -> None:
    config = configure("lei", human=1)
    model, _ = untrained(few, config)
    marked = [(item.document, item.human) for item in few.train if item.human is not None]
    n_words = sum(len(document.words) for document, _ in marked)
    weight = (n_words - 8) / 8  # one word is marked in each of the eight
    scores = Tagger(model.gate).score([document for document, _ in marked])
    found = supervised(few, configure, human=1)
    for value, saliency, (_, mask) in zip(found, scores, marked, strict=False):
        losses = np.where(mask.kept, -weight * np.log(saliency.scores), -np.log(1 - saliency.scores))
        assert value == pytest.approx(losses.mean(), rel=1e-4)


def test_a_gate_of_numbers_learns_from_people_too(few: Splits, configure: Configure) -> None:
    loss = loss_of(few, configure("bastings", human=1))
    assert [float(loss(torch.tensor([number]), 16, False).detach()) > 0 for number in (0, 15)] == [True, False]


# Collapse

NOTHING, EVERYTHING = r"collapsed.*next to nothing \(0\.0%", r"collapsed.*nearly everything \(100\.0%"


@pytest.mark.parametrize(("share", "ratio"), [(0.021, 0.2), (0.94, 0.2), (0.98, 1.0), (1.0, 1.0)])
def test_a_gate_that_keeps_some_words_has_not_collapsed(
    share: float, ratio: float, few: Splits, configure: Configure, monkeypatch: pytest.MonkeyPatch
) -> None:
    config, context = configure("lei", ratio=ratio), RunContext()
    model, _ = untrained(few, config)
    extractor = SaliencyExtractor(Tagger(model.gate), TopK(ratio))
    monkeypatch.setattr(fresh.methods.joint, "fit_joint", lambda *_given: (model, extractor))
    monkeypatch.setattr(fresh.methods.joint, "kept_share", lambda *_given: share)
    assert train_joint(Lei, few, config, context).kept_by_gate == share
    assert context.notes == []


@pytest.mark.parametrize(("bias", "message"), [(-20, NOTHING), (20, EVERYTHING)])
def test_a_collapsed_gate_is_reported_and_still_cut(
    bias: float, message: str, few: Splits, configure: Configure, monkeypatch: pytest.MonkeyPatch
) -> None:
    config, context = configure("lei"), RunContext()
    model, _ = untrained(few, config)
    extractor = SaliencyExtractor(Tagger(model.gate), TopK(0.2))
    monkeypatch.setattr(fresh.methods.joint, "fit_joint", lambda *_given: (model, extractor))
    with torch.no_grad():
        model.gate.head.out.weight.zero_()
        model.gate.head.out.bias.fill_(bias)
    with pytest.warns(RuntimeWarning, match=message) as caught:
        result = train_joint(Lei, few, config, context)
    assert context.notes == [str(warning.message) for warning in caught]
    assert result.kept_by_gate == pytest.approx(float(bias > 0), abs=1e-6)
    assert [int(mask.kept.sum()) for mask in result.masks()] == [budget(len(mask), 0.2) for mask in result.masks()]


def test_the_report_names_a_collapsed_gate(
    toy: Splits, encoders: dict[str, Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(fresh.methods.joint, "_NOTHING", 10)
    settings = small.run_settings(encoders["bert"], epochs=1, method="lei", baseline=False)
    with pytest.warns(RuntimeWarning, match=r"^The gate has collapsed: before the cut it keeps next to nothing"):
        model = train(small.some(toy, 16, 8), progress=SILENT, **settings)
    *_, note = small.reported(model.report).notes
    assert note.startswith("The gate has collapsed: ")


# Trained gates

GATES: dict[str, dict[str, Any]] = {
    "lei": {"lambda_1": 0.02, "epochs": 12, "learning_rate": 3e-3},
    "bastings": {"epochs": 12},
}


@pytest.mark.parametrize("method", GATES)
def test_a_gate_finds_the_word_that_decides(method: str, toy: Splits, configure: Configure) -> None:
    config = configure(method, batch_size=32, **GATES[method])
    trained = train_method(method, toy, config)
    explained = trained.model.explain([example.document for example in toy.dev])
    gold, answers = [example.label for example in toy.dev], [item.prediction.label for item in explained]
    assert macro_f1(gold, answers, trained.model.labels) > 0.9


@pytest.fixture
def every_epoch_is_better(monkeypatch: pytest.MonkeyPatch) -> None:
    """Have the last epoch win, so that a model is the outcome of all of them."""
    scores = itertools.count(1)
    monkeypatch.setattr(fresh.methods.joint, "macro_f1", lambda *_given: float(next(scores)))


@pytest.mark.usefixtures("every_epoch_is_better")
@pytest.mark.filterwarnings("ignore:The gate has collapsed")
@pytest.mark.parametrize("method", GATES)
def test_a_resumed_training_ends_with_the_same_bits(
    method: str, toy: Splits, configure: Configure, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    splits = small.some(toy, 32, 8)
    config = configure(method, epochs=3, dropout=0.3, lambda_2=0.5, human=0.5)
    uninterrupted, run = train_method(method, splits, config), tmp_path / "run"
    with monkeypatch.context() as patch:
        interrupt_training(patch, 1, 3)
        with pytest.raises(KeyboardInterrupt):
            train_method(method, splits, config, RunContext(folder=run))
    assert [path.name for path in run.iterdir()] == [f"{method}.safetensors"]
    resumed = train_method(method, splits, config, RunContext(folder=run))
    for name, trained in (("uninterrupted", uninterrupted), ("resumed", resumed)):
        trained.model.save_pretrained(tmp_path / name)
    assert small.digests(tmp_path / "resumed") == small.digests(tmp_path / "uninterrupted")
