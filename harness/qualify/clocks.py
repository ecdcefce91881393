"""Stages about the board's clock: its rate, a wrap of its counter, and what an event costs."""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from fractions import Fraction
from itertools import pairwise
from typing import Final

import numpy as np
import numpy.typing as npt

from harness.analyze.alignment import Steadiness, align
from harness.analyze.ticks import durations
from harness.link.session import Session
from harness.link.values import RunOptions
from harness.link.wire import ProfilingLevel
from harness.qualify.bench import Bench, LoggedRun, StageOutcome, failed, not_offered, passed
from harness.records.clock_domain import ClockDomain, Ping
from harness.records.qualification import StageFigure
from harness.records.trace import EXECUTION, Kind

WRAP_S: Final = 300.0
"""Longest wait for a wrap, seconds: 32 bits at 16 MHz take 268."""

_PING_S: Final = 0.05
_LEAST_S: Final = 3.0
_MOST_S: Final = 20.0
"""Shortest and longest time over which the rate is measured."""

_FINEST_PPM: Final = 100.0
"""Width of the rate's bound that is good enough, whatever the board file promises."""

_COARSE_PPM: Final = 10_000.0
"""Tolerance of a board file that states none."""

_REST_S: Final = 1.0
"""Time over which the speed of an idle simulator's clock is measured."""

_SLACK: Final = Fraction(1, 20)
"""Deviation from the declared rate at which two readings of a real clock contradict it."""

_WATCH_S: Final = 0.25
"""Longest time between two readings on the way to a wrap."""

_BEHIND: Final = 5
"""Readings after the wrap."""

_LATEST: Final = 3
"""Periods after which a counter that has not wrapped never will."""

_COST_RUNS: Final = 20


def rate(bench: Bench) -> StageOutcome:
    """Compare the rate of the clock with the host's, until the bound is as narrow as promised."""
    if bench.board.emulated_time:
        return not_offered("its clock counts steps of a simulator, which follow no real time")
    timer = bench.board.timer
    allowed = _COARSE_PPM if timer.tolerance_ppm is None else timer.tolerance_ppm
    steadiness = Steadiness(None, Fraction(timer.wander_ppm))
    with bench.opened(fast=False) as reached:
        clock = reached.info.clocks[0]
        pings: list[Ping] = []
        for ping in _pings(bench, reached.session, _PING_S):
            pings.append(ping)
            passed_s = (ping.host_after_ns - pings[0].host_before_ns) / 1e9
            if passed_s < _LEAST_S or len(pings) % 20:
                continue
            if len({ping.ticks for ping in pings}) == 1:
                return failed("the counter does not move", "check that the port starts it")
            alignment = align(pings, clock, steadiness)
            found = alignment.rate_ppm()
            narrow = found is not None and found[1] - found[0] <= max(2 * allowed, _FINEST_PPM)
            if len(alignment.epochs) > 1 or narrow or passed_s >= _MOST_S:
                break
    figures = [
        StageFigure("readings", len(pings)),
        StageFigure("measured over", round(passed_s, 1), "s"),
        StageFigure("tolerance", allowed, "ppm"),
    ]
    if len(alignment.epochs) > 1 or found is None:
        why = alignment.epochs[-1].stretch.begins if alignment.epochs else "no reading"
        return failed(
            f"its readings fit no steady rate: {why}",
            "check that the counter runs while the core sleeps, and that nothing resets it",
            *figures,
        )
    low, high = found
    figures += [
        StageFigure("rate, at least", round(low, 1), "ppm"),
        StageFigure("rate, at most", round(high, 1), "ppm"),
    ]
    bound = f"{low:+.1f} to {high:+.1f} ppm against the host's clock"
    if low > allowed or high < -allowed:
        return failed(
            f"the clock is off by {bound}; the board file allows {allowed:g} ppm",
            "check the clock tree, the crystal and `timer.hz`, or raise `timer.tolerance_ppm`",
            *figures,
        )
    return passed(f"{float(clock.hz or 0):,.0f} Hz, off by {bound}", *figures)


def _pings(bench: Bench, session: Session, pause_s: float) -> Iterator[Ping]:
    while True:
        bench.progress(0, 0)
        yield session.ping()
        time.sleep(pause_s)


def wrap(bench: Bench) -> StageOutcome:
    """Read the counter until it has wrapped: every reading must follow the one before."""
    with bench.opened(fast=False) as reached:
        clock = reached.info.clocks[0]
        session = reached.session
        speed = float(clock.hz or 0)
        if bench.board.emulated_time:
            speed = _speed(session, clock)
            if not speed:
                return failed("the counter does not move", "check that the port starts it")
        period_s = clock.modulus / speed if speed else float("inf")
        figures = [StageFigure("period at this speed", round(min(period_s, 1e9), 2), "s")]
        if period_s > bench.left_s:
            if bench.board.emulated_time and period_s > WRAP_S:
                return not_offered(
                    f"this simulator's clock passes {speed:,.0f} ticks a second while the board "
                    f"waits, so a wrap of {clock.bits} bits takes too long",
                    *figures,
                )
            return StageOutcome(
                "not run",
                f"a wrap of {clock.bits} bits takes {period_s:.0f} s, more than is left",
                tuple(figures),
                "raise --limit, and --resume",
            )
        pings, fault = _until_wrapped(bench, session, clock, period_s)
    figures.append(StageFigure("readings", len(pings)))
    if fault:
        return failed(
            fault,
            "check the counter's width (`timer.bits`, clock_bits of the port), and how the port "
            "reads it",
            *figures,
        )
    wraps = _wrapped(clock, pings)
    if not wraps:
        return not_offered("this simulator's clock has slowed down before its wrap", *figures)
    at = wraps[0]
    before, after = pings[at].ticks, pings[at + 1].ticks
    figures += [
        StageFigure("last before the wrap", before, "ticks"),
        StageFigure("first after it", after, "ticks"),
    ]
    return passed(
        f"{len(pings)} readings follow one another across a wrap of {clock.bits} bits, from "
        f"{before:,} to {after:,}",
        *figures,
    )


