"""Collects the facts and files of a run from the target and the model, as a result records them."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Sequence
from fractions import Fraction
from typing import Final

from msgspec.structs import replace

from harness.analyze.alignment import Steadiness
from harness.analyze.ticks import durations, without_wraps
from harness.config.board import Board, SerialTarget
from harness.decode.device_log import join_debug_buffers, split_chunk
from harness.decode.ed00 import LeftOut, left_out, write_ed00
from harness.decode.program import Call, Method
from harness.decode.pte import read_program
from harness.errors import DeviceRefusedError, FormatError, PartialReadError
from harness.link.run import RunOutcome
from harness.link.session import Session
from harness.link.values import ModelInfo, TargetInfo
from harness.link.wire import Region, Status
from harness.records.clock_domain import Ping
from harness.records.measurement import MeasurementSettings
from harness.records.result import DelegateCall, TargetRecord, TensorRecord, TraceSummary
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
"""Name of the events during which the device sends its log."""

PINGS = 5
"""Pings before and after a run: the narrowest bracket of a handful is close to the line's best."""


def describe_target(info: TargetInfo) -> TargetRecord:
    """Return the record of a target."""
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


def with_firmware(settings: MeasurementSettings, board: Board) -> MeasurementSettings:
    """Add the runtime and the build of firmware that is built and started here.

    They are not known of a board's own firmware, which may have been flashed by another version.
    """
    build = None if isinstance(board.target, SerialTarget) else board.build
    if build is None:
        return settings
    runtime = "executorch" if build.executorch else "etharness"
    return replace(settings, runtime=runtime, build=build.preset)


def dynamic_sizes(info: ModelInfo, inputs: Sequence[TensorRecord]) -> str:
    """Return the sizes of dynamic inputs, which decide how much is computed."""
    return ", ".join(
        f"{index}: {'x'.join(map(str, given.sizes))}"
        for index, (given, tensor) in enumerate(zip(inputs, info.inputs, strict=True))
        if tensor.dynamic
    )


def record_pings(session: Session) -> tuple[Ping, ...]:
    """Ping the target ``PINGS`` times."""
    return tuple(session.ping() for _ in range(PINGS))


def record_restart(outcome: RunOutcome, after: Sequence[Ping]) -> Ping | None:
    """Return the restart of the device's clock at the start of a run, as a ping that reads zero.

    None if the run did not restart the clock.
    """
    before_ns, after_ns = outcome.restarted_ns
    return Ping(before_ns, after_ns, after[0].epoch, 0) if after else None


def steadiness_of(board: Board) -> Steadiness:
    """Return the rate tolerance of a board's clock 0, from its board file."""
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
    """Pull the trace of the last run and decode it; save a device log raw and as ED00.

    A runtime with its own tracer sends an ED00 file, which is saved unchanged. Either may have a
    debug buffer, the bytes of logged tensors. ``chunks`` are the parts of a device log streamed
    during the run, each followed by its debug buffer.

    The ED00 copy has what ExecuTorch itself would have written: no allocation events, which
    make its Inspector refuse the whole file, and no values with lost bytes. The raw log has
    them; the summary records their numbers.
    In the copy, events during which a counter wrapped end beyond its range, as Inspector subtracts.

    Raises:
        FormatError: The log is inconsistent; its raw bytes are saved in any case.
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


def read_method(model: bytes, name: str) -> Method | None:
    """Read a method of a ``.pte`` file; None if it cannot be read, or has no such method."""
    try:
        return read_program(model).method(name)
    except FormatError:  # the device decides whether the file is valid
        return None


def delegate_calls(method: Method | None) -> tuple[DelegateCall, ...]:
    """Return the delegate calls of a method."""
    chains = method.chains if method is not None else ()
    return tuple(
        DelegateCall(chain, index, instruction.name)
        for chain, instructions in enumerate(chains)
        for index, instruction in enumerate(instructions)
        if instruction.call == Call.DELEGATE
    )


def planned_sizes(method: Method | None) -> dict[str, int]:
    """Return the memory that the compiler planned, bytes, by allocator name on the device."""
    planned = method.planned if method is not None else ()
    return {f"planned_{pool}": planned[pool] for pool in range(1, len(planned))}


def _value_ticks(trace: Trace) -> int:
    """Return the ticks that the device spent logging values."""
    timed = (trace.kind == Kind.DEBUG) & (trace.clock != NO_CLOCK)
    return int(durations(trace)[timed].sum()) if timed.any() else 0


def _streaming_ticks(trace: Trace) -> int:
    """Return the ticks that the device spent sending its log between operators."""
    if STREAMING not in trace.names:
        return 0
    return int(durations(trace)[trace.name == trace.names.index(STREAMING)].sum())


def _debug_buffer(session: Session) -> bytes:
    """Read the bytes of logged tensors; empty if the device has no debug buffer."""
    try:
        return session.read(Region.TRACE, 1)
    except DeviceRefusedError as error:
        if error.status != Status.BAD_REGION:
            raise
        return b""
