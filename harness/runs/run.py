"""One run of one model on one target, from a request to a verdict in a run directory."""

from __future__ import annotations

import dataclasses
import logging
import time
import uuid
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

from msgspec.structs import replace

from harness.analyze.placement import quality_of_run
from harness.check.budget import Budget, BudgetSource, read_files
from harness.check.history.samples import History
from harness.check.subject import model_name
from harness.config.board import Board, SerialTarget, load_board
from harness.config.unit import UsbPort
from harness.decode.pte import ModelFile, TestSet
from harness.errors import (
    DeviceRefusedError,
    HarnessError,
    HostError,
    InfrastructureError,
    LinkError,
    Owner,
    RestartedError,
    UsageError,
)
from harness.files import CappedBuffer, absolute, display_path, find_model
from harness.flash.flashing import flash_and_open
from harness.flash.plan import Stages
from harness.interrupts import exit_code_of, heed, interrupt_text, interrupts, took_effect
from harness.link.exchange import Progress
from harness.link.messages import PROFILES, VALUES, WHEN_FULL, ModelInfo, RunOptions, TargetInfo
from harness.link.run import RunOutcome
from harness.link.session import Session
from harness.link.transfers import LogChunks
from harness.link.wire import Region
from harness.plugins import DATASETS, LIVE, TARGETS, load_extension, load_plugin
from harness.printing import counted
from harness.records.measurement import BUNDLED_KERNELS, MeasurementSettings
from harness.records.result import (
    AccuracyRecord,
    Failure,
    Result,
    TensorRecord,
    TestSetRecord,
    now_utc,
)
from harness.records.trace import Ping, Trace
from harness.records.verdict import Verdict
from harness.runs.baseline import (
    BaselineArm,
    find_baseline,
    flashed_back,
    keep_image,
    keep_model,
    read_program_file,
)
from harness.runs.device import (
    CounterPasses,
    bundled_inputs,
    describe_target,
    end_interrupted_run,
    plan_passes,
    postmortems,
    read_inputs,
    read_log_image,
    record_pings,
    save_output,
    save_references,
    save_trace,
    tensor_to_bytes,
)
from harness.runs.directory import AGAIN, CONSOLE, PARTIAL, REPEATS, RunDirectory
from harness.runs.evaluation import evaluate_run, evaluate_test_sets, save_budget, with_evidence
from harness.runs.loading import (
    bundled_model,
    describe_model,
    load_model,
    place_model,
    read_model_file,
    require_runnable,
    test_set_folder,
)
from harness.runs.meter import RunMeter, meter_of_run
from harness.runs.repeats import Repeats
from harness.runs.request import (
    ProbeRequest,
    RunRequest,
    check_comparison,
    find_time_scales,
    unfinished_result,
)
from harness.runs.source import (
    EvaluatedRun,
    interpret_delegates,
    read_npy,
    test_set_name,
    verdict_record,
)
from harness.target.build import Firmware, build_firmware, image_size
from harness.target.selection import Chosen, check_identity
from harness.target.start import Target, greet, start_session, start_target

if TYPE_CHECKING:
    import numpy as np


class ProbeTarget(Protocol):
    """What the extension ``probes`` does."""

    def run_by_probe(
        self,
        request: RunRequest,
        stages: Stages,
        ended: Callable[[EvaluatedRun], None],
    ) -> EvaluatedRun:
        """Let a board execute the model in its firmware, and write a run directory."""

    def pull_by_probe(
        self, chosen: Chosen, wanted: ProbeRequest, output: Path, stages: Stages
    ) -> EvaluatedRun:
        """Read the trace of a board into a run directory; the board runs on."""


class ImageRunner(Protocol):
    """What runs models on an image that nobody here builds: ``board.runner``."""

    def run_on_image(self, plan: RunPlan, ended: Callable[[EvaluatedRun], None]) -> EvaluatedRun:
        """Run the model on the image, and write a run directory."""


def probe_target() -> ProbeTarget:
    """Return the extension that reads boards through debug probes.

    Raises:
        UsageError: It is not installed.
    """
    target: ProbeTarget = load_extension(TARGETS, "probe", "debug probes are", "probes")
    return target


_log = logging.getLogger(__name__)


