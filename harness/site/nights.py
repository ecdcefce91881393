"""Results that were recorded together: a night, or another session."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from harness.records.result import microseconds
from harness.report.summaries import URGENCY, RunState, counts_of_states
from harness.site.documents import ModelOnUnit, SiteResult, SiteSeries, night_page


@dataclass(frozen=True, slots=True)
class NightRow:
    """A result of a night.

    Attributes:
        model: The model on a unit.
        result: The result.
        execution: The series of the median execution; None without one.
        value: Its value in this result; None if it was not measured.
    """

    model: ModelOnUnit
    result: SiteResult
    execution: SiteSeries | None
    value: float | None


@dataclass(frozen=True, slots=True)
class SiteNight:
    """Results recorded with one label.

    Attributes:
        name: The label.
        started: Start of its first result.
        ended: Start of its last result.
        before: The night before it; empty for the first one.
        after: The night after it; empty for the last one.
        rows: Its results, the most urgent first.
    """

    name: str
    started: str
    ended: str
    before: str
    after: str
    rows: tuple[NightRow, ...]

    @property
    def page(self) -> str:
        """Path of its page."""
        return night_page(self.name)

    @property
    def counts(self) -> Mapping[RunState, int]:
        """How its results ended."""
        return counts_of_states(row.result.state for row in self.rows)

    @property
    def commits(self) -> tuple[str, ...]:
        """Commits that were tested."""
        return tuple(dict.fromkeys(row.result.commit for row in self.rows if row.result.commit))

    @property
    def infrastructure(self) -> tuple[NightRow, ...]:
        """Results that say nothing about the models."""
        return tuple(row for row in self.rows if row.result.state == "infrastructure")


def nights_of(models: Sequence[ModelOnUnit]) -> list[SiteNight]:
    """Return all nights, in the order in which they began."""
    found: dict[str, list[NightRow]] = {}
    for model in models:
        execution = next((series for series in model.series if series.role == "execution"), None)
        for place, result in enumerate(model.results):
            if result.night:
                value = None if execution is None else execution.values[place]
                row = NightRow(model, result, execution, value)
                found.setdefault(result.night, []).append(row)
    begins = {
        name: min(microseconds(row.result.started) for row in rows) for name, rows in found.items()
    }
    order = sorted(found, key=lambda name: (begins[name], name))
    return [
        _night(
            name,
            found[name],
            order[place - 1] if place else "",
            order[place + 1] if place + 1 < len(order) else "",
        )
        for place, name in enumerate(order)
    ]


def _night(name: str, rows: Sequence[NightRow], before: str, after: str) -> SiteNight:
    by_time = sorted(rows, key=lambda row: microseconds(row.result.started))
    urgent = sorted(by_time, key=lambda row: URGENCY.index(row.result.state))
    started, ended = by_time[0].result.started, by_time[-1].result.started
    return SiteNight(name, started, ended, before, after, tuple(urgent))
