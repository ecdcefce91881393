"""Samples: the numbers of results in the history, as series with their provenance.

This is the contract between the store, which fills it, the statistics, which evaluate it, and the
reports, which draw it. A History holds all inputs of a comparison, so a comparison can be repeated
from a copy of it.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from datetime import date
from functools import cached_property
from typing import Any, Final, Literal

import msgspec
import numpy as np
import numpy.typing as npt

from harness.records.measurement import MeasurementSettings

Floats = npt.NDArray[np.float64]
Ints = npt.NDArray[np.int64]

Kind = Literal["operator", "counter", "energy", "allocator", "result"]
"""Kind of a metric: time of an operator, count of a hardware counter in an operator, energy of an
operator, bytes of an allocator, or size of the whole result."""

EXACT_COUNTERS: Final = frozenset(
    ("instret", "loads", "stores", "jumps", "branches", "branches_taken", "compressed")
)
"""Hardware counters of what a program does, which is the same in every run."""


MetricUnit = Literal["ns", "ticks", "bytes", "count", "nJ"]


class Provenance(msgspec.Struct, frozen=True, kw_only=True):
    """Where the numbers of a result come from.

    Attributes:
        id: Id of the result, unique in any store.
        started_utc: Start time of the run, ISO 8601.
        board: Board type.
        unit: Unit (physical board).
        model: Name of the model's file.
        model_sha256: Digest of the file.
        method: Method that ran.
        build_id: Build id that the firmware reports.
        tool_version: Version of this package.
        commit: Tested commit; empty if unknown.
        session: Label for results recorded together, such as in one nightly run.
        settings: How it was measured; None if that was not recorded.
    """

    id: str
    started_utc: str
    board: str
    unit: str
    model: str
    model_sha256: str
    method: str
    build_id: str
    tool_version: str
    commit: str
    session: str
    settings: MeasurementSettings | None = None


class Metric(msgspec.Struct, frozen=True):
    """A measured quantity that is compared over time.

    Attributes:
        kind: Operator, hardware counter, energy, allocator or whole result.
        name: Name of the operator or allocator; of a hardware counter or an energy, the operator's;
            for the whole result, the name of the size, such as ``log_bytes``, ``stack_used``,
            ``text_bytes``.
        statistic: Statistic such as ``p50`` of a Summary or ``peak_bytes`` of an allocator; name of
            a hardware counter, whose median count it is; ``energy``; empty for the whole result.
        unit: ``ns``, ``ticks``, ``bytes``, ``count`` or ``nJ``.
        block: Block name of an operator; this and the following fields are as in ``Signature``.
        chain: Chain index.
        instruction: Instruction id.
        delegate_int: Integer delegate debug id, -1 unset.
        delegate_str: String delegate debug id.
        clock: Name of its clock domain.
    """

    kind: Kind
    name: str
    statistic: str
    unit: MetricUnit
    block: str = ""
    chain: int = -1
    instruction: int = -1
    delegate_int: int = -1
    delegate_str: str | None = None
    clock: str = ""


DecisionKind = Literal["accepted", "ignored", "reopened"]


class Decision(msgspec.Struct, frozen=True, kw_only=True):
    """A person's decision about a change of one series.

    Attributes:
        kind: ``accepted``, ``ignored`` or ``reopened``.
        unit: Unit (physical board) of the series.
        metric: The series; for an operator without a statistic, as it is about all of them.
        since_utc: Start of the first result at the new level.
        at_utc: Start of the newest result when it was decided; what failed until then is covered.
        reason: Why.
        who: Who decided.
        made_utc: When.
        until: Last day on which it holds, ISO 8601; None without end.
    """

    kind: DecisionKind
    unit: str
    metric: Metric
    since_utc: str
    at_utc: str
    reason: str
    who: str
    made_utc: str
    until: str | None = None

    def holds_on(self, day: date) -> bool:
        """Return whether the new level counts as the baseline on this day."""
        expired = self.until is not None and date.fromisoformat(self.until) < day
        return self.kind != "reopened" and not expired

    def describe(self) -> str:
        """Return kind, end, author and reason as text."""
        until = f" until {self.until}" if self.until is not None else ""
        why = f": {self.reason}" if self.reason else ""
        return f"{self.kind}{until} by {self.who or 'unknown'}{why}"


class Sample(msgspec.Struct, frozen=True):
    """The value of a metric in one result.

    Attributes:
        value: The value.
        count: Number of durations it summarises; 1 for sizes.
        std: Standard deviation of these durations, in the same unit.
    """

    value: float
    count: int = 1
    std: float = 0.0


class Series(msgspec.Struct, frozen=True):
    """The values of a metric in the history.

    Attributes:
        metric: The metric.
        results: Indices into ``History.results`` of the results that have it, ascending.
        samples: The value in each of these results.
    """

    metric: Metric
    results: tuple[int, ...]
    samples: tuple[Sample, ...]


class History(msgspec.Struct, frozen=True):
    """Earlier results of one model and method on one type of board.

    Attributes:
        results: Oldest first.
        series: The values of their metrics.
        baseline: Indices into ``results`` of the baseline, ascending. The other results show noise
            and trends.
        description: Selection of the baseline, for reports: ``the last 20``, ``name v1.2``.
        failed: Indices into ``results`` of those whose verdict failed, ascending.
        rolling: Whether the baseline is the newest results, and so changes from night to night.
        decisions: Decisions about changes of these series, in the order in which they were made.
        notes: What was left out of the history, and why.
        required: The baseline was asked for, and is no default.
    """

    results: tuple[Provenance, ...] = ()
    series: tuple[Series, ...] = ()
    baseline: tuple[int, ...] = ()
    description: str = ""
    required: bool = False
    failed: tuple[int, ...] = ()
    rolling: bool = False
    decisions: tuple[Decision, ...] = ()
    notes: tuple[str, ...] = ()


class Measured(msgspec.Struct, frozen=True):
    """The values of one result.

    Attributes:
        provenance: Where the values come from.
        samples: The values by metric.
        ticks: Nanoseconds per tick of each clock, by name; a clock that is left out is taken as
            exact.
    """

    provenance: Provenance
    samples: dict[Metric, Sample]
    ticks: dict[str, float] = {}


@dataclass(frozen=True, eq=False)
class Points:
    """Values of one metric on one unit.

    Attributes:
        values: The values, in the metric's unit, shape (n,).
        sessions: Session number of each, shape (n,).
        origins: Origin number of each (see ``origin_of``), by first occurrence, shape (n,).
        results: Index of each result in ``UnitHistory.results``, shape (n,).
    """

    values: Floats
    sessions: Ints
    origins: Ints
    results: Ints

    def __len__(self) -> int:
        return len(self.values)

    def where(self, chosen: npt.NDArray[np.bool_]) -> Points:
        """Return the points for which ``chosen``, shape (n,), is True."""
        return Points(
            self.values[chosen], self.sessions[chosen], self.origins[chosen], self.results[chosen]
        )

    def followed_by(self, more: Points) -> Points:
        """Return these points, then ``more``."""
        pairs = zip(self._parts, more._parts, strict=True)
        values, sessions, origins, results = (np.concatenate(pair) for pair in pairs)
        return Points(values, sessions, origins, results)

    @property
    def _parts(self) -> tuple[npt.NDArray[Any], ...]:
        return self.values, self.sessions, self.origins, self.results

    def with_values(self, values: Floats) -> Points:
        """Return points with other values for the same results."""
        return Points(values, self.sessions, self.origins, self.results)

    def groups(self, keys: Ints) -> Iterator[tuple[int, Points]]:
        """Yield each key in ascending order with its points; ``keys`` has shape (n,)."""
        for key in np.unique(keys).tolist():
            yield key, self.where(keys == key)

    @cached_property
    def cells(self) -> Points:
        """The median per session and origin, sorted by origin, then by first occurrence."""
        keys = self.origins * (int(self.sessions.max(initial=0)) + 1) + self.sessions
        if (keys[1:] > keys[:-1]).all():
            return self  # one result of each, and in this order: the usual history
        _, first = np.unique(keys, return_index=True)
        order = np.lexsort((first, self.origins[first]))
        places = first[order]
        medians = medians_by(keys, self.values)[order]
        return Points(medians, self.sessions[places], self.origins[places], self.results[places])

    @cached_property
    def cells_in_time(self) -> Points:
        """The median per session and origin, sorted by first occurrence."""
        cells = self.cells
        if (cells.results[1:] > cells.results[:-1]).all():
            return cells
        order = np.argsort(cells.results)
        values, sessions, origins, results = (part[order] for part in cells._parts)
        return Points(values, sessions, origins, results)


def median(values: Floats) -> float:
    """Return the median of values, shape (n,), of which none is NaN; NaN without values.

    The same as ``numpy.median``, whose overhead is a multiple of the time that short arrays take:
    a comparison needs tens of thousands of medians.
    """
    count = len(values)
    if not count:
        return float("nan")
    ordered = np.sort(values)
    return float((ordered[(count - 1) // 2] + ordered[count // 2]) / 2)


def medians_by(keys: Ints, values: Floats) -> Floats:
    """Return the median of the values of each key, in ascending order of keys, shape (keys,).

    ``scipy.ndimage.median`` gives the same; NumPy alone keeps this module free of SciPy.
    """
    if (keys[1:] > keys[:-1]).all():
        return values  # each key once
    order = np.lexsort((values, keys))
    _, starts, counts = np.unique(keys[order], return_index=True, return_counts=True)
    ordered = values[order]
    return np.asarray((ordered[starts + (counts - 1) // 2] + ordered[starts + counts // 2]) / 2)


def numbered(keys: Iterable[str]) -> Ints:
    """Return a number for each key, equal for equal keys, in order of first occurrence."""
    known: dict[str, int] = {}
    return np.array([known.setdefault(key, len(known)) for key in keys], np.int64)


def session_of(result: Provenance) -> str:
    """Return the session label of a result; its id without one."""
    return result.session or result.id


def occasion_of(result: Provenance) -> str:
    """Return the part of the session label before ``/``: ``night 12`` for ``night 12/7``."""
    return session_of(result).partition("/")[0]


def origin_of(result: Provenance) -> str:
    """Return the tested version: the commit, or firmware and model if it is unknown or dirty."""
    if result.commit and not result.commit.endswith("-dirty"):
        return result.commit
    return f"{result.commit} {result.build_id} {result.model_sha256}"


def repeat_key(result: Provenance) -> tuple[str, str, str]:
    """Return what repeats of one measurement share: the unit, the tested version, the occasion."""
    return result.unit, origin_of(result), occasion_of(result)
