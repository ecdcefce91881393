"""Device logs in the format of ``schema/compact_log.toml``: by hand, drawn, and damaged."""

from __future__ import annotations

import struct
from collections.abc import Sequence

from hypothesis import strategies as st

from harness.decode import device_log_format as fmt
from harness.decode.device_log_format import Record
from harness.strategies.traces import INT32, UINT32


class DeviceLog:
    """Builds the log of a device by hand; ``image`` returns its bytes.

    Logging methods return the log itself, for chaining.

    Examples:
        >>> from harness.decode.device_log import read_log
        >>> log = DeviceLog().block("Execute").profile("native_call_add.out", 10, 20)
        >>> len(read_log(log.image()))
        1

    Attributes:
        dropped_events: Number of dropped events that the device reports.
        dropped_blocks: Number of dropped declarations of blocks and allocators.
        filtered_events: Number of events left out by a filter.
        dropped_runs: Number of blocks after the first one that were dropped for newer ones.
        tracer: Number of the tracer.
        chunk: Number of the chunk, for a log in several chunks.
        first_record: Number of records in earlier chunks.
        stack: Used bytes and size of the stack.
        counter_bits: Widths of the hardware counters, in their order.
    """

    def __init__(self) -> None:
        """Create an empty log."""
        self.records: list[bytes] = []
        self.names: list[bytes] = []
        self.prefixes: list[bytes] = []
        self.allocators = 0
        self.dropped_events = 0
        self.dropped_blocks = 0
        self.filtered_events = 0
        self.dropped_runs = 0
        self.tracer = self.chunk = self.first_record = 0
        self.stack = (0, 0)
        self.counter_bits: list[int] = []

    def name(self, name: str | bytes | None) -> int:
        """Return the number of an interned name; ``NO_NAME`` for None."""
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
        counts: Sequence[int] = (),
    ) -> DeviceLog:
        """Log a profile event with start and end as 32-bit readings of a clock.

        ``counts`` has what each declared counter counted; () logs no counts.
        """
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
        for first in range(0, len(counts), fmt.COUNTS_PER_RECORD):
            some = [*counts[first : first + fmt.COUNTS_PER_RECORD], 0, 0][: fmt.COUNTS_PER_RECORD]
            self.records.append(struct.pack("<BBHIII", Record.COUNTS, first, 0, *some))
        return self

    def counter(
        self, name: str | bytes, bits: int = 32, *, inside: int = 0, around: int = 0
    ) -> DeviceLog:
        """Declare a hardware counter, and what an empty event costs; the first is number 0."""
        self.counter_bits.append(bits)
        self.records.append(
            struct.pack("<BBHIII", Record.COUNTER, 0, self.name(name), bits, inside, around)
        )
        return self

    def counting(self, events: int, start: int, end: int) -> DeviceLog:
        """Log what empty events took with the declared counters, as readings of clock 0."""
        self.records.append(struct.pack("<BBHIII", Record.COUNTING, 0, events, start, end, 0))
        return self

    def clock(
        self, hz: int, own: int = 0, reference: int = fmt.NO_INSTANT, *, carried: bool = False
    ) -> DeviceLog:
        """Log the rate of the tracer's counter, 0 for clock 0, and a pair of readings."""
        high, low = reference >> 32 & 0xFFFF, reference & 0xFFFFFFFF
        kind = Record.CLOCK, fmt.CARRIED * carried
        self.records.append(struct.pack("<BBHIII", *kind, high, hz, own & 0xFFFFFFFF, low))
        return self

    def delegate(
        self, name: str | bytes | None, number: int = -1, metadata: bytes | None = None
    ) -> DeviceLog:
        """Make the next event a delegate event."""
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
        """Log a successful or failed allocation."""
        self.records.append(
            struct.pack("<BBHIiI", Record.ALLOCATION, failed, allocator, tick, size, offset)
        )
        return self

    def switch(
        self, name: str | bytes | int, tick: int, *, begins: bool, interrupt: bool = False
    ) -> DeviceLog:
        """Log that a task or an interrupt, by its name or number, begins or ends."""
        flags = fmt.SWITCH_BEGINS * begins | fmt.SWITCH_INTERRUPT * interrupt
        text, number = (None, name) if isinstance(name, int) else (name, 0)
        self.records.append(
            struct.pack("<BBHIII", Record.SWITCH, flags, self.name(text), tick, number, 0)
        )
        return self

    def mark(self, name: str | bytes | None, tick: int) -> DeviceLog:
        """Log a mark."""
        self.records.append(struct.pack("<BBHIII", Record.MARK, 0, self.name(name), tick, 0, 0))
        return self

    def sample(self, name: str | bytes | None, tick: int, value: float) -> DeviceLog:
        """Log a sample of a counter, an f32 if the value is a float."""
        kind = "f" if isinstance(value, float) else "i"
        flags = fmt.SAMPLE_FLOAT * (kind == "f")
        self.records.append(
            struct.pack(f"<BBHI{kind}I", Record.SAMPLE, flags, self.name(name), tick, value, 0)
        )
        return self

    def tensor(
        self, scalar_type: int, sizes: tuple[int, ...], strides: tuple[int, ...], nbytes: int
    ) -> DeviceLog:
        """Log a tensor whose bytes were lost."""
        shape = struct.pack(f"<{len(sizes) + len(strides)}i", *sizes, *strides)
        shape += bytes(-len(shape) % fmt.RECORD_SIZE)
        header = struct.pack("<BBHIII", scalar_type, len(sizes), 0, fmt.NO_OFFSET, nbytes, 0)
        content = header + shape
        count = len(content) // fmt.RECORD_SIZE
        self.records.append(
            struct.pack("<BBHHhII", Record.VALUE, fmt.Value.TENSOR, count, 0, 0, 0, 0)
        )
        pieces = range(0, len(content), fmt.RECORD_SIZE)
        self.records += [content[at : at + fmt.RECORD_SIZE] for at in pieces]
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
            self.dropped_runs,
            self.chunk,
            self.first_record,
            0,
            *self.stack,
        )
        return header + b"".join(self.records) + names


