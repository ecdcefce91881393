"""Reads the crash record that survives a device's reset. Format: ``schema/postmortem.toml``."""

from __future__ import annotations

import struct
import zlib
from collections.abc import Sequence
from dataclasses import dataclass
from enum import IntEnum
from typing import Final

from harness.decode import device_log_format as log_format
from harness.decode.device_log import read_log
from harness.decode.device_log_chunks import LogHeader, join_chunks, read_chunks
from harness.errors import FormatError
from harness.extensions.postmortem import record_format as fmt
from harness.extensions.postmortem.record_format import CortexM, Fault, Field, Phase, Riscv, Signal
from harness.records.trace import ClockDomain, Trace
from harness.runs.directory import EventDocument

_HEAD: Final = struct.Struct(f"<IHH{fmt.BUILD_ID_SIZE}sIIIIH11BBHII")
_RUN: Final = struct.Struct("<II")
_FAULT: Final = struct.Struct(f"<III{fmt.REGISTERS}II")
_AFTER: Final = struct.Struct("<IIIIII")
_SCOPE: Final = struct.Struct("<HxxiIIi")
_TORN: Final = 8
"""Most records at the end of a log that a crash can leave half written: an event with prefixes."""

REGISTERS: Final[dict[int, type[IntEnum]]] = {
    Fault.CORTEX_M: CortexM,
    Fault.RISCV: Riscv,
    Fault.SIGNAL: Signal,
}
"""Register names by kind of fault."""


@dataclass(frozen=True, slots=True)
class Postmortem:
    """A crash record, as far as it can be read.

    Attributes:
        build_id: Build id of the firmware.
        running: True if the reset happened during a run.
        run_id: Number of that run, or of the last one.
        count: Executions requested.
        completed: Executions completed.
        fault: Kind of fault; NONE if the reset had another cause.
        number: Number of the exception, trap or signal.
        registers: Registers read by the fault handler, by name.
        resets: Number of resets since, including the first.
        later_faults: Number of later faults, which were not recorded.
        reason: Bits of the reset reason; 0 if the device does not report it.
        stack_used: Bytes of stack used since the start of the run; 0 unknown.
        stack_size: Size of the stack, bytes; 0 unknown.
        scopes: Open events, outermost first.
        depth: Number of open events; larger than ``len(scopes)`` if they were nested too deep.
        log: The log image without incomplete records; empty if it cannot be read.
        trace: The log up to the crash; None if it cannot be read.
        damage: Wrong CRCs and invalid fields, in words.
    """

    build_id: str
    running: bool
    run_id: int
    count: int
    completed: int
    fault: Fault
    number: int
    registers: dict[str, int]
    resets: int
    later_faults: int
    reason: int
    stack_used: int
    stack_size: int
    scopes: tuple[EventDocument, ...]
    depth: int
    log: bytes
    trace: Trace | None
    damage: tuple[str, ...]


def is_postmortem(data: bytes) -> bool:
    """Whether the data begins with the magic number of a postmortem."""
    return data[:4] == fmt.MAGIC.to_bytes(4, "little")


def read_postmortem(data: bytes, clocks: Sequence[ClockDomain] = ()) -> Postmortem:
    """Read the region POSTMORTEM, or a dump of its memory.

    Damage is reported in the result; all other parts are read.

    Args:
        data: The record, followed by a log image or the tracer's buffer.
        clocks: The device's clock domains, as for `read_log`.

    Raises:
        FormatError: The data is not a postmortem.
    """
    return _PostmortemReader(data, clocks).read()


