"""Compares a subject with the limits of a budget; every limit gives at least one check."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from fnmatch import fnmatchcase
from functools import partial
from typing import Final

import msgspec
import numpy as np

from harness.check.budget import Budget, each_rule
from harness.check.history.settings import HistoryOverride
from harness.check.limits.counters import counter_checks
from harness.check.limits.durations import Durations
from harness.check.limits.energy import energy_checks
from harness.check.limits.times import Cite, at_most, failed_limit, time_checks, unmatched_limit
from harness.check.rules import (
    AllocatorLimit,
    ArenaLimit,
    CodeLimit,
    CounterLimit,
    EnergyLimit,
    LossLimit,
    StackLimit,
    TimeRule,
    TraceLimit,
    Waiver,
)
from harness.check.subject import Subject
from harness.records.trace import EXECUTION, Kind, Trace
from harness.records.verdict import Check, check


def limit_checks(budget: Budget, subject: Subject) -> Iterator[tuple[Waiver, Check]]:
    """Apply every limit of ``budget`` to ``subject`` and yield each check with its rule.

    A limit that matches nothing fails unless it is optional: either the budget is wrong, or the
    event is no longer logged.
    """
    times = Durations(subject)
    for index, override in enumerate(budget.history.override):
        cited = budget.source("history", "override", index)
        if not override.optional and not _overrides(override, subject):
            reason = f"no operator matches {override.event!r} in block {override.block!r}"
            rule_text = f"override of [history] for {override.event}"
            yield Waiver(), _unmatched_override(rule_text, override.event, reason, cited)
    for keys, rule in each_rule(budget):
        for found in _checks(rule, subject, times, partial(budget.source, *keys)):
            yield rule, found


def _overrides(override: HistoryOverride, subject: Subject) -> bool:
    return any(
        fnmatchcase(op.name, override.event) and fnmatchcase(op.block, override.block)
        for op in subject.operators
    )


def _unmatched_override(rule: str, pattern: str, why: str, source: str) -> Check:
    reason = f"{why}: the override matches nothing"
    return check("B01", rule=rule, subject=pattern, passed=False, reason=reason, source=source)


def _checks(rule: Waiver, subject: Subject, times: Durations, cite: Cite) -> Iterator[Check]:
    if isinstance(rule, TimeRule):
        yield from time_checks(rule, times, cite)
        return
    if isinstance(rule, CounterLimit):
        yield from counter_checks(rule, times, cite)
        return
    for class_, function in _CHECKS.items():
        if isinstance(rule, class_):
            yield from function(rule, subject, cite)


FULL_LOG_HINT: Final = "use --stream"
"""How a run gets a complete log that does not fit on the device."""


def full_log(trace: Trace, requested: int | None = None) -> str:
    """Return when the log was full, such as ``full in execution 7 of 20``; "" if it was not.

    Args:
        trace: The trace.
        requested: Number of executions that the run asked for, if known.
    """
    if not trace.full:
        return ""
    number = trace.names.index(EXECUTION) if EXECUTION in trace.names else len(trace.names)
    executions = trace.tracer[(trace.kind == Kind.PROFILE) & (trace.name == number)]
    done = min(int(np.count_nonzero(executions == tracer)) for tracer in trace.full)
    of = "" if requested is None else f" of {requested:,}"
    if requested is not None and done >= requested:
        return f"full after execution {done:,}{of}"
    if not done and len(trace.blocks) < 2:
        return "full while the model was loaded"
    return f"full in execution {done + 1:,}{of}"


def _loss_checks(allowed: LossLimit, subject: Subject, cite: Cite) -> Iterator[Check]:
    losses = subject.trace.losses
    full = full_log(subject.trace, subject.runs_requested)

    def loss(field: str, rule: str, lost: int, unit: str) -> Check:
        found = at_most("B05", rule, "log", lost, getattr(allowed, field), unit, cite(field))
        if full and not found.passed and field in ("events", "blocks"):
            reason = f"{found.reason}: the log was {full}; {FULL_LOG_HINT}"
            return msgspec.structs.replace(found, reason=reason)
        return found

    yield loss("events", "dropped events", losses.events, "events")
    yield loss("blocks", "dropped declarations", losses.blocks, "declarations")
    if losses.values:
        yield loss("values", "dropped values", losses.values, "values")
    if allowed.runs is not None:
        yield loss("runs", "dropped runs", losses.runs, "runs")
    if losses.chunks or losses.records:
        yield loss("records", "missing records", losses.records, "records")
    if losses.damaged:
        yield loss("damaged", "damaged events", losses.damaged, "events")


def _allocator_checks(rule: AllocatorLimit, subject: Subject, cite: Cite) -> Iterator[Check]:
    pattern = rule.name or ""
    sizes = [
        ("limit_bytes", f"peak bytes of allocator {pattern}", "peak_bytes"),
        ("limit_total_bytes", f"final bytes of allocator {pattern}", "total_bytes"),
    ]
    sizes = [item for item in sizes if getattr(rule, item[0]) is not None]
    first = getattr(rule, sizes[0][0]) if sizes else 0
    text = sizes[0][1] if sizes else f"allocator {pattern}"
    matches = [item for item in subject.allocators if fnmatchcase(item.label, pattern)]
    if not matches and not rule.optional:
        reason = f"no allocator matches {pattern!r}"
        yield unmatched_limit("B02", text, pattern, first, "bytes", reason, cite("limit_bytes"))
    for item in matches:
        if not item.count and not item.failures:
            if not rule.optional:
                reason = f"no allocation from {item.label!r} was logged"
                cited = cite("limit_bytes")
                yield unmatched_limit("B02", text, item.label, first, "bytes", reason, cited)
            continue
        for field, title, attribute in sizes:
            measured, limit = getattr(item, attribute), getattr(rule, field)
            yield at_most("B02", title, item.label, measured, limit, "bytes", cite(field))
        if item.failures or rule.limit_failures:
            title, limit = f"failed allocations of allocator {pattern}", rule.limit_failures
            cited = cite("limit_failures")
            yield at_most("B03", title, item.label, item.failures, limit, "failures", cited)
        if rule.limit_failed_bytes is not None:
            title, limit = f"bytes that allocator {pattern} refused", rule.limit_failed_bytes
            cited = cite("limit_failed_bytes")
            yield at_most("B03", title, item.label, item.failed_bytes, limit, "bytes", cited)


def _stack_checks(rule: StackLimit, subject: Subject, cite: Cite) -> Iterator[Check]:
    stacks = subject.trace.stacks
    for limit, unit, cited in _share_limits(rule, cite):
        if not stacks and not rule.optional:
            reason = "the board does not report its stack use"
            yield unmatched_limit("B04", "peak stack use", "stack", limit, unit, reason, cited)
        for stack in stacks:
            name = f"stack of tracer {stack.tracer}"
            used = float(stack.used)
            if unit == "percent":
                used = 100 * stack.used / stack.size if stack.size else 0.0
            if stack.overflowed:
                reason = f"all {stack.size:,} bytes were used: the stack may have overflowed"
                yield failed_limit("B04", "peak stack use", name, used, limit, unit, reason, cited)
            elif unit == "percent" and not stack.size:
                reason = "the board does not report the size of its stack"
                yield failed_limit("B04", "peak stack use", name, None, limit, unit, reason, cited)
            else:
                yield at_most("B04", "peak stack use", name, used, limit, unit, cited)


def _trace_checks(rule: TraceLimit, subject: Subject, cite: Cite) -> Iterator[Check]:
    unknown = "the log size is known only for run directories"
    sizes = subject.log_bytes, subject.trace_capacity
    yield from _size_checks("B10", "log size", "log", rule, sizes, unknown, cite)


def _arena_checks(rule: ArenaLimit, subject: Subject, cite: Cite) -> Iterator[Check]:
    unknown = "the model's arena use is known only for run directories"
    sizes = subject.arena_used, subject.arena_capacity
    yield from _size_checks("B12", "arena use of the model", "arena", rule, sizes, unknown, cite)


def _size_checks(
    code: str,
    text: str,
    name: str,
    rule: TraceLimit | ArenaLimit,
    sizes: tuple[int | None, int | None],
    unknown: str,
    cite: Cite,
) -> Iterator[Check]:
    used, capacity = sizes
    for limit, unit, cited in _share_limits(rule, cite):
        if used is None or (unit == "percent" and not capacity):
            if not rule.optional:
                yield unmatched_limit(code, text, name, limit, unit, unknown, cited)
        elif unit == "percent" and capacity:
            yield at_most(code, text, name, 100 * used / capacity, limit, unit, cited)
        else:
            yield at_most(code, text, name, used, limit, unit, cited)


def _share_limits(
    rule: StackLimit | TraceLimit | ArenaLimit, cite: Cite
) -> Iterator[tuple[float, str, str]]:
    """Yield each limit, its unit, and its source line."""
    for unit, limit in (("bytes", rule.limit_bytes), ("percent", rule.limit_percent)):
        if limit is not None:
            yield float(limit), unit, cite(f"limit_{unit}")


def _code_checks(rule: CodeLimit, subject: Subject, cite: Cite) -> Iterator[Check]:
    for part, sections in rule.PARTS.items():
        field = f"limit_{part}_bytes"
        limit = getattr(rule, field)
        if limit is None:
            continue
        text, name = f"{part} size of the firmware", " + ".join(sections)
        if subject.image:
            size = sum(subject.image[section] for section in sections)
            yield at_most("B11", text, name, size, limit, "bytes", cite(field))
        elif not rule.optional:
            reason = "firmware size is known only for runs that built the firmware"
            yield unmatched_limit("B11", text, name, limit, "bytes", reason, cite(field))


_CHECKS: dict[type[Waiver], Callable[..., Iterator[Check]]] = {
    EnergyLimit: energy_checks,
    AllocatorLimit: _allocator_checks,
    StackLimit: _stack_checks,
    TraceLimit: _trace_checks,
    ArenaLimit: _arena_checks,
    CodeLimit: _code_checks,
    LossLimit: _loss_checks,
}
