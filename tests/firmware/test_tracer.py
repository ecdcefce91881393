"""The C tracer beside a model of it in Python: the same calls give the same log, byte for byte."""

from __future__ import annotations

import ctypes as ct
import re
import struct
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import NamedTuple

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from harness.etdump.compact import read_log
from harness.etdump.log_format import (
    ALLOCATION_FAILED,
    DELEGATE_METADATA,
    FLAG_FULL,
    HEADER_SIZE,
    MAGIC,
    MAX_NAME,
    NO_NAME,
    NO_OFFSET,
    RECORD_SIZE,
    VERSION,
    Record,
)
from harness.trace import Losses

GUARD = 32
TICK = 7
UNSET_CHAIN = -1

I32 = st.integers(-(2**31), 2**31 - 1)
U32 = st.integers(0, 2**32 - 1)
CHAIN = st.one_of(st.sampled_from([-1, 0, 1, -(2**15), 2**15 - 1, 2**15]), I32)
HANDLE = st.one_of(st.sampled_from([0, 1, 2**16 - 1, 2**16]), U32)
NAME = st.one_of(
    st.none(),
    st.sampled_from([b"", b"a", b"b", b"Execute", b"native_call_relu.out"]),
    st.binary(max_size=300).map(lambda name: name.replace(b"\0", b".")),
)
METADATA = st.one_of(st.none(), st.binary(max_size=50))
PATTERN = st.sampled_from(
    [b"", b"*", b"**", b"a", b"a*", b"*a", b"*relu*", b"native*", b"*.out", b"Execute"]
)
FILTER = st.tuples(
    st.lists(PATTERN, max_size=3), st.one_of(st.none(), st.tuples(I32, I32).map(sorted))
)
CALL = st.one_of(
    st.tuples(st.just("block"), NAME),
    st.tuples(st.just("bundled"), I32),
    st.tuples(st.just("chain"), CHAIN, HANDLE),
    st.tuples(st.just("start"), NAME, CHAIN, HANDLE),
    st.tuples(st.just("start"), NAME, CHAIN, HANDLE),
    st.tuples(st.just("end"), st.integers(0, 3)),
    st.tuples(st.just("end"), st.integers(0, 3)),
    st.tuples(st.just("start_delegate"), NAME, I32),
    st.tuples(st.just("end_delegate"), st.integers(0, 3), METADATA),
    st.tuples(st.just("log_delegate"), NAME, I32, st.integers(0, 254), U32, U32, METADATA),
    st.tuples(st.just("intern"), NAME),
    st.tuples(st.just("allocator"), NAME),
    st.tuples(st.just("allocation"), st.sampled_from([1, 2, 2**16 - 1, 2**16]), U32, U32),
    st.tuples(st.just("free"), st.integers(0, 3), U32, U32),
    st.tuples(st.just("level"), st.integers(0, 1)),
    st.tuples(st.just("filter"), st.one_of(st.none(), FILTER)),
    st.tuples(st.just("failure"), st.integers(0, 3), U32),
    st.tuples(st.just("recycle")),
)


class Event(ct.Structure):
    _fields_ = [
        ("name", ct.c_uint16),
        ("choice", ct.c_uint8),
        ("depth", ct.c_uint8),
        ("chain", ct.c_int32),
        ("handle", ct.c_uint32),
        ("start", ct.c_uint32),
    ]


class EventFilter(ct.Structure):
    _fields_ = [
        ("patterns", ct.POINTER(ct.c_char_p)),
        ("pattern_count", ct.c_uint32),
        ("by_id", ct.c_bool),
        ("first_id", ct.c_int32),
        ("last_id", ct.c_int32),
    ]


class DelegateEvent(ct.Structure):
    _fields_ = [("event", Event), ("id", ct.c_int32)]


