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
whatever was lost before; logs on several ports may be interleaved. A log with a wrong CRC is not a
log. Words of such a port that are in no log are the rest of one whose first packet is missing.
"""

from __future__ import annotations

import logging
import re
import struct
import zlib
from dataclasses import dataclass
from typing import Final

import numpy as np

from harness.decode.device_log_format import HEADER_SIZE, MAGIC, RECORD_SIZE, VERSION, Record
from harness.errors import FormatError
from harness.records.trace import Damage

_log = logging.getLogger(__name__)
_LARGEST: Final = 1 << 28
"""Bytes of a log that no microcontroller has; a count that says more is damaged."""
_MAGIC: Final = MAGIC.to_bytes(4, "little")
_VERSION: Final = bytes([VERSION, RECORD_SIZE]) + HEADER_SIZE.to_bytes(2, "little")
"""The word behind the magic number."""
_PORTS: Final = b"[" + b"".join(re.escape(bytes([port << 3 | 3])) for port in range(32)) + b"]"
_BEGIN: Final = re.compile(_PORTS + b"(?:" + _MAGIC + b"|" + re.escape(_VERSION) + b")", re.DOTALL)
"""The first or the second packet of a log: four bytes on one of 32 ports."""
_COUNTS: Final = struct.Struct("<12xIHxxI")
"""Records, number of names, and bytes of names, in the header of a log."""
_SIZES: Final = (0, 1, 2, 4)
_SYNCHRONIZATION: Final = re.compile(b"\0{5,}\x80")
_OVERFLOW: Final = 0x70
_CONTINUED: Final = 0x80
_GLOBAL_LOW, _GLOBAL_HIGH = 0x94, 0xB4
_ZEROS: Final = re.compile(rb"\0+")
_WORD: Final = 4
_FRAME: Final = 16
_LEAST_IN_NOISE: Final = 32
"""Bytes of a port that are taken for the rest of a log where other bytes are no packets."""
_LETTER: Final = re.compile(rb"[A-Za-z]")
_LEAST_LETTERS: Final = 3
_MOST_FLAGS: Final = 16
_RECORDS_SHARE: Final = 0.1
"""A short log is a third records; of random words, one of 270 looks like the head of one."""
_PORT_PACKETS: Final = 16
"""Packets of software by which a recording of the pin is known."""


def read_swo(data: bytes, damage: list[Damage] | None) -> bytes | None:
    """Return the logs in a recording one after the other, None if it is no recording.

    Overflows, and contents of ports that belong to no log and do not look like one, are logged as a
    warning.

    Args:
        data: The recording: bytes of the pin, without the formatter of the TPIU.
        damage: None makes a damaged log an error. With a list, defects are appended to it, and the
            log is left out; the next one tells how many records it had.

    Raises:
        FormatError: A log is damaged or its beginning is missing, and ``damage`` is None; or all
            are. Or the recording contains no log.
    """
    logs, damaged = _logs(data)
    if not logs and not damaged:
        _refuse_without_log(data)
        return None
    rest = _Rest(data, logs, damaged)
    errors = [_error(f"a log {log.reason}", log.begin) for log in damaged] + rest.lost_logs()
    errors.sort(key=lambda error: error.offset or 0)
    if errors and (damage is None or not logs):
        raise errors[0]
    if damage is not None:
        damage += [Damage.of(error, None) for error in errors]
    rest.warn()
    return b"".join(log.image for log in logs)


def _error(message: str, offset: int) -> FormatError:
    return FormatError(
        message,
        offset=offset,
        field="SWO",
        hint="start the recording before the log is sent, lower the rate of the pin, or use "
        "--salvage to read the other logs",
    )


@dataclass(frozen=True, slots=True)
class _Log:
    """A log from its first packet on.

    Attributes:
        begin: Where its first packet is.
        end: Behind its last one.
        image: Its bytes; empty if it is damaged.
        reason: What is wrong with it, or empty.
        others: Where packets that begin a log are among its own.
    """

    begin: int
    end: int
    image: bytes
    reason: str
    others: frozenset[int]


def _logs(data: bytes) -> tuple[list[_Log], list[_Log]]:
    """Return the logs, and those that are damaged, in the order of their first packets."""
    logs: list[_Log] = []
    damaged: list[_Log] = []
    around: list[_Log] = []
    begun: set[int] = set()  # headers of packets with the magic number, before the next one
    for match in _BEGIN.finditer(data):
        begin, header = match.start(), data[match.start()]
        around = [log for log in around if begin < log.end]
        if not all(begin in log.others for log in around):
            continue  # in a packet of a log, or its own second packet
        if match[0][1:] == _MAGIC:
            log = _log_at(data, begin)
            (damaged if log.reason else logs).append(log)
            around += [] if log.reason else [log]
            begun |= {header} if log.reason else set()
        elif header in begun:
            begun.remove(header)
        else:
            reason = "begins without its first packet, which is lost or damaged"
            damaged.append(_Log(begin, begin, b"", reason, frozenset()))
    return logs, damaged


def _log_at(data: bytes, at: int) -> _Log:
    begin, header, needed, overflows = at, data[at], HEADER_SIZE, 0
    payload, others = bytearray(), list[int]()
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
        elif data[at + 1 : end] in (_MAGIC, _VERSION):
            others.append(at)
        overflows += data[at] == _OVERFLOW
        at = end
    image = b""
    if not reason:
        image = bytes(payload[: _image_size(payload)])
        if int.from_bytes(payload[-4:], "little") != zlib.crc32(image):
            image, reason = b"", "has a wrong CRC-32"
    if reason and overflows:
        reason += f" (overflows of the ITM: {overflows})"
    return _Log(begin, at, image, reason, frozenset(others))


@dataclass(slots=True)
class _Stray:
    """Contents of a port in a row that belong to no log.

    Attributes:
        begin: Where its first packet is.
        words: Contents of packets of four bytes, as those of a log.
        text: Bytes of the other packets.
        overflows: Overflows of the ITM within it or just before.
        noise: Whether bytes before or within it were no packets.
        known: Whether it is what is left of a log that is known to be damaged.
    """

    begin: int
    words: bytearray
    text: int
    overflows: int
    noise: bool
    known: bool


class _Rest:
    """What a recording contains besides its logs.

    Attributes:
        strays: Contents that belong to no log, by port.
        overflows: Overflows of the ITM anywhere.
    """

    def __init__(self, data: bytes, logs: list[_Log], damaged: list[_Log]) -> None:
        self.strays: dict[int, list[_Stray]] = {}
        self.overflows = 0
        self._ports = {data[log.begin] >> 3 for log in [*logs, *damaged]}
        self._ends = {log.begin: log.end for log in logs}
        self._damaged = {log.begin for log in damaged}
        self._claimed: dict[int, int] = {}  # where the last log of a port ends
        self._open: dict[int, _Stray] = {}
        self._noise, self._overflows = False, 0  # since the last log began
        self._walk(data)

    def _walk(self, data: bytes) -> None:
        # Where a log begins, a packet begins, whatever the bytes before it look like.
        anchors = [*sorted([*self._ends, *self._damaged]), len(data)]
        number = 0
        at = _first_packet(data, anchors[0])
        while at < len(data):
            while anchors[number] <= at:
                number += 1
            end = packet_end(data, at)
            if end is None and _is_cut(data, at):
                end = len(data)
            if end is None or end > anchors[number]:
                self._noise = True
                for stray in self._open.values():
                    stray.noise = True
                zeros = _ZEROS.match(data, at)
                at = min(zeros.end() if zeros else at + 1, anchors[number])
            else:
                self._pass(data, at, end)
                at = end

    def _pass(self, data: bytes, at: int, end: int) -> None:
        header, port = data[at], data[at] >> 3
        if at in self._ends:
            self._claimed[port] = self._ends[at]
            self._open.pop(port, None)
            self._noise, self._overflows = False, 0
        if header == _OVERFLOW:
            self.overflows += 1
            self._overflows += 1
            for stray in self._open.values():
                stray.overflows += 1
        elif header & 3 and not header & 4 and at >= self._claimed.get(port, 0):
            known = at in self._damaged
            if known and port in self._open and len(self._open[port].words) == _WORD:
                self._open[port].known = True  # its damaged first packet
            if known or port not in self._open:
                self._open[port] = _Stray(at, bytearray(), 0, self._overflows, self._noise, known)
                self.strays.setdefault(port, []).append(self._open[port])
            if _SIZES[header & 3] == _WORD:
                self._open[port].words += data[at + 1 : end].ljust(_WORD, b"\0")
            else:
                self._open[port].text += end - at - 1

    def lost_logs(self) -> list[FormatError]:
        """Return errors for the rests of logs, which are then known."""
        errors = []
        for port, strays in self.strays.items():
            for stray in strays:
                least = _LEAST_IN_NOISE if stray.noise or port not in self._ports else _WORD
                sought = port in self._ports or _is_rest(stray.words)
                if sought and not stray.known and len(stray.words) >= least:
                    stray.known = True
                    lost = f" (overflows of the ITM: {stray.overflows})" if stray.overflows else ""
                    size = f"{len(stray.words)} bytes of port {port} belong to no log"
                    message = f"{size}: the packets that begin it are lost{lost}"
                    errors.append(_error(message, stray.begin))
        return errors

    def warn(self) -> None:
        """Log what is in none of the logs and is no error."""
        if self.overflows:
            _log.warning(
                "SWO: overflows of the ITM: %d; packets are lost before each", self.overflows
            )
        sizes = {
            port: size
            for port, strays in sorted(self.strays.items())
            if (size := sum(stray.text + len(stray.words) * (not stray.known) for stray in strays))
        }
        if sizes:
            listed = [f"port {port}: {size} bytes" for port, size in sizes.items()]
            more = f", and {len(listed) - 4} more ports" if len(listed) > 4 else ""
            _log.warning("SWO: contents that belong to no log: %s", ", ".join(listed[:4]) + more)


def _is_rest(words: bytearray) -> bool:
    """Return whether words of a port without logs look like the rest of a log.

    Each fourth word begins a record, and before the CRC-32 are names.
    """
    if len(_LETTER.findall(words[-3 * _WORD : -_WORD])) < _LEAST_LETTERS:
        return False
    heads = np.frombuffer(bytes(words), np.uint8).reshape(-1, _WORD)[:, :2]
    alike = np.isin(heads[:, 0], [*Record]) & (heads[:, 1] < _MOST_FLAGS)
    period = RECORD_SIZE // _WORD
    *others, most = sorted(float(alike[at::period].mean()) for at in range(min(period, len(alike))))
    return most >= _RECORDS_SHARE and most > 2 * sum(others) / max(len(others), 1)


def _first_packet(data: bytes, anchor: int) -> int:
    """Return where the first whole packet begins, from which packets lead to the first log."""
    for begin in range(min(5, anchor)):
        at: int | None = begin
        while at is not None and at < anchor:
            at = packet_end(data, at)
        if at == anchor:
            return begin
    return 0


def _refuse_without_log(data: bytes) -> None:
    """Raise an error if this is a recording of the pin that contains no log."""
    hint = (
        "enable the stimulus port of the log in the debugger, start the recording before the log "
        "is sent, and set the rate of the pin; the formatter of the TPIU must be off "
        "(OpenOCD: -formatter off)"
    )
    if _is_formatted(data):
        message = "a recording of the SWO pin with the formatter of the TPIU on"
        hint = "record again with the formatter off (OpenOCD: -formatter off; TPIU_FFCR.EnFCont 0)"
        raise FormatError(message, offset=0, field="SWO", hint=hint)
    at, ports, packets = _first_packet(data, len(data)), 0, 0
    while (end := packet_end(data, at)) is not None:
        ports += bool(data[at] & 3 and not data[at] & 4)
        packets += 1
        at = end
    if at < len(data) and not _is_cut(data, at):
        return
    if ports >= _PORT_PACKETS and 2 * ports > packets:
        message = f"a recording of the SWO pin with {ports} packets of software, but without a log"
        raise FormatError(message, offset=0, field="SWO", hint=hint)


def _is_formatted(data: bytes) -> bool:
    """Return whether a log is in frames of the TPIU: 15 bytes and one with their low bits."""
    for begin in range(min(_FRAME, len(data))):
        count = (len(data) - begin) // _FRAME
        frames = np.frombuffer(data, np.uint8, count * _FRAME, begin).reshape(-1, _FRAME).copy()
        is_data = np.ones(frames.shape, np.bool_)
        is_data[:, -1] = False
        is_data[:, :-1:2] = frames[:, :-1:2] & 1 == 0  # otherwise the number of a source
        low = frames[:, -1:] >> np.arange(_FRAME // 2, dtype=np.uint8) & 1
        frames[:, :-1:2] = frames[:, :-1:2] & 0xFE | low
        if _BEGIN.search(frames[is_data].tobytes()):
            return True
    return False


def _image_size(payload: bytearray) -> int:
    records, _, names = _COUNTS.unpack_from(payload)
    return HEADER_SIZE + int(records) * RECORD_SIZE + int(names)


def _size(payload: bytearray) -> int:
    """Return the bytes of a log with its padding and CRC-32, 0 if the header cannot be right."""
    size = _image_size(payload)
    return 0 if size > _LARGEST else -(-size // _WORD) * _WORD + 4


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
