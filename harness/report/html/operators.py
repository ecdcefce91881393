"""Operators on a page: every execution of each as a strip, and the numbers that matter."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np

from harness.analyze.blocks import block_numbers
from harness.analyze.ticks import durations, ends_before_start, event_nanoseconds
from harness.check.subject import Subject
from harness.formatting import TICKS, DisplayUnit, operator_title
from harness.report.executions import executions
from harness.report.html.baseline import BaselineNumbers, Delta
from harness.report.html.pictures import StripPicture
from harness.report.html.scales import axis
from harness.report.operators import UNKNOWN, OperatorListing, OperatorRow
from harness.report.text import (
    Limits,
    brief,
    left_out,
    short_time,
    short_time_unit,
    three_digits,
)

_FEW: Final = 5
"""Of fewer values none is an outlier."""

_FAR: Final = 3.0
"""An outlier is this many times the interquartile range above the third quartile,"""

_FARTHER: Final = 1.1
"""and this many times the median."""

_LEAST_SPAN: Final = 0.05
"""Share of the median that a strip spans at least, so that a tick does not fill it."""

_PLACES: Final = 200
"""Places along a strip that are told apart."""

_SHOWN: Final = 8
"""Operators that are shown at first."""


@dataclass(frozen=True, slots=True)
class Outlier:
    """The execution in which an operator took much longer than in others.

    Attributes:
        text: Which execution it is, and how long the operator took.
        execution: Number of the execution if its timeline is drawn, else 0.
    """

    text: str
    execution: int


@dataclass(frozen=True, slots=True)
class OperatorView:
    """An operator on a page.

    Attributes:
        row: Its texts and exact statistics.
        title: Its short name and instruction.
        exact: Its name as logged, and its statistics with all digits.
        module: The module that it is of; empty if unknown.
        strip: Its time in every execution; None if these are alike or unknown.
        alike: How many times it took the same, in words; empty if it did not.
        outlier: The execution that stands out; None without one.
        median: Its median, in the unit of the table.
        p90: Its 90th percentile, likewise.
        delta: Its change against the baseline; None without one.
    """

    row: OperatorRow
    title: str
    exact: str
    module: str
    strip: StripPicture | None
    alike: str
    outlier: Outlier | None
    median: str
    p90: str
    delta: Delta | None


@dataclass(frozen=True, slots=True)
class OperatorGroup:
    """Operators, scopes or events of loading.

    Attributes:
        rows: The longest.
        unit: Unit of their times.
        more: How many are left out.
        compared: Some have a baseline.
        modules: Of some the module is known.
    """

    rows: tuple[OperatorView, ...]
    unit: DisplayUnit
    more: int
    compared: bool
    modules: bool


@dataclass(frozen=True, slots=True)
class OperatorsView:
    """The operators of a run on a page.

    Attributes:
        operators: Its operators.
        scopes: Scopes around them.
        loading: Events outside executions.
        more_share: The sum of the shares of the operators that are left out; None if unknown.
        at_first: Operators that are shown at first.
    """

    operators: OperatorGroup
    scopes: OperatorGroup
    loading: OperatorGroup
    more_share: float | None
    at_first: int = _SHOWN


def row_title(row: OperatorRow) -> str:
    """Return the short name of an operator and its instruction; of a delegate's event its ids."""
    operator = row.operator
    instruction = operator.instruction if row.instruction else None
    if operator.delegate_str is not None or operator.delegate_int != -1:
        return row.name if instruction is None else f"{row.name} #{instruction}"
    return operator_title(operator.name, instruction) or row.name


def operators_view(
    table: OperatorListing,
    subject: Subject,
    numbers: BaselineNumbers,
    drawn: Collection[int],
    limits: Limits,
) -> OperatorsView:
    """Prepare the operators of a run.

    Args:
        table: All operators.
        subject: The run.
        numbers: Its baseline.
        drawn: Numbers of the executions whose timelines are drawn.
        limits: How many of each kind are shown.
    """
    rest = [row.share for row in table.operators[limits.rows :]]
    known = [share for share in rest if share is not None]
    writer = _Writer(subject, numbers, drawn, table.unit.name)
    return OperatorsView(
        operators=writer.group(table.operators, limits),
        scopes=writer.group(table.scopes, limits),
        loading=writer.group(table.loading, limits),
        more_share=sum(known) if len(known) == len(rest) else None,
    )


