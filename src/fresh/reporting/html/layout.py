"""Tables, cards and titles: the HTML that all parts of the page are made of."""

from collections.abc import Sequence

from fresh.highlight import isolate
from fresh.metrics.estimate import Estimate
from fresh.reporting.html.view import Facts


def section(id: str, title: str, body: str, says: str = "") -> str:
    """Put a title over a part of the page; nothing where there is no part."""
    if not body:
        return ""
    head = f'<h2 id="{id}-title">{title}</h2>{small_print(says)}'
    return f'<section id="{id}" aria-labelledby="{id}-title">{head}{body}</section>'


def card(title: str, *parts: str, whole: bool = False) -> str:
    """Frame one figure, over a part of the width or the whole of it."""
    return f'<div class="card{" whole" if whole else ""}"><h3>{title}</h3>{"".join(parts)}</div>'


def small_print(says: str) -> str:
    """Say how something is to be read, if there is anything to say."""
    return f'<p class="says">{says}</p>' if says else ""


def table(heads: Sequence[str], rows: Sequence[str], name: str) -> str:
    """Lay out a table across the page; on a narrow screen each row becomes a block."""
    named = f'<caption class="unseen">{name}</caption>'
    return f'<table class="stack">{named}{_table_body(heads, rows)}</table>'


def numbers(heads: Sequence[str], rows: Sequence[str]) -> str:
    """Lay out a small table of numbers, for a card."""
    return f'<div class="wide"><table class="plain">{_table_body(heads, rows)}</table></div>'


def _table_body(heads: Sequence[str], rows: Sequence[str]) -> str:
    """Put the names of columns over rows."""
    head = "".join(f'<th scope="col">{head}</th>' for head in heads)
    return f"<thead><tr>{head}</tr></thead><tbody>{''.join(rows)}</tbody>"


def row(name: str, cells: Sequence[tuple[str, str]], own: bool = False) -> str:
    """Lay out a row: its name, then cells with the names of their columns."""
    tag = ' <span class="tag">this model</span>' if own else ""
    body = "".join(f'<td data-name="{column}">{cell}</td>' for column, cell in cells)
    return f'<tr{" class=own" if own else ""}><th scope="row">{isolate(name)}{tag}</th>{body}</tr>'


def folded(name: str, body: str) -> str:
    """Hide something until it is asked for; on paper it is never hidden."""
    return f"<details><summary>{name}</summary>{body}</details>"


def figure(estimate: Estimate | None, form: str = "z.3f") -> str:
    """Write a figure with its interval."""
    if estimate is None:
        return '<span class="muted" role="img" aria-label="not measured">–</span>'
    if estimate.low is None:
        return f'<span class="figure"><b>{estimate.value:{form}}</b></span>'
    between = f"{estimate.low:{form}} to {estimate.high:{form}}"
    return f'<span class="figure"><b>{estimate.value:{form}}</b> <small>{between}</small></span>'


def facts(title: str, given: Facts) -> str:
    """List names and values."""
    laid = "".join(f"<div><dt>{isolate(name)}</dt><dd>{isolate(value)}</dd></div>" for name, value in given)
    return f'<h3>{title}</h3><dl class="facts">{laid}</dl>' if laid else ""
