"""What a run exchanges with its device: tensors, clock pings, the trace and postmortems."""

from __future__ import annotations

import hashlib
import logging
from collections.abc import Sequence
from dataclasses import replace
from fractions import Fraction
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import msgspec
import numpy as np

from harness.analyze.alignment import Steadiness
from harness.analyze.ticks import durations, without_wraps
from harness.config.board import Board, SerialTarget
from harness.decode.bundled_program import TestSet
from harness.decode.dumps import is_device_log
from harness.decode.ed00 import LeftOut, left_out, write_ed00
from harness.decode.program import Call, Method
from harness.decode.pte import read_program
from harness.errors import (
    FormatError,
    HarnessError,
    RestartedError,
    TargetError,
    UsageError,
)
from harness.lab.postmortem import (
    Lookup,
    fetch,
)
from harness.link.run import RunOutcome
from harness.link.session import Session
from harness.link.values import TargetInfo
from harness.records.clock_domain import ClockDomain, Ping
from harness.records.counters import CounterRecord
from harness.records.measurement import BUNDLED_KERNELS, MeasurementSettings
from harness.records.result import (
    DelegateCall,
    ReferenceRecord,
    TargetRecord,
    TensorRecord,
    TraceSummary,
    encode,
)
from harness.records.scalar_types import NUMPY_TYPES, little_endian
from harness.records.trace import NO_CLOCK, SENDING, WAITING, Kind, Stack, Trace
from harness.runs.directory import (
    DEBUG_BUFFER,
    EARLIER_POSTMORTEM,
    EARLIER_POSTMORTEM_IMAGE,
    ETDUMP,
    LOG,
    POSTMORTEM,
    POSTMORTEM_IMAGE,
    RunDirectory,
    from_clock_domain,
)
from harness.runs.source import counts_of, read_npy, read_trace

if TYPE_CHECKING:
    from harness.link.values import ModelInfo, TensorInfo


_log = logging.getLogger(__name__)

PINGS = 5
"""Most pings after a run: the narrowest bracket of a handful is close to the line's best."""

_ALIKE: Final = 1.25
"""Two narrow brackets whose widths differ by no more than this factor show the line's best."""


def with_declared_clock(info: TargetInfo, board: Board) -> TargetInfo:
    """Return a target's description with what its board file adds about clock 0."""
    if not info.clocks:
        return info
    first = replace(info.clocks[0], monotonic=board.timer.monotonic)
    return replace(info, clocks=(first, *info.clocks[1:]))


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
        runtime=info.runtime,
        kernels=info.kernels,
    )


def with_firmware(settings: MeasurementSettings, board: Board) -> MeasurementSettings:
    """Add the runtime and the build of firmware that is built and started here.

    They are not known of a board's own firmware, which may have been flashed by another version.
    """
    build = None if isinstance(board.target, SerialTarget) else board.build
    if build is None:
        return settings
    runtime = "executorch" if build.executorch else "etharness"
    return msgspec.structs.replace(settings, runtime=runtime, build=build.preset)


def with_target(
    settings: MeasurementSettings | None, info: TargetInfo, model: bytes
) -> MeasurementSettings:
    """Add the kernel library of the firmware, and whether it has ``model`` in its image."""
    known = settings or MeasurementSettings()
    kernels = "" if info.kernels == BUNDLED_KERNELS else info.kernels or "unknown"
    return msgspec.structs.replace(known, kernels=kernels, placed=info.holds(model))


def with_inputs(
    settings: MeasurementSettings | None, info: ModelInfo, inputs: Sequence[TensorRecord]
) -> MeasurementSettings | None:
    """Add the sizes of dynamic inputs, which decide how much is computed."""
    if settings is None:
        return None
    sizes = [
        f"{index}: {'x'.join(map(str, given.sizes))}"
        for index, (given, tensor) in enumerate(zip(inputs, info.inputs, strict=True))
        if tensor.dynamic
    ]
    return msgspec.structs.replace(settings, inputs=", ".join(sizes))


def dtype_of(scalar_type: int) -> np.dtype[Any]:
    """Return the NumPy dtype of an ExecuTorch scalar type.

    Raises:
        TargetError: NumPy has no such type.
    """
    if scalar_type not in NUMPY_TYPES:
        raise TargetError(f"unsupported scalar type {scalar_type} of a tensor of the model")
    return little_endian(NUMPY_TYPES[scalar_type])


def read_inputs(paths: Sequence[Path], wanted: Sequence[TensorInfo], seed: int) -> list[np.ndarray]:
    """Return the model's inputs: from ``.npy`` files, or random with ``seed`` when none are given.

    Raises:
        UsageError: A file is missing or not an array, or has another shape or type than the input.
    """
    if not paths:
        generator = np.random.default_rng(seed)
        return [_random(info, generator) for info in wanted]
    if len(paths) != len(wanted):
        raise UsageError(f"the model has {len(wanted)} inputs, but {len(paths)} files were given")
    return [_load(path, info, i) for i, (path, info) in enumerate(zip(paths, wanted, strict=True))]


