"""Check: one rule applied to one subject, with a reason. Verdict: all checks of a trace.

``CODES`` has the codes of all checks; ``etharness explain CODE`` prints the page of a code.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final, Literal

import msgspec

from harness.errors import TargetError

Judgement = Literal[
    "regression",
    "suspect",
    "improvement",
    "changed",
    "same",
    "appeared",
    "vanished",
    "too little",
]
"""Outcome of one metric: ``regression`` or ``improvement``: beyond the limits and the noise;
``suspect``: a regression that was measured once, so that noise may explain it;
``changed``: deterministic and different, but within the limits; ``same``: no detectable change;
``appeared``: not in the baseline; ``vanished``: not in the result; ``too little``: too few sessions
to estimate the noise."""


class Check(msgspec.Struct, frozen=True, kw_only=True):
    """One rule, applied to one subject.

    Attributes:
        code: Kind of check (``harness.records.verdict``).
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
    def outcome(self) -> str:
        """``pass``, ``fail``, or the severity if it does not hold without failing the verdict."""
        return "pass" if self.passed else "fail" if self.failed else self.severity

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
        """0 if it passed, 4 if the target's clock is wrong, 3 if only the history has too little
        data or a suspect change was measured once, else 1.
        """
        return exit_code_of(self.checks)

    @property
    def failures(self) -> tuple[Check, ...]:
        """The failed checks with severity error."""
        return tuple(check for check in self.checks if check.failed)

    @property
    def worst_failures(self) -> tuple[Check, ...]:
        """The failures by excess: those of clocks, which explain others, first, sizes last."""
        return tuple(
            sorted(
                self.failures,
                key=lambda check: (
                    CODES[check.code].exit_code != 4,
                    check.unit == "bytes",
                    -check.excess,
                ),
            )
        )

    @property
    def warnings(self) -> tuple[Check, ...]:
        """The failed checks with severity warning or note."""
        return tuple(check for check in self.checks if not check.passed and not check.failed)


def exit_code_of(checks: Iterable[Check]) -> int:
    """Return the exit code of a verdict with these checks, as of ``Verdict.exit_code``."""
    failed = {CODES[check.code].exit_code for check in checks if check.failed}
    # A wrong clock makes all numbers doubtful; too little data matters only if all else passed.
    return next((code for code in (4, 1, 3) if code in failed), 0)


def check(code: str, *, severity: Severity | None = None, rule: str = "", **facts: object) -> Check:
    """Return a check; severity and rule are those of its code unless given.

    ``facts`` are as for ``Check``.
    """
    kind = CODES[code]
    return Check(
        code=code,
        severity=severity or kind.severity,
        rule=rule or kind.title,
        **facts,  # type: ignore[arg-type]
    )


def none_of(
    code: str, subject: str, count: int, reason: str, unit: str = "events", **facts: object
) -> Check:
    """Return a check that passes if the ``count`` of what is wrong is 0; else as ``check``."""
    return check(
        code,
        subject=subject,
        measured=float(count),
        limit=0.0,
        unit=unit,
        passed=not count,
        reason=reason,
        **facts,  # type: ignore[arg-type]
    )


Severity = Literal["error", "warning", "note"]
"""Effect of a failed check: ``error``: the verdict fails; ``warning``: needs a look, the verdict
stands; ``note``: for information."""


class Code(msgspec.Struct, frozen=True):
    """A kind of check.

    Attributes:
        code: I and a number for an invariant, B for a limit of a budget, H for a comparison with
            history. Codes are never reused.
        title: The condition for passing, in a few words.
        severity: Severity of a failed check, unless a budget changes it.
        fixed: Budgets cannot change the severity.
        exit_code: Exit code of a verdict that fails for it.
    """

    code: str
    title: str
    severity: Severity
    fixed: bool = False
    exit_code: int = 1


