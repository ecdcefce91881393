"""Bodies of requests and responses: layouts in ``construct``, values of ``harness.link.values``.

The ``parse_`` functions raise `MalformedBodyError` if a body does not have the declared layout.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from fractions import Fraction
from typing import Any, Final

from construct import (
    Array,
    Bytes,
    Construct,
    ConstructError,
    GreedyBytes,
    GreedyRange,
    Int8ul,
    Int16ul,
    Int32sl,
    Int32ul,
    Int64ul,
    Padding,
    Prefixed,
    Struct,
    Terminated,
    this,
)

from harness.link.values import (
    DEFAULT_OPTIONS,
    DeviceClock,
    DeviceOutcome,
    DeviceStatus,
    LogAck,
    LogPart,
    LogWait,
    ModelInfo,
    PlacedModelInfo,
    RegionInfo,
    RegionPart,
    RunInProgress,
    RunNote,
    RunOptions,
    TargetInfo,
    TensorInfo,
)
from harness.link.wire import (
    DIGEST_SIZE,
    MIN_MTU,
    VERSION,
    Info,
    Region,
    Reset,
    RunFlag,
    State,
)
from harness.records.clock_domain import ClockDomain

WRITE_OVERHEAD: Final = 8
"""Bytes of a WRITE's body that are not data."""
BATCH_OVERHEAD: Final = 4
"""Bytes of a BATCH's body before each part."""
READ_OVERHEAD: Final = 8
"""Bytes of a READ response's body that are not data."""

_ADDRESS = ("region" / Int8ul, "index" / Int8ul, Padding(2))

_HELLO = Struct("lowest" / Int8ul, "highest" / Int8ul, Padding(2), "session" / Int32ul)
_RESET = Struct("kind" / Int8ul)
_BAUD = Struct("baud" / Int32ul)
_OPEN = Struct(*_ADDRESS, "size" / Int32ul, "sizes" / GreedyRange(Int32sl))
_WRITE = Struct(*_ADDRESS, "offset" / Int32ul, "data" / GreedyBytes)
_COMMIT = Struct(*_ADDRESS, "digest" / Bytes(DIGEST_SIZE), "method" / GreedyBytes)
_RUN = Struct(
    "run_id" / Int32ul,
    "count" / Int32ul,
    "trace_limit" / Int32ul,
    "debug_level" / Int8ul,
    "profiling_level" / Int8ul,
    "when_full" / Int8ul,
    "flags" / Int8ul,
    "bundled_input" / GreedyRange(Int32sl),
    "counters" / GreedyBytes,
)
_CANCEL = Struct("run_id" / Int32ul)
_STAT = Struct(*_ADDRESS)
_READ = Struct(*_ADDRESS, "offset" / Int32ul, "length" / Int32ul)

_BATCH_PART = Struct("op" / Int8ul, Padding(1), "body" / Prefixed(Int16ul, GreedyBytes))
_BATCH = Struct("parts" / GreedyRange(_BATCH_PART), Terminated)
_BATCH_ANSWER = Struct(Int8ul, Padding(3), "parts" / GreedyRange(_BATCH_PART), Terminated)

_OUTCOME = (
    "status" / Int8ul,
    "detail_kind" / Int8ul,
    Padding(2),
    "detail" / Int32ul,
    "message" / GreedyBytes,
)

