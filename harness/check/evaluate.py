"""Evaluates a subject: invariants, then the budget with its waivers, then history."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from datetime import date
from itertools import chain
from typing import Final

import msgspec

from harness.check.budget import Budget, Waiver
from harness.check.history.checks import history_checks
from harness.check.history.comparison import HistoryComparison
from harness.check.invariants import agreement, events, executions
from harness.check.limits import limit_checks
from harness.check.subject import Subject
from harness.errors import FormatError
from harness.records.verdict import CODES, Check, Verdict

_Invariant = Callable[[Subject], Iterator[Check]]
"""Yields no check when it does not apply to the subject."""

_TREE_INVARIANTS: Final[tuple[_Invariant, ...]] = (
    events.nesting_checks,
    events.order_checks,
    executions.memory_checks,
    events.counter_nesting_checks,
    agreement.account_checks,
    agreement.place_checks,
    agreement.extent_checks,
    agreement.spent_checks,
)
"""Invariants that need the call tree."""

_OTHER_INVARIANTS: Final[tuple[_Invariant, ...]] = (
    events.clock_checks,
    events.precision_checks,
    executions.sameness_checks,
    executions.output_checks,
    executions.completion_checks,
    executions.program_checks,
    executions.stack_checks,
    events.counter_value_checks,
    agreement.sequence_checks,
    agreement.asked_checks,
    agreement.reading_checks,
    agreement.copy_checks,
)

DEFAULT_BUDGET = Budget()
"""The budget of a subject without one: no losses are allowed."""


def evaluate(
    subject: Subject, budget: Budget | None = None, comparison: HistoryComparison | None = None
) -> Verdict:
    """Evaluate all checks of ``subject`` and return the verdict.

    The verdict fails if no check is left.

    Args:
        subject: A trace, and what else is known of its run.
        budget: Limits, and severities of codes; by default, no losses are allowed.
        comparison: The comparison with history, if there is one.
    """
    invariants, found = _OTHER_INVARIANTS, []
    try:
        _ = subject.tree
        invariants += _TREE_INVARIANTS
    except FormatError as error:
        found.append(events.untimed_check(error.message))
    for invariant in invariants:
        found += invariant(subject)
    found.sort(key=lambda check: check.code)
    budget = budget or DEFAULT_BUDGET
    day = subject.day or date.today()
    history = history_checks(comparison) if comparison is not None else ()
    checks: Iterable[tuple[Waiver, Check]] = chain(
        ((Waiver(), check) for check in found),
        limit_checks(budget, subject),
        ((_own_severity(check, budget), check) for check in history),
    )
    waived = (
        apply_waivers(check, (rule, budget.waiver(check.code)), day) for rule, check in checks
    )
    return Verdict(
        tuple(check for check in waived if check is not None) or (executions.nothing_checked(),)
    )


def _own_severity(check: Check, budget: Budget) -> Waiver:
    """Return a waiver that keeps a note of a comparison a note, whatever its code's severity is.

    Changes that a person decided to ignore, and improvements, are notes of codes that are errors
    or warnings otherwise. A budget that makes the code an error does not mean them; ``off`` does.
    """
    lowered = check.severity == "note" != CODES[check.code].severity
    kept = lowered and budget.waiver(check.code).severity != "off"
    return Waiver(severity="note") if kept else Waiver()


def apply_waivers(check: Check, waivers: Sequence[Waiver], day: date) -> Check | None:
    """Return the check with the severity of the first valid waiver; None if that is ``off``.

    The reason of a failed check names the waiver, or that it has expired.

    Args:
        check: With the severity of its code.
        waivers: Waivers for the check, the most specific first.
        day: Day of the verdict.
    """
    severity, notes = check.severity, []
    for waiver in waivers:
        if waiver.severity is None:
            continue
        if waiver.expires is not None and waiver.expires < day:
            notes.append(f"{waiver.severity!r} expired on {waiver.expires}")
            continue
        if waiver.severity == "off":
            return None
        severity = waiver.severity
        until = f" until {waiver.expires}" if waiver.expires is not None else ""
        if waiver.reason:
            notes.append(f"{waiver.severity!r}{until}: {waiver.reason}")
        break
    notes = [] if check.passed else notes
    return msgspec.structs.replace(
        check, severity=severity, reason="; ".join([check.reason, *notes])
    )
