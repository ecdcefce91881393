"""What etd_tracer.h promises, in Python."""

from __future__ import annotations

import itertools
import re
import struct
from collections.abc import Iterator
from dataclasses import dataclass, field
from math import prod
from typing import NamedTuple

import numpy as np

from harness.decode.device_log_format import (
    DELEGATE_METADATA,
    FLAG_FULL,
    HEADER_SIZE,
    MAGIC,
    MAX_NAME,
    NO_NAME,
    NO_OFFSET,
    PAYLOAD_ALIGNMENT,
    RECORD_SIZE,
    SWITCH_BEGINS,
    VALUE_IS_OUTPUT,
    VERSION,
    Record,
    Value,
)
from harness.records.trace import STORED_AS

TICK = 7
UNSET_CHAIN = -1


def tensor_bytes(scalar_type: int, sizes: list[int]) -> int:
    """The bytes of a tensor; an element of a type that NumPy does not have counts as one."""
    element = STORED_AS.get(scalar_type)
    return prod(sizes) * (np.dtype(element).itemsize if element else 1)


def value_type(value: object) -> Value:
    for type_, kind in (
        (bool, Value.BOOL),
        (int, Value.INT),
        (float, Value.DOUBLE),
        (tuple, Value.TENSOR),
        (list, Value.TENSOR_LIST),
    ):
        if isinstance(value, type_):
            return kind
    return Value.NONE


def made_up_strides(sizes: list[int]) -> list[int]:
    return [100 * size - 7 for size in sizes]


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


def prefix(chain: int, handle: int) -> tuple[list[bytes], int, int]:
    """A record for what is too wide, and what is left for the record behind it."""
    if -(2**15) <= chain < 2**15 and handle < 2**16:
        return [], chain, handle
    return [struct.pack("<BBHiII", Record.WIDE, 0, 0, chain, handle, 0)], 0, 0


def delegate_records(name: int, number: int, metadata: bytes | None) -> list[bytes]:
    flags, data = (0, b"") if metadata is None else (DELEGATE_METADATA, metadata)
    records = [struct.pack("<BBHiII", Record.DELEGATE, flags, name, number, len(data), 0)]
    data += bytes(-len(data) % RECORD_SIZE)
    return records + [data[at : at + RECORD_SIZE] for at in range(0, len(data), RECORD_SIZE)]


DECLARATIONS = (Record.ALLOCATOR, Record.CLOCK)


