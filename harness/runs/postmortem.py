"""Saves the postmortem of a crash in the run directory; reads one from a path or a board."""

from __future__ import annotations

import logging
from pathlib import Path

from harness.config.board import Board, attached, load_board
from harness.decode.postmortem import is_postmortem
from harness.errors import FormatError, UsageError
from harness.lab.postmortem import (
    ExaminedPostmortem,
    Lookup,
    examine,
    fetch,
    no_symbols,
    symbols_of_board,
)
from harness.lab.units import Chosen, hold_if
from harness.link.session import Session
from harness.link.wire import Reset
from harness.runs.directory import (
    POSTMORTEM_IMAGE,
    RunDirectory,
)
from harness.target.start import start_target

_log = logging.getLogger(__name__)


def postmortem_of_path(path: Path, lookup: Lookup | None = None) -> ExaminedPostmortem:
    """Read a postmortem from a run directory, a saved file or a memory dump.

    Without ``lookup``, symbols for a run directory come from the firmware of its board.

    Raises:
        UsageError: The file is missing.
        DamagedError: The run directory's file is damaged.
        FormatError: The file is not a postmortem.
    """
    file = path / POSTMORTEM_IMAGE if path.is_dir() else path
    run = RunDirectory(file.parent)
    if run.is_one:
        result, damaged = run.examine(None if path.is_dir() else (file.name,))
        if damaged is not None:
            raise damaged
    try:
        image = file.read_bytes()
    except OSError as error:
        raise UsageError(
            f"cannot read the postmortem {file}: {error.strerror}",
            hint="a run directory has a postmortem only if the board crashed during the run",
        ) from error
    if not is_postmortem(image):
        raise FormatError(f"{file} is not a postmortem: it does not begin with ETPM", offset=0)
    if lookup is None and run.is_one:
        board, _ = load_board(result.board)
        lookup = symbols_of_board(board)
    return examine(image, lookup=lookup or no_symbols)


def postmortem_of_board(
    board: Board, chosen: Chosen, baud: int | None, lookup: Lookup, *, clear: bool
) -> ExaminedPostmortem | None:
    """Read the postmortem from a running board, None without one; ``clear`` also removes it.

    Raises:
        FormatError: The board sent an invalid postmortem.
        InfrastructureError: The port cannot be opened, or the board does not answer.
    """
    with (
        hold_if(chosen.leased, reason="postmortem", timeout_s=board.deadlines.unit_s) as held,
        start_target(attached(board, baud), None, port=chosen.at(held).port) as target,
    ):
        session = Session(target.transport, deadline_s=board.deadlines.request_s)
        session.hello(board.deadlines.boot_s)
        finding = fetch(session, lookup)
        if finding is not None and clear:
            session.reset(Reset.POSTMORTEM)
        return finding
