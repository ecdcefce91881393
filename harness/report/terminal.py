"""Lines and tables on the terminal: no wider than it where people read, uncut in a pipe.

Every function takes a rich ``Console``. Rich itself is imported where it is used, as it would
otherwise cost every start of the command line.
"""

from __future__ import annotations

import textwrap
from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import IO, TYPE_CHECKING, Final

from harness.printing import printable, without_commands
from harness.records.trace import Damage

if TYPE_CHECKING:
    from rich.console import Console

_MOST_DAMAGE = 10
"""Damaged places listed by default (-v lists all)."""

_LEAST_NAME, _LEAST_TEXT = 40, 16
"""Characters that the first column, and another column of text, keep before columns on the right
are left out."""

_GAP = "  "
"""Between two columns."""

_BARS: Final = ("▁▂▃▄▅▆▇█", "_.-=+*%#")
"""Heights of a sparkline, and those for an encoding without blocks."""

_LEAST_SPAN = 0.05
"""Least height of a sparkline as a share of its largest value, so that small steps look small."""


def open_console(file: IO[str] | None = None, *, error: bool = False) -> Console:
    """Return a console on a file, on standard error, or on standard output.

    The error of a pipe that nobody reads is raised, as by ``print``; rich would exit with 1.
    """
    from rich.console import Console

    class PlainConsole(Console):
        def on_broken_pipe(self) -> None:
            raise

    return PlainConsole(file=file, stderr=error, emoji=False)


def line_width(console: Console) -> int | None:
    """Return the characters of a line: those of the terminal; None, without limit, in a pipe.

    $COLUMNS alone limits no pipe: Python's readline module sets it for every child process.
    """
    return console.width if console.is_terminal else None


def print_header(console: Console, fields: Mapping[str, object]) -> None:
    """Print labels and values, one line each."""
    width = max((len(label) for label in fields), default=0)
    for label, value in fields.items():
        show_line(console, f"{label:<{width}}{_GAP}{value}", indent=width + len(_GAP))
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
    """Print a table, no wider than ``line_width``.

    Where the columns are too wide, texts are folded, and words too long for that lose their
    middle. Columns for which there is no room then are left out, those on the right first, and
    named below the table.

    Args:
        console: Where to.
        headers: One per column.
        rows: Cells; device names in them may hold anything, markup included.
        title: A line above.
        numbers: Columns of numbers, aligned right and never cut; nothing in them needs escaping.
    """
    from rich.segment import Segment, Segments
    from rich.style import Style

    columns = [
        list(column) if index in numbers else list(map(printable, column))
        for index, column in enumerate(zip(headers, *rows, strict=True))
    ]
    natural = [max(map(len, column)) for column in columns]
    widths = _fitting(natural, numbers, line_width(console))
    cut = {index for index, width in enumerate(widths) if width < natural[index]}
    ellipsis = "…" if _encodes(console, "…") else "..."
    lines = _lines(columns[: len(widths)], widths, numbers, cut, ellipsis)
    if title:
        show_line(console, title, style="bold")
    # In one piece: rich takes its time for each text, and there may be 100,000 operators.
    head = Segment(without_commands(next(lines)).rstrip(), Style(bold=bool(console.color_system)))
    body = without_commands("".join(["\n", *lines]))
    console.print(Segments([head, Segment(body)]), soft_wrap=True)
    dropped = columns[len(widths) :]
    if left_out := [column[0] for column in dropped if column[0] and any(column[1:])]:
        show_line(console, f"not shown at this width: {', '.join(left_out)}", style="dim")
    show_line(console)


