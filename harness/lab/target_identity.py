"""Whether a target is the one that was asked for."""

from __future__ import annotations

from harness.config.board import Board
from harness.errors import WrongBoardError, WrongFirmwareError
from harness.link.answers import TargetInfo


def refuse_other_target(info: TargetInfo, board: Board, build_id: str | None) -> None:
    """Refuse to measure a target that is not the one asked for.

    Args:
        info: What the target says of itself.
        board: What was asked for.
        build_id: Of what was built for it, or flashed; None for a board that runs by itself.

    Raises:
        WrongBoardError: It is another board, or another clock is on it.
        WrongFirmwareError: It runs another build.
    """
    if info.board != board.name:
        raise WrongBoardError(
            f"board {board.name!r} was asked for, but the target says it is {info.board!r}"
        )
    if build_id is not None and info.build_id != build_id:
        raise WrongFirmwareError(
            f"{info.board} runs firmware {info.build_id!r}, but it was to run {build_id!r}"
        )
    timer, clock = board.timer, info.clocks[0]
    if clock.bits != timer.bits or clock.hz != timer.hz:
        raise WrongBoardError(
            f"{info.board} reports a clock of {clock.hz} Hz and {clock.bits} bits, but its "
            f"board file says {timer.hz} Hz and {timer.bits} bits"
        )
