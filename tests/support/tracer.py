"""The C tracer, called beside the model of it."""

from __future__ import annotations

import ctypes as ct
import struct
from dataclasses import dataclass, field

from harness.decode.device_log_format import ALLOCATION_FAILED, NO_OFFSET, Record
from tests.support.mirrors import mirrors
from tests.support.runtime import TICKS, Tracer
from tests.support.tracer_model import (
    TICK,
    UNSET_CHAIN,
    Model,
    Started,
    made_up_strides,
    tensor_bytes,
    value_type,
)

GUARD = 32
FIXED_NAMES = tuple(b"native_call_relu%d.out" % number for number in range(40))
"""Names whose text stays where it is: more than a tracer remembers the pointers of."""


@mirrors("etd_tracer.h", "etd_event")
class Event(ct.Structure):
    _fields_ = [
        ("name", ct.c_uint16),
        ("choice", ct.c_uint8),
        ("depth", ct.c_uint8),
        ("chain", ct.c_int32),
        ("handle", ct.c_uint32),
        ("start", ct.c_uint32),
    ]


@mirrors("etd_tracer.h", "etd_event_filter")
class EventFilter(ct.Structure):
    _fields_ = [
        ("patterns", ct.POINTER(ct.c_char_p)),
        ("pattern_count", ct.c_uint32),
        ("by_id", ct.c_bool),
        ("first_id", ct.c_int32),
        ("last_id", ct.c_int32),
    ]


@mirrors("etd_tracer.h", "etd_delegate_event")
class DelegateEvent(ct.Structure):
    _fields_ = [("event", Event), ("id", ct.c_int32)]


@mirrors("etd_tracer.h", "etd_logged_tensor")
class LoggedTensor(ct.Structure):
    _fields_ = [
        ("data", ct.c_char_p),
        ("nbytes", ct.c_uint32),
        ("sizes", ct.POINTER(ct.c_int32)),
        ("strides", ct.POINTER(ct.c_int32)),
        ("ndim", ct.c_uint8),
        ("dtype", ct.c_uint8),
    ]

    @classmethod
    def of(cls, dtype: int, sizes: list[int], data: bytes | None) -> LoggedTensor:
        """A tensor whose strides are made up, to be seen again."""
        dims = ct.c_int32 * len(sizes)
        strides = dims(*made_up_strides(sizes))
        return cls(data, tensor_bytes(dtype, sizes), dims(*sizes), strides, len(sizes), dtype)


TENSOR_AT = ct.CFUNCTYPE(None, ct.c_void_p, ct.c_uint32, ct.POINTER(LoggedTensor))


class LoggedList(ct.Structure):
    _fields_ = [("tensor_at", TENSOR_AT), ("context", ct.c_void_p), ("count", ct.c_uint32)]


class LoggedContent(ct.Union):
    _fields_ = [
        ("integer", ct.c_int64),
        ("number", ct.c_double),
        ("boolean", ct.c_bool),
        ("tensor", LoggedTensor),
        ("list", LoggedList),
    ]


@mirrors("etd_tracer.h", "etd_logged_value", content="as")
class LoggedValue(ct.Structure):
    _fields_ = [("kind", ct.c_uint8), ("content", LoggedContent)]

    @classmethod
    def of(cls, value: object) -> LoggedValue:
        kind, content = value_type(value), LoggedContent()
        if isinstance(value, bool):
            content.boolean = value
        elif isinstance(value, int):
            content.integer = value
        elif isinstance(value, float):
            content.number = value
        elif isinstance(value, tuple):
            content.tensor = LoggedTensor.of(*value)
        elif isinstance(value, list):
            tensors = [LoggedTensor.of(*tensor) for tensor in value]

            def tensor_at(_context: int, index: int, out: object) -> None:
                out[0] = tensors[index]  # type: ignore[index]

            content.list = LoggedList(TENSOR_AT(tensor_at), None, len(tensors))
        return cls(kind, content)


def guarded(size: int) -> ct.Array[ct.c_uint8]:
    """So many bytes between guards."""
    return (ct.c_uint8 * (GUARD + size + GUARD)).from_buffer(
        bytearray(b"\xa5" * (GUARD + size + GUARD))
    )


