"""One run of one model on one target, from the board's name to a verdict in a run directory."""

from __future__ import annotations

import dataclasses
import hashlib
import logging
import os
import time
import uuid
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING

from msgspec.structs import replace

from harness import __version__
from harness.analyze.converters import parse_time_scales
from harness.analyze.placement import quality_of_run
from harness.capped import CappedBuffer
from harness.check.budget import load_budget
from harness.check.history.comparison import HistoryComparison
from harness.check.subject import model_name
from harness.config.board import Board, SerialTarget, load_board
from harness.decode.program import Method
from harness.errors import (
    DeviceRefusedError,
    FormatError,
    HarnessError,
    HostError,
    InfrastructureError,
    LinkError,
    Owner,
    RestartedError,
    UsageError,
)
from harness.files import absolute, display_path, find_model, read_model
from harness.lab.flash_plan import FlashRequest, Stages
from harness.lab.flashing import flash_and_open
from harness.lab.postmortem import symbols_of_board
from harness.lab.units import check_identity, hold_if
from harness.link.run import LogChunks, RunOutcome
from harness.link.session import Session
from harness.link.values import ModelInfo, TargetInfo
from harness.link.wire import Region, Status
from harness.records.clock_domain import Ping
from harness.records.result import UNFINISHED, Failure, Model, Result, TensorRecord, now_utc
from harness.records.trace import Trace
from harness.records.verdict import Verdict
from harness.runs.admission import check_operators, check_room, place_model
from harness.runs.device_data import (
    delegate_calls,
    describe_target,
    explain,
    from_bytes,
    instruction_records,
    planned_sizes,
    pull_trace,
    read_inputs,
    read_method,
    read_references,
    record_pings,
    record_restart,
    save_earlier_postmortem,
    save_references,
    steadiness_of,
    to_bytes,
    with_declared_clock,
    with_firmware,
    with_inputs,
    with_target,
)
from harness.runs.directory import CONSOLE, PARTIAL, RunDirectory
from harness.runs.evaluation import EvaluatedRun, evaluate_run, verdict_record, with_evidence
from harness.runs.request import SESSION_VARIABLE, RunRequest, current_commit
from harness.runs.source import on_time_scales
from harness.target.build import build_firmware, image_size
from harness.target.start import Target, start_target

if TYPE_CHECKING:
    import numpy as np

_log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class FinishedRun:
    """A finished run.

    Attributes:
        result: The result, as in ``result.json``.
        trace: The trace, on the time scales of the result.
        comparison: The comparison with its history; None without a history.
    """

    result: Result
    trace: Trace
    comparison: HistoryComparison | None = None


def run_model(
    request: RunRequest,
    stages: Stages = lambda *_: None,
    ended: Callable[[EvaluatedRun], None] = lambda _: None,
) -> FinishedRun:
    """Run a model and write a run directory, also if the run fails after its start.

    Args:
        request: The request.
        stages: Called to report progress.
        ended: Called once the run directory is complete, also after a failure.

    Returns:
        The result, with exit code 0 or 1 by its verdict, and the trace.

    Raises:
        UsageError: The request is invalid; nothing was started.
        TargetError: The target misbehaved.
        InfrastructureError: The link, the port or the host failed.
    """
    # Everything that can be checked beforehand is, so that a wrong request starts nothing.
    board, board_file = load_board(request.board)
    request = dataclasses.replace(request, model=find_model(request.model))
    model = read_model(request.model)
    _check_placed(request, board)
    budget_file = _budget_file(request, board, board_file)
    references = read_references(request.references)
    if request.against is not None:
        request.against.check()
    # The first matching pattern applies, so those of the request come first.
    scales = {**request.time_scales, **board.time_scales, **request.time_scales}
    parse_time_scales(scales)
    directory = RunDirectory.create(request.output)
    run = _Run(request, board, model, directory, stages, scales, references)
    try:
        with _as_host_error(f"the run in {request.output} was cut short"):
            trace = run.execute()
            run.evaluate(trace, budget_file)
    except HarnessError as error:
        failure = Failure(type(error).__name__, error.message, error.hint, error.owner)
        run.fail(failure, error.exit_code)
        raise
    except KeyboardInterrupt:
        run.fail(Failure("KeyboardInterrupt", "interrupted", "", Owner.HOST), 130)
        raise
    finally:
        write_error = run.finish()
        ended(run.evaluated_run)
    if write_error is not None:
        raise write_error
    return FinishedRun(run.result, trace, run.evaluated_run.comparison)