class CTracer:
    """The C tracer on a buffer of exactly ``size`` bytes between guards."""

    def __init__(self, library: ct.CDLL, size: int) -> None:
        self.size, self.now = size, 0
        self._library = library
        self._memory = (ct.c_uint8 * (GUARD + size + GUARD))(*([0xA5] * (GUARD + size + GUARD)))
        self._state = (ct.c_uint64 * 64)()
        self._ticks = ct.CFUNCTYPE(ct.c_uint32)(self._tick)
        library.et_start_profiling.restype = Event
        library.et_start_profiling_interned.restype = Event
        library.et_start_profiling_delegate.restype = DelegateEvent
        buffer = ct.c_void_p(ct.addressof(self._memory) + GUARD)
        self.call("tracer_init", buffer, size, self._ticks)

    def _tick(self) -> int:
        self.now += TICK
        return self.now

    def call(self, function: str, *arguments: object) -> object:
        return getattr(self._library, f"et_{function}")(ct.byref(self._state), *arguments)

    def start(self, name: bytes | None, chain: int, handle: int) -> Event:
        return self.call("start_profiling", name, chain, ct.c_uint32(handle))

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


class Started(NamedTuple):
    """What the model knows of an event that has begun."""

    name: int
    chain: int
    handle: int
    start: int
    choice: str


def matches(pattern: bytes, name: bytes) -> bool:
    """A star at either end stands for anything; one inside is a star."""
    end = b".*" if pattern.endswith(b"*") else b""
    pattern = pattern.removesuffix(b"*")
    start = b".*" if pattern.startswith(b"*") else b""
    core = re.escape(pattern.removeprefix(b"*"))
    return re.fullmatch(start + core + end, name[:MAX_NAME], re.DOTALL) is not None


def delegate_records(name: int, number: int, metadata: bytes | None) -> list[bytes]:
    flags, data = (0, b"") if metadata is None else (DELEGATE_METADATA, metadata)
    records = [struct.pack("<BBHiII", Record.DELEGATE, flags, name, number, len(data), 0)]
    data += bytes(-len(data) % RECORD_SIZE)
    return records + [data[at : at + RECORD_SIZE] for at in range(0, len(data), RECORD_SIZE)]


