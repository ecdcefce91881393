"""Finds device logs in a recording of the SWO pin: packets of the ITM and the DWT.

The packets are those of the Armv7-M Architecture Reference Manual, appendix D4; Armv8-M has the
same. The low two bits of a header say how many bytes follow: 1, 2 or 4 of a source (01, 10, 11), or
none or some of the protocol (00)::

    ppppp0ss            stimulus port p: what software wrote to it
    ddddd1ss            hardware of the DWT: samples of the PC, exceptions, ...
    00000000 x5 10000000  synchronization
    01110000            overflow: packets were lost before it
    0ttt0000, 11tc0000  local timestamp, alone or with up to 4 bytes
    10t10100            global timestamp, with up to 4 or 6 bytes
    cxxx1s00            extension, with up to 4 bytes

Bit 7 of a byte with more behind it is set. `ports/itm/etd_itm.c` writes a log in words, and its
CRC-32 behind it. The magic number that begins a log is one packet, so each log is found by itself,
wherever the recording begins and whatever was lost before. A log with a wrong CRC is not a log.
"""

from __future__ import annotations

import re
import struct
import zlib
from typing import Final

from harness.decode.device_log_format import HEADER_SIZE, MAGIC, RECORD_SIZE
from harness.errors import FormatError
from harness.records.trace import Damage

_LARGEST: Final = 1 << 28
"""Bytes of a log that no microcontroller has; a count that says more is damaged."""
_MAGIC: Final = MAGIC.to_bytes(4, "little")
_BEGIN: Final = re.compile(
    b"[" + b"".join(re.escape(bytes([port << 3 | 3])) for port in range(32)) + b"]" + _MAGIC
)
"""Header and contents of a packet of four bytes on one of 32 ports."""
_COUNTS: Final = struct.Struct("<12xIHxxI")
"""Records, number of names, and bytes of names, in the header of a log."""
_SIZES: Final = (0, 1, 2, 4)
_SYNCHRONIZATION: Final = re.compile(b"\0{5,}\x80")
_OVERFLOW: Final = 0x70
_CONTINUED: Final = 0x80
_GLOBAL_LOW, _GLOBAL_HIGH = 0x94, 0xB4
_PAD: Final = 4


def read_swo(data: bytes, damage: list[Damage] | None) -> bytes | None:
    """Return the logs in a recording one after the other, None if it contains none.

    Args:
        data: The recording: bytes of the pin, without the formatter of the TPIU.
        damage: None makes a damaged log an error. With a list, defects are appended to it, and the
            log is left out; the next one tells how many records it had.

    Raises:
        FormatError: A log is damaged, and ``damage`` is None; or all are.
    """
    images: list[bytes] = []
    error: FormatError | None = None
    at = 0
    while begin := _BEGIN.search(data, at):
        image, end, reason = _log_at(data, begin.start())
        if image is not None:
            images.append(image)
            at = end
            continue
        error = FormatError(
            f"a log {reason}",
            offset=begin.start(),
            field="SWO",
            hint="lower the rate of the pin, or use --salvage to read the other logs",
        )
        if damage is None:
            raise error
        damage.append(Damage.of(error, None))
        at = begin.start() + 1
    if error is not None and not images:
        raise error
    return b"".join(images) or None


def _log_at(data: bytes, at: int) -> tuple[bytes | None, int, str]:
    """Return the log that begins at a packet, where it ends, and otherwise why there is none."""
    header, needed, overflows = data[at], HEADER_SIZE, 0
    payload = bytearray()
    reason = ""
    while len(payload) < needed and not reason:
        end = packet_end(data, at)
        if end is None:
            reason = "is cut off" if _is_cut(data, at) else f"is damaged at byte {at}"
            break
        if data[at] == header:
            payload += data[at + 1 : end]
            if len(payload) == HEADER_SIZE:
                needed = _size(payload)
                reason = "" if needed else "has a damaged header"
        elif data[at] >> 2 == header >> 2 and data[at] & 3:
            reason = f"has another text of its port in it at byte {at}"
        overflows += data[at] == _OVERFLOW
        at = end
    if not reason:
        size = _image_size(payload)
        if int.from_bytes(payload[-4:], "little") == zlib.crc32(payload[:size]):
            return bytes(payload[:size]), at, ""
        reason = "has a wrong CRC-32"
    return None, at, reason + (f" (overflows of the ITM: {overflows})" if overflows else "")


def _image_size(payload: bytearray) -> int:
    records, _, names = _COUNTS.unpack_from(payload)
    return HEADER_SIZE + int(records) * RECORD_SIZE + int(names)


def _size(payload: bytearray) -> int:
    """Return the bytes of a log with its padding and CRC-32, 0 if the header cannot be right."""
    size = _image_size(payload)
    return 0 if size > _LARGEST else -(-size // _PAD) * _PAD + 4


def packet_end(data: bytes, at: int) -> int | None:
    """Return where the packet at a byte ends, None if it is none, or not all of it is there."""
    header = data[at] if at < len(data) else -1
    if header < 0:
        return None
    if size := _SIZES[header & 3]:
        end: int | None = at + 1 + size
    elif header == 0:
        match = _SYNCHRONIZATION.match(data, at)
        end = match.end() if match else None
    elif header in (_GLOBAL_LOW, _GLOBAL_HIGH):
        end = _after_continued(data, at + 1, 4 if header == _GLOBAL_LOW else 6)
    elif header & 0x0F == 0x04:
        end = None  # reserved
    elif header & _CONTINUED:
        end = _after_continued(data, at + 1, 4)
    else:
        end = at + 1
    return end if end is not None and end <= len(data) else None


def _after_continued(data: bytes, at: int, most: int) -> int | None:
    """Return the end of up to ``most`` bytes, of which all but the last say that more follow."""
    for end in range(at, min(at + most, len(data))):
        if not data[end] & _CONTINUED:
            return end + 1
    return None


def _is_cut(data: bytes, at: int) -> bool:
    """Return whether the recording ends within this packet."""
    return packet_end(data + bytes(8), at) is not None or at >= len(data)
