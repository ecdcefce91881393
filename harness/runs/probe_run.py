"""A run without a link: a debug probe lets a board run to a function, and reads its trace."""

from __future__ import annotations

import dataclasses
import hashlib
from collections.abc import Callable
from pathlib import Path

import numpy as np

from harness.analyze.blocks import executions
from harness.analyze.memory import allocator_totals
from harness.analyze.placement import quality_of_run
from harness.analyze.workload import instruction_records
from harness.config.board import Board, load_board
from harness.decode.bundled_program import is_bundled_program
from harness.decode.firmware_elf import FirmwareElf
from harness.errors import UsageError
from harness.files import display_path, find_model, read_model
from harness.lab.flash_plan import Stages
from harness.lab.units import Chosen
from harness.records.result import Model, TensorRecord
from harness.records.trace import Trace
from harness.records.verdict import Verdict
from harness.runs.delegates import interpret_delegates
from harness.runs.device_data import (
    delegate_calls,
    planned_sizes,
    read_method,
    read_references,
    save_output,
    save_references,
    steadiness_of,
)
from harness.runs.directory import RunDirectory
from harness.runs.evaluation import EvaluatedRun, evaluate_run, verdict_record, with_evidence
from harness.runs.probe import (
    MemoryTracers,
    ProbeRequest,
    UnreadOutputsError,
    decode_log,
    disturbance,
    probe_of,
    target_in_memory,
)
from harness.runs.recorder import RunRecorder, unfinished_result
from harness.runs.request import RunRequest, find_time_scales
from harness.runs.run import FinishedRun, find_budget, run_model

_NEEDS_A_LINK = ("energy", "inputs", "flash", "baud", "placed", "stream", "trace_limit", "seed")
"""Fields of a request that the host can only carry out over a link."""


def execute_request(
    request: RunRequest,
    probe: ProbeRequest | None,
    stages: Stages = lambda *_: None,
    ended: Callable[[EvaluatedRun], None] = lambda _: None,
) -> FinishedRun:
    """Run a model through a debug probe, or over the link without one; as `run_model`."""
    if probe is not None:
        return run_by_probe(request, probe, stages, ended)
    return run_model(request, stages, ended)


def run_by_probe(
    request: RunRequest,
    wanted: ProbeRequest,
    stages: Stages = lambda *_: None,
    ended: Callable[[EvaluatedRun], None] = lambda _: None,
) -> FinishedRun:
    """Let a board execute the model in its firmware, and write a run directory.

    The board runs until it has entered the function ``wanted.until`` ``request.runs`` times.

    Args:
        request: The request; its model is the one in the firmware, for checks and reports.
        wanted: What the probe reads.
        stages: Called to report progress.
        ended: Called once the run directory is complete, also after a failure.

    Raises:
        UsageError: The request is invalid; nothing was started.
        TargetError: The board runs other firmware, or did not reach the function.
        InfrastructureError: The probe or the host failed.
    """
    if wanted.until is None:
        raise UsageError(
            f"a run on {request.port} has no end",
            hint="name a function with --until that the firmware calls after each execution",
        )
    _refuse_link_options(request)
    board, board_file = load_board(request.board)
    request = dataclasses.replace(request, model=find_model(request.model))
    model = read_model(request.model)
    if is_bundled_program(model):
        raise UsageError(
            f"{request.model} is a bundled program, whose inputs have to be sent over a link",
            hint="give --model the .pte file that the firmware contains",
        )
    budget = find_budget(request, board, board_file)
    if request.against is not None:
        request.against.check()
    elf = FirmwareElf(wanted.elf)
    elf.function(wanted.until)
    scales = find_time_scales(request, board)
    facts = (request, wanted, board, elf, model, read_references(request.references))
    run = _ProbeRun(*facts, RunDirectory.create(request.output), stages, scales)
    try:
        with run.recorded():
            trace = run.execute()
            run.evaluate(trace, budget)
    finally:
        ended(run.evaluated)
    return FinishedRun(run.result, trace, run.evaluated.comparison)


def _refuse_link_options(request: RunRequest) -> None:
    plain = {field.name: field.default for field in dataclasses.fields(RunRequest)}
    settings = (*_NEEDS_A_LINK, "values", "profile", "when_full", "counters")
    given = [name for name in settings if getattr(request, name) != plain[name]]
    if given:
        raise UsageError(
            f"{request.port} is a debug probe: the firmware decides about {', '.join(given)}",
            hint="leave out these options, or connect the board by a serial port",
        )


