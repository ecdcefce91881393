"""The way to a verdict: what always holds, then the budget, then history."""

from __future__ import annotations

from datetime import date
from itertools import chain

from harness.check.budget import Budget
from harness.check.checks import Verdict
from harness.check.history.checks import history_checks
from harness.check.history.comparison import HistoryComparison
from harness.check.invariants import invariant_checks
from harness.check.invariants.completion import nothing_checked
from harness.check.limits import limit_checks
from harness.check.rules import Waiver
from harness.check.subject import Subject
from harness.check.waivers import waived

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
