"""Operators as bars: how long each takes, the one with the longest total time first."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass

import numpy as np

from harness.analyze.statistics import Operator
from harness.check.subject import Subject
from harness.errors import FormatError
from harness.formatting import TICKS, DisplayUnit, time_text, time_unit
from harness.records.signature import by_block
from harness.records.trace import OPERATOR_CALL, Kind
from harness.report.html.formatting import Limits, brief, most
from harness.report.terminal import largest_totals, total_time, with_delegate


@dataclass(frozen=True, slots=True)
class Time:
    """A statistic of an operator: as text, to sort by, and as percent of the longest bar."""

    text: str
    value: float
    width: float


@dataclass(frozen=True, slots=True)
class Row:
    """An operator.

    Attributes:
        name: Its name and delegate.
        block: Name of its blocks.
        instruction: Its instruction, None when unset.
        count: Repeats.
        avg: Mean.
        p50: Median.
        p90: 90th percentile.
        total: All repeats together; its width is the share of the block's longest scope.
    """

    name: str
    block: str
    instruction: int | None
    count: int
    avg: Time
    p50: Time
    p90: Time
    total: Time


@dataclass(frozen=True, slots=True)
class Operators:
    """What is shown of a trace's operators.

    Attributes:
        rows: Operators within which no other was logged, longest total time first.
        scopes: Those around others, such as ``Method::execute``, but for the scope around each
            kernel, which repeats the kernel's time.
        unit: Of all times that are not in ticks.
        several_blocks: The name of the block is worth a column.
        more: How many rows are left out.
        more_share: What all of these together are of all rows' total time, as a share.
        more_scopes: How many scopes are left out.
    """

    rows: tuple[Row, ...]
    scopes: tuple[Row, ...]
    unit: DisplayUnit
    several_blocks: bool
    more: int
    more_share: float
    more_scopes: int


def operators(subject: Subject, limits: Limits) -> Operators | None:
    """Describe the operators of ``subject``; None when there are none."""
    found = subject.operators
    if not found:
        return None
    known = [op.ns.max for op in found if op.ns is not None]
    unit = time_unit(known) if known else TICKS
    whole = {
        (block, clock): total
        for block, items in by_block(found).items()
        for clock, total in largest_totals(items).items()
    }
    inner, outer = _parted(subject, found)
    inner.sort(key=total_time, reverse=True)
    outer.sort(key=total_time, reverse=True)
    shown = inner[: limits.rows]
    everything = sum(map(total_time, inner))
    rest = sum(map(total_time, inner[limits.rows :]))

    def rows(items: Sequence[Operator]) -> tuple[Row, ...]:
        longest = _longest(items)
        return tuple(_row(op, unit, longest, whole[op.block, id(op.clock)]) for op in items)

    return Operators(
        rows=rows(shown),
        scopes=rows(outer[: limits.rows]),
        unit=unit,
        several_blocks=len({op.block for op in (*inner, *outer)}) > 1,
        more=most(len(inner), limits.rows),
        more_share=rest / everything if everything else 0.0,
        more_scopes=most(len(outer), limits.rows),
    )


def _parted(subject: Subject, found: Sequence[Operator]) -> tuple[list[Operator], list[Operator]]:
    """Operators within which no other event of the profile is, and those around one.

    Where nobody can tell what is within what, none is around another.
    """
    around = np.zeros(len(subject.trace), np.bool_)
    with suppress(FormatError):
        parent = subject.tree.parent
        around[parent[(subject.trace.kind == Kind.PROFILE) & (parent >= 0)]] = True
    inner: list[Operator] = []
    outer: list[Operator] = []
    for op in found:
        if not around[op.rows].any():
            inner.append(op)
        elif op.name != OPERATOR_CALL:
            outer.append(op)
    return inner, outer


def _scale(op: Operator) -> str:
    """What its times compare with: those on the same clock, or on any of known rate."""
    return op.clock.name if op.ns is None else ""


def _longest(found: Sequence[Operator]) -> dict[str, float]:
    """The longest time that has a mark, per scale."""
    longest: dict[str, float] = {}
    for op in found:
        if op.times is not None:
            reached = longest.get(_scale(op), 0.0)
            longest[_scale(op)] = max(reached, op.times.p90, op.times.avg)
    return longest


def _row(op: Operator, unit: DisplayUnit, longest: dict[str, float], whole: float) -> Row:
    summary = op.times

    def time(statistic: str, full: float) -> Time:
        if summary is None:
            return Time("?", 0.0, 0.0)
        value = float(getattr(summary, statistic))
        width = 100 * value / full if full else 0.0
        return Time(_text(op, value, unit), value, round(width, 2))

    return Row(
        name=brief(with_delegate(op)) or "(no name)",
        block=brief(op.block),
        instruction=None if op.chain == -1 else op.instruction,
        count=len(op.rows),
        avg=time("avg", longest.get(_scale(op), 0.0)),
        p50=time("p50", longest.get(_scale(op), 0.0)),
        p90=time("p90", longest.get(_scale(op), 0.0)),
        total=time("total", whole),
    )


def _text(op: Operator, value: float, unit: DisplayUnit) -> str:
    return time_text(None if op.ns is None else value, value, unit)
