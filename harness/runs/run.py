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
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING

from msgspec.structs import replace

from harness import __version__
from harness.analyze.converters import parse_time_scales
from harness.analyze.host_times import quality_of_run
from harness.capped import CappedBuffer
from harness.check.budget import load_budget
from harness.check.history.comparison import HistoryComparison
from harness.check.subject import model_name
from harness.config.board import Board, SerialTarget, load_board
from harness.config.unit import Unit
from harness.errors import (
    DeviceRefusedError,
    FormatError,
    HarnessError,
    HostError,
    InfrastructureError,
    LinkError,
    Owner,
    RestartedError,
    TargetError,
    UsageError,
)
from harness.files import absolute, shown
from harness.lab.flash_plan import FlashRequest
from harness.lab.flashing import flashed
from harness.lab.leases import hold_if
from harness.lab.postmortem import symbols_of_board
from harness.lab.target_identity import refuse_other_target
from harness.link.answers import ModelInfo, TargetInfo
from harness.link.run import RunOutcome
from harness.link.session import Session
from harness.link.transfer import LogChunks
from harness.link.wire import Region, Status
from harness.records.result import UNFINISHED, Failure, Model, Result, TensorRecord
from harness.records.trace import Trace
from harness.records.verdict import Verdict
from harness.resources import find_model
from harness.runs.collect import (
    delegate_calls,
    describe_target,
    planned_sizes,
    pull_trace,
    read_method,
    record_pings,
    record_restart,
    steadiness_of,
)
from harness.runs.directory import CONSOLE, PARTIAL, RunDirectory
from harness.runs.evaluation import judged, recorded, with_evidence
from harness.runs.judged_run import JudgedRun
from harness.runs.postmortem import explain, keep_earlier
from harness.runs.provenance import SESSION_VARIABLE, current_commit
from harness.runs.request import RunRequest
from harness.runs.source import on_time_scales
from harness.runs.tensors import from_bytes, keep_references, read_inputs, read_references, to_bytes
from harness.target import Target, start_target
from harness.target.build import build_firmware
from harness.target.size import image_size

if TYPE_CHECKING:
    import numpy as np

_log = logging.getLogger(__name__)

Stages = Callable[[str, int, int], None]
"""Called with (stage, done, total) as a run goes on; total 0 means unknown."""


@dataclass(frozen=True, slots=True)
class FinishedRun:
    """A finished run.

    Attributes:
        result: What ``result.json`` says.
        trace: What was logged, on the time scales that the result says.
        comparison: What came of holding it against its history, if that was asked for.
    """

    result: Result
    trace: Trace
    comparison: HistoryComparison | None = None


def run_model(
    request: RunRequest,
    stages: Stages = lambda *_: None,
    ended: Callable[[JudgedRun], None] = lambda _: None,
) -> FinishedRun:
    """Run a model and leave a run directory, whatever happens once the target is being started.

    Args:
        request: What to run.
        stages: Told how far it is.
        ended: Called once the run directory is complete, also of a run that failed.

    Returns:
        The result, with exit code 0 or 1 by its verdict, and the trace.

    Raises:
        UsageError: The request is wrong; nothing was started.
        TargetError: The target misbehaved.
        InfrastructureError: Something between us and it failed.
    """
    board, board_file = load_board(request.board)
    request = dataclasses.replace(request, model=find_model(request.model))
    try:
        model = request.model.read_bytes()
    except OSError as error:
        raise UsageError(
            f"cannot read the model {shown(request.model)}: {error.strerror}",
            hint="--model takes a .pte file, or the name of a model that comes with the package, "
            "such as kws_int8",
        ) from error
    # Recorded with the verdict, and looked for again from any folder.
    budget_file = absolute(request.budget) if request.budget else None
    if budget_file is None and board.budget:
        budget_file = board_file.parent / board.budget
    if budget_file:
        # What is wrong with it shows before anything is started.
        name = model_name(request.model.name)
        load_budget(budget_file, board.name, name, request.unit_name or board.name)
    references = read_references(request.references)
    if request.against is not None:
        request.against.check()
    # The request's come first and win; what is wrong with any shows before anything is started.
    scales = {**request.time_scales, **board.time_scales, **request.time_scales}
    parse_time_scales(scales)
    directory = RunDirectory.create(request.output)
    run = _Run(request, board, model, directory, stages, scales, references)
    try:
        with _of_this_host(f"the run in {request.output} was cut short"):
            trace = run.execute()
            run.judge(trace, budget_file)
    except HarnessError as error:
        failure = Failure(type(error).__name__, error.message, error.hint, error.owner)
        run.fail(failure, error.exit_code)
        raise
    except KeyboardInterrupt:
        run.fail(Failure("KeyboardInterrupt", "interrupted", "", Owner.HOST), 130)
        raise
    finally:
        unkept = run.finish()
        ended(run.reported)
    if unkept is not None:
        raise unkept
    return FinishedRun(run.result, trace, run.reported.comparison)