class RunRecorder:
    """A run in progress, which keeps its result in its directory.

    Attributes:
        plan: What to run.
        directory: The run directory.
        result: The result so far.
        console: The board's console output so far.
        test_sets: The runs of the test sets of a bundled program so far.
    """

    def __init__(self, plan: RunPlan, directory: RunDirectory, result: Result) -> None:
        """Write the result, which describes the run if the process is killed before its end."""
        self.plan, self.directory, self.result = plan, directory, result
        self.console = CappedBuffer()
        self.test_sets: list[EvaluatedRun] = []
        self._evaluated: EvaluatedRun | None = None
        self._flashes_back = False
        self._began = time.monotonic()
        directory.write_result(result)

    def execute(self) -> Trace | None:
        """Carry the run out, and return its trace."""
        raise NotImplementedError

    def another(self, plan: RunPlan, directory: RunDirectory) -> RunRecorder:
        """Return a further run of the same kind."""
        raise NotImplementedError

    def finished(self, ended: Callable[[EvaluatedRun], None]) -> EvaluatedRun:
        """Execute and evaluate the run, and complete its directory, also after a failure."""
        try:
            with self.recorded():
                self.evaluate(self.execute())
                if self.plan.meter is not None:
                    self.plan.meter.check()
            if self.plan.request.history is not None or self.plan.request.against is not None:
                self._keep()
            self.measure_again()
        finally:
            run = self.evaluated_run
            ended(run)
        return run

    @contextmanager
    def recorded(self) -> Iterator[None]:
        """Record how the run ends, and complete its directory in any case.

        Raises:
            HostError: The directory could not be written.
        """
        try:
            with self._as_host_error("was cut short"):
                yield
        except (HarnessError, KeyboardInterrupt) as error:
            self._record_failure(error)
            raise
        finally:
            write_error = self._finish()
        if write_error is not None:
            raise write_error

    def _record_failure(self, error: HarnessError | KeyboardInterrupt) -> None:
        plan, kind = self.plan, type(error).__name__
        if not (self.result.model or self.result.runs_completed or plan.test_sets):
            # It failed before its model was on the board: the result still names it.
            with suppress(HarnessError):
                self.update(model=describe_model(plan.request, plan.model, plan.board))
        if isinstance(error, HarnessError):
            failure = Failure(kind, error.message, error.hint, error.owner)
            self.update(failure=failure, exit_code=error.exit_code)
        else:
            failure = Failure(kind, interrupt_text(error), "", Owner.HOST)
            self.update(failure=failure, exit_code=exit_code_of(error))

    def update(self, **facts: object) -> None:
        """Replace fields of the result."""
        self.result = replace(self.result, **facts)

    def _set(self, **settings: object) -> None:
        """Replace measurement settings of the result."""
        known = self.result.settings or MeasurementSettings()
        self.update(settings=replace(known, **settings))

    def evaluate(self, trace: Trace | None) -> None:
        """Evaluate the run; without a trace, from the verdicts of its test sets."""
        path, budget = self.directory.path, self.plan.budget
        title, result = display_path(path), replace(self.result, failure=None)
        if trace is None:
            run = evaluate_test_sets(title, result, self.test_sets, path)
        else:
            against = self.plan.request.against
            run = evaluate_run(
                *(title, trace, result, self.plan.rules, path),
                history=against,
                tensors=self.directory.tensors,
            )
            run = dataclasses.replace(
                run,
                program=self.plan.model.data,
                budget=str(budget[-1].document.path) if budget else "",
                budget_copy=save_budget(self.directory, budget),
            )
        self._evaluated = run
        self.update(failure=None, verdict=verdict_record(run), exit_code=run.verdict.exit_code)

    def _keep(self) -> None:
        """Keep the model and the firmware, with which a later run measures a change in pairs."""
        plan, target = self.plan, self.result.target
        keep_model(plan.model)
        flash = plan.request.flash
        image = flash.image if flash is not None else None
        if image is None and plan.firmware is not None:
            image = plan.firmware.image
        if image is not None and target is not None:
            kept = keep_image(image, plan.board.name, target.build_id)
            self.plan = dataclasses.replace(plan, kept_image=kept)

    def measure_again(self) -> None:
        """Run as often as asked for, and while a change is suspect; then judge all of it.

        Whatever ends it, the result has the verdict of the runs so far. Without a run that was
        asked for it is a failure. One that looks again may fail: the change is suspect still.

        Raises:
            HarnessError: A run that was asked for failed.
        """
        assert self._evaluated is not None
        plan, request = self.plan, self.plan.request
        own_s = time.monotonic() - self._began
        repeats = Repeats(request, self._evaluated, own_s, self._find_baseline)
        asked: HarnessError | KeyboardInterrupt | None = None
        stack = ExitStack()
        try:
            while why := repeats.reason():
                number = len(repeats.others) + 2
                plan.stages(f"run {number}, {why}", 0, 0)
                try:
                    if repeats.beside is not None:
                        self._prepare_flashing(stack, repeats.beside)
                        self._another_pair(repeats, repeats.beside)
                    else:
                        repeats.add(self._another_run(number))
                except (HarnessError, KeyboardInterrupt) as error:
                    if number <= request.repeat:
                        asked = error
                    if isinstance(error, HarnessError) and asked is None:
                        _log.warning("could not be measured again: %s", error.message)
                        break
                    if isinstance(error, HarnessError):
                        error.message = f"run {number} of {request.repeat}: {error.message}"
                    raise
        finally:
            with stack, self._as_host_error("has the verdict of its first run only"):
                if repeats.changed:
                    self._evaluated = run = repeats.recorded()
                    code = run.verdict.exit_code
                    self.update(failure=None, verdict=verdict_record(run), exit_code=code)
                if asked is not None:
                    self._record_failure(asked)
                self.result = self.directory.finish(self.result)

    def _find_baseline(self, history: History) -> BaselineArm:
        """Return what the baseline ran that this run can be measured against."""
        plan = self.plan
        return find_baseline(
            *(plan.request, plan.board, plan.model, plan.kept_image, plan.baseline_model),
            *(self.result, history),
        )

    def _prepare_flashing(self, stack: ExitStack, beside: BaselineArm) -> None:
        """Have a board that pairs flash run the tested firmware again after them."""
        plan, flash = self.plan, self.plan.request.flash
        serial = isinstance(plan.board.target, SerialTarget)
        if beside.image is None or flash is None or not serial or self._flashes_back:
            return
        self._flashes_back = True
        how = dataclasses.replace(flash, image=plan.kept_image, if_needed=True)
        place = dataclasses.replace(plan.request.place, unit=self.result.unit)
        output, wait_s = self.directory.path / AGAIN / "flash", plan.board.deadlines.unit_s
        stack.enter_context(flashed_back(place, how, output, wait_s, plan.stages))

    def _another_pair(self, repeats: Repeats, beside: BaselineArm) -> None:
        """Run the baseline arm and what is tested; which one is first changes each time."""
        number, order = len(repeats.others) + 2, repeats.pair_order
        runs = [self._another_run(at, beside, role=role) for at, role in enumerate(order, number)]
        repeats.add_pair(runs)

    def _another_run(
        self, number: int, beside: BaselineArm | None = None, *, role: str = "second look"
    ) -> EvaluatedRun:
        """Run once more into a folder of the run directory, without a comparison of its own.

        Args:
            number: Number of the run, from 2.
            beside: The baseline arm of a pair; None if the run belongs to no pair.
            role: The role of the run in the pair.
        """
        plan, session = self.plan, self.result.session
        request, flash, firmware = plan.request, plan.request.flash, plan.firmware
        other = beside if role == "baseline" else None
        if beside is not None and beside.image is not None:
            # Both from the cache: a path of another length moves the stack of a native program.
            image = other.image if other is not None else plan.kept_image
            if flash is not None:
                flash = dataclasses.replace(flash, image=image, if_needed=True)
            elif firmware is not None and image is not None:
                build_id = other.build_id if other is not None else firmware.build_id
                firmware = dataclasses.replace(firmware, image=image, build_id=build_id)
        elif isinstance(plan.board.target, SerialTarget):
            flash = None  # the firmware is on the board
        elif other is not None and request.placed:
            firmware = None  # is built with the model of the baseline
        folder = REPEATS if number <= request.repeat else AGAIN
        request = dataclasses.replace(
            request,
            output=self.directory.path / folder / str(number),
            session=f"{session}/{number}",
            commit=self.result.commit,
            flash=flash,
            against=None,
            history=None,
            baseline_model=None,
            repeat=1,
            detect=None,
            look_again=0,
        )
        meter = None if request.energy is None else meter_of_run(request.energy)
        plan = dataclasses.replace(plan, request=request, meter=meter, firmware=firmware)
        if other is not None and other.model is not None:
            name = self.result.model.known_as if self.result.model else request.name
            model, commit = other.model, other.commit
            request = dataclasses.replace(request, model=model.path, name=name, commit=commit)
            sets = model.test_sets if plan.test_set is None else ()
            plan = dataclasses.replace(
                plan,
                request=request,
                model=model,
                budget=[],
                rules=None,
                references=[],
                test_sets=sets,
            )
        run = self.another(plan, RunDirectory.create(request.output))
        if folder == AGAIN:
            run.update(role=role)
        if other is None or other.image is None:
            run.update(image=self.result.image)
        return run.finished(lambda _: None)

    @property
    def evaluated_run(self) -> EvaluatedRun:
        """The run for reports; without checks if it failed."""
        path, test_sets = self.directory.path, tuple(self.test_sets)
        failed = EvaluatedRun(
            display_path(path), None, Verdict(()), directory=path, test_sets=test_sets
        )
        return with_evidence(dataclasses.replace(self._evaluated or failed, result=self.result))

    def _finish(self) -> HostError | None:
        """Write the console and the result; log and return an error, None if both are written."""
        self.update(
            duration_s=round(time.monotonic() - self._began, 3),
            console_left_out=self.console.left_out,
        )
        # The result comes last, because it records the other files. An error of the result wins.
        failure: HostError | None = None
        for name in ("console", "result"):
            try:
                with self._as_host_error("was not saved", f"the {name} of "):
                    if name == "console":
                        self.directory.write(CONSOLE, bytes(self.console))
                    else:
                        self.result = self.directory.finish(self.result)
            except HostError as error:
                _log.error("%s", error.message)
                failure = error
        return failure

    @contextmanager
    def _as_host_error(self, consequence: str, part: str = "") -> Iterator[None]:
        """Turn errors of the operating system into HostError, with their consequence."""
        try:
            yield
        except (OSError, MemoryError) as error:
            directory = display_path(self.directory.path)
            raise HostError.of(error, f"{part}the run in {directory} {consequence}") from error


