"""Verdict: a trace held against a budget, every rule with its reason."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from fnmatch import fnmatchcase

from harness.check.budget import AllocatorLimit, Budget, StackLimit, TimeLimit
from harness.trace import Stack, Trace
from harness.view.allocators import AllocatorTotals, allocator_totals
from harness.view.statistics import Operator, operator_statistics


@dataclass(frozen=True, slots=True)
class Check:
    """One rule, applied to one thing it matches.

    Attributes:
        rule: The rule, as text.
        subject: What it was applied to.
        measured: The value found, or None when there was none to find.
        limit: The largest value that passes.
        unit: Of both: ``us``, ``ticks``, ``repeats``, ``bytes``, ``failures``, ``events`` or
            ``declarations``.
        passed: Whether it holds.
        reason: Why it does or does not, in a sentence.
    """

    rule: str
    subject: str
    measured: float | None
    limit: float
    unit: str
    passed: bool
    reason: str


@dataclass(frozen=True, slots=True)
class Verdict:
    """All checks of one budget."""

    checks: tuple[Check, ...]

    @property
    def passed(self) -> bool:
        """True when every check holds."""
        return all(check.passed for check in self.checks)

    @property
    def failures(self) -> tuple[Check, ...]:
        """The checks that do not hold."""
        return tuple(check for check in self.checks if not check.passed)


def evaluate(budget: Budget, trace: Trace) -> Verdict:
    """Apply every rule of ``budget`` to ``trace``.

    A rule that matches nothing fails: a limit that guards nothing is a mistake in the budget, or an
    event that is no longer logged.
    """
    operators = operator_statistics(trace)
    allocators = allocator_totals(trace)
    checks: list[Check] = []
    for time in budget.time:
        checks += _time_checks(time, operators)
    for allocator in budget.allocator:
        checks += _allocator_checks(allocator, allocators)
    if budget.stack is not None:
        checks += _stack_checks(budget.stack, trace.stacks)
    for what, lost, allowed in (
        ("events", trace.losses.events, budget.losses.events),
        ("declarations", trace.losses.blocks, budget.losses.blocks),
    ):
        checks.append(_compare(f"dropped {what}", "log", lost, allowed, what))
    if trace.losses.values:
        lost = trace.losses.values
        checks.append(_compare("dropped values", "log", lost, budget.losses.values, "values"))
    if budget.losses.runs is not None:
        lost = trace.losses.runs
        checks.append(_compare("dropped runs", "log", lost, budget.losses.runs, "runs"))
    if trace.losses.chunks:
        lost = trace.losses.records
        checks.append(_compare("missing records", "log", lost, budget.losses.records, "records"))
    if trace.losses.damaged:
        lost = trace.losses.damaged
        checks.append(_compare("damaged events", "log", lost, budget.losses.damaged, "events"))
    return Verdict(tuple(checks))


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
        yield _guards_nothing(text, rule.event, limit, unit, reason)
    for operator in matches:
        subject = _subject(operator)
        if unit == "us" and operator.ns is None:
            reason = f"the rate of clock {operator.clock.name!r} is unknown: use limit_ticks"
            yield Check(text, subject, None, limit, unit, False, reason)
        else:
            yield _compare(text, subject, _measure(operator, rule.statistic, unit), limit, unit)


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
        yield _guards_nothing(text, rule.name, rule.limit_bytes, "bytes", reason)
    for item in matches:
        if not item.count and not item.failures:
            reason = f"no allocation from {item.label!r} was logged"
            yield _guards_nothing(text, item.label, rule.limit_bytes, "bytes", reason)
            continue
        yield _compare(text, item.label, item.peak_bytes, rule.limit_bytes, "bytes")
        if item.failures:
            failures = f"failures of allocator {rule.name}"
            yield _compare(failures, item.label, item.failures, 0, "failures")


def _stack_checks(rule: StackLimit, stacks: Sequence[Stack]) -> Iterator[Check]:
    text, limit, unit = "deepest stack", rule.limit_bytes, "bytes"
    if not stacks:
        reason = "the board does not say how much of its stack is used"
        yield _guards_nothing(text, "stack", limit, unit, reason)
    for stack in stacks:
        subject = f"stack of tracer {stack.tracer}"
        if stack.overflowed:
            reason = f"all {stack.size:,} bytes have been used: it may have overflowed"
            yield Check(text, subject, float(stack.used), float(limit), unit, False, reason)
        else:
            yield _compare(text, subject, stack.used, limit, unit)


def _guards_nothing(rule: str, subject: str, limit: float, unit: str, why: str) -> Check:
    return Check(rule, subject, None, limit, unit, False, f"{why}: a limit that guards nothing")


def _compare(rule: str, subject: str, measured: float, limit: float, unit: str) -> Check:
    passed = measured <= limit
    relation = "is within" if passed else "exceeds"
    reason = f"{_number(measured)} {unit} {relation} the limit of {_number(limit)} {unit}"
    return Check(rule, subject, float(measured), float(limit), unit, passed, reason)


def _number(value: float) -> str:
    """Up to three decimals, thousands apart, no trailing zeros."""
    text = f"{value:,.3f}"
    return text.rstrip("0").rstrip(".")
