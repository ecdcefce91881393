"""A board that runs by itself, on a serial port of this host or of another."""

from __future__ import annotations

from contextlib import ExitStack
from typing import Self

from harness.config.board import Board, SerialTarget
from harness.config.unit import UsbPort
from harness.errors import UsageError
from harness.link.ports import open_port
from harness.link.reopen import ReopeningTransport
from harness.link.transports import Transport
from harness.target.lease.holding import Lease, hold
from harness.target.lease.lock_keys import LockKey, port_key
from harness.target.ports import describe, device_of


class SerialLine:
    """The line to a board: found, held and opened, again whenever it has ended.

    What is on USB may come back by another name, and plugged in elsewhere.
    """

    def __init__(self, port: UsbPort | str, baud: int, wait_s: float) -> None:
        """Name a port.

        Args:
            port: Its device or address, or what to find it by.
            baud: Bits per second.
            wait_s: Longest wait for another process to let it go when it is first opened, seconds.
        """
        self._port, self._baud, self._wait_s = port, baud, wait_s
        self._place: LockKey | None = None
        self._held = ExitStack()
        self._lease: Lease | None = None

    def open(self) -> Transport:
        """Open it.

        Raises:
            BusyError: Another process holds it.
            PortError: It is not there, or cannot be opened.
        """
        device = device_of(self._port)
        place = port_key(device)
        if place != self._place:
            held = ExitStack()
            self._lease = held.enter_context(hold([place], self._wait_s))
            self._held.close()
            self._place, self._held, self._wait_s = place, held, 0.0
        return open_port(device, self._baud)

    def check(self) -> None:
        """Do nothing while it is held.

        Raises:
            BusyError: Somebody has taken it.
        """
        if self._lease is not None:
            self._lease.check()

    def check_cached(self) -> None:
        """The same by what the last heartbeat has found, as often as one likes.

        Raises:
            BusyError: Somebody has taken it.
        """
        if self._lease is not None:
            self._lease.check_cached()

    def close(self) -> None:
        """Let it go."""
        self._held.close()


class SerialPortTarget:
    """A board on a serial port.

    Attributes:
        transport: The byte stream to it.
        description: Which port at which rate.
    """

    def __init__(self, transport: ReopeningTransport, description: str, line: SerialLine) -> None:
        self.transport = transport
        self.description = description
        self._line = line

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def check_alive(self) -> None:
        """Do nothing while it is ours: whether a board on a wire lives, only the link can tell.

        Raises:
            BusyError: Somebody has taken it.
        """
        self._line.check()

    def console_tail(self) -> str:
        """Return an empty string: what a board says comes over the link."""
        return ""

    def close(self) -> None:
        """Close the port and let the unit go."""
        try:
            self.transport.close()
        finally:
            self._line.close()


def open_serial_port(
    board: Board, target: SerialTarget, port: UsbPort | str | None
) -> SerialPortTarget:
    """Open the port a board is on, and hold it until it is closed.

    Raises:
        UsageError: No port was named, or this is no address of one.
        InfrastructureError: It cannot be found or opened, or another process holds it.
    """
    if port is None:
        raise UsageError(
            f"board {board.name} is on a serial port, and none was named",
            hint="give --unit, or --port such as /dev/ttyACM0 or rfc2217://host:port; `etharness "
            "ports` lists those of this host",
        )
    deadlines = board.deadlines
    line = SerialLine(port, target.baud, deadlines.unit_s)
    try:
        transport = ReopeningTransport(line.open, deadlines.reopen_s, check=line.check_cached)
    except BaseException:
        line.close()
        raise
    rate = f" at {transport.baud} baud" if transport.baud else ""
    return SerialPortTarget(transport, f"{describe(port)}{rate}", line)
