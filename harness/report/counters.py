"""Hardware counters as every report shows them: which columns, with which texts, and how hot.

Each counter has a column with the median of an operator's counts. Where counters explain each other
there are columns for that, too: cycles per instruction, and stalls as a share of the cycles.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import chain
from typing import Final

import numpy as np

from harness.analyze.roofline import CYCLES
from harness.analyze.statistics import Operator
from harness.check.subject import Subject
from harness.formatting import printable
from harness.records.counters import CounterRecord
from harness.records.trace import NO_COUNT, Kind, Trace
from harness.report.operators import UNKNOWN, OperatorListing, OperatorRow
from harness.report.text import counted, number

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


@dataclass(frozen=True, slots=True)
class CounterRow:
    """An operator or a scope, with a cell for each column."""

    row: OperatorRow
    cells: tuple[CounterCell, ...]


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
    subject: Subject, listing: OperatorListing, recorded: Sequence[CounterRecord] = ()
) -> CounterTable | None:
    """Describe what the counters of ``subject`` counted; None if nothing was counted.

    Args:
        subject: The run.
        listing: Its operators, which give the order.
        recorded: The counters of its result, with what reading them costs.
    """
    columns = _columns(subject.trace)
    parts = [
        [row for row in rows if row.operator.counters]
        for rows in (listing.operators, listing.scopes)
    ]
    if not any(parts):
        return None
    operators, scopes = (_rows(rows, columns) for rows in parts)
    return CounterTable(
        headers=tuple(column.header for column in columns),
        operators=operators,
        scopes=scopes,
        notes=(*_overhead(recorded), *_event_cost(subject.trace), *_missing(subject.trace)),
    )


def cycles_per_instruction(operator: Operator) -> float | None:
    """Return the cycles per instruction of all repeats of an operator; None if unknown."""
    return _ratio(CYCLES, INSTRUCTIONS, operator)


def _columns(trace: Trace) -> list[_Column]:
    names = [counter.name for counter in trace.counters]
    columns = [_Column(printable(name), partial(_median, name)) for name in names]
    if CYCLES in names and INSTRUCTIONS in names:
        columns.append(_Column("cycles/instr", cycles_per_instruction, 2))
    if CYCLES in names:
        columns += [
            _Column(f"{printable(name)} [%]", partial(_percentage, name), 1)
            for name in names
            if name.endswith(_STALL)
        ]
    return columns


def _median(name: str, operator: Operator) -> float | None:
    found = operator.counters.get(name)
    return None if found is None else found.p50


def _ratio(above: str, below: str, operator: Operator) -> float | None:
    """Return the quotient of two counters; None if it is unknown, or not of the same events."""
    one, other = operator.counters.get(above), operator.counters.get(below)
    if one is None or other is None or one.count != other.count or not other.total:
        return None
    return one.total / other.total


def _percentage(name: str, operator: Operator) -> float | None:
    share = _ratio(name, CYCLES, operator)
    return None if share is None else 100 * share


def _rows(rows: Sequence[OperatorRow], columns: Sequence[_Column]) -> tuple[CounterRow, ...]:
    values = [[column.value(row.operator) for column in columns] for row in rows]
    largest = [
        max((value for value in column if value is not None), default=0.0)
        for column in zip(*values, strict=True)
    ]
    return tuple(
        CounterRow(
            row,
            tuple(
                CounterCell(column.text(value), value, _heat(value, most))
                for column, value, most in zip(columns, found, largest, strict=True)
            ),
        )
        for row, found in zip(rows, values, strict=True)
    )


def _heat(value: float | None, largest: float) -> int:
    if value is None or not largest:
        return 0
    return round(HOTTEST * value / largest)


def _overhead(recorded: Sequence[CounterRecord]) -> list[str]:
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
    return found


def _event_cost(trace: Trace) -> list[str]:
    """Return a sentence on the time that an event takes while these counters are read."""
    found = trace.slowest_empty_events
    return (
        [f"with these counters, an empty event costs {float(found.cost):,.1f} ticks"]
        if found
        else []
    )


def _missing(trace: Trace) -> list[str]:
    """Return a sentence for each counter that lacks counts of events on the CPU's clock.

    Counters that only delegates have are not meant.
    """
    measured = (trace.kind == Kind.PROFILE) & (trace.clock == 0) & ~trace.delegated
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


def all_rows(table: CounterTable) -> list[CounterRow]:
    """Return the rows of operators, then those of scopes."""
    return [*chain(table.operators, table.scopes)]
