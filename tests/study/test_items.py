import re
from collections import Counter
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fresh.data.corpora import CORPORA
from fresh.data.fingerprints import TrainingFingerprints
from fresh.data.splits import Splits
from fresh.document import Document, Example, Mask
from fresh.errors import DataError, StudyError
from fresh.study.answers import Answer
from fresh.study.config import StudyConfig
from fresh.study.items import LoadModel, alternate_labels, make_plan, random_mask, read_documents, sample_documents
from strategies import documents
from studies import FakeModel, First, corpus, load, plan, study, text_of, two_ways


def test_each_document_is_cut_in_every_condition() -> None:
    made = plan()
    assert [one.name for one in made.study.conditions] == ["human", "random", "run", "fresh", "full"]
    assert [(item.document, item.condition) for item in made.items] == [(d, c) for d in range(6) for c in range(5)]
    for document, source in enumerate(made.documents):
        number = int(source.id.removeprefix("doc-"))
        human, scattered, run, fresh, full = made.items[5 * document : 5 * document + 5]
        assert text_of(human) == f"word{number}.1 word{number}.2 word{number}.3"
        assert text_of(fresh) == f"word{number}.0 word{number}.1 word{number}.2"
        assert text_of(full) == " ".join(f"word{number}.{place}" for place in range(8))
        assert len(scattered.rationale.words) == len(run.rationale.words) == 3
        assert text_of(run) in text_of(full)
        assert sorted(scattered.rationale.words) == list(scattered.rationale.words)
        assert {item.label for item in (human, scattered, run, fresh, full)} == {("neg", "pos")[number % 2]}


def test_items_do_not_reveal_their_document_nor_its_casing() -> None:
    made = make_plan(study(two_ways()), corpus(query="Is it Good"), load)
    for item in (*made.items, *made.practice, *made.checks):
        assert (item.rationale.id, item.rationale.query) == ("", ("is", "it", "good"))
        assert text_of(item) == text_of(item).lower()
    assert all(word.startswith("Word") for item in plan(casing="kept").items for word in item.rationale.words)


def test_practice_uses_other_documents_in_all_conditions() -> None:
    made = plan(practice=10)
    sampled = {item.rationale.words[0].partition(".")[0] for item in made.items}
    practised = [item.rationale.words[0].partition(".")[0] for item in made.practice]
    assert len(set(practised)) == 10
    assert not sampled & set(practised)
    assert Counter(item.condition for item in made.practice) == dict.fromkeys(range(5), 2)


def test_checks_ask_for_specific_answers() -> None:
    first, second = make_plan(study(checks=2, labels={"neg": "Bad"}), corpus(), load).checks
    assert text_of(first) == "this is a check that you are reading . please choose bad , not confident and very easy ."
    assert first.expected == Answer("neg", 1, 5)
    assert second.expected == Answer("pos", 4, 1)
    assert len(plan(two_ways(), sample=2, checks=3).checks) == 2  # no more than documents


def test_checks_have_queries_of_unseen_documents() -> None:
    asking = enumerate(corpus())
    examples = [replace(one, document=replace(one.document, query=("Is", f"it{number}"))) for number, one in asking]
    made = make_plan(study(two_ways(), checks=3, examples=1), examples, load)
    asked = {item.rationale.query for item in made.checks}
    assert len(asked) == 3
    assert asked <= {("is", f"it{number}") for number in range(20)}
    assert not asked & {item.rationale.query for item in (*made.items, *made.practice, *made.examples)}
    assert made == make_plan(study(two_ways(), checks=3, examples=1), examples, load)
    few = make_plan(study(two_ways(), checks=3), examples[:8], load)  # all are shown
    assert all(item.rationale.query for item in few.checks)


def test_the_seed_determines_the_plan() -> None:
    assert plan(seed=3) == plan(seed=3)
    assert plan(seed=3).documents != plan(seed=4).documents


def test_shared_texts_are_numbered_and_sampled_last() -> None:
    asked = corpus(20, n_asked=2)
    assert len({source.text for source in make_plan(study(two_ways(), sample=10), asked, load).documents}) == 10
    many = make_plan(study(two_ways(), sample=18), asked, load).documents
    assert len({source.text for source in many}) == 10
    assert all(Counter(source.text for source in many)[source.text] <= 2 for source in many)