_REFUSAL = Struct(*_OUTCOME)
_BUSY_ANSWER = Struct(
    Int8ul,
    Padding(3),
    "run_id" / Int32ul,
    "completed" / Int32ul,
    "count" / Int32ul,
    "elapsed_ms" / Int32ul,
    Terminated,
)
_EMPTY_ANSWER = Struct(Int8ul, Terminated)
_HELLO_ANSWER = Struct(
    Int8ul,
    "version" / Int8ul,
    "mtu" / Int16ul,
    "tags" / GreedyRange(Struct("tag" / Int8ul, "value" / Prefixed(Int8ul, GreedyBytes))),
    Terminated,
)
_PING_ANSWER = Struct(Int8ul, Padding(3), "epoch" / Int32ul, "ticks" / Int64ul, Terminated)
_STATUS_ANSWER = Struct(
    Int8ul,
    "state" / Int8ul,
    Padding(2),
    "session" / Int32ul,
    "run_id" / Int32ul,
    "completed" / Int32ul,
    "good_frames" / Int32ul,
    "corrupt_frames" / Int32ul,
    "overruns" / Int32ul,
    "outcome" / _REFUSAL,
)
_WRITE_ANSWER = Struct(Int8ul, Padding(3), "next" / Int32ul, Terminated)
_TENSOR = Struct(
    "scalar_type" / Int8ul,
    "dimensions" / Int8ul,
    "dynamic" / Int8ul,
    Padding(1),
    "nbytes" / Int32ul,
    "sizes" / Array(this.dimensions, Int32sl),
    "dim_order" / Array(this.dimensions, Int8ul),
)
_MODEL_ANSWER = Struct(
    Int8ul,
    "input_count" / Int8ul,
    "output_count" / Int8ul,
    Padding(1),
    "planned_bytes" / Int32ul,
    "method_bytes" / Int32ul,
    "inputs" / Array(this.input_count, _TENSOR),
    "outputs" / Array(this.output_count, _TENSOR),
    Terminated,
)
_STAT_ANSWER = Struct(
    Int8ul,
    Padding(3),
    "size" / Int32ul,
    "digest" / Bytes(DIGEST_SIZE),
    "sizes" / GreedyRange(Int32sl),
    Terminated,
)
_READ_ANSWER = Struct(
    Int8ul,
    "region" / Int8ul,
    "index" / Int8ul,
    Padding(1),
    "offset" / Int32ul,
    "data" / GreedyBytes,
)
_PROGRESS_NOTE = Struct("run_id" / Int32ul, "completed" / Int32ul, Terminated)
_LOG_NOTE = Struct(
    "run_id" / Int32ul,
    "chunk" / Int32ul,
    "size" / Int32ul,
    "offset" / Int32ul,
    "data" / GreedyBytes,
)
_LOG_WAIT_NOTE = Struct("run_id" / Int32ul, "chunk" / Int32ul, "size" / Int32ul, Terminated)
_LOG_ACK = Struct("run_id" / Int32ul, "chunk" / Int32ul, "offset" / Int32ul, "length" / Int32ul)
_DONE_NOTE = Struct("run_id" / Int32ul, "completed" / Int32ul, "outcome" / _REFUSAL)

_CLOCK_TAG = Struct(
    "bits" / Int8ul,
    "down" / Int8ul,
    Padding(2),
    "numerator" / Int32ul,
    "denominator" / Int32ul,
    "name" / GreedyBytes,
)
_PROBE_TAG = Struct("ticks" / Int32ul, "pairs" / Int32ul, Terminated)
_BAUDS_TAG = Struct("bauds" / GreedyRange(Int32ul), Terminated)
_PLACED_TAG = Struct("digest" / Bytes(8), "name" / GreedyBytes)
_NUMBER_TAG = Struct("value" / Int32ul, Terminated)
_LAST_RUN_TAG = Struct("state" / Int8ul, "run_id" / Int32ul, Terminated)
_BYTE_TAG = Struct("value" / Int8ul, Terminated)


class MalformedBodyError(ValueError):
    """A body does not have the layout of its type."""


def hello_request(session: int) -> bytes:
    """Return the body of a HELLO."""
    return build_body(_HELLO, lowest=VERSION, highest=VERSION, session=session)


def reset_request(kind: Reset) -> bytes:
    """Return the body of a RESET."""
    return build_body(_RESET, kind=kind)


def baud_request(baud: int) -> bytes:
    """Return the body of a BAUD; ``baud`` is in bits per second."""
    return build_body(_BAUD, baud=baud)


def batch_request(parts: Sequence[tuple[int, bytes]]) -> bytes:
    """Return the body of a BATCH of requests, each a type and a body."""
    return build_body(_BATCH, parts=[{"op": op, "body": body} for op, body in parts])


def open_request(region: Region, index: int, size: int, sizes: Sequence[int] = ()) -> bytes:
    """Return the body of an OPEN for ``size`` bytes; ``sizes`` is the shape of a dynamic input."""
    return build_body(_OPEN, region=region, index=index, size=size, sizes=sizes)


def write_request(region: Region, index: int, offset: int, data: bytes) -> bytes:
    """Return the body of a WRITE of ``data`` at byte ``offset``."""
    return build_body(_WRITE, region=region, index=index, offset=offset, data=data)


def commit_request(region: Region, index: int, digest: bytes, method: str = "") -> bytes:
    """Return the body of a COMMIT.

    Args:
        region: The region written.
        index: Number of the input.
        digest: SHA-256 of the whole region.
        method: Method of a model to load; empty for the device's default.
    """
    return build_body(_COMMIT, region=region, index=index, digest=digest, method=method.encode())


def run_request(run_id: int, count: int, options: RunOptions = DEFAULT_OPTIONS) -> bytes:
    """Return the body of a RUN; the number of a test set and counters are sent only if there are.

    So firmware from before them runs everything else.
    """
    bundled = options.bundled_input
    return build_body(
        _RUN,
        run_id=run_id,
        count=count,
        trace_limit=options.trace_limit,
        debug_level=options.debug_level,
        profiling_level=options.profiling_level,
        when_full=options.when_full,
        flags=RunFlag.STREAM * options.stream | RunFlag.CRASH * options.crash,
        bundled_input=() if bundled < 0 and not options.counters else (bundled,),
        counters=bytes(options.counters),
    )


