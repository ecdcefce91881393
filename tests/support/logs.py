"""Builders of logs and traces that tests share."""

from __future__ import annotations

import struct
from collections.abc import Sequence

import numpy as np

from harness.etdump import log_format as fmt
from harness.etdump.log_format import Record
from harness.timebase import ClockDomain
from harness.trace import Block, Trace


class CompactLog:
    """Writes the device's log as ``schema/compact_log.toml`` describes it."""

    def __init__(self) -> None:
        self.records: list[bytes] = []
        self.names: list[bytes] = []
        self.prefixes: list[bytes] = []
        self.allocators = 0
        self.dropped_events = 0
        self.dropped_blocks = 0
        self.filtered_events = 0
        self.tracer = self.chunk = self.first_record = 0
        self.stack = (0, 0)

    def name(self, name: str | bytes | None) -> int:
        if name is None:
            return fmt.NO_NAME
        raw = name.encode() if isinstance(name, str) else name
        if raw not in self.names:
            self.names.append(raw)
        return self.names.index(raw)

    def block(self, name: str | bytes, bundled: int = -1) -> CompactLog:
        self.records.append(struct.pack("<BBHIiI", Record.BLOCK, 0, self.name(name), 0, bundled, 0))
        return self

    def profile(
        self,
        name: str | bytes | None,
        start: int,
        end: int,
        *,
        chain: int = 0,
        instruction: int = 0,
        clock: int = 0,
    ) -> CompactLog:
        if not -(2**15) <= chain < 2**15 or instruction >= 2**16:
            self.records.append(struct.pack("<BBHiII", Record.WIDE, 0, 0, chain, instruction, 0))
            chain = instruction = 0
        self.records += self.prefixes
        self.prefixes = []
        self.records.append(
            struct.pack(
                "<BBHHhII",
                Record.PROFILE,
                clock,
                self.name(name),
                instruction,
                chain,
                start & 0xFFFFFFFF,
                end & 0xFFFFFFFF,
            )
        )
        return self

    def delegate(
        self, name: str | bytes | None, number: int = -1, metadata: bytes | None = None
    ) -> CompactLog:
        """Make the next event one of a delegate."""
        length = len(metadata or b"")
        padded = (metadata or b"") + bytes(-length % fmt.RECORD_SIZE)
        flags = 0 if metadata is None else fmt.DELEGATE_METADATA
        self.prefixes = [
            struct.pack("<BBHiII", Record.DELEGATE, flags, self.name(name), number, length, 0)
        ]
        for at in range(0, len(padded), fmt.RECORD_SIZE):
            self.prefixes.append(padded[at : at + fmt.RECORD_SIZE])
        return self

    def allocator(self, name: str | bytes | None) -> CompactLog:
        self.allocators += 1
        self.records.append(
            struct.pack("<BBHIII", Record.ALLOCATOR, 0, self.name(name), self.allocators, 0, 0)
        )
        return self

    def allocation(
        self,
        allocator: int,
        size: int,
        *,
        tick: int = 0,
        offset: int = fmt.NO_OFFSET,
        failed: bool = False,
    ) -> CompactLog:
        self.records.append(
            struct.pack("<BBHIiI", Record.ALLOCATION, failed, allocator, tick, size, offset)
        )
        return self

    def image(self) -> bytes:
        names = b"".join(bytes([len(name)]) + name for name in reversed(self.names))
        header = struct.pack(
            "<IBBHIIHHIIIIIIIIIII",
            fmt.MAGIC,
            fmt.VERSION,
            fmt.RECORD_SIZE,
            fmt.HEADER_SIZE,
            fmt.FLAG_FULL if self.dropped_events or self.dropped_blocks else 0,
            len(self.records),
            len(self.names),
            self.tracer,
            len(names),
            self.dropped_events,
            self.dropped_blocks,
            self.filtered_events,
            0,
            0,
            self.chunk,
            self.first_record,
            0,
            *self.stack,
        )
        return header + b"".join(self.records) + names


def profile_trace(
    starts: Sequence[int],
    ends: Sequence[int],
    clock: ClockDomain,
    names: Sequence[str] = (),
) -> Trace:
    """One block "Execute" of profile events with the given raw ticks."""
    trace = Trace.unset(
        len(starts),
        names=list(dict.fromkeys(names)),
        blocks=[Block("Execute", 0, len(starts))],
        clocks=[clock],
    )
    trace.clock[:] = 0
    trace.start[:] = np.array(starts, np.uint64)
    trace.end[:] = np.array(ends, np.uint64)
    for row, name in enumerate(names):
        trace.name[row] = trace.names.index(name)
    return trace.sealed()
