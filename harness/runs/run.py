"""One run of one model on one target, from the board's name to a verdict in a run directory."""

from __future__ import annotations

import dataclasses
import hashlib
import logging
from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from msgspec.structs import replace

from harness.analyze.placement import quality_of_run
from harness.analyze.workload import instruction_records
from harness.check.budget import load_budget
from harness.check.history.comparison import HistoryComparison
from harness.check.subject import model_name
from harness.config.board import Board, SerialTarget, load_board
from harness.decode.bundled_program import BundledProgram, TestSet, is_bundled_program
from harness.errors import (
    HarnessError,
    InfrastructureError,
    LinkError,
    RestartedError,
    UsageError,
)
from harness.files import absolute, display_path, find_model, read_model
from harness.lab.flash_plan import FlashRequest, Stages
from harness.lab.flashing import flash_and_open
from harness.lab.postmortem import symbols_of_board
from harness.lab.units import check_identity, hold_if
from harness.link.exchange import Progress
from harness.link.log_chunks import LogChunks
from harness.link.run import RunOutcome
from harness.link.session import Session
from harness.link.values import ModelInfo, RunOptions, TargetInfo
from harness.link.wire import Region
from harness.records.clock_domain import Ping
from harness.records.result import (
    Model,
    Result,
    TensorRecord,
    TestSetRecord,
)
from harness.records.trace import Trace
from harness.records.verdict import Verdict
from harness.runs.counters import CounterPasses, plan_passes
from harness.runs.delegates import interpret_delegates
from harness.runs.device_data import (
    bundled_inputs,
    delegate_calls,
    describe_target,
    explain,
    planned_sizes,
    read_inputs,
    read_method,
    read_references,
    record_pings,
    record_restart,
    save_earlier_postmortem,
    save_output,
    save_references,
    steadiness_of,
    to_bytes,
    with_declared_clock,
    with_firmware,
    with_inputs,
    with_target,
)
from harness.runs.directory import PARTIAL, RunDirectory
from harness.runs.evaluation import (
    EvaluatedRun,
    evaluate_run,
    evaluate_test_sets,
    verdict_record,
    with_evidence,
)
from harness.runs.interruption import end_interrupted_run, heeded_interrupts
from harness.runs.loading import check_placeable, load_model, place_model
from harness.runs.meter import meter_of_run
from harness.runs.recorder import RunRecorder, unfinished_result
from harness.runs.request import RunRequest, find_time_scales
from harness.runs.test_sets import bundled_model, read_test_sets, test_set_folder, test_set_name
from harness.runs.trace_download import pull_trace
from harness.target.build import build_firmware, build_stage, image_size
from harness.target.start import Target, start_target

if TYPE_CHECKING:
    import numpy as np

_log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class FinishedRun:
    """A finished run.

    Attributes:
        result: The result, as in ``result.json``.
        trace: The trace, on the time scales of the result; None for a bundled program.
        comparison: The comparison with its history; None without a history.
        test_sets: The runs of the test sets of a bundled program.
    """

    result: Result
    trace: Trace | None
    comparison: HistoryComparison | None = None
    test_sets: tuple[EvaluatedRun, ...] = ()


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
    bundled = read_test_sets(model, request) if is_bundled_program(model) else None
    model = bundled.program if bundled is not None else model
    check_placeable(request, board)
    budget_file = find_budget(request, board, board_file)
    references = read_references(request.references)
    if request.against is not None:
        request.against.check()
    scales = find_time_scales(request, board)
    directory = RunDirectory.create(request.output)
    facts = (board, model, directory, stages, scales, references, budget_file)
    run = _Run(request, *facts, bundled=bundled)
    try:
        with run.recorded():
            trace = run.execute()
            run.evaluate(trace)
            run.meter.check()
    finally:
        ended(run.evaluated_run)
    found = run.evaluated_run
    return FinishedRun(run.result, trace, found.comparison, found.test_sets)


