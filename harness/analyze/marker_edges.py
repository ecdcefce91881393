"""Matches edges of the marker pin in a recording with the executions in a log.

The firmware raises the pin after the start of ``Method::execute`` and before its first instruction,
and lowers it after the last instruction and before its end. So the log bounds each edge on the
board's clock, and the recording shows it between two samples.

The match must explain everything: each edge that the log implies is in the recording, or where
samples are missing, or too close to the next one to be seen; and each recorded edge between the
first and the last matched one is in the log. The rate between both clocks is unknown within a
tolerance, and each matched pair narrows it. If two different matches explain everything, neither is
taken.

Where samples are missing their number may be known modulo 64 only, and a loss of 64 is not seen at
all. The edges on both sides settle it, because the log says how much time passed between them.
Where such a loss was is unknown, so the samples between two edges are left out if more is missing
there than the gaps show.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from fractions import Fraction
from itertools import pairwise
from math import ceil, floor
from typing import Final

import numpy as np

from harness.analyze.blocks import block_numbers
from harness.analyze.brackets import Ints
from harness.analyze.ticks import unwrap
from harness.meter.recording import Recording
from harness.records.trace import EXECUTION, Kind, Trace

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
        high: Level after it.
    """

    first: int
    last: int
    readings: tuple[int, int]
    row: int
    high: bool


@dataclass(frozen=True, slots=True)
class MatchedEdges:
    """Edges of a log with their places in a recording.

    Attributes:
        pairs: Index of each logged edge, and the position of the first sample after it.
        position: Position of each sample, in samples since the first, shape (n,).
        placed: True for samples whose position is known, shape (n,).
        missed: Number of logged edges that the recording does not show.
        lost: Number of missing samples, also of those that only the edges show.
    """

    pairs: tuple[tuple[int, int], ...]
    position: Ints
    placed: np.ndarray
    missed: int
    lost: int


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
        lost = np.concatenate([np.zeros(1, np.int64), np.cumsum(recording.gap_size)])
        return cls(
            changed.tolist(),
            (changed + lost[segments]).tolist(),
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


def match_edges(recording: Recording, edges: list[LoggedEdge], hz: Fraction | None) -> MatchedEdges:
    """Match the edges of a recording with those of a log.

    Args:
        recording: The recording.
        edges: The edges that the log implies.
        hz: Declared ticks per second of the board's clock 0.

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
        found = list(_matches(samples, edges, rate * (1 - tolerance), rate * (1 + tolerance)))
        found = [match for match in found if _explains(match, recording, samples, edges)]
        best = max((match.rank for match in found), default=None)
        found = [match for match in found if match.rank == best]
        if len(found) > 1:
            raise EdgeError(
                f"{len(samples.edges)} edges of the marker pin match the log in several ways"
            )
        if found:
            return _placed(found[0], recording, samples, len(edges))
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
        if samples.high[recorded] != edges[logged].high:
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
    found: list[_Hypothesis] = []
    before, at = known.pairs[-1]
    passed = samples.base[recorded] - samples.base[before]
    across_gap = samples.segments[recorded] != samples.segments[before]
    modulus = samples.modulus
    for logged in range(at + 1, len(edges)):
        if edges[logged].high != samples.high[recorded]:
            continue
        between = edges[at + 1 + known.skipped : logged]
        if not across_gap and not _invisible(between, known.fast):
            return found
        least = max(edges[logged].first - edges[at].last, 1)
        most = edges[logged].last - edges[at].first
        low, high = floor(least * known.slow) - _BLUR, ceil(most * known.fast) + _BLUR
        if low > passed + modulus * _SHIFTS:
            return found
        for extra in _extras(passed, low, high, modulus):
            if known.skipped and (across_gap or not extra):
                continue
            unseen = known.unseen + (extra > 0 and not across_gap)
            slow = max(known.slow, Fraction(passed + extra - _BLUR, most))
            fast = min(known.fast, Fraction(passed + extra + _BLUR, least))
            if slow <= fast and unseen <= _UNSEEN:
                pairs = (*known.pairs, (recorded, logged))
                found.append(_Hypothesis(pairs, slow, fast, (*known.extra, extra), unseen))
    return found


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
    match: _Hypothesis, recording: Recording, samples: _Samples, logged: int
) -> MatchedEdges:
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
    lost = np.concatenate([np.zeros(1, np.int64), np.cumsum(recording.gap_size)])
    index = np.arange(len(recording))
    position = index + unseen + lost[np.searchsorted(recording.gap_at, index, side="right")]
    pairs = tuple((edge, int(position[samples.edges[recorded]])) for recorded, edge in match.pairs)
    missing = int(position[-1]) + 1 - len(recording)
    return MatchedEdges(pairs, position, placed, logged - len(pairs), missing)
