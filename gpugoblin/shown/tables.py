"""Two columns of words: in a terminal, in a notebook, as plain text.

Owns: those tables. Must not: know what is shown in them.
"""

from __future__ import annotations

import html
import io
from collections.abc import Sequence

from rich.console import Console
from rich.markup import escape
from rich.table import Table

__all__ = ["html_table", "plain", "rich_table"]

PLAIN_COLUMNS = 100


def plain(renderable: Table) -> str:
    """A table as text without escape codes."""
    target = io.StringIO()
    Console(file=target, width=PLAIN_COLUMNS, color_system=None, force_terminal=False).print(
        renderable
    )
    return "\n".join(line.rstrip() for line in target.getvalue().splitlines())


def html_table(caption: str, rows: Sequence[tuple[str, str]]) -> str:
    """A table for a notebook; every text is escaped."""
    body = "".join(
        f'<tr><th style="text-align:left">{html.escape(label)}</th>'
        f'<td style="text-align:left">{html.escape(text)}</td></tr>'
        for label, text in rows
    )
    return f"<table><caption>{html.escape(caption)}</caption>{body}</table>"


def rich_table(title: str, rows: Sequence[tuple[str, str]]) -> Table:
    """A table for a terminal."""
    table = Table(title=title, title_justify="left", show_header=False)
    table.add_column(style="bold")
    table.add_column()
    for row in rows:
        table.add_row(*map(escape, row))
    return table
