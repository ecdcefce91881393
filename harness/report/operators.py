"""Operators of a run as every report shows them: times, hardware counters, the roofline, energy."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING, Final

import numpy as np
import numpy.typing as npt

from harness.analyze.statistics import Operator
from harness.analyze.ticks import durations, own_scopes, unknown_durations
from harness.check.subject import Subject
from harness.errors import FormatError
from harness.formatting import TICKS, DisplayUnit, printable, time_unit
from harness.records.energy import EnergyRecord, OperatorEnergy
from harness.records.result import CoreRecord
from harness.records.trace import (
    CYCLES,
    DELEGATE_CALL,
    EXECUTION,
    LOADING,
    NO_COUNT,
    STREAMING,
    HardwareCounter,
    Kind,
    Trace,
    is_wrapper,
)
from harness.report.words import ReportTable, counted, number, with_delegate

if TYPE_CHECKING:
    from harness.analyze.workload import RooflinePoint

INSTRUCTIONS: Final = "instret"
_STALL: Final = "_stall"
"""Ending of the names of counters that count cycles in which the core waited."""

HOTTEST: Final = 4
"""Highest level of heat."""


@dataclass(frozen=True, slots=True)
class CounterCell:
    """A number of an operator.

    Attributes:
        text: The number, ``UNKNOWN`` without one.
        value: Its exact value; None if unknown.
        heat: 0 to HOTTEST: how large it is beside the largest of its column.
    """

    text: str
    value: float | None
    heat: int


CounterRow = tuple[Operator, tuple[CounterCell, ...]]
"""An operator or a scope, and a cell for each column."""


@dataclass(frozen=True, slots=True)
class CounterTable:
    """What hardware counters counted in the operators of a run.

    Attributes:
        headers: Headers of the columns.
        operators: Operators with a count, in the order of ``OperatorListing``.
        scopes: Scopes with a count, likewise.
        notes: What is missing, in sentences.
    """

    headers: tuple[str, ...]
    operators: tuple[CounterRow, ...]
    scopes: tuple[CounterRow, ...]
    notes: tuple[str, ...]

    def tables(self) -> Iterator[ReportTable]:
        """Yield a table of the operators and one of the scopes, without empty ones."""
        for what, rows in (("operator", self.operators), ("scope", self.scopes)):
            if rows:
                of = " of scopes" if what == "scope" else ""
                headers = [what, "instruction", *self.headers]
                cells = [
                    [operator_name(row), instruction_text(row), *(cell.text for cell in row_cells)]
                    for row, row_cells in rows
                ]
                numbers = range(1, len(headers))
                yield ReportTable(f"Hardware counters{of} (median)", headers, cells, numbers)


@dataclass(frozen=True, slots=True)
class _Column:
    """A column: its header, its value for an operator, and the decimals of its texts."""

    header: str
    value: Callable[[Operator], float | None]
    decimals: int | None = None

    def text(self, value: float | None) -> str:
        if value is None:
            return UNKNOWN
        return number(value) if self.decimals is None else f"{value:,.{self.decimals}f}"


def describe_counters(
    subject: Subject, listing: OperatorListing, recorded: Sequence[HardwareCounter] = ()
) -> CounterTable | None:
    """Describe what the counters of ``subject`` counted; None if nothing was counted.

    Args:
        subject: The run.
        listing: Its operators, which give the order.
        recorded: The counters of its result, with what reading them costs.
    """
    parts = [[row for row in rows if row.counters] for rows in (listing.operators, listing.scopes)]
    if not any(parts):
        return None
    columns = _columns(subject.trace)
    operators, scopes = (_counter_rows(rows, columns) for rows in parts)
    return CounterTable(
        headers=tuple(column.header for column in columns),
        operators=operators,
        scopes=scopes,
        notes=(*_overhead(recorded, subject.trace), *_missing_counts(subject.trace)),
    )


def _columns(trace: Trace) -> list[_Column]:
    names = [counter.name for counter in trace.counters]
    columns = [_Column(printable(name), partial(_median, name)) for name in names]
    if CYCLES in names and INSTRUCTIONS in names:
        columns.append(_Column("cycles/instr", partial(_counter_ratio, CYCLES, INSTRUCTIONS, 1), 2))
    if CYCLES in names:
        columns += [
            _Column(f"{printable(name)} [%]", partial(_counter_ratio, name, CYCLES, 100), 1)
            for name in names
            if name.endswith(_STALL)
        ]
    return columns


def _median(name: str, operator: Operator) -> float | None:
    found = operator.counters.get(name)
    return None if found is None else found.p50


def _counter_ratio(above: str, below: str, factor: int, operator: Operator) -> float | None:
    """Return the quotient of two counters; None if it is unknown, or not of the same events."""
    one, other = operator.counters.get(above), operator.counters.get(below)
    if one is None or other is None or one.count != other.count or not other.total:
        return None
    return factor * (one.total / other.total)


def _counter_rows(rows: Sequence[Operator], columns: Sequence[_Column]) -> tuple[CounterRow, ...]:
    values = [[column.value(row) for column in columns] for row in rows]
    largest = [
        max((value for value in column if value is not None), default=0.0)
        for column in zip(*values, strict=True)
    ]
    return tuple(
        (
            row,
            tuple(
                CounterCell(
                    column.text(value), value, round(HOTTEST * (value or 0) / most) if most else 0
                )
                for column, value, most in zip(columns, found, largest, strict=True)
            ),
        )
        for row, found in zip(rows, values, strict=True)
    )


def _overhead(recorded: Sequence[HardwareCounter], trace: Trace) -> list[str]:
    """Return sentences on the cost of reading the counters, as far as it is known."""
    inside = [f"{item.overhead:,} {printable(item.name)}" for item in recorded if item.overhead]
    around = [
        f"{item.parent_overhead:,} {printable(item.name)}"
        for item in recorded
        if item.parent_overhead
    ]
    found = []
    if inside:
        found.append(f"every count contains what an empty event counts: {', '.join(inside)}")
    if around:
        found.append(f"each event adds to the event around it: {', '.join(around)}")
    if empty := trace.slowest_empty_events:
        cost = f"{float(empty.cost):,.1f} ticks"
        found.append(f"with these counters, an empty event costs {cost}")
    return found


def _missing_counts(trace: Trace) -> list[str]:
    """Return a sentence for each counter that lacks counts of events on the CPU's clock.

    Counters that only delegates have are not meant.
    """
    measured = own_scopes(trace)
    has = trace.counts != NO_COUNT
    of_delegates = has.any(axis=0) & ~has[measured].any(axis=0)
    lacking = [
        (counter.name, int(np.count_nonzero(measured & ~has[:, column])))
        for column, counter in enumerate(trace.counters)
        if not of_delegates[column]
    ]
    return [
        f"{printable(name)}: {counted(count, 'event')} without a count, left out of all numbers"
        for name, count in lacking
        if count
    ]


ROOFLINE_HEADERS: Final = (
    *("operator", "instruction", "MACs", "bytes", "cycles"),
    *("MACs/cycle", "MACs/byte", "roof [%]", "bound"),
)
"""Headers of the cells of a row; all but the first and the last are numbers."""


@dataclass(frozen=True, slots=True)
class RooflineTable:
    """Operators against what their core can do.

    Attributes:
        core: What it can do.
        roof: The same as a sentence.
        rows: Operators of known work and cycles with their places, in the order of
            ``OperatorListing``.
    """

    core: CoreRecord
    roof: str
    rows: tuple[tuple[Operator, RooflinePoint], ...]

    @property
    def table(self) -> ReportTable:
        """The rows as a table."""
        numbers = range(1, len(ROOFLINE_HEADERS) - 1)
        cells = [_roofline_cells(row, point) for row, point in self.rows]
        return ReportTable(f"Roofline: {self.roof}", ROOFLINE_HEADERS, cells, numbers)


def describe_roofline(subject: Subject, listing: OperatorListing) -> RooflineTable | None:
    """Place the operators of ``subject``; None without cycles, their work, or the core's limits."""
    core = subject.core
    if core is None or subject.chains is None:
        return None
    from harness.analyze.workload import roofline

    points = roofline(listing.operators, subject.chains, core)
    if not points:
        return None
    return RooflineTable(
        core=core,
        roof=f"the core can do {number(core.macs_per_cycle)} MACs and load or store "
        f"{number(core.bytes_per_cycle)} bytes in a cycle",
        rows=tuple(points),
    )