class CTracer:
    """The C tracer on buffers of exactly ``size`` and ``debug`` bytes between guards.

    The log's buffer has ``size`` bytes from an aligned address on. The tracer is given one to three
    bytes before as well, which it must not use.
    """

    def __init__(self, library: ct.CDLL, size: int, debug: int = 0) -> None:
        self.size, self.debug, self.now = size, debug, 0
        self.clock_bits = 32
        self._library = library
        self._memory, self._debug = guarded(size), guarded(debug)
        self._state = Tracer()
        self._ticks = TICKS(self._tick)
        library.etd_start_profiling.restype = Event
        library.etd_start_profiling_interned.restype = Event
        library.etd_start_profiling_delegate.restype = DelegateEvent
        library.etd_start_profiling_fixed.restype = Event
        self._fixed = {text: ct.create_string_buffer(text) for text in FIXED_NAMES}
        self.restart()
        self.call("set_debug_buffer", ct.c_void_p(ct.addressof(self._debug) + GUARD), debug)

    @property
    def address(self) -> int:
        """Where its state is."""
        return ct.addressof(self._state)

    def restart(self) -> None:
        """Initialize it, with an empty log and without a debug buffer."""
        before = self.size % 4
        buffer = ct.c_void_p(ct.addressof(self._memory) + GUARD - before)
        self.call("tracer_init", buffer, self.size + before, self._ticks, None)

    def _tick(self, _context: int | None) -> int:
        self.now += TICK
        return self.now % (1 << self.clock_bits)

    def call(self, function: str, *arguments: object) -> object:
        return getattr(self._library, f"etd_{function}")(ct.byref(self._state), *arguments)

    def start(self, name: bytes | None, chain: int, handle: int) -> Event:
        return self.call("start_profiling", name, chain, ct.c_uint32(handle))

    def start_fixed(self, name: bytes, chain: int, handle: int) -> Event:
        """Start an event by a name whose text stays at its place."""
        return self.call(
            "start_profiling_fixed", self._fixed[name], ct.c_int32(chain), ct.c_uint32(handle)
        )

    def set_filter(self, patterns: list[bytes], ids: list[int] | None) -> None:
        texts = (ct.c_char_p * len(patterns))(*patterns)
        self._filter = EventFilter(texts, len(patterns), ids is not None, *(ids or (0, 0)))
        self.call("set_event_filter", ct.byref(self._filter))

    def read(self, offset: int, length: int) -> bytes:
        out = (ct.c_uint8 * (length + GUARD))()
        count = self.call("log_read", offset, out, length)
        assert not any(out[length:])
        return bytes(out[:count])

    def image(self) -> bytes:
        assert bytes(self._memory[:GUARD]) == b"\xa5" * GUARD
        assert bytes(self._memory[GUARD + self.size :]) == b"\xa5" * GUARD
        return self.read(0, self.call("log_size"))

    def debug_bytes(self) -> bytes:
        """What the debug buffer holds, as far as the log's header says."""
        assert bytes(self._debug[:GUARD]) == b"\xa5" * GUARD
        assert bytes(self._debug[GUARD + self.debug :]) == b"\xa5" * GUARD
        used = int.from_bytes(self.read(52, 4), "little")
        return bytes(self._debug[GUARD : GUARD + used])