def cancel_request(run_id: int) -> bytes:
    """Return the body of a CANCEL."""
    return build_body(_CANCEL, run_id=run_id)


def log_ack(run_id: int, ack: LogAck) -> bytes:
    """Return the body of a LOG_ACK."""
    return build_body(
        _LOG_ACK, run_id=run_id, chunk=ack.chunk, offset=ack.offset, length=ack.length
    )


def stat_request(region: Region, index: int) -> bytes:
    """Return the body of a STAT."""
    return build_body(_STAT, region=region, index=index)


def read_request(region: Region, index: int, offset: int, length: int) -> bytes:
    """Return the body of a READ of ``length`` bytes from byte ``offset``."""
    return build_body(_READ, region=region, index=index, offset=offset, length=length)


def parse_refusal(body: bytes) -> DeviceOutcome:
    """Parse a response with a status other than OK."""
    return _outcome(parse_body(_REFUSAL, body))


def parse_busy(body: bytes) -> RunInProgress:
    """Parse a response with the status BUSY."""
    answer = parse_body(_BUSY_ANSWER, body)
    return RunInProgress(answer.run_id, answer.completed, answer.count, answer.elapsed_ms / 1000)


def parse_empty(body: bytes) -> None:
    """Parse a response that has only the status OK."""
    parse_body(_EMPTY_ANSWER, body)


def batch_parts(body: bytes) -> list[tuple[int, bytes]]:
    """Return type and body of each part of a BATCH."""
    return [(part.op, part.body) for part in parse_body(_BATCH, body).parts]


def parse_batch(body: bytes) -> list[bytes]:
    """Parse the response to BATCH: the bodies of the parts' responses."""
    return [part.body for part in parse_body(_BATCH_ANSWER, body).parts]


def parse_hello(body: bytes) -> TargetInfo:
    """Parse the response to HELLO; unknown tags are ignored."""
    answer = parse_body(_HELLO_ANSWER, body)
    if answer.mtu < MIN_MTU:
        raise MalformedBodyError(f"MTU of {answer.mtu} bytes is below the minimum of {MIN_MTU}")
    known: dict[str, Any] = {}
    clocks = []
    for tag in answer.tags:
        if tag.tag == Info.CLOCK:
            clocks.append(_clock(tag.value))
        elif reader := _TAGS.get(tag.tag):
            known.update(reader(tag.value))
    return TargetInfo(answer.version, answer.mtu, clocks=tuple(clocks), **known)


def parse_ping(body: bytes) -> DeviceClock:
    """Parse the response to PING."""
    answer = parse_body(_PING_ANSWER, body)
    return DeviceClock(answer.epoch, answer.ticks)


def parse_status(body: bytes) -> DeviceStatus:
    """Parse the response to STATUS."""
    answer = parse_body(_STATUS_ANSWER, body)
    try:
        state = State(answer.state)
    except ValueError as error:
        raise MalformedBodyError(str(error)) from error
    return DeviceStatus(
        state=state,
        session=answer.session,
        run_id=answer.run_id,
        completed=answer.completed,
        good_frames=answer.good_frames,
        corrupt_frames=answer.corrupt_frames,
        overruns=answer.overruns,
        outcome=_outcome(answer.outcome),
    )


def parse_write(body: bytes) -> int:
    """Parse the response to WRITE: the number of bytes the device has without a gap."""
    return int(parse_body(_WRITE_ANSWER, body).next)


def parse_model(body: bytes) -> ModelInfo:
    """Parse the response to COMMIT of a model."""
    answer = parse_body(_MODEL_ANSWER, body)
    return ModelInfo(
        planned_bytes=answer.planned_bytes,
        method_bytes=answer.method_bytes,
        inputs=tuple(map(_tensor, answer.inputs)),
        outputs=tuple(map(_tensor, answer.outputs)),
    )


def parse_stat(body: bytes) -> RegionInfo:
    """Parse the response to STAT."""
    answer = parse_body(_STAT_ANSWER, body)
    return RegionInfo(answer.size, answer.digest, tuple(answer.sizes))


def parse_read(body: bytes) -> RegionPart:
    """Parse one frame of the response to READ."""
    answer = parse_body(_READ_ANSWER, body)
    return RegionPart(answer.region, answer.index, answer.offset, answer.data)


def parse_progress(body: bytes) -> RunNote:
    """Parse a NOTE_PROGRESS."""
    note = parse_body(_PROGRESS_NOTE, body)
    return RunNote(note.run_id, note.completed)


