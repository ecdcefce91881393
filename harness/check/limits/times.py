"""Limits on times of operators, their sums, modules, delegates and blocks."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from fnmatch import fnmatchcase
from functools import cached_property, partial
from typing import Any, Final, NamedTuple

import numpy as np
import numpy.typing as npt

from harness.analyze.blocks import block_names, block_numbers
from harness.analyze.modules import Stack, module_times_by_block
from harness.analyze.statistics import Operator
from harness.analyze.ticks import Ticks, durations, event_nanoseconds
from harness.analyze.unwrap import ends_before_start
from harness.check.history.samples import Metric
from harness.check.limits.bounds import guards_nothing, reaches, unmet, within
from harness.check.rules import (
    UNITS,
    BlockLimit,
    DelegateLimit,
    Executions,
    ModuleLimit,
    TimeLimit,
    TimeRule,
)
from harness.check.subject import Subject
from harness.records.clock_domain import ClockDomain
from harness.records.trace import DELEGATE_CALL, EXECUTION, Kind
from harness.records.verdict import Check

Cite = Callable[[str], str]
"""Where a field of a rule stands in its file."""

_CODES: Final[dict[type[TimeRule], str]] = {
    TimeLimit: "B01",
    ModuleLimit: "B07",
    DelegateLimit: "B08",
    BlockLimit: "B09",
}
_TOO_QUICK: Final = "B06"


class LimitTarget(NamedTuple):
    """Something that a rule matches.

    Attributes:
        name: What a check calls it.
        block: Name of its blocks.
        clock: Its clock; None for several.
        measure: A statistic in a unit; None where the rate of a clock is unknown, or, for ticks,
            where there are several clocks.
    """

    name: str
    block: str
    clock: ClockDomain | None
    measure: Callable[[str, str], float | None]


def time_checks(rule: TimeRule, times: Durations, cite: Cite) -> Iterator[Check]:
    """Hold everything that a rule matches against its limits.

    Args:
        rule: One of the rules on times.
        times: Of the subject.
        cite: Where a field of it stands; "" is the rule.
    """
    targets, text, name, nothing = matching(rule, times)
    which = "" if rule.executions == "all" else f"{rule.executions} "
    text = f"{rule.statistic} of {which}{text}"
    for field, limit, unit in rule.limits():
        upper = field.startswith("limit")
        code = _CODES[type(rule)] if upper else _TOO_QUICK
        said = text if upper else f"least {text}"
        if unit == "percent":
            said = f"{said}, of {rule.of or EXECUTION}"
        if not targets and not rule.optional:
            yield guards_nothing(code, said, name, limit, unit, nothing, cite(field))
        for target in targets:
            measured = _measure(rule, target, unit, times)
            if isinstance(measured, str):
                yield unmet(code, said, target.name, None, limit, unit, measured, cite(field))
            else:
                compare = within if upper else reaches
                yield compare(code, said, target.name, measured, limit, unit, cite(field))


def _measure(rule: TimeRule, target: LimitTarget, unit: str, times: Durations) -> float | str:
    """The statistic in the unit of a limit, or why there is none."""
    if unit != "percent":
        measured = target.measure(rule.statistic, unit)
        return _untold(target, unit, times) if measured is None else measured
    whole = rule.of or EXECUTION
    found = times.sums_of(whole, rule.executions).get(target.block)
    if found is None:
        return f"there is no {whole!r} in block {target.block!r} to be a share of"
    of: LimitedValues = found
    for base in ("ns", "ticks"):
        if base == "ticks" and target.clock != of.clock:
            continue
        part, hundred = target.measure(rule.statistic, base), of.measure(rule.statistic, base)
        if part is not None and hundred:
            return 100 * part / hundred
    return f"it does not compare with {whole!r}: on a clock of unknown rate, or that took no time"


def _untold(target: LimitTarget, unit: str, times: Durations) -> str:
    if times.unknown.any():
        return "events end before they start, so what they took is unknown: see I03 and I04"
    if unit == "ticks":
        return "it is on several clocks: limit its time"
    if target.clock is None:
        return "the rate of a clock is unknown"
    return f"the rate of clock {target.clock.name!r} is unknown: use limit_ticks"


_Matched = tuple[list[LimitTarget], str, str, str]
"""What a rule matches; the rule in words; the pattern; why it matches nothing, if so."""


def matching(rule: TimeRule, times: Durations) -> _Matched:
    """Find what a rule matches."""
    return _MATCHING[type(rule)](rule, times)


def _operators(rule: TimeLimit, times: Durations) -> _Matched:
    event = rule.event or ""
    patterns = (rule.leaving_out,) if isinstance(rule.leaving_out, str) else rule.leaving_out
    found = [
        operator
        for operator in times.subject.operators
        if fnmatchcase(operator.name, event)
        and fnmatchcase(operator.block, rule.block)
        and not any(fnmatchcase(operator.name, pattern) for pattern in patterns)
        and rule.instruction in (None, operator.instruction)
        and rule.chain in (None, operator.chain)
        and (rule.delegate is None or fnmatchcase(_delegate_of(operator) or "", rule.delegate))
        and (rule.delegate is None or _delegate_of(operator) is not None)
    ]
    nothing = f"no event matches {event!r} in block {rule.block!r}"
    text = f"{event} in {rule.block}"
    if rule.per == "execution":
        rows = [operator.rows for operator in found]
        targets = _summed(rule, times, np.sort(np.concatenate(rows)), event) if rows else []
        return targets, f"all {text}", event, nothing
    targets = []
    for operator in found:
        if rule.executions == "all" or getattr(operator, rule.executions) is not None:
            measure = partial(_measure_operator, operator, rule, times)
            name, clock = subject_of_operator(operator), operator.clock
            targets.append(LimitTarget(name, operator.block, clock, measure))
    if found and not targets:
        nothing = f"no {rule.executions} execution has {event!r} in block {rule.block!r}"
    return targets, text, event, nothing


def _measure_operator(
    operator: Operator, rule: TimeRule, times: Durations, statistic: str, unit: str
) -> float | None:
    if operator.unknown:
        return None
    if rule.executions == "all":
        summary = operator.ns if unit in UNITS else operator.ticks
        return None if summary is None else getattr(summary, statistic) / UNITS.get(unit, 1.0)
    summary = operator.cold if rule.executions == "cold" else operator.warm
    if summary is not None and operator.ns is not None and unit in UNITS:
        return float(getattr(summary, statistic)) / UNITS[unit]
    # These summaries are in ticks only where the rate is unknown.
    values = times.values(operator.rows, rule.executions)
    return None if values is None else values.measure(statistic, unit)


def subject_of_operator(operator: Operator | Metric) -> str:
    """Name an operator so that it can be found: name, instruction and what else sets it apart."""
    parts = [operator.name or "(no name)", f"instruction {operator.instruction}"]
    if operator.delegate_int != -1:
        parts.append(f"delegate {operator.delegate_int}")
    if operator.delegate_str is not None:
        parts.append(f"delegate {operator.delegate_str}")
    return ", ".join(parts)


def _delegate_of(operator: Operator) -> str | None:
    """The delegate's debug id as text; None for what is of no delegate."""
    if operator.delegate_str is not None:
        return operator.delegate_str
    return None if operator.delegate_int == -1 else str(operator.delegate_int)


