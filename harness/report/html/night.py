"""A nightly run on a page: counts, failures with their reasons, models by boards, all tables."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from harness.records.nightly import NightDocument
from harness.report.html.run import RunView
from harness.report.nightly import (
    NightSummary,
    NightTable,
    describe_night,
    headline,
    tables,
)
from harness.report.summaries import RunSummary
from harness.report.text import brief, left_out

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
        steps: How many steps were planned.
        summary: Its counts, failures and matrix.
        when: When it began and ended.
        tables: Its tables, the most urgent first.
        left_out: How many rows are left out of each.
        notes: Further remarks.
    """

    name: str
    passed: bool
    headline: str
    steps: int
    summary: NightSummary
    when: str
    tables: tuple[NightTable, ...]
    left_out: tuple[int, ...]
    notes: tuple[str, ...]


def night_view(
    night: NightDocument, views: Sequence[RunView], summaries: Sequence[RunSummary]
) -> NightView:
    """Prepare a nightly run and the runs of it that the page shows.

    Texts and tables are cut to a readable length.
    """
    found = [*tables(night)]
    runs: dict[str, RunSummary] = {}
    anchors: dict[str, str] = {}
    for view, summary in zip(views, summaries, strict=True):
        if (result := view.run.run.result) is not None:
            runs[result.id], anchors[result.id] = summary, f"#{view.anchor}"
    return NightView(
        name=brief(night.night),
        passed=night.passed,
        headline=headline(night),
        steps=night.steps,
        summary=describe_night(night, runs, anchors),
        when=brief(f"{_moment(night.started_utc)} to {_moment(night.ended_utc)} UTC"),
        tables=tuple(map(_cut, found)),
        left_out=tuple(left_out(len(table.rows), _MOST_ROWS) for table in found),
        notes=tuple(brief(note, _LONGEST) for note in night.notes),
    )


def _moment(utc: str) -> str:
    return utc[:16].replace("T", " ")


def _cut(table: NightTable) -> NightTable:
    rows = tuple(tuple(brief(cell, _LONGEST) for cell in row) for row in table.rows[:_MOST_ROWS])
    return NightTable(table.title, table.headers, rows, table.numbers)