@dataclass
class Model:
    """What et_tracer.h promises."""

    size: int
    now: int = 0
    records: list[bytes] = field(default_factory=list)
    names: list[bytes] = field(default_factory=list)
    full: bool = False
    dropped_events: int = 0
    dropped_blocks: int = 0
    block: int | str | None = None
    chunk: int = 0
    first: int = 0
    carried: int = 0
    number: int = 0
    stack: tuple[int, int] = (0, 0)
    bundled: int = -1
    level: int = 1
    filter: tuple[list[bytes], list[int] | None] | None = None
    filtered: int = 0
    stored: tuple[int, int] = (UNSET_CHAIN, 0)
    allocators: int = 0

    def tick(self) -> int:
        self.now += TICK
        return self.now

    def names_size(self) -> int:
        return sum(1 + len(name) for name in self.names)

    def room(self) -> int:
        return self.size - RECORD_SIZE * len(self.records) - self.names_size()

    def intern(self, name: bytes | None) -> int:
        if name is None:
            return NO_NAME
        name = name[:MAX_NAME]
        if name not in self.names:
            if self.full or 1 + len(name) > self.room():
                self.full = True
                return NO_NAME
            self.names.append(name)
        return self.names.index(name)

    def append(self, *records: bytes) -> bool:
        self.full = self.full or RECORD_SIZE * len(records) > self.room()
        if not self.full:
            self.records += records
        return not self.full

    def create_block(self, name: bytes | None) -> None:
        record = struct.pack("<BBHIiI", Record.BLOCK, 0, self.intern(name), 0, self.bundled, 0)
        if self.append(record):
            self.block = len(self.records) - 1
        else:
            self.dropped_blocks += 1
            self.block = "lost"

    def recycle(self) -> None:
        """Begin the next chunk, with copies of allocators and of the current block."""
        allocators = [self.records[i] for i in self.groups() if self.records[i][0] == 3]
        block = [self.records[self.block]] if isinstance(self.block, int) else []
        self.first += len(self.records) - self.carried
        self.records = [copy[:1] + b"\1" + copy[2:] for copy in allocators + block]
        self.carried = len(self.records)
        self.chunk, self.full = self.chunk + 1, False
        if block:
            self.block = self.carried - 1
        elif self.block == "lost":
            unnamed = struct.pack("<BBHIiI", Record.BLOCK, 0, NO_NAME, 0, self.bundled, 0)
            self.block = len(self.records) - 1 if self.append(unnamed) else "lost"

    def groups(self) -> Iterator[int]:
        """The places of all records but those that are bytes of one before."""
        at = 0
        while at < len(self.records):
            yield at
            payload = self.records[at][0] == Record.DELEGATE
            length = int.from_bytes(self.records[at][8:12], "little") if payload else 0
            at += 1 - -length // RECORD_SIZE

    def set_bundled(self, index: int) -> None:
        self.bundled = index
        if isinstance(self.block, int):
            old = self.records[self.block]
            self.records[self.block] = old[:8] + struct.pack("<i", index) + old[12:]

    def choose(self, name: bytes | None, number: int, chain: int) -> str:
        if self.level == 0 and chain != UNSET_CHAIN:
            return "below level"
        patterns, ids = self.filter or ([], None)
        if number != -1:
            kept = ids is None or ids[0] <= number <= ids[1]
        else:
            kept = not patterns or name is None or any(matches(p, name) for p in patterns)
        return "keep" if kept else "filtered"

    def start(self, name: bytes | None, chain: int, handle: int, number: int = -1) -> Started:
        intern = self.intern(name)
        where = self.stored if chain == UNSET_CHAIN else (chain, handle)
        return Started(intern, *where, self.tick(), self.choose(name, number, where[0]))

    def end(
        self,
        event: Started,
        *,
        end: int | None = None,
        clock: int = 0,
        delegate: tuple[int, bytes | None] | None = None,
    ) -> None:
        now, records = self.tick() if end is None else end, []
        name, chain, handle, start, choice = event
        if choice != "keep":
            self.filtered += choice == "filtered"
            return
        if not -(2**15) <= chain < 2**15 or handle >= 2**16:
            records.append(struct.pack("<BBHiII", Record.WIDE, 0, 0, chain, handle, 0))
            chain = handle = 0
        if delegate is not None:
            records += delegate_records(name, *delegate)
            name = NO_NAME
        layout = "<BBHHhII"
        records.append(struct.pack(layout, Record.PROFILE, clock, name, handle, chain, start, now))
        if not self.append(*records):
            self.dropped_events += 1

    def track_allocator(self, name: bytes | None) -> int:
        name_id, number = self.intern(name), self.allocators + 1
        if not self.append(struct.pack("<BBHIII", Record.ALLOCATOR, 0, name_id, number, 0, 0)):
            self.dropped_blocks += 1
            return 0
        self.allocators = number
        return number

    def track(self, flags: int, allocator: int, size: int, offset: int) -> None:
        now = self.tick()
        self.full = self.full or allocator >= 2**16
        size = max(-(2**31) + 1, min(size, 2**31 - 1))
        layout = "<BBHIiI"
        kind = Record.ALLOCATION
        if (
            self.full
            or allocator == 0
            or not self.append(struct.pack(layout, kind, flags, allocator, now, size, offset))
        ):
            self.dropped_events += 1

    def image(self) -> bytes:
        names = b"".join(bytes((len(name),)) + name for name in reversed(self.names))
        header = struct.pack(
            "<IBBHIIHHIIIIIIIIIII",
            *(MAGIC, VERSION, RECORD_SIZE, HEADER_SIZE, FLAG_FULL if self.full else 0),
            *(len(self.records), len(self.names), self.number, len(names)),
            *(self.dropped_events, self.dropped_blocks, self.filtered, 0, 0),
            *(self.chunk, self.first, 0, *self.stack),
        )
        return header + b"".join(self.records) + names


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

    def select(self, call: tuple) -> None:
        match call:
            case "level", level:
                self.tracer.call("set_profiling_level", level)
                self.model.level = level
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
            case "allocation", allocator, size, offset:
                tracer.call("track_allocation", allocator, ct.c_uint32(size), ct.c_uint32(offset))
                model.track(0, allocator, size, offset)
            case "free", allocator, size, offset:
                tracer.call("track_free", allocator, ct.c_uint32(size), ct.c_uint32(offset))
                model.track(0, allocator, -size, offset)
            case "failure", allocator, size:
                tracer.call("track_allocation_failure", allocator, ct.c_uint32(size))
                model.track(ALLOCATION_FAILED, allocator, size, NO_OFFSET)


