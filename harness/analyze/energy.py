"""Energy: joules of every event, from a recording of the current, with bounds.

The marker pin's edges align the board's clock with the meter's: each edge was between two samples
of the meter and between two readings of the board's counter, so the bracket solver
(``harness.analyze.brackets``) bounds the instant of each event on the meter's clock. The brackets
are wider by ``JITTER_NS`` on both sides, and so are the instants.

The bound of the joules follows from these instants. The energy since the recording began never
decreases, if the board feeds nothing back into its supply, and it is known where one sample ends
and the next begins, because a sample is the mean over its period. So between the latest start
and the earliest end of an event all whole samples are part of it: they are the least energy. All
samples from the earliest start to the latest end, parts included, are the most. The difference is
what was drawn while the event may have begun or ended already: the uncertainty of its start and of
its end, each rounded outwards to whole samples, times the current there. It takes in the alignment,
the sampling and any difference of the current between neighbors.

Added to it is the quantization error of each sample, all in the same direction, and the rounding
of the file. An event that may touch a missing sample has no joules: nothing bounds the current that
was not sampled. The bounds leave out the meter's own errors: gain, offset, and a voltage that
was declared rather than measured (``RecordingHeader.not_included``).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import Final

import msgspec
import numpy as np
import numpy.typing as npt

from harness.analyze.alignment import Alignment, Steadiness, align_brackets
from harness.analyze.brackets import Bracket, Ints
from harness.analyze.marker_edges import EdgeError, LoggedEdge, logged_edges, match_edges
from harness.analyze.placement import HostTimes, align_delegate, place
from harness.analyze.statistics import Operator
from harness.errors import FormatError
from harness.meter.recording import Recording
from harness.records.clock_domain import ClockDomain
from harness.records.energy import CurrentCurve, EnergyRecord, OperatorEnergy
from harness.records.trace import EXECUTION, Kind, Trace

JITTER_NS: Final = 1_000
"""Largest error of an edge: of the sampling instant, and of the pin after the store to it."""

CRYSTALS: Final = Steadiness(None, Fraction(5), Fraction(1))
"""Change of the rate between two crystals: at most 5 ppm within any second."""

_CURVE_PARTS: Final = 250
"""Parts of the curve that a result keeps."""

_METER: Final = ClockDomain("meter", Fraction(1_000_000_000), 64)

Floats = npt.NDArray[np.float64]
Bools = npt.NDArray[np.bool_]
_Ranges = tuple[Ints, Ints]


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
    known: Bools
    amperes: Floats
    peak: Floats
    first: Ints
    behind: Ints


@dataclass(frozen=True, slots=True, eq=False)
class AlignedRecording:
    """A recording on the board's clock.

    Attributes:
        recording: The recording.
        position: Position of each placed sample, in samples since the first, ascending.
        index: Index of each placed sample in the recording.
        times: The events on the meter's clock, in nanoseconds of it.
        edges: Number of edges that the log implies.
        matched: Number of these found in the recording.
        lost: Number of missing samples, also of those that only the edges show.
    """

    recording: Recording
    position: Ints
    index: Ints
    times: HostTimes
    edges: int
    matched: int
    lost: int

    @property
    def half_width_ns(self) -> int | None:
        """Largest error of an instant of an event, nanoseconds; None if none is known."""
        began, ended = self.times.instants()
        widths = [each.half_width for each in (began, ended) if each.half_width is not None]
        return max(widths, default=None)


def align_recording(
    trace: Trace, recording: Recording, steadiness: Steadiness = CRYSTALS
) -> AlignedRecording:
    """Place a recording on the clock of the board by the edges of the marker pin.

    Raises:
        EdgeError: The edges do not match the log.
        FormatError: More time passed in the log than between two edges.
    """
    if len(np.unique(trace.tracer)) > 1:
        raise EdgeError("several tracers logged; the marker pin is of one of them only")
    clock = trace.clocks[0] if trace.clocks else ClockDomain("unknown", None)
    edges = logged_edges(trace)
    matched = match_edges(recording, edges, clock.hz)
    period = 1_000_000_000 / recording.header.hz
    brackets = [_bracket(edges[at], position, period) for at, position in matched.pairs]
    alignment = align_brackets(brackets, clock, _METER, steadiness)
    if len(alignment.epochs) > 1:
        raise EdgeError(
            f"no steady rate fits the edges of the marker pin: {alignment.epochs[1].stretch.begins}"
        )
    return AlignedRecording(
        recording,
        matched.position[matched.placed],
        np.flatnonzero(matched.placed),
        _times(trace, alignment, [edges[at].row for at, _ in matched.pairs]),
        len(edges),
        len(matched.pairs),
        matched.lost,
    )


def _bracket(edge: LoggedEdge, position: int, period: Fraction) -> Bracket:
    # The pin was read at some time within the period of a sample, low in the one before.
    low = (position - 1) * period - JITTER_NS
    high = (position + 1) * period + JITTER_NS
    return Bracket(low.__floor__(), high.__ceil__(), *edge.readings)


def _times(trace: Trace, alignment: Alignment, rows: Sequence[int]) -> HostTimes:
    placement = place(trace, alignment, rows)
    delegates = {
        clock: align_delegate(trace, clock, placement)
        for clock in range(1, len(trace.clocks))
        if (trace.clock == clock).any()
    }
    return HostTimes(trace, alignment, placement, delegates)


def event_energy(aligned: AlignedRecording) -> EventEnergy:
    """Return the energy of every event, with the bounds that the module describes."""
    trace, recording = aligned.times.trace, aligned.recording
    early, late = np.zeros(len(trace), np.int64), np.zeros(len(trace), np.int64)
    after, before = np.zeros(len(trace), np.int64), np.zeros(len(trace), np.int64)
    known = np.zeros(len(trace), np.bool_)
    hz = recording.header.hz
    for clock in range(len(trace.clocks)):
        if clock and clock not in aligned.times.delegates:
            continue
        rows = _rows(aligned.times, clock)
        began, ended = aligned.times.instants(clock)
        known[rows] = began.known & ended.known
        early[rows] = _samples(began.low - JITTER_NS, hz)
        after[rows] = _samples(began.high + JITTER_NS, hz, up=True)
        before[rows] = _samples(ended.low - JITTER_NS, hz)
        late[rows] = _samples(ended.high + JITTER_NS, hz, up=True)
    known &= trace.kind == Kind.PROFILE
    before = np.maximum(before, after)  # no sample is certainly part of a short event
    sums = _Sums(aligned)
    known &= sums.complete(early, late)
    # Outside of known events anything will do, so that one expression serves all.
    late = np.where(known, late, 0)
    outer = sums.index(np.where(known, early, 0)), sums.index(late)
    first, behind = (np.minimum(np.where(known, at, 0), late) for at in (after, before))
    inner = sums.index(first), sums.index(behind)
    low, high = sums.bounds(outer, inner)
    amperes, peak = sums.currents(outer, inner)
    return EventEnergy(low, high, known, amperes, peak, *outer)


def _rows(times: HostTimes, clock: int) -> Ints:
    return times.placement.rows if clock == 0 else times.delegates[clock].placement.rows


def _samples(instants: Ints, hz: Fraction, *, up: bool = False) -> Ints:
    """Convert nanoseconds of the meter to samples, rounded outwards."""
    if 1_000_000_000 % hz == 0:  # exact, as for every meter with a rate of its own
        period = int(1_000_000_000 / hz)
        return -((-instants) // period) if up else instants // period
    exact = instants.astype(np.float64) * float(hz / 1_000_000_000)
    slack = np.abs(exact) * 2.0**-50
    rounded = np.ceil(exact + slack) if up else np.floor(exact - slack)
    return rounded.astype(np.int64)


class _Sums:
    """Running sums over the placed samples of a recording."""

    def __init__(self, aligned: AlignedRecording) -> None:
        recording = aligned.recording
        self._position = aligned.position
        self._amperes = recording.amperes[aligned.index]
        volts = recording.volts[aligned.index]
        period = 1.0 / float(recording.header.hz)
        joules = self._amperes * volts * period
        self._joules = _running(joules)
        self._gains = _running(np.maximum(joules, 0.0))
        self._losses = _running(np.minimum(joules, 0.0))
        self._error = _running(recording.error[aligned.index] * np.abs(volts) * period)
        self._current = _running(self._amperes)

    def index(self, positions: Ints) -> Ints:
        """Return the number of samples before each position."""
        return np.searchsorted(self._position, positions)

    def complete(self, first: Ints, behind: Ints) -> Bools:
        """Return whether no sample is missing in each range."""
        return np.asarray(self.index(behind) - self.index(first) == behind - first)

    def bounds(self, outer: _Ranges, inner: _Ranges) -> tuple[Floats, Floats]:
        """Return the least and most joules of events.

        Args:
            outer: First sample that may be part of each event, and the one after the last.
            inner: The same for the samples that are certainly part of it.
        """
        certain = _between(self._joules, *inner)
        error = _between(self._error, *outer)
        low = certain + _between(self._losses, *outer) - _between(self._losses, *inner) - error
        high = certain + _between(self._gains, *outer) - _between(self._gains, *inner) + error
        return low, high

    def currents(self, outer: _Ranges, inner: _Ranges) -> tuple[Floats, Floats]:
        """Return the mean and the largest current of each event; arguments as for ``bounds``."""
        # Of a short event only the samples around it are known.
        use = inner[1] > inner[0]
        first, behind = np.where(use, inner[0], outer[0]), np.where(use, inner[1], outer[1])
        count = np.maximum(behind - first, 1)
        mean = (self._current[behind] - self._current[first]) / count
        peak = np.array(
            [
                self._amperes[start:stop].max(initial=0.0)
                for start, stop in zip(outer[0].tolist(), outer[1].tolist(), strict=True)
            ]
        )
        return mean, peak


def _running(values: Floats) -> Floats:
    return np.concatenate([np.zeros(1), np.cumsum(values)])


def _between(sums: Floats, first: Ints, behind: Ints) -> Floats:
    return np.asarray(sums[behind] - sums[first])


def operator_energy(energy: EventEnergy, operators: Sequence[Operator]) -> list[OperatorEnergy]:
    """Return the energy of every operator. Errors of its events add up, as they may be alike."""
    return [_of_operator(energy, operator) for operator in operators]


def _of_operator(energy: EventEnergy, operator: Operator) -> OperatorEnergy:
    rows = operator.rows[energy.known[operator.rows]]
    facts = (*operator.signature, len(operator.rows), len(rows))
    if not len(rows):
        return OperatorEnergy(*facts)
    low, high = float(energy.low[rows].mean()), float(energy.high[rows].mean())
    return OperatorEnergy(
        *facts,
        joules=(low + high) / 2,
        bound=(high - low) / 2,
        average_amperes=float(energy.amperes[rows].mean()),
        peak_amperes=float(energy.peak[rows].max()),
    )


def execution_curve(aligned: AlignedRecording, energy: EventEnergy) -> CurrentCurve | None:
    """Return the current during the last execution that was measured; None if none was."""
    trace = aligned.times.trace
    if EXECUTION not in trace.names:
        return None
    named = (trace.name == trace.names.index(EXECUTION)) & (trace.kind == Kind.PROFILE)
    rows = np.flatnonzero(named & energy.known)
    if not len(rows):
        return None
    first, behind = int(energy.first[rows[-1]]), int(energy.behind[rows[-1]])
    amperes = aligned.recording.amperes[aligned.index[first:behind]]
    parts = np.array_split(amperes, min(len(amperes), _CURVE_PARTS))
    return CurrentCurve(
        len(amperes) / float(aligned.recording.header.hz),
        tuple(round(float(part.mean()), 9) for part in parts),
        tuple(round(float(part.max()), 9) for part in parts),
    )


@dataclass(frozen=True, slots=True, eq=False)
class MeasuredEnergy:
    """A recording on the board's clock, and the energy of every event."""

    aligned: AlignedRecording
    events: EventEnergy


