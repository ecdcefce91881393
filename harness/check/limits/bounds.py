"""Compares one number with one limit, and words the reason."""

from __future__ import annotations

from harness.records.verdict import Check, check

UNIT_NAMES = {"percent": "%", "count": "repeats"}
"""Units as shown in checks, where they differ from the field names of rules."""


def at_most(
    code: str, rule: str, subject: str, measured: float, limit: float, unit: str, source: str = ""
) -> Check:
    """Return the check of an upper limit."""
    passed = measured <= limit
    relation = "is within the limit" if passed else "exceeds the limit"
    return _compared(code, rule, subject, measured, limit, unit, source, passed, relation)


def at_least(
    code: str, rule: str, subject: str, measured: float, limit: float, unit: str, source: str = ""
) -> Check:
    """Return the check of a lower limit."""
    passed = measured >= limit
    relation = "meets the lower limit" if passed else "is below the lower limit"
    return _compared(code, rule, subject, measured, limit, unit, source, passed, relation)


def unmatched_limit(
    code: str, rule: str, subject: str, limit: float, unit: str, why: str, source: str = ""
) -> Check:
    """Return the failed check of a limit that matches nothing in the trace."""
    reason = f"{why}: the limit matches nothing"
    return failed_limit(code, rule, subject, None, limit, unit, reason, source)


def failed_limit(
    code: str,
    rule: str,
    subject: str,
    measured: float | None,
    limit: float,
    unit: str,
    reason: str,
    source: str = "",
) -> Check:
    """Return a failed check, whatever was measured."""
    return check(
        code,
        rule=rule,
        subject=subject,
        measured=measured,
        limit=float(limit),
        unit=UNIT_NAMES.get(unit, unit),
        passed=False,
        reason=reason,
        source=source,
    )


def _compared(
    code: str,
    rule: str,
    subject: str,
    measured: float,
    limit: float,
    unit: str,
    source: str,
    passed: bool,
    relation: str,
) -> Check:
    unit = UNIT_NAMES.get(unit, unit)
    return check(
        code,
        rule=rule,
        subject=subject,
        measured=float(measured),
        limit=float(limit),
        unit=unit,
        passed=passed,
        reason=f"{_number(measured)} {unit} {relation} of {_number(limit)} {unit}",
        source=source,
    )


def _number(value: float) -> str:
    """Format with up to three decimals and thousands separators, without trailing zeros."""
    text = f"{value:,.3f}"
    return text.rstrip("0").rstrip(".")
