"""Reads the trace of the last run, or the postmortem of a crash, from a board that is running."""

from __future__ import annotations

import logging
import time
import uuid
from functools import partial
from pathlib import Path
from typing import Final

from msgspec.structs import replace

from harness import __version__
from harness.analyze.placement import quality_of_run
from harness.config.board import Board, attached, load_board
from harness.decode.postmortem import is_postmortem
from harness.errors import FormatError, RunInProgressError, TargetError, UsageError
from harness.files import CappedBuffer, display_path, read_limited
from harness.flash.plan import Stages
from harness.link.messages import TargetInfo
from harness.link.session import Session
from harness.link.wire import Reset, State
from harness.records.result import Result, now_utc
from harness.records.trace import Trace
from harness.records.verdict import Verdict
from harness.runs.device import (
    ExaminedPostmortem,
    Lookup,
    describe_target,
    examine,
    fetch,
    no_symbols,
    pull_trace,
    record_pings,
    symbols_of_board,
    with_declared_clock,
)
from harness.runs.directory import CONSOLE, POSTMORTEM_IMAGE, RunDirectory
from harness.runs.source import EvaluatedRun, interpret_delegates, subject_of
from harness.target.selection import Chosen
from harness.target.start import start_target


def pull(
    chosen: Chosen,
    baud: int | None,
    output: Path,
    stages: Stages = lambda *_: None,
    *,
    wait_s: float | None = None,
    cancel: bool = False,
) -> EvaluatedRun:
    """Pull the trace of the last run from a running board into a run directory.

    Args:
        chosen: The board and its port.
        baud: Its rate after a reset; None for the one of the board file.
        output: The run directory to create.
        stages: Called to report progress.
        wait_s: Longest wait for the end of a run in progress, seconds; None for no waiting.
        cancel: End a run in progress after its current execution.

    Raises:
        UsageError: The board is unknown or has no port.
        TargetError: The board has completed no run.
        RunInProgressError: A run has not ended in time.
        InfrastructureError: The port cannot be opened, or the board does not answer.
    """
    began = time.monotonic()
    board, _ = load_board(chosen.board)
    directory = RunDirectory.create(output)
    console = CappedBuffer()
    with (
        chosen.held(reason="pull", timeout_s=board.deadlines.unit_s) as chosen,
        start_target(attached(board, baud), None, port=chosen.port) as target,
    ):
        port = chosen.port_name
        session = Session(
            target.transport,
            deadline_s=board.deadlines.request_s,
            console=console.extend,
            board=board.name,
        )
        greeted = _greet(session, board, stages, wait_s, cancel=cancel)
        info = with_declared_clock(greeted, board)
        status = session.status()
        if status.state != State.DONE:
            raise TargetError(
                f"{info.board} on {port} has no trace: no run has completed since its reset",
                hint="run a model first: `etharness run`",
            )
        pings = record_pings(session, info.clocks[0], emulated=board.emulated_time)
        trace, summary = pull_trace(
            session, info, directory, lambda done, total: stages("pulling", done, total)
        )
    trace = interpret_delegates(trace, board.time_scales, board.metadata, None)
    directory.write(CONSOLE, bytes(console))
    result = replace(
        pulled_result(board, chosen.unit or port or board.name, status.completed, began),
        port=port,
        console_left_out=console.left_out,
        target=describe_target(info),
        trace=summary,
        link=session.statistics.as_dict(),
        pings=pings,
        clock_quality=quality_of_run(trace, pings),
    )
    return pulled_run(directory, result, trace)


def _greet(
    session: Session, board: Board, stages: Stages, wait_s: float | None, *, cancel: bool
) -> TargetInfo:
    """Greet a board, after the end of the run that it is executing."""
    deadlines = board.deadlines
    try:
        return session.hello(deadlines.boot_s)
    except RunInProgressError as run:
        if wait_s is None and not cancel:
            raise
        session.join(
            run,
            timeout_s=deadlines.execute_s if wait_s is None else wait_s,
            silence_s=deadlines.execute_s,
            cancel=cancel,
            progress=partial(stages, "running"),
        )
    return session.hello(deadlines.boot_s)


def pulled_run(directory: RunDirectory, result: Result, trace: Trace) -> EvaluatedRun:
    """Complete the directory of a pulled trace, and return it without checks."""
    result = directory.finish(result)
    title = display_path(directory.path)
    return EvaluatedRun(title, subject_of(trace, result), Verdict(()), result)


def pulled_result(board: Board, unit: str, completed: int, began: float) -> Result:
    """Return what is known of runs that were over when the host began to look at the board."""
    own_id = uuid.uuid4().hex
    return Result(
        id=own_id,
        unit=unit,
        commit="",
        session=own_id,
        tool_version=__version__,
        started_utc=now_utc(),
        duration_s=round(time.monotonic() - began, 3),
        board=board.name,
        port=None,
        runs_requested=completed,
        runs_completed=completed,
        seed=0,
        exit_code=0,
        emulated_time=board.emulated_time,
        core=board.core and board.core.record(),
        time_scales=dict(board.time_scales),
        metadata=dict(board.metadata),
    )


_log = logging.getLogger(__name__)

MOST_DUMP: Final = 64 << 20
"""Largest postmortem or memory dump that contains one, bytes."""


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
        image = read_limited(file, MOST_DUMP)
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
        TargetError: The board sent an invalid postmortem.
        InfrastructureError: The port cannot be opened, or the board does not answer.
    """
    with (
        chosen.held(reason="postmortem", timeout_s=board.deadlines.unit_s) as chosen,
        start_target(attached(board, baud), None, port=chosen.port) as target,
    ):
        session = Session(target.transport, deadline_s=board.deadlines.request_s)
        session.hello(board.deadlines.boot_s)
        try:
            finding = fetch(session, lookup)
        except FormatError as error:
            raise TargetError(f"the device sent a damaged postmortem: {error.message}") from error
        if finding is not None and clear:
            session.reset(Reset.POSTMORTEM)
        return finding