@contextmanager
def _of_this_host(what: str) -> Iterator[None]:
    """Say of what the system refuses that it is this host's failure, and what came of it."""
    try:
        yield
    except (OSError, MemoryError) as error:
        raise HostError.of(error, what) from error


class _Run:
    """The facts of a run as they become known; ``result`` is complete at every moment."""

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
        self._judged: JudgedRun | None = None
        self.began = time.monotonic()
        unfinished = Failure(UNFINISHED, "the run was cut off", "run it again", Owner.HOST)
        own_id = uuid.uuid4().hex
        self.result = Result(
            id=own_id,
            tool_version=__version__,
            started_utc=datetime.now(UTC).isoformat(timespec="seconds"),
            duration_s=0.0,
            board=board.name,
            port=request.port_name,
            unit=request.unit_name or board.name,
            commit=current_commit(request.model) if request.commit is None else request.commit,
            session=request.session or os.environ.get(SESSION_VARIABLE, "") or own_id,
            runs_requested=request.runs,
            runs_completed=0,
            seed=request.seed,
            time_scales=time_scales,
            exit_code=InfrastructureError.exit_code,
            failure=unfinished,
        )
        # Until the end this is the truth, should there be no chance to write another one.
        directory.write_result(self.result)

    def execute(self) -> Trace:
        deadlines = self.board.deadlines
        with ExitStack() as stack:
            reason = f"run of {self.request.model.name}"
            leased = self.request.leased
            held = hold_if(leased, reason=reason, timeout_s=deadlines.unit_s)
            self._found(stack.enter_context(held))
            target, build_id = self._start(stack)
            _log.info("started %s", target.description)
            session = Session(
                target.transport,
                deadline_s=deadlines.request_s,
                console=self.console.extend,
                check_alive=target.check_alive,
            )
            try:
                target_info = session.hello(deadlines.boot_s)
                self._learn(target=describe_target(target_info))
                refuse_other_target(target_info, self.board, build_id)
                self._raise_baud(session, target_info)
                _log.info("%s answers, firmware %s", target_info.board, target_info.build_id)
                keep_earlier(session, self.directory)
                model_info = self._load(session, target_info)
                _log.info("loaded %s, %d bytes", self.request.model, len(self.model))
                self._feed(session, model_info)
                self._learn(pings=record_pings(session))
                outcome = self._execute(session, deadlines.execute_s)
                self._learn(runs_completed=outcome.completed)
                after = record_pings(session)
                restart = record_restart(outcome, after)
                self._learn(pings=self.result.pings + after, restart=restart)
                self._keep_outputs(session, model_info)
                trace, summary = pull_trace(
                    session,
                    target_info,
                    self.directory,
                    lambda d, t: self.stages("pulling", d, t),
                    outcome.chunks,
                )
                trace = on_time_scales(trace, self.result.time_scales, self.result.model)
                quality = quality_of_run(
                    trace, self.result.pings, restart, steadiness_of(self.board)
                )
                self._learn(trace=summary, clock_quality=quality)
                session.status()  # for what it says of the device's side of the link
                self._restore_baud(session)
            except RestartedError as error:
                explained, completed = explain(
                    *(error, session, deadlines.boot_s, self.directory),
                    symbols_of_board(self.board),
                )
                self._learn(runs_completed=completed or 0)
                raise explained from error
            finally:
                self._learn(link=session.statistics.as_dict())
        return trace

    def _found(self, unit: Unit | None) -> None:
        """Go on with the port that a coordinator of units says, and with the unit's name there."""
        if unit is None or unit.lease == "local":
            return
        name = unit.id if self.request.leased and self.request.leased.match else None
        self.request = dataclasses.replace(
            self.request, port=unit.port, unit=name or self.request.unit
        )
        self._learn(port=self.request.port_name, unit=self.request.unit_name)

    def _start(self, stack: ExitStack) -> tuple[Target, str | None]:
        """The running board, which ends with ``stack``, and the build id that it is to have."""
        request, firmware = self.request, None
        flash = request.flash
        started_here = not isinstance(self.board.target, SerialTarget)
        if (started_here and flash is None) or (flash and flash.image is None):
            self.stages("building the firmware", 0, 0)
            firmware = build_firmware(self.board)
            self._learn(image=image_size(firmware, firmware.preset))
        if flash is not None:
            how = dataclasses.replace(flash, image=firmware.image) if firmware else flash
            wanted = FlashRequest(
                request.board, self.directory.path, how, request.port, self.result.unit
            )
            return flashed(stack, wanted, self.stages)
        target = stack.enter_context(start_target(self.board, firmware, port=request.port))
        return target, firmware.build_id if firmware else None

    def judge(self, trace: Trace, budget_file: Path | None) -> None:
        self._learn(failure=None)
        path = self.directory.path
        self._judged = judged(
            *(shown(path), trace, self.result, budget_file, path), history=self.request.against
        )
        verdict = recorded(self._judged)
        self._learn(verdict=verdict, exit_code=0 if verdict.passed else 1)

    @property
    def reported(self) -> JudgedRun:
        """What there is to report of it."""
        path = self.directory.path
        unjudged = JudgedRun(shown(path), None, Verdict(()), directory=path)
        return with_evidence(dataclasses.replace(self._judged or unjudged, result=self.result))

    def fail(self, failure: Failure, exit_code: int) -> None:
        self._learn(failure=failure, exit_code=exit_code)

    def finish(self) -> HostError | None:
        """Write what is left to write; what cannot be is said, and returned."""
        self._learn(
            duration_s=round(time.monotonic() - self.began, 3),
            console_left_out=self.console.left_out,
        )
        # The console first, as the result is the last file of a run; but it is worth less.
        console = self._keep("console", lambda: self.directory.write(CONSOLE, bytes(self.console)))
        result = self._keep("result", self._finish_directory)
        return result or console

    def _finish_directory(self) -> None:
        self.result = self.directory.finish(self.result)

    def _keep(self, what: str, write: Callable[[], None]) -> HostError | None:
        try:
            with _of_this_host(f"the {what} of the run in {self.request.output} is not kept"):
                write()
        except HostError as error:
            _log.error("%s", error.message)
            return error
        return None

    def _learn(self, **facts: object) -> None:
        self.result = replace(self.result, **facts)

    def _raise_baud(self, session: Session, info: TargetInfo) -> None:
        """Move to the rate that was asked for, or to the best that its unit or board file lists."""
        target, wanted = self.board.target, self.request.baud
        if wanted is None:
            listed = target.bauds if isinstance(target, SerialTarget) else ()
            unit = self.request.leased
            self._learn(baud=session.raise_baud(unit.rates(listed) if unit else listed))
            return
        if wanted not in info.bauds:
            rates = ", ".join(map(str, info.bauds)) or "one rate only"
            raise UsageError(f"{info.board} cannot do {wanted} baud", hint=f"it has {rates}")
        self._learn(baud=session.raise_baud([wanted]))
        if not self.result.baud:
            raise UsageError(
                f"the connection to {info.board} has no rate that could be changed to {wanted} "
                "baud",
                hint="omit --baud, or have its server speak rfc2217://",
            )
        if self.result.baud != wanted:
            raise LinkError(
                f"{info.board} could not be heard at {wanted} baud, only at {self.result.baud}",
                hint="omit --baud, or ask for less: the adapter or the cable may not carry it",
            )

    def _restore_baud(self, session: Session) -> None:
        """Leave the board where a monitor or the next run finds it at once."""
        try:
            session.restore_baud()
        except InfrastructureError as error:
            # Everything has been brought over, and the board will go back by itself.
            _log.warning("%s", error.message)

    def _load(self, session: Session, info: TargetInfo) -> ModelInfo:
        if len(self.model) > info.model_capacity:
            raise TargetError(
                f"{self.request.model} is too large for {info.board}: {len(self.model)} bytes, "
                f"it takes models of up to {info.model_capacity} bytes"
            )
        try:
            return session.load_model(
                self.model,
                method=self.request.method,
                progress=lambda done, total: self.stages("uploading", done, total),
            )
        except DeviceRefusedError as error:
            if error.status == Status.NO_METHOD:
                raise UsageError(
                    f"cannot run {self.request.model}: {error.message}",
                    hint="choose one of its methods with --method",
                ) from error
            if error.status == Status.BAD_PROGRAM:
                raise FormatError(
                    f"{self.request.model} is not a whole ExecuTorch program: {error.message}",
                    offset=error.detail,
                    hint="export it again, or copy it again and compare sizes",
                ) from error
            raise

    def _feed(self, session: Session, info: ModelInfo) -> None:
        wanted = (len(info.outputs), self.request.rtol, self.request.atol)
        self._learn(reference=keep_references(self.directory, self.references, *wanted))
        arrays = read_inputs(self.request.inputs, info.inputs, self.request.seed)
        inputs = []
        for index, (array, tensor) in enumerate(zip(arrays, info.inputs, strict=True)):
            sizes = array.shape if tensor.dynamic else ()
            session.set_input(index, to_bytes(array, tensor), sizes=sizes)
            file = self.directory.write_tensor(f"inputs/{index}.npy", array)
            inputs.append(TensorRecord(tensor.scalar_type, array.shape, array.nbytes, file))
        method = read_method(self.model, self.request.method)
        self._learn(
            model=Model(
                file=shown(self.request.model),
                sha256=hashlib.sha256(self.model).hexdigest(),
                nbytes=len(self.model),
                planned_bytes=info.planned_bytes,
                method_bytes=info.method_bytes,
                method=self.request.method,
                delegates=delegate_calls(method),
                planned=planned_sizes(method),
                inputs=tuple(inputs),
                outputs=(),
            )
        )

    def _execute(self, session: Session, timeout_s: float) -> RunOutcome:
        """Run; what had come of a streamed log is kept when that fails."""
        chunks = LogChunks()
        try:
            return session.run(
                self.request.runs,
                self.request.options,
                chunks=chunks,
                timeout_s=timeout_s,
                progress=lambda done, total: self.stages("running", done, total),
            )
        except (HarnessError, KeyboardInterrupt):
            if whole := chunks.whole():
                self.directory.write(PARTIAL, b"".join(whole))
            raise

    def _keep_outputs(self, session: Session, info: ModelInfo) -> None:
        outputs = []
        for index, declared in enumerate(info.outputs):
            tensor = session.output_info(index, declared)
            array = from_bytes(session.read(Region.OUTPUT, index), tensor)
            file = self.directory.write_tensor(f"outputs/{index}.npy", array)
            outputs.append(TensorRecord(tensor.scalar_type, tensor.sizes, tensor.nbytes, file))
        if self.result.model is not None:
            self._learn(model=replace(self.result.model, outputs=tuple(outputs)))
