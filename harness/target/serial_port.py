"""A board that runs by itself, on a serial port."""

from __future__ import annotations

from typing import Self

from harness.board import Board, SerialTarget
from harness.errors import UsageError
from harness.link.reopen import ReopeningTransport
from harness.link.streams import open_serial


class SerialPortTarget:
    """A board on a serial port.

    Attributes:
        transport: The byte stream to it.
        description: Which port at which rate.
    """

    def __init__(self, transport: ReopeningTransport, description: str) -> None:
        self.transport = transport
        self.description = description

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
        """Close the port."""
        self.transport.close()


def open_serial_port(board: Board, target: SerialTarget, port: str | None) -> SerialPortTarget:
    """Open the port a board is on.

    Raises:
        UsageError: No port was named.
        InfrastructureError: It cannot be opened.
    """
    if port is None:
        raise UsageError(
            f"board {board.name} is on a serial port, and none was named",
            hint="give --port, such as /dev/ttyACM0; `ls /dev/serial/by-id` shows what there is",
        )
    transport = ReopeningTransport(lambda: open_serial(port, target.baud), board.deadlines.reopen_s)
    return SerialPortTarget(transport, f"{port} at {target.baud} baud")
