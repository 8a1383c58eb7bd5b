import json
from dataclasses import asdict, replace
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fresh.document import Document, Example, Explanation
from fresh.evaluation.comparison import (
    MAX_DOCUMENTS_SHOWN,
    ComparisonReport,
    RationaleOverlap,
    _measure,
    _p_value,
    _signed,
    compare,
    compare_groups,
)
from fresh.metrics.bootstrap import Estimate, Interval, macro_f1_interval, mean_interval, number_labels
from fresh.metrics.plausibility import measure_agreement
from fresh.metrics.significance import compare_macro_f1, holm, welch
from fresh.rationale import Prediction
from fresh.rationalizer import Rationalizer
from fresh.reporting.html import Pair, ScoreRow
from pages import shown_document
from strategies import documents, masks
from stubs import NAMES, examples, stub

GOLD = "ppppnnnn"
LABELS = ("neg", "pos")
SOME = {"right": stub(GOLD), "fair": stub("ppnnnnnn", n_kept=2), "wrong": stub("nnnnpppp", n_kept=4)}


# Single models


def test_figures_are_those_that_one_works_out_by_hand() -> None:
    table = compare(SOME, examples(GOLD, n_marked=3))
    assert (table.n_documents, table.n_marked, table.labels) == (8, 3, LABELS)
    assert [row.name for row in table.rows] == ["right", "fair", "wrong"]
    assert [row.macro_f1.value for row in table.rows] == pytest.approx([1, (2 / 3 + 0.8) / 2, 0])
    gold = number_labels(["pos"] * 4 + ["neg"] * 4, LABELS)
    assert table.rows[1].macro_f1 == macro_f1_interval(gold, [1, 1, 0, 0, 0, 0, 0, 0], 2)
    assert [row.accuracy.value for row in table.rows] == [1, 0.75, 0]
    assert table.rows[1].accuracy == Interval(0.75, 3 / 8, 1)  # where 8 draws of chance 3/4 fall
    assert [row.kept for row in table.rows] == [Interval(share, share, share) for share in (0.25, 0.5, 1.0)]
    found = [row.token_f1.value for row in table.rows if row.token_f1]
    assert found == pytest.approx([1, 2 / 3, 2 / 5])  # one word of people in one, two and four


def test_each_pair_is_tested_and_all_tests_are_corrected_together() -> None:
    table = compare(SOME, examples(GOLD))
    names = [("right", "fair"), ("right", "wrong"), ("fair", "wrong")]
    assert [(one.first, one.second, one.measure) for one in table.pairs] == [
        (*pair, measure) for pair in names for measure in ("macro-F1", "accuracy")
    ]
    rows = (GOLD, "ppnnnnnn", "nnnnpppp")
    gold, fair, wrong = (number_labels([NAMES[letter] for letter in row], LABELS) for row in rows)
    last = compare_macro_f1(gold, fair, wrong, 2).p
    assert [one.p for one in table.pairs] == pytest.approx([1 / 2, 1 / 2, 2 / 2**8, 2 / 2**8, last, 2 / 2**6])
    assert table.pairs[2].adjusted == pytest.approx(6 * 2 / 2**8)  # the smallest of six
    family = holm({str(number): one.p for number, one in enumerate(table.pairs) if one.p is not None})
    assert [one.adjusted for one in table.pairs] == [one.adjusted for one in family]
    assert table.n_tests == 6
    assert table.pairs[1].difference == Interval(0.25, 0, 5 / 8)
    assert table.pairs[1].says == "a swap matters on 2 documents; all swaps were counted"


