"""Names and numbers as text that is safe and easy to read."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Literal, TypeVar

import msgspec

from harness.records.signature import Signature
from harness.records.trace import Stack
from harness.records.verdict import Check

_Named = TypeVar("_Named", bound=Signature)


def printable(text: str) -> str:
    r"""Replace what would not print: bytes that are no UTF-8 and control characters, as ``\xNN``.

    Names come from a device or a file; without this they could move the cursor of a terminal.
    """
    if text.isprintable():
        return text
    return "".join(char if char.isprintable() else _escape(ord(char)) for char in text)


def with_printable_names(item: _Named) -> _Named:
    """The same of an operator with names that print."""
    delegate = item.delegate_str and printable(item.delegate_str)
    return msgspec.structs.replace(
        item, block=printable(item.block), name=printable(item.name), delegate_str=delegate
    )


def with_printable_text(check: Check) -> Check:
    """The same check with texts that print, and that JSON can hold."""
    texts = {name: printable(getattr(check, name)) for name in ("rule", "subject", "reason")}
    return msgspec.structs.replace(check, **texts)


def _escape(code: int) -> str:
    if 0xDC80 <= code <= 0xDCFF:  # a byte that surrogateescape kept
        code -= 0xDC00
    return f"\\x{code:02x}" if code < 0x100 else f"\\u{code:04x}"


_DECIMALS = [f",.{count}f" for count in range(10)]


@dataclass(frozen=True, slots=True)
class DisplayUnit:
    """A unit for a column of numbers.

    Attributes:
        name: Shown in the column's header.
        divisor: Base units (nanoseconds, ticks or bytes) in one of it.
        decimals: Digits after the point.
    """

    name: str
    divisor: float
    decimals: int

    def text(self, value: float) -> str:
        """``value``, in base units, as a number in this unit."""
        return format(value / self.divisor, _DECIMALS[self.decimals])


TICKS = DisplayUnit("ticks", 1, 0)
BYTES = DisplayUnit("B", 1, 0)


def time_unit(nanoseconds: Iterable[float]) -> DisplayUnit:
    """The unit in which a column of times reads best, judged by its largest."""
    largest = max(nanoseconds, default=0.0)
    if largest < 10e3:
        return DisplayUnit("ns", 1, 1)
    if largest < 10e6:
        return DisplayUnit("us", 1e3, 3)
    if largest < 10e9:
        return DisplayUnit("ms", 1e6, 3)
    return DisplayUnit("s", 1e9, 6)


def metric_unit(unit: Literal["ns", "ticks", "bytes"], values: Iterable[float]) -> DisplayUnit:
    """The unit in which values of a metric, whose own unit is given, read best."""
    if unit == "ns":
        return time_unit(values)
    return TICKS if unit == "ticks" else BYTES


def time_text(nanoseconds: float | None, ticks: float, unit: DisplayUnit) -> str:
    """A time in the unit of its column; in ticks, and says so, where the rate is unknown."""
    if nanoseconds is not None:
        return unit.text(nanoseconds)
    return TICKS.text(ticks) if unit is TICKS else f"{TICKS.text(ticks)} ticks"


def unit_of(scale: str | None) -> DisplayUnit | None:
    """The unit that a time scale is called by; None for what reads best."""
    known = {"ns": (1, 1), "us": (1e3, 3), "ms": (1e6, 6), "s": (1e9, 9)}
    if scale in known:
        return DisplayUnit(scale, *known[scale])
    return TICKS if scale == "cycles" else None


def stack_use(used: int, size: int) -> str:
    """How deep a stack was."""
    overflowed = ": it has overflowed" if Stack(0, used, size).overflowed else ""
    return f"{used:,} of {size:,} bytes used{overflowed}"