def _roofline_cells(operator: Operator, point: RooflinePoint) -> tuple[str, ...]:
    return (
        operator_name(operator),
        instruction_text(operator),
        f"{point.macs:,}",
        f"{point.bytes:,}",
        number(point.cycles),
        f"{point.macs_per_cycle:.3f}",
        f"{point.intensity:.2f}",
        f"{100 * point.share:.1f}",
        point.bound,
    )


_MILLI: Final = 1e-3


def describe_energy(record: EnergyRecord, table: OperatorListing | None) -> ReportTable:
    """Describe the energy of a run: scopes of executions, then operators that draw most first.

    The notes say what a reader should know of the measurement, and why there are no rows, if so.
    """
    of = {operator.signature: operator for operator in record.operators}
    scopes, operators = (
        [(row, of[row.signature]) for row in rows if row.signature in of]
        for rows in ((table.scopes, table.operators) if table is not None else ((), ()))
    )
    shown = scopes + sorted(operators, key=lambda pair: -(pair[1].joules or 0.0))
    unit = energy_unit([energy.joules for _, energy in shown])
    headers = ["operator", "instruction", "measured", f"energy [{unit.name}]", f"+- [{unit.name}]"]
    headers += ["+- [%]", "average [mA]", "peak [mA]"]
    rows = [] if record.unknown else [_energy_row(row, energy, unit) for row, energy in shown]
    return ReportTable("Energy", headers, rows, range(1, len(headers)), _energy_lines(record))


