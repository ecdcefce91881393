"""Compares a subject with the limits of a budget; every limit gives at least one check.

Limits are on times of operators, their sums, modules, delegates and blocks, on counts of hardware
counters, on energy, on memory, on the firmware, and on losses of the log.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from fnmatch import fnmatchcase
from functools import cached_property, partial
from typing import Any, Final, NamedTuple

import numpy as np
import numpy.typing as npt
from msgspec.structs import replace

from harness.analyze.blocks import FULL_LOG_HINT, block_names, block_numbers, executions, full_log
from harness.analyze.statistics import Executions, Operator
from harness.analyze.ticks import Ticks, durations, event_nanoseconds, unknown_durations
from harness.check.budget import (
    UNITS,
    AccuracyLimit,
    AllocatorLimit,
    ArenaLimit,
    BlockLimit,
    Budget,
    CodeLimit,
    CounterLimit,
    DelegateLimit,
    EnergyLimit,
    LossLimit,
    ModuleLimit,
    Rule,
    SampleLimit,
    StackLimit,
    TimeLimit,
    TimeRule,
    TraceLimit,
    Waiver,
    each_rule,
)
from harness.check.history.samples import HistoryOverride, Metric
from harness.check.subject import Subject
from harness.formatting import printable
from harness.plugins import INSPECTORS, load_extension
from harness.records.energy import OperatorEnergy
from harness.records.symbols import Stack
from harness.records.trace import DELEGATE_CALL, EXECUTION, NO_COUNT, ClockDomain, Kind, Signature
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
            matching_nothing = check(
                "B01",
                rule=f"override of [history] for {override.event}",
                subject=override.event,
                passed=False,
                reason=f"no operator matches {override.event!r} in block {override.block!r}: the "
                "override matches nothing",
                source=cited,
            )
            yield Waiver(), matching_nothing
    for keys, rule in each_rule(budget):
        if apply := _CHECKS.get(type(rule)):
            for found in apply(rule, times, partial(budget.source, *keys)):
                yield rule, found


def _overrides(override: HistoryOverride, subject: Subject) -> bool:
    return any(
        fnmatchcase(op.name, override.event) and fnmatchcase(op.block, override.block)
        for op in subject.operators
    )


UNIT_NAMES = {"percent": "%", "count": "repeats"}
"""Units as shown in checks, where they differ from the field names of rules."""


class _Limit(NamedTuple):
    """A limit of a rule.

    Attributes:
        draft: Its check, without what was checked and measured.
        unit: Unit of the limit, as in the names of fields.
        upper: Whether it is an upper limit.
    """

    draft: Check
    unit: str
    upper: bool

    def checks(
        self, rule: Rule, found: Iterable[tuple[str, float | str]], subject: str, unmatched: str
    ) -> Iterator[Check]:
        """Yield a check of everything that the limit applies to.

        Args:
            rule: Its rule.
            found: Each name with the measured value, or with the reason why that is unknown.
            subject: Names the limit if it matches nothing.
            unmatched: Why it matches nothing.
        """
        checks = [
            self.failed(name, measured) if isinstance(measured, str) else self.of(name, measured)
            for name, measured in found
        ]
        if not checks and not rule.optional:
            yield self.unmatched(subject, unmatched)
        yield from checks

    def of(self, subject: str, measured: float) -> Check:
        """Return the check of a measured value."""
        limit, unit = self.draft.limit or 0.0, self.draft.unit
        passed = measured <= limit if self.upper else measured >= limit
        many = len(unit) > 2 and unit.endswith("s")
        relation = {
            (True, True): "is within the limit",
            (True, False): "exceed the limit" if many else "exceeds the limit",
            (False, True): "meets the lower limit",
            (False, False): f"{'are' if many else 'is'} below the lower limit",
        }[self.upper, passed]
        reason = f"{_number(measured)} {unit} {relation} of {_number(limit)} {unit}"
        return replace(
            self.draft, subject=subject, measured=float(measured), passed=passed, reason=reason
        )

    def unmatched(self, subject: str, why: str) -> Check:
        """Return the failed check of a limit that matches nothing in the trace."""
        return self.failed(subject, f"{why}: the limit matches nothing")

    def failed(self, subject: str, reason: str, measured: float | None = None) -> Check:
        """Return a failed check, whatever was measured."""
        return replace(self.draft, subject=subject, measured=measured, reason=reason)


def _limit(
    code: str, rule: str, value: float, unit: str, source: str, *, upper: bool = True
) -> _Limit:
    """Return the limit of a rule, stated as text, at a line of a budget file."""
    draft = check(
        code,
        rule=rule,
        subject="",
        limit=float(value),
        unit=UNIT_NAMES.get(unit, unit),
        passed=False,
        reason="",
        source=source,
    )
    return _Limit(draft, unit, upper)


def _number(value: float) -> str:
    """Format with up to three decimals and thousands separators, without trailing zeros.

    Samples may be so small that three digits say more.
    """
    if 0 < abs(value) < 0.001:
        return f"{value:.3g}"
    text = f"{value:,.3f}"
    return text.rstrip("0").rstrip(".")


Cite = Callable[[str], str]
"""Returns the source line of a field of a rule; "" is the rule itself."""

_LOWER_LIMIT_CODE: Final = "B06"


class LimitTarget(NamedTuple):
    """Something that a rule matches.

    Attributes:
        name: Subject of the check.
        block: Name of its blocks.
        values: What is limited, with its clock; None for several.
    """

    name: str
    block: str
    values: LimitedValues | _OperatorValues


def time_checks(rule: TimeRule, times: Durations, cite: Cite) -> Iterator[Check]:
    """Yield a check for everything that a rule matches, per limit of the rule.

    Args:
        rule: One of the rules on times.
        times: Durations of the subject.
        cite: Returns the source line of a field; "" is the rule.
    """
    targets, text, name, unmatched = matching(rule, times)
    text = f"{rule.statistic} of {_which(rule)}{text}"
    for field, limit, unit in rule.limits():
        upper = field.startswith("limit")
        code = _TIMES[type(rule)][0] if upper else _LOWER_LIMIT_CODE
        title = text if upper else f"lower limit of {text}"
        if unit == "percent":
            title = f"{title}, relative to {rule.of or EXECUTION}"
        limited = _limit(code, title, limit, unit, cite(field), upper=upper)
        measured = ((target.name, _measure(rule, target, unit, times)) for target in targets)
        yield from limited.checks(rule, measured, name, unmatched)


def _which(rule: TimeRule | CounterLimit) -> str:
    return "" if rule.executions == "all" else f"{rule.executions} "


def _measure(rule: TimeRule, target: LimitTarget, unit: str, times: Durations) -> float | str:
    """Return the statistic in the unit of a limit, or the reason why it is unknown."""
    if unit != "percent":
        measured = target.values.measure(rule.statistic, unit)
        return _unknown_reason(target, unit, times) if measured is None else measured
    whole = rule.of or EXECUTION
    found = times.sums_of(whole, rule.executions).get(target.block)
    if found is None:
        return f"block {target.block!r} has no {whole!r} event to compare with"
    for base in ("ns", "ticks"):
        if base == "ticks" and target.values.clock != found.clock:
            continue
        part, hundred = (of.measure(rule.statistic, base) for of in (target.values, found))
        if part is not None and hundred:
            return 100 * part / hundred
    return f"not comparable with {whole!r}: a clock rate is unknown, or {whole!r} took no time"


def _unknown_reason(target: LimitTarget, unit: str, times: Durations) -> str:
    if times.unknown.any():
        return "events end before they start, so their duration is unknown: see I03 and I04"
    if unit == "ticks":
        return "the events are on several clocks: use a limit in ns, us or ms"
    if target.values.clock is None:
        return "the rate of a clock is unknown"
    return f"the rate of clock {target.values.clock.name!r} is unknown: use limit_ticks"


_Matched = tuple[list[LimitTarget], str, str, str]
"""The targets of a rule, its title, its pattern, and the reason given if nothing matches."""


def matching(rule: TimeRule, times: Durations) -> _Matched:
    """Return what a rule matches."""
    return _TIMES[type(rule)][1](rule, times)


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
            values = _OperatorValues(operator, rule, times)
            targets.append(LimitTarget(subject_of_operator(operator), operator.block, values))
    if found and not targets:
        unmatched = f"no {rule.executions} execution has {event!r} in block {rule.block!r}"
    return targets, text, event, unmatched


class _OperatorValues(NamedTuple):
    """The durations of an operator that a limit applies to, as its statistics have them."""

    operator: Operator
    rule: TimeRule
    times: Durations

    @property
    def clock(self) -> ClockDomain:
        return self.operator.clock

    def measure(self, statistic: str, unit: str) -> float | None:
        """Return a statistic of the durations; None if unknown in this unit."""
        operator, executions = self.operator, self.rule.executions
        if operator.unknown:
            return None
        if executions == "all":
            summary = operator.ns if unit in UNITS else operator.ticks
            return None if summary is None else getattr(summary, statistic) / UNITS.get(unit, 1.0)
        summary = operator.cold if executions == "cold" else operator.warm
        if summary is not None and operator.ns is not None and unit in UNITS:
            return float(getattr(summary, statistic)) / UNITS[unit]
        # These summaries are in ticks only if the rate is unknown.
        values = self.times.values(operator.rows, executions)
        return None if values is None else values.measure(statistic, unit)


def subject_of_operator(operator: Signature | Metric) -> str:
    """Return the name, the instruction and the delegate ids of an operator as text."""
    parts = [operator.name or "(no name)"]
    parts += [f"instruction {operator.instruction}"] if operator.name != EXECUTION else []
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
        LimitTarget(f"{name} in {block}", block, values)
        for block, values in found.items()
        if fnmatchcase(block, rule.block)
    ]


def _modules(rule: ModuleLimit, times: Durations) -> _Matched:
    pattern = rule.module or ""
    text = f"module {pattern or '(the model)'} in {rule.block}"
    if times.subject.symbols is None:
        return [], text, pattern, "modules are known only from an ETRecord (--etrecord)"
    targets = [
        LimitTarget(stack[-1].path or "(the model)", block, values)
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


_TIMES: Final[dict[type[TimeRule], tuple[str, Callable[..., _Matched]]]] = {
    TimeLimit: ("B01", _operators),
    ModuleLimit: ("B07", _modules),
    DelegateLimit: ("B08", _delegates),
    BlockLimit: ("B09", _blocks),
}
"""The code of an upper limit, and what returns the targets, by the kind of rule."""


class _CountedEvents(NamedTuple):
    """Events that a limit applies to.

    Attributes:
        name: Subject of the check.
        rows: Their rows in the trace.
        group: For each row the number of the value that it is a part of.
    """

    name: str
    rows: npt.NDArray[np.int64]
    group: npt.NDArray[np.int64]


def counter_checks(rule: CounterLimit, times: Durations, cite: Cite) -> Iterator[Check]:
    """Yield a check for everything that a rule matches, per limit of the rule.

    Args:
        rule: The rule.
        times: Rows and blocks of the subject's events.
        cite: Returns the source line of a field; "" is the rule.
    """
    of_all = "all " if rule.per == "execution" else ""
    what = rule.counter or ""
    unit = what if rule.of is None else f"{what} per {rule.of}"
    title = f"{rule.statistic} of {_which(rule)}{unit} of {of_all}{rule.event} in {rule.block}"
    missing = _not_recorded(rule, times)
    found = [] if missing else [*_matching(rule, times)]
    unmatched = missing or f"no event with counts matches {rule.event!r} in {rule.block!r}"
    for field, limit, _ in rule.limits():
        upper = field.startswith("limit")
        text = title if upper else f"lower limit of {title}"
        limited = _limit("B13", text, limit, unit, cite(field), upper=upper)
        measured = ((events.name, _measure_counts(rule, events, times)) for events in found)
        yield from limited.checks(rule, measured, rule.event or "", unmatched)


def _not_recorded(rule: CounterLimit, times: Durations) -> str:
    """Return why a counter of the rule is unknown; "" if the run recorded all of them."""
    known = [counter.name for counter in times.trace.counters]
    for name in filter(None, (rule.counter, rule.of)):
        if name not in known:
            recorded = ", ".join(map(printable, known)) or "none"
            return f"the run did not record the counter {name!r} (--counters; recorded: {recorded})"
    return ""


def _matching(rule: CounterLimit, times: Durations) -> Iterator[_CountedEvents]:
    """Yield what the rule matches: operators with counts, or sums per name of blocks."""
    wanted = [name for name in (rule.counter, rule.of) if name is not None]
    operators = [
        operator
        for operator in selected_operators(rule, times.subject)
        if any(name in operator.counters for name in wanted)
    ]
    if rule.per == "execution" and operators:
        rows = np.sort(np.concatenate([operator.rows for operator in operators]))
        for block, mine in times.by_block(rows, rule.executions).items():
            _, group = np.unique(times.orders[mine], return_inverse=True)
            yield _CountedEvents(f"{rule.event} in {block}", mine, group)
        return
    for operator in operators:
        mine = operator.rows[times.blocks(rule.executions)[times.orders[operator.rows]]]
        if len(mine):
            yield _CountedEvents(subject_of_operator(operator), mine, np.arange(len(mine)))


def _measure_counts(rule: CounterLimit, events: _CountedEvents, times: Durations) -> float | str:
    """Return the statistic of the counts or ratios, or the reason why it is unknown."""
    values = []
    for name in filter(None, (rule.counter, rule.of)):
        counts = times.counts(name)[events.rows]
        if lacking := int(np.count_nonzero(counts == NO_COUNT)):
            return f"{lacking:,} of {len(counts):,} events have no count of {name}"
        sums = np.bincount(events.group, counts.astype(np.float64))
        values.append(sums.astype(np.float64))
    if rule.of is None:
        return statistic_of(values[0], rule.statistic)
    if not values[1].all():
        return f"{rule.of} counted 0, so there is no ratio to it"
    return statistic_of(values[0] / values[1], rule.statistic)


_MICRO: Final = 1e6
_MILLI: Final = 1e3


def energy_checks(rule: EnergyLimit, times: Durations, cite: Cite) -> Iterator[Check]:
    """Yield a check for each limit of a rule on each matching operator.

    What is compared with ``limit_uj`` is the most that an event may have drawn on average: the
    middle of its bounds and the bound.
    """
    event = rule.event or ""
    found, missing = _matching_energy(rule, times.subject)
    for field, value, _ in rule.limits():
        what, unit = _ENERGIES[field]
        limit = _limit("B14", f"{what} of {event} in {rule.block}", value, unit, cite(field))
        measured = ((subject_of_operator(item), _measured(item, field)) for item in found)
        yield from limit.checks(rule, measured, event, missing)


_ENERGIES: Final = {
    "limit_uj": ("energy", "uJ"),
    "limit_average_ma": ("average current", "mA"),
    "limit_peak_ma": ("peak current", "mA"),
}
"""What each limit on energy is of, and its unit."""


def _matching_energy(rule: EnergyLimit, subject: Subject) -> tuple[list[OperatorEnergy], str]:
    """Return the operators that a rule selects, or why there are none."""
    energy = subject.energy
    if energy is None:
        return [], "no meter recorded the run (--energy)"
    if energy.unknown:
        return [], f"the energy is unknown: {energy.unknown}"
    found = [
        operator
        for operator in energy.operators
        if fnmatchcase(operator.name, rule.event or "")
        and fnmatchcase(operator.block, rule.block)
        and rule.instruction in (None, operator.instruction)
    ]
    return found, "" if found else f"no event matches {rule.event!r} in block {rule.block!r}"


def _measured(operator: OperatorEnergy, field: str) -> float | str:
    if operator.joules is None or operator.bound is None:
        return f"none of its {operator.events:,} events could be measured"
    if field == "limit_uj":
        return (operator.joules + operator.bound) * _MICRO
    current = operator.average_amperes if "average" in field else operator.peak_amperes
    return (current or 0.0) * _MILLI


def _sample_checks(rule: SampleLimit, times: Durations, cite: Cite) -> Iterator[Check]:
    trace, pattern = times.trace, rule.name or ""
    samples: dict[str, list[float]] = {}
    for row in np.flatnonzero(trace.kind == Kind.SAMPLE).tolist():
        name = trace.text(int(trace.name[row])) or ""
        if fnmatchcase(name, pattern):
            samples.setdefault(name, []).append(float(trace.level[row]))
    for field, value, _ in rule.limits():
        upper = field.startswith("limit")
        text = f"{'largest' if upper else 'smallest'} sample of "
        if not samples and not rule.optional:
            limit = _limit("B15", text + pattern, value, pattern, cite(field), upper=upper)
            yield limit.unmatched(pattern, f"no sample of {pattern!r} is in the log")
        for name, values in samples.items():
            limit = _limit("B15", text + name, value, name, cite(field), upper=upper)
            if strange := int(np.count_nonzero(np.isnan(values))):
                reason = f"{strange:,} of {len(values):,} samples are infinite or no number"
                yield limit.failed(name, reason)
            else:
                yield limit.of(name, max(values) if upper else min(values))


_LOSSES: Final = {
    "events": ("dropped events", "events"),
    "blocks": ("dropped declarations", "declarations"),
    "values": ("dropped values", "values"),
    "runs": ("dropped runs", "runs"),
    "records": ("missing records", "records"),
    "damaged": ("damaged events", "events"),
}
"""The rule of each limit on losses, and its unit."""


def _accuracy_checks(rule: AccuracyLimit, times: Durations, cite: Cite) -> Iterator[Check]:
    accuracy = times.subject.accuracy
    for field, value, _ in rule.limits():
        upper = field.startswith("limit")
        name = field.removeprefix("limit_").removeprefix("at_least_")
        limit = _limit("B16", f"{name} over all samples", value, name, cite(field), upper=upper)
        if accuracy is not None:
            measured = getattr(accuracy, name)
            reason = accuracy.unknown or f"{accuracy.file} has no samples for it"
            yield limit.failed(name, reason) if measured is None else limit.of(name, measured)
        elif not rule.optional:
            yield limit.unmatched(name, "no samples ran (--dataset)")


def _loss_checks(allowed: LossLimit, times: Durations, cite: Cite) -> Iterator[Check]:
    losses = times.trace.losses
    full = full_log(times.trace, times.subject.runs_requested)
    for field, (rule, unit) in _LOSSES.items():
        lost, most = getattr(losses, field), getattr(allowed, field)
        of_full_log = field in ("events", "blocks")
        # A chunk is missing only with its records, which may not be known.
        seen = of_full_log or lost or (field == "records" and losses.chunks)
        if most is None or not (seen or field == "runs"):
            continue
        found = _limit("B05", rule, most, unit, cite(field)).of("log", lost)
        if full and not found.passed and of_full_log:
            reason = f"{found.reason}: the log was {full}; {FULL_LOG_HINT}"
            found = replace(found, reason=reason)
        yield found


_ALLOCATED: Final = {
    "limit_bytes": ("B02", "peak bytes of {}", "peak_bytes"),
    "limit_total_bytes": ("B02", "final bytes of {}", "total_bytes"),
    "limit_failures": ("B03", "failed allocations of {}", "failures"),
    "limit_failed_bytes": ("B03", "bytes that {} refused", "failed_bytes"),
}
"""The code and the rule of each limit on an allocator, and the total that it is on."""


def _allocator_checks(rule: AllocatorLimit, times: Durations, cite: Cite) -> Iterator[Check]:
    pattern = rule.name or ""
    name = f"allocator {pattern}"
    limits = {}
    for field, value, unit in rule.limits():
        code, text, total = _ALLOCATED[field]
        limits[total] = _limit(code, text.format(name), value, unit, cite(field))
    first = next(iter(limits.values()))
    if first.draft.code != "B02":
        first = _limit("B02", name, 0, "bytes", "")
    first = first._replace(draft=replace(first.draft, source=cite("limit_bytes")))
    matches = [item for item in times.subject.allocators if fnmatchcase(item.label, pattern)]
    if not matches and not rule.optional:
        yield first.unmatched(pattern, f"no allocator matches {pattern!r}")
    for item in matches:
        if item.count or item.failures:
            for total, limit in limits.items():
                if total != "failures" or item.failures or rule.limit_failures:
                    yield limit.of(item.label, getattr(item, total))
        elif not rule.optional:
            yield first.unmatched(item.label, f"no allocation from {item.label!r} was logged")


def _stack_checks(rule: StackLimit, times: Durations, cite: Cite) -> Iterator[Check]:
    stacks = times.trace.stacks
    for limit in _share_limits("B04", "peak stack use", rule, cite):
        if not stacks and not rule.optional:
            yield limit.unmatched("stack", "the board does not report its stack use")
        for stack in stacks:
            name = f"stack of tracer {stack.tracer}"
            used = float(stack.used)
            if limit.unit == "percent":
                used = 100 * stack.used / stack.size if stack.size else 0.0
            if stack.overflowed:
                reason = f"all {stack.size:,} bytes were used: the stack may have overflowed"
                yield limit.failed(name, reason, used)
            elif limit.unit == "percent" and not stack.size:
                yield limit.failed(name, "the board does not report the size of its stack")
            else:
                yield limit.of(name, used)


def _trace_checks(rule: TraceLimit, times: Durations, cite: Cite) -> Iterator[Check]:
    sizes = times.subject.log_bytes, times.subject.trace_capacity
    unknown = "the log size is known only for run directories"
    for limit in _share_limits("B10", "log size", rule, cite):
        yield from limit.checks(rule, _in_unit(limit, "log", *sizes), "log", unknown)


def _arena_checks(rule: ArenaLimit, times: Durations, cite: Cite) -> Iterator[Check]:
    sizes = times.subject.arena_used, times.subject.arena_capacity
    unknown = "the model's arena use is known only for run directories"
    for limit in _share_limits("B12", "arena use of the model", rule, cite):
        yield from limit.checks(rule, _in_unit(limit, "arena", *sizes), "arena", unknown)


def _in_unit(
    limit: _Limit, name: str, used: int | None, capacity: int | None
) -> list[tuple[str, float | str]]:
    """Return a size in bytes or in percent of the capacity, with its name; [] if unknown."""
    if used is None or limit.unit != "percent":
        return [] if used is None else [(name, used)]
    return [(name, 100 * used / capacity)] if capacity else []


def _share_limits(
    code: str, text: str, rule: StackLimit | TraceLimit | ArenaLimit, cite: Cite
) -> Iterator[_Limit]:
    """Yield the limits of a rule in bytes and in percent."""
    for field, limit, unit in rule.limits():
        yield _limit(code, text, limit, unit, cite(field))


def _code_checks(rule: CodeLimit, times: Durations, cite: Cite) -> Iterator[Check]:
    image = times.subject.image
    for field, value, unit in rule.limits():
        part = field.removeprefix("limit_").removesuffix("_bytes")
        limit = _limit("B11", f"{part} size of the firmware", value, unit, cite(field))
        name = " + ".join(rule.PARTS[part])
        size = [(name, sum(image[section] for section in rule.PARTS[part]))] if image else []
        unknown = "firmware size is known only for runs that built the firmware"
        yield from limit.checks(rule, size, name, unknown)


_CHECKS: Final[dict[type[Waiver], Callable[[Any, Durations, Cite], Iterator[Check]]]] = {
    **dict.fromkeys(_TIMES, time_checks),
    CounterLimit: counter_checks,
    EnergyLimit: energy_checks,
    SampleLimit: _sample_checks,
    AllocatorLimit: _allocator_checks,
    StackLimit: _stack_checks,
    TraceLimit: _trace_checks,
    ArenaLimit: _arena_checks,
    CodeLimit: _code_checks,
    AccuracyLimit: _accuracy_checks,
    LossLimit: _loss_checks,
}
"""The function for each kind of rule."""


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
    """One or more durations that a limit applies to.

    Attributes:
        ns: In nanoseconds, shape (n,); None if the rate of a clock or a duration is unknown.
        ticks: In ticks, same shape; None with several clocks, or if a duration is unknown.
        clock: The clock of these ticks.
    """

    ns: _Floats | None
    ticks: _Floats | None
    clock: ClockDomain | None

    def measure(self, statistic: str, unit: str) -> float | None:
        """Return a statistic of the durations; None if unknown in this unit."""
        values = self.ticks if unit in ("ticks", "count") else self.ns
        if unit == "count" and values is None:
            values = self.ns
        if values is None:
            return None
        return statistic_of(values, statistic) / UNITS.get(unit, 1.0)


def statistic_of(values: _Floats, statistic: str) -> float:
    """Return a statistic of one or more values, shape (n,)."""
    function: Any = _STATISTICS[statistic]
    return float(function(values))


class Durations:
    """Duration and block of every event of a subject; each array is computed once."""

    def __init__(self, subject: Subject) -> None:
        self.subject, self.trace = subject, subject.trace
        self._sums: dict[tuple[str, Executions], dict[str, LimitedValues]] = {}

    @cached_property
    def ticks(self) -> Ticks:
        """Duration of every event in ticks, shape (n,)."""
        return durations(self.trace)

    @cached_property
    def ns(self) -> _Floats:
        """Duration of every event in ns, NaN if rate or duration is unknown, shape (n,)."""
        found = event_nanoseconds(self.trace, self.ticks)
        found[self.unknown] = np.nan
        return found

    @cached_property
    def unknown(self) -> npt.NDArray[np.bool_]:
        """True for events with unknown duration (they end before they start), shape (n,)."""
        return unknown_durations(self.trace)

    @cached_property
    def orders(self) -> _Ints:
        """Block number of every event, shape (n,)."""
        return block_numbers(self.trace)

    def blocks(self, executions: Executions) -> npt.NDArray[np.bool_]:
        """Return True for the blocks of these executions, shape (blocks,)."""
        return self._blocks[executions]

    @cached_property
    def _blocks(self) -> dict[str, npt.NDArray[np.bool_]]:
        executed, cold = executions(self.trace)
        return {"all": np.ones(len(cold), np.bool_), "cold": cold, "warm": executed & ~cold}

    def values(self, rows: _Ints, executions: Executions) -> LimitedValues | None:
        """Return the durations of single events; None if these executions have none of them."""
        rows = rows[self.blocks(executions)[self.orders[rows]]]
        return None if not len(rows) else self._values(rows, np.arange(len(rows)))

    def by_block(self, rows: _Ints, executions: Executions) -> dict[str, _Ints]:
        """Return those of ``rows`` that are of these executions, by block name."""
        rows = rows[self.blocks(executions)[self.orders[rows]]]
        names, of_event = self._names_of_blocks
        numbers = dict.fromkeys(of_event[rows].tolist())
        return {names[number]: rows[of_event[rows] == number] for number in numbers}

    def sums(self, rows: _Ints, executions: Executions) -> dict[str, LimitedValues]:
        """Return the sums of ``rows`` in each block that has any of them, by block name."""
        found = {}
        for name, mine in self.by_block(rows, executions).items():
            _, place = np.unique(self.orders[mine], return_inverse=True)
            found[name] = self._values(mine, place)
        return found

    def counts(self, counter: str) -> _Ints:
        """Return what a hardware counter of the trace counted in every event, shape (n,)."""
        names = [item.name for item in self.trace.counters]
        return self.trace.counts[:, names.index(counter)]

    @cached_property
    def _names_of_blocks(self) -> tuple[list[str], _Ints]:
        return block_names(self.trace)

    def sums_of(self, name: str, executions: Executions) -> dict[str, LimitedValues]:
        """Return the sums of all events with this name, as ``sums``; computed once."""
        key = name, executions
        if key not in self._sums:
            self._sums[key] = self.sums(self.named(name), executions)
        return self._sums[key]

    def _values(self, rows: _Ints, place: _Ints) -> LimitedValues:
        """Sum the durations of ``rows`` into bins; ``place`` is the bin of each row."""
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
        """Return the rows of the profile events with this name."""
        return np.flatnonzero((self.trace.kind == Kind.PROFILE) & self.trace.named(name))

    def outermost(self) -> _Ints:
        """Return the rows of the outermost profile events."""
        return np.flatnonzero((self.trace.kind == Kind.PROFILE) & (self.subject.tree.depth == 0))

    def calls(self) -> dict[str, _Ints]:
        """Return the rows of delegate calls by backend; calls of unknown backends are left out."""
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
        """Return the times of each module in each execution, by module and block name.

        Raises:
            ValueError: The subject has no symbols.
        """
        if self.subject.symbols is None:
            raise ValueError("modules need symbols")
        chosen = self.blocks(executions)
        found: dict[tuple[Stack, str], LimitedValues] = {}
        symbols = load_extension(INSPECTORS, "etrecord", "a limit on modules is", "inspector")
        by_block = symbols.module_times_by_block(self.trace, self.subject.symbols, self.ns)
        for stack, times in by_block.items():
            grouped: dict[str, list[float]] = {}
            for order, time in times.items():
                if chosen[order]:
                    grouped.setdefault(self.trace.blocks[order].name, []).append(time)
            for block, sums in grouped.items():
                ns = np.array(sums)
                found[stack, block] = LimitedValues(None if np.isnan(ns).any() else ns, None, None)
        return found
