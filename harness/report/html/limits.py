"""How much of each list is shown, so that a page stays readable whatever the number of runs."""

from __future__ import annotations

from dataclasses import dataclass


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