def energy_unit(joules: list[float | None]) -> DisplayUnit:
    """Return the unit for a column of energies, chosen by the largest."""
    largest = max((value for value in joules if value is not None), default=0.0)
    if largest < 1e-5:
        return DisplayUnit("nJ", 1e-9, 1)
    if largest < 1e-2:
        return DisplayUnit("uJ", 1e-6, 3)
    return DisplayUnit("mJ", 1e-3, 3)


def _energy_row(operator: Operator, energy: OperatorEnergy, unit: DisplayUnit) -> tuple[str, ...]:
    name = operator_name(operator), instruction_text(operator)
    measured = f"{energy.measured:,} of {energy.events:,}"
    if energy.joules is None or energy.bound is None:
        return (*name, measured, *[UNKNOWN] * 5)
    average, peak = energy.average_amperes or 0.0, energy.peak_amperes or 0.0
    percent = 100 * energy.bound / energy.joules if energy.joules > 0 else None
    return (
        *name,
        measured,
        unit.text(energy.joules),
        unit.text(energy.bound),
        UNKNOWN if percent is None else f"{percent:.1f}",
        f"{average / _MILLI:.3f}",
        f"{peak / _MILLI:.3f}",
    )


def _energy_lines(record: EnergyRecord) -> list[str]:
    meter = printable(record.meter)
    lost = "no sample lost"
    if record.gaps or record.lost_samples:
        lost = f"{record.lost_samples:,} samples lost in {counted(record.gaps, 'gap')}"
    lines = [f"energy: {record.samples:,} samples of {meter} at {record.hz:,.0f} Hz; {lost}"]
    if not record.samples:
        lines = [f"energy: no samples of {meter}"]
    elif record.missing:
        lines.append(f"energy: the recording is incomplete: {printable(record.missing)}")
    if record.unknown:
        return [*lines, f"energy: unknown: {printable(record.unknown)}"]
    width = (
        "" if record.half_width_ns is None else f", within +-{record.half_width_ns / 1e3:.1f} us"
    )
    lines.append(
        f"energy: {record.matched:,} of {record.edges:,} edges of the marker pin matched{width}; "
        f"not included: {printable(record.not_included)}"
    )
    return lines


UNKNOWN: Final = "?"
"""Text of a time that is unknown."""

_SCOPES: Final = frozenset((EXECUTION, *LOADING, *STREAMING))
"""Scopes of the runtime around all of a method's instructions, or around its loading; and the time
between operators in which the device streams its log."""


def operator_name(operator: Operator) -> str:
    """Return the name of an operator and its delegate id, safe to print."""
    return printable(with_delegate(operator))


def instruction_text(operator: Operator) -> str:
    """Return the instruction of an operator; empty when unset."""
    return "" if operator.chain == -1 else str(operator.instruction)


def operator_time(operator: Operator, statistic: str) -> float | None:
    """Return a statistic of an operator's times in nanoseconds, or in ticks without a rate.

    ``cold`` is the average in the first execution after loading. None if unknown.
    """
    if statistic == "cold":
        return None if operator.cold is None else operator.cold.avg
    return None if operator.times is None else float(getattr(operator.times, statistic))


