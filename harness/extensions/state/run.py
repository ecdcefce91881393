"""Runs in which executions begin with a chosen state: what the one before left, or the first one.

The plugin ``state`` of ``etharness.targets``. Each execution is a RUN of its own that goes on with
the clock, the log and, where it keeps the state, the loaded method of the one before. Between two
of them the host reads outputs and log, and sets the inputs of the next step. The logs are chunks of
one, so a sequence has one trace.

The folder of a sequence, `--steps`, has the layout of ``steps/`` in the run directory:

STEP/inputs/N.npy      inputs of a step, in the order of the folders' names
STEP/reference/N.npy   expected outputs; of all steps, or of none
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from functools import partial
from itertools import pairwise
from pathlib import Path
from typing import Final

import msgspec
import numpy as np

from harness.decode.device_log import is_device_log, split_chunk, without_repeated
from harness.decode.program import Method
from harness.decode.pte import TestSet
from harness.errors import (
    DeviceRefusedError,
    HarnessError,
    InfrastructureError,
    TargetError,
    UsageError,
)
from harness.files import display_path
from harness.flash.plan import Stages
from harness.link.exchange import Progress
from harness.link.messages import ModelInfo
from harness.link.run import RunOutcome
from harness.link.wire import Region, RunFlag, Status
from harness.records.result import Result, StepRecord, TensorRecord
from harness.records.run_settings import SETTINGS
from harness.records.trace import Trace
from harness.report.words import counted
from harness.runs.device import (
    declared_tensors,
    end_interrupted_run,
    read_debug_buffer,
    read_inputs,
    read_log_image,
    save_output,
    tensor_to_bytes,
)
from harness.runs.directory import PARTIAL, STEPS, RunDirectory
from harness.runs.loading import describe_model, load_model
from harness.runs.run import BoardRun, ConnectedDevice, RunPlan
from harness.runs.source import EvaluatedRun, read_npy

MOST_STEPS: Final = 3000
"""Most steps of a sequence: an archive of a run has room for three files of each."""

_LAYOUT: Final = "a step is a folder such as 000, with inputs/0.npy and reference/0.npy in it"


def run_with_state(plan: RunPlan, ended: Callable[[EvaluatedRun], None]) -> EvaluatedRun:
    """Run a model whose executions begin with a chosen state, and write a run directory.

    Raises:
        UsageError: The steps are incomplete or do not fit the model, or the request contradicts
            itself; nothing was started.
        TargetError: The target misbehaved.
        InfrastructureError: The link, the port or the host failed.
    """
    request, name = plan.request, display_path(plan.request.model)
    if request.steps is not None:
        wrong = [each for each in ("inputs", "references", "live") if getattr(request, each)]
        if wrong:
            flags = ", ".join(SETTINGS[each].flag for each in wrong)
            raise UsageError(
                f"--steps cannot be combined with {flags}",
                hint=f"leave out {flags}; each step has inputs/ and reference/ of its own",
            )
        if plan.test_sets:
            raise UsageError(
                f"{name} is a bundled program: its test sets have the inputs",
                hint="run its test sets as a sequence with --state keep, or run the .pte file that "
                "was bundled",
            )
        method = plan.model.method(request.method_name)
        steps = read_steps(request.steps, request.method_name, method)
        plan = replace(plan, steps=steps)
    elif request.state == "keep" and plan.test_sets:
        methods = list(dict.fromkeys(each.method for each in plan.test_sets))
        if len(methods) > 1:
            raise UsageError(
                f"{name} has test sets for {len(methods)} methods, and a sequence is of one",
                hint=f"select one with --method: {', '.join(methods)}",
            )
        plan = replace(
            plan,
            request=replace(request, method=methods[0]),
            steps=plan.test_sets,
            test_sets=(),
        )
    total, most = request.runs * len(plan.steps), SETTINGS["runs"].most or 0
    if total > most:
        raise UsageError(
            f"{counted(len(plan.steps), 'step')} times --runs {request.runs:,} are {total:,} "
            f"executions; the limit is {most:,}",
            hint="use a smaller --runs",
        )
    return StatefulRun(plan, RunDirectory.create(request.output)).finished(ended)


def read_steps(folder: Path, name: str, method: Method | None) -> tuple[TestSet, ...]:
    """Return the steps of a sequence, numbered in the order of the names of their folders.

    Args:
        folder: The folder with a folder for each step.
        name: Name of the method.
        method: The method; None if the program could not be read.

    Raises:
        UsageError: There are no steps or too many, a file is missing, or does not fit the method.
    """
    where = display_path(folder)
    if not folder.is_dir():
        raise UsageError(f"--steps {where}: no such folder", hint=_LAYOUT)
    folders = sorted((each for each in _shown(folder) if each.is_dir()), key=_order)
    if not folders:
        raise UsageError(f"--steps {where}: the folder has no steps", hint=_LAYOUT)
    for one, other in pairwise(folders):
        if _order(one) == _order(other):
            raise UsageError(
                f"--steps {where}: {one.name} and {other.name} are the same number, so their order "
                "is unknown",
                hint="rename one of them",
            )
    if len(folders) > MOST_STEPS:
        raise UsageError(
            f"--steps {where}: {counted(len(folders), 'step')}; the limit is {MOST_STEPS:,}",
            hint="divide the sequence into several runs",
        )
    given = [(_arrays(each / "inputs"), _arrays(each / "reference")) for each in folders]
    has_references = any(references for _, references in given)
    steps, infos = [], declared_tensors(method, method.inputs) if method is not None else None
    for number, (each, files) in enumerate(zip(folders, given, strict=True)):
        wanted = (
            ("inputs", len(method.inputs) if method else len(files[0]) or 1),
            ("reference", (len(method.outputs) if method else len(files[1]) or 1) * has_references),
        )
        for (part, count), found in zip(wanted, files, strict=True):
            if len(found) != count:
                raise UsageError(_miscounted(each, part, len(found), count), hint=_LAYOUT)
        inputs = read_inputs(files[0], infos, 0) if infos else [*map(read_npy, files[0])]
        steps.append(TestSet(name, number, tuple(inputs), tuple(map(read_npy, files[1]))))
    return tuple(steps)


def _shown(folder: Path) -> list[Path]:
    """Return what a folder has that is not hidden, as what editors and systems leave there is."""
    return [each for each in folder.iterdir() if not each.name.startswith(".")]


def _order(folder: Path) -> list[tuple[int, str]]:
    """The order of folders: by their names, numbers in them by value."""
    parts = re.split(r"(\d+)", folder.name)
    return [(int(part), "") if part.isdecimal() else (-1, part) for part in parts]


def _arrays(folder: Path) -> list[Path]:
    """Return the files of a step's folder: 0.npy, 1.npy and so on; [] without the folder.

    Raises:
        UsageError: One of them is missing, or the folder has another file.
    """
    found = {file.name for file in _shown(folder)} if folder.is_dir() else set()
    names = [f"{number}.npy" for number in range(len(found))]
    if missing := [name for name in names if name not in found]:
        other = ", ".join(sorted(found - {*names}))
        raise UsageError(
            f"{display_path(folder)} has {other}, but no {missing[0]}",
            hint="files are called by the number of the input or output, from 0.npy on",
        )
    return [folder / name for name in names]


def _miscounted(step: Path, part: str, found: int, wanted: int) -> str:
    what = "input" if part == "inputs" else "output"
    place = f"{display_path(step)}/{part}"
    if wanted == 0:
        return f"{place} has expected outputs, which other steps lack"
    if found < wanted:
        return f"{place}/{found}.npy: missing: the method has {counted(wanted, what)}"
    return f"{place} has {counted(found, 'file')}, the method has {counted(wanted, what)}"


class StatefulRun(BoardRun):
    """A run in progress that decides with which state each execution begins."""

    def __init__(
        self, plan: RunPlan, directory: RunDirectory, result: Result | None = None
    ) -> None:
        """Begin a run; the arguments are those of `BoardRun`."""
        super().__init__(plan, directory, result)
        self._stateful = True
        if plan.steps:
            self.update(runs_requested=plan.request.runs * len(plan.steps))
        self._done = 0
        self._earlier: list[bytes] = []
        """Chunks of the log that have been read, each an image followed by its debug buffer."""
        self._restarted_ns: tuple[int, int] = (0, 0)
        self._records: list[StepRecord] = []

    def another(self, plan: RunPlan, directory: RunDirectory) -> BoardRun:
        """Return a further run of the same kind; the baseline's model has no references."""
        if plan.model is not self.plan.model:
            plan = replace(plan, steps=tuple(replace(each, expected=()) for each in plan.steps))
        return super().another(plan, directory)

    def execute(self) -> Trace | None:
        """Carry the run out; after a failure the result has the completed executions."""
        try:
            return super().execute()
        except HarnessError:
            self.update(runs_completed=max(self.result.runs_completed, self._done))
            raise

    def _measure(self, device: ConnectedDevice) -> Trace:
        plan, request = self.plan, self.plan.request
        model = describe_model(request, plan.model, plan.board)
        self._stateful = model.chains is None or model.changes_state
        compared = bool(plan.references or plan.test_set)
        resets = request.state == "reset" or (request.state == "auto" and compared)
        if not plan.steps and not (self._stateful and request.runs > 1 and resets):
            return super()._measure(device)
        loaded = load_model(
            device.session, device.info, plan.board, plan.model, request.method_name, plan.stages
        )
        if not plan.steps:
            self._set(state="reset")
            self._set_inputs(device, loaded)
        others: list[bytes] = []
        groups = [device.passes.offered.numbers(group) for group in device.passes.groups]
        try:
            # The first pass runs last, as in a run without steps.
            for number, counters in enumerate(groups[1:], 2):
                outcome = self._all_executions(device, loaded, counters)
                image, _ = read_log_image(device.session, self.directory, chunks=outcome.chunks)
                self.directory.write(f"pass{number}.etlog", image)
                others.append(image)
            if plan.meter is not None:
                plan.meter.start(self.directory)
            outcome = self._all_executions(device, loaded, groups[0])
            self._record_end(device, outcome)
        except KeyboardInterrupt as interrupt:
            if plan.meter is not None:
                plan.meter.interrupt()

            def keep(ended: RunOutcome, progress: Progress) -> None:
                self._keep_partial(device, others, self._whole(ended, ended.completed), progress)

            ended = end_interrupted_run(device.session, keep, plan.stages)
            done, wanted = self.result.runs_completed, self.result.runs_requested
            raise type(interrupt)(
                f"{done} of {counted(wanted, 'execution')} completed{ended}"
            ) from None
        if plan.steps:
            self.update(steps=tuple(self._records))
        return self._pull(device, others, outcome, partial(plan.stages, "pulling"))

    def _all_executions(
        self, device: ConnectedDevice, loaded: ModelInfo, counters: tuple[int, ...]
    ) -> RunOutcome:
        """Execute all repetitions of all steps, and return them as one run."""
        whole = self.plan
        steps: Sequence[TestSet | None] = whole.steps or (whole.test_set,)
        total = whole.request.runs * len(steps)
        self._done, self._earlier, self._records = 0, [], []
        outcome = RunOutcome(0, 0)
        try:
            for number in range(total):
                index, last = number % len(steps), number >= total - len(steps)
                self.plan = replace(
                    whole,
                    request=replace(whole.request, runs=1),
                    stages=partial(_progress, whole.stages, number, total),
                )
                step = steps[index] if whole.steps else None
                if step is not None:
                    self._set_step(device, loaded, step, saved=last)
                outcome = self._one_execution(device, counters)
                self._done = number + 1
                if number == 0:
                    self._restarted_ns = outcome.restarted_ns
                if last:
                    self._save_outputs(device, loaded, step)
                if number < total - 1:
                    self._go_on(device, outcome, begins_anew=index == len(steps) - 1)
        except (HarnessError, KeyboardInterrupt) as error:
            if isinstance(error, TargetError | InfrastructureError):
                error.message = f"{_words(number, len(whole.steps), total)}: {error.message}"
            self._save_partial()
            raise
        finally:
            self.plan, self.resumed = whole, 0
            self.update(runs_completed=self._done)
        return self._whole(outcome)

    def _set_step(
        self, device: ConnectedDevice, loaded: ModelInfo, step: TestSet, *, saved: bool
    ) -> None:
        """Set the inputs of a step; ``saved``: also save them and the references."""
        if not saved:
            for index, (array, tensor) in enumerate(zip(step.inputs, loaded.inputs, strict=True)):
                array, sizes = np.asarray(array), np.shape(array) if tensor.dynamic else ()
                device.session.set_input(index, tensor_to_bytes(array, tensor), sizes=sizes)
            return
        plan = self.plan
        self.plan = replace(plan, test_set=step, references=[*step.expected])
        with self._within(step):
            self._set_inputs(device, loaded)
        self.plan = plan

    def _one_execution(self, device: ConnectedDevice, counters: tuple[int, ...]) -> RunOutcome:
        try:
            return self._run_model(device.session, counters)
        except DeviceRefusedError as error:
            if not self.resumed or error.status != Status.BAD_REQUEST:
                raise
            raise UsageError(
                f"the firmware of {device.info.board} cannot continue a run: it is of an earlier "
                "version, or logs several tracers",
                hint="flash the current firmware; or run without --steps, with --state keep",
            ) from error

    def _save_outputs(
        self, device: ConnectedDevice, loaded: ModelInfo, step: TestSet | None
    ) -> None:
        outputs, session = [], device.session
        with self._within(step):
            for index, declared in enumerate(loaded.outputs):
                tensor = session.output_info(index, declared)
                data = session.read(Region.OUTPUT, index, most=declared.nbytes)
                outputs.append(save_output(self.directory, index, tensor, data))
        model, reference = self.result.model, self.result.reference
        assert model is not None
        if step is None:
            self.update(model=msgspec.structs.replace(model, outputs=tuple(outputs)))
            return
        folder = _folder(step)
        files = tuple(f"{folder}/{file}" for file in reference.files) if reference else ()
        record = StepRecord(_within(folder, model.inputs), _within(folder, outputs), files)
        self._records.append(record)
        self.update(
            model=msgspec.structs.replace(model, inputs=record.inputs, outputs=record.outputs),
            reference=msgspec.structs.replace(reference, files=files) if reference else None,
        )

    @contextmanager
    def _within(self, step: TestSet | None) -> Iterator[None]:
        """Write tensors into the folder of a step."""
        whole = self.directory
        if step is not None:
            self.directory = RunDirectory(whole.path / _folder(step))
        try:
            yield
        finally:
            self.directory = whole

    def _go_on(self, device: ConnectedDevice, outcome: RunOutcome, *, begins_anew: bool) -> None:
        """Read the log of an execution, and decide with which state the next one begins."""
        session, state = device.session, self.plan.request.state
        last = session.read(Region.TRACE)
        if not is_device_log(last):
            raise UsageError(
                f"{device.info.board} cannot continue a run: its runtime writes the trace by "
                "itself, and ends it when it is read",
                hint="use a board with the harness's tracer, such as native-executorch; or run "
                "without --steps, with --state keep",
            )
        self._earlier += without_repeated(outcome.chunks, last)
        self._earlier.append(last + read_debug_buffer(session))
        resets = state == "reset" or (state == "auto" and begins_anew)
        keeps = not (resets and self._stateful)
        self.resumed = RunFlag.CONTINUE | RunFlag.KEEP_STATE * keeps

    def _whole(self, outcome: RunOutcome, more: int = 0) -> RunOutcome:
        """Return all executions as one run; ``more`` of the last one are not counted yet."""
        chunks = (*self._earlier, *outcome.chunks)
        restarted_ns = self._restarted_ns if self._done else outcome.restarted_ns
        return RunOutcome(outcome.run_id, self._done + more, chunks, restarted_ns)

    def _save_partial(self) -> None:
        """Save the logs of completed executions before what has arrived of the last one."""
        file = self.directory.path / PARTIAL
        rest = file.read_bytes() if file.is_file() else b""
        if self._earlier:
            images = b"".join(split_chunk(chunk)[0] for chunk in self._earlier)
            self.directory.write(PARTIAL, images + rest)


def _folder(step: TestSet) -> str:
    return f"{STEPS}/{step.index:03}"


def _within(folder: str, tensors: Sequence[TensorRecord]) -> tuple[TensorRecord, ...]:
    """Return records of tensors whose files are in a folder."""
    return tuple(
        msgspec.structs.replace(tensor, file=f"{folder}/{tensor.file}") for tensor in tensors
    )


def _progress(stages: Stages, before: int, total: int, stage: str, done: int, count: int) -> None:
    """Report executions of the whole run; other stages as they are."""
    if stage == "running":
        stages(stage, before + done, total)
    else:
        stages(stage, done, count)


def _words(number: int, steps: int, total: int) -> str:
    """Return which execution it is, for messages."""
    if not steps:
        return f"execution {number + 1} of {total}"
    words, runs = f"step {number % steps + 1} of {steps}", total // steps
    return words if runs == 1 else f"{words}, repetition {number // steps + 1} of {runs}"
