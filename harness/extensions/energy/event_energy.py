"""Energy: joules of every event, from a recording of the current, with bounds.

The marker pin's edges align the board's clock with the meter's. The firmware raises the pin after
the start of ``Method::execute`` and before its first instruction, and lowers it after the last
instruction and before its end. So the log bounds each edge on the board's clock, and the recording
shows it between two samples; the bracket solver (``harness.analyze.alignment``) bounds the instant
of each event on the meter's clock. The brackets are wider by ``JITTER_NS`` on both sides, and so
are the instants.

The match of recorded edges with the executions in the log must explain everything: each edge that
the log implies is in the recording, or where samples are missing, or too close to the next one to
be seen; and each recorded edge between the first and the last matched one is in the log. The rate
between both clocks is unknown within a tolerance, and each matched pair narrows it. If two
different matches explain everything, neither is taken.

Where samples are missing their number may be known modulo 64 only, and a loss of 64 is not seen at
all. The edges on both sides settle it, because the log says how much time passed between them.
Where such a loss was is unknown, so the samples between two edges are left out if more is missing
there than the gaps show.

The bound of the joules follows from the instants. The energy since the recording began never
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

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from itertools import pairwise
from math import ceil, floor
from typing import Final

import msgspec
import numpy as np
import numpy.typing as npt

from harness.analyze.alignment import Bracket, Ints, Steadiness, align_brackets
from harness.analyze.blocks import block_numbers
from harness.analyze.placement import HostTimes, place
from harness.analyze.statistics import Operator
from harness.analyze.ticks import unwrap
from harness.errors import FormatError
from harness.extensions.energy.recording import Recording
from harness.records.energy import (
    CurrentCurve,
    EnergyRecord,
    EventEnergy,
    MeasuredEnergy,
    OperatorEnergy,
)
from harness.records.trace import EXECUTION, ClockDomain, Kind, Trace

Bools = npt.NDArray[np.bool_]

_TOLERANCES: Final = (Fraction(500, 1_000_000), Fraction(30_000, 1_000_000))
"""Accepted difference of the rate from the declared one: of crystals, then of RC oscillators."""

_BLUR: Final = 2
"""Largest error of the distance between two edges, in samples: each is up to one sample late."""

_MIN_PULSE: Final = 3
"""A pulse shorter than this many samples may not be seen."""

_UNSEEN: Final = 3
"""Most losses of a multiple of ``lost_modulus``, which nothing but the edges shows."""

_MARGIN: Final = 3
"""Samples used outside of the edges: the execution begins and ends so close to them."""

_SHIFTS: Final = 32
"""Most edges that a recording may have before the first execution, or may have missed."""


class EdgeError(ValueError):
    """The edges of a recording cannot be matched with the executions of a log."""


@dataclass(frozen=True, slots=True)
class LoggedEdge:
    """An edge of the marker pin as the log bounds it.

    Attributes:
        first: Unwrapped tick before the edge.
        last: Unwrapped tick after it.
        readings: Raw readings of both.
        row: Number of events that were logged before the edge.
        rises: Whether the level is high after it.
    """

    first: int
    last: int
    readings: tuple[int, int]
    row: int
    rises: bool


_Pairs = tuple[tuple[int, int], ...]
"""Index of each matched edge of the log, and the position of the first sample after it."""


def logged_edges(trace: Trace) -> list[LoggedEdge]:
    """Return the edges of all executions in the log, in order of time."""
    timeline, numbers = unwrap(trace), block_numbers(trace)
    on_cpu = (trace.kind == Kind.PROFILE) & (trace.clock == 0)
    execution = trace.names.index(EXECUTION) if EXECUTION in trace.names else -2
    is_execution = on_cpu & (trace.name == execution)
    calls = np.flatnonzero(on_cpu & (trace.chain >= 0) & (trace.instruction >= 0))
    edges = []
    for row in np.flatnonzero(is_execution).tolist():
        start, stop = np.searchsorted(calls, [trace.blocks[numbers[row]].first, row]).tolist()
        inside = calls[start:stop]
        first = int(inside[np.argmin(timeline.start[inside])]) if len(inside) else row
        last = int(inside[np.argmax(timeline.end[inside])]) if len(inside) else row
        began = int(timeline.start[row]), int(timeline.start[first])
        ended = int(timeline.end[last]), int(timeline.end[row])
        if not len(inside):  # the log holds scopes only
            began = ended = int(timeline.start[row]), int(timeline.end[row])
        raw_began = (
            int(trace.start[row]),
            int(trace.start[first] if len(inside) else trace.end[row]),
        )
        raw_ended = int(trace.end[last] if len(inside) else trace.start[row]), int(trace.end[row])
        block = trace.blocks[numbers[row]].first
        edges.append(LoggedEdge(*began, raw_began, block, True))
        edges.append(LoggedEdge(*ended, raw_ended, row, False))
    return edges


@dataclass(frozen=True, slots=True)
class _Samples:
    """Where a recording has edges and gaps.

    Attributes:
        edges: Index of the first sample after each edge.
        base: Position of that sample, if no gap is longer than known.
        segments: Number of gaps before it.
        high: Level after each edge.
        modulus: As ``RecordingHeader.lost_modulus``.
    """

    edges: list[int]
    base: list[int]
    segments: list[int]
    high: list[bool]
    modulus: int

    @classmethod
    def of(cls, recording: Recording) -> _Samples:
        changed = np.flatnonzero(recording.marker[1:] != recording.marker[:-1]) + 1
        changed = np.setdiff1d(changed, recording.gap_at)  # that edge is somewhere in the gap
        segments = np.searchsorted(recording.gap_at, changed, side="right")
        return cls(
            changed.tolist(),
            recording.positions(changed).tolist(),
            segments.tolist(),
            recording.marker[changed].tolist(),
            recording.header.lost_modulus,
        )


@dataclass(frozen=True, slots=True)
class _Hypothesis:
    """A match of the first recorded edges.

    Attributes:
        pairs: Recorded and logged edge of each pair.
        slow: Smallest possible number of samples per tick.
        fast: Largest.
        extra: Samples missing beyond the known number, before each pair after the first.
        unseen: Number of losses that no gap shows.
        skipped: The last recorded edge is not matched, because it is where an unseen loss was; the
            pin changed at some time during the loss.
    """

    pairs: tuple[tuple[int, int], ...]
    slow: Fraction
    fast: Fraction
    extra: tuple[int, ...] = (0,)
    unseen: int = 0
    skipped: bool = False

    @property
    def rank(self) -> tuple[int, int]:
        """Sorts matches: the one that explains more edges, with fewer unseen losses, is better."""
        return len(self.pairs), -self.unseen


def match_edges(
    recording: Recording, edges: list[LoggedEdge], hz: Fraction | None
) -> tuple[_Pairs, Ints, Bools, int]:
    """Match the edges of a recording with those of a log.

    Args:
        recording: The recording.
        edges: The edges that the log implies.
        hz: Declared ticks per second of the board's clock 0.

    Returns:
        The matched edges; the position of each sample, in samples since the first; whether it is
        known; and the number of missing samples, also of those that only the edges show.

    Raises:
        EdgeError: No match explains all edges, or more than one does.
    """
    if hz is None:
        raise EdgeError("the rate of the board's clock is unknown")
    if not edges:
        raise EdgeError("the log has no execution")
    samples = _Samples.of(recording)
    if not samples.edges:
        raise EdgeError("the recording shows no edge of the marker pin")
    rate = recording.header.hz / hz
    for tolerance in _TOLERANCES:
        matches = list(_matches(samples, edges, rate * (1 - tolerance), rate * (1 + tolerance)))
        matches = [match for match in matches if _explains(match, recording, samples, edges)]
        best = max((match.rank for match in matches), default=None)
        matches = [match for match in matches if match.rank == best]
        if len(matches) > 1:
            raise EdgeError(
                f"{len(samples.edges)} edges of the marker pin match the log in several ways"
            )
        if matches:
            return _placed(matches[0], recording, samples)
    raise EdgeError(
        f"{len(samples.edges)} edges of the marker pin do not match the {len(edges)} that the "
        "log implies"
    )


def _matches(
    samples: _Samples, edges: list[LoggedEdge], slow: Fraction, fast: Fraction
) -> Iterator[_Hypothesis]:
    """Yield matches of all recorded edges from some edge on."""
    starts = [(0, first) for first in range(min(_SHIFTS, len(edges)))]
    starts += [(first, 0) for first in range(1, min(_SHIFTS, len(samples.edges)))]
    for recorded, logged in starts:
        if samples.high[recorded] != edges[logged].rises:
            continue
        alive = [_Hypothesis(((recorded, logged),), slow, fast)]
        for following in range(recorded + 1, len(samples.edges)):
            done = [each for each in alive if each.pairs[-1][1] == len(edges) - 1]
            if done:  # whatever the pin does after the last execution
                yield from done
            alive = [
                longer
                for each in alive
                if each not in done
                for longer in _longer(each, following, samples, edges) or _skipping(each, samples)
            ]
            if not alive:
                break
        yield from alive


def _longer(
    known: _Hypothesis, recorded: int, samples: _Samples, edges: list[LoggedEdge]
) -> list[_Hypothesis]:
    """Return the matches of one more recorded edge."""
    longer: list[_Hypothesis] = []
    before, at = known.pairs[-1]
    passed = samples.base[recorded] - samples.base[before]
    across_gap = samples.segments[recorded] != samples.segments[before]
    modulus = samples.modulus
    for logged in range(at + 1, len(edges)):
        if edges[logged].rises != samples.high[recorded]:
            continue
        between = edges[at + 1 + known.skipped : logged]
        if not across_gap and not _invisible(between, known.fast):
            return longer
        least = max(edges[logged].first - edges[at].last, 1)
        most = edges[logged].last - edges[at].first
        low, high = floor(least * known.slow) - _BLUR, ceil(most * known.fast) + _BLUR
        if low > passed + modulus * _SHIFTS:
            return longer
        for extra in _extras(passed, low, high, modulus):
            if known.skipped and (across_gap or not extra):
                continue
            unseen = known.unseen + (extra > 0 and not across_gap)
            slow = max(known.slow, Fraction(passed + extra - _BLUR, most))
            fast = min(known.fast, Fraction(passed + extra + _BLUR, least))
            if slow <= fast and unseen <= _UNSEEN:
                pairs = (*known.pairs, (recorded, logged))
                longer.append(_Hypothesis(pairs, slow, fast, (*known.extra, extra), unseen))
    return longer


def _skipping(known: _Hypothesis, samples: _Samples) -> list[_Hypothesis]:
    """Return the match without the next recorded edge, if that may be where an unseen loss was."""
    if known.skipped or not samples.modulus or known.unseen >= _UNSEEN:
        return []
    return [replace(known, skipped=True)]


def _extras(passed: int, low: int, high: int, modulus: int) -> Iterator[int]:
    """Yield the multiples of a modulus for which ``passed`` and they are in a range."""
    if modulus:
        yield from range(max(-((passed - low) // modulus), 0) * modulus, high - passed + 1, modulus)
    elif low <= passed <= high:
        yield 0


def _invisible(between: list[LoggedEdge], fast: Fraction) -> bool:
    """Return whether edges are pairs that are too close to each other to be seen."""
    return len(between) % 2 == 0 and all(
        (second.first - first.last) * fast < _MIN_PULSE
        for first, second in zip(between[::2], between[1::2], strict=True)
    )


def _explains(
    match: _Hypothesis, recording: Recording, samples: _Samples, edges: list[LoggedEdge]
) -> bool:
    """Return whether the edges that are not matched are not within the recording."""
    if len(match.pairs) < 2:  # one edge says nothing of the rate, nor which one it is
        return False
    (recorded, logged), (last_recorded, last_logged) = match.pairs[0], match.pairs[-1]
    gaps = [0, *recording.gap_at.tolist(), len(recording)]
    lead = samples.edges[recorded] - gaps[samples.segments[recorded]]
    trail = gaps[samples.segments[last_recorded] + 1] - samples.edges[last_recorded]
    before = [edges[logged].last - edge.first for edge in reversed(edges[:logged])]
    after = [edge.last - edges[last_logged].first for edge in edges[last_logged + 1 :]]
    return (
        _out_of_sight(before, lead, match.fast)
        and _out_of_sight(after, trail, match.fast)
        and all(_hidden(pair, edges, samples, match, recording) for pair in pairwise(match.pairs))
    )


def _out_of_sight(distances: list[int], samples: int, fast: Fraction) -> bool:
    """Return whether the nearest edge that could be seen is beyond the next gap, or the end.

    Args:
        distances: Largest distance of each edge from the matched one, ticks, the nearest first.
        samples: Number of samples up to that gap.
        fast: Largest number of samples per tick.
    """
    while len(distances) > 1 and (distances[1] - distances[0]) * fast < _MIN_PULSE:
        distances = distances[2:]
    return not distances or distances[0] * fast + _BLUR >= samples


def _hidden(
    pair: tuple[tuple[int, int], tuple[int, int]],
    edges: list[LoggedEdge],
    samples: _Samples,
    match: _Hypothesis,
    recording: Recording,
) -> bool:
    """Return whether each logged edge between two matched ones may be in a gap, or too short."""
    (before, at), (after, logged) = pair
    first, last = samples.segments[before], samples.segments[after]
    if first == last or logged == at + 1:
        return True  # nothing between, or checked by ``_invisible``
    # Where gaps are is known up to their unknown lengths, so only the samples around them count:
    # the edge must not be within the samples before the first gap or after the last one.
    lead = int(recording.gap_at[first]) - samples.edges[before]
    trail = samples.edges[after] - int(recording.gap_at[last - 1])
    between = edges[at + 1 : logged]
    if _invisible(between, match.fast):
        return True
    return all(
        (edge.last - edges[at].first) * match.fast + _BLUR >= lead
        and (edges[logged].last - edge.first) * match.fast + _BLUR >= trail
        for edge in between
    )


def _placed(
    match: _Hypothesis, recording: Recording, samples: _Samples
) -> tuple[_Pairs, Ints, Bools, int]:
    """Return the positions of the samples, with the missing ones that the match implies."""
    placed = np.ones(len(recording), np.bool_)
    unseen = np.zeros(len(recording), np.int64)
    for ((before, _), (after, _)), extra in zip(
        pairwise(match.pairs), match.extra[1:], strict=True
    ):
        if extra:  # in a gap that is longer than known, or anywhere between the edges
            placed[samples.edges[before] : samples.edges[after]] = False
            unseen[samples.edges[after] :] += extra
    if samples.modulus:  # outside of the edges nothing shows a loss of a multiple
        placed[: max(samples.edges[match.pairs[0][0]] - _MARGIN, 0)] = False
        placed[samples.edges[match.pairs[-1][0]] + _MARGIN :] = False
    position = recording.positions(np.arange(len(recording))) + unseen
    pairs = tuple((edge, int(position[samples.edges[recorded]])) for recorded, edge in match.pairs)
    missing = int(position[-1]) + 1 - len(recording)
    return pairs, position, placed, missing


JITTER_NS: Final = 1_000
"""Largest error of an edge: of the sampling instant, and of the pin after the store to it."""

CRYSTALS: Final = Steadiness(None, Fraction(5), Fraction(1))
"""Change of the rate between two crystals: at most 5 ppm within any second."""

_CURVE_PARTS: Final = 250
"""Parts of the curve that a result keeps."""

_METER: Final = ClockDomain("meter", Fraction(1_000_000_000), 64)

Floats = npt.NDArray[np.float64]
_Ranges = tuple[Ints, Ints]


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
    pairs, positions, placed, lost = match_edges(recording, edges, clock.hz)
    period = 1_000_000_000 / recording.header.hz
    brackets = [_bracket(edges[at], position, period) for at, position in pairs]
    alignment = align_brackets(brackets, clock, _METER, steadiness)
    if len(alignment.epochs) > 1:
        raise EdgeError(
            f"no steady rate fits the edges of the marker pin: {alignment.epochs[1].stretch.begins}"
        )
    rows = [edges[at].row for at, _ in pairs]
    return AlignedRecording(
        recording,
        positions[placed],
        np.flatnonzero(placed),
        HostTimes.of(trace, alignment, place(trace, alignment, rows)),
        len(edges),
        len(pairs),
        lost,
    )


def _bracket(edge: LoggedEdge, position: int, period: Fraction) -> Bracket:
    # The pin was read at some time within the period of a sample, low in the one before.
    low = (position - 1) * period - JITTER_NS
    high = (position + 1) * period + JITTER_NS
    return Bracket(low.__floor__(), high.__ceil__(), *edge.readings)


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


def measure_energy(trace: Trace, recording: Recording, wander_ppm: Fraction) -> MeasuredEnergy:
    """Return the energy of a trace; the last argument as of ``energy_record``.

    Raises:
        EdgeError: The edges do not match the log.
        FormatError: More time passed in the log than between two edges.
    """
    aligned = _align(trace, recording, wander_ppm)
    began, ended = aligned.times.instants()
    rows = aligned.times.placement.rows
    return MeasuredEnergy(
        event_energy(aligned),
        (aligned.position * (1e9 / float(recording.header.hz))).astype(np.float64),
        recording.amperes[aligned.index],
        rows[began.known],
        began.mid[began.known],
        rows[ended.known],
        ended.mid[ended.known],
    )


def _align(trace: Trace, recording: Recording, wander_ppm: Fraction) -> AlignedRecording:
    wander = CRYSTALS.wander_ppm + wander_ppm
    return align_recording(trace, recording, replace(CRYSTALS, wander_ppm=wander))


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
        aligned = _align(trace, recording, wander_ppm)
    except (EdgeError, FormatError) as error:
        return msgspec.structs.replace(record, unknown=str(error))
    energy = event_energy(aligned)
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
