"""One number compared with one limit, with the reason in words."""

from __future__ import annotations

from harness.records.verdict import Check, check

WORDS = {"percent": "%", "count": "repeats"}
"""Units that are written otherwise than fields of rules spell them."""


def within(
    code: str, rule: str, subject: str, measured: float, limit: float, unit: str, source: str = ""
) -> Check:
    """Whether a number is no larger than its limit."""
    passed = measured <= limit
    said = "is within the limit" if passed else "exceeds the limit"
    return _compared(code, rule, subject, measured, limit, unit, source, passed, said)


def reaches(
    code: str, rule: str, subject: str, measured: float, limit: float, unit: str, source: str = ""
) -> Check:
    """Whether a number is no smaller than its limit."""
    passed = measured >= limit
    said = "reaches the least" if passed else "is below the least"
    return _compared(code, rule, subject, measured, limit, unit, source, passed, said)


def guards_nothing(
    code: str, rule: str, subject: str, limit: float, unit: str, why: str, source: str = ""
) -> Check:
    """The check of a limit for which there is nothing: a mistake, or no longer logged."""
    return unmet(
        code, rule, subject, None, limit, unit, f"{why}: a limit that guards nothing", source
    )


def unmet(
    code: str,
    rule: str,
    subject: str,
    measured: float | None,
    limit: float,
    unit: str,
    why: str,
    source: str = "",
) -> Check:
    """A check that does not hold, whatever was measured."""
    return check(
        code,
        rule=rule,
        subject=subject,
        measured=measured,
        limit=float(limit),
        unit=WORDS.get(unit, unit),
        passed=False,
        reason=why,
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
    unit = WORDS.get(unit, unit)
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
    """Up to three decimals, thousands apart, no trailing zeros."""
    text = f"{value:,.3f}"
    return text.rstrip("0").rstrip(".")
