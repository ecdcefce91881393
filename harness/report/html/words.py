"""Texts of a page: names cut to a readable length, bytes, signed and plain numbers."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from harness.report.text import TICKS, Unit, printable, time_unit

LONGEST: Final = 160
"""Characters of a name that are shown."""


def brief(text: str, longest: int = LONGEST) -> str:
    """``text`` so that it prints; of a longer one the beginning, the end and its length."""
    if len(text) <= longest:
        return printable(text)
    head, tail = printable(text[: longest * 3 // 4]), printable(text[-longest // 5 :])
    return f"{head} … {tail} [{len(text):,} characters]"


def number(value: float | None) -> str:
    """Up to three decimals, thousands apart; a dash for none."""
    if value is None:
        return "-"
    text = f"{value:,.3f}"
    return text.rstrip("0").rstrip(".")


def percent(share: float | None, decimals: int = 1) -> str:
    """A share as percent; a dash for none."""
    return "-" if share is None else f"{100 * share:.{decimals}f} %"


def bytes_unit(sizes: Iterable[float]) -> Unit:
    """The unit in which a scale of sizes reads best, judged by its largest."""
    largest = max(sizes, default=0.0)
    if largest < 10 * 1024:
        return Unit("bytes", 1, 0)
    if largest < 10 * 1024**2:
        return Unit("KiB", 1024, 1)
    return Unit("MiB", 1024**2, 1)


def one_time(nanoseconds: float | None, ticks: float | None = None) -> str:
    """A single time with its unit, nanoseconds or else ticks."""
    if nanoseconds is None:
        return "-" if ticks is None else f"{TICKS.text(ticks)} ticks"
    unit = time_unit([nanoseconds])
    return f"{unit.text(nanoseconds)} {unit.name}"
