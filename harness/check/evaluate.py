"""The way to a verdict: what always holds, then the budget, then history."""

from __future__ import annotations

from harness.check.budget import Budget
from harness.check.checks import Verdict, with_severities
from harness.check.invariants import invariant_checks
from harness.check.limits import limit_checks
from harness.check.subject import Subject

NO_LIMITS = Budget(schema=1)
"""What a subject without a budget is held against: nothing may be lost."""


def evaluate(subject: Subject, budget: Budget | None = None) -> Verdict:
    """Check ``subject`` by every rule there is for it.

    Args:
        subject: A trace and what is known beside it.
        budget: Limits, and severities of codes; none but the allowed losses by default.
    """
    budget = budget or NO_LIMITS
    checks = (*invariant_checks(subject), *limit_checks(budget, subject))
    return Verdict(with_severities(checks, budget.severity))