class _PostmortemReader:
    def __init__(self, data: bytes, clocks: Sequence[ClockDomain]) -> None:
        self.data, self.clocks = data, clocks
        self.damage: list[str] = []
        size = fmt.HEAD_SIZE + fmt.RUN_SIZE + fmt.FAULT_SIZE + fmt.AFTER_SIZE
        if len(data) < size:
            raise FormatError(f"postmortem of {len(data)} bytes; the minimum is {size}", offset=0)
        magic, version, self.size, self.build_id, *numbers = _HEAD.unpack_from(data)
        self.run_id, self.count, self.capacity, self.log_offset, self.tracer, *numbers = numbers
        *self.fields, self.scope_count, _, second_magic, check = numbers
        if (magic, second_magic) != (fmt.MAGIC, fmt.SECOND_MAGIC):
            raise FormatError("not a postmortem: wrong magic", offset=0, field="magic")
        if version != fmt.VERSION:
            raise FormatError(
                f"unsupported postmortem version {version}, expected {fmt.VERSION}", offset=4
            )
        if check != zlib.crc32(data[: fmt.HEAD_SIZE - 4]):
            self.damage.append("wrong CRC of the head")

    def read(self) -> Postmortem:
        phase, completed = _RUN.unpack_from(self.data, fmt.HEAD_SIZE)
        if phase not in list(Phase):
            self.damage.append(f"unknown phase {phase:#x}")
        fault, number, registers = self._fault()
        after = fmt.HEAD_SIZE + fmt.RUN_SIZE + fmt.FAULT_SIZE
        kept, resets, faults, reason, used, stack = _AFTER.unpack_from(self.data, after)
        if kept != fmt.KEPT:  # a dump from before the reset
            resets = faults = reason = used = stack = 0
        log, trace, names = self._log()
        scopes, depth = self._scopes(names)
        return Postmortem(
            build_id=self.build_id.rstrip(b"\0").decode("ascii", "replace"),
            running=phase == Phase.RUNNING,
            run_id=self.run_id,
            count=self.count,
            completed=completed,
            fault=fault,
            number=number,
            registers=registers,
            resets=resets,
            later_faults=faults,
            reason=reason,
            stack_used=used,
            stack_size=stack,
            scopes=scopes,
            depth=depth,
            log=log,
            trace=trace,
            damage=tuple(self.damage),
        )

    def _fault(self) -> tuple[Fault, int, dict[str, int]]:
        at = fmt.HEAD_SIZE + fmt.RUN_SIZE
        kind, number, known, *registers, check = _FAULT.unpack_from(self.data, at)
        if check != zlib.crc32(self.data[at : at + fmt.FAULT_SIZE - 4]):
            self.damage.append("wrong CRC of the fault")
            return Fault.NONE, 0, {}
        if kind == Fault.NONE:
            return Fault.NONE, 0, {}
        if kind not in REGISTERS:
            self.damage.append(f"unknown kind of fault {kind}")
            return Fault.NONE, 0, {}
        named = {item.name: registers[item] for item in REGISTERS[kind] if known >> item & 1}
        return Fault(kind), number, named

    def _field(self, field: Field, size: int) -> int:
        """Return a field of the tracer; 0 if the record ends before it."""
        at = self.tracer + self.fields[field]
        return int.from_bytes(self.data[at : at + size], "little")

    def _log(self) -> tuple[bytes, Trace | None, Sequence[str]]:
        image = self._image()
        if image is None:
            self.damage.append("the log is missing, or its counts are invalid")
            return b"", None, []
        first_error = ""
        for torn in range(_TORN + 1):
            try:
                shorter = _without_last(image, torn)
                trace = read_log(shorter, self.clocks)
            except FormatError as error:
                first_error = first_error or error.message
            else:
                if torn:
                    self.damage.append(f"the last {torn} records of the log are incomplete")
                return shorter, trace, join_chunks(read_chunks(shorter))[0].names
        self.damage.append(f"the log is invalid: {first_error}")
        return b"", None, []

    def _image(self) -> bytes | None:
        """Return the log image: as stored, or assembled from the tracer's buffer."""
        behind = self.data[self.size :]
        if behind[:4] == log_format.MAGIC.to_bytes(4, "little"):
            return behind
        buffer = self.data[self.log_offset :][: self.capacity] if self.log_offset else b""
        records = self._field(Field.RECORD_COUNT, 4) * log_format.RECORD_SIZE
        names = self._field(Field.NAMES_SIZE, 4)
        if not self.capacity or len(buffer) < self.capacity or records + names > self.capacity:
            return None
        header = LogHeader(
            full=bool(self._field(Field.FULL, 1)),
            record_count=records // log_format.RECORD_SIZE,
            name_count=self._field(Field.NAME_COUNT, 2),
            names_size=names,
            dropped_events=self._field(Field.DROPPED_EVENTS, 4),
            dropped_blocks=self._field(Field.DROPPED_BLOCKS, 4),
            filtered_events=self._field(Field.FILTERED_EVENTS, 4),
            chunk=self._field(Field.CHUNK, 4),
            first_record=self._field(Field.FIRST_RECORD, 4),
        )
        return header.encode() + buffer[:records] + buffer[self.capacity - names :]

    def _scopes(self, names: Sequence[str]) -> tuple[tuple[EventDocument, ...], int]:
        depth = self._field(Field.OPEN_COUNT, 1)
        at = self.tracer + self.fields[Field.OPEN_SCOPES]
        shown = min(depth, self.scope_count)
        if at + shown * _SCOPE.size > len(self.data):
            self.damage.append("the open scopes are missing")
            return (), depth
        scopes = []
        for number in range(shown):
            name, chain, handle, start, delegate = _SCOPE.unpack_from(
                self.data, at + number * _SCOPE.size
            )
            known = names[name] if name < len(names) else None
            scopes.append(EventDocument(known, delegate, chain, handle, start, None))
        return tuple(scopes), depth


def _without_last(image: bytes, count: int) -> bytes:
    """Return the log image without its last ``count`` records."""
    if not count or len(image) < log_format.HEADER_SIZE:
        return image
    records = int.from_bytes(image[12:16], "little")
    if count > records:
        return image
    end = log_format.HEADER_SIZE + records * log_format.RECORD_SIZE
    kept = end - count * log_format.RECORD_SIZE
    header = image[:12] + (records - count).to_bytes(4, "little")
    return header + image[16:kept] + image[end:]
