"""Durations that say their unit: ``500 * us``, and ``612.400 us`` in a failed assertion."""

from __future__ import annotations

from typing import Final


class Duration(float):
    """A time in nanoseconds; it compares as a number, and prints in the unit that reads best.

    Examples:
        >>> from harness.duration import us
        >>> 12.5 * us
        12.500 us
        >>> 12.5 * us < 1000
        False
    """

    __slots__ = ()

    def __repr__(self) -> str:
        scales = (("s", 1e9), ("ms", 1e6), ("us", 1e3))
        name, size = next((scale for scale in scales if abs(self) >= scale[1]), ("ns", 1.0))
        return f"{float(self) / size:,.3f} {name}"

    def __mul__(self, factor: float) -> Duration:
        return Duration(float(self) * factor)

    __rmul__ = __mul__

    def __add__(self, other: float) -> Duration:
        return Duration(float(self) + other)

    __radd__ = __add__

    def __sub__(self, other: float) -> Duration:
        return Duration(float(self) - other)


ns: Final = Duration(1)
us: Final = Duration(1e3)
ms: Final = Duration(1e6)
s: Final = Duration(1e9)
