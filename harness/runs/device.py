"""What a run reads of its device and keeps: description, clock, tensors, log, and crashes."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

import numpy as np

from harness.analyze.alignment import rate_evidence
from harness.analyze.ticks import durations, without_wraps
from harness.decode.device_log import (
    JoinedCounts,
    is_device_log,
    join_counts,
    join_debug_buffers,
    read_log,
    split_chunk,
    without_repeated,
    write_counts,
)
from harness.decode.ed00_writer import LeftOut, left_out, write_ed00
from harness.decode.program import Dynamism, Method, Tensor
from harness.decode.pte import TestSet
from harness.errors import (
    DeviceRefusedError,
    FormatError,
    HarnessError,
    LinkError,
    PartialReadError,
    TargetError,
    UsageError,
)
from harness.flash.plan import Stages
from harness.link.exchange import Progress
from harness.link.messages import CounterList, TargetInfo, TensorInfo
from harness.link.run import RunOutcome
from harness.link.session import Session
from harness.link.wire import Region, Status
from harness.plugins import POSTMORTEMS, extension_remedy, load_plugin
from harness.printing import counted
from harness.records.result import ReferenceRecord, TargetRecord, TensorRecord, TraceSummary
from harness.records.trace import (
    BFLOAT16,
    EXECUTION,
    NO_CLOCK,
    NUMPY_TYPES,
    SENDING,
    STORED_AS,
    WAITING,
    ClockDomain,
    CounterPassesRecord,
    Kind,
    Ping,
    Stack,
    Trace,
    little_endian,
    stored_bytes,
    type_name,
    widened,
)
from harness.runs.directory import (
    DEBUG_BUFFER,
    ETDUMP,
    LOG,
    PARTIAL,
    RunDirectory,
    from_clock_domain,
)
from harness.runs.request import RunRequest
from harness.runs.source import counts_of, read_npy, read_trace

_log = logging.getLogger(__name__)

PINGS = 5
"""Most pings for a narrow bracket: the narrowest of a handful is close to the line's best."""

_ALIKE: Final = 1.25
"""Two narrow brackets whose widths differ by no more than this factor show the line's best."""

_RATE_S: Final = 1.0
"""Longest time in which further pings look for evidence of the clock's rate, seconds."""

_PAUSE_S: Final = 0.002
"""Pause between these pings, seconds."""


def describe_target(info: TargetInfo) -> TargetRecord:
    """Return the record of a target."""
    known = {name: getattr(info, name) for name in TargetRecord.__struct_fields__}
    return TargetRecord(**known | {"clocks": tuple(map(from_clock_domain, info.clocks))})


def record_pings(session: Session, clock: ClockDomain, *, emulated: bool) -> tuple[Ping, ...]:
    """Ping the target until two narrow brackets agree, at most ``PINGS`` times.

    Then ping on until the readings are evidence of the clock's rate, for a second at most. The
    clock of an emulator has no rate in real time, so it is not measured.
    """
    pings: list[Ping] = []
    while len(pings) < PINGS:
        pings.append(session.ping())
        best = sorted(ping.host_after_ns - ping.host_before_ns for ping in pings)[:2]
        if len(best) == 2 and best[1] <= _ALIKE * best[0]:
            break
    if emulated or clock.hz is None:
        return tuple(pings)
    until_ns = pings[0].host_before_ns + round(_RATE_S * 1e9)
    while rate_evidence(pings, clock).agrees is None and pings[-1].host_after_ns < until_ns:
        time.sleep(_PAUSE_S)
        pings.append(session.ping())
    return tuple(pings)


def postmortems() -> Any:
    """Return the extension that reads postmortems; None, with a warning, without it."""
    crashes = load_plugin(POSTMORTEMS, "device")
    if crashes is None:
        _log.warning("the crash record is not read: %s", extension_remedy("postmortem"))
    return crashes


def dtype_of(scalar_type: int) -> np.dtype[Any]:
    """Return the NumPy dtype of an ExecuTorch scalar type.

    Raises:
        TargetError: NumPy has no such type.
    """
    if scalar_type not in NUMPY_TYPES:
        raise TargetError(
            f"the model has an input or output of {type_name(scalar_type)}, which NumPy lacks",
            hint="give it float32 inputs and outputs, and convert them within the model",
        )
    return little_endian(NUMPY_TYPES[scalar_type])


