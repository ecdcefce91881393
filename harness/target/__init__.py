"""Targets that run firmware: a process, an emulated machine, a board on a serial port."""

from __future__ import annotations

from typing import Protocol, Self

from harness.config.board import Board, NativeTarget, QemuTarget, SerialTarget
from harness.config.unit import UsbPort
from harness.errors import UsageError
from harness.link.transports import Transport
from harness.target.build import Firmware
from harness.target.process import start_native, start_qemu
from harness.target.serial_port import open_serial_port


class Target(Protocol):
    """A running target; as a context manager, it is closed at the end."""

    @property
    def transport(self) -> Transport:
        """The byte stream to it."""
        ...

    @property
    def description(self) -> str:
        """What the target is and where it runs, for messages."""
        ...

    def __enter__(self) -> Self: ...

    def __exit__(self, *_: object) -> None: ...

    def check_alive(self) -> None:
        """Do nothing while the target runs, as far as the host can tell.

        Raises:
            TargetError: It ended; the message has its exit status and its last output.
        """
        ...

    def console_tail(self) -> str:
        """Return the last lines of its output outside the link."""
        ...

    def close(self) -> None:
        """End the target; further calls do nothing."""
        ...


def start_target(
    board: Board, firmware: Firmware | None, *, port: UsbPort | str | None = None
) -> Target:
    """Start a board's firmware, or open the port of a board that runs by itself.

    Args:
        board: The board type.
        firmware: Its image; required for targets that are started here.
        port: Serial port, by USB device or by name; required for all others.

    Raises:
        UsageError: The image or the port is missing, or a program is not installed.
        TargetError: The firmware ended before its link was open.
        InfrastructureError: The program cannot be started, or the port cannot be opened.
    """
    if isinstance(board.target, SerialTarget):
        return open_serial_port(board, board.target, port)
    if port is not None:
        raise UsageError(
            f"board {board.name} runs on this host and has no serial port: omit --port"
        )
    if firmware is None:
        raise UsageError(
            f"board {board.name} has no firmware to start", hint="build it first: `etharness build`"
        )
    match board.target:
        case NativeTarget():
            return start_native(board, firmware)
        case QemuTarget():
            return start_qemu(board, board.target, firmware)
