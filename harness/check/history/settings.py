"""What counts as a change since earlier results: the table ``[history]`` of a budget file."""

from __future__ import annotations

from fnmatch import fnmatchcase
from typing import Annotated, Literal

import msgspec

from harness.check.history.samples import Metric

TimeStatistic = Literal["p50", "min", "p10", "p90", "max", "avg"]

_Share = Annotated[float, msgspec.Meta(ge=0)]
_Level = Annotated[float, msgspec.Meta(gt=0, lt=1)]


class _HistoryTable(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """A table of the budget file: unknown keys are errors."""


class HistoryOverride(_HistoryTable, frozen=True):
    """Other limits for some operators.

    Attributes:
        event: ``fnmatch`` pattern on the event name, case-sensitive.
        block: ``fnmatch`` pattern on the block name.
        relative: As of ``HistoryLimits``; None for what that says.
        absolute_us: Likewise.
        absolute_ticks: Likewise.
    """

    event: str
    block: str = "*"
    relative: _Share | None = None
    absolute_us: _Share | None = None
    absolute_ticks: _Share | None = None


class HistoryLimits(_HistoryTable, frozen=True):
    """When a change is one: beyond both limits, relative and absolute, and beyond the noise.

    Attributes:
        statistics: Which statistics of an operator's repeats in a run stand for it: it has changed
            when one of them has. Where a quiet machine is rare the shortest tells most of some
            operators, and the median most of others.
        relative: Share of the baseline's time by which one must differ.
        absolute_us: Microseconds by which one must differ as well.
        absolute_ticks: Likewise in ticks, where the rate of the clock is unknown.
        relative_bytes: Share of the baseline's bytes by which a size must grow.
        absolute_bytes: Bytes by which it must grow as well.
        fdr: Largest share of false alarms among the changes reported of one result, on the mean;
            where nothing changed, the probability of any (``docs/verdicts.md``).
        min_results: Sessions that the noise of an operator is learnt from, at least.
        confidence: Level of the intervals that are given.
        override: Limits for some operators; the first that matches says.
    """

    statistics: Annotated[tuple[TimeStatistic, ...], msgspec.Meta(min_length=1)] = ("min", "p50")
    relative: _Share = 0.02
    absolute_us: _Share = 0.05
    absolute_ticks: _Share = 2.0
    relative_bytes: _Share = 0.01
    absolute_bytes: _Share = 64.0
    fdr: _Level = 0.01
    min_results: Annotated[int, msgspec.Meta(ge=3)] = 5
    confidence: _Level = 0.95
    override: tuple[HistoryOverride, ...] = ()

    def of(self, metric: Metric) -> tuple[float, float]:
        """The relative limit of a metric, and the absolute one in its unit."""
        if metric.unit == "bytes":
            return self.relative_bytes, self.absolute_bytes
        relative, us, ticks = self.relative, self.absolute_us, self.absolute_ticks
        for other in self.override:
            if fnmatchcase(metric.name, other.event) and fnmatchcase(metric.block, other.block):
                relative = relative if other.relative is None else other.relative
                us = us if other.absolute_us is None else other.absolute_us
                ticks = ticks if other.absolute_ticks is None else other.absolute_ticks
                break
        return relative, ticks if metric.unit == "ticks" else us * 1000