def test_texts_that_documents_share_are_drawn_and_swapped_whole() -> None:
    apart, shared = compare(SOME, examples(GOLD, 8)), compare(SOME, examples(GOLD, 8, n_asked=2))
    assert (apart.n_texts, shared.n_texts) == (None, 4)
    assert [row.accuracy.value for row in shared.rows] == [row.accuracy.value for row in apart.rows]
    assert shared.rows[1].accuracy == Interval(0.75, 0.25, 1)  # the second of four texts is wrong, both times
    assert shared.pairs[1].says == "a swap matters on 1 whole texts; all swaps were counted"
    assert [one.p for one in shared.pairs] == pytest.approx([1, 1, 2 / 2**4, 2 / 2**4, shared.pairs[4].p, 2 / 2**3])


def test_rationales_of_each_pair_overlap_as_one_works_out_by_hand() -> None:
    table = compare(SOME, examples(GOLD))  # the first word of four, the first two, and all
    assert table.overlaps == (
        RationaleOverlap("right", "fair", Interval(1 / 2, 1 / 2, 1 / 2), 1 / 4),
        RationaleOverlap("right", "wrong", Interval(1 / 4, 1 / 4, 1 / 4), 1 / 4),
        RationaleOverlap("fair", "wrong", Interval(1 / 2, 1 / 2, 1 / 2), 1 / 2),
    )
    table = compare(SOME, examples(GOLD), against="wrong")
    assert [(one.first, one.second) for one in table.overlaps] == [("right", "wrong"), ("fair", "wrong")]


@pytest.mark.parametrize("n_asked", [1, 2])
def test_overlap_is_the_mean_over_documents_and_texts_are_drawn_whole(n_asked: int) -> None:
    texts = np.arange(8) // n_asked
    documents = [Document.from_words([*"abc"[: text % 3 + 1], str(text)]) for text in texts]
    some = [Example(document, NAMES[letter]) for document, letter in zip(documents, GOLD, strict=True)]
    [found] = compare({"a": stub(GOLD, n_kept=1), "b": stub(GOLD, n_kept=4)}, some).overlaps
    shares = 1 / (texts % 3 + 2)  # one word of all
    assert found.shared == mean_interval(shares, texts=texts)
    assert found.shared.low < found.shared.value < found.shared.high
    assert found.by_chance == pytest.approx(shares.mean())


def test_all_are_tested_against_one() -> None:
    table = compare(SOME, examples(GOLD), against="right")
    assert [(one.first, one.second) for one in table.pairs] == [("fair", "right")] * 2 + [("wrong", "right")] * 2
    assert [one.difference.value for one in table.pairs[1::2]] == [-0.25, -1]
    assert [one.adjusted for one in table.pairs] == pytest.approx([1, 1, 4 / 2**7, 4 / 2**7])


def test_models_may_know_more_labels_than_the_data_has() -> None:
    labels = ("pos", "great", "neg")
    table = compare({"a": stub("pn", labels), "b": stub("nn", ("great", "neg", "pos"))}, examples("pn"))
    assert table.labels == labels
    assert [row.macro_f1.value for row in table.rows] == pytest.approx([2 / 3, 2 / 9])  # great counts as 0
    assert [row.token_f1 for row in table.rows] == [None, None]


def test_models_are_taken_one_at_a_time() -> None:
    taken: list[str] = []

    class Watched(dict[str, Rationalizer]):
        def items(self) -> Any:
            for name in self:
                taken.append(name)
                yield name, self[name]

    compare(Watched(a=stub("pn"), b=stub("nn")), examples("pn"))
    assert taken == ["a", "b", "a", "b"]


@given(st.lists(documents(), min_size=1, max_size=6), st.data())
def test_token_f1_is_that_of_the_benchmark(texts: list[Document], data: st.DataObject) -> None:
    pairs = []
    for number, text in enumerate(texts):
        parts = data.draw(st.integers(0, len(text.words)))
        joined = (("one", parts), ("two", len(text.words) - parts)) if 0 < parts < len(text.words) else ()
        document = Document(text.text, text.words, text.spans, text.query, str(number), joined)
        human = data.draw(masks(document) if number == 0 else st.none() | masks(document))
        mask = data.draw(masks(document))
        explanation = Explanation(document, mask, document.cut(mask), Prediction("a", {"a": 1.0}))
        pairs.append((Example(document, "a", human), explanation))
    given_, explained = [list(column) for column in zip(*pairs, strict=True)]
    found = _measure(given_, explained)
    mean = found.token_f1.sum() / max(1, found.n_parts.sum())
    assert mean == pytest.approx(measure_agreement(given_, explained).token_macro.f1)
    assert len(found.marked) == sum(example.human is not None for example in given_)


