"""Formatting of names, times and sizes as readable text that is safe to print."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Literal, TypeVar

import msgspec

from harness.records.operator_names import short_operator_name
from harness.records.signature import Signature
from harness.records.trace import Stack
from harness.records.verdict import Check

_T = TypeVar("_T")
_Named = TypeVar("_Named", bound=Signature)


def printable(text: str) -> str:
    r"""Escape control characters and bytes that are not UTF-8 as ``\xNN``.

    Names come from devices and files, and could otherwise send control sequences to a terminal.
    """
    if text.isprintable():
        return text
    return "".join(char if char.isprintable() else _escape(ord(char)) for char in text)


def operator_title(name: str, instruction: int | None = None) -> str:
    """Return the short name of an operator and its instruction, safe to print.

    Args:
        name: Name of an event or of an operator.
        instruction: Its instruction; None or -1 if it belongs to no instruction.

    Examples:
        >>> operator_title("native_call_cortex_m::quantized_conv2d.out", 5)
        'quantized_conv2d #5'
    """
    short = printable(short_operator_name(name))
    return short if instruction is None or instruction < 0 else f"{short} #{instruction}"


def ordinal(number: int) -> str:
    """Return "first" to "tenth", then "11th" and so on."""
    if number <= len(_ORDINALS):
        return _ORDINALS[number - 1]
    teen = number % 100 in (11, 12, 13)
    return f"{number}{'th' if teen else {1: 'st', 2: 'nd', 3: 'rd'}.get(number % 10, 'th')}"


_ORDINALS = (
    *("first", "second", "third", "fourth", "fifth"),
    *("sixth", "seventh", "eighth", "ninth", "tenth"),
)


def with_printable_names(item: _Named) -> _Named:
    """Return a copy of an operator with printable names."""
    delegate = item.delegate_str and printable(item.delegate_str)
    return msgspec.structs.replace(
        item, block=printable(item.block), name=printable(item.name), delegate_str=delegate
    )


def with_printable_keys(items: Mapping[str, _T]) -> dict[str, _T]:
    """Return a copy with printable names, such as those of counters."""
    return {printable(name): item for name, item in items.items()}


def with_printable_text(check: Check) -> Check:
    """Return a copy of a check with printable texts, which JSON can encode."""
    texts = {name: printable(getattr(check, name)) for name in ("rule", "subject", "reason")}
    return msgspec.structs.replace(check, **texts)


def _escape(code: int) -> str:
    if 0xDC80 <= code <= 0xDCFF:  # a byte that surrogateescape kept
        code -= 0xDC00
    return f"\\x{code:02x}" if code < 0x100 else f"\\u{code:04x}"


_DECIMALS = [f",.{count}f" for count in range(10)]


@dataclass(frozen=True, slots=True)
class DisplayUnit:
    """The unit of a column of numbers.

    Attributes:
        name: Name for the column's header.
        divisor: Base units (nanoseconds, ticks or bytes) per unit.
        decimals: Digits after the decimal point.
    """

    name: str
    divisor: float
    decimals: int

    def text(self, value: float) -> str:
        """Return ``value``, given in base units, as a number in this unit."""
        return format(value / self.divisor, _DECIMALS[self.decimals])

    def brief(self, value: float) -> str:
        """Return the same with three significant digits, or all digits before the point."""
        number = abs(value / self.divisor)
        needed = 2 - math.floor(math.log10(number)) if number > 0 else 0
        return format(value / self.divisor, _DECIMALS[min(max(needed, 0), self.decimals)])


TICKS = DisplayUnit("ticks", 1, 0)
BYTES = DisplayUnit("B", 1, 0)


def time_unit(nanoseconds: Iterable[float]) -> DisplayUnit:
    """Return the unit for a column of times, chosen by the largest."""
    largest = max(nanoseconds, default=0.0)
    if largest < 10e3:
        return DisplayUnit("ns", 1, 1)
    if largest < 10e6:
        return DisplayUnit("us", 1e3, 3)
    if largest < 10e9:
        return DisplayUnit("ms", 1e6, 3)
    return DisplayUnit("s", 1e9, 6)


COUNTS = DisplayUnit("counts", 1, 0)
MICROJOULES = DisplayUnit("uJ", 1e3, 3)


def metric_unit(
    unit: Literal["ns", "ticks", "bytes", "count", "nJ"], values: Iterable[float]
) -> DisplayUnit:
    """Return the unit for a column of metric values given in ``unit``."""
    if unit == "ns":
        return time_unit(values)
    return {"ticks": TICKS, "bytes": BYTES, "count": COUNTS, "nJ": MICROJOULES}[unit]


def time_text(
    nanoseconds: float | None, ticks: float, unit: DisplayUnit, *, brief: bool = False
) -> str:
    """Return a time in the unit of its column, or in ticks (labeled) if the rate is unknown."""
    if nanoseconds is not None:
        return unit.brief(nanoseconds) if brief else unit.text(nanoseconds)
    return TICKS.text(ticks) if unit is TICKS else f"{TICKS.text(ticks)} ticks"


def unit_of(scale: str | None) -> DisplayUnit | None:
    """Return the unit of a time scale such as ``us``; None to choose the unit by the values."""
    known = {"ns": (1, 1), "us": (1e3, 3), "ms": (1e6, 6), "s": (1e9, 9)}
    if scale in known:
        return DisplayUnit(scale, *known[scale])
    return TICKS if scale == "cycles" else None


def stack_use(used: int, size: int) -> str:
    """Return a text with the stack use, and whether the stack overflowed."""
    overflowed = ": overflowed" if Stack(0, used, size).overflowed else ""
    return f"{used:,} of {size:,} bytes used{overflowed}"
