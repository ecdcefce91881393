"""Energy of a run, as stored in ``result.json``."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import msgspec

from harness.records.trace import Signature

if TYPE_CHECKING:
    import numpy as np
    import numpy.typing as npt

    Ints = npt.NDArray[np.int64]
    Floats = npt.NDArray[np.float64]


class OperatorEnergy(Signature, frozen=True):
    """Energy of one operator: the mean of an event, over all events that could be measured.

    Attributes:
        events: Number of its events.
        measured: Number of these with bounds; the others may touch samples that are missing.
        joules: Middle of the bounds of the mean; null if no event was measured.
        bound: Largest error of ``joules``, without the errors of the meter itself.
        average_amperes: Mean current during its events.
        peak_amperes: Largest sample during its events.
    """

    events: int
    measured: int
    joules: float | None = None
    bound: float | None = None
    average_amperes: float | None = None
    peak_amperes: float | None = None


class CurrentCurve(msgspec.Struct, frozen=True):
    """The current during one execution, in parts of equal length.

    Attributes:
        seconds: Length of all parts together.
        average_amperes: Mean current of each part.
        peak_amperes: Largest sample of each part.
    """

    seconds: float
    average_amperes: tuple[float, ...]
    peak_amperes: tuple[float, ...]


class EnergyRecord(msgspec.Struct, frozen=True):
    """What a run drew from its supply, measured by a meter beside it.

    Attributes:
        meter: Name of the meter.
        hz: Samples per second, on the meter's clock.
        samples: Number of samples.
        lost_samples: Number of samples that are known to be missing, from their numbers and from
            the edges of the marker pin.
        gaps: Number of places where their numbers show it.
        lost_modulus: Outside of the edges ``lost_samples`` may be too low by multiples of this; 0
            if it is exact.
        edges: Number of edges of the marker pin that the log implies.
        matched: Number of these found in the recording.
        half_width_ns: Largest error of an event's start or end on the meter's clock, nanoseconds;
            null if nothing could be aligned.
        rate_ppm: Smallest and largest deviation of the board's clock from its declared rate against
            the meter's clock, parts per million.
        operators: Energy of every operator; the joules of an execution are those of
            ``Method::execute``.
        curve: The current during the last execution that was measured; null if none was.
        not_included: Errors of the meter itself, which no bound includes.
        wander_ppm: Wander of the board's clock beyond that of a crystal, which the bounds allow.
        missing: Why the recording is incomplete, "" if it is whole; events after its end have no
            joules.
        unknown: Why there are no joules, "" if there are.
    """

    meter: str
    hz: float
    samples: int
    lost_samples: int
    gaps: int
    lost_modulus: int
    edges: int = 0
    matched: int = 0
    half_width_ns: int | None = None
    rate_ppm: tuple[float, float] | None = None
    operators: tuple[OperatorEnergy, ...] = ()
    curve: CurrentCurve | None = None
    not_included: str = ""
    wander_ppm: float = 0.0
    missing: str = ""
    unknown: str = ""


@dataclass(frozen=True, slots=True, eq=False)
class EventEnergy:
    """Energy of every event of a trace, shape (n,) each.

    Attributes:
        low: Least possible joules.
        high: Most possible joules.
        known: False for events without bounds; the other columns are meaningless there.
        amperes: Mean current, of the middle of the bounds.
        peak: Largest sample that may be part of the event, amperes.
        first: Index of the first placed sample that may be part of the event.
        behind: Index after the last one.
    """

    low: Floats
    high: Floats
    known: npt.NDArray[np.bool_]
    amperes: Floats
    peak: Floats
    first: Ints
    behind: Ints


@dataclass(frozen=True, slots=True, eq=False)
class MeasuredEnergy:
    """The energy of every event, and the samples beside the events on the meter's clock.

    Attributes:
        events: The energy of every event.
        at_ns: Time of each sample, nanoseconds since the first, ascending; shape (m,).
        amperes: Each sample, shape (m,).
        began_rows: Events whose begin is known on the meter's clock.
        began_ns: The middle of its bounds, nanoseconds.
        ended_rows: Events whose end is known on the meter's clock.
        ended_ns: The middle of its bounds, nanoseconds.
    """

    events: EventEnergy
    at_ns: Floats
    amperes: Floats
    began_rows: Ints
    began_ns: Ints
    ended_rows: Ints
    ended_ns: Ints


class EnergyChange(Signature, frozen=True):
    """Mean energy of an event of one operator in two runs, which both measured it.

    Attributes:
        before: Joules in the first run.
        after: Joules in the second.
        bound: Largest error of their difference, without the errors of the meters.
    """

    before: float
    after: float
    bound: float

    @property
    def beyond_bound(self) -> bool:
        """Whether alignment and sampling cannot explain the difference."""
        return abs(self.after - self.before) > self.bound
