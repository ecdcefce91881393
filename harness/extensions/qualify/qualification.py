"""The qualification of a board: its stages in order, their record on disk, and the verdict.

The record is written after every stage, so that a killed qualification is resumed where it was.
"""

from __future__ import annotations

import dataclasses
import hashlib
import json
import logging
import platform
import time
from collections.abc import Callable, Collection
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import msgspec
from msgspec.structs import replace

from harness import __version__
from harness.config.board import Board, NativeTarget, SerialTarget, load_board
from harness.errors import (
    FlashError,
    FormatError,
    HarnessError,
    LinkError,
    PortError,
    TargetError,
    TransportClosedError,
    UsageError,
)
from harness.extensions.qualify.bench import Bench, ended, failed
from harness.extensions.qualify.images import stage_on_image
from harness.extensions.qualify.record import (
    DONE,
    QUALIFICATION,
    Qualification,
    StageRecord,
    StageState,
)
from harness.extensions.qualify.stages import (
    WRAP_S,
    cost,
    counters,
    crash,
    flash,
    link,
    networks,
    ordinary_run,
    overflow,
    rate,
    reset,
    stream,
    wrap,
)
from harness.files import decode_json, write_atomic
from harness.flash.plan import HowToFlash, Stages
from harness.formatting import printable
from harness.records.result import ClockRecord, TargetRecord, encode, now_utc
from harness.runs.directory import to_clock_domain
from harness.target.ports import device_of, port_text
from harness.target.selection import Chosen, hold_keys, port_key
from harness.target.start import Target, start_target

_log = logging.getLogger(__name__)

CONSOLE: Final = "console.log"

LIMIT_S: Final = 600.0
"""Default of the longest time of a qualification, seconds."""

_USUAL_EXECUTE_S: Final = 60.0
"""Longest execution that board files of real and emulated boards expect."""

_SHORT_S: Final = 120.0
"""Longest time of a stage that grows with the slowness of a simulator."""

_OUT_OF_TIME_CODE: Final = 75
"""Exit code when only time was missing: the same command with --resume goes on."""


@dataclass(frozen=True, slots=True)
class Stage:
    """A stage.

    Attributes:
        name: Its name in options and records.
        title: What it proves.
        limit_s: The longest time that it may take, seconds.
        prove: Carries it out.
    """

    name: str
    title: str
    limit_s: float
    prove: Callable[[Bench], StageRecord]


STAGES: Final = (
    Stage("flash", "flash, and proof by the build id", 240, flash),
    Stage("link", "link at every rate, and its errors", 120, link),
    Stage("rate", "clock against the host's", 60, rate),
    Stage("cost", "cost of an event", 60, cost),
    Stage("overflow", "a log larger than its buffer", 60, overflow),
    Stage("stream", "a streamed log without loss", 60, stream),
    Stage("reset", "reset by the link", 60, reset),
    Stage("crash", "crash and postmortem", 60, crash),
    Stage("counters", "hardware counters that move", 60, counters),
    Stage("run", "an ordinary run and its checks", 120, ordinary_run),
    Stage("networks", "every network that fits against its reference", 240, networks),
    Stage("wrap", "clock across a wrap of its counter", WRAP_S, wrap),
)
"""All stages in order: those that take minutes on some boards come last."""

STAGE_NAMES: Final = tuple(stage.name for stage in STAGES)


def qualify(
    chosen: Chosen,
    output: Path,
    stages: Stages = lambda *_: None,
    open_target: Callable[..., Target] = start_target,
    *,
    how: HowToFlash | None = None,
    only: Collection[str] = (),
    skip: Collection[str] = (),
    resume: bool = False,
    quick: bool = False,
    limit_s: float = LIMIT_S,
    note: str = "",
) -> Qualification:
    """Prove a board stage by stage; write ``qualification.json`` after each.

    Args:
        chosen: The board; its unit is held.
        output: Directory for the record and the evidence.
        stages: Called to report progress.
        open_target: Opens the board, as ``start_target``.
        how: How to flash the board.
        only: Names of the stages to carry out; () for all.
        skip: Names of the stages to leave out.
        resume: Go on with the qualification in ``output``: stages that passed are not repeated.
        quick: Prove less: a small network in ``run``, the networks that take seconds, no wrap.
        limit_s: Longest time of this session, seconds; a stage under way may end after it.
        note: Text about the board, such as its revision, for the record and the ``tested`` line.

    Raises:
        UsageError: An argument is invalid, or does not go with the record to resume.
        InfrastructureError: The port or the host failed; resume it later.
    """
    board, file = load_board(chosen.board)
    for name in (*only, *skip):
        if name not in STAGE_NAMES:
            raise UsageError(f"no such stage: {name!r}", hint=f"stages: {', '.join(STAGE_NAMES)}")
    digest = hashlib.sha256(file.read_bytes()).hexdigest()
    if resume:
        record = _resumed(output / QUALIFICATION, board, digest, note, quick=quick)
    else:
        record = _fresh(chosen, board, digest, note, quick=quick)
    bench = Bench(board, chosen, output, how=how, stages=stages, open_target=open_target)
    bench.build_id = record.build_id or None
    bench.quick = quick
    _make(output)
    found = _Qualifier(bench, record, stages, limit_s, resume=resume)
    with ExitStack() as stack:
        unit_s = board.deadlines.unit_s
        bench.chosen = stack.enter_context(chosen.held(reason="qualify", timeout_s=unit_s))
        if not chosen.leased and isinstance(board.target, SerialTarget) and chosen.port is not None:
            # Each stage opens the port anew, and nobody may come between two of them.
            key = port_key(device_of(chosen.port))
            stack.enter_context(hold_keys([key], unit_s, reason="qualify"))
        stack.callback(lambda: write_atomic(output / CONSOLE, bench.console.kept))
        found.prove(
            {name for name in STAGE_NAMES if name not in skip and name in (only or STAGE_NAMES)}
        )
    return found.record


