"""Writes device logs, as ``schema/compact_log.toml`` describes them."""

from __future__ import annotations

import struct

from harness.etdump import log_format as fmt
from harness.etdump.log_format import Record


class DeviceLog:
    """The log of a device, made by hand; ``image`` is what the device would send.

    Methods that log return the log itself.

    Example:
        >>> from harness.etdump.compact import read_log
        >>> log = DeviceLog().block("Execute").profile("native_call_add.out", 10, 20)
        >>> len(read_log(log.image()))
        1

    Attributes:
        dropped_events: Events that the device says it could not log.
        dropped_blocks: The same of declarations of blocks and allocators.
        filtered_events: Events that it left out because it was told to.
        tracer: Number of the tracer.
        chunk: Number of the chunk, where a log is sent in several.
        first_record: How many records stand in earlier chunks.
        stack: Bytes of the stack that were used, and its size.
    """

    def __init__(self) -> None:
        """It is empty."""
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
        """Return the number of a name, interned; that of no name for None."""
        if name is None:
            return fmt.NO_NAME
        raw = name.encode() if isinstance(name, str) else name
        if raw not in self.names:
            self.names.append(raw)
        return self.names.index(raw)

    def block(self, name: str | bytes, bundled: int = -1) -> DeviceLog:
        """Begin a block."""
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
    ) -> DeviceLog:
        """Log that an event took from one reading of a clock, 32 bits, to another."""
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
    ) -> DeviceLog:
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

    def allocator(self, name: str | bytes | None) -> DeviceLog:
        """Declare an allocator; the first is number 1."""
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
    ) -> DeviceLog:
        """Log that an allocator gave so many bytes, or refused them."""
        self.records.append(
            struct.pack("<BBHIiI", Record.ALLOCATION, failed, allocator, tick, size, offset)
        )
        return self

    def image(self) -> bytes:
        """Return the bytes of the log."""
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
