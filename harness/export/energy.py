"""Energy for exports: the joules of each event, and the current on the drawing's time."""

from __future__ import annotations

from collections.abc import Mapping
from math import ceil
from typing import TYPE_CHECKING, Final

import numpy as np

from harness.export.event_times import Ints, Placed

if TYPE_CHECKING:
    from harness.analyze.energy import AlignedRecording, EventEnergy

_MOST_POINTS: Final = 50_000
"""Points of a track; of a longer recording each is the mean of several samples."""


def energy_columns(energy: EventEnergy) -> dict[str, list[float | None]]:
    """Return the columns of a table; an event without bounds has None."""
    found = {
        "joules": (energy.low + energy.high) / 2,
        "joules_bound": (energy.high - energy.low) / 2,
        "average_amperes": energy.amperes,
        "peak_amperes": energy.peak,
    }
    known = energy.known.tolist()
    return {
        name: [value if here else None for value, here in zip(values.tolist(), known, strict=True)]
        for name, values in found.items()
    }


def energy_arguments(energy: EventEnergy, row: int) -> Mapping[str, int]:
    """Return the energy of an event for the arguments of a slice, the bound rounded up."""
    if not energy.known[row]:
        return {}
    low, high = float(energy.low[row]) * 1e9, float(energy.high[row]) * 1e9
    joules = round((low + high) / 2)
    return {
        "energy_nJ": joules,
        "energy_bound_nJ": ceil(max(high - joules, joules - low)),
        "average_current_uA": round(float(energy.amperes[row]) * 1e6),
        "peak_current_uA": round(float(energy.peak[row]) * 1e6),
    }


def current_points(aligned: AlignedRecording, placed: Placed) -> tuple[Ints, Ints]:
    """Return times in nanoseconds of the drawing, and the current from each on in microamperes.

    The events with bounds connect the meter's clock with the drawing's. Between two of them time
    is interpolated; before the first and after the last there are no points.
    """
    began, ended = aligned.times.instants()
    rows = aligned.times.placement.rows
    starts = began.known & placed.drawn[rows]
    ends = ended.known & placed.drawn[rows]
    meter = np.concatenate([began.mid[starts], ended.mid[ends]])
    drawn = np.concatenate([placed.start[rows[starts]], placed.end[rows[ends]]])
    if not len(meter):
        return np.zeros(0, np.int64), np.zeros(0, np.int64)
    order = np.lexsort((drawn, meter))
    meter, drawn = meter[order], np.maximum.accumulate(drawn[order])
    at = aligned.position * (1e9 / float(aligned.recording.header.hz))
    inside = np.flatnonzero((at >= meter[0]) & (at <= meter[-1]))
    firsts = np.arange(0, len(inside), max(-(-len(inside) // _MOST_POINTS), 1))
    if not len(firsts):
        return np.zeros(0, np.int64), np.zeros(0, np.int64)
    amperes = aligned.recording.amperes[aligned.index[inside]]
    means = np.add.reduceat(amperes, firsts) / np.diff(firsts, append=len(inside))
    times = np.interp(at[inside[firsts]], meter, drawn)
    return times.astype(np.int64), np.rint(means * 1e6).astype(np.int64)