def measure_energy(trace: Trace, recording: Recording, wander_ppm: Fraction) -> MeasuredEnergy:
    """Return the energy of a trace; the last argument as of ``energy_record``.

    Raises:
        EdgeError: The edges do not match the log.
        FormatError: More time passed in the log than between two edges.
    """
    wander = CRYSTALS.wander_ppm + wander_ppm
    aligned = align_recording(trace, recording, replace(CRYSTALS, wander_ppm=wander))
    return MeasuredEnergy(aligned, event_energy(aligned))


def energy_record(
    trace: Trace,
    recording: Recording,
    operators: Sequence[Operator],
    wander_ppm: Fraction = Fraction(0),
) -> EnergyRecord:
    """Return what a run's result says of its energy; why there are no joules, if there are none.

    Args:
        trace: The trace of the run.
        recording: The samples recorded beside it.
        operators: Its operators.
        wander_ppm: Change of the board's clock beyond that of a crystal, as in its board file.
    """
    header = recording.header
    record = EnergyRecord(
        meter=header.meter,
        hz=float(header.hz),
        samples=len(recording),
        lost_samples=int(recording.gap_size.sum()),
        gaps=len(recording.gap_at),
        lost_modulus=header.lost_modulus if len(recording.gap_at) else 0,
        not_included=header.not_included,
        wander_ppm=float(wander_ppm),
    )
    try:
        measured = measure_energy(trace, recording, wander_ppm)
    except (EdgeError, FormatError) as error:
        return msgspec.structs.replace(record, unknown=str(error))
    aligned, energy = measured.aligned, measured.events
    timed = [operator for operator in operators if operator.ticks is not None]
    return msgspec.structs.replace(
        record,
        edges=aligned.edges,
        matched=aligned.matched,
        lost_samples=aligned.lost,
        half_width_ns=aligned.half_width_ns,
        rate_ppm=aligned.times.alignment.rate_ppm(),
        operators=tuple(operator_energy(energy, timed)),
        curve=execution_curve(aligned, energy),
        unknown="" if energy.known.any() else "samples are missing in every event",
    )
