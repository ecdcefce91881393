"""The roofline as a picture: MACs per cycle over MACs per byte, both on logarithmic scales."""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass

from harness.report.html.scales import SIZE, Axis
from harness.report.html.svg import Curve, Mark, Tick, line
from harness.report.roofline import RooflineRow, RooflineTable
from harness.report.text import Limits, brief, left_out, number

_ROOM = 1.6
"""Factor that the picture reaches beyond what is in it."""


@dataclass(frozen=True, slots=True)
class RooflineView:
    """The roofline on a page.

    Attributes:
        table: What is shown.
        rows: The first rows.
        more: How many are left out.
        picture: The roof and the operators with MACs; None if no operator has any.
    """

    table: RooflineTable
    rows: tuple[RooflineRow, ...]
    more: int
    picture: Curve | None


def roofline_view(table: RooflineTable | None, limits: Limits) -> RooflineView | None:
    """Prepare a roofline for a page; None without one."""
    if table is None:
        return None
    rows = table.rows[: limits.rows]
    more = left_out(len(table.rows), limits.rows)
    return RooflineView(table, rows, more, _picture(table, rows))


def _picture(table: RooflineTable, rows: Iterable[RooflineRow]) -> Curve | None:
    """Draw the operators that multiply; others have no place on a logarithmic scale."""
    placed = [item for item in rows if item.point.macs]
    if not placed:
        return None
    core = table.core
    ridge = core.macs_per_cycle / core.bytes_per_cycle
    along = _axis([ridge, *(item.point.intensity for item in placed)])
    up = _axis([core.macs_per_cycle, *(item.point.macs_per_cycle for item in placed)])
    # The slanted part of the roof begins where it enters the picture.
    left = max(along.low, up.low - math.log10(core.bytes_per_cycle))
    peak = SIZE - up.at(math.log10(core.macs_per_cycle))
    start = SIZE - up.at(left + math.log10(core.bytes_per_cycle))
    roof = [(along.at(left), start), (along.at(math.log10(ridge)), peak), (SIZE, peak)]
    bounds = [item.point.bound for item in placed]
    counts = ", ".join(f"{bounds.count(bound)} by {bound}" for bound in dict.fromkeys(bounds))
    summary = (
        f"{len(placed)} operators below a roof of {number(core.macs_per_cycle)} MACs per cycle"
    )
    return Curve(
        title="MACs per cycle over MACs per byte of tensors",
        summary=f"Roofline: {summary}; bound {counts}",
        line=line(roof),
        area="",
        marks=tuple(_mark(item, along, up) for item in placed),
        rules=(),
        columns=(),
        scale=tuple(Tick(100 - up.at(place) / 10, text) for place, text in _ticks(up)),
        base=tuple(Tick(along.at(place) / 10, text) for place, text in _ticks(along)),
    )


def _axis(values: Iterable[float]) -> Axis:
    """A logarithmic axis that holds positive values with room on both sides."""
    found = [math.log10(value) for value in values]
    return Axis(min(found) - math.log10(_ROOM), max(found) + math.log10(_ROOM))


def _ticks(axis: Axis) -> list[tuple[float, str]]:
    """Places and texts of powers of ten, of 1, 2 and 5 times them where these are few."""
    exponents = range(math.floor(axis.low) - 1, math.ceil(axis.high) + 1)
    wide = axis.high - axis.low > 2
    values = [n * 10.0**e for e in exponents for n in ((1,) if wide else (1, 2, 5))]
    places = [(math.log10(value), f"{value:g}") for value in values]
    return [(place, text) for place, text in places if axis.low <= place <= axis.high]


def _mark(item: RooflineRow, along: Axis, up: Axis) -> Mark:
    point = item.point
    text = (
        f"{brief(item.row.name)}, instruction {item.row.instruction}: {item.cells[5]} MACs per "
        f"cycle, {item.cells[6]} MACs per byte, {item.cells[7]} % of the roof, bound by "
        f"{point.bound}"
    )
    x, y = along.at(math.log10(point.intensity)), up.at(math.log10(point.macs_per_cycle))
    return Mark(x, SIZE - y, text, point.bound)
