"""Whose it is that a unit is not well, by what was seen of it.

| seen | whose |
|---|---|
| no such device is on USB, or its name is gone from ``/dev`` | board: it, its cable or its supply |
| several devices are what ``units.toml`` says | test: it has to say more |
| the port is there, and another program has it, or it is not ours to use | host |
| the server of a port does not answer, or hangs up | link |
| the port opens, and nothing at all comes | board |
| text comes, and never a frame | flash: other firmware is on it |
| something comes that is neither | link: noise, or another rate |
| it is another board than it should be, or has another clock | board |
| it runs other firmware | flash |
| it crashed or died while it was asked | product |
| it keeps what a crash has left (a warning) | product |
| the line loses frames, or the board's UART bytes | link |

A silent board is asked again after a power cycle, where that can be done (``heal``): one that
answers then was hung by what it ran.
"""

from __future__ import annotations

import errno
import string
from typing import Final

from harness.errors import HarnessError, LinkError, Owner, PortError, TransportClosedError
from harness.link.statistics import LinkStatistics
from harness.target.ports import list_ports
from harness.unit import UsbPort

_OURS_TO_USE: Final = (errno.EACCES, errno.EPERM, errno.EBUSY, errno.EAGAIN)
_GONE: Final = (errno.ENOENT, errno.ENODEV, errno.ENXIO)
_PRINTABLE: Final = string.printable.encode()
_TEXT_SHARE: Final = 0.9
"""Of what comes: noise is text by a third, and what a program prints is, but for some colours."""


def owner_of_port(error: HarnessError, port: UsbPort | str | None) -> Owner:
    """Whose it is that a port could not be opened."""
    if not isinstance(error, PortError):
        return error.owner
    if isinstance(port, UsbPort):
        matching = sum(each.matches(port) for each in list_ports())
        if matching != 1:
            return Owner.TEST if matching else Owner.BOARD
    number = getattr(error.__cause__, "errno", None)
    if number in _OURS_TO_USE:
        return Owner.HOST
    # A server that is not there is no device that is gone.
    local = not isinstance(port, str) or "://" not in port
    return Owner.BOARD if local and number in _GONE else error.owner


def owner_of_silence(error: HarnessError, heard: LinkStatistics, console: bytes) -> Owner:
    """Whose it is that nobody answered as the firmware does."""
    if not isinstance(error, LinkError) or isinstance(error, TransportClosedError):
        return error.owner
    if not heard.bytes_received:
        return Owner.BOARD
    if heard.frames_received or heard.corrupt.total() or not console:
        return Owner.LINK
    text = len(console) - len(console.translate(None, _PRINTABLE))
    return Owner.FLASH if text >= _TEXT_SHARE * len(console) else Owner.LINK
