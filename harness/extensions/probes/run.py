"""A run without a link: a debug probe lets a board run to a function, and reads its trace."""

from __future__ import annotations

import dataclasses
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np
from msgspec.structs import replace

from harness.analyze.blocks import executions
from harness.analyze.memory import allocator_totals
from harness.analyze.placement import quality_of_run
from harness.config.board import load_board
from harness.errors import UsageError
from harness.extensions.probes.memory import (
    FirmwareElf,
    MemoryTracers,
    UnreadOutputsError,
    UnsettledError,
    decode_log,
    disturbance,
    probe_of,
    target_in_memory,
)
from harness.files import display_path
from harness.flash.plan import Stages
from harness.records.result import Model, TensorRecord
from harness.records.trace import Trace
from harness.runs.device import save_output, save_references
from harness.runs.directory import PARTIAL, RunDirectory
from harness.runs.loading import describe_model
from harness.runs.pull import finish_pull
from harness.runs.request import ProbeRequest, RunRequest, unfinished_result
from harness.runs.run import RunPlan, RunRecorder, plan_run
from harness.runs.source import EvaluatedRun, interpret_delegates
from harness.target.selection import Chosen

_NEEDS_A_LINK = (
    *("energy", "inputs", "flash", "baud", "placed", "stream", "trace_limit", "seed", "steps"),
    *("state", "dataset"),
)
"""Fields of a request that the host can only carry out over a link."""


def run_by_probe(
    request: RunRequest,
    stages: Stages = lambda *_: None,
    ended: Callable[[EvaluatedRun], None] = lambda _: None,
) -> EvaluatedRun:
    """Let a board execute the model in its firmware, and write a run directory.

    The board runs until it has entered the function ``through.until`` ``request.runs`` times.

    Args:
        request: The request; its model is the one in the firmware, for checks and reports.
        stages: Called to report progress.
        ended: Called once the run directory is complete, also after a failure.

    Raises:
        UsageError: The request is invalid; nothing was started.
        TargetError: The board runs other firmware, or did not reach the function.
        InfrastructureError: The probe or the host failed.
    """
    wanted = request.through
    if wanted is None or wanted.until is None:
        raise UsageError(
            f"a run on {request.place.port} has no end",
            hint="name a function with --until that the firmware calls after each execution",
        )
    _refuse_link_options(request)
    plan = plan_run(request, stages)
    if plan.model.test_sets:
        raise UsageError(
            f"{request.model} is a bundled program, whose inputs have to be sent over a link",
            hint="give --model the .pte file that the firmware contains",
        )
    elf = FirmwareElf(wanted.elf)
    elf.function(wanted.until)
    directory = RunDirectory.create(request.output)
    return _ProbeRun(plan, directory, wanted, elf).finished(ended)


def _refuse_link_options(request: RunRequest) -> None:
    plain = {field.name: field.default for field in dataclasses.fields(RunRequest)}
    settings = (*_NEEDS_A_LINK, "values", "profile", "when_full", "counters")
    given = [name for name in settings if getattr(request, name) != plain[name]]
    if given:
        raise UsageError(
            f"{request.place.port} is a debug probe: the firmware decides about {', '.join(given)}",
            hint="leave out these options, or connect the board by a serial port",
        )


class _ProbeRun(RunRecorder):
    """A run through a debug probe, in progress."""

    def __init__(
        self, plan: RunPlan, directory: RunDirectory, wanted: ProbeRequest, elf: FirmwareElf
    ) -> None:
        self.wanted, self.elf = wanted, elf
        self.method = plan.model.method(plan.request.method_name)
        result = unfinished_result(plan.request, plan.board, plan.time_scales)
        super().__init__(plan, directory, result)

    def another(self, plan: RunPlan, directory: RunDirectory) -> _ProbeRun:
        """Return a further run of the same kind."""
        return _ProbeRun(plan, directory, self.wanted, self.elf)

    def execute(self) -> Trace:
        """Let the board execute the model, and read its trace."""
        plan, request, until = self.plan, self.plan.request, self.wanted.until
        assert until is not None
        with probe_of(request.place, plan.board, f"run of {request.model.name}") as (_, probe):
            tracers = MemoryTracers(probe, self.wanted, self.elf)
            try:
                if self.wanted.reset is not None:
                    probe.reset(self.wanted.reset)
                plan.stages("running", 0, 0)
                log = tracers.read_at(until, request.runs, plan.board.deadlines.execute_s)
                outputs, unread = self._read_outputs(tracers)
            finally:
                self.update(link=disturbance(probe))
        trace, summary = decode_log(log, plan.board, self.directory)
        described = self._describe(trace, outputs, unread)
        about = self.result
        trace = interpret_delegates(trace, about.time_scales, about.metadata, described)
        self.update(
            target=target_in_memory(plan.board, self.elf, trace, tracers),
            model=described,
            trace=summary,
            runs_completed=int(np.count_nonzero(executions(trace)[0])),
            clock_quality=quality_of_run(trace, ()),
        )
        return trace

    def _read_outputs(self, tracers: MemoryTracers) -> tuple[tuple[TensorRecord, ...], str]:
        """Save outputs and references; return records of outputs, and why there are none.

        Raises:
            TargetError: There are references, but no outputs.
        """
        request, method, references = self.plan.request, self.method, self.plan.references
        try:
            if method is None:
                raise UnreadOutputsError(
                    f"{display_path(request.model)} has no method {request.method_name}"
                )
            outputs = len(method.outputs)
            reference = save_references(
                self.directory, references, outputs, request.rtol, request.atol
            )
            self.update(reference=reference)
            read = tracers.read_outputs(method)
        except UnreadOutputsError as error:
            if references:
                raise
            return (), error.message
        records = (save_output(self.directory, at, *output) for at, output in enumerate(read))
        return tuple(records), ""

    def _describe(self, trace: Trace, outputs: tuple[TensorRecord, ...], unread: str) -> Model:
        """Describe the model by its file, and the memory of its method by the trace."""
        taken = sum(row.total_bytes for row in allocator_totals(trace) if row.name == "method")
        model = describe_model(self.plan.request, self.plan.model, self.plan.board)
        return replace(model, method_bytes=taken, outputs=outputs, outputs_unread=unread)


def pull_by_probe(
    chosen: Chosen, wanted: ProbeRequest, output: Path, stages: Stages = lambda *_: None
) -> EvaluatedRun:
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
            directory.write(PARTIAL, error.image)
            raise
    trace, summary = decode_log(log, board, directory)
    completed = int(np.count_nonzero(executions(trace)[0]))
    return finish_pull(
        directory,
        board,
        trace,
        began=began,
        unit=chosen.unit or str(chosen.port),
        port=str(chosen.port),
        runs_requested=completed,
        runs_completed=completed,
        target=target_in_memory(board, elf, trace, tracers),
        trace=summary,
        link=disturbance(probe),
    )