# Groups of runs


def runs(*answers: str, **settings: Any) -> dict[str, Rationalizer]:
    return {
        f"run-{seed}": stub(row, settings={"ratio": 0.2, **settings, "train": {"seed": seed, "device": str(seed)}})
        for seed, row in enumerate(answers)
    }


GROUPS = {"high": runs(GOLD, "pppnnnnn"), "low": runs("ppnnnnnn", "pnnnnnnp", "nnnnnnnn")}


def test_means_over_seeds_are_compared_by_welch() -> None:
    table = compare_groups(GROUPS, examples(GOLD, n_marked=1))
    high, low = table.rows
    assert high.accuracy == Estimate((1 + 7 / 8) / 2, 7 / 8, 1)
    assert low.accuracy == Estimate((6 / 8 + 4 / 8 + 4 / 8) / 3, 4 / 8, 6 / 8)
    assert (high.kept, high.token_f1) == (Estimate(0.25, 0.25, 0.25), Estimate(1, 1, 1))
    assert (high.runs, low.runs) == (("run-0", "run-1"), ("run-0", "run-1", "run-2"))
    expected = welch([1, 7 / 8], [6 / 8, 4 / 8, 4 / 8])
    found = table.pairs[1]
    assert (found.measure, found.p, found.difference) == ("accuracy", expected.p, Estimate(expected.difference))
    assert found.says == f"Welch's t({expected.degrees:.1f}) = {expected.t:.2f}"
    family = holm({one.measure: one.p for one in table.pairs if one.p is not None})
    assert [one.adjusted for one in table.pairs] == [one.adjusted for one in family]


def test_where_no_test_can_be_made_it_is_said() -> None:
    same = {"a": runs(GOLD, GOLD), "b": runs("nnnnnnnn", "nnnnnnnn")}
    table = compare_groups(same, examples(GOLD))
    assert [(one.p, one.adjusted) for one in table.pairs] == [(None, None)] * 2
    assert table.n_tests == 0
    assert table.notes[-1].startswith("a − b, accuracy: no test, since all seeds of each model gave the same figure")


def test_rationales_are_compared_between_seeds_and_between_groups() -> None:
    kept = {"a": (1, 2, 1), "b": (4, 4)}
    groups = {
        name: {str(seed): stub(GOLD, n_kept=n_kept, settings={"seed": seed}) for seed, n_kept in enumerate(row)}
        for name, row in kept.items()
    }
    own, other, between = compare_groups(groups, examples(GOLD, n_asked=2)).overlaps
    assert (own.first, own.second) == ("a", "a")
    assert (own.shared.value, own.by_chance) == pytest.approx(((1 / 2 + 1 + 1 / 2) / 3, 1 / 4))
    assert other == RationaleOverlap("b", "b", Interval(1, 1, 1), 1)
    assert (between.first, between.second) == ("a", "b")
    assert (*between.shared.bounds, between.by_chance) == pytest.approx((1 / 3, 1 / 3, 1 / 3))  # 1/4, 1/2 and 1/4


def test_runs_from_before_a_setting_existed_are_seeds_of_one_model() -> None:
    old = stub(GOLD, settings={"scoring.layer": -1, "seed": 0})
    new = stub(GOLD, settings={"scoring": {"layer": -1, "evidence": "for"}, "seed": 1})
    both = stub(GOLD, settings={"scoring": {"layer": -1, "evidence": "both"}, "seed": 2})
    compare_groups({"a": {"old": old, "new": new}, "b": runs(GOLD, GOLD)}, examples(GOLD))
    with pytest.raises(ValueError, match=r"scoring\.evidence is 'for' in old and 'both' in both"):
        compare_groups({"a": {"old": old, "both": both}, "b": runs(GOLD, GOLD)}, examples(GOLD))


