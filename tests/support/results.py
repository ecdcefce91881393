"""Results with traces, for what keeps, judges or shows them."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

from msgspec.structs import replace

from harness import EXECUTION, HOST_NANOSECONDS, Check, ClockDomain, Subject, Trace, read_log
from harness.records import result as results
from harness.records.verdict import check
from harness.runs.directory import LOG, RunDirectory
from harness.runs.source import subject_of
from tests.support.logs import CompactLog

TARGET = results.TargetRecord(
    *("native", "host", "build 1", 1, 512),
    clocks=(results.ClockRecord("monotonic", 64, False, 1_000_000_000, 1),),
    model_capacity=1 << 20,
    arena_capacity=1 << 20,
    input_capacity=1 << 20,
    trace_capacity=1 << 16,
    debug_capacity=0,
    probe_ticks=30,
    probe_pairs=3,
    operators=4,
    runtime="bundled C runtime",
    kernels="bundled C kernels",
)


@dataclass(frozen=True)
class Made:
    """A result and what was judged of it."""

    result: results.Result
    subject: Subject


def log_with(times: dict[str, list[int]], *, allocated: int = 0, dropped: int = 0) -> CompactLog:
    """A device's log in which operators took so many ticks, one after another, run by run."""
    begin = 0
    log = CompactLog().block("Default").allocator("planned_1")
    if allocated:
        log.allocation(1, allocated)
    for run in range(max(map(len, times.values()), default=0)):
        log.block("Execute")
        end = begin
        for instruction, (name, durations) in enumerate(times.items()):
            if run < len(durations):
                start = begin if name == EXECUTION else end
                end = start + durations[run]
                log.profile(name, start, end, chain=0, instruction=instruction)
        begin = end
    log.dropped_events = dropped
    return log


def trace_with(
    times: dict[str, list[int]],
    *,
    clock: ClockDomain = HOST_NANOSECONDS,
    allocated: int = 0,
    dropped: int = 0,
) -> Trace:
    """The trace of such a log."""
    log = log_with(times, allocated=allocated, dropped=dropped)
    return read_log(log.image(), [clock])


def run_directory(
    path: Path, item: Made, times: dict[str, list[int]] | None = None, *, digests: bool = True
) -> Path:
    """The directory that a run of this result leaves, with a log if it took these times."""
    directory = RunDirectory.create(path)
    if times is not None:
        directory.write(LOG, log_with(times).image())
    if digests:
        directory.finish(item.result)
    else:
        directory.write_result(item.result)
    return path


def made(
    own_id: str,
    trace: Trace | None = None,
    *,
    board: str = "native",
    model: str = "models/kws.pte",
    method: str = "forward",
    build_id: str = "build 1",
    checks: tuple[Check, ...] = (),
    **facts: Any,
) -> Made:
    """A result, by default of a run that passed; ``facts`` are further fields of it."""
    passed = not any(item.failed for item in checks)
    program = results.Model(model, "ab" * 32, 10, 0, 0, (), (), method)
    defaults: dict[str, Any] = {
        "tool_version": "0.1.0",
        "started_utc": "2026-11-21T00:00:00+00:00",
        "duration_s": 1.5,
        "port": None,
        "unit": board,
        "commit": "c0ffee",
        "session": own_id,
        "runs_requested": 2,
        "runs_completed": 2,
        "seed": 0,
        "exit_code": 0 if passed else 1,
        "link": {"bytes_sent": 100, "bytes_received": 900, "corrupt_crc": 1, "retries": 2}
        | {"read_bytes": 500, "read_us": 2000},
        "target": replace(TARGET, board=board, build_id=build_id),
        "model": program,
        "verdict": results.VerdictRecord(passed, "", checks),
    }
    result = results.Result(id=own_id, board=board, **{**defaults, **facts})
    trace = trace_with({"native_call_a": [10, 20]}) if trace is None else trace
    return Made(result, subject_of(trace, result))


def unmet(code: str = "B01", **facts: Any) -> Check:
    """A check that does not hold."""
    return check(code, rule="r", subject="s", passed=False, reason="because", **facts)
