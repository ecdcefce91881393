"""Messages of the link: the bodies of requests, responses and notifications, in this order.

Sizes, offsets and capacities are bytes. `docs/protocol.md` describes when they are sent. A body is
declared once, and parses and encodes itself by its declaration: each field states its type and its
layout on the wire, in the order of the wire::

    class LogWaitNote(Body):
        run_id: U32
        chunk: U32

Integers are little-endian. A ``ClassVar`` with a layout is on the wire only, such as a count of
items.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import Field, dataclass, fields
from fractions import Fraction
from typing import (
    Annotated,
    Any,
    ClassVar,
    Final,
    Self,
    TypeVar,
    dataclass_transform,
    get_args,
    get_origin,
    get_type_hints,
)

from construct import (
    Array,
    Bytes,
    Computed,
    Const,
    Construct,
    ConstructError,
    ExprAdapter,
    FocusedSeq,
    GreedyBytes,
    GreedyRange,
    Int8ul,
    Int16ul,
    Int32sl,
    Int32ul,
    Int64ul,
    Padding,
    Prefixed,
    Rebuild,
    Struct,
    Terminated,
    len_,
    this,
)

from harness.errors import UsageError, did_you_mean
from harness.link.wire import (
    DIGEST_SIZE,
    MAX_COUNTERS,
    MIN_MTU,
    VERSION,
    DebugLevel,
    DetailKind,
    Info,
    ProfilingLevel,
    RunFlag,
    State,
    WhenFull,
)
from harness.records.run_settings import FullLogAction, LoggedEvents, LoggedValues
from harness.records.trace import ClockDomain

_T = TypeVar("_T")


class MalformedBodyError(ValueError):
    """A body does not have the layout of its type."""


@dataclass_transform(frozen_default=True)
class Body:
    """Base of all bodies: subclasses are frozen dataclasses, with ``kw_only=True`` if they ask so.

    A ``__post_init__`` that raises ValueError makes a body malformed.
    """

    layout: ClassVar[Construct]
    """Layout of a body within another one."""
    __dataclass_fields__: ClassVar[dict[str, Field[Any]]]

    def __init_subclass__(cls, *, kw_only: bool = False) -> None:
        dataclass(frozen=True, kw_only=kw_only)(cls)
        hints = get_type_hints(cls, include_extras=True)
        parts = [name / part for name, hint in hints.items() if (part := _layout_of(hint))]
        names = [field.name for field in fields(cls)]
        cls.layout = ExprAdapter(
            Struct(*parts),
            lambda parsed, _: cls(**{name: parsed[name] for name in names}),
            lambda body, _: vars(body),
        )

    @classmethod
    def parse(cls, body: bytes) -> Self:
        """Parse the whole of a body.

        Raises:
            MalformedBodyError: It does not have this layout.
        """
        parsed: Self = parse_whole(cls.layout, body)
        return parsed

    def encode(self) -> bytes:
        """Return the body as it is sent."""
        return bytes(self.layout.build(self))


def parse_whole(layout: Construct, data: bytes) -> Any:
    """Parse data that has a layout from its first to its last byte.

    Raises:
        MalformedBodyError: It does not.
    """
    try:
        return FocusedSeq("it", "it" / layout, Terminated).parse(data)
    except (ConstructError, ValueError, ZeroDivisionError) as error:
        raise MalformedBodyError(f"{len(data)} bytes do not parse: {error}") from error


def _layout_of(hint: Any) -> Construct | None:
    """Return the layout that the type of a field states; None for an ordinary ``ClassVar``."""
    if get_origin(hint) is ClassVar:
        [hint] = get_args(hint)
    if isinstance(hint, type) and issubclass(hint, Body):
        return hint.layout
    return hint.__metadata__[0] if get_origin(hint) is Annotated else None


def after(unused: int, layout: Construct) -> Construct:
    """Return a layout behind unused bytes."""
    return FocusedSeq("it", Padding(unused), "it" / layout)


def as_type(
    layout: Construct,
    decode: Callable[[Any], object],
    encode: Callable[[Any], Any] = lambda value: value,
) -> Construct:
    """Return a layout whose values are converted."""
    return ExprAdapter(layout, lambda value, _: decode(value), lambda value, _: encode(value))


def array(count: Any, layout: Construct) -> Construct:
    """Return the layout of a tuple with a known number of items."""
    return as_type(Array(count, layout), tuple)


def many(layout: Construct) -> Construct:
    """Return the layout of a tuple of items up to the end of the body."""
    return as_type(GreedyRange(layout), tuple)


def printable(text: bytes) -> str:
    """Decode text from a device; control characters must not reach a terminal."""
    decoded = text.decode("utf-8", errors="replace")
    return "".join(c if c.isprintable() else "\N{REPLACEMENT CHARACTER}" for c in decoded)


TEXT: Final = as_type(GreedyBytes, printable, str.encode)
"""Text up to the end."""

U8 = Annotated[int, Int8ul]
U16 = Annotated[int, Int16ul]
U32 = Annotated[int, Int32ul]
Flag = Annotated[bool, as_type(Int8ul, bool)]
Data = Annotated[bytes, GreedyBytes]
Text = Annotated[str, TEXT]
Sizes = Annotated[tuple[int, ...], many(Int32sl)]


VALUES: Final[dict[LoggedValues, DebugLevel]] = {
    "none": DebugLevel.NO_LOGGING,
    "outputs": DebugLevel.PROGRAM_OUTPUTS,
    "intermediate": DebugLevel.INTERMEDIATE_OUTPUTS,
}
PROFILES: Final[dict[LoggedEvents, ProfilingLevel]] = {
    "method": ProfilingLevel.METHOD_ONLY,
    "all": ProfilingLevel.ALL_EVENTS,
}
WHEN_FULL: Final[dict[FullLogAction, WhenFull]] = {
    "stop": WhenFull.STOP,
    "drop-oldest": WhenFull.DROP_OLDEST_RUNS,
}
"""Numbers of the words of the settings."""


WRITE_OVERHEAD: Final = 8
"""Bytes of a WRITE's body that are not data."""
BATCH_OVERHEAD: Final = 4
"""Bytes of a BATCH's body before each part."""
READ_OVERHEAD: Final = 8
"""Bytes of a READ response's body that are not data."""