# What is refused


THREE = ("great", "neg", "pos")
SEEDS = {"a": runs(GOLD, GOLD)}


@pytest.mark.parametrize(
    ("models", "gold", "options", "message"),
    [
        ({"a": stub("pn")}, "pn", {}, r"at least two models, got 1: a"),
        ({}, "pn", {}, r"at least two models, got 0: none"),
        (SOME, "pn", {"against": "b"}, r"b is not one of the models.*right, fair, wrong"),
        (SOME, "", {}, r"examples must have at least one document"),
        ({"a": stub("pn"), "b": stub("pn", THREE)}, "pn", {}, r"same labels.*a has neg, pos and b has great, neg, pos"),
        ({"a": stub("pn", needs_query=True), "b": stub("pn")}, "pn?", {}, r"a was trained with queries, b without"),
        ({"a": stub("pn"), "b": stub("pn", needs_query=True)}, "pn", {}, r"b was trained with queries, a without"),
        ({"a": stub("pn"), "b": stub("pn")}, "pxx", {}, r"labels neg, pos.*great \(2\).*'d-1'"),
        ({"a": stub("pn"), "b": stub("pn")}, "pn?", {}, r"'d-0' has a query"),
        ({"a": stub("pn"), "b": stub("p!")}, "pn", {}, r"^b: Document 'd-1' cannot be read"),
        (SEEDS | {"b": runs(GOLD)}, GOLD, {}, r"at least two runs.*to b: it has 1"),
        (
            SEEDS | {"b": runs(GOLD, method="fresh") | {"x": stub(GOLD, settings={"ratio": 0.3, "method": "lei"})}},
            GOLD,
            {},
            r"differ only in the seed.*method is 'fresh' in run-0 and 'lei' in x",
        ),
        (
            SEEDS | {"b": runs(GOLD) | {"x": stub(GOLD, settings={"ratio": 0.2, "train": {"seed": 0}})}},
            GOLD,
            {},
            r"differ in the seed, but run-0 and x both have 0.*out of b",
        ),
        (
            SEEDS | {"b": {"one": stub(GOLD), "two": stub(GOLD, ("neg", "x"))}},
            GOLD,
            {},
            r"same labels.*a \(run-0\) has neg, pos and b \(two\) has neg, x",
        ),
    ],
)
def test_what_cannot_be_compared_is_refused_by_name(models: Any, gold: str, options: Any, message: str) -> None:
    grouped = models and all(isinstance(model, dict) for model in models.values())
    some = examples(gold.rstrip("?"), query="why" if gold.endswith("?") else "")
    with pytest.raises(ValueError, match=message):
        (compare_groups if grouped else compare)(models, some, **options)


def test_a_page_shows_documents_from_all_over_the_data() -> None:
    many = examples("p" * (2 * MAX_DOCUMENTS_SHOWN + 1))
    answers = stub("p" * len(many))
    found = [example.document.id for example, _ in compare({"a": answers, "b": answers}, many).documents]
    assert found == [example.document.id for example in many[: 2 * MAX_DOCUMENTS_SHOWN : 2]]


# The report