@dataclass(frozen=True, slots=True)
class RunPlan:
    """A request, and what was read and checked for it before anything is started.

    Attributes:
        request: The request; its model is a path that exists.
        board: The board.
        model: The program, and the test sets of a bundled one.
        budget: The budget file and those that it extends; empty for none.
        rules: The rules of the budget for the unit that runs the model; None without a budget.
        references: One per output of the model, or none.
        time_scales: The time scales of the request and the board.
        meter: The meter; None to record no current.
        stages: Called to report progress.
        baseline_model: The model that the request names for pairs; None for none.
        firmware: The firmware that was built for the run; None to build it, or if it is not built.
        kept_image: The firmware in the cache; None if it is not there, or not known.
        test_sets: The test sets that the run consists of; () for a program alone, or for one test
            set.
        test_set: The test set to run; None for a run with inputs of its own.
        steps: The steps of a sequence that the run consists of; () for no sequence.
        dataset: The samples of ``--dataset``, as the extension ``dataset`` runs them; None without.
    """

    request: RunRequest
    board: Board
    model: ModelFile
    budget: list[BudgetSource]
    rules: Budget | None
    references: list[np.ndarray]
    time_scales: dict[str, str]
    meter: RunMeter | None
    stages: Stages
    baseline_model: ModelFile | None = None
    firmware: Firmware | None = None
    kept_image: Path | None = None
    test_sets: tuple[TestSet, ...] = ()
    test_set: TestSet | None = None
    steps: tuple[TestSet, ...] = ()
    dataset: Any = None


