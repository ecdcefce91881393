"""Things that run firmware: a process, an emulated machine, a board on a serial port."""

from __future__ import annotations

from typing import Protocol, Self

from harness.config.board import Board, NativeTarget, QemuTarget, SerialTarget
from harness.config.unit import UsbPort
from harness.errors import UsageError
from harness.link.transports import Transport
from harness.target.build import Firmware
from harness.target.native import start_native
from harness.target.qemu import start_qemu
from harness.target.serial_port import open_serial_port


class Target(Protocol):
    """A running target; leaving it as a context manager ends it."""

    @property
    def transport(self) -> Transport:
        """The byte stream to it."""
        ...

    @property
    def description(self) -> str:
        """What and where it is, for people."""
        ...

    def __enter__(self) -> Self: ...

    def __exit__(self, *_: object) -> None: ...

    def check_alive(self) -> None:
        """Do nothing while the target lives, as far as can be told.

        Raises:
            TargetError: It does not; the message says how it ended and what it said last.
        """
        ...

    def console_tail(self) -> str:
        """Return the last lines it has written elsewhere than on the link."""
        ...

    def close(self) -> None:
        """End it; further calls do nothing."""
        ...


def start_target(
    board: Board, firmware: Firmware | None, *, port: UsbPort | str | None = None
) -> Target:
    """Start a board's firmware, or open the port of a board that runs by itself.

    Args:
        board: The board type.
        firmware: Its image; needed by targets that are started.
        port: Serial port, or what to find it by; needed by the others.

    Raises:
        UsageError: The image or the port is missing, or a program is not installed.
        TargetError: The firmware ended before it could be talked to.
        InfrastructureError: The program cannot be started, or the port cannot be opened.
    """
    if isinstance(board.target, SerialTarget):
        return open_serial_port(board, board.target, port)
    if port is not None:
        raise UsageError(f"board {board.name} is started here and has no serial port: omit --port")
    if firmware is None:
        raise UsageError(f"board {board.name} needs its firmware built before it can be started")
    match board.target:
        case NativeTarget():
            return start_native(board, firmware)
        case QemuTarget():
            return start_qemu(board, board.target, firmware)