class _Writer:
    """Prepares operators of one run."""

    def __init__(
        self, subject: Subject, numbers: BaselineNumbers, drawn: Collection[int], unit: str
    ) -> None:
        trace = subject.trace
        self._subject = subject
        self._numbers = numbers
        self._drawn = drawn
        self._unit = unit
        self._known = ~ends_before_start(trace)
        self._ticks = durations(trace)
        self._nanoseconds = event_nanoseconds(trace, self._ticks)
        self._blocks = block_numbers(trace)
        found = executions(subject)
        self._execution = {item.block: item for item in (found.all if found else ())}

    def group(self, rows: Sequence[OperatorRow], limits: Limits) -> OperatorGroup:
        shown = rows[: limits.rows]
        timed = [row.operator.ns.p90 for row in shown if row.operator.ns is not None]
        unit = short_time_unit(max(timed)) if timed else TICKS
        views = tuple(self._view(row, unit) for row in shown)
        return OperatorGroup(
            rows=views,
            unit=unit,
            more=left_out(len(rows), limits.rows),
            compared=any(view.delta for view in views),
            modules=any(view.module for view in views),
        )

    def _view(self, row: OperatorRow, unit: DisplayUnit) -> OperatorView:
        operator, times = row.operator, row.operator.times
        own, suffix = (unit, "") if operator.ns is not None or unit is TICKS else (TICKS, " ticks")
        strip, outlier, alike = self._strip(row)
        return OperatorView(
            row=row,
            title=row_title(row),
            exact=self._exact(row),
            module=self._module(row),
            strip=strip,
            alike=alike,
            outlier=outlier,
            median=UNKNOWN if times is None else _three(times.p50, own) + suffix,
            p90=UNKNOWN if times is None else _three(times.p90, own) + suffix,
            delta=self._numbers.of_operator(operator),
        )

    def _exact(self, row: OperatorRow) -> str:
        """The name as logged, and all statistics with the digits that other reports show."""
        parts = [brief(row.name)]
        if row.instruction:
            parts.append(f"instruction {row.instruction}")
        texts = row.texts
        statistics = (
            f"median {texts.p50}, average {texts.avg}, p90 {texts.p90}, min {texts.min}, "
            f"max {texts.max}, total {texts.total} {self._unit}"
        )
        return " · ".join([*parts, f"count {row.count:,}", statistics])

    def _module(self, row: OperatorRow) -> str:
        symbols = self._subject.symbols
        found = symbols[int(row.operator.rows[0])] if symbols is not None else None
        if found is None or not found.module:
            return ""
        return brief(found.module[-1].path)

    def _strip(self, row: OperatorRow) -> tuple[StripPicture | None, Outlier | None, str]:
        """Draw the time of every repeat, and name the one that stands out."""
        timed = row.operator.ns is not None
        column = self._nanoseconds if timed else self._ticks.astype(np.float64)
        rows = row.operator.rows[self._known[row.operator.rows]]
        values = column[rows]
        times = row.operator.times
        if times is None or len(values) < 2:
            return None, None, ""
        if values.min() == values.max():
            return None, None, f"all {len(values):,} alike"
        median = float(times.p50)
        along = axis(values.tolist(), from_zero=False, least=_LEAST_SPAN * median)
        third, first = np.percentile(values, [75, 25])
        top = int(np.argmax(values))
        limit = max(third + _FAR * (third - first), _FARTHER * median)
        outlier = None
        if len(values) >= _FEW and values[top] > limit:
            outlier = self._outlier(int(rows[top]), float(values[top]), timed)
        places = {round(along.percent(v) * _PLACES / 100) * 100 / _PLACES for v in values.tolist()}
        return (
            StripPicture(
                places=tuple(sorted(places)),
                median=along.percent(median),
                outlier=along.percent(float(values[top])) if outlier else None,
            ),
            outlier,
            "",
        )

    def _outlier(self, row: int, value: float, timed: bool) -> Outlier:
        time = short_time(value if timed else None, value)
        execution = self._execution.get(int(self._blocks[row]))
        if execution is None:
            return Outlier(f"longest: {time}", 0)
        number = execution.number
        cold = " (cold)" if execution.cold else ""
        return Outlier(
            f"execution {number:,}{cold}: {time}", number if number in self._drawn else 0
        )


def _three(value: float, unit: DisplayUnit) -> str:
    return three_digits(value / unit.divisor)
