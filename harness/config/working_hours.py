"""Working hours: the times of a week at which people go before nightly runs."""

from __future__ import annotations

import re
from dataclasses import dataclass
from datetime import datetime
from typing import Final, Self

_DAYS: Final = ("Mon", "Tue", "Wed", "Thu", "Fri", "Sat", "Sun")
_PART: Final = re.compile(r"([A-Za-z]+)(?:-([A-Za-z]+))? (\d\d):(\d\d)-(\d\d):(\d\d)")
_DAY_MINUTES: Final = 24 * 60


@dataclass(frozen=True, slots=True)
class WorkingHours:
    """Times of a week.

    Attributes:
        parts: Days (0 is Monday), and the first and the last minute of the day plus one.
    """

    parts: tuple[tuple[frozenset[int], int, int], ...] = ()

    @classmethod
    def parse(cls, text: str) -> Self:
        """Parse text such as ``Mon-Fri 08:00-18:00, Sat 09:00-12:00``; "" is never.

        Raises:
            ValueError: The text is invalid; the message says why.
        """
        return cls(tuple(map(_part, text.split(","))) if text.strip() else ())

    def include(self, moment: datetime) -> bool:
        """Whether a local time is one of them."""
        minute = 60 * moment.hour + moment.minute
        return any(
            moment.weekday() in days and begin <= minute < end for days, begin, end in self.parts
        )


def _part(text: str) -> tuple[frozenset[int], int, int]:
    text = text.strip()
    found = _PART.fullmatch(text)
    if found is None:
        raise ValueError(
            f'invalid hours "{text}": expected days and times as "Mon-Fri 08:00-18:00"'
        )
    first, last = (_day(name) for name in (found[1], found[2] or found[1]))
    if last < first:
        raise ValueError(f'invalid days in "{text}": a week begins with Mon')
    begin, end = (_minute(text, found[at], found[at + 1]) for at in (3, 5))
    if end <= begin:
        raise ValueError(
            f'invalid times in "{text}": the end is not after the begin; '
            "divide a span over midnight in two"
        )
    return frozenset(range(first, last + 1)), begin, end


def _day(name: str) -> int:
    if name not in _DAYS:
        raise ValueError(f'unknown day "{name}": expected one of {", ".join(_DAYS)}')
    return _DAYS.index(name)


def _minute(text: str, hour: str, minute: str) -> int:
    minutes = 60 * int(hour) + int(minute)
    if int(minute) > 59 or minutes > _DAY_MINUTES:
        raise ValueError(f'invalid time {hour}:{minute} in "{text}": expected 00:00 to 24:00')
    return minutes
