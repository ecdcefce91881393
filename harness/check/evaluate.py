"""Makes a verdict: invariants first, then the budget with its waivers, then history."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import date
from itertools import chain

import msgspec

from harness.check.budget import Budget
from harness.check.history.checks import history_checks
from harness.check.history.comparison import HistoryComparison
from harness.check.invariants import invariant_checks
from harness.check.invariants.completion import nothing_checked
from harness.check.limits import limit_checks
from harness.check.rules import Waiver
from harness.check.subject import Subject
from harness.records.verdict import Check, Verdict

NO_LIMITS = Budget()
"""What a subject without a budget is held against: nothing may be lost."""


def evaluate(
    subject: Subject, budget: Budget | None = None, comparison: HistoryComparison | None = None
) -> Verdict:
    """Check ``subject`` by every rule there is for it; without any, that is what fails.

    Args:
        subject: A trace and what is known beside it.
        budget: Limits, and severities of codes; none but the allowed losses by default.
        comparison: What came of holding it against its history, if that was done.
    """
    budget = budget or NO_LIMITS
    day = subject.day or date.today()
    always = ((Waiver(), check) for check in invariant_checks(subject))
    beside = history_checks(comparison) if comparison is not None else ()
    changed = ((Waiver(), check) for check in beside)
    found = chain(always, limit_checks(budget, subject), changed)
    checks = (waived(check, (rule, budget.waiver(check.code)), day) for rule, check in found)
    return Verdict(tuple(check for check in checks if check is not None) or (nothing_checked(),))


def waived(check: Check, waivers: Sequence[Waiver], day: date) -> Check | None:
    """Give a check the severity of the first waiver that is in force; None when that is ``off``.

    A check that does not hold says why that was accepted, or that it no longer is.

    Args:
        check: With the severity of its code.
        waivers: Those for it, the most particular first.
        day: For which the verdict is.
    """
    severity, notes = check.severity, []
    for waiver in waivers:
        if waiver.severity is None:
            continue
        if waiver.expires is not None and waiver.expires < day:
            notes.append(f"{waiver.severity!r} has expired on {waiver.expires}")
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
