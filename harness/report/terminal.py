"""Lines and tables on the terminal: folded where people read, plain text where programs do.

Every function takes a rich ``Console``. Rich itself is imported where it is used, as it would
otherwise cost every start of the command line.
"""

from __future__ import annotations

import textwrap
from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING

from harness.formatting import printable
from harness.records.trace import Damage

if TYPE_CHECKING:
    from rich.console import Console
    from rich.table import Table

_MOST_DAMAGE = 10
"""Damaged places listed by default (-v lists all)."""

_LEAST_TEXT = 24
"""Characters a column of text is given before a terminal counts as too narrow for a table."""


def print_header(console: Console, fields: Mapping[str, object]) -> None:
    """Print labels and values, one line each."""
    width = max((len(label) for label in fields), default=0)
    for label, value in fields.items():
        show_line(console, f"{label:<{width}}  {value}")
    show_line(console)


def print_damage(console: Console, damage: Sequence[Damage], *, detailed: bool = False) -> None:
    """Print what was left out of a damaged file; by default only the first places."""
    shown = damage if detailed else damage[:_MOST_DAMAGE]
    for item in shown:
        lost = "" if not item.events else f"; {item.events} events lost"
        show_line(console, f"damaged: {item.reason}{lost}", style="red")
    if len(shown) < len(damage):
        show_line(
            console, f"damaged: {len(damage) - len(shown)} more places; -v lists all", style="red"
        )


def show_table(
    console: Console,
    headers: Sequence[str],
    rows: Sequence[Sequence[str]],
    *,
    title: str = "",
    numbers: Collection[int] = (),
) -> None:
    """Print a table: folded into the width of a terminal, or plain and uncut when piped.

    A terminal too narrow for the numbers gets the plain lines, and wraps them itself.

    Args:
        console: Where to.
        headers: One per column.
        rows: Cells; device names in them may hold anything, markup included.
        title: A line above.
        numbers: Columns of numbers, aligned right and never folded; nothing in them needs escaping.
    """
    if title:
        show_line(console, title, style="bold")
    columns = [
        list(column) if index in numbers else list(map(printable, column))
        for index, column in enumerate(zip(headers, *rows, strict=True))
    ]
    widths = [max(map(len, column)) for column in columns]
    needed = sum(w if i in numbers else min(w, _LEAST_TEXT) for i, w in enumerate(widths))
    if console.is_terminal and needed + 3 * len(widths) <= console.width:
        from rich.box import SIMPLE_HEAD

        table = plain_table(headers, rows, numbers=numbers)
        table.box = SIMPLE_HEAD
        console.print(table)
        return
    from rich.segment import Segment, Segments

    # In one piece: rich takes its time for each text, and there may be 100,000 operators.
    text = "".join(_plain_lines(columns, widths, numbers))
    console.print(Segments([Segment(text)]), soft_wrap=True)
    show_line(console)


def plain_table(
    headers: Sequence[str], rows: Sequence[Sequence[str]], *, numbers: Collection[int] = ()
) -> Table:
    """A table to print, without box art; arguments as for ``show_table``."""
    from rich.table import Table
    from rich.text import Text

    table = Table(box=None, pad_edge=False, header_style="bold")
    widths = [
        max(len(printable(cell)) for cell in each) for each in zip(headers, *rows, strict=True)
    ]
    for index, header in enumerate(headers):
        number = index in numbers
        table.add_column(
            Text(header),
            justify="right" if number else "left",
            min_width=widths[index] if number else None,
            overflow="fold",
        )
    for row in rows:
        table.add_row(*(Text(printable(cell)) for cell in row))
    return table


def _plain_lines(
    columns: Sequence[Sequence[str]], widths: Sequence[int], numbers: Collection[int]
) -> Iterator[str]:
    """Lines of cells, which stand two spaces apart in columns, without trailing spaces."""
    padded = [
        [cell.rjust(width) if index in numbers else cell.ljust(width) for cell in column]
        for index, (column, width) in enumerate(zip(columns, widths, strict=True))
    ]
    return ("  ".join(cells).rstrip() + "\n" for cells in zip(*padded, strict=True))


def show_line(console: Console, text: str = "", *, style: str | None = None) -> None:
    """Print one line, uncut; a terminal wraps it by itself."""
    console.print(
        printable(text),
        style=style,
        markup=False,
        highlight=False,
        soft_wrap=True,
    )


def show_wrapped(console: Console, text: str, *, indent: int, style: str | None = None) -> None:
    """Print text, on a terminal in lines of its width, of which all but the first are indented."""
    text = printable(text)
    lines = [text]
    if console.is_terminal and console.width > 2 * indent:
        start = len(text) - len(text.lstrip())
        lines = textwrap.wrap(
            text[start:],
            console.width,
            initial_indent=text[:start],
            subsequent_indent=" " * indent,
            break_on_hyphens=False,
        )
    for line in lines:
        show_line(console, line, style=style)