CODES: Final[dict[str, Code]] = {
    code.code: code
    for code in (
        Code("I01", "events nest within their enclosing scopes", "error"),
        Code("I02", "instructions do not overlap, delegate events fit their calls", "error"),
        Code("I03", "clocks advance", "error"),
        Code("I04", "events end after they start, in log order", "error"),
        Code("I05", "operators are long enough to measure", "warning"),
        Code("I06", "allocations fit their memory", "error"),
        Code("I07", "live allocations do not overlap", "error"),
        Code("I08", "every free matches an allocation", "error"),
        Code("I09", "executions free their temporary memory", "error"),
        Code("I10", "all executions log the same events", "error"),
        Code("I11", "outputs match their references", "error"),
        Code("I12", "all requested executions completed", "error"),
        Code("I13", "an execution was measured", "error", fixed=True),
        Code(
            "I14",
            "executions run the program's instructions",
            "error",
            exit_code=TargetError.exit_code,
        ),
        Code("I15", "all completed executions are in the log", "error"),
        Code("I16", "planned memory has its planned size", "error"),
        Code("I17", "executions keep no memory of the method", "error"),
        Code("I18", "stacks stay within their size", "error"),
        Code("I19", "scopes count no less than the events within them", "error"),
        Code("I20", "counts of hardware counters are possible", "error"),
        Code("I21", "the clock keeps its declared rate", "error", exit_code=TargetError.exit_code),
        Code("I22", "all durations are certain", "error"),
        Code("I23", "allocations add up to the memory that the board reports", "error"),
        Code("I24", "the log is one loading, then executions", "error"),
        Code("I25", "memory is allocated while the runtime loads or executes", "error"),
        Code("I26", "the log lasts no longer than its run", "error"),
        Code("I27", "each execution was measured by itself", "error"),
        Code("I28", "executions spend their time in instructions", "warning"),
        Code("I29", "the log has what the run asked for", "error"),
        Code("I30", "all tracers are on one timeline", "error"),
        Code("I31", "tasks and interrupts begin and end in turn", "error"),
        Code("B01", "operator times are within their limits", "error"),
        Code("B02", "allocators are within their limits", "error"),
        Code("B03", "no allocation failed", "error"),
        Code("B04", "stacks are within their limit", "error"),
        Code("B05", "losses are within their limits", "error"),
        Code("B06", "times are above their lower limits", "error"),
        Code("B07", "module times are within their limits", "error"),
        Code("B08", "delegate times are within their limits", "error"),
        Code("B09", "block times are within their limits", "error"),
        Code("B10", "the log size is within its limit", "error"),
        Code("B11", "the firmware size is within its limits", "error"),
        Code("B12", "the arena use is within its limit", "error"),
        Code("B13", "hardware counters are within their limits", "error"),
        Code("B14", "energy and current are within their limits", "error"),
        Code("B15", "samples of counters are within their limits", "error"),
        Code("B16", "accuracy is within its limits", "error"),
        Code("H01", "no operator is slower than in the baseline", "error"),
        Code("H02", "no size is larger than in the baseline", "error"),
        Code("H03", "no step in the history", "warning"),
        Code("H04", "no improvement over the baseline", "note"),
        Code("H05", "deterministic values match the baseline", "note"),
        Code("H06", "the baseline has enough data", "note", exit_code=3),
        Code("H07", "operators and sizes are those of the baseline", "note"),
        Code("H08", "times have one mode, not two", "note"),
        Code("H09", "the operators have not changed together", "error"),
        Code("H10", "no hardware counter counts more than in the baseline", "error"),
        Code("H11", "no operator draws more energy than in the baseline", "error"),
        Code("H12", "what is suspect has been measured again", "error", exit_code=3),
        Code("H13", "the model is not less accurate than in the baseline", "error"),
    )
}
"""All codes by name, in the order of the documentation."""

OUTPUTS: Final = "I11"
"""Code of the check that compares outputs with their references."""