def declared_tensors(method: Method, numbers: Sequence[int]) -> list[TensorInfo] | None:
    """Describe inputs or outputs of a program's method; None if one is no tensor of a known type.

    Args:
        method: The method.
        numbers: Numbers of its values, such as ``method.inputs``.
    """
    infos = []
    for value in (method.values[number] for number in numbers):
        size = stored_bytes(value.scalar_type, value.sizes) if isinstance(value, Tensor) else None
        if not isinstance(value, Tensor) or size is None:
            return None
        infos.append(
            TensorInfo(
                scalar_type=value.scalar_type,
                dynamic=value.dynamism != Dynamism.STATIC,
                nbytes=size,
                sizes=tuple(value.sizes),
                dim_order=tuple(value.dim_order),
            )
        )
    return infos


def read_inputs(paths: Sequence[Path], wanted: Sequence[TensorInfo], seed: int) -> list[np.ndarray]:
    """Return the model's inputs: from ``.npy`` files, or random with ``seed`` when none are given.

    Raises:
        UsageError: A file is missing or not an array, or has another shape or type than the input.
    """
    if not paths:
        generator = np.random.default_rng(seed)
        inputs = []
        for info in wanted:
            dtype = dtype_of(info.scalar_type)
            if dtype.kind == "f":
                inputs.append(generator.standard_normal(info.sizes).astype(dtype))
            elif dtype.kind == "b":
                inputs.append(generator.integers(0, 2, info.sizes).astype(dtype))
            else:
                least, most = np.iinfo(dtype).min, np.iinfo(dtype).max
                numbers = generator.integers(least, most, info.sizes, dtype, endpoint=True)
                inputs.append(numbers)
        return inputs
    if len(paths) != len(wanted):
        raise UsageError(f"the model has {counted(len(wanted), 'input')}, not {len(paths)}")
    return [
        _fitting(read_npy(path), info, i, "the file", f"{path}: ")
        for i, (path, info) in enumerate(zip(paths, wanted, strict=True))
    ]


def tensor_to_bytes(array: np.ndarray, info: TensorInfo) -> bytes:
    """Return the array's elements in the order the tensor has in memory (its dim_order)."""
    return array.transpose(info.dim_order).tobytes()


def tensor_from_bytes(data: bytes, info: TensorInfo) -> np.ndarray:
    """Return the array that ``tensor_to_bytes`` made ``data`` from; bfloat16 as float32.

    Raises:
        TargetError: The number of bytes does not match the tensor.
    """
    # Older firmware sends 0 for types that only its runtime knows, such as float16.
    nbytes = info.nbytes or stored_bytes(info.scalar_type, info.sizes)
    if len(data) != nbytes:
        raise TargetError(f"the device sent {len(data)} bytes for a tensor of {nbytes}")
    is_wide = info.scalar_type == BFLOAT16
    dtype = little_endian(STORED_AS[BFLOAT16]) if is_wide else dtype_of(info.scalar_type)
    stored = widened(np.frombuffer(data, dtype), info.scalar_type)
    sizes = [info.sizes[dimension] for dimension in info.dim_order]
    # A copy: np.ascontiguousarray would give a tensor without dimensions one.
    return stored.reshape(sizes).transpose(np.argsort(info.dim_order)).copy()


def save_output(directory: RunDirectory, index: int, info: TensorInfo, data: bytes) -> TensorRecord:
    """Write an output of the device into a run directory, and return its record.

    Raises:
        TargetError: The number of bytes does not match the tensor.
    """
    file = directory.write_tensor(f"outputs/{index}.npy", tensor_from_bytes(data, info))
    return TensorRecord(info.scalar_type, info.sizes, len(data), file)


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
            f"the model has {counted(outputs, 'output')}, not {len(references)}",
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
            f"inputs: {len(wanted)} of the method, {len(test_set.inputs)} of the test set"
        )
    inputs = zip(map(np.asarray, test_set.inputs), wanted, strict=True)
    return [_fitting(array, info, i, "the test set") for i, (array, info) in enumerate(inputs)]


