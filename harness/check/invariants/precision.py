"""Checks that operators take long enough to measure (I05)."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from harness.analyze.call_tree import WRAPPERS
from harness.check.subject import Subject
from harness.records.verdict import Check, check

MIN_EVENT_COSTS: Final = 1
"""Shortest trusted duration, in durations of an empty event. Below this, the tracer's own cost is
the larger part of the measurement."""

_SHOWN: Final = 5
"""Number of operators to name."""


def precision_checks(subject: Subject) -> Iterator[Check]:
    """Compare the median of each operator with the duration of an empty event on the device."""
    if not subject.probe or not subject.trace.clocks:
        return
    clock = subject.trace.clocks[0]
    least = float(subject.probe) * MIN_EVENT_COSTS
    operators = [
        item
        for item in subject.operators
        if item.clock == clock
        and item.chain != -1
        and item.delegate_int == -1
        and item.delegate_str is None
        and item.name not in WRAPPERS
    ]
    if not operators:
        return
    medians = [(item.ticks.p50, item) for item in operators if item.ticks is not None]
    short = sorted((found for found in medians if found[0] < least), key=lambda found: found[0])
    reason = f"all {len(operators):,} operators take at least {least:,.1f} ticks"
    if short:
        names = [
            f"{item.name} (instruction {item.instruction}): {median:,.1f}"
            for median, item in short[:_SHOWN]
        ]
        more = f" and {len(short) - _SHOWN:,} more" if len(short) > _SHOWN else ""
        reason = (
            f"{len(short):,} of {len(operators):,} operators take less than {least:,.1f} ticks, "
            f"the duration of an empty event: {'; '.join(names)}{more}"
        )
    yield check(
        "I05",
        rule="operators are long enough to measure",
        subject="operators",
        measured=float(len(short)),
        limit=0.0,
        unit="operators",
        passed=not short,
        reason=reason,
    )