def test_plans_have_warnings() -> None:
    examples = corpus()
    trained: Any = FakeModel(
        First(8), fingerprints=TrainingFingerprints.from_documents(example.document for example in examples)
    )
    ways = {"ours": {"model": "m"}, "full": {"kind": "full_text"}}
    assert make_plan(study(ways), examples, lambda _folder: trained).warnings == (
        "ours was trained on 6 of 6 documents: its rationales may look too good.",
        "ours and full show the same words in 6 of 6 documents.",
    )
    assert make_plan(study(two_ways(), per_item=4), examples, load).warnings == (
        "per_item is 4, an even number: votes can be tied. Choose an odd number.",
    )


def refused(examples: list[Example], ways: dict[str, Any], load: LoadModel = load, **settings: Any) -> str:
    with pytest.raises(StudyError) as caught:
        make_plan(study(ways, **settings), examples, load)
    return str(caught.value)


def test_all_problems_of_a_plan_are_reported_at_once() -> None:
    def strange(folder: str) -> Any:
        if folder == "gone":
            raise ValueError("There is no folder gone.")
        return FakeModel(labels=("no", "yes"), needs_query=True)

    ways = {"human": {"kind": "human"}, "pairs": {"model": "pairs"}, "gone": {"model": "gone"}}
    told = refused(corpus(7, marked=False), ways, strange, labels={"POS": "Positive"})
    assert told.splitlines() == [
        "[labels] names labels that no document has: POS. There are: neg, pos.",
        "The study needs 8 documents (6 to judge and 2 for practice), but there are 0 with marked words, which the "
        "human condition shows. Lower sample or practice, remove that condition, or set rationale to the column that "
        "has them.",
        "conditions.pairs: the model knows the labels no, yes, but the documents have neg, pos. Train a model on these "
        "labels.",
        "conditions.pairs: the model was trained with queries. Choose one that was trained without queries, like the "
        "documents.",
        "conditions.gone: There is no folder gone.",
    ]


def test_bad_documents_are_refused() -> None:
    without = "conditions.a: the model was trained without queries. Choose one that was trained with queries, like the "
    assert refused(corpus(query="why ?"), {"a": {"model": "model-2"}}) == f"{without}documents."
    full = {"full": {"kind": "full_text"}}
    same = [replace(example, label="neg") for example in corpus()]
    one_label = "All documents have the label 'neg'. Annotators need at least two labels to choose from."
    assert refused(same, full) == one_label
    twins = [replace(example, document=replace(example.document, id="x")) for example in corpus()]
    assert refused(twins, full) == "20 documents have the id 'x'. Give each document its own id."
    half = [*corpus(), Example(Document.from_words(["\ud800"], id="half"), "pos")]
    assert refused(half, full) == ("Document 'half' contains an unpaired surrogate. Fix it, or leave the document out.")
    for shown in ("pos", " POS"):
        alike = f"The labels '{shown}' and 'pos' look alike. Give each a different text in [labels]."
        assert refused(corpus(), full, labels={"neg": shown}) == alike
    broken = [replace(one, label="pos\nneg") if number % 2 else one for number, one in enumerate(corpus())]
    lines = "The text of the label 'pos\\nneg' must be on one line, got 'pos\\nneg'. Remove the line breaks."
    assert refused(broken, full) == lines
    assert refused(corpus(7), full).endswith("but there are 7. Lower sample or practice.")
    examples = [Example(e.document, e.label) for e in corpus()]
    assert "but there are 0 with marked words" in refused(examples, two_ways())
    unmarked = [replace(e, human=Mask(np.zeros(8, dtype=bool))) for e in corpus()]
    assert "but there are 0 with marked words" in refused(unmarked, two_ways())
    assert "but there are 7 with marked words" in refused([*corpus(7), *unmarked[7:]], two_ways())