def find_budget(request: RunRequest, board: Board, board_file: Path) -> Path | None:
    """Return the budget file of the request, else of the board, once it is known to be valid."""
    # Absolute, because it is recorded with the verdict and read again from other folders.
    file = absolute(request.budget) if request.budget else None
    if file is None and board.budget:
        file = board_file.parent / board.budget
    if file is not None:
        name = model_name(request.model.name)
        load_budget(file, board.name, name, request.unit_name or board.name)
    return file


class _Run(RunRecorder):
    """A run in progress.

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
        budget_file: Path | None,
        *,
        bundled: BundledProgram | None = None,
        test_set: TestSet | None = None,
    ) -> None:
        self.references, self.budget_file = references, budget_file
        self.bundled, self.test_set = bundled, test_set
        self.test_sets: list[_Run] = []
        self._passes = CounterPasses()
        self.meter = meter_of_run(request.energy)
        self.request, self.board, self.model, self.stages = request, board, model, stages
        # None if the file cannot be read, which the device reports. Read before the board waits.
        self._method = read_method(model, request.method_name)
        self._evaluated: EvaluatedRun | None = None
        result = replace(
            unfinished_result(request, board, time_scales),
            runs_requested=request.runs * (len(bundled.test_sets) if bundled else 1),
            settings=with_firmware(request.settings, board),
        )
        super().__init__(directory, result)

    def execute(self) -> Trace | None:
        """Start the target, run the model on it, and read outputs and trace.

        Of a bundled program every test set has a trace of its own, and the whole has none.
        """
        with ExitStack() as stack:
            self._hold_unit(stack)
            stack.enter_context(self.meter.opened())
            target, build_id = self._start(stack)
            _log.info("started %s", target.description)
            session = Session(
                target.transport,
                deadline_s=self.board.deadlines.request_s,
                console=self.console.extend,
                check_alive=target.check_alive,
                board=self.board.name,
            )
            try:
                info = self._connect(session, build_id)
                self._passes = plan_passes(session, info, self.request)
                if info.postmortem:
                    save_earlier_postmortem(session, self.directory)
                trace = self._measure(session, info) if self.bundled is None else None
                for test_set in self.bundled.test_sets if self.bundled else ():
                    self._run_test_set(test_set, session, info)
                self._restore_baud(session)
            except RestartedError as error:
                explained, completed = explain(
                    *(error, session, self.board.deadlines.boot_s, self.directory),
                    symbols_of_board(self.board),
                )
                self.update(runs_completed=completed or 0)
                raise explained from error
            finally:
                self.update(link=session.statistics.as_dict())
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
        self.update(port=self.request.port_name, unit=self.request.unit_name)

    def _start(self, stack: ExitStack) -> tuple[Target, str | None]:
        """Start or flash the board; return it, closed with ``stack``, and its expected build id."""
        request, firmware = self.request, None
        flash = request.flash
        started_here = not isinstance(self.board.target, SerialTarget)
        if (started_here and flash is None) or (flash and flash.image is None):
            self.stages(build_stage(self.board), 0, 0)
            placed = None
            if self.request.placed:
                placed = place_model(self.request.model, self.model, self.board)
            firmware = build_firmware(self.board, placed)
            self.update(image=image_size(firmware))
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
        self.update(target=describe_target(info), settings=settings)
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
            self.update(baud=session.raise_baud(unit.rates(listed) if unit else listed))
            return
        if wanted not in info.bauds:
            rates = ", ".join(map(str, info.bauds)) or "its default rate only"
            raise UsageError(
                f"{info.board} does not support {wanted} baud", hint=f"supported: {rates}"
            )
        self.update(baud=session.raise_baud([wanted]))
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

    def _measure(self, session: Session, info: TargetInfo) -> Trace:
        """Run one method with one set of inputs on a connected target."""
        loaded = load_model(
            *(session, info, self.board, self.request, self.model, self._method, self.stages)
        )
        self._set_inputs(session, loaded)
        try:
            outcome, restart = self._execute(session)
        except KeyboardInterrupt as interrupt:
            self.meter.interrupt()
            keep = partial(self._keep_partial, session, info)
            ended = end_interrupted_run(session, keep, self.stages)
            done, wanted = self.result.runs_completed, self.request.runs
            text = f"{done} of {wanted} executions completed{ended}"
            raise type(interrupt)(text) from None
        self._read_outputs(session, loaded)
        progress = partial(self.stages, "pulling")
        return self._pull(session, info, outcome, restart, progress)

    def _keep_partial(
        self, session: Session, info: TargetInfo, outcome: RunOutcome, progress: Progress
    ) -> None:
        """Save the trace of an interrupted run, and make the board ready for the next session."""
        restart = self._record_end(session, outcome)
        self._pull(session, info, outcome, restart, progress)
        (self.directory.path / PARTIAL).unlink(missing_ok=True)
        self._restore_baud(session)

    def _run_test_set(self, test_set: TestSet, session: Session, info: TargetInfo) -> None:
        """Run a test set into a run directory of its own, and add its record to the result."""
        method, index = test_set.method, test_set.index
        folder = test_set_folder(method, index)
        request = dataclasses.replace(
            self.request, method=method, output=self.request.output / folder
        )
        directory = RunDirectory.create(self.directory.path / folder)
        facts = (self.board, self.model, directory, self.stages, self.result.time_scales)
        run = _Run(request, *facts, [*test_set.expected], self.budget_file, test_set=test_set)
        shared = ("port", "unit", "commit", "session", "settings", "image", "target", "baud")
        run._passes = CounterPasses(self._passes.groups, self._passes.offered)
        run.meter = self.meter
        run.update(test_set=index, **{name: getattr(self.result, name) for name in shared})
        self.test_sets.append(run)
        try:
            with run.recorded():
                run.evaluate(run._measure(session, info))
        except HarnessError as error:
            error.message = f"{test_set_name(method, index)}: {error.message}"
            raise
        finally:
            record = TestSetRecord(method, index, run.result.id, folder, run.result.exit_code)
            self.update(
                test_sets=(*self.result.test_sets, record),
                runs_completed=self.result.runs_completed + run.result.runs_completed,
                model=bundled_model(self.result.model, run.result.model),
            )

    def _set_inputs(self, session: Session, info: ModelInfo) -> None:
        wanted = (len(info.outputs), self.request.rtol, self.request.atol)
        self.update(reference=save_references(self.directory, self.references, *wanted))
        if self.test_set is not None:
            arrays = bundled_inputs(self.test_set, info.inputs)
        else:
            arrays = read_inputs(self.request.inputs, info.inputs, self.request.seed)
        inputs = []
        for index, (array, tensor) in enumerate(zip(arrays, info.inputs, strict=True)):
            sizes = array.shape if tensor.dynamic else ()
            session.set_input(index, to_bytes(array, tensor), sizes=sizes)
            file = self.directory.write_tensor(f"inputs/{index}.npy", array)
            inputs.append(TensorRecord(tensor.scalar_type, array.shape, array.nbytes, file))
        self.update(settings=with_inputs(self.result.settings, info, inputs))
        self.update(
            model=Model(
                file=display_path(self.request.model),
                sha256=hashlib.sha256(self.model).hexdigest(),
                nbytes=len(self.model),
                planned_bytes=info.planned_bytes,
                method_bytes=info.method_bytes,
                method=self.request.method_name,
                delegates=delegate_calls(self._method),
                planned=planned_sizes(self._method),
                chains=instruction_records(self._method),
                inputs=tuple(inputs),
                outputs=(),
            )
        )

    def _execute(self, session: Session) -> tuple[RunOutcome, Ping | None]:
        """Run the model, and ping its clock; return the restart of that clock, too."""
        self._passes.run_others(session, self.directory, partial(self._run_model, session))
        self.meter.start(self.directory)
        outcome = self._run_model(session, self._passes.first)
        return outcome, self._record_end(session, outcome)

    def _record_end(self, session: Session, outcome: RunOutcome) -> Ping | None:
        self.meter.stop()
        self.update(runs_completed=outcome.completed)
        after = record_pings(session)
        restart = record_restart(outcome, after)
        self.update(pings=after, restart=restart)
        return restart

    def _run_model(self, session: Session, counters: tuple[int, ...]) -> RunOutcome:
        """Run the model; save the received part of a streamed log if that fails."""
        chunks = LogChunks()
        try:
            with heeded_interrupts() as heed:

                def progress(done: int, total: int) -> None:
                    heed()
                    self.stages("running", done, total)

                return session.run(
                    self.request.runs,
                    self._options(counters),
                    chunks=chunks,
                    timeout_s=self.board.deadlines.execute_s,
                    progress=progress,
                )
        except (HarnessError, KeyboardInterrupt):
            if whole := chunks.whole():
                self.directory.write(PARTIAL, b"".join(whole))
            raise

    def _read_outputs(self, session: Session, info: ModelInfo) -> None:
        outputs = []
        for index, declared in enumerate(info.outputs):
            tensor = session.output_info(index, declared)
            data = session.read(Region.OUTPUT, index)
            outputs.append(save_output(self.directory, index, tensor, data))
        if self.result.model is not None:
            self.update(model=replace(self.result.model, outputs=tuple(outputs)))

    def _pull(
        self,
        session: Session,
        info: TargetInfo,
        outcome: RunOutcome,
        restart: Ping | None,
        progress: Progress,
    ) -> Trace:
        """Pull the trace, put it on its time scales, and rate its clock."""
        facts = (session, info, self.directory, progress, outcome.chunks, self._passes.join)
        trace, summary = pull_trace(*facts)
        summary = replace(summary, passes=self._passes.record)
        about = self.result
        trace = interpret_delegates(trace, about.time_scales, about.metadata, about.model)
        quality = quality_of_run(trace, self.result.pings, restart, steadiness_of(self.board))
        self.update(trace=summary, clock_quality=quality)
        self.update(energy=self.meter.energy(trace, self.directory, self.board))
        return trace

    def _restore_baud(self, session: Session) -> None:
        """Return to the default rate, where a monitor or the next run finds the board at once."""
        try:
            session.restore_baud()
        except InfrastructureError as error:
            # All data has been transferred, and the board falls back to its default rate by itself.
            _log.warning("%s", error.message)

    def evaluate(self, trace: Trace | None) -> None:
        """Evaluate the run; without a trace, from the verdicts of its test sets."""
        self.update(failure=None)
        path = self.directory.path
        if trace is None:
            runs = tuple(run.evaluated_run for run in self.test_sets)
            self._evaluated = evaluate_test_sets(display_path(path), self.result, runs, path)
        else:
            self._evaluated = evaluate_run(
                *(display_path(path), trace, self.result, self.budget_file, path),
                history=self.request.against,
            )
        verdict = verdict_record(self._evaluated)
        self.update(verdict=verdict, exit_code=self._evaluated.verdict.exit_code)

    def _options(self, counters: tuple[int, ...]) -> RunOptions:
        bundled_input = self.test_set.index if self.test_set is not None else -1
        options = self.request.options
        return dataclasses.replace(options, bundled_input=bundled_input, counters=counters)

    @property
    def evaluated_run(self) -> EvaluatedRun:
        """The run for reports; without checks if it failed."""
        path = self.directory.path
        runs = tuple(run.evaluated_run for run in self.test_sets)
        title = display_path(path)
        failed = EvaluatedRun(title, None, Verdict(()), directory=path, test_sets=runs)
        return with_evidence(dataclasses.replace(self._evaluated or failed, result=self.result))
