"""All traces in some bytes, whatever they are: ED00 files, device logs, console captures.

What the bytes are is recognised by what they say, never by the name of a file.
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
"""Zeros that may stand between two dumps, at most."""


@dataclass(frozen=True, slots=True)
class Dump:
    """A trace, and what was found with it.

    Attributes:
        trace: The trace.
        debug_buffer: Bytes of the tensors that it logged, if they were found.
        offset: Of its dump in the bytes; of its text, in a capture.
    """

    trace: Trace
    debug_buffer: bytes | None = None
    offset: int = 0


@dataclass(frozen=True, slots=True)
class FoundDumps:
    """What some bytes hold.

    Attributes:
        dumps: Traces in the order of the bytes. A static ETDumpGen that was reset leaves older
            dumps behind newer ones.
        damage: What was left out.
    """

    dumps: tuple[Dump, ...]
    damage: tuple[Damage, ...] = ()


def is_device_log(data: bytes) -> bool:
    """Tell a device log from other files by its first bytes."""
    return data[:4] == log_format.MAGIC.to_bytes(4, "little")


def read_dumps(
    data: bytes, clocks: Sequence[ClockDomain] = (), *, salvage: bool = False
) -> FoundDumps:
    """Decode everything in ``data``.

    Args:
        data: One or several ED00 dumps one behind the other; or a device log; or the text of a
            console with ED00 dumps, and debug buffers, in it.
        clocks: The device's clock domains, by its clock numbers; an ED00 file has the first.
        salvage: Read what is intact and say what is not, instead of failing. Every trace that
            misses something says so in its ``losses``.

    Raises:
        FormatError: The bytes are none of these. Or they are damaged, and nothing is to be
            salvaged; offset and field say where.
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
    """Count what is damaged outside of all dumps among the losses of the last one.

    Raises:
        FormatError: There is none: nothing was intact.
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
            "this is a postmortem", offset=0, field="magic", hint="use etharness postmortem"
        )
    return FormatError(
        NO_IDENTIFIER,
        offset=4,
        field="file identifier",
        hint="this is no ETDump, device log or console capture with one, or its beginning is "
        "damaged",
    )


def _dumps(data: bytes, clock: ClockDomain, damage: list[Damage] | None) -> list[Dump]:
    """Dumps that stand one behind the other."""
    dumps: list[Dump] = []
    window = find_dump(data)
    while window:
        dumps.append(Dump(read_dump(data, window, clock, damage), offset=window.begin))
        window = _next(data, window, damage)
    return dumps


def _next(data: bytes, window: Window, damage: list[Damage] | None) -> Window | None:
    """The dump behind another one."""
    end = window.end
    if end == len(data):
        return None
    found = data.find(IDENTIFIER, end, end + 8 + _ZEROS + len(IDENTIFIER))
    # Four bytes before a dump may be its size prefix, or zeros before one that has none.
    prefixed = found >= end + 8 and any(data[found - 8 : found - 4])
    begin = found - (8 if prefixed else 4)
    if begin >= end and not any(data[end:begin]):
        return find_dump(data, begin)
    trailing = FormatError(
        f"{len(data) - end} bytes after the announced size are no dump",
        offset=end,
        field="size prefix",
        hint="read the dump before them with --salvage",
    )
    if damage is None:
        raise trailing
    damage.append(Damage.of(trailing, None))
    return None


def _captured(data: bytes, clock: ClockDomain, damage: list[Damage] | None) -> list[Dump]:
    """Dumps in the text of a console; each takes the file printed before it in its section."""
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
            place = f"the dump that the capture has at byte {payload.offset}"
            message = f"{place}: {error.message}"
            raise FormatError(message, offset=error.offset, field=error.field) from error
        dumps += [Dump(dump.trace, debug_buffer, payload.offset) for dump in found]
    _refuse(waiting, damage)
    return dumps


def _refuse(payload: Payload | None, damage: list[Damage] | None) -> None:
    """Tell of a file in a capture that is no dump, and no debug buffer of one."""
    if payload is None:
        return
    error = FormatError(
        f"a file of {len(payload.data)} bytes is no ETDump, and none follows that it belongs to",
        offset=payload.offset,
        field="console capture",
        hint="the beginning of its base64 may be damaged; --salvage reads the others",
    )
    if damage is None:
        raise error
    damage.append(Damage.of(error, None))