class HelloBody(Body):
    """HELLO."""

    versions: ClassVar[Annotated[bytes, Const(bytes((VERSION, VERSION, 0, 0)))]]
    session: U32


class ResetBody(Body):
    """RESET; ``kind`` is a `Reset`."""

    kind: U8


class BaudBody(Body):
    """BAUD; bits per second."""

    baud: U32


class CountersBody(Body):
    """COUNTERS, which lists the counters from number ``first`` on."""

    first: U8


class BatchPart(Body):
    """A request or response within another frame."""

    op: U8
    body: Annotated[bytes, after(1, Prefixed(Int16ul, GreedyBytes))]


class BatchBody(Body):
    """BATCH."""

    parts: Annotated[tuple[BatchPart, ...], many(BatchPart.layout)]

    @classmethod
    def of(cls, requests: Iterable[tuple[int, bytes]]) -> BatchBody:
        """Return the BATCH of requests, each a type and a body."""
        return cls(tuple(BatchPart(op, body) for op, body in requests))


class StatBody(Body):
    """STAT of a region: a `Region` and the number of the input or output."""

    region: U8
    index: U8
    unused: ClassVar[Annotated[None, Padding(2)]]


class OpenBody(StatBody):
    """OPEN; ``sizes`` is the shape of a dynamic input, empty for its upper bounds."""

    size: U32
    sizes: Sizes = ()


class WriteBody(StatBody):
    """WRITE of data at an offset."""

    offset: U32
    data: Data


class ReadBody(StatBody):
    """READ of ``length`` bytes."""

    offset: U32
    length: U32


class CommitBody(StatBody):
    """COMMIT of a region with this SHA-256.

    ``method`` is the method of a model to load, empty for the device's default.
    """

    digest: Annotated[bytes, Bytes(DIGEST_SIZE)]
    method: Text = ""


