"""Invariants: checks that every sound trace passes, whatever ran; one module per theme."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Final

from harness.check.invariants.arenas import memory_checks, stack_checks
from harness.check.invariants.clocks import clock_checks, order_checks, untimed_check
from harness.check.invariants.completion import completion_checks, logged_checks, measured_checks
from harness.check.invariants.nesting import nesting_checks
from harness.check.invariants.outputs import output_checks
from harness.check.invariants.precision import precision_checks
from harness.check.invariants.program import program_checks
from harness.check.invariants.sameness import sameness_checks
from harness.check.subject import Subject
from harness.errors import FormatError
from harness.records.verdict import Check

Invariant = Callable[[Subject], Iterator[Check]]
"""Yields no check when it does not apply to the subject."""

TREE_INVARIANTS: Final[tuple[Invariant, ...]] = (nesting_checks, order_checks, memory_checks)
"""Invariants that need the call tree."""

OTHER_INVARIANTS: Final[tuple[Invariant, ...]] = (
    clock_checks,
    precision_checks,
    sameness_checks,
    output_checks,
    completion_checks,
    measured_checks,
    program_checks,
    logged_checks,
    stack_checks,
)


def invariant_checks(subject: Subject) -> list[Check]:
    """Apply every invariant to ``subject`` and return the checks, sorted by code."""
    invariants = OTHER_INVARIANTS
    checks = []
    try:
        _ = subject.tree
        invariants += TREE_INVARIANTS
    except FormatError as error:
        checks.append(untimed_check(error.message))
    for invariant in invariants:
        checks += invariant(subject)
    return sorted(checks, key=lambda item: item.code)
