"""What notebooks show of a value: a small table, with every text escaped."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from html import escape
from typing import Any


def facts_html(title: str, facts: Mapping[str, Any], *more: str) -> str:
    """Return a titled table of names and values, followed by other HTML.

    Examples
    --------
    >>> facts_html("Budget", {"epsilon": "<1"})
    '<strong>Budget</strong><table><tr><th>epsilon</th><td>&lt;1</td></tr></table>'
    """
    rows = "".join(
        f"<tr><th>{escape(name)}</th><td>{escape(str(value))}</td></tr>"
        for name, value in facts.items()
    )
    return f"<strong>{escape(title)}</strong><table>{rows}</table>{''.join(more)}"


def table_html(head: Iterable[str], rows: Iterable[Iterable[Any]]) -> str:
    """Return a table with a head."""
    top = "".join(f"<th>{escape(name)}</th>" for name in head)
    body = "".join(
        f"<tr>{''.join(f'<td>{escape(str(cell))}</td>' for cell in row)}</tr>" for row in rows
    )
    return f"<table><thead><tr>{top}</tr></thead><tbody>{body}</tbody></table>"
