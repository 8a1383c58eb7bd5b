import csv
import io
import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fresh.reporting.tables import Table, _plain, _typeset

SHEET = Table(
    heads=("row", "sst"),
    rows=(("a|b_c", ".900 (.880–.920)"), ("50 % <b>", "<.0001")),
    records=({"row": "a|b_c", "mean": 0.9}, {"row": "50 %, <b>", "mean": ""}),
    best=frozenset({(0, 1)}),
    remarks=("Two\nlines.", "One."),
)


def test_markdown_has_columns_of_one_width() -> None:
    assert SHEET.to_markdown() == (
        "| row         |                  sst |\n"
        "| ----------- | -------------------: |\n"
        "| a\\|b_c      | **.900 (.880–.920)** |\n"
        "| 50 % &lt;b> |               <.0001 |\n"
        "\nTwo\nlines.\n\nOne.\n"
    )


def test_latex_is_escaped_and_has_its_remarks_in_comments() -> None:
    assert SHEET.to_latex() == (
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
    )


def test_comma_separated_values_are_the_records() -> None:
    assert SHEET.to_csv() == 'row,mean\na|b_c,0.9\n"50 %, <b>",\n'


@pytest.mark.parametrize("form", ["markdown", "csv", "latex"])
def test_forms_go_by_name(form: str) -> None:
    assert SHEET.write(form) == getattr(SHEET, f"to_{form}")()


def test_a_row_fits_the_heads() -> None:
    with pytest.raises(ValueError, match=r"^The row 'a' has 1 cells, but there are 2 heads\.$"):
        Table(("row", "sst"), (("a",),), ())


@given(st.text(st.characters(exclude_categories=("Cs", "Cc"))))
def test_no_sign_of_latex_is_left_bare(text: str) -> None:
    bare = re.sub(r"\\text[a-z]+\{\}|\$(-|\\times|\\Delta)\$|\\[&%$#_{}]", "", _typeset(text))
    assert not set(bare) & set("\\&%$#_{}~^")


@given(st.text(st.characters(exclude_categories=["Cs"])))
def test_no_text_breaks_a_row_of_markdown(text: str) -> None:
    escaped = _plain(text)
    assert "\n" not in escaped
    assert not re.search(r"(?<!\\)\|", escaped)
    assert not re.search(r"<[a-zA-Z/!?]", escaped)


@given(st.lists(st.tuples(st.text(st.characters(exclude_categories=("Cs", "Cc"))), st.floats(allow_nan=False))))
def test_what_is_written_can_be_read_back(rows: list[tuple[str, float]]) -> None:
    records = tuple({"name": name, "value": value} for name, value in rows)
    text = Table(("name",), (), records).to_csv()
    found = list(csv.DictReader(io.StringIO(text, newline="")))
    assert [(record["name"], float(record["value"])) for record in found] == rows