def _summed(rule: TimeRule, times: Durations, rows: np.ndarray, name: str) -> list[LimitTarget]:
    """One target for the sums of rows in each execution, for each name of blocks."""
    found = times.sums(rows, rule.executions)
    return [
        LimitTarget(f"{name} in {block}", block, values.clock, values.measure)
        for block, values in found.items()
        if fnmatchcase(block, rule.block)
    ]


def _modules(rule: ModuleLimit, times: Durations) -> _Matched:
    pattern = rule.module or ""
    text = f"module {pattern or '(the model)'} in {rule.block}"
    if times.subject.symbols is None:
        return [], text, pattern, "modules are known from an ETRecord only: name it with --etrecord"
    targets = [
        LimitTarget(stack[-1].path or "(the model)", block, values.clock, values.measure)
        for (stack, block), values in times.modules(rule.executions).items()
        if stack and fnmatchcase(stack[-1].path, pattern) and fnmatchcase(block, rule.block)
    ]
    return targets, text, pattern, f"no module matches {pattern!r} in block {rule.block!r}"


def _delegates(rule: DelegateLimit, times: Durations) -> _Matched:
    calls, pattern = times.calls(), rule.backend or ""
    targets = [
        target
        for backend, rows in calls.items()
        if fnmatchcase(backend, pattern)
        for target in _summed(rule, times, rows, backend)
    ]
    nothing = f"no calls of a backend that matches {pattern!r} in block {rule.block!r}"
    if not calls:
        nothing += ", nor of any that is known by name"
    return targets, f"calls of {pattern} in {rule.block}", pattern, nothing


