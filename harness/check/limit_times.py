"""Limits on times: of operators, their sums, modules, delegates and blocks."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from fnmatch import fnmatchcase
from functools import partial
from typing import Final, NamedTuple

import numpy as np

from harness.check.checks import Check
from harness.check.durations import Durations, Values
from harness.check.history.samples import Metric
from harness.check.limit_check import guards_nothing, reaches, unmet, within
from harness.check.rules import (
    UNITS,
    BlockLimit,
    DelegateLimit,
    ModuleLimit,
    TimeLimit,
    TimeRule,
)
from harness.timebase import ClockDomain
from harness.trace import EXECUTION
from harness.view.statistics import Operator

Cite = Callable[[str], str]
"""Where a field of a rule stands in its file."""

_CODES: Final[dict[type[TimeRule], str]] = {
    TimeLimit: "B01",
    ModuleLimit: "B07",
    DelegateLimit: "B08",
    BlockLimit: "B09",
}
_TOO_QUICK: Final = "B06"


class Target(NamedTuple):
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


def _measure(rule: TimeRule, target: Target, unit: str, times: Durations) -> float | str:
    """The statistic in the unit of a limit, or why there is none."""
    if unit != "percent":
        measured = target.measure(rule.statistic, unit)
        return _untold(target, unit, times) if measured is None else measured
    whole = rule.of or EXECUTION
    found = times.sums_of(whole, rule.executions).get(target.block)
    if found is None:
        return f"there is no {whole!r} in block {target.block!r} to be a share of"
    of: Values = found
    for base in ("ns", "ticks"):
        if base == "ticks" and target.clock != of.clock:
            continue
        part, hundred = target.measure(rule.statistic, base), of.measure(rule.statistic, base)
        if part is not None and hundred:
            return 100 * part / hundred
    return f"it does not compare with {whole!r}: on a clock of unknown rate, or that took no time"


def _untold(target: Target, unit: str, times: Durations) -> str:
    if times.unknown.any():
        return "events end before they start, so what they took is unknown: see I03 and I04"
    if unit == "ticks":
        return "it is on several clocks: limit its time"
    if target.clock is None:
        return "the rate of a clock is unknown"
    return f"the rate of clock {target.clock.name!r} is unknown: use limit_ticks"


_Matched = tuple[list[Target], str, str, str]
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
            targets.append(Target(name, operator.block, clock, measure))
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


def _summed(rule: TimeRule, times: Durations, rows: np.ndarray, name: str) -> list[Target]:
    """One target for the sums of rows in each execution, for each name of blocks."""
    found = times.sums(rows, rule.executions)
    return [
        Target(f"{name} in {block}", block, values.clock, values.measure)
        for block, values in found.items()
        if fnmatchcase(block, rule.block)
    ]


def _modules(rule: ModuleLimit, times: Durations) -> _Matched:
    pattern = rule.module or ""
    text = f"module {pattern or '(the model)'} in {rule.block}"
    if times.subject.symbols is None:
        return [], text, pattern, "modules are known from an ETRecord only: name it with --etrecord"
    targets = [
        Target(stack[-1].path or "(the model)", block, values.clock, values.measure)
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
