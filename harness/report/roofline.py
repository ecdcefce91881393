"""The roofline as every report shows it: operators against what the core can do at most."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from harness.analyze.roofline import RooflinePoint, roofline
from harness.check.subject import Subject
from harness.records.core import CoreRecord
from harness.report.operators import OperatorListing, OperatorRow
from harness.report.text import number

ROOFLINE_HEADERS: Final = (
    *("operator", "instruction", "MACs", "bytes", "cycles"),
    *("MACs/cycle", "MACs/byte", "roof [%]", "bound"),
)
"""Headers of the cells of a row; all but the first and the last are numbers."""

ROOFLINE_NUMBERS: Final = range(1, len(ROOFLINE_HEADERS) - 1)


@dataclass(frozen=True, slots=True)
class RooflineRow:
    """An operator: its place, and its texts in the order of ROOFLINE_HEADERS."""

    row: OperatorRow
    point: RooflinePoint
    cells: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class RooflineTable:
    """Operators against what their core can do.

    Attributes:
        core: What it can do.
        roof: The same as a sentence.
        rows: Operators of known work and cycles, in the order of ``OperatorListing``.
    """

    core: CoreRecord
    roof: str
    rows: tuple[RooflineRow, ...]


def describe_roofline(subject: Subject, listing: OperatorListing) -> RooflineTable | None:
    """Place the operators of ``subject``; None without cycles, their work, or the core's limits."""
    core = subject.core
    if core is None or subject.chains is None:
        return None
    rows = {id(row.operator): row for row in listing.operators}
    points = roofline((row.operator for row in listing.operators), subject.chains, core)
    if not points:
        return None
    return RooflineTable(
        core=core,
        roof=f"the core can do {number(core.macs_per_cycle)} MACs and load or store "
        f"{number(core.bytes_per_cycle)} bytes in a cycle",
        rows=tuple(_row(rows[id(point.operator)], point) for point in points),
    )


def _row(row: OperatorRow, point: RooflinePoint) -> RooflineRow:
    cells = (
        row.name,
        row.instruction,
        f"{point.macs:,}",
        f"{point.bytes:,}",
        number(point.cycles),
        f"{point.macs_per_cycle:.3f}",
        f"{point.intensity:.2f}",
        f"{100 * point.share:.1f}",
        point.bound,
    )
    return RooflineRow(row, point, cells)