def _fresh(chosen: Chosen, board: Board, digest: str, note: str, *, quick: bool) -> Qualification:
    port = None if chosen.port is None else port_text(chosen.port)
    return Qualification(
        tool_version=__version__,
        host=f"{platform.system()} {platform.machine()}, Python {platform.python_version()}",
        started_utc=now_utc(),
        duration_s=0.0,
        board=board.name,
        description=board.description,
        board_sha256=digest,
        port=port,
        unit=chosen.unit or port or board.name,
        note=printable(note),
        quick=quick,
        emulated_time=board.emulated_time,
        qualified=False,
        exit_code=_OUT_OF_TIME_CODE,
        stages=tuple(StageRecord(each.name, each.title, "not run") for each in STAGES),
    )


def _resumed(file: Path, board: Board, digest: str, note: str, *, quick: bool) -> Qualification:
    """Read the record to go on with.

    Raises:
        UsageError: There is none, or it is of another board, board file or version.
    """
    record = read_qualification(file)
    if record.board != board.name or record.board_sha256 != digest:
        raise UsageError(
            f"{file} is of {record.board} with another board file",
            hint="qualify without --resume, as earlier stages prove nothing about this file",
        )
    if tuple(stage.name for stage in record.stages) != STAGE_NAMES:
        raise UsageError(
            f"{file} was written by etdump-harness {record.tool_version} with other stages",
            hint="qualify without --resume",
        )
    if record.quick != quick:
        raise UsageError(
            f"{file} is {'' if record.quick else 'not '}of a quick qualification",
            hint=f"qualify {'with' if record.quick else 'without'} --quick, or without --resume",
        )
    note = printable(note) or record.note
    return replace(record, resumed_utc=(*record.resumed_utc, now_utc()), note=note)