_FLAGS: Final = Rebuild(
    Int8ul, lambda run: RunFlag.STREAM * run.stream | RunFlag.CRASH * run.crash | run.resumed
)
_STREAM: Final = Computed(lambda run: bool(run.flags & RunFlag.STREAM))
_RESUMED: Final = Computed(lambda run: run.flags & ~(RunFlag.STREAM | RunFlag.CRASH))
_CRASH: Final = Computed(lambda run: bool(run.flags & RunFlag.CRASH))
_TEST_SET: Final = ExprAdapter(
    GreedyRange(Int32sl),
    lambda numbers, _: numbers[0] if numbers else -1,
    lambda number, run: [number] if number >= 0 or run.counters else [],
)


class RunOptions(Body):
    """Options of one run.

    The number of a test set and counters are sent only if there are, so that older firmware runs
    everything else.

    Attributes:
        trace_limit: Bytes of log the device may use; 0 for all it has.
        debug_level: Which values are logged, a `DebugLevel`.
        profiling_level: Which events are logged, a `ProfilingLevel`.
        when_full: What the device does when the log is full, a `WhenFull`.
        stream: Send the log in chunks during the run.
        bundled_input: Number of the test set of the inputs, to be logged; -1 for none.
        counters: Hardware counters to read at each event, by their numbers in `CounterList`.
        crash: Fault on purpose in the second execution; firmware that cannot refuses the run.
        resumed: What goes on from the run before, `RunFlag.CONTINUE` and `RunFlag.KEEP_STATE`.
    """

    trace_limit: U32 = 0
    debug_level: U8 = DebugLevel.NO_LOGGING
    profiling_level: U8 = ProfilingLevel.ALL_EVENTS
    when_full: U8 = WhenFull.STOP
    flags: ClassVar[Annotated[int, _FLAGS]]
    stream: Annotated[bool, _STREAM] = False
    bundled_input: Annotated[int, _TEST_SET] = -1
    counters: Annotated[tuple[int, ...], many(Int8ul)] = ()
    crash: Annotated[bool, _CRASH] = False
    resumed: Annotated[int, _RESUMED] = 0


DEFAULT_OPTIONS = RunOptions()
"""All events, no values."""


class RunBody(Body):
    """RUN of ``count`` executions."""

    run_id: U32
    count: U32
    options: RunOptions = DEFAULT_OPTIONS


class CancelBody(Body):
    """CANCEL."""

    run_id: U32


class LogAck(Body):
    """The answer to a chunk: request ``length`` bytes at ``offset`` again; 0 acknowledges it."""

    run_id: U32
    chunk: U32
    offset: U32
    length: U32


class Answer(Body):
    """A response with the status OK, and nothing else unless a subclass says so."""

    status: ClassVar[Annotated[None, Padding(1)]]


class BatchAnswer(Answer):
    """The response to BATCH."""

    parts: Annotated[tuple[BatchPart, ...], after(3, many(BatchPart.layout))]

    @property
    def bodies(self) -> list[bytes]:
        """The bodies of the parts' responses."""
        return [part.body for part in self.parts]


class DeviceClock(Answer):
    """The response to PING: ticks of clock 0 when it was decoded.

    ``epoch`` is how often that clock was restarted.
    """

    epoch: Annotated[int, after(3, Int32ul)]
    ticks: Annotated[int, Int64ul]


class DeviceOutcome(Body, kw_only=True):
    """How a request or a run ended.

    Attributes:
        status: A `Status`.
        detail_kind: What ``detail`` means.
        detail: Its detail number.
        message: The device's message.
    """

    status: U8
    detail_kind: U8 = DetailKind.STATUS
    detail: Annotated[int, after(2, Int32ul)] = 0
    message: Text = ""


class RunInProgress(Body):
    """The response BUSY: a run that the device has not finished.

    Attributes:
        run_id: Its number.
        completed: Executions completed.
        count: Executions requested.
        elapsed_ms: Time since its start; too short if an execution took longer than the period of
            the device's counter.
    """

    run_id: Annotated[int, after(4, Int32ul)]
    completed: U32
    count: U32
    elapsed_ms: U32