MODELS = ComparisonReport(
    n_documents=1200,
    n_marked=7,
    labels=("neg", "pos"),
    rows=(
        ScoreRow("a|b", Estimate(0.8123, 0.79, 0.83), Estimate(0.8, 0.75, 1), Estimate(0.2, 0.19, 0.21), Estimate(0.5)),
        ScoreRow("<c>", Estimate(0.7, 0.6, 0.75), Estimate(0.7, 0.6, 0.8), Estimate(1, 1, 1), Estimate(0.25, 0.2, 0.3)),
    ),
    pairs=(Pair("a|b", "<c>", "macro-F1", Estimate(0.1123, -0.02, 0.2), 0.00004, "all swaps were counted", 0.0125),),
    overlaps=(RationaleOverlap("a|b", "<c>", Interval(0.25, 0.2, 0.3), 0.125),),
    documents=(shown_document("a film", "1"),),
)
RUNS = replace(
    MODELS,
    n_marked=0,
    rows=(
        ScoreRow("a", Estimate(0.8, 0.75, 0.85), Estimate(0.8, 0.7, 0.9), Estimate(0.2, 0.2, 0.2), runs=("a-1", "a-2")),
        ScoreRow("b", Estimate(0.7, 0.7, 0.7), Estimate(0.7, 0.7, 0.7), Estimate(0.2, 0.2, 0.2), runs=("b-1", "b-2")),
    ),
    pairs=(
        Pair("a", "b", "macro-F1", Estimate(0.1), 0.25, "Welch's t(1.0) = 2.41", 0.25),
        Pair("a", "b", "accuracy", Estimate(-0.1), None, "chance shows nowhere."),
    ),
    overlaps=(RationaleOverlap("a", "a", Interval(0.5, 0.4, 0.6), 0.1),),
)

OVERLAP_NOTE = (
    "Overlap: words in both rationales, of the words in either, with a 95 % bootstrap interval. "
    "By chance: the same for random words, as many.\n"
)


def test_models_as_markdown() -> None:
    assert MODELS.to_markdown() == (
        "| model | macro-F1 | accuracy | words kept | token F1 |\n"
        "| --- | --- | --- | --- | --- |\n"
        "| a\\|b | .812 (.790–.830) | .800 (.750–1.000) | 20.0% (19.0%–21.0%) | .500 |\n"
        "| <c> | .700 (.600–.750) | .700 (.600–.800) | 100.0% (100.0%–100.0%) | .250 (.200–.300) |\n"
        "\n"
        "| first − second | measure | difference | p | p (Holm) |\n"
        "| --- | --- | --- | --- | --- |\n"
        "| a\\|b − <c> | macro-F1 | +.112 (-.020 to +.200) | <0.0001 | 0.0125 |\n"
        "\n"
        "| rationales | overlap | by chance |\n"
        "| --- | --- | --- |\n"
        "| a\\|b and <c> | .250 (.200–.300) | .125 |\n"
        "\n"
        "Ranges are 95 % bootstrap intervals over the documents.\n"
        "\n"
        "Token F1 is the agreement with people, on the 7 of 1,200 documents with a human rationale.\n"
        "\n"
        "p: paired permutation test, on the same documents. "
        "p (Holm): the same, with Holm's correction for the one test in this table.\n"
        "\n" + OVERLAP_NOTE
    )


def test_runs_as_markdown() -> None:
    assert RUNS.to_markdown() == (
        "| model | macro-F1 | accuracy | words kept |\n"
        "| --- | --- | --- | --- |\n"
        "| a | .800 (.750–.850) | .800 (.700–.900) | 20.0% (20.0%–20.0%) |\n"
        "| b | .700 (.700–.700) | .700 (.700–.700) | 20.0% (20.0%–20.0%) |\n"
        "\n"
        "| first − second | measure | difference | p | p (Holm) |\n"
        "| --- | --- | --- | --- | --- |\n"
        "| a − b | macro-F1 | +.100 | 0.2500 | 0.2500 |\n"
        "| a − b | accuracy | -.100 | – | – |\n"
        "\n"
        "| rationales | overlap | by chance |\n"
        "| --- | --- | --- |\n"
        "| a (between seeds) | .500 (.400–.600) | .100 |\n"
        "\n"
        "Scores are means over runs with several seeds. Ranges go from the lowest run to the highest.\n"
        "\n"
        "p: Welch's t-test over seeds. p (Holm): the same, with Holm's correction for the one test in this table.\n"
        "\n" + OVERLAP_NOTE + "\n"
        "There are no paired tests: they compare two models, not two groups of runs. "
        "Welch's t-test treats the documents as fixed.\n"
        "\n"
        "a − b, accuracy: no test, since chance shows nowhere.\n"
    )