def _fitting(natural: Sequence[int], numbers: Collection[int], width: int | None) -> list[int]:
    """Return the widths of the columns that fit into ``width``, from the left; the first always."""
    widths = list(natural)
    if width is None:
        return widths

    def least(index: int) -> int:
        if index in numbers:
            return widths[index]
        return min(widths[index], _LEAST_TEXT if index else _LEAST_NAME)

    while len(widths) > 1 and _total([*map(least, range(len(widths)))]) > width:
        widths.pop()
    texts = [index for index in range(len(widths)) if index not in numbers]
    # The widest text gives way first, so that short columns stay whole.
    while (excess := _total(widths) - width) > 0 and texts:
        by_width = sorted({widths[index] for index in texts}, reverse=True)
        widest = [index for index in texts if widths[index] == by_width[0]]
        step = by_width[0] - by_width[1] if len(by_width) > 1 else by_width[0]
        step = min(step, -(-excess // len(widest)))
        if by_width[0] - step < 1:
            break
        for index in widest:
            widths[index] -= step
    return widths


def _total(widths: Sequence[int]) -> int:
    return sum(widths) + len(_GAP) * (len(widths) - 1)


def _lines(
    columns: Sequence[Sequence[str]],
    widths: Sequence[int],
    numbers: Collection[int],
    cut: Collection[int],
    ellipsis: str,
) -> Iterator[str]:
    """Lines of cells without trailing spaces, the header's in one piece."""
    padded = [
        [cell.rjust(width) if index in numbers else cell.ljust(width) for cell in column]
        for index, (column, width) in enumerate(zip(columns, widths, strict=True))
    ]
    for row in zip(*padded, strict=True):
        folded = [
            _folded(cell, widths[index], ellipsis) if index in cut else [cell]
            for index, cell in enumerate(row)
        ]
        yield "".join(
            _GAP.join(
                cells[line] if line < len(cells) else " " * width
                for cells, width in zip(folded, widths, strict=True)
            ).rstrip()
            + "\n"
            for line in range(max(map(len, folded)))
        )


def _folded(cell: str, width: int, ellipsis: str) -> list[str]:
    """Return a cell as lines of ``width`` characters; its indentation stays."""
    text = cell.strip()
    if len(cell.rstrip()) <= width:
        return [cell.rstrip().ljust(width)]
    indent = min(len(cell) - len(cell.lstrip()), width // 2)
    words = " ".join(_shortened(word, width - indent, ellipsis) for word in text.split())
    return [
        (" " * indent + line).ljust(width)
        for line in textwrap.wrap(words, width - indent, break_on_hyphens=False)
    ]


def _shortened(word: str, width: int, ellipsis: str) -> str:
    """Return a word without its middle if it is too long: names differ most at their ends."""
    if len(word) <= width:
        return word
    room = max(width - len(ellipsis), 0)
    tail = room // 2
    return (word[: room - tail] + ellipsis + word[len(word) - tail :])[:width]


def _encodes(console: Console, text: str) -> bool:
    """Whether the console's encoding has every character of ``text``."""
    try:
        text.encode(console.encoding)
    except (UnicodeEncodeError, LookupError):
        return False
    return True


def sparkline(console: Console, values: Sequence[float]) -> str:
    """Return a bar for each value, from the least to the largest; equal values give low bars.

    The bars span at least a twentieth of the largest value.
    """
    bars = next((bars for bars in _BARS if _encodes(console, bars)), _BARS[-1])
    least, most = min(values), max(values)
    span = max(most - least, _LEAST_SPAN * abs(most))
    return "".join(
        bars[round((value - least) / span * (len(bars) - 1)) if span else 0] for value in values
    )


def show_line(
    console: Console, text: str = "", *, indent: int | None = None, style: str | None = None
) -> None:
    """Print a line, folded into ``line_width`` at spaces; words stay whole to be copied.

    Args:
        console: Where to.
        text: The line.
        indent: Spaces before all lines but the first; two more than before the first by default.
        style: Style of rich.
    """
    text, width = printable(text), line_width(console)
    for line in [text] if width is None else wrapped(text, width, indent):
        console.print(
            without_commands(line), style=style, markup=False, highlight=False, soft_wrap=True
        )


def wrapped(text: str, width: int, indent: int | None = None) -> list[str]:
    """Return text as lines of ``width`` characters; arguments as for ``show_line``."""
    if len(text) <= width:
        return [text]
    start = len(text) - len(text.lstrip())
    indent = start + 2 if indent is None else indent
    return textwrap.wrap(
        text[start:],
        width,
        initial_indent=text[:start],
        subsequent_indent=" " * (indent if width > 2 * indent else 0),
        break_long_words=False,
        break_on_hyphens=False,
    )
