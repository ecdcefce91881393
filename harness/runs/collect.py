"""What is read from a target after a run, and how it is recorded."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Sequence
from fractions import Fraction
from typing import Final

from harness.analyze.alignment import Steadiness
from harness.analyze.ticks import durations, without_wraps
from harness.config.board import Board
from harness.decode.device_log import join_debug_buffers, split_chunk
from harness.decode.ed00 import LeftOut, left_out, write_ed00
from harness.decode.program import Call, Method
from harness.decode.pte import read_program
from harness.errors import DeviceRefusedError, FormatError, PartialReadError
from harness.link.answers import TargetInfo
from harness.link.run import RunOutcome
from harness.link.session import Session
from harness.link.wire import Region, Status
from harness.records.clock_domain import Ping
from harness.records.result import DelegateCall, TargetRecord, TraceSummary
from harness.records.trace import NO_CLOCK, Kind, Stack, Trace
from harness.runs.directory import (
    DEBUG_BUFFER,
    ETDUMP,
    LOG,
    PARTIAL,
    RunDirectory,
    from_clock_domain,
)
from harness.runs.source import counts_of, is_device_log, read_trace

STREAMING: Final = "Link::stream"
"""The event that covers sending the log while a run goes on."""

PINGS = 5
"""Pings before and after a run: the narrowest bracket of a handful is close to the line's best."""


def describe_target(info: TargetInfo) -> TargetRecord:
    """Return what a result records of a target."""
    return TargetRecord(
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
        debug_capacity=info.debug_capacity,
        probe_ticks=info.probe_ticks,
        probe_pairs=info.probe_pairs,
        operators=info.operators,
    )


def record_pings(session: Session) -> tuple[Ping, ...]:
    """Ping a few times."""
    return tuple(session.ping() for _ in range(PINGS))


def record_restart(outcome: RunOutcome, after: Sequence[Ping]) -> Ping | None:
    """The restart of the device's clock by a run, as a reading of zero.

    None when the readings after it are of no clock that was restarted.
    """
    before_ns, after_ns = outcome.restarted_ns
    return Ping(before_ns, after_ns, after[0].epoch, 0) if after else None


def steadiness_of(board: Board) -> Steadiness:
    """What the board file says of the rate of its clock 0."""
    ppm = board.timer.tolerance_ppm
    wander = Fraction(board.timer.wander_ppm)
    return Steadiness(None if ppm is None else Fraction(ppm), wander)


def pull_trace(
    session: Session,
    info: TargetInfo,
    directory: RunDirectory,
    progress: Callable[[int, int], None] = lambda *_: None,
    chunks: Sequence[bytes] = (),
) -> tuple[Trace, TraceSummary]:
    """Pull the trace of the last run and decode it; keep a device log raw and as ED00.

    A runtime that traces itself gives an ED00 file, which is kept as it is. Either may come with a
    debug buffer, the bytes of logged tensors. ``chunks`` are what came of a device log while the
    run went on, each with its debug buffer behind it.

    The ED00 copy holds what ExecuTorch itself would have written: no allocation events, which
    make its Inspector refuse the whole file, and no values whose bytes are lost. The raw log has
    them; the summary says how many.
    Events during which a counter wrapped end beyond its range there, as Inspector subtracts.

    Raises:
        FormatError: The log contradicts itself; the raw bytes are kept all the same.
    """
    pieces = [split_chunk(chunk) for chunk in chunks]
    image = b"".join(log for log, _ in pieces)
    try:
        image += session.read(Region.TRACE, progress=progress)
    except PartialReadError as error:
        directory.write(PARTIAL, image + error.data)
        raise
    buffer = join_debug_buffers([*(debug for _, debug in pieces), _debug_buffer(session)])
    directory.write(LOG if is_device_log(image) else ETDUMP, image)
    if buffer:
        directory.write(DEBUG_BUFFER, buffer)
    trace = read_trace(image, info.clocks)
    skipped = LeftOut()
    deepest = max(trace.stacks, key=lambda stack: stack.used, default=Stack(0, 0, 0))
    if is_device_log(image):
        directory.write(ETDUMP, write_ed00(without_wraps(trace), allocation_events=False))
        skipped = left_out(trace, allocation_events=False)
    return trace, TraceSummary(
        **counts_of(trace),
        log_bytes=len(image),
        sha256=hashlib.sha256(image).hexdigest(),
        streaming_ticks=_streaming_ticks(trace),
        stack_used=deepest.used,
        stack_size=deepest.size,
        value_ticks=_value_ticks(trace),
        debug_bytes=len(buffer),
        etdp_left_out_allocations=skipped.allocations,
        etdp_left_out_values=skipped.lost_values,
    )


def _value_ticks(trace: Trace) -> int:
    """Ticks that the device spent logging values."""
    timed = (trace.kind == Kind.DEBUG) & (trace.clock != NO_CLOCK)
    return int(durations(trace)[timed].sum()) if timed.any() else 0


def _streaming_ticks(trace: Trace) -> int:
    """Ticks that the device spent sending its log between two operators."""
    if STREAMING not in trace.names:
        return 0
    return int(durations(trace)[trace.name == trace.names.index(STREAMING)].sum())


def _debug_buffer(session: Session) -> bytes:
    """Read the bytes of logged tensors; empty when the device has no buffer for them."""
    try:
        return session.read(Region.TRACE, 1)
    except DeviceRefusedError as error:
        if error.status != Status.BAD_REGION:
            raise
        return b""


def read_method(model: bytes, name: str) -> Method | None:
    """Read a method of a ``.pte`` file; None if it cannot be read, or has no such method."""
    try:
        return read_program(model).method(name)
    except FormatError:  # what the device makes of the file decides, not this
        return None


def delegate_calls(method: Method | None) -> tuple[DelegateCall, ...]:
    """List the calls of delegates."""
    chains = method.chains if method is not None else ()
    return tuple(
        DelegateCall(chain, index, instruction.name)
        for chain, instructions in enumerate(chains)
        for index, instruction in enumerate(instructions)
        if instruction.call == Call.DELEGATE
    )


def planned_sizes(method: Method | None) -> dict[str, int]:
    """Bytes that the compiler planned, by the name of the allocator that has them on a device."""
    planned = method.planned if method is not None else ()
    return {f"planned_{pool}": planned[pool] for pool in range(1, len(planned))}
