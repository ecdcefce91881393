"""Waivers: what it means when a check does not hold, and until which day."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import date

import msgspec

from harness.check.checks import Check
from harness.check.rules import Waiver


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