@dataclass(frozen=True, slots=True)
class OperatorListing:
    """The operators of a trace.

    Attributes:
        operators: Operators of executions, the largest median times calls first.
        scopes: Scopes around these operators, such as ``Method::execute``, likewise.
            ``OPERATOR_CALL`` is left out: it repeats the time of its kernel.
        loading: Everything outside executions, likewise.
        logged: All of these and ``OPERATOR_CALL``, in the order of the log.
        unit: Unit of all times but those that name ticks.
        cold: Some operator ran in a cold execution and in a warm one.
        unknown: Some durations are unknown.
        others: Number of operators that are not listed (``Subject.most_operators``).
        ticks: Duration of each row of the trace, NaN where it is unknown.
    """

    operators: tuple[Operator, ...]
    scopes: tuple[Operator, ...]
    loading: tuple[Operator, ...]
    logged: tuple[Operator, ...]
    unit: DisplayUnit
    cold: bool
    unknown: bool
    others: int
    ticks: npt.NDArray[np.float64] = field(compare=False, repr=False)

    def text(self, operator: Operator, statistic: str) -> str:
        """Return a statistic as text: ``UNKNOWN`` without times, empty without a cold execution.

        Ticks of a clock without a rate are named if they are not the unit of all times.
        """
        value = operator_time(operator, statistic)
        if value is None:
            return UNKNOWN if operator.times is None else ""
        if operator.ns is not None:
            return self.unit.text(value)
        return TICKS.text(value) + ("" if self.unit is TICKS else " ticks")

    def longest(self, operator: Operator, parts: int) -> list[float]:
        """Return the longest repeat in each of up to ``parts`` equal parts of the trace, in ticks.

        The longest, because a mean would hide a single slow execution. Repeats of unknown duration
        are left out.
        """
        known = self.ticks[operator.rows]
        known = known[~np.isnan(known)]
        starts = np.arange(min(parts, len(known))) * len(known) // max(min(parts, len(known)), 1)
        return np.maximum.reduceat(known, starts).tolist() if len(known) else []


def describe_operators(subject: Subject, unit: DisplayUnit | None = None) -> OperatorListing:
    """Describe the operators of ``subject``, with times in ``unit``.

    An event is a scope, not an operator, if other profile events were logged within most of its
    repeats, or if the runtime logs it around all instructions or around loading. Most, because a
    counter that wraps unnoticed can place a stranger within one repeat. A delegate's call is a
    scope if the delegate logged anything, so that no time is listed twice as an operator's.
    Without ``unit``, the longest median of an operator selects it.
    """
    found = subject.operators
    # Rows with a profile event directly within them; none without a call tree.
    around = np.zeros(len(subject.trace), np.bool_)
    with suppress(FormatError):
        tree = subject.tree
        certain = (subject.trace.kind == Kind.PROFILE) & (tree.parent >= 0) & ~tree.ambiguous
        around[tree.parent[certain]] = True
    delegated = {
        (op.block, op.chain, op.instruction)
        for op in found
        if op.delegate_int != -1 or op.delegate_str is not None
    }
    operators: list[Operator] = []
    scopes: list[Operator] = []
    loading: list[Operator] = []
    for op in found:
        if is_wrapper(op.name):
            continue
        scope = op.name in _SCOPES or bool(around[op.rows].mean() > 0.5)
        scope |= op.name == DELEGATE_CALL and (op.block, op.chain, op.instruction) in delegated
        (loading if op.loading else scopes if scope else operators).append(op)
    for items in (operators, scopes, loading):
        # One preempted execution makes the sum long, but not the median times the calls.
        items.sort(key=lambda op: op.times.p50 * op.times.count if op.times else 0.0, reverse=True)
    known = [op.ns.p50 for op in operators if op.ns is not None]
    known = known or [op.ns.p50 for op in found if op.ns is not None]
    # The scopes around them decide only between ns and us: what matters are the operators.
    around_us = [min(op.ns.p50, 1e6) for op in scopes if op.ns is not None]
    unit = unit or (time_unit([*known, *around_us]) if known else TICKS)
    return OperatorListing(
        operators=tuple(operators),
        scopes=tuple(scopes),
        loading=tuple(loading),
        logged=tuple(found),
        unit=unit,
        cold=any(op.cold and op.warm for op in found),
        unknown=any(op.unknown for op in found),
        others=subject.operators_and_others[1],
        ticks=np.where(unknown_durations(subject.trace), np.nan, durations(subject.trace)),
    )


def share_text(share: float | None) -> str:
    """A share of the wall time in percent, without the sign; ``UNKNOWN`` without one."""
    return UNKNOWN if share is None else f"{100 * share:.1f}"
