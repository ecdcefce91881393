"""Reads all traces in a file: ED00 files, device logs, console captures.

The format is detected from the contents, never from the file name.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Final

from harness.decode import device_log_format as log_format
from harness.decode.console_capture import Payload, is_capture, read_payloads
from harness.decode.device_log import read_log
from harness.decode.ed00_reader import NO_IDENTIFIER, Window, find_dump, read_dump
from harness.decode.ed00_schema import IDENTIFIER
from harness.decode.postmortem import is_postmortem
from harness.errors import FormatError
from harness.records.clock_domain import HOST_NANOSECONDS, ClockDomain
from harness.records.trace import Damage, Losses, Trace

_ZEROS: Final = 64
"""Most padding zeros between two dumps."""


@dataclass(frozen=True, slots=True)
class Dump:
    """A trace with its debug buffer.

    Attributes:
        trace: The trace.
        debug_buffer: Bytes of the logged tensors, or None.
        offset: Offset of the dump in the data; in a capture, of its base64 text.
    """

    trace: Trace
    debug_buffer: bytes | None = None
    offset: int = 0


@dataclass(frozen=True, slots=True)
class FoundDumps:
    """All dumps of a file.

    Attributes:
        dumps: Dumps in file order. A static ETDumpGen that was reset leaves older dumps after newer
            ones.
        damage: Defects; the affected parts are left out.
    """

    dumps: tuple[Dump, ...]
    damage: tuple[Damage, ...] = ()


def is_device_log(data: bytes) -> bool:
    """Whether the data begins with the magic number of a device log."""
    return data[:4] == log_format.MAGIC.to_bytes(4, "little")


def read_dumps(
    data: bytes, clocks: Sequence[ClockDomain] = (), *, salvage: bool = False
) -> FoundDumps:
    """Decode everything in ``data``.

    Args:
        data: One or several consecutive ED00 dumps, a device log, or console text that contains
            ED00 dumps and debug buffers.
        clocks: The device's clock domains, by clock number; events of ED00 files use the first.
        salvage: Read the intact parts of damaged data and report the damage, instead of failing.
            Missing events are counted in ``Trace.losses``.

    Raises:
        FormatError: The format is unknown, or the data is damaged and ``salvage`` is False; the
            error has offset and field.
    """
    damage: list[Damage] | None = [] if salvage else None
    clock = clocks[0] if clocks else HOST_NANOSECONDS
    if is_device_log(data):
        dumps = [Dump(read_log(data, clocks, damage))]
    elif find_dump(data):
        dumps = _dumps(data, clock, damage)
    elif is_capture(data):
        dumps = _captured(data, clock, damage)
    else:
        raise _unknown(data)
    return FoundDumps(
        tuple(_accounted(dumps, damage)) if damage else tuple(dumps), tuple(damage or ())
    )


def _accounted(dumps: list[Dump], damage: list[Damage]) -> list[Dump]:
    """Add damage outside of all dumps to the losses of the last dump.

    Raises:
        FormatError: No dump is intact.
    """
    if not dumps:
        first = damage[0]
        raise FormatError(
            f"nothing could be salvaged: {first.reason}", offset=first.offset, field=first.field
        )
    counted = sum(dump.trace.losses.damaged for dump in dumps)
    outside = Losses(damaged=sum(item.events or 1 for item in damage) - counted)
    trace = dumps[-1].trace
    counting = replace(trace, losses=trace.losses + outside)
    return [*dumps[:-1], replace(dumps[-1], trace=counting)]


def _unknown(data: bytes) -> FormatError:
    if is_postmortem(data):
        return FormatError(
            "this file is a postmortem", offset=0, field="magic", hint="use etharness postmortem"
        )
    return FormatError(
        NO_IDENTIFIER,
        offset=4,
        field="file identifier",
        hint="the file is not an ETDump, a device log or a console capture, or its beginning is "
        "damaged",
    )


def _dumps(data: bytes, clock: ClockDomain, damage: list[Damage] | None) -> list[Dump]:
    """Read consecutive dumps."""
    dumps: list[Dump] = []
    window = find_dump(data)
    while window:
        dumps.append(Dump(read_dump(data, window, clock, damage), offset=window.begin))
        window = _next(data, window, damage)
    return dumps


def _next(data: bytes, window: Window, damage: list[Damage] | None) -> Window | None:
    """Return the window of the next dump, or None at the end."""
    end = window.end
    if end == len(data):
        return None
    found = data.find(IDENTIFIER, end, end + 8 + _ZEROS + len(IDENTIFIER))
    # Four bytes before a dump may be its size prefix, or zeros before a dump without a prefix.
    prefixed = found >= end + 8 and any(data[found - 8 : found - 4])
    begin = found - (8 if prefixed else 4)
    if begin >= end and not any(data[end:begin]):
        return find_dump(data, begin)
    trailing = FormatError(
        f"{len(data) - end} bytes after the announced size are not a dump",
        offset=end,
        field="size prefix",
        hint="use --salvage to read the dump before them",
    )
    if damage is None:
        raise trailing
    damage.append(Damage.of(trailing, None))
    return None


def _captured(data: bytes, clock: ClockDomain, damage: list[Damage] | None) -> list[Dump]:
    """Read the dumps in console text; a file before a dump in its section is its debug buffer."""
    dumps: list[Dump] = []
    waiting: Payload | None = None
    for payload in read_payloads(data, damage):
        same_section = waiting is not None and waiting.section == payload.section
        if not find_dump(payload.data):
            _refuse(waiting, damage)
            waiting = payload
            continue
        if not same_section:
            _refuse(waiting, damage)
        debug_buffer = waiting.data if waiting and same_section else None
        waiting = None
        try:
            found = _dumps(payload.data, clock, damage)
        except FormatError as error:
            place = f"in the dump at byte {payload.offset} of the capture"
            message = f"{place}: {error.message}"
            raise FormatError(message, offset=error.offset, field=error.field) from error
        dumps += [Dump(dump.trace, debug_buffer, payload.offset) for dump in found]
    _refuse(waiting, damage)
    return dumps


def _refuse(payload: Payload | None, damage: list[Damage] | None) -> None:
    """Report a file in a capture that is neither a dump nor a debug buffer."""
    if payload is None:
        return
    error = FormatError(
        f"a file of {len(payload.data)} bytes is neither an ETDump nor followed by one",
        offset=payload.offset,
        field="console capture",
        hint="the beginning of its base64 may be damaged; use --salvage to read the others",
    )
    if damage is None:
        raise error
    damage.append(Damage.of(error, None))
