"""Places several tracers on one timeline, by the pairs of readings in their logs.

Each tracer is unwrapped alone (``harness.analyze.ticks``). A pair, a reading of its counter and one
of clock 0 at the same time, says what its ticks lack to be ticks since the zero of clock 0. What
the pairs of a tracer do not settle is said in words and never guessed. Without any pairs, tracers
of one counter are placed only if all of them lie within half a wrap.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from fractions import Fraction
from itertools import pairwise
from typing import Final

import numpy as np
import numpy.typing as npt

from harness.analyze.blocks import block_numbers
from harness.analyze.ticks import LONGEST, RATE_TOLERANCE, durations, forward, signed_steps, unwrap
from harness.printing import counted
from harness.records.trace import Trace, TracerClock

Ints = npt.NDArray[np.int64]
_PAIR_SLACK: Final = Fraction(1, 10_000)
"""Longest time between the readings of a pair, s: an interrupt may come between them."""


class Tracers:
    """Places several tracers on one timeline, by pairs of readings of their counters."""

    def __init__(self, trace: Trace) -> None:
        self.trace = trace
        self.zeros: dict[int, int] = {}  # of clocks, on the timeline before it begins at zero
        self.known = {clock.tracer: clock for clock in trace.tracer_clocks}
        self.problems: dict[int, str] = {}  # of tracers with events, "" without one
        self.placed: dict[int, str] = {}  # of tracers that are placed by their readings
        self.spans: dict[int, tuple[int, int]] = {}  # of tracers, where they are drawn
        self.unproven: dict[int, str] = {}  # of tracers, which pair is missing

    def place(self, number: int, rows: Ints, ends: Ints, lengths: Ints, jitter: int) -> None:
        """Move the ends of events on a clock, each tracer's from its own zero, to one timeline."""
        domain, tracers = self.trace.clocks[number], self.trace.tracer[rows]
        readings, base, origin = self.trace.end[rows], 0, 0
        handovers = (np.flatnonzero(tracers[1:] != tracers[:-1]) + 1).tolist()
        for first, behind in pairwise([0, *handovers, len(ends)]):
            part, tracer = slice(first, behind), int(tracers[first])
            known = self.known.get(tracer, TracerClock(tracer, 0))
            shift: int | Ints | None = None
            if known.clock == number:
                self.problems.setdefault(tracer, "")
                shift = self._shift(known, rows[part], ends[part], lengths[part], jitter)
            if shift is None and first:  # it begins within half a wrap of where the first one does
                begin = int((ends[part] - lengths[part]).min())
                apart = int(forward(domain, readings[:1], readings[first : first + 1])[0])
                apart = (origin + apart - int(ends[first]) + begin - base) % domain.modulus
                steps = signed_steps(domain, np.array([apart], np.uint64), domain.modulus >> 1)
                shift = base - begin + int(steps[0])
            ends[part] += 0 if shift is None else shift
            span = int((ends[part] - lengths[part]).min()), int(ends[part].max())
            if not first:
                base, origin = span[0], int(ends[0])
            if known.clock == number:
                self.spans[tracer] = span

    def _shift(
        self, clock: TracerClock, rows: Ints, ends: Ints, lengths: Ints, jitter: int
    ) -> Ints | None:
        """Return what each end of a tracer lacks to be in ticks since the zero of clock 0.

        Linear between two pairs. None without readings that say it. Adds to the ends the whole
        wraps that only the readings show.
        """
        trace, name = self.trace, self.trace.clocks[0].name
        outer, inner = trace.clocks[0].hz, trace.clocks[clock.clock].hz
        if clock.clock and (outer is None or inner is None):
            self.problems[clock.tracer] = f"the rate of clock {name} is unknown (--clock-hz)"
            return None
        first = trace.clocks[0].modulus
        if not clock.clock and any((one - other) % first for _, one, other in clock.readings):
            self.problems[clock.tracer] = (
                f"the readings of a pair are of two counters, but rate 0 says that both are {name}"
            )
            return None
        ratio = inner / outer if clock.clock and inner and outer else Fraction(1)
        pairs = self._pairs(clock, rows, ends, lengths, jitter, ratio)
        slack = int(2 + 2 * ratio + (inner or 0) * _PAIR_SLACK)
        shifts, problem = self._settled(clock, pairs, self._gap(clock, rows), ends, slack)
        if not shifts or problem:
            self.problems[clock.tracer] = problem
            return None
        if pairs[0][0]:
            self.unproven[clock.tracer] = "no pair of readings before its first event"
        elif pairs[-1][0] < len(rows):
            self.unproven[clock.tracer] = "no pair of readings after its last event"
        apart = max((abs(two - one) for one, two in pairwise(shifts)), default=0)
        differ = f", which differ by up to {apart:,} ticks" if clock.clock else ""
        count = counted(len(shifts), "pair")
        self.placed[clock.tracer] = (
            f"tracer {clock.tracer} is placed on clock {name} by {count} of readings{differ}"
        )
        # Differences from the first pair are small, so they are exact as floats.
        ticks = np.array([at - shift for (_, at, _), shift in zip(pairs, shifts, strict=True)])
        more = np.interp(ends - ticks[0], ticks - ticks[0], np.array(shifts) - shifts[0])
        return np.asarray(shifts[0] + np.rint(more).astype(np.int64))

    def _gap(self, clock: TracerClock, rows: Ints) -> int:
        """Return the place of the first run that follows dropped ones, -1 without."""
        later = np.flatnonzero(np.diff(block_numbers(self.trace)[rows])) + 1
        return int(later[0]) if clock.dropped and len(later) else -1

    def _pairs(
        self,
        clock: TracerClock,
        rows: Ints,
        ends: Ints,
        lengths: Ints,
        jitter: int,
        ratio: Fraction,
    ) -> list[tuple[int, int, int]]:
        """Return of each pair the events before it, the instant, and how far the ends lag it.

        Adds to the ends the wraps that readings between two events show.
        """
        trace, domain, found = self.trace, self.trace.clocks[clock.clock], []

        def step(one: npt.NDArray[np.uint64], two: npt.NDArray[np.uint64]) -> int:
            return int(signed_steps(domain, forward(domain, one, two), jitter)[0])

        behind, before, tick = -1, trace.end[:0], 0  # of the pair before
        for record, own, reference in clock.readings:
            place = int(np.searchsorted(trace.record[rows], record))
            at = np.array([own], np.uint64)
            if place == behind:
                tick += step(before, at)
            elif place:
                tick = int(ends[place - 1]) + step(trace.end[rows[place - 1 : place]], at)
            else:
                tick = int(ends[0] - lengths[0]) - step(at, trace.start[rows[:1]])
            behind, before = place, at
            if place < len(ends):  # the event after it may be a wrap from the one before it
                after = tick + step(at, trace.end[rows[place : place + 1]])
                ends[place:] += max(after - int(ends[place]), 0)
            instant = int(reference * ratio)
            found.append((place, instant, instant - tick))
        return found

    def _settled(
        self,
        clock: TracerClock,
        pairs: Sequence[tuple[int, int, int]],
        gap: int,
        ends: Ints,
        slack: int,
    ) -> tuple[list[int], str]:
        """Return what the ends lack by each pair, and why the pairs do not agree, "" if they do."""
        modulus, missing = self.trace.clocks[clock.clock].modulus, 0
        if any(instant > LONGEST for _, instant, _ in pairs):
            return [], "a pair of readings is out of range"
        shifts = [shift for *_, shift in pairs[:1]]
        for (before, began, _), (behind, ended, shift) in pairwise(pairs):
            allowed = int((ended - began) * RATE_TOLERANCE) + slack if clock.clock else 0
            half = modulus // 2
            wraps, off = divmod(shift - missing - shifts[-1] + half, modulus)
            if ended < began or wraps < 0 or abs(off - half) > allowed:
                return [], "pairs of readings contradict each other, or the rate"
            if 2 * allowed >= modulus:
                return [], "pairs of readings are too far apart to count the wraps between them"
            if wraps and before < behind and not before <= gap <= behind:
                return [], f"the log misses {counted(wraps, 'wrap')} between two pairs of readings"
            ends[gap if before <= gap <= behind else behind :] += wraps * modulus
            missing += wraps * modulus
            shifts.append(shift - missing)
        return shifts, ""

    def found(self) -> tuple[tuple[int | None, ...], tuple[str, ...], tuple[str, ...]]:
        """Return zeros, and which tracers are placed and which are not."""
        for tracer, problem in self.problems.items() if len(self.problems) > 1 else ():
            own, first = self.known.get(tracer), tracer == min(self.problems)
            if tracer in self.placed:
                self.problems[tracer] = self.unproven.get(tracer, "")
            elif problem:
                continue
            elif own is None and not first:
                self.problems[tracer] = "no CLOCK record says which counter it reads"
            elif self.placed or (own is not None and own.clock):
                self.problems[tracer] = "no CLOCK record has a pair of readings"
            elif not first:
                self.problems[tracer] = self._too_long(tracer)
        unplaced = tuple(
            f"tracer {tracer}: {problem}" for tracer, problem in self.problems.items() if problem
        )
        anchored = {self.known[tracer].clock for tracer in self.placed}
        begins = tuple(
            self.zeros[number] if number in anchored else None
            for number in range(len(self.trace.clocks))
        )
        proven = (text for tracer, text in self.placed.items() if not self.problems[tracer])
        return begins, tuple(proven), unplaced

    def _too_long(self, tracer: int) -> str:
        """Return why a tracer of clock 0 without a pair may be elsewhere, "" if it may not."""
        trace, lost = self.trace, self.trace.losses
        begins, ends = zip(self.spans[min(self.spans)], self.spans[tracer], strict=True)
        ticks = max(ends) - min(begins) + trace.hidden_wraps * trace.clocks[0].modulus
        why = ""
        if lost.runs or lost.chunks or lost.damaged:
            why = "parts of the logs are missing"
        elif ticks > trace.clocks[0].modulus // 2:
            why = f"with tracer {min(self.spans)} it lasts more than half a wrap ({ticks:,} ticks)"
        return why and f"{why}, and no CLOCK record has a pair of readings"