@dataclass
class Model:
    """What etd_tracer.h promises."""

    size: int
    debug_size: int = 0
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
    paused: bool = False
    debug_level: int = 0
    debug: bytes = b""
    dropped_values: int = 0
    stored: tuple[int, int] = (UNSET_CHAIN, 0)
    allocators: int = 0
    drop_oldest: bool = False
    dropped_runs: int = 0
    first_run: int | None = None
    largest_run: int = 0

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
        if self.paused:
            self.filtered += 1
            self.block = "lost"
            return
        if self.drop_oldest and self.block is not None:
            self.make_room()
        record = struct.pack("<BBHIiI", Record.BLOCK, 0, self.intern(name), 0, self.bundled, 0)
        if self.append(record):
            self.block = len(self.records) - 1
        else:
            self.dropped_blocks += 1
            self.block = "lost"

    def make_room(self) -> None:
        """Drop blocks after the first until one more as large as any so far would fit."""
        if self.first_run is None:
            self.first_run = len(self.records)
        starts = [i for i in self.groups() if self.records[i][0] == Record.BLOCK]
        starts = [i for i in starts if i >= self.first_run]
        kept, runs = self.records[: self.first_run], []
        for begin, end in itertools.pairwise([*starts, len(self.records)]):
            runs.append(self.records[begin:end])
        if isinstance(self.block, int) and self.block in starts:
            self.largest_run = max(self.largest_run, len(self.records) - self.block)
        needed = RECORD_SIZE * self.size if self.full else self.largest_run
        room = (self.size - self.names_size()) // RECORD_SIZE
        while runs and room - len(kept) - sum(map(len, runs)) < needed:
            dropped = Model(self.size, records=runs.pop(0))
            copies = dropped.records[0][1]
            self.carried -= copies
            places = dropped.groups()
            kept += [dropped.records[i] for i in places if dropped.records[i][0] in DECLARATIONS]
            self.dropped_runs += len(dropped.records) > copies
        self.first_run, self.full = len(kept), False
        self.records = kept + [record for run in runs for record in run]

    def recycle(self) -> None:
        """Begin the next chunk, with copies of declarations and of the current block."""
        declared = [self.records[i] for i in self.groups() if self.records[i][0] in DECLARATIONS]
        block = [self.records[self.block]] if isinstance(self.block, int) else []
        self.first += len(self.records) - self.carried
        self.records = [copy[:1] + b"\1" + copy[2:] for copy in declared + block]
        self.carried = len(self.records)
        self.first_run = None if self.first_run is None else len(declared)
        self.chunk, self.full, self.debug = self.chunk + 1, False, b""
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
            kind = self.records[at][0]
            word = slice(8, 12) if kind == Record.DELEGATE else slice(2, 4)
            count = int.from_bytes(self.records[at][word], "little")
            payload = {Record.DELEGATE: -(-count // RECORD_SIZE), Record.VALUE: count}
            at += 1 + payload.get(Record(kind), 0)

    def set_bundled(self, index: int) -> None:
        self.bundled = index
        if isinstance(self.block, int):
            old = self.records[self.block]
            self.records[self.block] = old[:8] + struct.pack("<i", index) + old[12:]

    def choose(self, name: bytes | None, number: int, chain: int) -> str:
        if self.level == 0 and chain != UNSET_CHAIN:
            return "below level"
        return "filtered" if self.paused else self.pass_filter(name, number)

    def pass_filter(self, name: bytes | None, number: int) -> str:
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
        now = self.tick() if end is None else end
        name, chain, handle, start, choice = event
        if choice != "keep":
            self.filtered += choice == "filtered"
            return
        records, chain, handle = prefix(chain, handle)
        if delegate is not None:
            records += delegate_records(name, *delegate)
            name = NO_NAME
        layout = "<BBHHhII"
        records.append(struct.pack(layout, Record.PROFILE, clock, name, handle, chain, start, now))
        if not self.append(*records):
            self.dropped_events += 1

    def log_value(
        self, output: bool, value: object, delegate: tuple[bytes | None, int] | None = None
    ) -> bool:
        if self.paused or self.debug_level < (1 if output else 2):
            return False
        name = self.intern(delegate[0]) if delegate else NO_NAME
        if delegate and self.pass_filter(*delegate) == "filtered":
            self.filtered += 1
            return False
        start, kept = self.tick(), self.debug
        content, lost = self.content(value)
        records, chain, handle = prefix(*self.stored)
        if delegate:
            records += delegate_records(name, delegate[1], None)
        type_ = value_type(value) | (VALUE_IS_OUTPUT if output else 0)
        head = (Record.VALUE, type_, len(content), handle, chain, start, start + TICK)
        if not self.append(*records, struct.pack("<BBHHhII", *head), *content):
            self.debug = kept
            self.dropped_values += 1
            return False
        self.tick()
        self.dropped_values += lost
        return True

    def content(self, value: object) -> tuple[list[bytes], bool]:
        """The records behind a VALUE record, and whether a tensor's bytes are lost."""
        match value:
            case None:
                return [], False
            case bool():
                return [struct.pack("<B15x", value)], False
            case int():
                return [struct.pack("<q8x", value)], False
            case float():
                return [struct.pack("<d8x", value)], False
        records, lost = [], False
        for dtype, sizes, data in [value] if isinstance(value, tuple) else value:  # type: ignore[attr-defined]
            offset, nbytes = NO_OFFSET, tensor_bytes(dtype, sizes)
            padded = self.debug + bytes(-len(self.debug) % PAYLOAD_ALIGNMENT)
            if data and len(padded) + nbytes <= self.debug_size:
                offset, self.debug = len(padded), padded + data
            lost = lost or (nbytes > 0 and offset == NO_OFFSET)
            shape = struct.pack(f"<{2 * len(sizes)}i", *sizes, *made_up_strides(sizes))
            shape += bytes(-len(shape) % RECORD_SIZE)
            records.append(struct.pack("<BBHIII", dtype, len(sizes), 0, offset, nbytes, 0))
            records += [shape[at : at + RECORD_SIZE] for at in range(0, len(shape), RECORD_SIZE)]
        return records, lost

    def track_allocator(self, name: bytes | None) -> int:
        name_id, number = self.intern(name), self.allocators + 1
        if not self.append(struct.pack("<BBHIII", Record.ALLOCATOR, 0, name_id, number, 0, 0)):
            self.dropped_blocks += 1
            return 0
        self.allocators = number
        return number

    def log_clock(self, hz: int, own: int, reference: int) -> bool:
        high, low = reference >> 32 & 0xFFFF, reference & 0xFFFFFFFF
        fits = self.append(struct.pack("<BBHIII", Record.CLOCK, 0, high, hz, own, low))
        self.dropped_blocks += not fits
        return fits

    def log_switch(self, flags: int, name: bytes | None, number: int) -> None:
        again = not flags & SWITCH_BEGINS  # an end has the time after its record
        self.log_instant(Record.SWITCH, flags, name, number if name is None else 0, again=again)

    def log_instant(
        self, kind: Record, flags: int, name: bytes | None, word: int, *, again: bool = False
    ) -> None:
        if self.paused:
            self.filtered += 1
            return
        now, number = self.tick(), self.intern(name)
        if not self.append(struct.pack("<BBHIII", kind, flags, number, now, word, 0)):
            self.dropped_events += 1
        elif again:
            self.records[-1] = struct.pack("<BBHIII", kind, flags, number, self.tick(), word, 0)

    def track(self, flags: int, allocator: int, size: int, offset: int) -> None:
        if self.paused:
            self.filtered += 1
            return
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
            *(self.dropped_events, self.dropped_blocks, self.filtered, self.dropped_values),
            self.dropped_runs,
            *(self.chunk, self.first, len(self.debug), *self.stack),
        )
        return header + b"".join(self.records) + names
