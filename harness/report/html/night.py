"""A nightly run on a page, in front of its runs."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from harness.records.nightly import NightDocument
from harness.report.limits import left_out
from harness.report.night_tables import NightTable, headline, tables
from harness.report.text import brief

_MOST_ROWS: Final = 1_000
_LONGEST: Final = 1_000
"""Characters of a cell."""


@dataclass(frozen=True, slots=True)
class NightView:
    """A nightly run.

    Attributes:
        name: Its name.
        passed: Whether it passed.
        headline: Its outcome in a sentence.
        tables: Its tables, the most urgent first.
        left_out: How many rows are left out of each.
        notes: Further remarks.
    """

    name: str
    passed: bool
    headline: str
    tables: tuple[NightTable, ...]
    left_out: tuple[int, ...]
    notes: tuple[str, ...]


def night_view(night: NightDocument) -> NightView:
    """Prepare a nightly run, with texts and tables cut to a readable length."""
    found = [*tables(night)]
    return NightView(
        name=brief(night.night),
        passed=night.passed,
        headline=headline(night),
        tables=tuple(map(_cut, found)),
        left_out=tuple(left_out(len(table.rows), _MOST_ROWS) for table in found),
        notes=tuple(brief(note, _LONGEST) for note in night.notes),
    )


def _cut(table: NightTable) -> NightTable:
    rows = tuple(tuple(brief(cell, _LONGEST) for cell in row) for row in table.rows[:_MOST_ROWS])
    return NightTable(table.title, table.headers, rows, table.numbers)