def to_bytes(array: np.ndarray, info: TensorInfo) -> bytes:
    """Return the array's elements in the order the tensor has in memory (its dim_order)."""
    return array.transpose(info.dim_order).tobytes()


def from_bytes(data: bytes, info: TensorInfo) -> np.ndarray:
    """Return the array that ``to_bytes`` made ``data`` from.

    Raises:
        TargetError: The number of bytes does not match the tensor.
    """
    if len(data) != info.nbytes:
        raise TargetError(f"the device sent {len(data)} bytes for a tensor of {info.nbytes}")
    stored = np.frombuffer(data, dtype_of(info.scalar_type))
    sizes = [info.sizes[dimension] for dimension in info.dim_order]
    # A copy: np.ascontiguousarray would give a tensor without dimensions one.
    return stored.reshape(sizes).transpose(np.argsort(info.dim_order)).copy()


def save_output(directory: RunDirectory, index: int, info: TensorInfo, data: bytes) -> TensorRecord:
    """Write an output of the device into a run directory, and return its record.

    Raises:
        TargetError: The number of bytes does not match the tensor.
    """
    file = directory.write_tensor(f"outputs/{index}.npy", from_bytes(data, info))
    return TensorRecord(info.scalar_type, info.sizes, info.nbytes, file)


def read_references(paths: Sequence[Path]) -> list[np.ndarray]:
    """Read the references; called before a run, so that a bad file is reported first.

    Raises:
        UsageError: A file is missing, or is not an array.
    """
    return [read_npy(path) for path in paths]


def save_references(
    directory: RunDirectory,
    references: Sequence[np.ndarray],
    outputs: int,
    rtol: float | None,
    atol: float | None,
) -> ReferenceRecord | None:
    """Write the references into a run directory, and return their record; None without any.

    Args:
        directory: The run directory.
        references: One reference per output, or ().
        outputs: Number of outputs of the model.
        rtol: Relative tolerance; None for the default of the type.
        atol: Absolute tolerance; None for the default of the type.

    Raises:
        UsageError: The number of references is not the number of outputs.
    """
    if not references:
        return None
    if len(references) != outputs:
        raise UsageError(
            f"the model has {outputs} outputs, but {len(references)} references were given",
            hint="give --reference once per output, in their order",
        )
    files = tuple(
        directory.write_tensor(f"reference/{index}.npy", array)
        for index, array in enumerate(references)
    )
    return ReferenceRecord(files, rtol, atol)


def bundled_inputs(test_set: TestSet, wanted: Sequence[TensorInfo]) -> list[np.ndarray]:
    """Return the inputs of a test set.

    Raises:
        UsageError: An input has another shape or type than that of the method.
    """
    if len(test_set.inputs) != len(wanted):
        raise UsageError(
            f"the method has {len(wanted)} inputs, the test set has {len(test_set.inputs)}"
        )
    inputs = zip(map(np.asarray, test_set.inputs), wanted, strict=True)
    return [_fitting(array, info, i, "the test set") for i, (array, info) in enumerate(inputs)]


def _load(path: Path, info: TensorInfo, index: int) -> np.ndarray:
    return _fitting(read_npy(path), info, index, "the file", f"{path}: ")


def _fitting(
    array: np.ndarray, info: TensorInfo, index: int, source: str, place: str = ""
) -> np.ndarray:
    """Return an input that has the type and the shape of the model's."""
    dtype = dtype_of(info.scalar_type)
    if array.dtype != dtype or not _fits(array.shape, info):
        found = f"{array.dtype}{list(array.shape)}"
        most = " at most" if info.dynamic else ""
        raise UsageError(
            f"{place}input {index} must be {dtype}{list(info.sizes)}{most}, "
            f"but {source} has {found}"
        )
    return array


def _fits(shape: tuple[int, ...], info: TensorInfo) -> bool:
    if not info.dynamic or len(shape) != len(info.sizes):
        return shape == info.sizes
    return all(size <= bound for size, bound in zip(shape, info.sizes, strict=True))


def _random(info: TensorInfo, generator: np.random.Generator) -> np.ndarray:
    dtype = dtype_of(info.scalar_type)
    if dtype.kind == "f":
        return generator.standard_normal(info.sizes).astype(dtype)
    if dtype.kind == "b":
        return generator.integers(0, 2, info.sizes).astype(dtype)
    limits = np.iinfo(dtype)
    return generator.integers(limits.min, limits.max, info.sizes, dtype, endpoint=True)


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


