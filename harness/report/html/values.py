"""A page about the values of two runs, tensor by tensor."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from harness.analyze.values import ValueComparison
from harness.report.facts import Fact
from harness.report.html.environment import environment
from harness.report.html.page import page_frame
from harness.report.text import left_out
from harness.report.values import HEADERS, NUMBERS, gap_cells, verdict_lines

_MOST_ROWS: Final = 2_000


@dataclass(frozen=True, slots=True)
class GapRow:
    """A tensor: its cells, and whether it is beyond its tolerance."""

    cells: tuple[str, ...]
    diverges: bool


@dataclass(frozen=True, slots=True)
class ValuesView:
    """A comparison of values.

    Attributes:
        outcome: ``pass`` or ``fail``.
        headline: The first difference, or that there is none.
        notes: Counts: tensors within their tolerance, without a counterpart, with lost bytes.
        sources: What is compared.
        headers: Headers of the table.
        numbers: Columns of numbers.
        rows: Its rows, in the order of execution.
        left_out: How many rows are left out.
    """

    outcome: str
    headline: str
    notes: tuple[str, ...]
    sources: tuple[Fact, ...]
    headers: tuple[str, ...]
    numbers: range
    rows: tuple[GapRow, ...]
    left_out: int


def values_report(found: ValueComparison, sources: Sequence[Fact]) -> bytes:
    """Return a page about a comparison; the same bytes for the same comparison.

    Args:
        found: The comparison.
        sources: What is compared.

    Raises:
        UsageError: A library is not installed.
    """
    *notes, last = verdict_lines(found)
    view = ValuesView(
        outcome="pass" if found.first_diverging is None else "fail",
        headline=last,
        notes=tuple(notes),
        sources=tuple(sources),
        headers=HEADERS,
        numbers=NUMBERS,
        rows=tuple(GapRow(gap_cells(gap), gap.diverges) for gap in found.gaps[:_MOST_ROWS]),
        left_out=left_out(len(found.gaps), _MOST_ROWS),
    )
    template = environment().get_template("values.html.j2")
    return template.render(view=view, **page_frame(view.headline)).encode()
