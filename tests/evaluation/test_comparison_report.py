import json
from dataclasses import asdict, replace

from fresh.evaluation.comparison_report import ComparisonReport, _p_value, _signed
from fresh.metrics.bootstrap import Estimate
from fresh.reporting.html import Pair, ScoreRow
from pages import shown_document

DOCUMENT = shown_document("a film", "1")
MODELS = ComparisonReport(
    n_documents=1200,
    n_marked=7,
    labels=("neg", "pos"),
    rows=(
        ScoreRow("a|b", Estimate(0.8123, 0.79, 0.83), Estimate(0.8, 0.75, 1), Estimate(0.2, 0.19, 0.21), Estimate(0.5)),
        ScoreRow("<c>", Estimate(0.7, 0.6, 0.75), Estimate(0.7, 0.6, 0.8), Estimate(1, 1, 1), Estimate(0.25, 0.2, 0.3)),
    ),
    pairs=(Pair("a|b", "<c>", "macro-F1", Estimate(0.1123, -0.02, 0.2), 0.00004, "all swaps were counted", 0.0125),),
    documents=(DOCUMENT,),
)
RUNS = ComparisonReport(
    n_documents=2,
    n_marked=0,
    labels=("neg", "pos"),
    rows=(
        ScoreRow("a", Estimate(0.8, 0.75, 0.85), Estimate(0.8, 0.7, 0.9), Estimate(0.2, 0.2, 0.2), runs=("a-1", "a-2")),
        ScoreRow("b", Estimate(0.7, 0.7, 0.7), Estimate(0.7, 0.7, 0.7), Estimate(0.2, 0.2, 0.2), runs=("b-1", "b-2")),
    ),
    pairs=(
        Pair("a", "b", "macro-F1", Estimate(0.1), 0.25, "Welch's t(1.0) = 2.41", 0.25),
        Pair("a", "b", "accuracy", Estimate(-0.1), None, "chance shows nowhere."),
    ),
    documents=(DOCUMENT,),
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
        "Ranges are 95 % bootstrap intervals over the documents.\n"
        "\n"
        "Token F1 is the agreement with people, on the 7 of 1,200 documents with a human rationale.\n"
        "\n"
        "p: paired permutation test, on the same documents. "
        "p (Holm): the same, with Holm's correction for the one test in this table.\n"
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
        "Scores are means over runs with several seeds. Ranges go from the lowest run to the highest.\n"
        "\n"
        "p: Welch's t-test over seeds. p (Holm): the same, with Holm's correction for the one test in this table.\n"
        "\n"
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
    view = MODELS.to_view("reviews.csv")
    assert view.title == "a|b and <c> side by side"
    assert [(row.name, row.macro_f1) for row in view.headline] == [(row.name, row.macro_f1) for row in MODELS.rows]
    assert [row.figures for row in view.agreement] == [{"token F1": row.token_f1} for row in MODELS.rows]
    assert view.pairs == MODELS.pairs
    page = MODELS.to_html("reviews.csv")
    assert "&lt;c&gt;" in page
    assert "<c>" not in page
    assert "reviews.csv</bdi> · <bdi>1,200 documents</bdi> · <bdi>1 of them shown" in page
    assert "Whiskers are 95 % intervals. The documents are shown as a|b read them." in page
    assert "Paired permutation test, on the same documents; corrected: Holm&#39;s correction for the one test;" in page


def test_a_page_of_runs_says_what_its_whiskers_are() -> None:
    page = RUNS.to_html()
    assert "Whiskers go from the lowest run to the highest. The documents are shown as a (a-1) read them." in page
    assert "95 %" not in page
    assert "Welch&#39;s t-test over seeds;" in page
    assert "a-1, a-2" in page
    assert page.count('<td data-name="difference">') == 1  # what could not be tested is told in words


def test_many_models_make_a_short_title() -> None:
    rows = tuple(replace(MODELS.rows[0], name=name) for name in "abcde")
    assert replace(MODELS, rows=rows[:3]).to_view().title == "a, b and c side by side"
    assert replace(MODELS, rows=rows).to_view().title == "5 models side by side"


def test_figures_in_few_signs() -> None:
    assert [_signed(value) for value in (0.5, -0.5, 0.0, -0.0001)] == ["+.500", "-.500", "+.000", "+.000"]
    assert [_p_value(p) for p in (None, 0.0, 0.0001, 1)] == ["–", "<0.0001", "0.0001", "1.0000"]


def test_tests_and_texts_that_documents_share_are_counted() -> None:
    assert replace(MODELS, pairs=MODELS.pairs * 6).notes[-1].endswith("for all 6 tests in this table.")
    shared = replace(MODELS, n_texts=83)
    assert shared.ranges == "Ranges are 95 % bootstrap intervals over whole texts: 1,200 documents share 83 texts."
    assert shared.test == "paired permutation test, on the same texts, swapped whole"
    assert json.loads(shared.to_json())["n_texts"] == 83