def test_every_way_to_log_obeys_level_and_filter(etstub: ct.CDLL) -> None:
    both = Pair(CTracer(etstub, 16384), Model(16384))
    choices = [("level", 1), ("level", 0), ("level", 1)]
    filters = [None, ([b"a", b"na*", b"*et", b"*dd*"], [3, 5]), ([], None), ([b"*"], None)]
    names = [None, b"", b"a", b"ab", b"name", b"net", b"added", b"add", b"n"]
    both.make(("block", b"Execute"))
    for chain in (UNSET_CHAIN, 0):
        both.make(("chain", chain, 1))
        for choice in [*choices, *(("filter", value) for value in filters)]:
            both.make(choice)
            for name, number in [*((name, -1) for name in names), (None, 2), (None, 3), (b"n", 5)]:
                both.make(("start", name, UNSET_CHAIN, 0))
                both.make(("end", 0))
                both.make(("start_delegate", name, number))
                both.make(("end_delegate", 0, None))
                both.make(("log_delegate", name, number, 1, 2, 3, None))
    assert both.tracer.image() == both.model.image()
    assert not both.model.full
    assert both.model.filtered > 20


@given(
    size=st.one_of(st.integers(0, 600), st.integers(0, 4096)),
    calls=st.lists(CALL, max_size=60),
    data=st.data(),
)
@settings(max_examples=300, deadline=None)
def test_any_calls_give_the_log_the_format_describes(
    etstub: ct.CDLL, size: int, calls: list[tuple], data: st.DataObject
) -> None:
    tracer, model = CTracer(etstub, size), Model(size)
    both = Pair(tracer, model)
    for call in calls:
        both.make(call)
    image = tracer.image()
    assert image == model.image()
    offset = data.draw(st.integers(0, len(image) + 5))
    length = data.draw(st.integers(0, len(image) + 5))
    assert tracer.read(offset, length) == image[offset : offset + length]


def test_a_full_log_keeps_a_true_prefix_and_exact_counts(etstub: ct.CDLL) -> None:
    size, pairs = 2048, 1000
    tracer = CTracer(etstub, size)
    tracer.call("create_event_block", b"Execute")
    for number in range(pairs):
        tracer.call("end_profiling", tracer.start(b"native_call_relu.out", 0, number))
    tracer.call("create_event_block", b"Execute")
    trace = read_log(tracer.image())
    kept = (size - len(b"\x07Execute\x14native_call_relu.out")) // RECORD_SIZE - 1
    assert len(trace) == kept
    assert trace.instruction.tolist() == list(range(kept))
    assert trace.losses == Losses(events=pairs - kept, blocks=1)


def test_a_name_that_does_not_fit_drops_its_event_and_all_that_follow(etstub: ct.CDLL) -> None:
    tracer = CTracer(etstub, 2 * RECORD_SIZE + 2)
    tracer.call("end_profiling", tracer.start(b"a", 0, 1))
    long_name = tracer.start(b"a name longer than what is left", 0, 2)
    tracer.call("end_profiling", long_name)
    tracer.call("end_profiling", tracer.start(b"a", 0, 3))
    trace = read_log(tracer.image())
    assert trace.instruction.tolist() == [1]
    assert trace.losses == Losses(events=2, blocks=0)


def test_an_index_set_after_a_dropped_block_changes_no_earlier_block(etstub: ct.CDLL) -> None:
    tracer = CTracer(etstub, RECORD_SIZE + 2)
    tracer.call("create_event_block", b"a")
    tracer.call("set_bundled_input_index", 3)
    tracer.call("create_event_block", b"a")
    tracer.call("set_bundled_input_index", 4)
    assert [block.bundled_input_index for block in read_log(tracer.image()).blocks] == [3]