def plan_run(request: RunRequest, stages: Stages) -> RunPlan:
    """Check all of a request that can be checked beforehand, so that a wrong one starts nothing.

    Raises:
        UsageError: The request is invalid.
    """
    board, board_file = load_board(request.board)
    request = dataclasses.replace(request, model=find_model(request.model))
    model = read_model_file(request)
    if request.placed and not request.builds_firmware(board):
        raise UsageError(
            f"cannot place the model: this run does not build the firmware of {board.name}",
            hint="flash the board with --flash and without --image; a board whose firmware has the "
            "model already needs no --placed",
        )
    file = board_file.parent / board.budget if board.budget else None
    # Absolute, because it is recorded with the verdict and read again from other folders.
    file = absolute(request.budget) if request.budget else file
    budget = read_files(file) if file else []
    rules = merged_rules(budget, request, board, request.place.name or board.name)
    references = [read_npy(path) for path in request.references]
    check_comparison(request)
    scales = find_time_scales(request, board)
    meter = None if request.energy is None else meter_of_run(request.energy)
    dataset = None
    if request.dataset is not None:
        read = load_extension(DATASETS, "npz", "--dataset is", "dataset")
        dataset = read.read_dataset(request, model)
    given = request.baseline_model
    beside = None if given is None else read_program_file(given)
    return RunPlan(
        *(request, board, model, budget, rules, references, scales, meter, stages, beside),
        test_sets=model.test_sets,
        dataset=dataset,
    )


