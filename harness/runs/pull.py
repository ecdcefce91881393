"""Reads the trace of the last run from a board that is running."""

from __future__ import annotations

import time
import uuid
from functools import partial
from pathlib import Path
from typing import Any

from harness import __version__
from harness.analyze.placement import quality_of_run
from harness.config.board import Board, attached, load_board
from harness.errors import TargetError
from harness.files import CappedBuffer, display_path
from harness.flash.plan import Stages
from harness.link.wire import State
from harness.records.result import Result, now_utc
from harness.records.trace import Ping, Trace
from harness.records.verdict import Verdict
from harness.runs import device
from harness.runs.directory import CONSOLE, RunDirectory
from harness.runs.source import EvaluatedRun, interpret_delegates, subject_of
from harness.target.selection import Chosen
from harness.target.start import greet, started


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
        started(attached(board, baud), None, port=chosen.port, console=console.extend) as session,
    ):
        port, running = chosen.port_name, partial(stages, "running")
        info = greet(session, board, wait_s=wait_s, cancel=cancel, progress=running)
        status = session.status()
        if status.state != State.DONE:
            raise TargetError(
                f"{info.board} on {port} has no trace: no run has completed since its reset",
                hint="run a model first: `etharness run`",
            )
        pings = device.record_pings(session, info.clocks[0], emulated=board.emulated_time)
        trace, summary = device.pull_trace(
            session, info, directory, lambda done, total: stages("pulling", done, total)
        )
    directory.write(CONSOLE, bytes(console))
    return finish_pull(
        directory,
        board,
        trace,
        began=began,
        pings=pings,
        unit=chosen.unit or port or board.name,
        port=port,
        runs_requested=status.completed,
        runs_completed=status.completed,
        console_left_out=console.left_out,
        target=device.describe_target(info),
        trace=summary,
        link=session.statistics.as_dict(),
    )


def finish_pull(
    directory: RunDirectory,
    board: Board,
    logged: Trace,
    *,
    began: float,
    pings: tuple[Ping, ...] = (),
    **facts: Any,
) -> EvaluatedRun:
    """Complete the directory of a pulled trace, and return it without checks.

    Args:
        directory: The run directory.
        board: The board type.
        logged: The trace as the board logged it.
        began: ``time.monotonic()`` when the host began to look at the board, after the runs.
        pings: Readings of clock 0.
        **facts: Further fields of the result.
    """
    trace = interpret_delegates(logged, board.time_scales, board.metadata, None)
    own_id = uuid.uuid4().hex
    result = Result(
        id=own_id,
        commit="",
        session=own_id,
        tool_version=__version__,
        started_utc=now_utc(),
        duration_s=round(time.monotonic() - began, 3),
        board=board.name,
        seed=0,
        exit_code=0,
        emulated_time=board.emulated_time,
        core=board.core and board.core.record(),
        time_scales=dict(board.time_scales),
        metadata=dict(board.metadata),
        pings=pings,
        clock_quality=quality_of_run(trace, pings),
        **facts,
    )
    result = directory.finish(result)
    title = display_path(directory.path)
    return EvaluatedRun(title, subject_of(trace, result), Verdict(()), result)
