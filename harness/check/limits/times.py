"""Limits on times of operators, their sums, modules, delegates and blocks."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from fnmatch import fnmatchcase
from functools import partial
from typing import Final, NamedTuple

import numpy as np

from harness.analyze.statistics import Operator
from harness.check.history.samples import Metric
from harness.check.limits.durations import Durations, LimitedValues
from harness.check.rules import (
    UNITS,
    BlockLimit,
    CounterLimit,
    DelegateLimit,
    ModuleLimit,
    TimeLimit,
    TimeRule,
)
from harness.check.subject import Subject
from harness.records.clock_domain import ClockDomain
from harness.records.signature import Signature
from harness.records.trace import EXECUTION
from harness.records.verdict import Check, check

UNIT_NAMES = {"percent": "%", "count": "repeats"}
"""Units as shown in checks, where they differ from the field names of rules."""


def at_most(
    code: str, rule: str, subject: str, measured: float, limit: float, unit: str, source: str = ""
) -> Check:
    """Return the check of an upper limit."""
    passed = measured <= limit
    relation = "is within the limit" if passed else "exceeds the limit"
    return _compared(code, rule, subject, measured, limit, unit, source, passed, relation)


def at_least(
    code: str, rule: str, subject: str, measured: float, limit: float, unit: str, source: str = ""
) -> Check:
    """Return the check of a lower limit."""
    passed = measured >= limit
    relation = "meets the lower limit" if passed else "is below the lower limit"
    return _compared(code, rule, subject, measured, limit, unit, source, passed, relation)


def unmatched_limit(
    code: str, rule: str, subject: str, limit: float, unit: str, why: str, source: str = ""
) -> Check:
    """Return the failed check of a limit that matches nothing in the trace."""
    reason = f"{why}: the limit matches nothing"
    return failed_limit(code, rule, subject, None, limit, unit, reason, source)


def failed_limit(
    code: str,
    rule: str,
    subject: str,
    measured: float | None,
    limit: float,
    unit: str,
    reason: str,
    source: str = "",
) -> Check:
    """Return a failed check, whatever was measured."""
    return check(
        code,
        rule=rule,
        subject=subject,
        measured=measured,
        limit=float(limit),
        unit=UNIT_NAMES.get(unit, unit),
        passed=False,
        reason=reason,
        source=source,
    )


def _compared(
    code: str,
    rule: str,
    subject: str,
    measured: float,
    limit: float,
    unit: str,
    source: str,
    passed: bool,
    relation: str,
) -> Check:
    unit = UNIT_NAMES.get(unit, unit)
    return check(
        code,
        rule=rule,
        subject=subject,
        measured=float(measured),
        limit=float(limit),
        unit=unit,
        passed=passed,
        reason=f"{_number(measured)} {unit} {relation} of {_number(limit)} {unit}",
        source=source,
    )


def _number(value: float) -> str:
    """Format with up to three decimals and thousands separators, without trailing zeros."""
    text = f"{value:,.3f}"
    return text.rstrip("0").rstrip(".")


Cite = Callable[[str], str]
"""Returns the source line of a field of a rule; "" is the rule itself."""

_CODES: Final[dict[type[TimeRule], str]] = {
    TimeLimit: "B01",
    ModuleLimit: "B07",
    DelegateLimit: "B08",
    BlockLimit: "B09",
}
_LOWER_LIMIT_CODE: Final = "B06"


class LimitTarget(NamedTuple):
    """Something that a rule matches.

    Attributes:
        name: Subject of the check.
        block: Name of its blocks.
        clock: Its clock; None for several.
        measure: Returns a statistic in a unit; None if the rate of a clock is unknown, or, for
            ticks, with several clocks.
    """

    name: str
    block: str
    clock: ClockDomain | None
    measure: Callable[[str, str], float | None]


def time_checks(rule: TimeRule, times: Durations, cite: Cite) -> Iterator[Check]:
    """Yield a check for everything that a rule matches, per limit of the rule.

    Args:
        rule: One of the rules on times.
        times: Durations of the subject.
        cite: Returns the source line of a field; "" is the rule.
    """
    targets, text, name, unmatched = matching(rule, times)
    which = "" if rule.executions == "all" else f"{rule.executions} "
    text = f"{rule.statistic} of {which}{text}"
    for field, limit, unit in rule.limits():
        upper = field.startswith("limit")
        code = _CODES[type(rule)] if upper else _LOWER_LIMIT_CODE
        title = text if upper else f"lower limit of {text}"
        if unit == "percent":
            title = f"{title}, relative to {rule.of or EXECUTION}"
        if not targets and not rule.optional:
            yield unmatched_limit(code, title, name, limit, unit, unmatched, cite(field))
        for target in targets:
            measured = _measure(rule, target, unit, times)
            if isinstance(measured, str):
                reason = measured
                yield failed_limit(code, title, target.name, None, limit, unit, reason, cite(field))
            else:
                compare = at_most if upper else at_least
                yield compare(code, title, target.name, measured, limit, unit, cite(field))


def _measure(rule: TimeRule, target: LimitTarget, unit: str, times: Durations) -> float | str:
    """Return the statistic in the unit of a limit, or the reason why it is unknown."""
    if unit != "percent":
        measured = target.measure(rule.statistic, unit)
        return _unknown_reason(target, unit, times) if measured is None else measured
    whole = rule.of or EXECUTION
    found = times.sums_of(whole, rule.executions).get(target.block)
    if found is None:
        return f"block {target.block!r} has no {whole!r} event to compare with"
    of: LimitedValues = found
    for base in ("ns", "ticks"):
        if base == "ticks" and target.clock != of.clock:
            continue
        part, hundred = target.measure(rule.statistic, base), of.measure(rule.statistic, base)
        if part is not None and hundred:
            return 100 * part / hundred
    return f"not comparable with {whole!r}: a clock rate is unknown, or {whole!r} took no time"


def _unknown_reason(target: LimitTarget, unit: str, times: Durations) -> str:
    if times.unknown.any():
        return "events end before they start, so their duration is unknown: see I03 and I04"
    if unit == "ticks":
        return "the events are on several clocks: use a limit in ns, us or ms"
    if target.clock is None:
        return "the rate of a clock is unknown"
    return f"the rate of clock {target.clock.name!r} is unknown: use limit_ticks"


_Matched = tuple[list[LimitTarget], str, str, str]
"""The targets of a rule, its title, its pattern, and the reason given if nothing matches."""


def matching(rule: TimeRule, times: Durations) -> _Matched:
    """Return what a rule matches."""
    return _MATCHING[type(rule)](rule, times)


def selected_operators(rule: TimeLimit | CounterLimit, subject: Subject) -> list[Operator]:
    """Return the operators that a rule selects, in order of first occurrence."""
    event = rule.event or ""
    patterns = (rule.leaving_out,) if isinstance(rule.leaving_out, str) else rule.leaving_out
    return [
        operator
        for operator in subject.operators
        if fnmatchcase(operator.name, event)
        and fnmatchcase(operator.block, rule.block)
        and not any(fnmatchcase(operator.name, pattern) for pattern in patterns)
        and rule.instruction in (None, operator.instruction)
        and rule.chain in (None, operator.chain)
        and (rule.delegate is None or fnmatchcase(_delegate_of(operator) or "", rule.delegate))
        and (rule.delegate is None or _delegate_of(operator) is not None)
    ]


def _operators(rule: TimeLimit, times: Durations) -> _Matched:
    event = rule.event or ""
    found = selected_operators(rule, times.subject)
    unmatched = f"no event matches {event!r} in block {rule.block!r}"
    text = f"{event} in {rule.block}"
    if rule.per == "execution":
        rows = [operator.rows for operator in found]
        targets = _summed(rule, times, np.sort(np.concatenate(rows)), event) if rows else []
        return targets, f"all {text}", event, unmatched
    targets = []
    for operator in found:
        if rule.executions == "all" or getattr(operator, rule.executions) is not None:
            measure = partial(_measure_operator, operator, rule, times)
            name, clock = subject_of_operator(operator), operator.clock
            targets.append(LimitTarget(name, operator.block, clock, measure))
    if found and not targets:
        unmatched = f"no {rule.executions} execution has {event!r} in block {rule.block!r}"
    return targets, text, event, unmatched


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
    # These summaries are in ticks only if the rate is unknown.
    values = times.values(operator.rows, rule.executions)
    return None if values is None else values.measure(statistic, unit)


def subject_of_operator(operator: Signature | Metric) -> str:
    """Return the name, the instruction and the delegate ids of an operator as text."""
    parts = [operator.name or "(no name)", f"instruction {operator.instruction}"]
    if operator.delegate_int != -1:
        parts.append(f"delegate {operator.delegate_int}")
    if operator.delegate_str is not None:
        parts.append(f"delegate {operator.delegate_str}")
    return ", ".join(parts)


def _delegate_of(operator: Operator) -> str | None:
    """Return the delegate's debug id as text; None without a delegate."""
    if operator.delegate_str is not None:
        return operator.delegate_str
    return None if operator.delegate_int == -1 else str(operator.delegate_int)


def _summed(rule: TimeRule, times: Durations, rows: np.ndarray, name: str) -> list[LimitTarget]:
    """Return a target per block name, with the sum of ``rows`` in each execution."""
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
        return [], text, pattern, "modules are known only from an ETRecord (--etrecord)"
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
    unmatched = f"no called backend matches {pattern!r} in block {rule.block!r}"
    if not calls:
        unmatched += " (no backend name is known)"
    return targets, f"calls of {pattern} in {rule.block}", pattern, unmatched


def _blocks(rule: BlockLimit, times: Durations) -> _Matched:
    targets = _summed(rule, times, times.outermost(), "all events")
    return targets, f"block {rule.block}", rule.block, f"no block matches {rule.block!r}"


_MATCHING: Final[dict[type[TimeRule], Callable[..., _Matched]]] = {
    TimeLimit: _operators,
    ModuleLimit: _modules,
    DelegateLimit: _delegates,
    BlockLimit: _blocks,
}
