"""Limits on what hardware counters counted."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final, NamedTuple

import numpy as np
import numpy.typing as npt

from harness.check.limits.durations import Durations, statistic_of
from harness.check.limits.times import (
    Cite,
    at_least,
    at_most,
    failed_limit,
    selected_operators,
    subject_of_operator,
    unmatched_limit,
)
from harness.check.rules import CounterLimit
from harness.formatting import printable
from harness.records.trace import NO_COUNT
from harness.records.verdict import Check

_CODE: Final = "B13"


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
    which = "" if rule.executions == "all" else f"{rule.executions} "
    of_all = "all " if rule.per == "execution" else ""
    what = rule.counter or ""
    unit = what if rule.of is None else f"{what} per {rule.of}"
    title = f"{rule.statistic} of {which}{unit} of {of_all}{rule.event} in {rule.block}"
    missing = _not_recorded(rule, times)
    found = [] if missing else [*_matching(rule, times)]
    for field, limit in rule.limits():
        upper = field.startswith("limit")
        text = title if upper else f"lower limit of {title}"
        if not found and not rule.optional:
            reason = missing or f"no event with counts matches {rule.event!r} in {rule.block!r}"
            name = rule.event or ""
            yield unmatched_limit(_CODE, text, name, limit, unit, reason, cite(field))
        for events in found:
            measured = _measure(rule, events, times)
            if isinstance(measured, str):
                reason, name = measured, events.name
                yield failed_limit(_CODE, text, name, None, limit, unit, reason, cite(field))
            else:
                compare = at_most if upper else at_least
                yield compare(_CODE, text, events.name, measured, limit, unit, cite(field))


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


def _measure(rule: CounterLimit, events: _CountedEvents, times: Durations) -> float | str:
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