def _blocks(rule: BlockLimit, times: Durations) -> _Matched:
    targets = _summed(rule, times, times.outermost(), "all events")
    return targets, f"block {rule.block}", rule.block, f"no block matches {rule.block!r}"


_MATCHING: Final[dict[type[TimeRule], Callable[..., _Matched]]] = {
    TimeLimit: _operators,
    ModuleLimit: _modules,
    DelegateLimit: _delegates,
    BlockLimit: _blocks,
}


_Ints = npt.NDArray[np.int64]


_Floats = npt.NDArray[np.float64]


_STATISTICS: Final = {
    "count": len,
    "total": np.sum,
    "avg": np.mean,
    "min": np.min,
    "max": np.max,
    "std": np.std,
    "p10": lambda values: np.percentile(values, 10),
    "p50": lambda values: np.percentile(values, 50),
    "p90": lambda values: np.percentile(values, 90),
}


@dataclass(frozen=True, slots=True, eq=False)
class LimitedValues:
    """Some times, at least one.

    Attributes:
        ns: In nanoseconds, shape (n,); None where the rate of a clock or a duration is unknown.
        ticks: In ticks, same shape; None where they are of several clocks, or one is unknown.
        clock: The clock of these ticks.
    """

    ns: _Floats | None
    ticks: _Floats | None
    clock: ClockDomain | None

    def measure(self, statistic: str, unit: str) -> float | None:
        """A statistic of them; None where it cannot be told in this unit."""
        values = self.ticks if unit in ("ticks", "count") else self.ns
        if unit == "count" and values is None:
            values = self.ns
        if values is None:
            return None
        function: Any = _STATISTICS[statistic]
        return float(function(values)) / UNITS.get(unit, 1.0)


