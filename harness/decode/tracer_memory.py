"""Finds tracers in the memory of a device, and assembles the images of their logs.

Format: ``schema/compact_log.toml``. A tracer has the counts of a log's header, in their order; the
beginning of the header exists only on the link, so it is made here.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Final

from harness.decode import device_log_format as fmt
from harness.decode.device_log_format import TracerField
from harness.decode.firmware_elf import FirmwareElf, Symbol
from harness.errors import FormatError, TargetError, WrongFirmwareError

Read = Callable[[int, int], bytes]
"""Reads memory: address and number of bytes."""

_MAGIC: Final = fmt.TRACER_MAGIC.to_bytes(4, "little")
_ANY_VERSION: Final = _MAGIC[:3]
_POINTER_SIZE: Final = 4
_HEADER_BEGIN: Final = struct.Struct("<IBBHI")
_SEARCHED: Final = 4096
"""Bytes at the start of a variable that are searched for a tracer; longer ones are buffers."""
_WIDTHS: Final = {
    **dict.fromkeys((TracerField.NAME_COUNT, TracerField.NUMBER), 2),
    **dict.fromkeys((TracerField.FULL, TracerField.OPEN_COUNT), 1),
}
"""Bytes of the fields that are not 4 bytes wide."""
_SIZE: Final = max(field + _WIDTHS.get(field, 4) for field in TracerField)
"""Bytes of a tracer that hold these fields; it is longer."""


@dataclass(frozen=True, slots=True)
class TracerState:
    """The fields of a tracer at one moment; numbers of bytes and records, and pointers.

    Attributes:
        address: Address of the tracer.
        fields: Its fields.
        counts: The counts of the log's header, which a tracer has in the same order.
        counts: The fields of the log's header, as they are in it and in the tracer.
    """

    address: int
    fields: dict[TracerField, int]
    counts: bytes

    @property
    def is_idle(self) -> bool:
        """Whether no event is open."""
        return not self.fields[TracerField.OPEN_COUNT]


@dataclass(frozen=True, slots=True)
class MemoryLog:
    """The log of a tracer, read from memory.

    Attributes:
        image: Image of the log, as the link sends it.
        debug: Bytes of logged tensors.
    """

    image: bytes
    debug: bytes


def check_firmware(elf: FirmwareElf, read: Read) -> None:
    """Compare pieces of the code and constants with the board's memory.

    Raises:
        WrongFirmwareError: They differ: the board runs other firmware.
    """
    for address, expected in elf.samples:
        if read(address, len(expected)) != expected:
            build = f" (build id {elf.build_id})" if elf.build_id else ""
            raise WrongFirmwareError(
                f"the board does not run {elf.path}{build}: its memory differs at {address:#x}",
                hint="give --elf the file that was flashed, or flash it again",
            )


def find_tracers(elf: FirmwareElf, read: Read, symbol: str | None = None) -> list[int]:
    """Return the addresses of the tracers that the firmware has initialized.

    Args:
        elf: The firmware.
        read: Reads memory.
        symbol: A variable that is a tracer, contains one, or points to one; None for all variables
            that are or contain one within their first 4 KiB.

    Raises:
        UsageError: There is no such variable.
        TargetError: There is no tracer.
        FormatError: There is one of another version.
    """
    if symbol is not None:
        variable = elf.variable(symbol)
        found = list(_search(variable, read))
        if not found and variable.size == _POINTER_SIZE:
            target = int.from_bytes(read(variable.address, _POINTER_SIZE), "little")
            if target:
                found = list(_search(Symbol(symbol, target, _SIZE), read))
    else:
        candidates = {item for item in elf.variables if item.size >= _SIZE}
        found = sorted({at for item in candidates for at in _search(item, read)})
    if not found:
        where = f"in {symbol}" if symbol else "in any variable"
        raise TargetError(
            f"the board has no initialized tracer {where}",
            hint="check that the firmware has called etd_tracer_init; a tracer in allocated memory "
            "is found with --symbol and the name of a variable that points to it",
        )
    return found


def _search(variable: Symbol, read: Read) -> Iterator[int]:
    """Yield the addresses in a variable at which a tracer begins."""
    data = read(variable.address, min(variable.size, _SEARCHED))
    at = data.find(_ANY_VERSION)
    while at >= 0:
        place = variable.address + at
        if at + _SIZE <= len(data) and place % _POINTER_SIZE == 0:
            if data[at : at + 4] != _MAGIC:
                raise FormatError(
                    f"the tracer at {place:#x} ({variable.name}) is of version {data[at + 3]}, "
                    f"expected {_MAGIC[3]}",
                    hint="build the firmware with the tracer of this version of etdump-harness",
                )
            yield place
        at = data.find(_ANY_VERSION, at + 1)


def read_state(address: int, read: Read) -> TracerState:
    """Read the fields of a tracer.

    Raises:
        TargetError: They contradict each other: the memory was overwritten.
    """
    data = read(address, _SIZE)
    fields = {
        field: int.from_bytes(data[field : field + _WIDTHS.get(field, 4)], "little")
        for field in TracerField
    }
    used = fields[TracerField.RECORD_COUNT] * fmt.RECORD_SIZE + fields[TracerField.NAMES_SIZE]
    if (
        data[: len(_MAGIC)] != _MAGIC
        or used > fields[TracerField.CAPACITY]
        or fields[TracerField.DEBUG_USED] > fields[TracerField.DEBUG_CAPACITY]
    ):
        raise TargetError(
            f"the tracer at {address:#x} is damaged: its log has more bytes than its buffer",
            hint="the firmware may write beyond a variable, or was reset",
        )
    end = TracerField.RECORD_COUNT + fmt.HEADER_SIZE - _HEADER_BEGIN.size
    return TracerState(address, fields, data[TracerField.RECORD_COUNT : end])


def read_memory_log(state: TracerState, read: Read) -> MemoryLog:
    """Read the log of a tracer that does not change meanwhile."""
    field = state.fields
    buffer, capacity = field[TracerField.BUFFER], field[TracerField.CAPACITY]
    names = field[TracerField.NAMES_SIZE]
    flags = fmt.FLAG_FULL * bool(field[TracerField.FULL])
    begin = _HEADER_BEGIN.pack(fmt.MAGIC, fmt.VERSION, fmt.RECORD_SIZE, fmt.HEADER_SIZE, flags)
    header = begin + state.counts
    records = _bytes(read, buffer, field[TracerField.RECORD_COUNT] * fmt.RECORD_SIZE)
    text = _bytes(read, buffer + capacity - names, names)
    debug = _bytes(read, field[TracerField.DEBUG], field[TracerField.DEBUG_USED])
    return MemoryLog(header + records + text, debug)


def _bytes(read: Read, address: int, size: int) -> bytes:
    return read(address, size) if size else b""


def have_settled(before: Sequence[TracerState], now: Sequence[TracerState]) -> bool:
    """Whether the logs are complete: no event is open, and nothing has changed between the two.

    The tracer changes its counts before it writes or moves a record. So a log with the same counts
    some time later was not being changed at the second moment.
    """
    return list(before) == list(now) and all(state.is_idle for state in now)
