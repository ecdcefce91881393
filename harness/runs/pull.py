"""Reads the trace of the last run, or the postmortem of a crash, from a board that is running."""

from __future__ import annotations

import logging
import time
import uuid
from functools import partial
from pathlib import Path
from typing import Final

import numpy as np
from msgspec.structs import replace

from harness import __version__
from harness.analyze.blocks import executions
from harness.analyze.placement import quality_of_run
from harness.capped import CappedBuffer
from harness.config.board import Board, attached, load_board
from harness.decode.firmware_elf import FirmwareElf
from harness.decode.postmortem import is_postmortem
from harness.errors import FormatError, RunInProgressError, TargetError, UsageError
from harness.files import read_limited
from harness.lab.flash_plan import Stages
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
from harness.link.values import TargetInfo
from harness.link.wire import Reset, State
from harness.records.result import Result, now_utc
from harness.runs.delegates import interpret_delegates
from harness.runs.device_data import describe_target, record_pings, steadiness_of
from harness.runs.directory import (
    CONSOLE,
    PARTIAL,
    POSTMORTEM_IMAGE,
    RunDirectory,
)
from harness.runs.probe import (
    MemoryTracers,
    ProbeRequest,
    UnsettledError,
    decode_log,
    disturbance,
    probe_of,
    target_in_memory,
)
from harness.runs.run import FinishedRun
from harness.runs.trace_download import pull_trace
from harness.target.ports import describe
from harness.target.start import start_target


def pull(
    chosen: Chosen,
    baud: int | None,
    output: Path,
    stages: Stages = lambda *_: None,
    *,
    wait_s: float | None = None,
    cancel: bool = False,
) -> FinishedRun:
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
        hold_if(chosen.leased, reason="pull", timeout_s=board.deadlines.unit_s) as held,
        start_target(attached(board, baud), None, port=chosen.at(held).port) as target,
    ):
        chosen = chosen.at(held)
        port = describe(chosen.port) if chosen.port is not None else None
        session = Session(
            target.transport,
            deadline_s=board.deadlines.request_s,
            console=console.extend,
            board=board.name,
        )
        info = _greet(session, board, stages, wait_s, cancel=cancel)
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
    trace = interpret_delegates(trace, board.time_scales, board.metadata, None)
    directory.write(CONSOLE, bytes(console))
    result = replace(
        _pulled(board, chosen.unit or port or board.name, status.completed, began),
        port=port,
        console_left_out=console.left_out,
        target=describe_target(info),
        trace=summary,
        link=session.statistics.as_dict(),
        pings=pings,
        clock_quality=quality_of_run(trace, pings, steadiness=steadiness_of(board)),
    )
    return FinishedRun(directory.finish(result), trace)


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


def pull_by_probe(
    chosen: Chosen, wanted: ProbeRequest, output: Path, stages: Stages = lambda *_: None
) -> FinishedRun:
    """Read the trace of a board through a debug probe into a run directory; the board runs on.

    Raises:
        UsageError: The board or the firmware is unknown, or a symbol is missing.
        TargetError: The board runs other firmware, or has no complete log.
        InfrastructureError: The probe cannot be reached, or does not answer.
    """
    began = time.monotonic()
    board, _ = load_board(chosen.board)
    elf = FirmwareElf(wanted.elf)
    if wanted.until is not None:
        elf.function(wanted.until)
    directory = RunDirectory.create(output)
    with probe_of(chosen, board, "pull") as (chosen, probe):
        stages("reading the memory", 0, 0)
        tracers = MemoryTracers(probe, wanted, elf)
        if wanted.reset is not None:
            probe.reset(wanted.reset)
        try:
            if wanted.until is not None:
                log = tracers.read_at(wanted.until, 1, board.deadlines.execute_s)
            else:
                log = tracers.read_settled(board.deadlines.execute_s)
        except UnsettledError as error:
            directory.write(PARTIAL, error.log.image)
            raise
    trace, summary = decode_log(log, board, directory)
    trace = interpret_delegates(trace, board.time_scales, board.metadata, None)
    completed = int(np.count_nonzero(executions(trace)[0]))
    result = replace(
        _pulled(board, chosen.unit or str(chosen.port), completed, began),
        port=str(chosen.port),
        target=target_in_memory(board, elf, trace, tracers),
        trace=summary,
        link=disturbance(probe),
        clock_quality=quality_of_run(trace, (), steadiness=steadiness_of(board)),
    )
    return FinishedRun(directory.finish(result), trace)


def _pulled(board: Board, unit: str, completed: int, began: float) -> Result:
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
