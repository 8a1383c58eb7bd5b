import csv
import io
import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fresh.reporting.tables import LATEX, Table, escape_formula

TABLE = Table(
    header=("row", "sst"),
    rows=(("a|b_c", ".900 (.880–.920)"), ("50 % <b>", "<.0001")),
    records=({"row": "a|b_c", "mean": 0.9}, {"row": "50 %, <b>", "mean": ""}),
    best=frozenset({(0, 1)}),
    notes=("Two\nlines.", "One."),
)
FORMS = {
    "markdown": (
        "| row         |                  sst |\n"
        "| ----------- | -------------------: |\n"
        "| a\\|b_c      | **.900 (.880–.920)** |\n"
        "| 50 % &lt;b> |               <.0001 |\n"
        "\nTwo\nlines.\n\nOne.\n"
    ),
    "latex": (
        "% \\usepackage{booktabs}\n"
        "\\begin{tabular}{lr}\n"
        "\\toprule\n"
        "row & sst \\\\\n"
        "\\midrule\n"
        "a\\textbar{}b\\_c & \\textbf{.900 (.880--.920)} \\\\\n"
        "50 \\% \\textless{}b\\textgreater{} & \\textless{}.0001 \\\\\n"
        "\\bottomrule\n"
        "\\end{tabular}\n"
        "% Two\n% lines.\n% One.\n"
    ),
    "csv": 'row,mean\na|b_c,0.9\n"50 %, <b>",\n',
}


@pytest.mark.parametrize("form", FORMS)
def test_table_is_written_in_every_form(form: str) -> None:
    assert TABLE.write(form) == getattr(TABLE, f"to_{form}")() == FORMS[form]


@given(st.text(st.characters(exclude_categories=("Cs", "Cc"))))
def test_no_sign_of_latex_is_left_bare(text: str) -> None:
    bare = re.sub(r"\\(text[a-z]+|dag)\{\}|\$(-|\\times|\\Delta)\$|\\[&%$#_{}]", "", text.translate(LATEX))
    assert not set(bare) & set("\\&%$#_{}~^")


@given(st.text(st.characters(exclude_categories=["Cs"])))
def test_no_text_breaks_a_row_of_markdown(text: str) -> None:
    [row, rule] = Table((text,), (), ()).to_markdown().removesuffix("\n").split("\n")
    assert len(re.findall(r"(?<!\\)\|", row)) == 2
    assert len(row) == len(rule)
    assert not re.search(r"<[a-zA-Z/!?]", row)


@given(st.lists(st.tuples(st.text(st.characters(exclude_categories=("Cs", "Cc"))), st.floats(allow_nan=False))))
def test_csv_round_trips(rows: list[tuple[str, float]]) -> None:
    records = tuple({"name": name, "value": value} for name, value in rows)
    text = Table(("name",), (), records).to_csv()
    found = list(csv.DictReader(io.StringIO(text, newline="")))
    assert [(record["name"], float(record["value"])) for record in found] == rows


@pytest.mark.parametrize(("cell", "expected"), [("=1+1", "'=1+1"), ("@a", "'@a"), ("a=1", "a=1"), ("", "")])
def test_formulas_are_escaped(cell: str, expected: str) -> None:
    assert escape_formula(cell) == expected
