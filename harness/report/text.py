"""Names and numbers as every report shows them."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Final

from harness.formatting import TICKS, DisplayUnit, printable, time_unit

if TYPE_CHECKING:
    from harness.check.history.samples import Metric
    from harness.records.signature import Signature

LONGEST_NAME: Final = 160
"""Characters of a name that a page shows."""

LONGEST_SENTENCE: Final = 1_000
"""Characters of a reason or a message that a page shows."""

NO_NAME: Final = "(no name)"


def brief(text: str, longest: int = LONGEST_NAME) -> str:
    """``text`` without control characters; long text keeps its start, its end and its length."""
    if len(text) <= longest:
        return printable(text)
    head, tail = printable(text[: longest * 3 // 4]), printable(text[-longest // 5 :])
    return f"{head} … {tail} [{len(text):,} characters]"


def number(value: float | None) -> str:
    """Up to three decimals and thousands separators; a dash for None."""
    if value is None:
        return "-"
    text = f"{value:,.3f}"
    return text.rstrip("0").rstrip(".")


def percent(share: float | None, decimals: int = 1) -> str:
    """A share as a percentage; a dash for None."""
    return "-" if share is None else f"{100 * share:.{decimals}f} %"


def bytes_unit(sizes: Iterable[float]) -> DisplayUnit:
    """The unit for a scale of sizes, chosen by the largest."""
    largest = max(sizes, default=0.0)
    if largest < 10 * 1024:
        return DisplayUnit("bytes", 1, 0)
    if largest < 10 * 1024**2:
        return DisplayUnit("KiB", 1024, 1)
    return DisplayUnit("MiB", 1024**2, 1)


def one_time(nanoseconds: float | None, ticks: float | None = None) -> str:
    """A single time with its unit: nanoseconds if known, else ticks."""
    if nanoseconds is None:
        return "-" if ticks is None else f"{TICKS.text(ticks)} ticks"
    unit = time_unit([nanoseconds])
    return f"{unit.text(nanoseconds)} {unit.name}"


def counted(count: int, noun: str) -> str:
    """A count and its noun, in the plural unless the count is 1."""
    return f"{count:,} {noun}{'' if count == 1 else 's'}"


def with_delegate(event: Signature | Metric) -> str:
    """The event's name and its delegate id, or ``NO_NAME``; not safe to print."""
    delegate = event.delegate_str if event.delegate_str is not None else event.delegate_int
    if delegate == -1:
        return event.name or NO_NAME
    return f"{event.name} [{delegate}]" if event.name else f"[{delegate}]"