def _fitting(
    array: np.ndarray, info: TensorInfo, index: int, source: str, place: str = ""
) -> np.ndarray:
    """Return an input that has the type and the shape of the model's."""
    dtype = dtype_of(info.scalar_type)
    if array.dtype != dtype or not _shape_fits(array.shape, info):
        shape = f"{array.dtype}{list(array.shape)}"
        most = " at most" if info.dynamic else ""
        raise UsageError(
            f"{place}input {index} must be {dtype}{list(info.sizes)}{most}, "
            f"but {source} has {shape}"
        )
    return array


def _shape_fits(shape: tuple[int, ...], info: TensorInfo) -> bool:
    if not info.dynamic or len(shape) != len(info.sizes):
        return shape == info.sizes
    return all(size <= bound for size, bound in zip(shape, info.sizes, strict=True))


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
        TargetError: The log is inconsistent; its raw bytes are saved in any case.
    """
    is_log = is_device_log(image)
    written = directory.write(LOG if is_log else ETDUMP, image)
    if buffer:
        directory.write(DEBUG_BUFFER, buffer)
    try:
        trace = read_log(image, clocks) if is_log else read_trace(image, clocks)
    except FormatError as error:
        raise TargetError(
            f"the device sent a damaged log: {error.message}",
            hint=f"`etharness decode --salvage` reads the intact parts of {directory.path}",
        ) from error
    skipped = LeftOut()
    values = (trace.kind == Kind.DEBUG) & (trace.clock != NO_CLOCK)
    empty = trace.slowest_empty_events
    deepest = max(trace.stacks, key=lambda stack: stack.used, default=Stack(0, 0, 0))
    if is_log:
        directory.write(ETDUMP, write_ed00(without_wraps(trace), allocation_events=False))
        skipped = left_out(trace, allocation_events=False)
    ticks = durations(trace)
    return trace, TraceSummary(
        **counts_of(trace),
        log_bytes=written.nbytes,
        sha256=written.sha256,
        streaming_ticks=int(ticks[trace.named(SENDING)].sum()),
        waiting_ticks=int(ticks[trace.named(WAITING)].sum()),
        stack_used=deepest.used,
        stack_size=deepest.size,
        value_ticks=int(ticks[values].sum()),
        debug_bytes=len(buffer),
        etdp_left_out_allocations=skipped.allocations,
        etdp_left_out_values=skipped.lost_values,
        etdp_left_out_counts=skipped.hardware_counts,
        passes=None,  # the caller knows of other runs
        counters=tuple(trace.counters),
        probe_ticks=empty.ticks if empty else 0,
        probe_pairs=empty.count if empty else 0,
    )


TICKS: Final = "ticks"
"""What passes without a common counter are compared by."""


@dataclass(frozen=True, slots=True)
class CounterPasses:
    """The passes that read all counters of a run; one, unless more were asked for.

    The trace is that of the first pass, which runs last, so the device keeps it.

    Attributes:
        groups: The counters of each pass; one pass without any by default.
        offered: The counters of the device.
    """

    groups: tuple[tuple[str, ...], ...] = ((),)
    offered: CounterList = field(default_factory=CounterList)

    def join(
        self, image: bytes, others: Sequence[bytes]
    ) -> tuple[bytes, CounterPassesRecord | None]:
        """Return the log of the first pass with the counters of all, and how far they differ."""
        if not others or len(others) < len(self.groups) - 1:
            return image, None  # the run was interrupted
        first, logs = read_log(image), [read_log(other) for other in others]
        joined = join_counts(first, logs)
        return write_counts(image, joined), _compared(self.groups, first, logs, joined)


def plan_passes(session: Session, info: TargetInfo, request: RunRequest) -> CounterPasses:
    """Return the passes of a run.

    Raises:
        UsageError: The device does not have a counter, or they do not count at once.
        LinkError: No response in time.
        TargetError: The device restarted or died.
    """
    names = request.counters
    if not names:
        return CounterPasses()  # a device is not asked for what no run needs
    offered = session.counters()
    offered.check(names, info.board)
    if not request.counter_passes:
        offered.check_at_once(names, info.board)
    return CounterPasses(tuple(offered.passes(names)), offered)


def _compared(
    groups: tuple[tuple[str, ...], ...], first: Trace, others: list[Trace], joined: JoinedCounts
) -> CounterPassesRecord:
    """Return how far the passes differ in what they all counted."""
    common = next((name for name in groups[0] if all(name in group for group in groups)), TICKS)
    worst, name, execution = 0.0, "", 0.0
    before = _values(first, common)
    for trace, pairs in zip(others, joined.pairs, strict=True):
        after = _values(trace, common)
        for a, b in pairs:
            share = abs(after[b] - before[a]) / max(before[a], 1)
            event = first.text(int(first.name[a])) or ""
            if share > worst:
                worst, name = share, event
            if event == EXECUTION:
                execution = max(execution, share)
    return CounterPassesRecord(groups, common, worst, name, execution, joined.unmatched)


def _values(trace: Trace, common: str) -> list[int]:
    if common == TICKS:
        return [int(ticks) for ticks in durations(trace)]
    names = [counter.name for counter in trace.counters]
    return [int(count) for count in trace.counts[:, names.index(common)]]


def pull_trace(
    session: Session,
    info: TargetInfo,
    directory: RunDirectory,
    progress: Progress = lambda *_: None,
) -> tuple[Trace, TraceSummary]:
    """Pull the trace of the last run, and save it as ``save_trace`` does.

    Raises:
        FormatError: The log is inconsistent; its raw bytes are saved in any case.
    """
    image, buffer = read_log_image(session, directory, progress)
    return save_trace(image, buffer, info.clocks, directory)


def read_log_image(
    session: Session,
    directory: RunDirectory,
    progress: Progress = lambda *_: None,
    chunks: Sequence[bytes] = (),
) -> tuple[bytes, bytes]:
    """Read the whole log of the last run and its debug buffer; save what arrived if that fails."""
    try:
        last = session.read(Region.TRACE, progress=progress)
    except PartialReadError as error:
        directory.write(PARTIAL, b"".join(split_chunk(c)[0] for c in chunks) + error.data)
        raise
    if chunks:
        chunks = without_repeated(chunks, last)
    pieces = [split_chunk(chunk) for chunk in chunks]
    buffer = join_debug_buffers([*(debug for _, debug in pieces), read_debug_buffer(session)])
    return b"".join(log for log, _ in pieces) + last, buffer


def read_debug_buffer(session: Session) -> bytes:
    """Read the bytes of logged tensors; empty if the device has no debug buffer."""
    if not session.may_have_values:
        return b""
    try:
        return session.read(Region.TRACE, 1)
    except DeviceRefusedError as error:
        if error.status != Status.BAD_REGION:
            raise
        return b""


CANCEL_S: Final = 5.0
"""Longest wait for the end of the run, seconds: the board completes its current execution."""

_PULL_S: Final = 10.0
"""Longest time for reading the trace, seconds."""


def end_interrupted_run(
    session: Session, keep: Callable[[RunOutcome, Progress], None], stages: Stages
) -> str:
    """End the run that a session has requested, and keep its trace.

    Args:
        session: The session.
        keep: Reads and saves the trace of the executions so far.
        stages: Called to report progress.

    Returns:
        What became of the run, as the rest of a sentence; empty if none was in progress.
    """
    if not session.is_running:
        return ""
    stages("ending the run on the board", 0, 0)
    try:
        outcome = session.cancel(CANCEL_S)
    except HarnessError as error:
        return f"; the run did not end on the board: {error.message}"
    if outcome is None:
        return f"; the board has not confirmed the end of the run within {CANCEL_S:g} s"
    give_up_at = time.monotonic() + _PULL_S

    def progress(done: int, total: int) -> None:
        stages("pulling", done, total)
        if time.monotonic() > give_up_at:
            raise LinkError(f"not complete within {_PULL_S:g} s")

    try:
        keep(outcome, progress)
    except HarnessError as error:
        return f"; the run has ended on the board, but its trace was not saved: {error.message}"
    return "; the run has ended on the board, and its trace is saved"
