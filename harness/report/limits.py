"""Limits: how much of one run a page shows."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Limits:
    """The most that a page shows of one run. Below each list stands how much is left out.

    Attributes:
        rows: Rows of a table of operators, allocators or allocations, the worst first.
        checks: Checks, failed ones first.
        frames: Frames of a flame view, the longest first.
        nodes: Nodes of the list beside it.
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
        """The limits of each of ``runs`` runs on one page: the more runs, the lower."""

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


def left_out(count: int, limit: int) -> int:
    """How many of ``count`` items are beyond the limit."""
    return max(count - limit, 0)
