"""Times as results write them: ISO 8601, UTC unless they say otherwise."""

from __future__ import annotations

from datetime import UTC, datetime

from harness.errors import FormatError


def moment(when: str) -> datetime:
    """Return the moment that a text means.

    Raises:
        FormatError: It is none.
    """
    try:
        time = datetime.fromisoformat(when)
    except ValueError:
        raise FormatError(
            f"{when!r} is no time", hint="write it like 2026-11-21 or 2026-11-21T23:00:00+00:00"
        ) from None
    return time if time.tzinfo else time.replace(tzinfo=UTC)


def microseconds(when: str) -> int:
    """Microseconds since 1970 of a time.

    Raises:
        FormatError: It is none.
    """
    since = moment(when) - datetime(1970, 1, 1, tzinfo=UTC)
    return (since.days * 86_400 + since.seconds) * 1_000_000 + since.microseconds
