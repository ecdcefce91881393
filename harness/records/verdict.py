"""Check: one rule, applied to one thing, with a reason; and the verdict of all of them."""

from __future__ import annotations

import math
from dataclasses import dataclass

import msgspec

from harness.records.check_codes import CODES, Severity


class Check(msgspec.Struct, frozen=True, kw_only=True):
    """One rule, applied to one thing it matches.

    Attributes:
        code: What kind of check this is (``harness.records.check_codes``).
        severity: What it means if it does not hold.
        rule: The rule, as text.
        subject: What it was applied to.
        measured: The value found, or None when there was none to find.
        limit: The largest value that passes, or of a lower limit (B06) the smallest; None where the
            rule is not about a limit.
        unit: Of both, such as ``us``, ``ticks``, ``bytes`` or ``events``; empty without either.
        passed: Whether it holds.
        reason: Why it does or does not, in a sentence.
        source: File and line of the rule; empty for what is always checked.
    """

    code: str
    severity: Severity
    rule: str
    subject: str
    measured: float | None = None
    limit: float | None = None
    unit: str = ""
    passed: bool
    reason: str
    source: str = ""

    @property
    def failed(self) -> bool:
        """It does not hold, and for that the verdict is a failure."""
        return not self.passed and self.severity == "error"

    @property
    def excess(self) -> float:
        """How far beyond its limit it is, as a ratio; infinite where there is none."""
        if self.measured is None or self.limit is None:
            return math.inf
        low, high = sorted([abs(self.measured), abs(self.limit)])
        return high / low if low else math.inf


@dataclass(frozen=True, slots=True, repr=False)
class Verdict:
    """All checks of one trace; true if no check with severity error failed.

    Attributes:
        checks: All checks.

    Example:
        >>> import harness
        >>> verdict = harness.run("kws_int8", board="native").check()
        >>> bool(verdict), verdict.failures
        (True, ())
    """

    checks: tuple[Check, ...]

    def __bool__(self) -> bool:
        return self.passed

    def __repr__(self) -> str:
        if self.passed:
            return f"<PASS: {len(self.checks)} checks>"
        return f"<FAIL: {len(self.failures)} of {len(self.checks)} checks do not hold>"

    def __str__(self) -> str:
        lines = [f"  {check.code} {check.subject}: {check.reason}" for check in self.worst_failures]
        return "\n".join([repr(self).strip("<>"), *lines])

    @property
    def passed(self) -> bool:
        """True when no check fails that is an error."""
        return not self.failures

    @property
    def failures(self) -> tuple[Check, ...]:
        """The checks for which it is a failure."""
        return tuple(check for check in self.checks if check.failed)

    @property
    def worst_failures(self) -> tuple[Check, ...]:
        """The same, those farthest beyond their limits first."""
        return tuple(sorted(self.failures, key=lambda check: check.excess, reverse=True))

    @property
    def warnings(self) -> tuple[Check, ...]:
        """The checks that do not hold, but for which it is none."""
        return tuple(check for check in self.checks if not check.passed and not check.failed)


def check(code: str, *, severity: Severity | None = None, **facts: object) -> Check:
    """A check with its code's severity, unless another is given; the rest as for ``Check``."""
    return Check(code=code, severity=severity or CODES[code].severity, **facts)  # type: ignore[arg-type]