class _Qualifier:
    """A qualification in progress; ``record`` is valid at every moment."""

    def __init__(
        self, bench: Bench, record: Qualification, stages: Stages, limit_s: float, *, resume: bool
    ) -> None:
        self.record, self._bench, self._stages = record, bench, stages
        self._limit_s, self._resume = limit_s, resume
        self._began, self._earlier_s = time.monotonic(), record.duration_s

    def prove(self, wanted: Collection[str]) -> None:
        """Carry out the stages of these names."""
        until = time.monotonic() + self._limit_s
        if not (self._bench.is_real or self._bench.board.runner):
            built = self._bench.firmware = self._bench.build(stages=self._stages)
            if self._bench.placed_only:
                self._bench.how = dataclasses.replace(self._bench.how, image=built.image)
            self._check_build(self._bench.firmware.build_id)
            self._bench.build_id = self._bench.firmware.build_id
        silent = False
        for stage in STAGES:
            earlier = self.record.stage(stage.name)
            if self._resume and earlier.state in DONE:
                continue
            if stage.name not in wanted:
                self._put(stage, ended("skipped", "not asked for"))
                continue
            if self._bench.quick and stage.name == "wrap":
                self._put(stage, ended("skipped", "left out by --quick"))
                continue
            left = until - time.monotonic()
            if left <= 0:
                message = f"the {self._limit_s:.0f} s of --limit are over"
                self._put(stage, ended("not run", message, "go on with --resume"))
                continue
            if silent:
                self._put(stage, ended("not run", "the board did not answer"))
                continue
            silent = not self._prove(stage, left)
        self._write(conclude=True)

    def _check_build(self, build_id: str) -> None:
        if self._resume and self.record.build_id not in ("", build_id):
            raise UsageError(
                f"the firmware has changed since: build {build_id}, not {self.record.build_id}",
                hint="qualify without --resume",
            )

    def _longest_s(self, stage: Stage) -> float:
        """Return the longest time of a stage; a short one has more on a simulator of a core."""
        slowness = max(1.0, self._bench.board.deadlines.execute_s / _USUAL_EXECUTE_S)
        return stage.limit_s * (slowness if stage.limit_s <= _SHORT_S else 1.0)

    def _prove(self, stage: Stage, left_s: float) -> bool:
        """Carry out a stage; return whether there is anything left to ask the board."""
        limit_s = self._longest_s(stage)
        self._bench.begin(stage.title, min(limit_s, left_s))
        self._stages(stage.title, 0, 0)
        began, before = time.monotonic(), self._bench.info
        if stage.name == "flash":
            self._bench.build_id = None
        answers = True
        try:
            on_image = bool(self._bench.board.runner)
            prove = stage_on_image(stage.name) if on_image else stage.prove
            outcome = prove(self._bench)
        except (PortError, TransportClosedError):
            self._write()
            raise
        except (LinkError, TargetError, FormatError, FlashError) as error:
            outcome = failed(error.message, error.hint)
            if left_s < limit_s and self._bench.left_s < 1:
                # --limit has cut it off, so it says nothing about the board.
                outcome = ended("not run", error.message, "go on with --resume")
            # Nothing else can be proven of a board that has never answered.
            known = before is not None or self._bench.info is not None
            answers = known or on_image or stage.name == "flash"
        except (HarnessError, KeyboardInterrupt):
            self._write()
            raise
        self._put(stage, outcome, time.monotonic() - began)
        return answers

    def _put(self, stage: Stage, outcome: StageRecord, took_s: float = 0.0) -> None:
        record = replace(outcome, name=stage.name, title=stage.title, duration_s=round(took_s, 3))
        _log.info("%s: %s: %s", stage.name, record.state, record.message)
        stages = (record if each.name == stage.name else each for each in self.record.stages)
        self.record = replace(self.record, stages=tuple(stages))
        self._write()

    def _write(self, *, conclude: bool = False) -> None:
        info, record = self._bench.info or self._bench.described, self.record
        if info is not None:
            clock = info.clocks[0]
            if isinstance(clock, ClockRecord):
                clock = to_clock_domain(clock)
            kernels = info.kernels if info.kernels else "unknown kernels"
            if isinstance(info, TargetRecord):
                kernels = info.software
            record = replace(
                record,
                cpu=printable(info.cpu),
                build_id=printable(info.build_id),
                kernels=printable(kernels),
                clock=printable(f"{clock.name}, {clock.bits} bits, {float(clock.hz or 0):,.0f} Hz"),
            )
        record = replace(
            record, duration_s=round(self._earlier_s + time.monotonic() - self._began, 3)
        )
        if conclude:
            code = _exit_code(record)
            record = replace(record, qualified=code == 0, exit_code=code)
            if record.qualified and not record.quick:
                record = replace(record, tested=tested_line(record, self._bench.board))
        self.record = record
        write_atomic(self._bench.output / QUALIFICATION, encode(record))


def _exit_code(record: Qualification) -> int:
    quick_without = ("wrap",) if record.quick else ()
    states: set[StageState] = {
        stage.state for stage in record.stages if stage.name not in quick_without
    }
    if "failed" in states or "skipped" in states:
        return 1
    return _OUT_OF_TIME_CODE if "not run" in states else 0


def _make(folder: Path) -> None:
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise UsageError(
            f"cannot make {folder}: {error.strerror}", hint="name another directory with -o"
        ) from error


def read_qualification(file: Path) -> Qualification:
    """Read ``qualification.json``.

    Raises:
        UsageError: There is no such file, or it is not a qualification of this version.
    """
    try:
        return decode_json(file.read_bytes(), type_=Qualification)
    except OSError as error:
        raise UsageError(
            f"cannot read {file}: {error.strerror}",
            hint="name the directory of a qualification, or start one without --resume",
        ) from error
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise UsageError(f"{file} is not a qualification of this version: {error}") from error


def tested_line(record: Qualification, board: Board) -> str:
    """Return the line ``tested = ...`` for the file of a qualified board."""
    matched = [each.name for each in record.stage("networks").figures]
    matched = [name for name in matched if not _left_out(record, name)]
    rates = sorted({each.name.split()[0] for each in record.stage("link").figures})
    bauds = ", ".join(sorted((rate for rate in rates if rate.isdecimal()), key=int))
    where = record.note or (
        "a simulated board" if not isinstance(board.target, NativeTarget) else "this host"
    )
    if record.note == "" and record.port is not None:
        where = "a real board"
    absent = [each.name for each in record.stages if each.state == "not offered"]
    parts = [
        f"qualified on {where}, {record.started_utc[:10]}, etdump-harness {record.tool_version}, "
        f"build {record.build_id}",
        ", ".join(matched),
        f"{bauds} baud" if bauds else "",
        f"not offered: {', '.join(absent)}" if absent else "",
    ]
    # A JSON string of printable text is a TOML string.
    return f"tested = {json.dumps('; '.join(filter(None, parts)), ensure_ascii=False)}"


def _left_out(record: Qualification, name: str) -> bool:
    figures = record.stage("networks").figures
    return any(each.name == name and str(each.value).startswith("not run") for each in figures)