@dataclass
class Pair:
    """The tracer, its model, and the events begun on both; they end in any order."""

    tracer: CTracer
    model: Model
    events: list[tuple[Event, Started]] = field(default_factory=list)
    delegates: list[tuple[DelegateEvent, Started, int]] = field(default_factory=list)

    def make(self, call: tuple) -> None:
        """Make the same call on both."""
        tracer, model, events = self.tracer, self.model, self.events
        match call:
            case "block", text:
                tracer.call("create_event_block", text)
                model.create_block(text)
            case "bundled", index:
                tracer.call("set_bundled_input_index", index)
                model.set_bundled(index)
            case "chain", chain, handle:
                tracer.call("set_chain_debug_handle", chain, ct.c_uint32(handle))
                model.stored = (chain, handle)
            case "start", text, chain, handle:
                events.append((tracer.start(text, chain, handle), model.start(text, chain, handle)))
            case "start_fixed", text, chain, handle:
                started = tracer.start_fixed(text, chain, handle)
                events.append((started, model.start(text, chain, handle)))
            case "end", which if events:
                event, expected = events.pop(which % len(events))
                tracer.call("end_profiling", event)
                model.end(expected)
            case "intern", text:
                assert tracer.call("intern", text) & 0xFFFF == model.intern(text)
            case _:
                self.allocate(call)
                self.delegate(call)
                self.select(call)
                self.log_value(call)

    def log_value(self, call: tuple) -> None:
        match call:
            case "debug", level:
                self.tracer.call("set_debug_level", level)
                self.model.debug_level = level
            case "value", role, value:
                logged = self.tracer.call("log_evalue", role, ct.byref(LoggedValue.of(value)))
                assert bool(logged & 0xFF) == self.model.log_value(role == 1, value)
            case "delegate_value", text, number, value:
                name = "log_intermediate_output_delegate"
                logged = self.tracer.call(name, text, number, ct.byref(LoggedValue.of(value)))
                assert bool(logged & 0xFF) == self.model.log_value(False, value, (text, number))

    def select(self, call: tuple) -> None:
        match call:
            case "level", level:
                self.tracer.call("set_profiling_level", level)
                self.model.level = level
            case "paused", paused:
                self.tracer.call("set_paused", paused)
                self.model.paused = paused
            case "when_full", policy:
                self.tracer.call("set_when_full", policy)
                self.model.drop_oldest = policy == 1
            case ("recycle",):
                self.tracer.call("log_recycle")
                self.model.recycle()
            case "filter", None:
                self.tracer.call("set_event_filter", None)
                self.model.filter = None
            case "filter", (patterns, ids):
                self.tracer.set_filter(patterns, ids)
                self.model.filter = (patterns, ids)

    def delegate(self, call: tuple) -> None:
        tracer, model, events = self.tracer, self.model, self.delegates
        match call:
            case "start_delegate", text, number:
                event = tracer.call("start_profiling_delegate", text, number)
                events.append((event, model.start(text, UNSET_CHAIN, 0, number), number))
            case "end_delegate", which, metadata if events:
                event, expected, number = events.pop(which % len(events))
                tracer.call("end_profiling_delegate", event, metadata, len(metadata or b""))
                model.end(expected, delegate=(number, metadata))
            case "log_delegate", text, number, clock, start, end, metadata:
                times = (ct.c_uint8(clock), ct.c_uint32(start), ct.c_uint32(end))
                size = len(metadata or b"")
                tracer.call("log_profiling_delegate", text, number, *times, metadata, size)
                chosen = model.choose(text, number, model.stored[0])
                event = Started(model.intern(text), *model.stored, start, chosen)
                model.end(event, end=end, clock=clock, delegate=(number, metadata))

    def allocate(self, call: tuple) -> None:
        tracer, model = self.tracer, self.model
        match call:
            case "allocator", text:
                assert tracer.call("track_allocator", text) == model.track_allocator(text)
            case "clock", hz, own, reference:
                pair = ct.c_uint32(own), ct.c_uint64(reference)
                logged = tracer.call("log_clock", ct.c_uint32(hz), *pair)
                assert bool(logged & 0xFF) == model.log_clock(hz, own, reference)
            case "switch", flags, text, number:
                tracer.call("log_switch", flags, text, ct.c_uint32(number))
                model.log_switch(flags, text, number)
            case "mark", text:
                tracer.call("log_mark", text)
                model.log_instant(Record.MARK, 0, text, 0)
            case "sample", text, float(value):
                tracer.call("log_sample_float", text, ct.c_float(value))
                [bits] = struct.unpack("<I", struct.pack("<f", value))
                model.log_instant(Record.SAMPLE, 1, text, bits)
            case "sample", text, value:
                tracer.call("log_sample", text, value)
                model.log_instant(Record.SAMPLE, 0, text, value & 0xFFFFFFFF)
            case "allocation", allocator, size, offset:
                tracer.call("track_allocation", allocator, ct.c_uint32(size), ct.c_uint32(offset))
                model.track(0, allocator, size, offset)
            case "free", allocator, size, offset:
                tracer.call("track_free", allocator, ct.c_uint32(size), ct.c_uint32(offset))
                model.track(0, allocator, -size, offset)
            case "failure", allocator, size:
                tracer.call("track_allocation_failure", allocator, ct.c_uint32(size))
                model.track(ALLOCATION_FAILED, allocator, size, NO_OFFSET)