class DeviceStatus(Answer):
    """The response to STATUS.

    Attributes:
        state: State of the device.
        session: Number the host gave in HELLO; 0 after a reboot.
        run_id: The last run it accepted; 0 before the first.
        completed: Executions that run has completed.
        good_frames: Frames it received and accepted.
        corrupt_frames: Frames it received and rejected.
        overruns: How often its UART lost bytes because they were not read in time.
        outcome: How the last run ended.
    """

    state: Annotated[State, as_type(Int8ul, State)]
    session: Annotated[int, after(2, Int32ul)]
    run_id: U32
    completed: U32
    good_frames: U32
    corrupt_frames: U32
    overruns: U32
    outcome: DeviceOutcome


class WriteAnswer(Answer):
    """The response to WRITE: the number of bytes that the device has without a gap."""

    arrived: Annotated[int, after(3, Int32ul)]


class TensorInfo(Body, kw_only=True):
    """A model input or output.

    Attributes:
        scalar_type: ExecuTorch's number for its element type.
        dynamic: Whether the shape is dynamic; ``sizes`` are then its upper bounds.
        nbytes: Size in bytes.
        sizes: Elements per dimension.
        dim_order: Dimensions from the outermost to the innermost in memory.
    """

    scalar_type: U8
    dimensions: ClassVar[Annotated[int, Rebuild(Int8ul, len_(this.sizes))]]
    dynamic: Flag = False
    nbytes: Annotated[int, after(1, Int32ul)]
    sizes: Annotated[tuple[int, ...], array(this.dimensions, Int32sl)]
    dim_order: Annotated[tuple[int, ...], array(this.dimensions, Int8ul)]

    def __post_init__(self) -> None:
        if sorted(self.dim_order) != list(range(len(self.sizes))):
            raise ValueError(f"dim order {self.dim_order} is not a permutation")
        if any(size < 0 for size in self.sizes):
            raise ValueError(f"a size of {list(self.sizes)} is negative")


class ModelInfo(Answer):
    """The response to COMMIT of a model: it was loaded and checked.

    Attributes:
        planned_bytes: Data buffers: planned memory, unplanned inputs and outputs, temporaries.
        method_bytes: Arena bytes that describe the method.
        inputs: Input tensors.
        outputs: Output tensors.
    """

    input_count: ClassVar[Annotated[int, Rebuild(Int8ul, len_(this.inputs))]]
    output_count: ClassVar[Annotated[int, Rebuild(Int8ul, len_(this.outputs))]]
    planned_bytes: Annotated[int, after(1, Int32ul)]
    method_bytes: U32
    inputs: Annotated[tuple[TensorInfo, ...], array(this.input_count, TensorInfo.layout)]
    outputs: Annotated[tuple[TensorInfo, ...], array(this.output_count, TensorInfo.layout)]


class RegionInfo(Answer):
    """The response to STAT: size and SHA-256 of a region; of an output also its shape."""

    size: Annotated[int, after(3, Int32ul)]
    digest: Annotated[bytes, Bytes(DIGEST_SIZE)]
    sizes: Sizes = ()


class RegionPart(Answer):
    """One frame of the response to READ."""

    region: U8
    index: U8
    offset: Annotated[int, after(1, Int32ul)]
    data: Data


class RunNote(Body):
    """NOTE_PROGRESS: the number of completed executions."""

    run_id: U32
    completed: U32


class RunEnd(RunNote):
    """NOTE_DONE: how a run ended."""

    outcome: DeviceOutcome


class LogWait(Body):
    """NOTE_LOG_WAIT: the device waits for the answer to a chunk of ``size`` bytes."""

    run_id: U32
    chunk: U32
    size: U32


class LogPart(LogWait):
    """NOTE_LOG: data at an offset of a chunk of the log."""

    offset: U32
    data: Data

    def __post_init__(self) -> None:
        if self.offset + len(self.data) > self.size:
            raise ValueError(f"they end after the chunk of {self.size} bytes")