def record_pings(session: Session) -> tuple[Ping, ...]:
    """Ping the target until two narrow brackets agree, at most ``PINGS`` times."""
    pings: list[Ping] = []
    while len(pings) < PINGS:
        pings.append(session.ping())
        best = sorted(ping.host_after_ns - ping.host_before_ns for ping in pings)[:2]
        if len(best) == 2 and best[1] <= _ALIKE * best[0]:
            break
    return tuple(pings)


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


def save_trace(
    image: bytes, buffer: bytes, clocks: Sequence[ClockDomain], directory: RunDirectory
) -> tuple[Trace, TraceSummary]:
    """Decode the trace of a device; save a device log raw and as ED00.

    A runtime with its own tracer has an ED00 file, which is saved unchanged. Either may have a
    debug buffer, the bytes of logged tensors.

    The ED00 copy has what ExecuTorch itself would have written: no allocation events, which
    make its Inspector refuse the whole file, and no values with lost bytes. The raw log has
    them; the summary records their numbers.
    In the copy, events during which a counter wrapped end beyond its range, as Inspector subtracts.

    Raises:
        FormatError: The log is inconsistent; its raw bytes are saved in any case.
    """
    directory.write(LOG if is_device_log(image) else ETDUMP, image)
    if buffer:
        directory.write(DEBUG_BUFFER, buffer)
    trace = read_trace(image, clocks)
    skipped = LeftOut()
    empty = trace.slowest_empty_events
    deepest = max(trace.stacks, key=lambda stack: stack.used, default=Stack(0, 0, 0))
    if is_device_log(image):
        directory.write(ETDUMP, write_ed00(without_wraps(trace), allocation_events=False))
        skipped = left_out(trace, allocation_events=False)
    return trace, TraceSummary(
        **counts_of(trace),
        log_bytes=len(image),
        sha256=hashlib.sha256(image).hexdigest(),
        streaming_ticks=_ticks_of(trace, SENDING),
        waiting_ticks=_ticks_of(trace, WAITING),
        stack_used=deepest.used,
        stack_size=deepest.size,
        value_ticks=_value_ticks(trace),
        debug_bytes=len(buffer),
        etdp_left_out_allocations=skipped.allocations,
        etdp_left_out_values=skipped.lost_values,
        etdp_left_out_counts=skipped.hardware_counts,
        passes=None,  # the caller knows of other runs
        counters=tuple(
            CounterRecord(each.name, each.bits, each.overhead, each.parent_overhead)
            for each in trace.counters
        ),
        probe_ticks=empty.ticks if empty else 0,
        probe_pairs=empty.count if empty else 0,
    )


def _value_ticks(trace: Trace) -> int:
    """Return the ticks that the device spent logging values."""
    timed = (trace.kind == Kind.DEBUG) & (trace.clock != NO_CLOCK)
    return int(durations(trace)[timed].sum()) if timed.any() else 0


def _ticks_of(trace: Trace, name: str) -> int:
    """Return the ticks that all events of this name took together."""
    if name not in trace.names:
        return 0
    return int(durations(trace)[trace.name == trace.names.index(name)].sum())


def save_earlier_postmortem(session: Session, directory: RunDirectory) -> None:
    """Save the postmortem of an earlier crash, which the run will overwrite on the device."""
    try:
        finding = fetch(session)
    except FormatError as error:
        _log.warning("cannot read the postmortem of an earlier crash: %s", error.message)
        return
    if finding is not None:
        _log.warning(
            "the device has the postmortem of an earlier crash: %s", finding.document.message
        )
        directory.write(EARLIER_POSTMORTEM_IMAGE, finding.image)
        directory.write(EARLIER_POSTMORTEM, encode(finding.document))


def explain(
    error: RestartedError,
    session: Session,
    timeout_s: float,
    directory: RunDirectory,
    lookup: Lookup,
) -> tuple[RestartedError, int | None]:
    """Explain the restart of a device by its postmortem, and save that in the run directory.

    Returns:
        The error to raise, and the number of completed executions; None if it is unknown.
    """
    try:
        session.hello(timeout_s)
        finding = fetch(session, lookup)
    except HarnessError as second:
        _log.warning("cannot read the postmortem: %s", second.message)
        return error, None
    if finding is None:
        return error, None
    directory.write(POSTMORTEM_IMAGE, finding.image)
    directory.write(POSTMORTEM, encode(finding.document))
    if finding.found.log:
        directory.write(LOG, finding.found.log)
    location = finding.document.places.get("PC")
    at = f", at {location}" if location else ""
    explained = RestartedError(
        f"{error.message}: {finding.document.message}{at}",
        hint=f"`etharness postmortem {directory.path}` shows registers, allocators and last events",
    )
    return explained, finding.found.completed if finding.found.running else None
