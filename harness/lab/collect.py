"""What is read from a target after a run, and how it is recorded."""

from __future__ import annotations

import hashlib
from collections.abc import Callable

from harness.etdump.compact import read_log
from harness.etdump.ed00 import left_out, write_ed00
from harness.lab.directory import ETDUMP, LOG, RunDirectory, from_clock_domain
from harness.link.answers import TargetInfo
from harness.link.session import Session
from harness.link.wire import Region
from harness.result import Ping, Target, TraceSummary
from harness.trace import Trace

PINGS = 5
"""Pings before and after a run: the narrowest bracket of a handful is close to the line's best."""


def describe_target(info: TargetInfo) -> Target:
    """Return what a result records of a target."""
    return Target(
        board=info.board,
        cpu=info.cpu,
        build_id=info.build_id,
        link_version=info.version,
        mtu=info.mtu,
        clocks=tuple(from_clock_domain(clock) for clock in info.clocks),
        model_capacity=info.model_capacity,
        arena_capacity=info.arena_capacity,
        input_capacity=info.input_capacity,
        trace_capacity=info.trace_capacity,
        probe_ticks=info.probe_ticks,
        probe_pairs=info.probe_pairs,
        operators=info.operators,
    )


def record_pings(session: Session) -> tuple[Ping, ...]:
    """Ping a few times."""
    pings = [session.ping() for _ in range(PINGS)]
    return tuple(
        Ping(ping.host_before_ns, ping.host_after_ns, ping.epoch, ping.ticks) for ping in pings
    )


def pull_trace(
    session: Session,
    info: TargetInfo,
    directory: RunDirectory,
    progress: Callable[[int, int], None] = lambda *_: None,
) -> tuple[Trace, TraceSummary]:
    """Pull the log of the last run, decode it, and keep it raw and as ED00.

    The ED00 copy holds what ExecuTorch itself would have written: no allocation events, which
    make its Inspector refuse the whole file. The raw log has them; the summary says how many.

    Raises:
        FormatError: The log contradicts itself; the raw bytes are kept all the same.
    """
    image = session.read(Region.TRACE, progress=progress)
    directory.write(LOG, image)
    trace = read_log(image, info.clocks)
    directory.write(ETDUMP, write_ed00(trace, allocation_events=False))
    return trace, TraceSummary(
        events=len(trace),
        blocks=len(trace.blocks),
        log_bytes=len(image),
        sha256=hashlib.sha256(image).hexdigest(),
        dropped_events=trace.losses.events,
        dropped_blocks=trace.losses.blocks,
        etdp_left_out_allocations=left_out(trace, allocation_events=False).allocations,
    )
