"""Timestamps in results: ISO 8601, UTC if there is no other time zone."""

from __future__ import annotations

from datetime import UTC, datetime

from harness.errors import FormatError


def moment(when: str) -> datetime:
    """Parse a timestamp.

    Raises:
        FormatError: The text is not a timestamp.
    """
    try:
        time = datetime.fromisoformat(when)
    except ValueError:
        raise FormatError(
            f"invalid time {when!r}", hint="use 2026-11-21 or 2026-11-21T23:00:00+00:00"
        ) from None
    return time if time.tzinfo else time.replace(tzinfo=UTC)


def microseconds(when: str) -> int:
    """Parse a timestamp into microseconds since 1970.

    Raises:
        FormatError: The text is not a timestamp.
    """
    since = moment(when) - datetime(1970, 1, 1, tzinfo=UTC)
    return (since.days * 86_400 + since.seconds) * 1_000_000 + since.microseconds