def test_json_holds_figures_and_tests_but_no_documents() -> None:
    row, _ = MODELS.rows
    scores = {name: asdict(getattr(row, name)) for name in ("macro_f1", "accuracy", "kept", "token_f1")}
    found = json.loads(MODELS.to_json())
    assert found["rows"].pop(0) == {"name": "a|b", **scores, "runs": []}
    assert scores["macro_f1"] == {"value": 0.8123, "low": 0.79, "high": 0.83}
    assert [one["name"] for one in found.pop("rows")] == ["<c>"]
    assert found == {
        "pairs": [asdict(MODELS.pairs[0])],
        "overlaps": [
            {"first": "a|b", "second": "<c>", "shared": {"value": 0.25, "low": 0.2, "high": 0.3}, "by_chance": 0.125}
        ],
        "n_documents": 1200,
        "n_texts": None,
        "n_marked": 7,
        "labels": ["neg", "pos"],
        "ranges": "Ranges are 95 % bootstrap intervals over the documents.",
        "test": "paired permutation test, on the same documents",
        "correction": "Holm",
        "n_tests": 1,
        "cautions": [],
    }


def test_a_page_shows_all_models_and_the_documents_of_the_first() -> None:
    page = MODELS.to_html("reviews.csv")
    assert "<title>a|b and &lt;c&gt; side by side</title>" in page
    assert "<c>" not in page
    figures = ("0.812", "0.790 to 0.830", "0.500", "0.250", "0.200 to 0.300", "+0.112", "-0.020 to +0.200", "0.013")
    assert [figure for figure in figures if f">{figure}<" not in page] == []
    assert "and &lt;c&gt;: overlap .250 (.200–.300), by chance .125." in page
    assert "reviews.csv</bdi> · <bdi>1,200 documents</bdi> · <bdi>1 of them shown" in page
    assert "Whiskers are 95 % intervals. The documents are shown as a|b read them." in page
    assert "Paired permutation test, on the same documents; corrected: Holm&#39;s correction for the one test;" in page


def test_a_page_of_runs_says_what_its_whiskers_are() -> None:
    page = RUNS.to_html()
    assert "Whiskers go from the lowest run to the highest. The documents are shown as a (a-1) read them." in page
    assert "95 % intervals" not in page
    assert "Welch&#39;s t-test over seeds;" in page
    assert "a-1, a-2" in page
    assert page.count('<td data-name="difference">') == 1  # what could not be tested is told in words


def test_many_models_make_a_short_title() -> None:
    rows = tuple(replace(MODELS.rows[0], name=name) for name in "abcde")
    assert "<title>a, b and c side by side</title>" in replace(MODELS, rows=rows[:3]).to_html()
    assert "<title>5 models side by side</title>" in replace(MODELS, rows=rows).to_html()


def test_figures_in_few_signs() -> None:
    assert [_signed(value) for value in (0.5, -0.5, 0.0, -0.0001)] == ["+.500", "-.500", "+.000", "+.000"]
    assert [_p_value(p) for p in (None, 0.0, 0.0001, 1)] == ["–", "<0.0001", "0.0001", "1.0000"]


def test_tests_and_texts_that_documents_share_are_counted() -> None:
    assert replace(MODELS, pairs=MODELS.pairs * 6).notes[-2].endswith("for all 6 tests in this table.")
    shared = replace(MODELS, n_texts=83)
    assert shared.ranges == "Ranges are 95 % bootstrap intervals over whole texts: 1,200 documents share 83 texts."
    assert shared.test == "paired permutation test, on the same texts, swapped whole"
    assert json.loads(shared.to_json())["n_texts"] == 83
