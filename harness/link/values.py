"""Typed values of requests and responses. Sizes are bytes."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from typing import Final

from harness.link.wire import DebugLevel, DetailKind, ProfilingLevel, State, WhenFull
from harness.records.clock_domain import ClockDomain


@dataclass(frozen=True, slots=True)
class DeviceOutcome:
    """How a request or a run ended: a `Status`, its detail number, the device's message, and the
    `DetailKind` of the number.
    """

    status: int
    detail: int = 0
    message: str = ""
    detail_kind: int = DetailKind.STATUS


@dataclass(frozen=True, slots=True)
class PlacedModelInfo:
    """A model in the firmware image: the start of its SHA-256, and its name, which may be cut."""

    digest: bytes
    name: str


@dataclass(frozen=True, slots=True)
class TargetInfo:
    """A device's description of itself, from its response to HELLO.

    Attributes:
        version: Link protocol version agreed on.
        mtu: Longest frame payload, bytes, in both directions.
        board: Board name.
        cpu: CPU name.
        build_id: Identity of the firmware image.
        runtime: Name of the runtime that executes models; empty if older firmware does not say.
        kernels: Name of its kernel library, likewise.
        clocks: Clock domains; the position is the clock number in events.
        model_capacity: Largest model file that can be uploaded, bytes.
        arena_capacity: Planned memory and method state together, bytes.
        input_capacity: Staged inputs together, bytes.
        trace_capacity: Compact log, bytes.
        debug_capacity: Values of tensors, bytes.
        probe_ticks: Ticks of clock 0 that ``probe_pairs`` empty start/end pairs took.
        probe_pairs: See ``probe_ticks``; 0 when the device did not measure.
        operators: Number of kernels linked in.
        bauds: Supported baud rates, bits per second, the one after a reset first; empty if the
            device has only one.
        postmortem: State found after the last reset (`postmortem_format.Condition`); if not 0,
            the region POSTMORTEM can be read.
        placed: The model in its image, which needs no upload; None without.
        state: See `State`; None if the response had no room for it.
        last_run_id: The last run it accepted; None likewise.
    """

    version: int
    mtu: int
    board: str = ""
    cpu: str = ""
    build_id: str = ""
    runtime: str = ""
    kernels: str = ""
    clocks: tuple[ClockDomain, ...] = ()
    model_capacity: int = 0
    arena_capacity: int = 0
    input_capacity: int = 0
    trace_capacity: int = 0
    debug_capacity: int = 0
    probe_ticks: int = 0
    probe_pairs: int = 0
    operators: int = 0
    bauds: tuple[int, ...] = ()
    postmortem: int = 0
    placed: PlacedModelInfo | None = None
    state: int | None = None
    last_run_id: int | None = None

    def holds(self, model: bytes) -> bool:
        """Return whether ``model`` is the one in the firmware image."""
        placed = self.placed
        return placed is not None and hashlib.sha256(model).digest().startswith(placed.digest)


@dataclass(frozen=True, slots=True)
class DeviceClock:
    """Ticks of clock 0 when a PING was decoded, and how often that clock was restarted."""

    epoch: int
    ticks: int


@dataclass(frozen=True, slots=True)
class DeviceStatus:
    """State of the device and of its end of the link.

    Attributes:
        state: See `State`.
        session: Number the host gave in HELLO; 0 after a reboot.
        run_id: The last run it accepted; 0 before the first.
        completed: Executions that run has completed.
        good_frames: Frames it received and accepted.
        corrupt_frames: Frames it received and rejected.
        overruns: How often its UART lost bytes because they were not read in time.
        outcome: How the last run ended.
    """

    state: State
    session: int
    run_id: int
    completed: int
    good_frames: int
    corrupt_frames: int
    overruns: int
    outcome: DeviceOutcome


@dataclass(frozen=True, slots=True)
class TensorInfo:
    """A model input or output.

    Attributes:
        scalar_type: ExecuTorch's number for its element type.
        sizes: Elements per dimension.
        nbytes: Size in bytes.
        dim_order: Dimensions from the outermost to the innermost in memory.
        dynamic: Whether the shape is dynamic; ``sizes`` are then its upper bounds.
    """

    scalar_type: int
    sizes: tuple[int, ...]
    nbytes: int
    dim_order: tuple[int, ...]
    dynamic: bool = False


@dataclass(frozen=True, slots=True)
class ModelInfo:
    """A model the device has loaded and checked.

    Attributes:
        planned_bytes: Data buffers: planned memory, unplanned inputs and outputs, temporaries.
        method_bytes: Arena bytes that describe the method.
        inputs: Input tensors.
        outputs: Output tensors.
    """

    planned_bytes: int
    method_bytes: int
    inputs: tuple[TensorInfo, ...] = ()
    outputs: tuple[TensorInfo, ...] = ()


@dataclass(frozen=True, slots=True)
class RegionInfo:
    """Size in bytes and SHA-256 of a readable region; for an output also its shape."""

    size: int
    digest: bytes
    sizes: tuple[int, ...] = ()


@dataclass(frozen=True, slots=True)
class RegionPart:
    """Bytes of a region at an offset."""

    region: int
    index: int
    offset: int
    data: bytes


@dataclass(frozen=True, slots=True)
class RunNote:
    """A progress or completion notification; ``outcome`` is None while the run goes on."""

    run_id: int
    completed: int
    outcome: DeviceOutcome | None = None


@dataclass(frozen=True, slots=True)
class RunInProgress:
    """A run that the device has not finished.

    Attributes:
        run_id: Its number.
        completed: Executions completed.
        count: Executions requested.
        elapsed_s: Time since its start, seconds; too short if an execution took longer than the
            period of the device's counter.
    """

    run_id: int
    completed: int
    count: int
    elapsed_s: float


@dataclass(frozen=True, slots=True)
class LogPart:
    """Part of a chunk of a run's log: ``data`` at ``offset`` of an image of ``size`` bytes."""

    run_id: int
    chunk: int
    size: int
    offset: int
    data: bytes


