"""A subject held against the limits of a budget, every limit with its reason."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from fnmatch import fnmatchcase

from harness.check.budget import AllocatorLimit, Budget, LossLimit, StackLimit, TimeLimit
from harness.check.checks import Check, check
from harness.check.subject import Subject
from harness.trace import Losses, Stack
from harness.view.allocators import AllocatorTotals
from harness.view.statistics import Operator


def limit_checks(budget: Budget, subject: Subject) -> Iterator[Check]:
    """Apply every limit of ``budget`` to ``subject``.

    A limit that matches nothing fails: one that guards nothing is a mistake in the budget, or an
    event that is no longer logged.
    """
    for time in budget.time:
        yield from _time_checks(time, subject.operators)
    for allocator in budget.allocator:
        yield from _allocator_checks(allocator, subject.allocators)
    if budget.stack is not None:
        yield from _stack_checks(budget.stack, subject.trace.stacks)
    yield from _loss_checks(budget.losses, subject.trace.losses)


def _loss_checks(allowed: LossLimit, losses: Losses) -> Iterator[Check]:
    yield _loss("dropped events", losses.events, allowed.events, "events")
    yield _loss("dropped declarations", losses.blocks, allowed.blocks, "declarations")
    if losses.values:
        yield _loss("dropped values", losses.values, allowed.values, "values")
    if allowed.runs is not None:
        yield _loss("dropped runs", losses.runs, allowed.runs, "runs")
    if losses.chunks:
        yield _loss("missing records", losses.records, allowed.records, "records")
    if losses.damaged:
        yield _loss("damaged events", losses.damaged, allowed.damaged, "events")


def _loss(rule: str, lost: int, allowed: int, unit: str) -> Check:
    return _compare("B05", rule, "log", lost, allowed, unit)


def _time_checks(rule: TimeLimit, operators: list[Operator]) -> Iterator[Check]:
    limit, unit = rule.limit
    text = f"{rule.statistic} of {rule.event} in {rule.block}"
    matches = [
        operator
        for operator in operators
        if fnmatchcase(operator.name, rule.event) and fnmatchcase(operator.block, rule.block)
    ]
    if not matches:
        reason = f"no event matches {rule.event!r} in block {rule.block!r}"
        yield _guards_nothing("B01", text, rule.event, limit, unit, reason)
    for operator in matches:
        subject = _subject(operator)
        if unit == "us" and operator.ns is None:
            reason = f"the rate of clock {operator.clock.name!r} is unknown: use limit_ticks"
            yield _unmet("B01", text, subject, None, limit, unit, reason)
        else:
            measured = _measure(operator, rule.statistic, unit)
            yield _compare("B01", text, subject, measured, limit, unit)


def _measure(operator: Operator, statistic: str, unit: str) -> float:
    if unit == "us" and operator.ns is not None:
        return float(getattr(operator.ns, statistic)) / 1000
    return float(getattr(operator.ticks, statistic))


def _subject(operator: Operator) -> str:
    """Name an operator so that it can be found: name, instruction and what else sets it apart."""
    parts = [operator.name or "(no name)", f"instruction {operator.instruction}"]
    if operator.delegate_int != -1:
        parts.append(f"delegate {operator.delegate_int}")
    if operator.delegate_str is not None:
        parts.append(f"delegate {operator.delegate_str}")
    return ", ".join(parts)


def _allocator_checks(rule: AllocatorLimit, allocators: list[AllocatorTotals]) -> Iterator[Check]:
    text = f"bytes of allocator {rule.name}"
    matches = [item for item in allocators if fnmatchcase(item.label, rule.name)]
    if not matches:
        reason = f"no allocator matches {rule.name!r}"
        yield _guards_nothing("B02", text, rule.name, rule.limit_bytes, "bytes", reason)
    for item in matches:
        if not item.count and not item.failures:
            reason = f"no allocation from {item.label!r} was logged"
            yield _guards_nothing("B02", text, item.label, rule.limit_bytes, "bytes", reason)
            continue
        yield _compare("B02", text, item.label, item.peak_bytes, rule.limit_bytes, "bytes")
        if item.failures:
            failures = f"failures of allocator {rule.name}"
            yield _compare("B03", failures, item.label, item.failures, 0, "failures")


def _stack_checks(rule: StackLimit, stacks: Sequence[Stack]) -> Iterator[Check]:
    text, limit, unit = "deepest stack", rule.limit_bytes, "bytes"
    if not stacks:
        reason = "the board does not say how much of its stack is used"
        yield _guards_nothing("B04", text, "stack", limit, unit, reason)
    for stack in stacks:
        subject = f"stack of tracer {stack.tracer}"
        if stack.overflowed:
            reason = f"all {stack.size:,} bytes have been used: it may have overflowed"
            yield _unmet("B04", text, subject, stack.used, limit, unit, reason)
        else:
            yield _compare("B04", text, subject, stack.used, limit, unit)


def _guards_nothing(code: str, rule: str, subject: str, limit: float, unit: str, why: str) -> Check:
    return _unmet(code, rule, subject, None, limit, unit, f"{why}: a limit that guards nothing")


def _unmet(
    code: str, rule: str, subject: str, measured: float | None, limit: float, unit: str, why: str
) -> Check:
    return check(
        code,
        rule=rule,
        subject=subject,
        measured=measured,
        limit=float(limit),
        unit=unit,
        passed=False,
        reason=why,
    )


def _compare(code: str, rule: str, subject: str, measured: float, limit: float, unit: str) -> Check:
    passed = measured <= limit
    relation = "is within" if passed else "exceeds"
    return check(
        code,
        rule=rule,
        subject=subject,
        measured=float(measured),
        limit=float(limit),
        unit=unit,
        passed=passed,
        reason=f"{_number(measured)} {unit} {relation} the limit of {_number(limit)} {unit}",
    )


def _number(value: float) -> str:
    """Up to three decimals, thousands apart, no trailing zeros."""
    text = f"{value:,.3f}"
    return text.rstrip("0").rstrip(".")
