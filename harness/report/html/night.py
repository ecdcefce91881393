"""What a page shows of a night, in front of its runs."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from harness.records.nightly import NightDocument
from harness.report.html.formatting import brief, most
from harness.report.night_tables import NightTable, headline, tables

_MOST_ROWS: Final = 1_000
_LONGEST: Final = 1_000
"""Characters of a cell."""


@dataclass(frozen=True, slots=True)
class NightView:
    """A night.

    Attributes:
        name: What it is called.
        passed: Whether it did.
        headline: What came of it, in a sentence.
        tables: Its tables, what is to be looked at first in front.
        left_out: Rows that are left out of each.
        notes: What else there is to say.
    """

    name: str
    passed: bool
    headline: str
    tables: tuple[NightTable, ...]
    left_out: tuple[int, ...]
    notes: tuple[str, ...]


def night_view(night: NightDocument) -> NightView:
    """Describe a night."""
    found = [*tables(night)]
    return NightView(
        name=brief(night.night),
        passed=night.passed,
        headline=headline(night),
        tables=tuple(map(_cut, found)),
        left_out=tuple(most(len(table.rows), _MOST_ROWS) for table in found),
        notes=tuple(brief(note, _LONGEST) for note in night.notes),
    )


def _cut(table: NightTable) -> NightTable:
    rows = tuple(tuple(brief(cell, _LONGEST) for cell in row) for row in table.rows[:_MOST_ROWS])
    return NightTable(table.title, table.headers, rows, table.numbers)