class PlacedModelInfo(Body):
    """A model in the firmware image: the start of its SHA-256, and its name, which may be cut."""

    digest: Annotated[bytes, Bytes(8)]
    name: Text


class _Tag(Body):
    number: U8
    value: Annotated[bytes, Prefixed(Int8ul, GreedyBytes)]


class _HelloAnswer(Answer):
    version: U8
    mtu: U16
    tags: Annotated[tuple[_Tag, ...], many(_Tag.layout)]


_CLOCK: Final = as_type(
    Struct(
        "bits" / Int8ul,
        "down" / Int8ul,
        Padding(2),
        "numerator" / Int32ul,
        "denominator" / Int32ul,
        "name" / GreedyBytes,
    ),
    lambda parsed: ClockDomain(
        printable(parsed.name),
        Fraction(parsed.numerator, parsed.denominator) or None,
        parsed.bits,
        bool(parsed.down),
    ),
)


@dataclass(frozen=True, slots=True)
class TargetInfo:
    """A device's description of itself: the response to HELLO.

    It consists of tags, each with one field or several in order. Unknown tags are ignored.

    Attributes:
        link_version: Link protocol version agreed on.
        mtu: Longest frame payload, in both directions.
        board: Board name.
        cpu: CPU name.
        build_id: Identity of the firmware image.
        runtime: Name of the runtime that executes models; empty if older firmware does not say.
        kernels: Name of its kernel library, likewise.
        clocks: Clock domains, each in a tag; the position is the clock number in events.
        model_capacity: Largest model file that can be uploaded.
        arena_capacity: Planned memory and method state together.
        input_capacity: Staged inputs together.
        trace_capacity: Compact log.
        debug_capacity: Values of tensors.
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

    link_version: int
    mtu: int
    board: Annotated[str, Info.BOARD, TEXT] = ""
    cpu: Annotated[str, Info.CPU, TEXT] = ""
    build_id: Annotated[str, Info.BUILD_ID, TEXT] = ""
    runtime: Annotated[str, Info.RUNTIME, TEXT] = ""
    kernels: Annotated[str, Info.KERNELS, TEXT] = ""
    clocks: Annotated[tuple[ClockDomain, ...], Info.CLOCK, array(1, _CLOCK)] = ()
    model_capacity: Annotated[int, Info.MODEL_CAPACITY, Int32ul] = 0
    arena_capacity: Annotated[int, Info.ARENA_CAPACITY, Int32ul] = 0
    input_capacity: Annotated[int, Info.INPUT_CAPACITY, Int32ul] = 0
    trace_capacity: Annotated[int, Info.TRACE_CAPACITY, Int32ul] = 0
    debug_capacity: Annotated[int, Info.DEBUG_CAPACITY, Int32ul] = 0
    probe_ticks: Annotated[int, Info.PROBE_COST, Int32ul] = 0
    probe_pairs: Annotated[int, Info.PROBE_COST, Int32ul] = 0
    operators: Annotated[int, Info.OPERATORS, Int32ul] = 0
    bauds: Annotated[tuple[int, ...], Info.BAUDS, many(Int32ul)] = ()
    postmortem: Annotated[int, Info.POSTMORTEM, Int8ul] = 0
    placed: Annotated[PlacedModelInfo | None, Info.PLACED_MODEL, PlacedModelInfo.layout] = None
    state: Annotated[int | None, Info.LAST_RUN, Int8ul] = None
    last_run_id: Annotated[int | None, Info.LAST_RUN, Int32ul] = None

    @classmethod
    def parse(cls, body: bytes) -> Self:
        """Parse the response to HELLO.

        Raises:
            MalformedBodyError: It does not have its layout.
        """
        answer = _HelloAnswer.parse(body)
        if answer.mtu < MIN_MTU:
            raise MalformedBodyError(f"MTU of {answer.mtu} bytes is below {MIN_MTU}")
        found: dict[str, Any] = {"clocks": ()}
        for tag in answer.tags:
            if fields := _TAGS.get(tag.number):
                values = parse_whole(Struct(**fields), tag.value)
                clocks = found["clocks"] + values.pop("clocks", ())
                found |= {name: values[name] for name in fields if name in values}
                found["clocks"] = clocks
        return cls(answer.version, answer.mtu, **found)

    def holds(self, digest: bytes) -> bool:
        """Return whether the model with this SHA-256 is the one in the firmware image."""
        return self.placed is not None and digest.startswith(self.placed.digest)


def _tags() -> dict[int, dict[str, Construct]]:
    """Return the fields of each tag and their layouts."""
    tags: dict[int, dict[str, Construct]] = {}
    for name, hint in get_type_hints(TargetInfo, include_extras=True).items():
        if metadata := getattr(hint, "__metadata__", None):
            tag, layout = metadata
            tags.setdefault(tag, {})[name] = layout
    return tags


_TAGS: Final = _tags()


class OfferedCounter(Body):
    """A hardware counter that a run can read.

    Attributes:
        bits: Width.
        selectable: Whether it takes one of the device's selectable counters.
        name: Name, such as ``instret``.
    """

    bits: U8
    selectable: Flag
    name: Annotated[str, as_type(Prefixed(Int8ul, GreedyBytes), printable, str.encode)]


class CounterList(Answer):
    """The response to COUNTERS: the hardware counters of a device, or a part of them.

    Attributes:
        count: Number of all counters.
        at_once: Number of selectable counters that count at once.
        counters: The counters; their places are the numbers that RUN selects them by.
    """

    count: U8 = 0
    at_once: U8 = 0
    counters: Annotated[tuple[OfferedCounter, ...], after(1, many(OfferedCounter.layout))] = ()

    def numbers(self, names: Sequence[str]) -> tuple[int, ...]:
        """Return the numbers of counters."""
        places = {counter.name: number for number, counter in enumerate(self.counters)}
        return tuple(places[name] for name in names)

    def check(self, names: Sequence[str], board: str) -> None:
        """Check that the device has these counters.

        Raises:
            UsageError: There is no such counter, or one is named twice.
        """
        known = [counter.name for counter in self.counters]
        for name in names:
            if name not in known:
                offered = f"it has {', '.join(known)}" if known else "its firmware offers none"
                raise UsageError(
                    f"{board} has no hardware counter {name!r}",
                    hint=f"{did_you_mean(name, known)}{offered}",
                )
            if names.count(name) > 1:
                raise UsageError(f"counter {name} is named {names.count(name)} times")

    def passes(self, names: Sequence[str]) -> list[tuple[str, ...]]:
        """Return the counters in groups that count at once.

        The first counter that is not selectable is in every group, so that groups can be compared.
        Later groups are filled up with counters of earlier ones, so that reading costs the same.
        """
        selectable = {counter.name for counter in self.counters if counter.selectable}
        common = [name for name in names if name not in selectable][:1]
        left = [name for name in names if name not in common]
        groups: list[tuple[str, ...]] = []
        while left or not groups:
            group = [*common]
            for name in (*left, *names):
                if name not in group and self._has_room(group, name, selectable):
                    group.append(name)
                if groups and len(group) == len(groups[0]):
                    break
            known = len(left)
            left = [name for name in left if name not in group]
            groups.append(tuple(name for name in names if name in group))
            if len(left) == known:
                break  # there is no room for any
        return [group for group in groups if group]

    def _has_room(self, group: Sequence[str], name: str, selectable: set[str]) -> bool:
        taken = sum(each in selectable for each in group)
        return len(group) < MAX_COUNTERS and (name not in selectable or taken < self.at_once)

    def check_at_once(self, names: Sequence[str], board: str) -> None:
        """Check that these counters count at once.

        Raises:
            UsageError: They do not.
        """
        if len(self.passes(names)) > 1:
            raise UsageError(
                f"{board} cannot count {', '.join(names)} in one run: at most "
                f"{MAX_COUNTERS} counters, {self.at_once} of them selectable",
                hint="--counter-passes measures them in several runs",
            )
