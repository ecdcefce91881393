"""The stages: of the clock, the line, the firmware on the board, its log, and its models."""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from itertools import pairwise
from pathlib import Path
from typing import Any, Final

import numpy as np
import numpy.typing as npt

from harness.analyze.alignment import UNSTATED_PPM, rate_evidence, stepped_back
from harness.analyze.ticks import durations
from harness.analyze.workload import instruction_records
from harness.check.fit import fit, fit_placed
from harness.check.invariants.executions import compare_output
from harness.check.subject import ModelOutput
from harness.config.board import Board, NativeTarget, RtlTarget, SerialTarget
from harness.decode.program import Method
from harness.decode.pte import read_program
from harness.errors import DeviceRefusedError, RestartedError, TargetError
from harness.extensions.qualify.bench import (
    SMALL,
    Bench,
    LoggedRun,
    UnsoundLogError,
    ended,
    export_for,
    failed,
    model_bytes,
    network_of,
    not_offered,
    passed,
    reference_of,
)
from harness.extensions.qualify.record import StageFigure, StageRecord
from harness.files import packaged_models
from harness.flash.flashing import flash_board
from harness.link.messages import RunOptions
from harness.link.session import Session
from harness.link.wire import ProfilingLevel, Region, Reset, State, Status, WhenFull
from harness.plugins import POSTMORTEMS, load_extension
from harness.printing import counted
from harness.records.result import BUNDLED_RUNTIME
from harness.records.trace import EXECUTION, NO_COUNT, STREAMING, ClockDomain, Kind, Ping, Trace
from harness.runs.device import tensor_from_bytes, tensor_to_bytes
from harness.runs.line_quality import GOOD_LOSS, RateQuality, measure_rates
from harness.runs.request import RunRequest
from harness.runs.run import run_model
from harness.runs.source import counts_of

WRAP_S: Final = 300.0
"""Longest wait for a wrap, seconds: 32 bits at 16 MHz take 268."""

_PING_S: Final = 0.05
_LEAST_S: Final = 3.0
_MOST_S: Final = 20.0
"""Shortest and longest time over which the rate is measured."""

_FINEST_PPM: Final = 100.0
"""Width of the rate's bound that is good enough, whatever the board file promises."""

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


def rate(bench: Bench) -> StageRecord:
    """Compare the rate of the clock with the host's, until the bound is as narrow as promised."""
    if bench.board.emulated_time:
        return not_offered("its clock counts steps of a simulator, which follow no real time")
    with bench.opened(fast=False) as session:
        clock = bench.answer.clocks[0]
        allowed = UNSTATED_PPM if clock.tolerance_ppm is None else clock.tolerance_ppm
        pings: list[Ping] = []
        for ping in _pings(bench, session, _PING_S):
            pings.append(ping)
            passed_s = (ping.host_after_ns - pings[0].host_before_ns) / 1e9
            if passed_s < _LEAST_S or len(pings) % 20:
                continue
            evidence = rate_evidence(pings, clock)
            bounds = evidence.ppm
            narrow = bounds is not None and bounds[1] - bounds[0] <= max(2 * allowed, _FINEST_PPM)
            if evidence.agrees is False or narrow or passed_s >= _MOST_S:
                break
    figures = [
        StageFigure("readings", len(pings)),
        StageFigure("measured over", round(passed_s, 1), "s"),
        StageFigure("tolerance", allowed, "ppm"),
    ]
    if bounds is not None:
        figures += [
            StageFigure("rate, at least", round(bounds[0], 1), "ppm"),
            StageFigure("rate, at most", round(bounds[1], 1), "ppm"),
        ]
    if not evidence.agrees:
        return failed(
            evidence.reason,
            "check the clock tree, the crystal and `timer.hz`, that the counter is started, runs "
            "while the core sleeps and is never reset; or raise `timer.tolerance_ppm`",
            *figures,
        )
    return passed(f"{float(clock.hz or 0):,.0f} Hz; {evidence.reason}", *figures)