def test_empty_rationales_are_refused() -> None:
    ways = {"ours": {"model": "model-0"}, "random": {"kind": "random_contiguous", "like": "ours"}}
    found = re.sub(r"doc-\d", "doc", refused(corpus(8), ways, practice=0, sample=8))
    told = (
        "conditions.ours: the model selects no word of 8 documents, such as 'doc'. Choose a model that always selects"
    )
    assert found == f"{told} some."


@given(documents(), st.data(), st.booleans(), st.integers(0, 9))
def test_random_words_keep_their_number_and_order(
    document: Document, data: st.DataObject, contiguous: bool, seed: int
) -> None:
    n_kept = data.draw(st.integers(0, len(document.words)))
    mask = random_mask(document, n_kept, contiguous, np.random.default_rng(seed))
    assert int(mask.kept.sum()) == n_kept
    assert len(mask.spans) <= 1 or not contiguous
    assert document.cut(mask).words == tuple(w for w, kept in zip(document.words, mask.kept, strict=True) if kept)


@given(st.lists(st.tuples(st.sampled_from("abc"), st.integers(0, 5)), min_size=1, max_size=30), st.data())
def test_samples_have_the_label_proportions_of_the_corpus(rows: list[tuple[str, int]], data: st.DataObject) -> None:
    examples = [Example(Document.from_words([f"text{text}"], id=str(i)), label) for i, (label, text) in enumerate(rows)]
    n = data.draw(st.integers(1, len(examples)))
    places = sample_documents(examples, n, np.random.default_rng(0))
    assert len(set(places)) == len(places) == n
    counts, sizes = (Counter(e.label for e in part) for part in ([examples[p] for p in places], examples))
    assert all(abs(counts[label] - n * size / len(examples)) < 1 for label, size in sizes.items())


@pytest.mark.parametrize(("name", "n_texts"), [("movies", 100), ("multirc", 83)])
def test_studies_on_corpora_of_the_paper(
    name: str, n_texts: int, corpora_dir: Path, read_corpus: Callable[[str, Path], Splits]
) -> None:
    examples = read_corpus(name, corpora_dir).test
    ways = {**two_ways(), "run": {"kind": "random_contiguous", "like": "human"}}
    made = make_plan(study(ways, sample=100), examples, load)
    first = CORPORA[name].labels[0]
    expected = 100 * sum(example.label == first for example in examples) / len(examples)
    assert abs(sum(source.label == first for source in made.documents) - expected) < 1
    assert len({source.text for source in made.documents}) == n_texts
    lengths = [len(item.rationale.words) for item in made.items]
    assert lengths[0::3] == lengths[2::3]


def test_labels_alternate_in_practice_and_examples() -> None:
    made = plan(two_ways(), n=40, sample=6, practice=4, examples=2)
    for items in (made.practice[:2], made.practice[2:], made.examples):
        assert len({item.label for item in items}) == 2


@given(st.lists(st.sampled_from("abc"), max_size=12))
def test_alternating_keeps_all_examples_and_their_order(labels: list[str]) -> None:
    given_ones = [Example(Document.from_text(f"text {n}", str(n)), label) for n, label in enumerate(labels)]
    turned = alternate_labels(given_ones)
    assert sorted(map(id, turned)) == sorted(map(id, given_ones))
    for label in "abc":
        assert [one for one in turned if one.label == label] == [one for one in given_ones if one.label == label]
    n_labels = len(set(labels))
    for turn in range(min(Counter(labels).values(), default=0)):
        assert len({one.label for one in turned[turn * n_labels : (turn + 1) * n_labels]}) == n_labels


def test_labels_have_the_order_of_the_study_file() -> None:
    labels = {"pos": "Good", "neg": "Bad"}
    assert list(make_plan(study(two_ways(), labels), corpus(), load).labels.items()) == list(labels.items())
    assert list(make_plan(study(two_ways(), {"pos": "Good"}), corpus(), load).labels) == ["pos", "neg"]
    assert list(make_plan(study(two_ways()), corpus(), load).labels) == ["neg", "pos"]


def test_unknown_corpora_are_refused(tmp_path: Path) -> None:
    with pytest.raises(DataError, match=r"imdb does not exist.*Set corpus in s\.toml.*sst, agnews.*data_dir"):
        read_documents(StudyConfig("imdb"), Path("s.toml"))
