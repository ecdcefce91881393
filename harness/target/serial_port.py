"""A board that runs by itself, on a serial port of this host or of another."""

from __future__ import annotations

from contextlib import ExitStack
from typing import Self

from harness.board import Board, SerialTarget
from harness.errors import UsageError
from harness.link.ports import open_port
from harness.link.reopen import ReopeningTransport
from harness.target.ports import describe, device_of
from harness.target.unit_lock import hold_unit
from harness.unit import UsbPort


class SerialPortTarget:
    """A board on a serial port.

    Attributes:
        transport: The byte stream to it.
        description: Which port at which rate.
    """

    def __init__(self, transport: ReopeningTransport, description: str, held: ExitStack) -> None:
        self.transport = transport
        self.description = description
        self._held = held

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def check_alive(self) -> None:
        """Do nothing: whether a board on a wire lives, only the link can tell."""

    def console_tail(self) -> str:
        """Return an empty string: what a board says comes over the link."""
        return ""

    def close(self) -> None:
        """Close the port and let the unit go."""
        with self._held:
            self.transport.close()


def open_serial_port(
    board: Board, target: SerialTarget, port: UsbPort | str | None
) -> SerialPortTarget:
    """Open the port a board is on, and hold the unit until it is closed.

    What is on USB is looked for each time the port is opened: it may come back by another name.

    Raises:
        UsageError: No port was named, or this is no address of one.
        InfrastructureError: It cannot be opened, or another process holds the unit.
    """
    if port is None:
        raise UsageError(
            f"board {board.name} is on a serial port, and none was named",
            hint="give --unit, or --port such as /dev/ttyACM0 or rfc2217://host:port; `etharness "
            "ports` lists those of this host",
        )
    deadlines = board.deadlines
    with ExitStack() as stack:
        stack.enter_context(hold_unit(device_of(port), deadlines.unit_s))
        transport = ReopeningTransport(
            lambda: open_port(device_of(port), target.baud), deadlines.reopen_s
        )
        rate = f" at {transport.baud} baud" if transport.baud else ""
        return SerialPortTarget(transport, f"{describe(port)}{rate}", stack.pop_all())
