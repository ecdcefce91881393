"""Invariants: what holds for every sound trace, whatever ran; one module per theme."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Final

from harness.check.invariants.arenas import memory_checks
from harness.check.invariants.clocks import clock_checks, order_checks, untimed_check
from harness.check.invariants.completion import completion_checks, measured_checks
from harness.check.invariants.nesting import nesting_checks
from harness.check.invariants.outputs import output_checks
from harness.check.invariants.precision import precision_checks
from harness.check.invariants.sameness import sameness_checks
from harness.check.subject import Subject
from harness.errors import FormatError
from harness.records.verdict import Check

Invariant = Callable[[Subject], Iterator[Check]]
"""Yields nothing where there is nothing to judge."""

ON_A_TIMELINE: Final[tuple[Invariant, ...]] = (nesting_checks, order_checks, memory_checks)
"""Those that need to know which event happened within which."""

OTHERS: Final[tuple[Invariant, ...]] = (
    clock_checks,
    precision_checks,
    sameness_checks,
    output_checks,
    completion_checks,
    measured_checks,
)


def invariant_checks(subject: Subject) -> list[Check]:
    """Apply every invariant to ``subject``; checks come in the order of their codes."""
    invariants = OTHERS
    found = []
    try:
        _ = subject.tree
        invariants += ON_A_TIMELINE
    except FormatError as error:
        found.append(untimed_check(error.message))
    for checks in invariants:
        found += checks(subject)
    return sorted(found, key=lambda item: item.code)