def _pings(bench: Bench, session: Session, pause_s: float) -> Iterator[Ping]:
    while True:
        bench.progress(0, 0)
        yield session.ping()
        time.sleep(pause_s)


def wrap(bench: Bench) -> StageRecord:
    """Read the counter until it has wrapped: every reading must follow the one before."""
    with bench.opened(fast=False) as session:
        clock = bench.answer.clocks[0]
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
            return ended(
                "not run",
                f"a wrap of {clock.bits} bits takes {period_s:.0f} s, more than is left",
                "raise --limit, and --resume",
                figures,
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
    # A simulator may pass less of its time while the host measures its speed than later.
    fastest = max(clock.hz or Fraction(0), Fraction(clock.modulus / period_s))
    pings: list[Ping] = []
    began = time.monotonic()
    # A simulator's clock may pass only while it serves a ping: as many as when it was measured.
    for ping in _pings(bench, session, _PING_S if emulated else min(period_s / 16, _WATCH_S)):
        pings.append(ping)
        if fault := _contradiction(clock, pings[-2:], fastest, emulated=emulated):
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


def _contradiction(
    clock: ClockDomain, pings: Sequence[Ping], fastest: Fraction, *, emulated: bool
) -> str:
    """Return what is wrong with two readings in a row; "" if nothing."""
    for one, two in pairwise(pings):
        if stepped_back(one, two, clock, fastest):
            return f"the counter stepped back, from {one.ticks:,} to {two.ticks:,}"
        if emulated or clock.hz is None:
            continue
        step = clock.passed(one.ticks, two.ticks)
        most_s = Fraction(two.host_after_ns - one.host_before_ns, 10**9)
        if step > most_s * clock.hz * (1 + _SLACK) + 1:
            return (
                f"the counter jumped from {one.ticks:,} to {two.ticks:,}, {step:,} ticks within "
                f"{float(most_s):.3g} s"
            )
    return ""


def cost(bench: Bench) -> StageRecord:
    """Read what the firmware says an event costs, and what it adds to an execution."""
    with bench.opened() as session:
        info = bench.answer
        clock = info.clocks[0]
        bench.small_model(session)
        began = time.monotonic()
        every = bench.run(session, _COST_RUNS)
        bench.tick_s = (time.monotonic() - began) / max(1.0, _COST_RUNS * _execution(every))
        few = bench.run(session, _COST_RUNS, RunOptions(profiling_level=ProfilingLevel.METHOD_ONLY))
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


_CRASH_RUNS: Final = 3
"""Executions of the run that crashes in its second one."""


def flash(bench: Bench) -> StageRecord:
    """Flash the board; only the build id that it reports afterwards counts."""
    board = bench.board
    if board.flash is None or isinstance(board.target, NativeTarget):
        where = "starts with its image" if not bench.is_real else "has no [flash] in its file"
        return not_offered(f"{board.name} {where}")
    output, stages = bench.output / "flash", lambda _, done, total: bench.progress(done, total)
    record = flash_board(bench.chosen, output, bench.how, stages)
    bench.build_id = record.build_id_after
    verified = "read back" if record.verified else "not read back"
    return passed(
        f"{record.tool} wrote {record.image_bytes:,} bytes ({verified}), and the board reports "
        f"build {record.build_id_after}, the image's",
        StageFigure("tool", f"{record.tool} {record.version}".strip()),
        StageFigure("image", record.image_bytes, "bytes"),
        StageFigure("image SHA-256", record.image_sha256),
        StageFigure("attempts", len(record.attempts)),
        StageFigure("time", record.duration_s, "s"),
    )


def link(bench: Bench) -> StageRecord:
    """Measure losses and throughput at every rate."""
    with bench.opened(fast=False) as session:
        bench.clear_postmortem(session)
        info = bench.answer
        first = session.raise_baud(())
        deadlines, target = bench.board.deadlines, bench.board.target
        declared = {first, *target.bauds} if isinstance(target, SerialTarget) else {*info.bauds}
        offered = sorted({first, *info.bauds}) if first else [first]
        measured = measure_rates(
            session,
            info,
            offered,
            deadlines.boot_s,
            bench.execute_s,
            # A simulated line carries each rate alike.
            goodput_at=None if bench.is_real else offered[:1],
        )
        speeds = [rate.up_bytes_s for rate in measured if rate.heard and rate.up_bytes_s]
        bench.up_bytes_s = max(speeds, default=None)
    figures = [figure for rate in measured for figure in _figures(rate)]
    if first and (unknown := declared - {*offered}):
        return failed(
            f"the firmware does not offer {_rates(unknown)}, which the board file lists",
            "correct `target.bauds` in the board file, or the rates of the port",
            *figures,
        )
    bad = [text for rate in measured if (text := _fault(rate, declared))]
    if bad:
        return failed(
            "; ".join(bad),
            "try another cable, USB port or adapter, keep wires short and common ground good, "
            "and leave rates that the line does not carry out of the board file",
            *figures,
        )
    good = _rates({rate.baud for rate in measured if rate.heard})
    frames = sum(rate.frames for rate in measured)
    return passed(f"{good}: no losses in {frames:,} frames", *figures)


def _rates(bauds: set[int]) -> str:
    if bauds <= {0}:
        return "a line without a rate"
    return f"{', '.join(map(str, sorted(bauds)))} baud"


def _figures(rate: RateQuality) -> list[StageFigure]:
    name = f"{rate.baud} baud" if rate.baud else "line"
    if not rate.heard:
        return [StageFigure(name, f"not usable: {rate.message}")]
    found = [
        StageFigure(f"{name}: loss", rate.loss, f"of {rate.frames} frames"),
        StageFigure(f"{name}: UART overruns", rate.overruns),
    ]
    if rate.round_trip_us:
        found.append(StageFigure(f"{name}: median round trip", rate.round_trip_us[0], "us"))
    for way, speed in (("up", rate.up_bytes_s), ("down", rate.down_bytes_s)):
        if speed is not None:
            found.append(StageFigure(f"{name}: {way}", speed, "bytes/s"))
    return found


def _fault(rate: RateQuality, declared: set[int]) -> str:
    """Return what is wrong at a rate; "" for a good one, and for one that no file relies on."""
    at = f"at {rate.baud} baud" if rate.baud else "on the line"
    if not rate.heard:
        return f"the board does not answer {at}" if rate.baud in declared else ""
    if rate.overruns:
        return f"the board's UART lost bytes {counted(rate.overruns, 'time')} {at}"
    if rate.loss > GOOD_LOSS:
        return f"{rate.loss:.2%} of {rate.frames} frames were lost or damaged {at}"
    return ""


def reset(bench: Bench) -> StageRecord:
    """Reboot the board by the link: it must come back, without its model and without a crash."""
    with bench.opened() as session:
        bench.clear_postmortem(session)
        bench.small_model(session)
        session.reset(Reset.REBOOT)
        began = time.monotonic()
        again = session.hello(bench.board.deadlines.boot_s)
        took = time.monotonic() - began
        status = session.status()
    figures = (StageFigure("answers after", round(took, 3), "s"),)
    if again.build_id != bench.answer.build_id:
        return failed(
            f"after the reset it runs build {again.build_id}, not {bench.answer.build_id}",
            "flash it again; a boot loader may keep two images",
            *figures,
        )
    if status.state != State.IDLE or status.run_id:
        return failed(
            "it answers, but has kept its model: the firmware did not start again",
            "check the port's `reboot`, or core_reset of its core",
            *figures,
        )
    if again.postmortem:
        return failed(
            "it takes the requested reset for a crash",
            "check that start-up leaves .noinit alone, and that its memory is initialized once",
            *figures,
        )
    return passed(f"answers {took:.2f} s after the reset, with nothing loaded", *figures)


def crash(bench: Bench) -> StageRecord:
    """Let the board fault in a run; it must come back with a sound postmortem, and run again."""
    crashes = load_extension(POSTMORTEMS, "device", "postmortems are", "postmortem")
    with bench.opened() as session:
        bench.small_model(session)
        try:
            session.run(_CRASH_RUNS, RunOptions(crash=True), timeout_s=bench.execute_s)
        except RestartedError:
            pass
        except DeviceRefusedError as error:
            if error.status != Status.BAD_REQUEST:
                raise
            return not_offered("its firmware cannot crash on request (etd_port.crash)")
        else:
            return failed(
                "a fault on purpose had no effect",
                "check that the port's fault handler calls etd_app_fault, and resets",
            )
        session.hello(bench.board.deadlines.boot_s)
        kept = crashes.fetch(session)
        if kept is None:
            return failed(
                "it came back from a fault without a postmortem",
                "check that .noinit is outside what start-up clears, that a reset keeps that "
                "memory, and that caches are written back",
            )
        message = kept.document.message
        wrong = _wrong(kept.found, bench.answer.build_id)
        if wrong:
            return failed(f"its postmortem is wrong: {wrong} ({message})", _RECORD_REMEDY)
        bench.small_model(session)
        after = bench.run(session, 1)
    return passed(
        f"{message}; the board runs again after it",
        StageFigure("postmortem", message),
        StageFigure("registers", len(kept.document.registers)),
        StageFigure("events in the log of the crash", len(kept.found.trace or ())),
        StageFigure("events of the next run", len(after.trace)),
    )


_RECORD_REMEDY: Final = "see docs/postmortem.md, In a port"


def _wrong(found: Any, build_id: str) -> str:
    """Return what a postmortem of the requested crash gets wrong; "" if nothing."""
    if found.damage:
        return "; ".join(found.damage)
    if not found.running or found.completed != 1 or found.count != _CRASH_RUNS:
        return f"it does not name execution 2 of {_CRASH_RUNS}"
    if not found.fault:
        return "it names no fault"
    if found.trace is None or not len(found.trace):
        return "it has no log"
    return "" if build_id.startswith(found.build_id) else "it names another build"


_LOG_RUNS: Final = 12
"""Executions whose log fits the buffer of most boards as a whole, and half of it not."""

_LOG_BYTES: Final = (500, 256)
"""Bytes of the small network's log: those of names and loading, and those of an execution."""

_MAY_REST: Final = ("_stall", "exception", "cpi", "sleep", "lsu", "fold", "compressed")
"""Parts of names of counters that a sound core may leave at 0: nothing stalls it, for example."""

_REMEDY: Final = "report it: the log is written by the device library, not by the port"


def _log_runs(bench: Bench) -> int:
    """Return the executions whose log fits the board's buffer."""
    (once, each), capacity = _LOG_BYTES, bench.board.capacity
    if capacity is None:
        return _LOG_RUNS
    return max(2, min(_LOG_RUNS, (capacity.trace - once) // each))


def overflow(bench: Bench) -> StageRecord:
    """Log into a buffer that is too small: what is missing must be counted exactly."""
    with bench.opened() as session:
        bench.small_model(session)
        runs = _log_runs(bench)
        try:
            whole = bench.run(session, runs)
        except UnsoundLogError as error:
            return not_offered(error.message)
        limit = _half(whole)
        stopped = bench.run(session, runs, RunOptions(trace_limit=limit))
        newest = bench.run(
            session,
            runs,
            RunOptions(trace_limit=limit, when_full=WhenFull.DROP_OLDEST_RUNS),
        )
    full, cut, kept = (counts_of(each.trace) for each in (whole, stopped, newest))
    figures = (
        StageFigure("whole log", whole.log_bytes, "bytes"),
        StageFigure("buffer", limit, "bytes"),
        StageFigure("events of the whole log", full["events"]),
        StageFigure("events that fit", cut["events"]),
        StageFigure("events counted as dropped", cut["dropped_events"]),
        StageFigure("newest executions kept", kept["executions"]),
        StageFigure("executions counted as dropped", kept["dropped_runs"]),
    )
    lost = full["events"] - cut["events"]
    if full["dropped_events"] or not lost or cut["dropped_events"] != lost:
        return failed(
            f"{counted(lost, 'event', 'is')} missing, and the log counts {cut['dropped_events']}",
            _REMEDY,
            *figures,
        )
    if kept["executions"] + kept["dropped_runs"] != runs or not kept["dropped_runs"]:
        return failed(
            f"of {counted(runs, 'execution')} the log has {kept['executions']}, and counts "
            f"{kept['dropped_runs']} as dropped",
            _REMEDY,
            *figures,
        )
    return passed(
        f"of {full['events']} events {cut['events']} fit into {limit:,} bytes, and the log counts "
        f"the other {lost}; with drop-oldest, {kept['executions']} executions and "
        f"{kept['dropped_runs']} dropped",
        *figures,
    )


def stream(bench: Bench) -> StageRecord:
    """Stream a log that is larger than its buffer: nothing of it may be missing."""
    with bench.opened() as session:
        bench.small_model(session)
        runs = _log_runs(bench)
        try:
            whole = bench.run(session, runs)
        except UnsoundLogError as error:
            return not_offered(error.message)
        limit = _half(whole)
        sent = bench.run(session, runs, RunOptions(trace_limit=limit, stream=True))
    expected, found = _model_events(whole.trace), _model_events(sent.trace)
    counts = counts_of(sent.trace)
    missing = sum(counts[name] for name in ("dropped_events", "missing_chunks", "missing_records"))
    figures = (
        StageFigure("buffer", limit, "bytes"),
        StageFigure("log", sent.log_bytes, "bytes"),
        StageFigure("chunks during the run", sent.chunks),
        StageFigure("events", found),
        StageFigure("events without streaming", expected),
        StageFigure("lost", missing),
    )
    if found != expected or missing:
        return failed(
            f"{expected - found} of {expected} events are missing from the streamed log",
            "look at the losses of stage link, and at UART overruns",
            *figures,
        )
    if not sent.chunks:
        return failed("nothing was sent during the run", _REMEDY, *figures)
    return passed(
        f"{sent.chunks} chunks of a log of {sent.log_bytes:,} bytes came through a buffer of "
        f"{limit}, and no event is missing",
        *figures,
    )


def _half(run: LoggedRun) -> int:
    return run.log_bytes // 2


def _model_events(trace: Trace) -> int:
    """Return the number of events that are not about streaming."""
    return int(np.count_nonzero(~trace.named(*STREAMING)))


def counters(bench: Bench) -> StageRecord:
    """Read every hardware counter in a run: each that cannot stand still must have moved."""
    with bench.opened() as session:
        offered = session.counters()
        names = [counter.name for counter in offered.counters]
        if not names:
            return not_offered("its firmware offers no hardware counters")
        bench.small_model(session)
        counted: dict[str, int] = {}
        for group in offered.passes(names):
            counted |= _count(bench, session, offered.numbers(group))
    figures = [StageFigure(name, counted[name], "counts") for name in names if name in counted]
    silent = [name for name in names if name not in counted]
    dead = [name for name, count in counted.items() if not count and not _may_rest(name)]
    if silent or dead:
        return failed(
            f"{', '.join(silent or dead)} did not move in any event",
            "check that the port enables the counter, and that no debugger or secure world "
            "holds it",
            *figures,
        )
    rest = [name for name, count in counted.items() if not count]
    still = f"; {', '.join(rest)} stayed at 0, as they may" if rest else ""
    return passed(f"{len(counted) - len(rest)} of {len(names)} counters moved{still}", *figures)


def _count(bench: Bench, session: Session, numbers: tuple[int, ...]) -> dict[str, int]:
    """Return what each counter counted in all events of a run together, by name."""
    trace = bench.run(session, 2, RunOptions(counters=numbers)).trace
    counts = trace.counts[trace.kind == Kind.PROFILE]
    totals = np.where(counts == NO_COUNT, 0, counts).sum(axis=0)
    return {each.name: int(total) for each, total in zip(trace.counters, totals, strict=True)}


def _may_rest(name: str) -> bool:
    return any(part in name for part in _MAY_REST)


_METHOD: Final = "forward"
_ORDINARY: Final = "kws_int8"
"""The network of an ordinary run, where it fits."""

_RUNS: Final = 10
"""Executions of a network whose log fits every buffer that the network itself fits."""

_FLOAT_COST: Final = 40
"""Time of a multiply-accumulate in float32 over that in int8, on a core without an FPU."""

_TICKS_PER_MAC: Final = 10
"""Ticks of a multiply-accumulate in int8 on a slow core, until a network has shown them."""

_PER_EXECUTION_S: Final = 0.5
"""Time of a network besides upload and arithmetic."""

_QUICK_S: Final = 10.0
"""Time after which a quick qualification begins with no further network, seconds."""

_ALMOST_S: Final = 2.0
"""Seconds left of a stage whose time is as good as over."""

_REFUSALS: Final = (
    Status.TOO_LARGE,
    Status.OUT_OF_MEMORY,
    Status.UNSUPPORTED_OPERATOR,
    Status.UNSUPPORTED_FEATURE,
)
"""What a board may answer for a network of which its board file does not say whether it fits."""


@dataclass(frozen=True, slots=True)
class PackagedNetwork:
    """A packaged network.

    Attributes:
        name: Its file name without the suffix.
        program: The ``.pte`` file.
        method: Its method.
        macs: Multiply-accumulates of an execution.
        exact: Whether its outputs are those of the reference bit for bit: its kernels compute in
            integers.
    """

    name: str
    program: bytes
    method: Method
    macs: int
    exact: bool


def packaged_networks(board: Board) -> list[PackagedNetwork]:
    """Return the networks with a reference as exported for a board's core, the smallest first."""
    found = []
    for network in {network_of(name) for name in packaged_models()}:
        name = export_for(board, network)
        data = model_bytes(name)
        method = read_program(data).method(_METHOD)
        assert method is not None  # packaged models have it
        records = [record for chain in instruction_records(method) or () for record in chain]
        found.append(
            PackagedNetwork(
                name=name,
                program=data,
                method=method,
                macs=sum(record.macs for record in records),
                exact=any(record.name.startswith("cortex_m::") for record in records),
            )
        )
    return sorted(found, key=lambda network: (len(network.program), network.name))


def networks(bench: Bench) -> StageRecord:
    """Compare the outputs of every network that fits with its reference."""
    found = _Comparison(bench)
    packaged = packaged_networks(bench.board)
    if bench.placed_only:
        for network in packaged:
            held = network_of(network.name) == SMALL or not bench.is_real
            if held and _fit(bench, network.method, len(network.program)):
                with bench.opened(network=network_of(network.name)) as session:
                    found.add(session, network)
    else:
        with bench.opened() as session:
            for at, network in enumerate(packaged):
                if not found.add(session, network):
                    found.leave(packaged[at + 1 :])
                    break
    figures = [*found.figures]
    figures += [StageFigure(name, "not run: it takes too long") for name in found.late]
    if found.wrong:
        return failed(
            "; ".join(found.wrong),
            "run it with --values intermediate and compare with ExecuTorch (docs/differences.md); "
            "check the compiler's options of the core",
            *figures,
        )
    if found.late and not found.matched:
        late = len(found.late)
        message = f"time was over before any of the {late} networks that fit was compared"
        return ended("not run", message, "raise --limit, and --resume", figures)
    if not found.matched:
        return failed("no packaged network fits", "see `etharness inspect` for what is missing")
    matched, late = len(found.matched), len(found.late)
    more = f"; time was over for the other {late}" if late else ""
    message = f"{matched} of {matched + late} networks that fit match{more}"
    if late and not (bench.quick or bench.board.emulated_time):
        return ended("not run", message, "raise --limit, and --resume", figures)
    return passed(message, *figures)


class _Comparison:
    """Networks compared so far: those that match, those that do not, and those too slow to run."""

    def __init__(self, bench: Bench) -> None:
        self._bench, self._pace = bench, _Pace(bench)
        self._quick_until = time.monotonic() + _QUICK_S
        self.matched: list[str] = []
        self.wrong: list[str] = []
        self.late: list[str] = []
        self.figures: list[StageFigure] = []

    def add(self, session: Session, network: PackagedNetwork) -> bool:
        """Compare a network if it fits; return whether the board can be asked for another one."""
        bench = self._bench
        fits = _fit(bench, network.method, len(network.program))
        if fits is False:
            return True
        if self._pace.predicted_s(network) > self._left_s():
            self.late.append(network.name)
            return True
        began = time.monotonic()
        try:
            fault, error = _compare(bench, session, network)
        except DeviceRefusedError as refused:
            if fits is None and refused.status in _REFUSALS:
                return True
            fault, error = refused.message, 0.0
        except TargetError:
            # A simulator that has not hung may still need hours.
            patient = bench.quick or bench.board.emulated_time
            if not patient or bench.left_s > _ALMOST_S:
                raise
            self.late.append(network.name)
            return False
        self._pace.learn(network, time.monotonic() - began)
        if fault:
            self.wrong.append(f"{network.name}: {fault}")
        else:
            self.matched.append(network.name)
            how = "bit for bit" if network.exact else f"largest error {error:.3g}"
            self.figures.append(StageFigure(network.name, how))
        return True

    def _left_s(self) -> float:
        """Return the time left for a network, seconds; a busy host is no reason to compare none."""
        if self._bench.quick and self.matched:
            return min(self._bench.left_s, self._quick_until - time.monotonic())
        return self._bench.left_s

    def leave(self, others: Sequence[PackagedNetwork]) -> None:
        """Count networks that nobody has asked the board for, as far as they fit."""
        fitting = (each for each in others if _fit(self._bench, each.method, len(each.program)))
        self.late += [network.name for network in fitting]


class _Pace:
    """How long networks take on this board, as far as earlier ones show."""

    def __init__(self, bench: Bench) -> None:
        self._up = bench.up_bytes_s
        # An emulator is quick enough for any first network, and its ticks are many cycles.
        simulated_core = isinstance(bench.board.target, RtlTarget)
        self._first = _TICKS_PER_MAC * (bench.tick_s or 0.0) if simulated_core else 0.0
        self._per_mac: dict[bool, float] = {}

    def predicted_s(self, network: PackagedNetwork) -> float:
        """Return the expected time of a network, seconds."""
        upload = len(network.program) / self._up if self._up else 0.0
        per_mac = self._per_mac.get(network.exact)
        if per_mac is None:
            per_mac = self._per_mac.get(True, self._first)
            per_mac *= 1 if network.exact else _FLOAT_COST
        return upload + network.macs * per_mac + _PER_EXECUTION_S

    def learn(self, network: PackagedNetwork, took_s: float) -> None:
        """Learn from a network that took ``took_s`` seconds; small ones show nothing."""
        if network.macs >= 100_000:
            upload = len(network.program) / self._up if self._up else 0.0
            self._per_mac[network.exact] = max(0.0, took_s - upload) / network.macs


def _compare(bench: Bench, session: Session, network: PackagedNetwork) -> tuple[str, float]:
    """Return what is wrong with the outputs of a network, "" if nothing, and the largest error."""
    inputs, outputs, runs = reference_of(network.name)
    info = bench.load(session, network.program)
    for index, (array, tensor) in enumerate(zip(inputs, info.inputs, strict=True)):
        sizes = array.shape if tensor.dynamic else ()
        session.set_input(index, tensor_to_bytes(array, tensor), sizes=sizes)
    session.run(runs, timeout_s=bench.execute_s, progress=bench.progress)
    worst = 0.0
    for index, expected in enumerate(outputs):
        declared = session.output_info(index, info.outputs[index])
        data = session.read(Region.OUTPUT, index, most=info.outputs[index].nbytes)
        value = tensor_from_bytes(data, declared)
        tolerance = 0.0 if network.exact else None
        output = ModelOutput(f"output {index}", value, expected, (tolerance, tolerance))
        differing, reason = compare_output(output)
        if differing != 0:
            return reason, 0.0
        worst = max(worst, output.largest_difference or 0.0)
    return "", worst


def ordinary_run(bench: Bench) -> StageRecord:
    """Run a network as `etharness run` does, with all its checks, into a run directory."""
    small, ordinary = (export_for(bench.board, name) for name in (SMALL, _ORDINARY))
    model = small if bench.quick or not _fits(bench, ordinary) else ordinary
    folder, runs = bench.output / "run", min(_RUNS, _log_runs(bench))
    inputs, outputs, _ = reference_of(model)
    files = [
        _saved(bench.output / "reference" / f"{kind}{index}.npy", array)
        for kind, arrays in (("input", inputs), ("output", outputs))
        for index, array in enumerate(arrays)
    ]
    request = RunRequest(
        board=bench.chosen.board,
        model=packaged_models()[model],
        runs=runs,
        output=folder,
        inputs=tuple(files[: len(inputs)]),
        references=tuple(files[len(inputs) :]),
        chosen=replace(bench.chosen, unit=None),
        placed=bench.placed_only,
    )
    result = run_model(request, lambda _, done, total: bench.progress(done, total)).result
    assert result is not None  # a run has one
    checks = result.verdict.checks if result.verdict else ()
    figures = [
        StageFigure("model", model),
        StageFigure("executions", result.runs_completed),
        StageFigure("checks", len(checks)),
        StageFigure("baud", result.baud),
    ]
    for quality in result.clock_quality:
        if quality.half_width_ns is not None:
            bound = round(quality.half_width_ns / 1000, 1)
            figures.append(StageFigure(f"{quality.clock}: events known to within", bound, "us"))
    wrong = [f"{check.code}: {check.rule}: {check.reason}" for check in checks if check.failed]
    if wrong:
        return failed("; ".join(wrong), f"see `etharness report {folder}`", *figures)
    real = "" if isinstance(bench.board.target, SerialTarget) else " (a simulated board)"
    return passed(
        f"{counted(runs, 'execution')} of {model}: {len(checks)} checks passed{real}", *figures
    )


def _fits(bench: Bench, model: str) -> bool:
    """Whether a board runs a model that also takes it no longer than a person would wait."""
    # The source code of a core takes half a minute for an execution.
    if isinstance(bench.board.target, RtlTarget):
        return False
    data = model_bytes(model)
    method = read_program(data).method(_METHOD)
    return method is not None and _fit(bench, method, len(data)) is True


def _fit(bench: Bench, method: Method, nbytes: int) -> bool | None:
    """Return whether a board can run a method; None if that is not known."""
    executorch = bench.info is not None and bench.info.runtime != BUNDLED_RUNTIME
    if bench.placed_only:
        placed = fit_placed(method, [method], nbytes, bench.board)
        # The image has room for what its linker takes.
        return placed is not None and placed.fits is not False
    return fit(method, nbytes, bench.board, executorch=executorch or None).fits


def _saved(file: Path, array: np.ndarray) -> Path:
    file.parent.mkdir(parents=True, exist_ok=True)
    np.save(file, array)
    return file
