"""What the Telnet option COM-PORT-CONTROL (RFC 2217) says of a serial port. No I/O."""

from __future__ import annotations

from enum import IntEnum, IntFlag
from typing import Final

from harness.link.telnet import subnegotiation

COM_PORT: Final = 44
"""The option's number."""

_SERVER: Final = 100
"""What a server sends has the number of what a client sends, plus this."""


class Setting(IntEnum):
    """What a client asks for or says; a server confirms it, or notifies by it."""

    SIGNATURE = 0
    BAUDRATE = 1
    DATASIZE = 2
    PARITY = 3
    STOPSIZE = 4
    CONTROL = 5
    LINESTATE = 6
    MODEMSTATE = 7
    SUSPEND = 8
    RESUME = 9
    LINESTATE_MASK = 10
    MODEMSTATE_MASK = 11
    PURGE = 12


class LineState(IntFlag):
    """What is wrong on the line, of what LINESTATE says."""

    OVERRUN = 2
    PARITY = 4
    FRAMING = 8
    BREAK = 16


DATASIZE_8: Final = b"\x08"
PARITY_NONE: Final = b"\x01"
STOPSIZE_1: Final = b"\x01"
FLOW_NONE: Final = b"\x01"
"""Of CONTROL: neither XON/XOFF nor RTS/CTS."""
PURGE_RECEIVED: Final = b"\x01"
"""Of PURGE: what the server has received from the port and not sent yet."""


def request(setting: Setting, value: bytes = b"") -> bytes:
    """What a client sends, as it goes over the line."""
    return subnegotiation(COM_PORT, bytes((setting,)) + value)


def answer(setting: Setting, value: bytes = b"") -> bytes:
    """What a server sends, as it goes over the line."""
    return subnegotiation(COM_PORT, bytes((setting + _SERVER,)) + value)


def read_answer(body: bytes) -> tuple[Setting, bytes] | None:
    """What a server said, and the value with it; None for what no server has to say."""
    try:
        return Setting(body[0] - _SERVER), body[1:]
    except (IndexError, ValueError):
        return None


def baud_value(baud: int) -> bytes:
    """A rate, bits per second, as BAUDRATE has it."""
    return baud.to_bytes(4, "big")
