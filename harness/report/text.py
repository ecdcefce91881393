"""Names and numbers as every report shows them."""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass
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


def three_digits(value: float) -> str:
    """A number with three significant digits, without an exponent; whole from 100."""
    size = abs(value)
    if not math.isfinite(value) or size >= 99.95 or size < 1e-9:
        return f"{value:,.0f}"
    return f"{value:.{2 - math.floor(math.log10(float(f'{size:.2e}')))}f}"


def short_time_unit(nanoseconds: float) -> DisplayUnit:
    """The unit in which a time is a number below 1,000, for three digits of it."""
    for name, divisor in (("ns", 1.0), ("us", 1e3), ("ms", 1e6)):
        if nanoseconds < 999.5 * divisor:
            return DisplayUnit(name, divisor, 3)
    return DisplayUnit("s", 1e9, 3)


def short_time(nanoseconds: float | None, ticks: float | None = None) -> str:
    """A single time with three digits and its unit: nanoseconds if known, else ticks."""
    if nanoseconds is None:
        return one_time(None, ticks)
    unit = short_time_unit(nanoseconds)
    return f"{three_digits(nanoseconds / unit.divisor)} {unit.name}"


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


def short_size(size: float) -> str:
    """A single size to three digits with its unit."""
    unit = bytes_unit([abs(size)])
    return (
        f"{size:,.0f} bytes"
        if unit.divisor == 1
        else f"{three_digits(size / unit.divisor)} {unit.name}"
    )


def counted(count: int, noun: str) -> str:
    """A count and its noun, in the plural unless the count is 1."""
    return f"{count:,} {noun}{'' if count == 1 else 's'}"


def with_delegate(event: Signature | Metric) -> str:
    """The event's name and its delegate id, or ``NO_NAME``; not safe to print."""
    delegate = event.delegate_str if event.delegate_str is not None else event.delegate_int
    if delegate == -1:
        return event.name or NO_NAME
    return f"{event.name} [{delegate}]" if event.name else f"[{delegate}]"


@dataclass(frozen=True, slots=True)
class Limits:
    """The most that a page shows of one run. Below each list stands how much is left out.

    Attributes:
        rows: Rows of a table of operators, allocators or allocations, the worst first.
        checks: Checks, failed ones first.
        frames: Frames of a flame view, the longest first.
        blocks: Blocks of a timeline, the longest first.
        nodes: Nodes of the list beside it.
        points: Points of a curve.
        trends: Curves through history.
        lines: Lines of the console.
    """

    rows: int
    checks: int
    frames: int
    blocks: int
    nodes: int
    points: int
    trends: int
    lines: int

    @classmethod
    def of(cls, runs: int) -> Limits:
        """The limits of each of ``runs`` runs on one page: the more runs, the lower."""

        def share(whole: int, least: int, most: int) -> int:
            return max(least, min(most, whole // max(runs, 1)))

        return cls(
            rows=share(4_000, 10, 200),
            checks=share(8_000, 20, 500),
            frames=share(12_000, 20, 1_000),
            blocks=share(4_000, 10, 300),
            nodes=share(6_000, 10, 400),
            points=share(20_000, 60, 400),
            trends=share(240, 2, 24),
            lines=share(4_000, 10, 200),
        )


def left_out(count: int, limit: int) -> int:
    """How many of ``count`` items are beyond the limit."""
    return max(count - limit, 0)