def merged_rules(
    budget: Sequence[BudgetSource], request: RunRequest, board: Board, unit: str
) -> Budget | None:
    """Return the rules for a run on a unit; None without a budget."""
    name = request.name or model_name(request.model.name)
    return Budget.merged(budget, board.name, name, unit) if budget else None


def run_model(
    request: RunRequest,
    stages: Stages = lambda *_: None,
    ended: Callable[[EvaluatedRun], None] = lambda _: None,
    accept: Callable[[ModelFile], None] | None = None,
) -> EvaluatedRun:
    """Run a model and write a run directory, also if the run fails after its start.

    Args:
        request: The request, also for a board that a debug probe reads.
        stages: Called to report progress.
        ended: Called once the run directory is complete, also after a failure.
        accept: Called with the model before anything is started; raises an error to refuse it.

    Returns:
        The run, with exit code 0 or 1 by its verdict.

    Raises:
        UsageError: The request is invalid; nothing was started.
        TargetError: The target misbehaved.
        InfrastructureError: The link, the port or the host failed.
    """
    if request.through is not None:
        return probe_target().run_by_probe(request, stages, ended)
    plan = plan_run(request, stages)
    if accept is not None:
        accept(plan.model)
    if name := plan.board.runner:
        runner: ImageRunner = load_extension(
            TARGETS, name, f"board {plan.board.name}: its image is", name
        )
        return runner.run_on_image(plan, ended)
    states: Any = None
    if request.steps is not None or request.state != "auto":
        states = load_extension(TARGETS, "state", "--steps and --state are", "state")
    elif request.runs > 1 and (request.references or plan.test_sets):
        states = load_plugin(TARGETS, "state")
    if states is not None:
        run: EvaluatedRun = states.run_with_state(plan, ended)
        return run
    return BoardRun(plan, RunDirectory.create(request.output)).finished(ended)


@dataclass(frozen=True, slots=True)
class ConnectedDevice:
    """A connected device, and the passes that read its counters."""

    session: Session
    info: TargetInfo
    passes: CounterPasses


