"""Text and limits of a page: names cut to a readable length, numbers, and how much a list shows."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final

from harness.formatting import TICKS, DisplayUnit, printable, time_unit

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


def bytes_unit(sizes: Iterable[float]) -> DisplayUnit:
    """The unit in which a scale of sizes reads best, judged by its largest."""
    largest = max(sizes, default=0.0)
    if largest < 10 * 1024:
        return DisplayUnit("bytes", 1, 0)
    if largest < 10 * 1024**2:
        return DisplayUnit("KiB", 1024, 1)
    return DisplayUnit("MiB", 1024**2, 1)


def one_time(nanoseconds: float | None, ticks: float | None = None) -> str:
    """A single time with its unit, nanoseconds or else ticks."""
    if nanoseconds is None:
        return "-" if ticks is None else f"{TICKS.text(ticks)} ticks"
    unit = time_unit([nanoseconds])
    return f"{unit.text(nanoseconds)} {unit.name}"


@dataclass(frozen=True, slots=True)
class Limits:
    """The most that is shown of one run. What is left out is counted where it would stand.

    Attributes:
        rows: Rows of a table of operators, allocators or pieces, the worst first.
        checks: Checks, those that do not hold first.
        frames: Frames of a flame view, the longest.
        nodes: Nodes of its list.
        points: Points of a curve.
        trends: Curves through history.
        lines: Lines of the console.
    """

    rows: int
    checks: int
    frames: int
    nodes: int
    points: int
    trends: int
    lines: int

    @classmethod
    def of(cls, runs: int) -> Limits:
        """What one of ``runs`` runs on a page may take: less, the more there are, but some."""

        def share(whole: int, least: int, most: int) -> int:
            return max(least, min(most, whole // max(runs, 1)))

        return cls(
            rows=share(4_000, 10, 200),
            checks=share(8_000, 20, 500),
            frames=share(12_000, 20, 1_000),
            nodes=share(6_000, 10, 400),
            points=share(20_000, 60, 400),
            trends=share(240, 2, 24),
            lines=share(4_000, 10, 200),
        )


def most(count: int, limit: int) -> int:
    """How many of ``count`` are left out."""
    return max(count - limit, 0)
