"""Compares two traces operator by operator: slower, faster, appeared, vanished."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Hashable
from dataclasses import dataclass
from typing import Literal

import msgspec

from harness.analyze.blocks import BlockRun, runs
from harness.analyze.counterparts import Counterparts, ProgramOutline
from harness.analyze.memory import AllocatorTotals, allocator_totals
from harness.analyze.statistics import Executions, Operator, Statistic, Summary, operator_statistics
from harness.errors import NotComparableError
from harness.records.measurement import MeasurementSettings, SettingsDifference, compare_settings
from harness.records.trace import Signature, Trace
from harness.records.verdict import Judgement


@dataclass(frozen=True, slots=True)
class Change:
    """A number in both traces.

    Attributes:
        before: Value in the first trace, None if absent.
        after: Value in the second trace, None if absent.
        difference: ``after - before``; None if either is None.
        ratio: ``after / before``; None if either is None or ``before`` is 0.
    """

    before: float | None
    after: float | None
    difference: float | None
    ratio: float | None

    @classmethod
    def of(cls, before: float | None, after: float | None) -> Change:
        """Return the change from ``before`` to ``after``."""
        if before is None or after is None:
            return cls(before, after, None, None)
        return cls(before, after, after - before, after / before if before else None)


class OperatorChange(Signature, frozen=True, omit_defaults=True):
    """An operator in both traces, or in one of them.

    Attributes:
        unit: ``ns``, or ``ticks`` if the clock rate is unknown.
        time: The compared statistic, in this unit. If only one trace has a known clock rate, the
            value of the first trace is left out.
        count: Number of repeats.
        per_run: Repeats per block of this name, comparable between traces of different lengths.
        counters: Medians of what hardware counters counted, by name, over all executions; without
            those that neither trace recorded.
        judgement: What a comparison with history says of the change, of two runs that it compares;
            else empty.
    """

    unit: Literal["ns", "ticks"]
    time: Change
    count: Change
    per_run: Change
    counters: dict[str, Change] = msgspec.field(default_factory=dict)
    judgement: Judgement | Literal[""] = ""


class AccuracyChange(msgspec.Struct, frozen=True):
    """A metric of accuracy over the same samples in two runs.

    Attributes:
        metric: Its name.
        value: It before and after; null where it is unknown.
        judgement: As the comparison with history judges it; "" if that is not known.
    """

    metric: str
    value: Change
    judgement: Judgement | Literal[""] = ""


@dataclass(frozen=True, slots=True)
class AllocatorChange:
    """An allocator in both traces, or in one of them.

    Attributes:
        name: Its name.
        peak_bytes: Peak use.
        total_bytes: Use at the end.
        count: Successful allocations.
        failures: Failed allocations.
    """

    name: str
    peak_bytes: Change
    total_bytes: Change
    count: Change
    failures: Change


@dataclass(frozen=True, slots=True)
class Comparison:
    """What differs between two traces.

    Attributes:
        statistic: The compared statistic of times.
        executions: The compared executions.
        operators: Operators in both traces, largest slowdown first: the difference of the statistic
            times the repeats per run; operators without comparable times last.
        appeared: Operators in the second trace only, in its order.
        vanished: Operators in the first trace only, in its order.
        allocators: In the order of the second trace, then those in the first trace only.
        settings: Whether both were measured alike; the differences may come from that.
    """

    statistic: Statistic
    executions: Executions
    operators: tuple[OperatorChange, ...]
    appeared: tuple[OperatorChange, ...]
    vanished: tuple[OperatorChange, ...]
    allocators: tuple[AllocatorChange, ...]
    settings: SettingsDifference


def compare(
    before: Trace,
    after: Trace,
    statistic: Statistic = "p50",
    executions: Executions = "all",
    *,
    settings: tuple[MeasurementSettings | None, MeasurementSettings | None] = (None, None),
    outlines: tuple[ProgramOutline | None, ProgramOutline | None] | None = None,
) -> Comparison:
    """Compare ``after`` with ``before``, operator by operator.

    Operators match if block name, event name, chain, instruction and delegate ids are equal. If
    several match, such as events with one name on several clocks, the clock names must match, too;
    differently named clocks match if there is only one candidate. Of different programs the
    operators of the first trace are named as their counterparts in the second (``Counterparts``).

    Args:
        before: The first trace.
        after: The second trace.
        statistic: The statistic of an operator's times to compare.
        executions: The executions to compare.
        settings: How both were measured; None for each that is unknown.
        outlines: What is known of both programs, if they are not the same; None for one program.

    Raises:
        NotComparableError: The traces have no operator and no allocator in common.
    """
    sides = [ComparedSide(trace, statistic, executions) for trace in (before, after)]
    matched, vanished, appeared = _match(sides[0], sides[1], outlines)
    changes = sorted((_change(sides, *pair) for pair in matched), key=_slowdown)
    allocators = [{item.label: item for item in allocator_totals(t)} for t in (before, after)]
    if not matched and not allocators[0].keys() & allocators[1].keys():
        raise NotComparableError(
            "the traces have no operator and no allocator in common",
            hint=f"their blocks are {sides[0].names} and {sides[1].names}; compare traces of the "
            "same model",
        )
    return Comparison(
        statistic=statistic,
        executions=executions,
        operators=tuple(changes),
        appeared=tuple(_change(sides, None, op) for op in appeared),
        vanished=tuple(_change(sides, op, None) for op in vanished),
        allocators=tuple(
            _allocator(name, allocators[0].get(name), allocators[1].get(name))
            for name in dict.fromkeys([*allocators[1], *allocators[0]])
        ),
        settings=compare_settings(*settings),
    )


class ComparedSide:
    """One of two traces: its operators, and how many blocks there are of each name."""

    def __init__(self, trace: Trace, statistic: Statistic, executions: Executions) -> None:
        """Count the blocks, and summarise the operators of the compared executions."""
        self._statistic: str = statistic
        self._executions = executions
        found = operator_statistics(trace)
        self.operators = [op for op in found if executions == "all" or self.summary(op)]
        self.names = ", ".join(dict.fromkeys(block.name for block in trace.blocks)) or "none"
        chosen: Callable[[BlockRun], bool] = {
            "all": lambda _run: True,
            "cold": lambda run: run.cold,
            "warm": lambda run: run.executes and not run.cold,
        }[executions]
        self._blocks = Counter(run.name for run in runs(trace) if chosen(run))

    def summary(self, operator: Operator) -> Summary | None:
        """Return the statistics of its compared executions; None without any."""
        if self._executions == "all":
            return operator.times
        return operator.cold if self._executions == "cold" else operator.warm

    def time(self, operator: Operator) -> float | None:
        """Return the compared statistic, in nanoseconds or ticks; None if unknown."""
        summary = self.summary(operator)
        return None if summary is None else float(getattr(summary, self._statistic))

    def count(self, operator: Operator) -> int:
        """Return its repeats in the compared executions."""
        if self._executions == "all":
            return len(operator.rows)
        summary = self.summary(operator)
        return summary.count if summary else 0

    def per_run(self, operator: Operator) -> float:
        """Return its repeats per block of its name."""
        return self.count(operator) / max(self._blocks[operator.block], 1)


_Pair = tuple[Operator, Operator]


def _match(
    before: ComparedSide,
    after: ComparedSide,
    outlines: tuple[ProgramOutline | None, ProgramOutline | None] | None,
) -> tuple[list[_Pair], list[Operator], list[Operator]]:
    """Return matching pairs, then the operators of only the first and only the second trace."""
    old, new = before.operators, after.operators
    names = [_Names(), _Names()]
    if outlines is not None:
        names[0] = _Names(Counterparts.between(old, new, outlines))
    pairs, old, new = _pair(old, new, *(side.with_clock for side in names))
    more, old, new = _pair(old, new, *(side.of for side in names))
    return pairs + more, old, new


class _Names:
    """What operators of one side are joined by."""

    def __init__(self, counterparts: Counterparts | None = None) -> None:
        self._counterparts = counterparts

    def of(self, operator: Operator) -> Hashable:
        if self._counterparts is None:
            return operator.signature
        place = self._counterparts.of(operator)
        if place is None:
            return None, operator.signature  # equal to no signature
        return operator.block, operator.name, operator.chain, *place

    def with_clock(self, operator: Operator) -> Hashable:
        return self.of(operator), operator.clock.name


def _pair(
    before: list[Operator],
    after: list[Operator],
    old_key: Callable[[Operator], Hashable],
    new_key: Callable[[Operator], Hashable],
) -> tuple[list[_Pair], list[Operator], list[Operator]]:
    """Pair operators whose key is unique on both sides; also return the rest of each side."""
    olds, news = [*map(old_key, before)], [*map(new_key, after)]
    counts = Counter(olds), Counter(news)
    once = {name for name, count in counts[0].items() if count == counts[1][name] == 1}
    partner = dict(zip(news, after, strict=True))
    named = list(zip(olds, before, strict=True))
    pairs = [(op, partner[key]) for key, op in named if key in once]
    old = [op for key, op in named if key not in once]
    return pairs, old, [op for key, op in zip(news, after, strict=True) if key not in once]


def _change(
    sides: list[ComparedSide], before: Operator | None, after: Operator | None
) -> OperatorChange:
    old, new = (
        (side.time(op), side.count(op), side.per_run(op)) if op else (None, None, None)
        for side, op in zip(sides, (before, after), strict=True)
    )
    time, count, per_run = map(Change.of, old, new)
    op = after or before
    assert op is not None
    if len({_unit(op) for op in (before, after) if op}) > 1:
        time = Change.of(None, new[0])
    return OperatorChange(
        *op.signature,
        unit=_unit(op),
        time=time,
        count=count,
        per_run=per_run,
        counters=_counters(before, after),
    )


def _counters(before: Operator | None, after: Operator | None) -> dict[str, Change]:
    """Return the change of each counter that either operator has, in the order of the second."""
    old, new = ({} if op is None else op.counters for op in (before, after))
    medians = [{name: item.p50 for name, item in side.items()} for side in (old, new)]
    names = dict.fromkeys([*new, *old])
    return {name: Change.of(medians[0].get(name), medians[1].get(name)) for name in names}


def _unit(op: Operator) -> Literal["ns", "ticks"]:
    return "ticks" if op.clock.hz is None else "ns"


def _slowdown(change: OperatorChange) -> tuple[bool, float]:
    """Return the sort key: largest slowdown first, unknown times last."""
    if change.time.difference is None or change.per_run.after is None:
        return True, 0.0
    return False, -change.time.difference * change.per_run.after


def _allocator(
    name: str, before: AllocatorTotals | None, after: AllocatorTotals | None
) -> AllocatorChange:
    def of(field: str) -> Change:
        old, new = (None if item is None else getattr(item, field) for item in (before, after))
        return Change.of(old, new)

    return AllocatorChange(name, *map(of, ("peak_bytes", "total_bytes", "count", "failures")))
