"""What boards without this link do instead: XMODEM-1K and base64 on the console.

Both ends of each, on the line of ``tests.support.line``: the device's as its firmware would be
(``poll`` does what there is to do), the host's over the same transport as our session.
"""

from __future__ import annotations

import base64
import binascii
import ctypes as ct

from tests.support.line import Line, Wire, WiredServer

STX, EOT, ACK, CRC_MODE = b"\x02", b"\x04", b"\x06", b"C"
BLOCK = 1024
FRAME = 1 + 2 + BLOCK + 2
CONSOLE_LINE = 57
"""Bytes that fill a line of 76 characters."""
END = b"-----END-----\r\n"
DEADLINE_S = 600.0


def xmodem_block(number: int, data: bytes) -> bytes:
    """STX, block number and its complement, 1024 bytes, CRC-16."""
    padded = data.ljust(BLOCK, b"\x1a")
    crc = binascii.crc_hqx(padded, 0).to_bytes(2, "big")
    return STX + bytes((number & 255, 255 - (number & 255))) + padded + crc


def xmodem_data(frame: bytes) -> bytes:
    """The data of a block, whose checks must hold."""
    assert frame[:1] == STX
    assert frame[1] + frame[2] == 255
    assert binascii.crc_hqx(frame[3:-2], 0) == int.from_bytes(frame[-2:], "big")
    return frame[3:-2]


class _Device(WiredServer):
    """The device's end, without our server: `work` gets what has arrived."""

    def __init__(self, library: ct.CDLL, wire: Wire) -> None:
        super().__init__(library, wire)
        self.leaving.clear()

    def work(self, arrived: bytes) -> bool:
        """Do one step; False when there was nothing to do."""
        raise NotImplementedError

    def poll(self) -> bool:
        self.arrive()
        arrived = bytes(self._received)
        self._received.clear()
        return self.work(arrived)


class _XmodemSender(_Device):
    def __init__(self, library: ct.CDLL, wire: Wire, data: bytes) -> None:
        super().__init__(library, wire)
        self._blocks = [data[at : at + BLOCK] for at in range(0, len(data), BLOCK)]
        self._number = 0

    def work(self, arrived: bytes) -> bool:
        if not arrived:
            return False
        if self._number < len(self._blocks):
            self._number += 1
            self.put(xmodem_block(self._number, self._blocks[self._number - 1]))
        else:
            self.put(EOT)
        return True


class _XmodemReceiver(_Device):
    def __init__(self, library: ct.CDLL, wire: Wire) -> None:
        super().__init__(library, wire)
        self.data = b""
        self._frame = b""
        self._asked = False

    def work(self, arrived: bytes) -> bool:
        if not self._asked:
            self._asked = True
            self.put(CRC_MODE)
        if not arrived:
            return False
        self._frame += arrived
        if self._frame == EOT:
            self.put(ACK)
        elif len(self._frame) == FRAME:
            self.data += xmodem_data(self._frame)
            self._frame = b""
            self.put(ACK)
        return True


class _ConsolePrinter(_Device):
    def __init__(self, library: ct.CDLL, wire: Wire, data: bytes) -> None:
        super().__init__(library, wire)
        self._data, self._at = data, 0

    def work(self, _arrived: bytes) -> bool:
        if self._at >= len(self._data):
            return False
        line = self._data[self._at : self._at + CONSOLE_LINE]
        self._at += CONSOLE_LINE
        last = END if self._at >= len(self._data) else b""
        self.put(base64.b64encode(line) + b"\r\n" + last)
        return True


class _ConsoleReader(_Device):
    def __init__(self, library: ct.CDLL, wire: Wire) -> None:
        super().__init__(library, wire)
        self.text = bytearray()

    def work(self, arrived: bytes) -> bool:
        self.text += arrived
        if arrived and self.text.endswith(END):
            self.put(b"ok\r\n")
        return bool(arrived)


def xmodem_down(library: ct.CDLL, wire: Wire, data: bytes) -> float:
    """Seconds until the host has the data, by XMODEM-1K."""
    line = Line(_XmodemSender(library, wire, data))
    line.write(CRC_MODE, DEADLINE_S)
    received, frame = b"", b""
    while frame != EOT:
        frame += line.read(DEADLINE_S)
        if len(frame) == FRAME:
            received += xmodem_data(frame)
            frame = b""
            line.write(ACK, DEADLINE_S)
    assert received[: len(data)] == data
    return line.clock.now


def xmodem_up(library: ct.CDLL, wire: Wire, data: bytes) -> float:
    """Seconds until the device has the data, by XMODEM-1K."""
    device = _XmodemReceiver(library, wire)
    line = Line(device)
    assert line.read(DEADLINE_S) == CRC_MODE
    for number, at in enumerate(range(0, len(data), BLOCK), 1):
        line.write(xmodem_block(number, data[at : at + BLOCK]), DEADLINE_S)
        assert line.read(DEADLINE_S) == ACK
    line.write(EOT, DEADLINE_S)
    assert line.read(DEADLINE_S) == ACK
    assert device.data[: len(data)] == data
    return line.clock.now


def console_down(library: ct.CDLL, wire: Wire, data: bytes) -> float:
    """Seconds until the host has the data, printed as base64 lines."""
    line = Line(_ConsolePrinter(library, wire, data))
    text = bytearray()
    while not text.endswith(END):
        text += line.read(DEADLINE_S)
    assert base64.b64decode(text.removesuffix(END)) == data
    return line.clock.now


def console_up(library: ct.CDLL, wire: Wire, data: bytes) -> float:
    """Seconds until the device has the data, pasted as base64 lines."""
    device = _ConsoleReader(library, wire)
    line = Line(device)
    lines = (data[at : at + CONSOLE_LINE] for at in range(0, len(data), CONSOLE_LINE))
    line.write(b"".join(base64.b64encode(part) + b"\r\n" for part in lines) + END, DEADLINE_S)
    assert line.read(DEADLINE_S)
    assert base64.b64decode(device.text.removesuffix(END)) == data
    return line.clock.now