def _check_placed(request: RunRequest, board: Board) -> None:
    """Refuse to place a model in firmware that this run does not build."""
    kept = isinstance(board.target, SerialTarget) and request.flash is None
    if request.placed and (kept or (request.flash and request.flash.image)):
        raise UsageError(
            f"cannot place the model: this run does not build the firmware of {board.name}",
            hint="flash the board with --flash and without --image; a board whose firmware has the "
            "model already needs no --placed",
        )


def _budget_file(request: RunRequest, board: Board, board_file: Path) -> Path | None:
    """Return the budget file of the request, else of the board, once it is known to be valid."""
    # Absolute, because it is recorded with the verdict and read again from other folders.
    file = absolute(request.budget) if request.budget else None
    if file is None and board.budget:
        file = board_file.parent / board.budget
    if file is not None:
        name = model_name(request.model.name)
        load_budget(file, board.name, name, request.unit_name or board.name)
    return file


@contextmanager
def _as_host_error(consequence: str) -> Iterator[None]:
    """Turn errors of the operating system into HostError, with their consequence."""
    try:
        yield
    except (OSError, MemoryError) as error:
        raise HostError.of(error, consequence) from error


class _Run:
    """A run in progress; ``result`` is valid at every moment.

    The methods stand in the order in which they are called.
    """

    def __init__(
        self,
        request: RunRequest,
        board: Board,
        model: bytes,
        directory: RunDirectory,
        stages: Stages,
        time_scales: dict[str, str],
        references: list[np.ndarray],
    ) -> None:
        self.references = references
        self.request, self.board, self.model = request, board, model
        self.directory, self.stages = directory, stages
        self.console = CappedBuffer()
        self._evaluated: EvaluatedRun | None = None
        self.began = time.monotonic()
        unfinished = Failure(UNFINISHED, "the run was cut off", "run it again", Owner.HOST)
        own_id = uuid.uuid4().hex
        self.result = Result(
            id=own_id,
            tool_version=__version__,
            started_utc=now_utc("milliseconds"),
            duration_s=0.0,
            board=board.name,
            port=request.port_name,
            unit=request.unit_name or board.name,
            commit=current_commit(request.model) if request.commit is None else request.commit,
            session=request.session or os.environ.get(SESSION_VARIABLE, "") or own_id,
            runs_requested=request.runs,
            runs_completed=0,
            seed=request.seed,
            emulated_time=board.emulated_time,
            time_scales=time_scales,
            settings=with_firmware(request.settings, board),
            exit_code=InfrastructureError.exit_code,
            failure=unfinished,
        )
        # Describes the run if the process is killed before it can write the final result.
        directory.write_result(self.result)

    def execute(self) -> Trace:
        """Start the target, run the model on it, and read outputs and trace."""
        with ExitStack() as stack:
            self._hold_unit(stack)
            target, build_id = self._start(stack)
            _log.info("started %s", target.description)
            session = Session(
                target.transport,
                deadline_s=self.board.deadlines.request_s,
                console=self.console.extend,
                check_alive=target.check_alive,
            )
            try:
                info = self._connect(session, build_id)
                if info.postmortem:
                    save_earlier_postmortem(session, self.directory)
                model_info = self._load(session, info)
                self._set_inputs(session, model_info)
                outcome, restart = self._execute(session)
                self._read_outputs(session, model_info)
                trace = self._pull(session, info, outcome, restart)
                session.status()  # updates the link counters of the device's side
                self._restore_baud(session)
            except RestartedError as error:
                explained, completed = explain(
                    *(error, session, self.board.deadlines.boot_s, self.directory),
                    symbols_of_board(self.board),
                )
                self._update(runs_completed=completed or 0)
                raise explained from error
            finally:
                self._update(link=session.statistics.as_dict())
        return trace

    def _hold_unit(self, stack: ExitStack) -> None:
        """Hold the unit; use the port and the name of the place that labgrid reports for it."""
        request = self.request
        reason = f"run of {request.model.name}"
        timeout_s = self.board.deadlines.unit_s
        unit = stack.enter_context(hold_if(request.leased, reason=reason, timeout_s=timeout_s))
        if unit is None or unit.lease == "local":
            return
        name = unit.id if request.leased and request.leased.match else None
        self.request = dataclasses.replace(request, port=unit.port, unit=name or request.unit)
        self._update(port=self.request.port_name, unit=self.request.unit_name)

    def _start(self, stack: ExitStack) -> tuple[Target, str | None]:
        """Start or flash the board; return it, closed with ``stack``, and its expected build id."""
        request, firmware = self.request, None
        flash = request.flash
        started_here = not isinstance(self.board.target, SerialTarget)
        if (started_here and flash is None) or (flash and flash.image is None):
            self.stages("building the firmware", 0, 0)
            placed = None
            if request.placed:
                placed = place_model(request.model, self.model, self.board)
            firmware = build_firmware(self.board, placed)
            self._update(image=image_size(firmware))
        if flash is not None:
            how = dataclasses.replace(flash, image=firmware.image) if firmware else flash
            wanted = FlashRequest(
                request.board, self.directory.path, how, request.port, self.result.unit
            )
            return flash_and_open(stack, wanted, self.stages)
        target = stack.enter_context(start_target(self.board, firmware, port=request.port))
        return target, firmware.build_id if firmware else None

    def _connect(self, session: Session, build_id: str | None) -> TargetInfo:
        """Wait for HELLO, check that the target is the expected one, and raise the baud rate."""
        info = session.hello(self.board.deadlines.boot_s)
        info = with_declared_clock(info, self.board)
        settings = with_target(self.result.settings, info, self.model)
        self._update(target=describe_target(info), settings=settings)
        check_identity(info, self.board, build_id)
        self._raise_baud(session, info)
        _log.info("%s answers, firmware %s", info.board, info.build_id)
        return info

    def _raise_baud(self, session: Session, info: TargetInfo) -> None:
        """Move to the requested rate, or to the best rate that its unit or board file lists."""
        target, wanted = self.board.target, self.request.baud
        if wanted is None:
            listed = target.bauds if isinstance(target, SerialTarget) else ()
            unit = self.request.leased
            self._update(baud=session.raise_baud(unit.rates(listed) if unit else listed))
            return
        if wanted not in info.bauds:
            rates = ", ".join(map(str, info.bauds)) or "its default rate only"
            raise UsageError(
                f"{info.board} does not support {wanted} baud", hint=f"supported: {rates}"
            )
        self._update(baud=session.raise_baud([wanted]))
        if not self.result.baud:
            raise UsageError(
                f"the connection to {info.board} has no baud rate to change to {wanted}",
                hint="omit --baud, or connect through rfc2217://",
            )
        if self.result.baud != wanted:
            raise LinkError(
                f"{info.board} does not answer at {wanted} baud, only at {self.result.baud}",
                hint="omit --baud, or use a lower rate: the adapter or cable may limit it",
            )

    def _load(self, session: Session, info: TargetInfo) -> ModelInfo:
        check_room(info, self.board, self.model, self.request.model)
        check_operators(info, self.board, self._method, self.request.model)
        try:
            loaded = session.load_model(
                self.model,
                method=self.request.method,
                progress=lambda done, total: self.stages("uploading", done, total),
            )
        except DeviceRefusedError as error:
            if error.status == Status.NO_METHOD:
                raise UsageError(
                    f"cannot run {self.request.model}: {error.message}",
                    hint="select another method with --method",
                ) from error
            if error.status == Status.BAD_PROGRAM:
                raise FormatError(
                    f"{self.request.model} is not a complete ExecuTorch program: {error.message}",
                    offset=error.detail,
                    hint="export it again, or copy it again and compare sizes",
                ) from error
            raise
        _log.info("loaded %s, %d bytes", self.request.model, len(self.model))
        return loaded

    @cached_property
    def _method(self) -> Method | None:
        """The method that runs; None if the file cannot be read, which the device reports."""
        return read_method(self.model, self.request.method)

    def _set_inputs(self, session: Session, info: ModelInfo) -> None:
        wanted = (len(info.outputs), self.request.rtol, self.request.atol)
        self._update(reference=save_references(self.directory, self.references, *wanted))
        arrays = read_inputs(self.request.inputs, info.inputs, self.request.seed)
        inputs = []
        for index, (array, tensor) in enumerate(zip(arrays, info.inputs, strict=True)):
            sizes = array.shape if tensor.dynamic else ()
            session.set_input(index, to_bytes(array, tensor), sizes=sizes)
            file = self.directory.write_tensor(f"inputs/{index}.npy", array)
            inputs.append(TensorRecord(tensor.scalar_type, array.shape, array.nbytes, file))
        self._update(settings=with_inputs(self.result.settings, info, inputs))
        self._update(
            model=Model(
                file=display_path(self.request.model),
                sha256=hashlib.sha256(self.model).hexdigest(),
                nbytes=len(self.model),
                planned_bytes=info.planned_bytes,
                method_bytes=info.method_bytes,
                method=self.request.method,
                delegates=delegate_calls(self._method),
                planned=planned_sizes(self._method),
                chains=instruction_records(self._method),
                inputs=tuple(inputs),
                outputs=(),
            )
        )

    def _execute(self, session: Session) -> tuple[RunOutcome, Ping | None]:
        """Run the model between two series of pings; return the restart of its clock, too."""
        self._update(pings=record_pings(session))
        outcome = self._run_model(session)
        self._update(runs_completed=outcome.completed)
        after = record_pings(session)
        restart = record_restart(outcome, after)
        self._update(pings=self.result.pings + after, restart=restart)
        return outcome, restart

    def _run_model(self, session: Session) -> RunOutcome:
        """Run the model; save the received part of a streamed log if that fails."""
        chunks = LogChunks()
        try:
            return session.run(
                self.request.runs,
                self.request.options,
                chunks=chunks,
                timeout_s=self.board.deadlines.execute_s,
                progress=lambda done, total: self.stages("running", done, total),
            )
        except (HarnessError, KeyboardInterrupt):
            if whole := chunks.whole():
                self.directory.write(PARTIAL, b"".join(whole))
            raise

    def _read_outputs(self, session: Session, info: ModelInfo) -> None:
        outputs = []
        for index, declared in enumerate(info.outputs):
            tensor = session.output_info(index, declared)
            array = from_bytes(session.read(Region.OUTPUT, index), tensor)
            file = self.directory.write_tensor(f"outputs/{index}.npy", array)
            outputs.append(TensorRecord(tensor.scalar_type, tensor.sizes, tensor.nbytes, file))
        if self.result.model is not None:
            self._update(model=replace(self.result.model, outputs=tuple(outputs)))

    def _pull(
        self, session: Session, info: TargetInfo, outcome: RunOutcome, restart: Ping | None
    ) -> Trace:
        """Pull the trace, put it on its time scales, and rate its clock."""
        trace, summary = pull_trace(
            session,
            info,
            self.directory,
            lambda done, total: self.stages("pulling", done, total),
            outcome.chunks,
        )
        trace = on_time_scales(trace, self.result.time_scales, self.result.model)
        quality = quality_of_run(trace, self.result.pings, restart, steadiness_of(self.board))
        self._update(trace=summary, clock_quality=quality)
        return trace

    def _restore_baud(self, session: Session) -> None:
        """Return to the default rate, where a monitor or the next run finds the board at once."""
        try:
            session.restore_baud()
        except InfrastructureError as error:
            # All data has been transferred, and the board falls back to its default rate by itself.
            _log.warning("%s", error.message)

    def evaluate(self, trace: Trace, budget_file: Path | None) -> None:
        self._update(failure=None)
        path = self.directory.path
        self._evaluated = evaluate_run(
            *(display_path(path), trace, self.result, budget_file, path),
            history=self.request.against,
        )
        verdict = verdict_record(self._evaluated)
        self._update(verdict=verdict, exit_code=self._evaluated.verdict.exit_code)

    @property
    def evaluated_run(self) -> EvaluatedRun:
        """The run for reports; without checks if it failed."""
        path = self.directory.path
        failed = EvaluatedRun(display_path(path), None, Verdict(()), directory=path)
        return with_evidence(dataclasses.replace(self._evaluated or failed, result=self.result))

    def fail(self, failure: Failure, exit_code: int) -> None:
        self._update(failure=failure, exit_code=exit_code)

    def finish(self) -> HostError | None:
        """Write the console and the result; log and return an error, None if both are written."""
        self._update(
            duration_s=round(time.monotonic() - self.began, 3),
            console_left_out=self.console.left_out,
        )
        # The result comes last, because it records the other files. An error of the result wins.
        console = self._write("console", lambda: self.directory.write(CONSOLE, bytes(self.console)))
        result = self._write("result", self._finish_directory)
        return result or console

    def _finish_directory(self) -> None:
        self.result = self.directory.finish(self.result)

    def _write(self, name: str, write: Callable[[], None]) -> HostError | None:
        try:
            with _as_host_error(f"the {name} of the run in {self.request.output} was not saved"):
                write()
        except HostError as error:
            _log.error("%s", error.message)
            return error
        return None

    def _update(self, **facts: object) -> None:
        self.result = replace(self.result, **facts)