def test_a_delegate_event_keeps_the_handle_of_its_start(etstub: ct.CDLL) -> None:
    tracer = CTracer(etstub, 256)
    tracer.call("set_chain_debug_handle", 0, 5)
    event = tracer.call("start_profiling_delegate", None, 9)
    tracer.call("set_chain_debug_handle", 0, 6)
    tracer.call("end_profiling_delegate", event, None, 77)
    trace = read_log(tracer.image())
    assert trace.instruction.tolist() == [5]
    assert (trace.delegate_int.tolist(), trace.metadata_of(0)) == ([9], None)


def test_metadata_that_does_not_fit_drops_its_event_whole(etstub: ct.CDLL) -> None:
    tracer = CTracer(etstub, 4 * RECORD_SIZE)
    for length in (17, 16, 0xFFFFFFFF):
        if length == 16:  # exactly what is left would have fitted, had nothing been dropped before
            assert len(read_log(tracer.image())) == 1
        tracer.call("log_profiling_delegate", None, 1, 0, 0, 0, b"m" * 17, ct.c_uint32(length))
    trace = read_log(tracer.image())
    assert trace.metadata_of(0) == b"m" * 17
    assert trace.losses == Losses(events=2, blocks=0)


def test_one_place_may_hold_many_names(etstub: ct.CDLL) -> None:
    tracer = CTracer(etstub, 4096)
    place = ct.create_string_buffer(300)
    texts = [b"a", b"ab", b"a", b"", b"b", b"n" * 254, b"n" * 255, b"n" * 256, b"n" * 254, b"ab"]
    numbers = []
    for text in texts:
        place.value = text
        numbers.append(tracer.call("intern", place) & 0xFFFF)
    assert numbers == [0, 1, 0, 2, 3, 4, 5, 5, 4, 1]


def test_many_names_are_found_again_wherever_they_stand(etstub: ct.CDLL) -> None:
    tracer = CTracer(etstub, 1 << 17)  # more than a short distance from the end
    names = [ct.create_string_buffer(b"%d" % number + b"." * 200) for number in range(500)]
    for _ in range(3):
        assert [tracer.call("intern", name) & 0xFFFF for name in names] == list(range(500))


def test_a_filter_decides_in_a_full_log_too(etstub: ct.CDLL) -> None:
    tracer = CTracer(etstub, RECORD_SIZE + 2)
    tracer.set_filter([b"keep"], None)
    for name in (b"a", b"keep", b"a"):
        tracer.call("end_profiling", tracer.start(name, 0, 1))
    trace = read_log(tracer.image())
    assert (len(trace), trace.losses.events, trace.filtered_events) == (0, 1, 2)


@pytest.mark.parametrize(
    ("function", "arguments"),
    [
        ("tracer_init", (None, 0, None)),
        ("create_event_block", (b"a",)),
        ("set_bundled_input_index", (1,)),
        ("set_chain_debug_handle", (1, 2)),
        ("end_profiling", (Event(),)),
        ("end_profiling_delegate", (DelegateEvent(), b"a", 1)),
        ("log_profiling_delegate", (b"a", -1, 0, 1, 2, None, 0)),
        ("track_allocation", (1, 2, 3)),
        ("track_free", (1, 2, 3)),
        ("log_recycle", ()),
        ("set_tracer_number", (1,)),
        ("set_stack_used", (1, 2)),
        ("set_profiling_level", (0,)),
        ("set_event_filter", (None,)),
        ("track_allocation_failure", (1, 2)),
    ],
)
def test_without_a_tracer_nothing_happens(etstub: ct.CDLL, function: str, arguments: tuple) -> None:
    getattr(etstub, f"et_{function}")(None, *arguments)


def test_without_a_tracer_there_is_nothing(etstub: ct.CDLL) -> None:
    etstub.et_start_profiling.restype = Event
    assert etstub.et_start_profiling(None, b"a", 1, 2).start == 0
    etstub.et_start_profiling_delegate.restype = DelegateEvent
    assert etstub.et_start_profiling_delegate(None, b"a", -1).event.start == 0
    assert etstub.et_intern(None, b"a") & 0xFFFF == NO_NAME
    assert etstub.et_track_allocator(None, b"a") == 0
    assert etstub.et_log_size(None) == 0
    assert etstub.et_log_read(None, 0, None, 0) == 0