def parse_log(body: bytes) -> LogPart:
    """Parse a NOTE_LOG."""
    note = parse_body(_LOG_NOTE, body)
    if note.offset + len(note.data) > note.size:
        raise MalformedBodyError(
            f"{len(note.data)} bytes at offset {note.offset} exceed the chunk of {note.size} bytes"
        )
    return LogPart(note.run_id, note.chunk, note.size, note.offset, note.data)


def parse_log_wait(body: bytes) -> LogWait:
    """Parse a NOTE_LOG_WAIT."""
    note = parse_body(_LOG_WAIT_NOTE, body)
    return LogWait(note.run_id, note.chunk, note.size)


def parse_done(body: bytes) -> RunNote:
    """Parse a NOTE_DONE."""
    note = parse_body(_DONE_NOTE, body)
    return RunNote(note.run_id, note.completed, _outcome(note.outcome))


def build_body(layout: Construct, **fields: Any) -> bytes:
    """Return the body with these fields."""
    return bytes(layout.build(fields))


def parse_body(layout: Construct, body: bytes) -> Any:
    """Return the fields of a body.

    Raises:
        MalformedBodyError: It does not have this layout.
    """
    try:
        return layout.parse(body)
    except ConstructError as error:
        raise MalformedBodyError(f"{len(body)} bytes do not parse: {error}") from error


def printable(text: bytes) -> str:
    """Decode text from a device; control characters must not reach a terminal."""
    decoded = text.decode("utf-8", errors="replace")
    return "".join(c if c.isprintable() else "\N{REPLACEMENT CHARACTER}" for c in decoded)


def _outcome(parsed: Any) -> DeviceOutcome:
    message = printable(parsed.message)
    return DeviceOutcome(parsed.status, parsed.detail, message, parsed.detail_kind)


def _tensor(parsed: Any) -> TensorInfo:
    dim_order = tuple(parsed.dim_order)
    if sorted(dim_order) != list(range(len(dim_order))):
        raise MalformedBodyError(f"dim order {dim_order} is not a permutation")
    return TensorInfo(
        parsed.scalar_type, tuple(parsed.sizes), parsed.nbytes, dim_order, bool(parsed.dynamic)
    )


def _clock(value: bytes) -> ClockDomain:
    parsed = parse_body(_CLOCK_TAG, value)
    try:
        rate = Fraction(parsed.numerator, parsed.denominator) or None
        return ClockDomain(printable(parsed.name), rate, parsed.bits, bool(parsed.down))
    except (ValueError, ZeroDivisionError) as error:
        raise MalformedBodyError(str(error)) from error


def _text_tag(name: str) -> Callable[[bytes], dict[str, Any]]:
    return lambda value: {name: printable(value)}


def _number_tag(name: str, layout: Construct = _NUMBER_TAG) -> Callable[[bytes], dict[str, Any]]:
    return lambda value: {name: parse_body(layout, value).value}


def _bauds(value: bytes) -> dict[str, Any]:
    return {"bauds": tuple(parse_body(_BAUDS_TAG, value).bauds)}


def _last_run(value: bytes) -> dict[str, Any]:
    parsed = parse_body(_LAST_RUN_TAG, value)
    return {"state": parsed.state, "last_run_id": parsed.run_id}


def _placed(value: bytes) -> dict[str, Any]:
    parsed = parse_body(_PLACED_TAG, value)
    return {"placed": PlacedModelInfo(parsed.digest, printable(parsed.name))}


def _probe(value: bytes) -> dict[str, Any]:
    parsed = parse_body(_PROBE_TAG, value)
    return {"probe_ticks": parsed.ticks, "probe_pairs": parsed.pairs}


_TAGS: Final[dict[int, Callable[[bytes], dict[str, Any]]]] = {
    Info.BOARD: _text_tag("board"),
    Info.CPU: _text_tag("cpu"),
    Info.BUILD_ID: _text_tag("build_id"),
    Info.RUNTIME: _text_tag("runtime"),
    Info.KERNELS: _text_tag("kernels"),
    Info.MODEL_CAPACITY: _number_tag("model_capacity"),
    Info.ARENA_CAPACITY: _number_tag("arena_capacity"),
    Info.INPUT_CAPACITY: _number_tag("input_capacity"),
    Info.TRACE_CAPACITY: _number_tag("trace_capacity"),
    Info.DEBUG_CAPACITY: _number_tag("debug_capacity"),
    Info.PROBE_COST: _probe,
    Info.BAUDS: _bauds,
    Info.LAST_RUN: _last_run,
    Info.PLACED_MODEL: _placed,
    Info.OPERATORS: _number_tag("operators"),
    Info.POSTMORTEM: _number_tag("postmortem", _BYTE_TAG),
}