class Durations:
    """What each event of a subject took, in which block."""

    def __init__(self, subject: Subject) -> None:
        self.subject, self.trace = subject, subject.trace
        self._sums: dict[tuple[str, Executions], dict[str, LimitedValues]] = {}

    @cached_property
    def ticks(self) -> Ticks:
        """Ticks of every event, shape (n,)."""
        return durations(self.trace)

    @cached_property
    def ns(self) -> _Floats:
        """Nanoseconds of every event, nan where rate or duration is unknown, shape (n,)."""
        found = event_nanoseconds(self.trace, self.ticks)
        found[self.unknown] = np.nan
        return found

    @cached_property
    def unknown(self) -> npt.NDArray[np.bool_]:
        """Events that nobody knows the duration of, shape (n,)."""
        return ends_before_start(self.trace)

    @cached_property
    def orders(self) -> _Ints:
        """The block of every event, shape (n,)."""
        return block_numbers(self.trace)

    def blocks(self, executions: Executions) -> npt.NDArray[np.bool_]:
        """Which blocks are meant, shape (blocks,)."""
        return self._blocks[executions]

    @cached_property
    def _blocks(self) -> dict[str, npt.NDArray[np.bool_]]:
        runs = self.subject.runs
        cold = np.array([run.cold for run in runs], np.bool_)
        executed = np.array([run.executes for run in runs], np.bool_)
        return {"all": np.ones(len(runs), np.bool_), "cold": cold, "warm": executed & ~cold}

    def values(self, rows: _Ints, executions: Executions) -> LimitedValues | None:
        """Times of single events; None where there are none in these executions."""
        rows = rows[self.blocks(executions)[self.orders[rows]]]
        return None if not len(rows) else self._values(rows, np.arange(len(rows)))

    def sums(self, rows: _Ints, executions: Executions) -> dict[str, LimitedValues]:
        """Sums of events in each block that has any of them, by the name of the blocks."""
        rows = rows[self.blocks(executions)[self.orders[rows]]]
        names, of_event = self._names_of_blocks
        found = {}
        for number in dict.fromkeys(of_event[rows].tolist()):
            mine = rows[of_event[rows] == number]
            _, place = np.unique(self.orders[mine], return_inverse=True)
            found[names[number]] = self._values(mine, place)
        return found

    @cached_property
    def _names_of_blocks(self) -> tuple[list[str], _Ints]:
        return block_names(self.trace)

    def sums_of(self, name: str, executions: Executions) -> dict[str, LimitedValues]:
        """Sums of the events of a name, as ``sums``; computed once."""
        key = name, executions
        if key not in self._sums:
            self._sums[key] = self.sums(self.named(name), executions)
        return self._sums[key]

    def _values(self, rows: _Ints, place: _Ints) -> LimitedValues:
        """Values number ``place`` that are the sums of these rows."""
        if self.unknown[rows].any():
            return LimitedValues(None, None, None)
        ns = np.bincount(place, self.ns[rows]).astype(np.float64)
        known = None if np.isnan(ns).any() else ns
        numbers = np.unique(self.trace.clock[rows])
        if len(numbers) > 1:
            return LimitedValues(known, None, None)
        ticks = np.bincount(place, self.ticks[rows].astype(np.float64)).astype(np.float64)
        return LimitedValues(known, ticks, self.trace.clocks[int(numbers[0])])

    def named(self, name: str) -> _Ints:
        """Rows of the profile events of a name."""
        numbers = [number for number, text in enumerate(self.trace.names) if text == name]
        return np.flatnonzero((self.trace.kind == Kind.PROFILE) & np.isin(self.trace.name, numbers))

    def outermost(self) -> _Ints:
        """Rows of the profile events that are within no other."""
        return np.flatnonzero((self.trace.kind == Kind.PROFILE) & (self.subject.tree.depth == 0))

    def calls(self) -> dict[str, _Ints]:
        """Rows of the calls of delegates, by the name of their backend, as far as it is known."""
        found: dict[str, list[int]] = {}
        for row in self.named(DELEGATE_CALL).tolist():
            known = self.subject.symbols[row] if self.subject.symbols is not None else None
            key = int(self.trace.chain[row]), int(self.trace.instruction[row])
            backend = self.subject.backends.get(key)
            if known is not None and known.backend is not None:
                backend = known.backend
            if backend is not None:
                found.setdefault(backend, []).append(row)
        return {backend: np.array(rows, np.int64) for backend, rows in found.items()}

    def modules(self, executions: Executions) -> dict[tuple[Stack, str], LimitedValues]:
        """Times of each module in each execution, by module and name of the blocks.

        Raises:
            ValueError: The subject has no symbols.
        """
        if self.subject.symbols is None:
            raise ValueError("modules need symbols")
        chosen = self.blocks(executions)
        found: dict[tuple[Stack, str], LimitedValues] = {}
        by_block = module_times_by_block(self.trace, self.subject.symbols, self.ns)
        for stack, times in by_block.items():
            grouped: dict[str, list[float]] = {}
            for order, time in times.items():
                if chosen[order]:
                    grouped.setdefault(self.trace.blocks[order].name, []).append(time)
            for block, sums in grouped.items():
                ns = np.array(sums)
                found[stack, block] = LimitedValues(None if np.isnan(ns).any() else ns, None, None)
        return found
