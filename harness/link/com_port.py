"""Messages of the Telnet option COM-PORT-CONTROL (RFC 2217). No I/O."""

from __future__ import annotations

from enum import IntEnum, IntFlag
from typing import Final

from harness.link.telnet import subnegotiation

COM_PORT: Final = 44
"""The option's number."""

_SERVER: Final = 100
"""Offset of a server's message numbers to those of the client."""


class Setting(IntEnum):
    """Requests of a client; the server's confirmations and notifications."""

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
    """The error bits of LINESTATE."""

    OVERRUN = 2
    PARITY = 4
    FRAMING = 8
    BREAK = 16


DATASIZE_8: Final = b"\x08"
PARITY_NONE: Final = b"\x01"
STOPSIZE_1: Final = b"\x01"
FLOW_NONE: Final = b"\x01"
"""CONTROL: neither XON/XOFF nor RTS/CTS."""
PURGE_RECEIVED: Final = b"\x01"
"""PURGE: drop bytes that the server has received from the port and not sent yet."""


def request(setting: Setting, value: bytes = b"") -> bytes:
    """Return an encoded message of a client."""
    return subnegotiation(COM_PORT, bytes((setting,)) + value)


def answer(setting: Setting, value: bytes = b"") -> bytes:
    """Return an encoded message of a server."""
    return subnegotiation(COM_PORT, bytes((setting + _SERVER,)) + value)


def read_answer(body: bytes) -> tuple[Setting, bytes] | None:
    """Parse a server's message into setting and value; None for an unknown message."""
    try:
        return Setting(body[0] - _SERVER), body[1:]
    except (IndexError, ValueError):
        return None


def baud_value(baud: int) -> bytes:
    """Return the value of BAUDRATE for a rate in bits per second."""
    return baud.to_bytes(4, "big")