def _until_wrapped(
    bench: Bench, session: Session, clock: ClockDomain, period_s: float
) -> tuple[list[Ping], str]:
    """Read the counter until a while after its wrap; return what contradicts it, or ""."""
    emulated = bench.board.emulated_time
    pings: list[Ping] = []
    began = time.monotonic()
    # A simulator's clock may pass only while it serves a ping: as many as when it was measured.
    for ping in _pings(bench, session, _PING_S if emulated else min(period_s / 16, _WATCH_S)):
        pings.append(ping)
        if fault := _contradiction(clock, pings[-2:], emulated=emulated):
            return pings, fault
        wraps = _wrapped(clock, pings)
        if wraps and len(pings) > wraps[0] + _BEHIND:
            return pings, ""
        slow = emulated and bench.left_s < _REST_S
        if slow or time.monotonic() - began > _LATEST * period_s + _REST_S:
            late = f"the counter has not wrapped within {_LATEST} periods of its width"
            return pings, "" if emulated else late
    raise AssertionError("readings end only with their stage")


def _speed(session: Session, clock: ClockDomain) -> float:
    """Return the ticks per second of an idle simulator, less than half a period per reading."""
    readings = [session.ping()]
    until = time.monotonic() + _REST_S
    total = 0
    while time.monotonic() < until:
        time.sleep(_PING_S)
        readings.append(session.ping())
        total += clock.passed(readings[-2].ticks, readings[-1].ticks)
    took = readings[-1].host_after_ns - readings[0].host_after_ns
    return total / took * 1e9


def _wrapped(clock: ClockDomain, pings: Sequence[Ping]) -> list[int]:
    """Return the places of readings after which the raw value went against its direction."""
    sign = -1 if clock.down else 1
    raw = [sign * ping.ticks for ping in pings]
    return [at for at, (one, two) in enumerate(pairwise(raw)) if two < one]


def _contradiction(clock: ClockDomain, pings: Sequence[Ping], *, emulated: bool) -> str:
    """Return what is wrong with two readings in a row; "" if nothing."""
    for one, two in pairwise(pings):
        step = clock.passed(one.ticks, two.ticks)
        if step >= clock.modulus // 2:
            return f"the counter stepped back, from {one.ticks:,} to {two.ticks:,}"
        if emulated or clock.hz is None:
            continue
        most_s = Fraction(two.host_after_ns - one.host_before_ns, 10**9)
        if step > most_s * clock.hz * (1 + _SLACK) + 1:
            return (
                f"the counter jumped from {one.ticks:,} to {two.ticks:,}, {step:,} ticks within "
                f"{float(most_s):.3g} s"
            )
    return ""


def cost(bench: Bench) -> StageOutcome:
    """Read what the firmware says an event costs, and what it adds to an execution."""
    with bench.opened() as reached:
        info = reached.info
        clock = info.clocks[0]
        bench.small_model(reached)
        began = time.monotonic()
        every = bench.run(reached, _COST_RUNS)
        bench.tick_s = (time.monotonic() - began) / max(1.0, _COST_RUNS * _execution(every))
        few = bench.run(reached, _COST_RUNS, RunOptions(profiling_level=ProfilingLevel.METHOD_ONLY))
    if not info.probe_pairs or not info.probe_ticks:
        return failed(
            "the firmware measured no cost of an event: its counter does not move",
            "check that the port starts the counter, and `ticks` of the port",
        )
    ticks = info.probe_ticks / info.probe_pairs
    ns = ticks / float(clock.hz) * 1e9 if clock.hz else 0.0
    added = (_execution(every) - _execution(few)) / max(1.0, _events(every) - _events(few))
    unit = "ns of the simulator's clock" if bench.board.emulated_time else "ns"
    return passed(
        f"an empty event costs {ticks:.1f} ticks, {ns:,.0f} {unit}",
        StageFigure("empty event", round(ticks, 2), "ticks"),
        StageFigure("empty event, in time", round(ns, 1), unit),
        StageFigure("added to an execution, per event", round(added, 2), "ticks"),
    )


def _execution(run: LoggedRun) -> float:
    """Return the median ticks of an execution."""
    return float(np.median(durations(run.trace)[_executions(run)]))


def _executions(run: LoggedRun) -> npt.NDArray[np.bool_]:
    trace = run.trace
    number = trace.names.index(EXECUTION)
    return np.asarray((trace.name == number) & (trace.kind == Kind.PROFILE))


def _events(run: LoggedRun) -> float:
    """Return the events per execution."""
    executions = int(np.count_nonzero(_executions(run)))
    return int(np.count_nonzero(run.trace.kind == Kind.PROFILE)) / max(1, executions)
