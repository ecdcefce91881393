"""Operators of a trace as every report shows them: which, in which order, with which texts."""

from __future__ import annotations

from collections.abc import Iterable
from contextlib import suppress
from dataclasses import dataclass, field
from operator import attrgetter
from typing import Final

import msgspec
import numpy as np
import numpy.typing as npt

from harness.analyze.statistics import Operator, Summary
from harness.analyze.ticks import durations, ends_before_start
from harness.check.subject import Subject
from harness.errors import FormatError
from harness.formatting import TICKS, DisplayUnit, printable, time_unit
from harness.records.trace import DELEGATE_CALL, EXECUTION, LOADING, OPERATOR_CALL, STREAMING, Kind
from harness.report.text import event_title, with_delegate

UNKNOWN: Final = "?"
"""Text of a time that is unknown."""

_SCOPES: Final = frozenset((EXECUTION, *LOADING, *STREAMING))
"""Scopes of the runtime around all of a method's instructions, or around its loading; and the time
between operators in which the device streams its log."""

_STATISTICS = ("avg", "p50", "p90", "min", "max", "total")
_statistics = attrgetter(*_STATISTICS)


class TimeTexts(msgspec.Struct, frozen=True):
    """Statistics of one operator as text, in the unit of the table.

    ``cold`` is the average in the first execution after loading; empty without one.
    """

    avg: str
    p50: str
    p90: str
    min: str
    max: str
    total: str
    cold: str


_NO_TIMES: Final = TimeTexts(*[UNKNOWN] * (len(_STATISTICS) + 1))


class OperatorRow(msgspec.Struct, frozen=True):
    """One operator or scope. A Struct, as there may be 100,000 of them.

    Attributes:
        operator: Exact statistics, and the rows of the trace they are of.
        name: Its name and delegate id.
        block: Name of its blocks.
        instruction: Its instruction; empty when unset.
        texts: Its times.
        share: Its share of the wall time of executions, or of loading for events of loading
            (``harness.analyze.statistics.WallTimes``); None if unknown.
        share_text: The share in percent, ``UNKNOWN`` where it is None.
    """

    operator: Operator
    name: str
    block: str
    instruction: str
    texts: TimeTexts
    share: float | None
    share_text: str

    @property
    def count(self) -> int:
        """Repeats, also those of unknown duration."""
        return len(self.operator.rows)

    @property
    def title(self) -> str:
        """Its short name and its instruction, such as ``conv2d #5``."""
        return event_title(self.operator)


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

    operators: tuple[OperatorRow, ...]
    scopes: tuple[OperatorRow, ...]
    loading: tuple[OperatorRow, ...]
    logged: tuple[OperatorRow, ...]
    unit: DisplayUnit
    cold: bool
    unknown: bool
    others: int
    ticks: npt.NDArray[np.float64] = field(compare=False, repr=False)

    def longest(self, row: OperatorRow, parts: int) -> list[float]:
        """Return the longest repeat in each of up to ``parts`` equal parts of the trace, in ticks.

        The longest, because a mean would hide a single slow execution. Repeats of unknown duration
        are left out.
        """
        known = self.ticks[row.operator.rows]
        known = known[~np.isnan(known)]
        starts = np.arange(min(parts, len(known))) * len(known) // max(min(parts, len(known)), 1)
        return np.maximum.reduceat(known, starts).tolist() if len(known) else []


def describe_operators(subject: Subject, unit: DisplayUnit | None = None) -> OperatorListing:
    """Describe the operators of ``subject``, with times in ``unit``.

    An event is a scope, not an operator, if other profile events were logged within most of its
    repeats, or if the runtime logs it around all instructions or around loading. Most, because a
    counter that wraps unnoticed can place a stranger within one repeat. A delegate's call is a
    scope if the delegate logged anything, so that no time is listed twice as an operator's.
    Without ``unit``, the largest time selects it.
    """
    found = subject.operators
    known = [op.ns.max for op in found if op.ns is not None]
    unit = unit or (time_unit(known) if known else TICKS)
    rows = [_row(op, unit) for op in found]
    around = _around_others(subject)
    delegated = {_place(op) for op in found if _of_delegate(op)}
    operators: list[OperatorRow] = []
    scopes: list[OperatorRow] = []
    loading: list[OperatorRow] = []
    for row in rows:
        op = row.operator
        if op.name == OPERATOR_CALL:
            continue
        scope = op.name in _SCOPES or bool(around[op.rows].mean() > 0.5)
        scope |= op.name == DELEGATE_CALL and _place(op) in delegated
        (loading if op.loading else scopes if scope else operators).append(row)
    for items in (operators, scopes, loading):
        items.sort(key=lambda row: row.operator.typical_total, reverse=True)
    return OperatorListing(
        operators=tuple(operators),
        scopes=tuple(scopes),
        loading=tuple(loading),
        logged=tuple(rows),
        unit=unit,
        cold=any(op.cold and op.warm for op in found),
        unknown=any(op.unknown for op in found),
        others=subject.other_operators,
        ticks=np.where(ends_before_start(subject.trace), np.nan, durations(subject.trace)),
    )


def several_blocks(rows: Iterable[OperatorRow]) -> bool:
    """Whether ``rows`` are of blocks with different names."""
    return len({row.operator.block for row in rows}) > 1


def _place(op: Operator) -> tuple[str, int, int]:
    return op.block, op.chain, op.instruction


def _of_delegate(op: Operator) -> bool:
    return op.delegate_int != -1 or op.delegate_str is not None


def _around_others(subject: Subject) -> npt.NDArray[np.bool_]:
    """True for rows with a profile event directly within them; all False without a call tree."""
    around = np.zeros(len(subject.trace), np.bool_)
    with suppress(FormatError):
        tree = subject.tree
        certain = (subject.trace.kind == Kind.PROFILE) & (tree.parent >= 0) & ~tree.ambiguous
        around[tree.parent[certain]] = True
    return around


def _row(op: Operator, unit: DisplayUnit) -> OperatorRow:
    times = op.times
    return OperatorRow(
        op,
        printable(with_delegate(op)),
        printable(op.block),
        "" if op.chain == -1 else str(op.instruction),
        _NO_TIMES if times is None else _texts(op, times, unit),
        op.share,
        share_text(op.share),
    )


def share_text(share: float | None) -> str:
    """A share of the wall time in percent, without the sign; ``UNKNOWN`` without one."""
    return UNKNOWN if share is None else f"{100 * share:.1f}"


def _texts(op: Operator, times: Summary, unit: DisplayUnit) -> TimeTexts:
    """The times of ``op``; each names ticks where the other rows are in nanoseconds."""
    ticks = op.ns is None
    own, suffix = (TICKS if ticks else unit), ""
    if ticks and unit is not TICKS:
        suffix = " ticks"
    if times.count == 1:  # most of very many operators ran once: all statistics are alike
        text = own.text(times.total) + suffix
        return TimeTexts(text, text, text, text, text, text, text if op.cold else "")
    texts = [own.text(value) + suffix for value in _statistics(times)]
    cold = own.text(op.cold.avg) + suffix if op.cold else ""
    return TimeTexts(*[*texts, cold])
