"""Check: one rule applied to one subject, with a reason. Verdict: all checks of a trace."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass

import msgspec

from harness.records.check_codes import CODES, NOT_COMPARABLE, Severity


class Check(msgspec.Struct, frozen=True, kw_only=True):
    """One rule, applied to one subject.

    Attributes:
        code: Kind of check (``harness.records.check_codes``).
        severity: Effect on the verdict if it fails.
        rule: The rule, as text.
        subject: The operator, allocator or other thing that was checked.
        measured: The measured value, or None.
        limit: The largest value that passes, for a lower limit (B06) the smallest; None if the
            rule has no limit.
        unit: Unit of both, such as ``us``, ``ticks``, ``bytes`` or ``events``; "" without values.
        passed: Whether it passed.
        reason: Why it passed or failed, in a sentence.
        source: File and line of the rule; "" for invariants.
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
        """Whether it failed with severity error, which fails the verdict."""
        return not self.passed and self.severity == "error"

    @property
    def excess(self) -> float:
        """Ratio of the measured value to its limit, at least 1; infinite without a limit."""
        if self.measured is None or self.limit is None:
            return math.inf
        low, high = sorted([abs(self.measured), abs(self.limit)])
        return high / low if low else math.inf


@dataclass(frozen=True, slots=True, repr=False)
class Verdict:
    """All checks of one trace; true if no check with severity error failed.

    Attributes:
        checks: All checks.

    Examples:
        >>> import harness
        >>> verdict = harness.run("kws_int8", board="native").check()
        >>> bool(verdict), verdict.failures
        (True, ())
    """

    checks: tuple[Check, ...]

    def __bool__(self) -> bool:
        return self.passed

    def __repr__(self) -> str:
        return f"<{'PASS' if self.passed else 'FAIL'}: {self.headline}>"

    def __str__(self) -> str:
        lines = [f"  {check.code} {check.subject}: {check.reason}" for check in self.worst_failures]
        return "\n".join([repr(self).strip("<>"), *lines])

    @property
    def headline(self) -> str:
        """How many checks failed or passed, with the numbers of warnings and notes."""
        if not self.checks:
            return "nothing was checked"
        counts = Counter(check.severity for check in self.warnings)
        more = "".join(
            f", {count:,} {severity}{'s' if count > 1 else ''}"
            for severity in ("warning", "note")
            if (count := counts[severity])
        )
        failed, total = len(self.failures), len(self.checks)
        if failed:
            return f"{failed:,} of {total:,} checks failed{more}"
        return f"{total - len(self.warnings):,} of {total:,} checks passed{more}"

    @property
    def passed(self) -> bool:
        """True if no check failed with severity error."""
        return not self.failures

    @property
    def exit_code(self) -> int:
        """0 if it passed; 3 if the history says too little, and nothing else failed; else 1."""
        return exit_code_of(self.checks)

    @property
    def failures(self) -> tuple[Check, ...]:
        """The failed checks with severity error."""
        return tuple(check for check in self.checks if check.failed)

    @property
    def worst_failures(self) -> tuple[Check, ...]:
        """The failures, sorted by excess, largest first."""
        return tuple(sorted(self.failures, key=lambda check: check.excess, reverse=True))

    @property
    def warnings(self) -> tuple[Check, ...]:
        """The failed checks with severity warning or note."""
        return tuple(check for check in self.checks if not check.passed and not check.failed)


def exit_code_of(checks: Iterable[Check]) -> int:
    """Return the exit code of a verdict with these checks, as of ``Verdict.exit_code``."""
    failed = {check.code for check in checks if check.failed}
    return 0 if not failed else 3 if failed == {NOT_COMPARABLE} else 1


def check(code: str, *, severity: Severity | None = None, **facts: object) -> Check:
    """Return a check with its code's default severity unless given; ``facts`` as for ``Check``."""
    return Check(code=code, severity=severity or CODES[code].severity, **facts)  # type: ignore[arg-type]
