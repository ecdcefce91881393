"""Stages about the log: one larger than its buffer, one that is streamed, and counters in it."""

from __future__ import annotations

from typing import Final

import numpy as np

from harness.link.values import RunOptions
from harness.link.wire import WhenFull
from harness.qualify.bench import (
    Bench,
    LoggedRun,
    Reached,
    StageOutcome,
    UnsoundLogError,
    failed,
    not_offered,
    passed,
)
from harness.records.qualification import StageFigure
from harness.records.trace import NO_COUNT, STREAMING, Kind, Trace
from harness.runs.source import counts_of

_RUNS: Final = 12
"""Executions whose log fits the smallest buffer as a whole, and half of it not."""

_MAY_REST: Final = ("_stall", "exception", "cpi", "sleep", "lsu", "fold", "compressed")
"""Parts of names of counters that a sound core may leave at 0: nothing stalls it, for example."""

_REMEDY: Final = "report it: the log is written by the device library, not by the port"


def overflow(bench: Bench) -> StageOutcome:
    """Log into a buffer that is too small: what is missing must be counted exactly."""
    with bench.opened() as reached:
        bench.small_model(reached)
        try:
            whole = bench.run(reached, _RUNS)
        except UnsoundLogError as error:
            return not_offered(error.message)
        limit = _half(whole)
        stopped = bench.run(reached, _RUNS, RunOptions(trace_limit=limit))
        newest = bench.run(
            reached,
            _RUNS,
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
            f"{lost} events are missing, and the log counts {cut['dropped_events']}",
            _REMEDY,
            *figures,
        )
    if kept["executions"] + kept["dropped_runs"] != _RUNS or not kept["dropped_runs"]:
        return failed(
            f"of {_RUNS} executions the log has {kept['executions']}, and counts "
            f"{kept['dropped_runs']} as dropped",
            _REMEDY,
            *figures,
        )
    return passed(
        f"of {full['events']} events {cut['events']} fit into {limit} bytes, and the log counts "
        f"the other {lost}; with drop-oldest, {kept['executions']} executions and "
        f"{kept['dropped_runs']} dropped",
        *figures,
    )


def stream(bench: Bench) -> StageOutcome:
    """Stream a log that is larger than its buffer: nothing of it may be missing."""
    with bench.opened() as reached:
        bench.small_model(reached)
        try:
            whole = bench.run(reached, _RUNS)
        except UnsoundLogError as error:
            return not_offered(error.message)
        limit = _half(whole)
        sent = bench.run(reached, _RUNS, RunOptions(trace_limit=limit, stream=True))
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
    about = [number for number, name in enumerate(trace.names) if name in STREAMING]
    return int(np.count_nonzero(~np.isin(trace.name, about)))


def counters(bench: Bench) -> StageOutcome:
    """Read every hardware counter in a run: each that cannot stand still must have moved."""
    with bench.opened() as reached:
        offered = reached.session.counters()
        names = [counter.name for counter in offered.counters]
        if not names:
            return not_offered("its firmware offers no hardware counters")
        bench.small_model(reached)
        counted: dict[str, int] = {}
        for group in offered.passes(names):
            counted |= _count(bench, reached, offered.numbers(group))
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


def _count(bench: Bench, reached: Reached, numbers: tuple[int, ...]) -> dict[str, int]:
    """Return what each counter counted in all events of a run together, by name."""
    trace = bench.run(reached, 2, RunOptions(counters=numbers)).trace
    counts = trace.counts[trace.kind == Kind.PROFILE]
    totals = np.where(counts == NO_COUNT, 0, counts).sum(axis=0)
    return {each.name: int(total) for each, total in zip(trace.counters, totals, strict=True)}


def _may_rest(name: str) -> bool:
    return any(part in name for part in _MAY_REST)
