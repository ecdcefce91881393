"""Lets the wall clock of every Python that finds this in its path jump: by so many seconds as stand
in the file that ``$JUMPED_CLOCK`` names. The monotonic clock goes on, as a kernel's does.
"""

import datetime
import os
import time

_file = os.environ.get("JUMPED_CLOCK", "")
_time, _time_ns = time.time, time.time_ns


def _jumped() -> float:
    try:
        with open(_file) as file:  # noqa: PTH123 - every Python begins here: import little
            return float(file.read() or 0)
    except (OSError, ValueError):
        return 0.0


class _Datetime(datetime.datetime):
    @classmethod
    def now(cls, tz: datetime.tzinfo | None = None) -> "_Datetime":
        return cls.fromtimestamp(time.time(), tz)


if _file:
    time.time = lambda: _time() + _jumped()
    time.time_ns = lambda: _time_ns() + int(_jumped() * 1e9)
    datetime.datetime = _Datetime  # type: ignore[misc]
