"""Serial target: a board on a serial port of this host or of another."""

from __future__ import annotations

from contextlib import ExitStack
from typing import Self

from harness.config.board import Board, SerialTarget
from harness.config.unit import UsbPort
from harness.errors import UsageError
from harness.link.ports import open_port
from harness.link.transports import ReopeningTransport, Transport
from harness.target.lease.holding import Lease, hold
from harness.target.lease.records import LockKey, port_key
from harness.target.ports import describe, device_of


class SerialLine:
    """The serial port of a board: finds, leases and opens it, and reopens it after a loss.

    A USB port may come back under another device name and on another USB socket.
    """

    def __init__(self, port: UsbPort | str, baud: int, wait_s: float) -> None:
        """Set the port; nothing is opened yet.

        Args:
            port: USB device, device name or address.
            baud: Bits per second.
            wait_s: Longest wait for another process to release it at the first `open`, seconds.
        """
        self._port, self._baud, self._wait_s = port, baud, wait_s
        self._key: LockKey | None = None
        self._held = ExitStack()
        self._lease: Lease | None = None

    def open(self) -> Transport:
        """Find, lease and open the port.

        Raises:
            BusyError: Another process holds it.
            PortError: It is not present, or cannot be opened.
        """
        device = device_of(self._port)
        key = port_key(device)
        if key != self._key:
            held = ExitStack()
            self._lease = held.enter_context(hold([key], self._wait_s))
            self._held.close()
            self._key, self._held, self._wait_s = key, held, 0.0
        return open_port(device, self._baud)

    def check(self) -> None:
        """Do nothing while the lease is held.

        Raises:
            BusyError: The lease was lost.
        """
        if self._lease is not None:
            self._lease.check()

    def check_cached(self) -> None:
        """Like `check`, with the result of the last heartbeat; cheap enough for every read.

        Raises:
            BusyError: The lease was lost.
        """
        if self._lease is not None:
            self._lease.check_cached()

    def close(self) -> None:
        """Release the lease."""
        self._held.close()


class SerialPortTarget:
    """A board on a serial port.

    Attributes:
        transport: The byte stream to it.
        description: Port and baud rate, for messages.
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
        """Check the lease. Whether a board on a serial port runs, only the link can tell.

        Raises:
            BusyError: The lease was lost.
        """
        self._line.check()

    def close(self) -> None:
        """Close the port and release its lease."""
        try:
            self.transport.close()
        finally:
            self._line.close()


def open_serial_port(
    board: Board, target: SerialTarget, port: UsbPort | str | None
) -> SerialPortTarget:
    """Lease and open the port of a board.

    Raises:
        UsageError: No port is given, or its address is invalid.
        InfrastructureError: It cannot be found or opened, or another process holds it.
    """
    if port is None:
        raise UsageError(
            f"board {board.name} needs a serial port, and no port is given",
            hint="use --unit, or --port such as /dev/ttyACM0 or rfc2217://host:port; `etharness "
            "lab ports` lists the ports of this host",
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