@dataclass(frozen=True, slots=True)
class LogWait:
    """A device that waits for the answer to a chunk of ``size`` bytes."""

    run_id: int
    chunk: int
    size: int


@dataclass(frozen=True, slots=True)
class LogAck:
    """The answer to a chunk: request ``length`` bytes at ``offset`` again; 0 acknowledges it."""

    chunk: int
    offset: int
    length: int


VALUES: Final = {
    "none": DebugLevel.NO_LOGGING,
    "outputs": DebugLevel.PROGRAM_OUTPUTS,
    "intermediate": DebugLevel.INTERMEDIATE_OUTPUTS,
}
PROFILES: Final = {"method": ProfilingLevel.METHOD_ONLY, "all": ProfilingLevel.ALL_EVENTS}
WHEN_FULL: Final = {"stop": WhenFull.STOP, "drop-oldest": WhenFull.DROP_OLDEST_RUNS}
"""Names of the options on the command line and in files."""


@dataclass(frozen=True, slots=True)
class RunOptions:
    """Options of one run.

    Attributes:
        trace_limit: Bytes of log the device may use; 0 for all it has.
        debug_level: Which values are logged.
        profiling_level: Which events are logged.
        when_full: What the device does when the log is full.
        stream: Send the log in chunks during the run.
        bundled_input: Number of the test set of the inputs, to be logged; -1 for none.
        counters: Hardware counters to read at each event, by their numbers in `CounterList`.
        crash: Fault on purpose in the second execution; firmware that cannot refuses the run.
    """

    trace_limit: int = 0
    debug_level: DebugLevel = DebugLevel.NO_LOGGING
    profiling_level: ProfilingLevel = ProfilingLevel.ALL_EVENTS
    when_full: WhenFull = WhenFull.STOP
    stream: bool = False
    bundled_input: int = -1
    counters: tuple[int, ...] = ()
    crash: bool = False


DEFAULT_OPTIONS = RunOptions()
"""All events, no values."""
