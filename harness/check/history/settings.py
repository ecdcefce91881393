"""HistoryLimits: when a change counts; the ``[history]`` table of a budget file."""

from __future__ import annotations

import math
from fnmatch import fnmatchcase
from typing import Annotated, Literal

import msgspec

from harness.check.history.samples import Metric

TimeStatistic = Literal["p50", "min", "p10", "p90", "max", "avg"]

_Share = Annotated[float, msgspec.Meta(ge=0, le=1)]
_Amount = Annotated[float, msgspec.Meta(ge=0)]
_Level = Annotated[float, msgspec.Meta(gt=0, lt=1)]


class BudgetTable(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """A table of a budget file: unknown keys are errors, and all numbers must be finite."""

    def __post_init__(self) -> None:
        for name, value in msgspec.structs.asdict(self).items():
            if isinstance(value, float) and not math.isfinite(value):
                raise ValueError(f"{name} is not a finite number")


class HistoryOverride(BudgetTable, frozen=True):
    """Other limits for some operators.

    Attributes:
        event: ``fnmatch`` pattern on the event name, case-sensitive.
        block: ``fnmatch`` pattern on the block name.
        relative: Replaces ``HistoryLimits.relative``; None keeps it.
        absolute_us: Replaces ``HistoryLimits.absolute_us``; None keeps it.
        absolute_ticks: Replaces ``HistoryLimits.absolute_ticks``; None keeps it.
        optional: The override may match no operator.
    """

    event: str
    block: str = "*"
    relative: _Share | None = None
    absolute_us: _Amount | None = None
    absolute_ticks: _Amount | None = None
    optional: bool = False


class HistoryLimits(BudgetTable, frozen=True):
    """When a change counts: beyond the relative and the absolute limit, and beyond the noise.

    Attributes:
        statistics: Statistics of an operator's times that are compared; the operator has changed if
            one of them has. On a busy machine the minimum is more sensitive for some operators, the
            median for others.
        relative: Smallest change of a time, as a share of the baseline.
        absolute_us: Smallest change of a time, in microseconds.
        absolute_ticks: Smallest change of a time in ticks, if the clock rate is unknown.
        relative_bytes: Smallest growth of a size, as a share of the baseline.
        absolute_bytes: Smallest growth of a size, in bytes.
        relative_counts: Smallest growth of a hardware counter, as a share of the baseline.
        absolute_counts: Smallest growth of a hardware counter, in counts.
        relative_energy: Smallest growth of an energy, as a share of the baseline.
        absolute_nj: Smallest growth of an energy, in nanojoules.
        fdr: False discovery rate: expected share of false alarms among the reported changes of one
            result; if nothing changed, the probability of any alarm (``docs/verdicts.md``).
        detectable: Largest change, as a share, that the median operator may have had unseen; with a
            larger one the history says too little (H06).
        min_results: Sessions needed to estimate the noise of an operator.
        confidence: Confidence level of the intervals.
        override: Limits for some operators; the first match applies.
    """

    statistics: Annotated[tuple[TimeStatistic, ...], msgspec.Meta(min_length=1)] = ("min", "p50")
    relative: _Share = 0.02
    absolute_us: _Amount = 0.05
    absolute_ticks: _Amount = 2.0
    relative_bytes: _Share = 0.01
    absolute_bytes: _Amount = 64.0
    relative_counts: _Share = 0.01
    absolute_counts: _Amount = 16.0
    relative_energy: _Share = 0.05
    absolute_nj: _Amount = 100.0
    fdr: _Level = 0.01
    detectable: Annotated[float, msgspec.Meta(gt=0)] = 0.25
    min_results: Annotated[int, msgspec.Meta(ge=3)] = 5
    confidence: _Level = 0.95
    override: tuple[HistoryOverride, ...] = ()

    def of(self, metric: Metric) -> tuple[float, float]:
        """Return the relative limit of a metric, and its absolute limit in its unit."""
        if metric.unit == "bytes":
            return self.relative_bytes, self.absolute_bytes
        if metric.unit == "count":
            return self.relative_counts, self.absolute_counts
        if metric.unit == "nJ":
            return self.relative_energy, self.absolute_nj
        relative, us, ticks = self.relative, self.absolute_us, self.absolute_ticks
        for other in self.override:
            if fnmatchcase(metric.name, other.event) and fnmatchcase(metric.block, other.block):
                relative = relative if other.relative is None else other.relative
                us = us if other.absolute_us is None else other.absolute_us
                ticks = ticks if other.absolute_ticks is None else other.absolute_ticks
                break
        return relative, ticks if metric.unit == "ticks" else us * 1000
