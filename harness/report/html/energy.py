"""The current during an execution as a picture on a page."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from harness.formatting import time_unit
from harness.records.energy import CurrentCurve
from harness.report.description import RunDescription
from harness.report.energy import EnergyDescription
from harness.report.html.scales import SIZE, Axis, axis
from harness.report.html.svg import Curve, Mark, Tick, below, line
from harness.report.text import number

_MILLI: Final = 1e-3


@dataclass(frozen=True, slots=True)
class EnergyView:
    """The energy of a run on a page.

    Attributes:
        energy: What is shown.
        curve: The current during an execution; None if none was measured.
    """

    energy: EnergyDescription
    curve: Curve | None


def energy_view(run: RunDescription) -> EnergyView | None:
    """Draw the energy of a run; None without a meter."""
    result = run.run.result
    if run.energy is None or result is None or result.energy is None:
        return None
    found = result.energy.curve
    return EnergyView(run.energy, None if found is None else _curve(found))


def _curve(found: CurrentCurve) -> Curve:
    """Draw the mean current of each part, with a dot at the largest sample."""
    parts = len(found.average_amperes)
    along = Axis(0.0, found.seconds)  # without room: the execution ends where the picture does
    up = axis([*found.average_amperes, max(found.peak_amperes)], from_zero=True)
    centers = [(part + 0.5) * found.seconds / parts for part in range(parts)]
    points = [
        (along.at(at), SIZE - up.at(amperes))
        for at, amperes in zip(centers, found.average_amperes, strict=True)
    ]
    path = line(points)
    top = found.peak_amperes.index(max(found.peak_amperes))
    peak = f"peak {number(found.peak_amperes[top] / _MILLI)} mA"
    mean = f"average {number(sum(found.average_amperes) / parts / _MILLI)} mA"
    unit = time_unit([found.seconds * 1e9])
    scale = unit.divisor / 1e9
    return Curve(
        title=f"Current during an execution: {mean}, {peak}",
        summary=f"Current during an execution: {mean}, {peak}",
        line=path,
        area=f"{below(path, points[0][0])}",
        marks=(Mark(along.at(centers[top]), SIZE - up.at(found.peak_amperes[top]), peak, "peak"),),
        rules=(),
        columns=(),
        scale=tuple(
            Tick(100 - up.at(value) / 10, f"{number(value / _MILLI)} mA")
            for value in up.ticks(_MILLI)
        ),
        base=tuple(
            Tick(along.at(value) / 10, f"{number(value / scale)} {unit.name}")
            for value in along.ticks(scale)
        ),
    )