class BoardRun(RunRecorder):
    """A run on a board with a link, in progress.

    The methods stand in the order in which they are called.
    """

    resumed = 0
    """What the next RUN goes on with of the one before: flags of RUN."""

    def __init__(
        self, plan: RunPlan, directory: RunDirectory, result: Result | None = None
    ) -> None:
        """Begin a run; its result begins with ``result``, that of a connected board, if given."""
        if result is None:
            settings, board = plan.request.settings, plan.board
            if board.build is not None and not isinstance(board.target, SerialTarget):
                # A board's own firmware may have been flashed by another version.
                runtime = "executorch" if board.build.executorch else "etharness"
                settings = replace(settings, runtime=runtime, build=board.build.preset)
            result = unfinished_result(
                plan.request,
                board,
                plan.time_scales,
                settings,
                plan.test_set.index if plan.test_set is not None else None,
            )
            result = replace(
                result, runs_requested=result.runs_requested * (len(plan.test_sets) or 1)
            )
        super().__init__(plan, directory, result)
        self._test_set_runs: list[BoardRun] = []

    def another(self, plan: RunPlan, directory: RunDirectory) -> BoardRun:
        """Return a further run of the same kind."""
        return type(self)(plan, directory)

    def execute(self) -> Trace | None:
        """Start the target, run the model on it, and read outputs and trace.

        Of a bundled program every test set has a trace of its own, and the whole has none.
        """
        plan, board = self.plan, self.plan.board
        # Before the board waits; an invalid or unsupported model has a result, too.
        test_sets = plan.test_sets
        names = dict.fromkeys(test_set.method for test_set in test_sets)
        for name in names or [plan.request.method_name]:
            require_runnable(plan.model, name, board, plan.request)
        with ExitStack() as stack:
            place, reason = plan.request.place, f"run of {plan.request.model.name}"
            held = stack.enter_context(place.held(reason=reason, timeout_s=board.deadlines.unit_s))
            if held is not place:
                self.update(port=held.port_name, unit=held.name)
                rules = merged_rules(plan.budget, plan.request, board, self.result.unit)
                self.plan = plan = dataclasses.replace(plan, rules=rules)
            if plan.meter is not None:
                stack.enter_context(plan.meter.opened())
            target, build_id = self._start(stack, held.port)
            _log.info("started %s", target.description)
            session = start_session(target, board, self.console.extend)
            try:
                info = greet(session, board)
                kernels = "" if info.kernels == BUNDLED_KERNELS else info.kernels or "unknown"
                self._set(kernels=kernels, placed=info.holds(plan.model.digest))
                self.update(target=describe_target(info))
                check_identity(info, board, build_id)
                self._raise_baud(session, info)
                _log.info("%s answers, firmware %s", info.board, info.build_id)
                device = ConnectedDevice(session, info, plan_passes(session, info, plan.request))
                if info.postmortem and (crashes := postmortems()):
                    crashes.save_earlier(session, self.directory)
                trace = None if test_sets else self._measure(device)
                connected = self.result
                for test_set in test_sets:
                    self._run_test_set(test_set, device, connected)
                self._restore_baud(session)
            except RestartedError as error:
                explained, completed = error, None
                if crashes := postmortems():
                    explained, completed = crashes.explain(error, session, board, self.directory)
                if self.result.trace is None:  # else the executions of the log are complete
                    self.update(runs_completed=completed or 0)
                raise explained from error
            finally:
                self.update(link=session.statistics.as_dict())
        return trace

    def _start(self, stack: ExitStack, port: UsbPort | str | None) -> tuple[Target, str | None]:
        """Start or flash the board; return it, closed with ``stack``, and its expected build id."""
        request, board, firmware = self.plan.request, self.plan.board, self.plan.firmware
        flash = request.flash
        if firmware is None and request.builds_firmware(board):
            placed = None
            if request.placed:
                placed = place_model(self.plan.model, board)
            firmware = build_firmware(board, placed, self.plan.stages)
            self.plan = dataclasses.replace(self.plan, firmware=firmware)
            self.update(image=image_size(firmware))
        if flash is not None:
            how = dataclasses.replace(flash, image=firmware.image) if firmware else flash
            place = Chosen(request.board, port, self.result.unit)
            return flash_and_open(stack, place, self.directory.path, how, self.plan.stages)
        target = stack.enter_context(start_target(board, firmware, port=port))
        return target, firmware.build_id if firmware else None

    def _raise_baud(self, session: Session, info: TargetInfo) -> None:
        """Move to the requested rate, or to the best rate that its unit or board file lists."""
        target, wanted = self.plan.board.target, self.plan.request.baud
        if wanted is None:
            listed = target.bauds if isinstance(target, SerialTarget) else ()
            unit = self.plan.request.place.leased
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

    def _run_test_set(self, test_set: TestSet, device: ConnectedDevice, connected: Result) -> None:
        """Run a test set into a run directory of its own, and add its record to the result."""
        method, index = test_set.method, test_set.index
        folder = test_set_folder(method, index)
        plan = dataclasses.replace(
            self.plan,
            request=dataclasses.replace(self.plan.request, method=method),
            references=[*test_set.expected],
            test_sets=(),
            test_set=test_set,
        )
        result = replace(
            connected,
            id=uuid.uuid4().hex,
            started_utc=now_utc("milliseconds"),
            runs_requested=plan.request.runs,
            test_set=index,
        )
        run = type(self)(plan, RunDirectory.create(self.directory.path / folder), result)
        try:
            with run.recorded():
                run.evaluate(run._measure(device))
        except HarnessError as error:
            error.message = f"{test_set_name(method, index)}: {error.message}"
            raise
        finally:
            record = TestSetRecord(method, index, run.result.id, folder, run.result.exit_code)
            self.test_sets.append(run.evaluated_run)
            self._test_set_runs.append(run)
            self.update(
                test_sets=(*self.result.test_sets, record),
                runs_completed=self.result.runs_completed + run.result.runs_completed,
                model=bundled_model(self.result.model, run.result.model),
            )

    def measure_again(self) -> None:
        """Measure again; of a bundled program each test set by itself."""
        if not self.plan.test_sets:
            super().measure_again()
            return
        try:
            for run in self._test_set_runs:
                run.plan = dataclasses.replace(run.plan, kept_image=self.plan.kept_image)
                run.measure_again()
        finally:
            self.test_sets = [run.evaluated_run for run in self._test_set_runs]
            records = zip(self.result.test_sets, self._test_set_runs, strict=True)
            sets = tuple(replace(one, exit_code=run.result.exit_code) for one, run in records)
            self.update(test_sets=sets)
            self.evaluate(None)
            for run in self._test_set_runs:
                if run.result.failure is not None:
                    self.update(failure=run.result.failure, exit_code=run.result.exit_code)
            with self._as_host_error("has the verdict of its first run only"):
                self.result = self.directory.finish(self.result)

    def _measure(self, device: ConnectedDevice) -> Trace:
        """Run one method with one set of inputs on a connected target."""
        plan, session = self.plan, device.session
        loaded = load_model(
            session, device.info, plan.board, plan.model, plan.request.method_name, plan.stages
        )
        self._set_inputs(device, loaded)
        others: list[bytes] = []
        passes, deadline_s = device.passes, plan.board.deadlines.execute_s
        samples = (session, loaded, deadline_s, plan.stages, self._record_accuracy)
        try:
            # The first pass runs last, so that the device keeps its trace.
            for number, group in enumerate(passes.groups[1:], 2):
                outcome = self._run_model(session, passes.offered.numbers(group))
                image, _ = read_log_image(session, self.directory, chunks=outcome.chunks)
                self.directory.write(f"pass{number}.etlog", image)
                others.append(image)
            if plan.meter is not None:
                plan.meter.start(self.directory)
            outcome = self._run_model(session, passes.offered.numbers(passes.groups[0]))
            self._record_end(device, outcome)
        except KeyboardInterrupt as interrupt:
            if plan.meter is not None:
                plan.meter.interrupt()
            keep = partial(self._keep_partial, device, others)
            ended = end_interrupted_run(session, keep, plan.stages)
            done, wanted = self.result.runs_completed, plan.request.runs
            text = f"{done:,} of {counted(wanted, 'execution')} completed{ended}"
            raise type(interrupt)(text) from None
        except DeviceRefusedError as error:
            self._skip_sample(error, samples)
            return self._measure(device)
        outputs = []
        for index, declared in enumerate(loaded.outputs):
            tensor = session.output_info(index, declared)
            data = session.read(Region.OUTPUT, index, most=declared.nbytes)
            outputs.append(save_output(self.directory, index, tensor, data))
        if self.result.model is not None:
            self.update(model=replace(self.result.model, outputs=tuple(outputs)))
        trace = self._pull(device, others, outcome, partial(plan.stages, "pulling"))
        if plan.dataset is not None:
            plan.dataset.run(*samples, self.directory)
        return trace

    def _skip_sample(self, refusal: DeviceRefusedError, samples: tuple[Any, ...]) -> None:
        """Choose another sample for the log; raise the refusal if it is not of a sample."""
        if self.plan.dataset is None:
            raise refusal
        if self.plan.meter is not None:
            self.plan.meter.stop()
        self.plan.dataset.skip(refusal, *samples)
        (self.directory.path / PARTIAL).unlink(missing_ok=True)

    def _record_accuracy(self, accuracy: AccuracyRecord) -> None:
        self.update(accuracy=accuracy)

    def _keep_partial(
        self, device: ConnectedDevice, others: list[bytes], outcome: RunOutcome, progress: Progress
    ) -> None:
        """Save the trace of an interrupted run, and make the board ready for the next session."""
        self._record_end(device, outcome)
        self._pull(device, others, outcome, progress)
        (self.directory.path / PARTIAL).unlink(missing_ok=True)
        self._restore_baud(device.session)

    def _set_inputs(self, device: ConnectedDevice, loaded: ModelInfo) -> None:
        plan, request = self.plan, self.plan.request
        outputs = len(loaded.outputs)
        reference = save_references(
            self.directory, plan.references, outputs, request.rtol, request.atol
        )
        self.update(reference=reference)
        if plan.test_set is not None:
            arrays = bundled_inputs(plan.test_set, loaded.inputs)
        elif plan.dataset is not None:
            arrays = plan.dataset.inputs(loaded)
        else:
            arrays = read_inputs(request.inputs, loaded.inputs, request.seed)
        inputs = []
        dynamic = []  # their sizes decide how much is computed
        for index, (array, tensor) in enumerate(zip(arrays, loaded.inputs, strict=True)):
            sizes = array.shape if tensor.dynamic else ()
            dynamic += [f"{index}: {'x'.join(map(str, sizes))}"] * tensor.dynamic
            device.session.set_input(index, tensor_to_bytes(array, tensor), sizes=sizes)
            file = self.directory.write_tensor(f"inputs/{index}.npy", array)
            inputs.append(TensorRecord(tensor.scalar_type, array.shape, array.nbytes, file))
        model = replace(
            describe_model(request, plan.model, plan.board),
            planned_bytes=loaded.planned_bytes,
            method_bytes=loaded.method_bytes,
            inputs=tuple(inputs),
        )
        self.update(model=model)
        self._set(inputs=", ".join(dynamic))

    def _run_model(self, session: Session, counters: tuple[int, ...]) -> RunOutcome:
        """Run the model; save the received part of a streamed log if that fails."""
        plan, chunks = self.plan, LogChunks()
        request = plan.request
        if request.live is not None:
            live = load_extension(LIVE, "perfetto", "--live is", "exports")
            chunks = live(request.live, self.result)
        options = RunOptions(
            request.trace_limit,
            VALUES[request.values],
            PROFILES[request.profile],
            WHEN_FULL[request.when_full],
            bundled_input=plan.test_set.index if plan.test_set is not None else -1,
            stream=request.stream,
            counters=counters,
            resumed=self.resumed,
        )

        def progress(done: int, total: int) -> None:
            heed()  # an interrupt that had no effect: many executions would go on otherwise
            plan.stages("running", done, total)

        try:
            with interrupts(terminate=False):
                try:
                    return session.run(
                        plan.request.runs,
                        options,
                        chunks=chunks,
                        timeout_s=plan.board.deadlines.execute_s,
                        progress=progress,
                    )
                except KeyboardInterrupt:
                    took_effect()
                    raise
        except (HarnessError, KeyboardInterrupt):
            if whole := chunks.whole():
                self.directory.write(PARTIAL, b"".join(whole))
            raise

    def _record_end(self, device: ConnectedDevice, outcome: RunOutcome) -> None:
        """End the recording of the meter, and read the clock against the host's."""
        if self.plan.meter is not None:
            self.plan.meter.stop()
        self.update(runs_completed=outcome.completed)
        clock, emulated = device.info.clocks[0], self.plan.board.emulated_time
        after = record_pings(device.session, clock, emulated=emulated)
        # The run restarted the clock between these instants: a ping that reads zero.
        restart = Ping(*outcome.restarted_ns, after[0].epoch, 0)
        self.update(pings=after, restart=restart)

    def _pull(
        self, device: ConnectedDevice, others: list[bytes], outcome: RunOutcome, progress: Progress
    ) -> Trace:
        """Pull the trace, put it on its time scales, and rate its clock."""
        image, buffer = read_log_image(device.session, self.directory, progress, outcome.chunks)
        image, passes = device.passes.join(image, others)
        trace, summary = save_trace(image, buffer, device.info.clocks, self.directory)
        result = self.result
        trace = interpret_delegates(trace, result.time_scales, result.metadata, result.model)
        self.update(
            trace=replace(summary, passes=passes),
            clock_quality=quality_of_run(trace, result.pings, result.restart),
        )
        trace = dataclasses.replace(trace, hidden_wraps=self.result.hidden_wraps)
        if (meter := self.plan.meter) is not None:
            self.update(energy=meter.energy(trace, self.directory, self.plan.board))
        return trace

    def _restore_baud(self, session: Session) -> None:
        """Return to the default rate, where a monitor or the next run finds the board at once."""
        try:
            session.restore_baud()
        except InfrastructureError as error:
            # All data has been transferred, and the board falls back to its default rate by itself.
            _log.warning("%s", error.message)