class _ProbeRun(RunRecorder):
    """A run through a debug probe, in progress."""

    def __init__(
        self,
        request: RunRequest,
        wanted: ProbeRequest,
        board: Board,
        elf: FirmwareElf,
        model: bytes,
        references: list[np.ndarray],
        directory: RunDirectory,
        stages: Stages,
        time_scales: dict[str, str],
    ) -> None:
        self.request, self.wanted, self.board, self.elf = request, wanted, board, elf
        self.model, self.method = model, read_method(model, request.method_name)
        self.references, self.stages = references, stages
        self._evaluated: EvaluatedRun | None = None
        super().__init__(directory, unfinished_result(request, board, time_scales))

    def execute(self) -> Trace:
        """Let the board execute the model, and read its trace."""
        request, until = self.request, self.wanted.until
        assert until is not None
        chosen = Chosen(request.board, request.port, request.unit, request.leased)
        with probe_of(chosen, self.board, f"run of {request.model.name}") as (_, probe):
            tracers = MemoryTracers(probe, self.wanted, self.elf)
            try:
                if self.wanted.reset is not None:
                    probe.reset(self.wanted.reset)
                self.stages("running", 0, 0)
                log = tracers.read_at(until, request.runs, self.board.deadlines.execute_s)
                outputs, unread = self._read_outputs(tracers)
            finally:
                self.update(link=disturbance(probe))
        trace, summary = decode_log(log, self.board, self.directory)
        described = self._describe(trace, outputs, unread)
        about = self.result
        trace = interpret_delegates(trace, about.time_scales, about.metadata, described)
        self.update(
            target=target_in_memory(self.board, self.elf, trace, tracers),
            model=described,
            trace=summary,
            runs_completed=int(np.count_nonzero(executions(trace)[0])),
            clock_quality=quality_of_run(trace, (), steadiness=steadiness_of(self.board)),
        )
        return trace

    def _read_outputs(self, tracers: MemoryTracers) -> tuple[tuple[TensorRecord, ...], str]:
        """Save outputs and references; return records of outputs, and why there are none.

        Raises:
            TargetError: There are references, but no outputs.
        """
        request, method = self.request, self.method
        try:
            if method is None:
                raise UnreadOutputsError(
                    f"{display_path(request.model)} has no method {request.method_name}"
                )
            wanted = (len(method.outputs), request.rtol, request.atol)
            self.update(reference=save_references(self.directory, self.references, *wanted))
            read = tracers.read_outputs(method)
        except UnreadOutputsError as error:
            if self.references:
                raise
            return (), error.message
        records = (save_output(self.directory, at, *output) for at, output in enumerate(read))
        return tuple(records), ""

    def _describe(self, trace: Trace, outputs: tuple[TensorRecord, ...], unread: str) -> Model:
        """Describe the model by its file, and the memory of its method by the trace."""
        model, name, method = self.model, self.request.method_name, self.method
        taken = sum(row.total_bytes for row in allocator_totals(trace) if row.name == "method")
        planned = planned_sizes(method)
        return Model(
            file=display_path(self.request.model),
            sha256=hashlib.sha256(model).hexdigest(),
            nbytes=len(model),
            planned_bytes=sum(planned.values()),
            method_bytes=taken,
            method=name,
            delegates=delegate_calls(method),
            planned=planned,
            chains=instruction_records(method),
            inputs=(),
            outputs=outputs,
            outputs_unread=unread,
        )

    def evaluate(self, trace: Trace, budget: Path | None) -> None:
        """Evaluate the run by the invariants, the budget and the history."""
        self.update(failure=None)
        path = self.directory.path
        self._evaluated = evaluate_run(
            *(display_path(path), trace, self.result, budget, path), history=self.request.against
        )
        verdict = verdict_record(self._evaluated)
        self.update(verdict=verdict, exit_code=self._evaluated.verdict.exit_code)

    @property
    def evaluated(self) -> EvaluatedRun:
        """The run for reports; without checks if it failed."""
        path = self.directory.path
        failed = EvaluatedRun(display_path(path), None, Verdict(()), directory=path)
        return with_evidence(dataclasses.replace(self._evaluated or failed, result=self.result))