def on_one_clock(trace: Trace) -> Trace:
    """Return the trace with all tracers' events in ticks of clock 0, of 64 bits.

    Those of a tracer that is not placed keep their readings as starts. Without both rates its
    events keep their ticks and their clock.
    """
    line, first = unwrap(trace), trace.clocks[0]
    lengths = durations(trace, wall=True)
    start, end, clock = trace.start.copy(), trace.start + lengths, trace.clock.copy()
    for number in trace.own_clocks[1:]:
        rows, own = np.flatnonzero(trace.clock == number), trace.clocks[number]
        if first.hz is None or own.hz is None or not len(rows):
            continue
        ratio, begin, zero = first.hz / own.hz, line.begins[number], line.begins[0]
        for row in rows.tolist():
            ticks = int(trace.start[row])
            if begin is not None and zero is not None:
                since_zero = int((int(line.start[row]) + begin) * ratio) - zero
                ticks = since_zero + (line.origins[0] or 0)
            start[row] = ticks % 2**64
            end[row] = (ticks + int(int(lengths[row]) * ratio)) % 2**64
        clock[rows] = 0
    clocks = (replace(first, bits=64), *trace.clocks[1:])
    return replace(
        trace, start=start, end=end, clock=clock, clocks=clocks, own_clocks=(0,), tracer_clocks=()
    ).sealed()
