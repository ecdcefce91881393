"""A board that is already running, on a port, whatever its file says of how to start it."""

from __future__ import annotations

from msgspec.structs import replace

from harness.board import Board, SerialTarget


def attached(board: Board, baud: int | None) -> Board:
    """Return the board as one on a serial port; ``baud`` instead of its own when given."""
    serial = board.target if isinstance(board.target, SerialTarget) else SerialTarget()
    return replace(board, target=replace(serial, baud=baud or serial.baud))