@st.composite
def device_logs(
    draw: st.DrawFn, *, max_records: int = 12, losses: bool = True, counters: bool = False
) -> DeviceLog:
    """Strategy for device logs with delegates, wide chains and allocations, and any readings.

    Args:
        draw: Given by Hypothesis.
        max_records: Largest number of records, without records that extend the next.
        losses: Whether logs may report dropped events.
        counters: Whether logs may have hardware counters.
    """
    log = DeviceLog()
    most = fmt.COUNTERS if counters else 0
    for name in draw(st.lists(st.binary(max_size=12), max_size=most, unique=True)):
        log.counter(name, draw(st.integers(1, 32)), inside=draw(UINT32), around=draw(UINT32))
    short = st.one_of(st.none(), st.binary(max_size=12))
    if draw(st.booleans()) and log.counter_bits:
        log.counting(draw(st.integers(1, 2**16 - 1)), draw(UINT32), draw(UINT32))
    for _ in range(draw(st.integers(0, max_records))):
        kinds = ["profile", "wide", "instant", "allocator", "allocation"]
        kind = draw(st.sampled_from(kinds))
        if kind in ("profile", "wide") and draw(st.booleans()):
            metadata = draw(st.one_of(st.none(), st.binary(max_size=40)))
            log.delegate(draw(short), draw(INT32), metadata)
        match kind:
            case "profile":
                chain = draw(st.integers(-1, 3))
                widths = log.counter_bits if counters and draw(st.booleans()) else []
                counts = [draw(st.integers(0, 2**bits - 1)) for bits in widths]
                log.profile(draw(short), draw(UINT32), draw(UINT32), chain=chain, counts=counts)
            case "wide":
                log.profile(draw(short), 0, 1, chain=draw(INT32), instruction=draw(UINT32))
            case "allocator":
                log.allocator(draw(short))
            case "instant":
                _log_instant(draw, log)
            case "allocation" if log.allocators:
                log.allocation(
                    draw(st.integers(1, log.allocators)),
                    draw(INT32),
                    tick=draw(UINT32),
                    offset=draw(UINT32),
                    failed=draw(st.booleans()),
                )
    log.dropped_events = draw(UINT32) if losses else 0
    return log


def _log_instant(draw: st.DrawFn, log: DeviceLog) -> None:
    """Log what is no event with a duration: a block, a mark, a sample, or a task's begin or end."""
    name, tick = draw(st.binary(max_size=12)), draw(UINT32)
    match draw(st.sampled_from(["block", "mark", "sample", "switch"])):
        case "block":
            log.block(name, draw(INT32))
        case "mark":
            log.mark(name, tick)
        case "sample":
            log.sample(name, tick, draw(st.one_of(INT32, st.floats(width=32))))
        case "switch":
            known = draw(st.one_of(UINT32, st.just(name)))
            log.switch(known, tick, begins=draw(st.booleans()), interrupt=draw(st.booleans()))


@st.composite
def damaged(draw: st.DrawFn, whole: bytes | st.SearchStrategy[bytes], *, most: int = 4) -> bytes:
    """Strategy for damaged files: bits flipped, bytes overwritten, lost, inserted or cut off.

    The file may be unchanged.

    Args:
        draw: Given by Hypothesis.
        whole: The file, at least two bytes, or a strategy for it.
        most: Largest number of changes; the smallest is 1.
    """
    whole = whole if isinstance(whole, bytes) else draw(whole)
    left = bytearray(whole)
    for _ in range(draw(st.integers(1, most))):
        at = draw(st.integers(1, len(left) - 1))
        match draw(st.sampled_from(["flip", "set", "drop", "cut", "splice"])):
            case "flip":
                left[at] ^= 1 << draw(st.integers(0, 7))
            case "set":
                left[at] = draw(st.sampled_from([0, 1, 4, 0x7F, 0x80, 0xFF]))
            case "drop" if len(left) > 20:
                del left[at : min(at + draw(st.integers(1, 9)), len(left) - 1)]
            case "cut":
                del left[max(at, 2) :]
            case "splice":
                begin = draw(st.integers(0, len(whole) - 1))
                left[at:at] = whole[begin : begin + draw(st.integers(1, 300))]
    return bytes(left)
