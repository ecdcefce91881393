"""Pulls the trace of the last run from a board that is already running."""

from __future__ import annotations

import time
import uuid
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path

from harness import __version__
from harness.analyze.placement import quality_of_run
from harness.capped import CappedBuffer
from harness.config.board import attached, load_board
from harness.errors import TargetError
from harness.lab.leases import hold_if
from harness.lab.units import Chosen
from harness.link.session import Session
from harness.link.wire import State
from harness.records.result import Result
from harness.runs.collect import describe_target, pull_trace, record_pings, steadiness_of
from harness.runs.directory import CONSOLE, RunDirectory
from harness.runs.run import FinishedRun
from harness.runs.source import on_time_scales
from harness.target import start_target
from harness.target.ports import describe


def pull(
    chosen: Chosen,
    baud: int | None,
    output: Path,
    stages: Callable[[str, int, int], None] = lambda *_: None,
) -> FinishedRun:
    """Pull the trace of the last run from a running board into a run directory.

    Raises:
        UsageError: The board is unknown or has no port.
        TargetError: The board has completed no run.
        InfrastructureError: The port cannot be opened, or the board does not answer.
    """
    began = time.monotonic()
    board, _ = load_board(chosen.board)
    directory = RunDirectory.create(output)
    console = CappedBuffer()
    with (
        hold_if(chosen.leased, reason="pull", timeout_s=board.deadlines.unit_s) as held,
        start_target(attached(board, baud), None, port=chosen.at(held).port) as target,
    ):
        chosen = chosen.at(held)
        port = describe(chosen.port) if chosen.port is not None else None
        session = Session(
            target.transport, deadline_s=board.deadlines.request_s, console=console.extend
        )
        info = session.hello(board.deadlines.boot_s)
        status = session.status()
        if status.state != State.DONE:
            raise TargetError(
                f"{info.board} on {port} has no trace: no run has completed since its reset",
                hint="run a model first: `etharness run`",
            )
        pings = record_pings(session)
        trace, summary = pull_trace(
            session, info, directory, lambda done, total: stages("pulling", done, total)
        )
    trace = on_time_scales(trace, board.time_scales, None)
    directory.write(CONSOLE, bytes(console))
    own_id = uuid.uuid4().hex
    result = Result(
        id=own_id,
        unit=chosen.unit or port or board.name,
        commit="",
        session=own_id,
        tool_version=__version__,
        started_utc=datetime.now(UTC).isoformat(timespec="seconds"),
        duration_s=round(time.monotonic() - began, 3),
        board=board.name,
        port=port,
        runs_requested=status.completed,
        runs_completed=status.completed,
        seed=0,
        exit_code=0,
        console_left_out=console.left_out,
        target=describe_target(info),
        trace=summary,
        link=session.statistics.as_dict(),
        pings=pings,
        emulated_time=board.emulated_time,
        time_scales=dict(board.time_scales),
        clock_quality=quality_of_run(trace, pings, steadiness=steadiness_of(board)),
    )
    return FinishedRun(directory.finish(result), trace)
