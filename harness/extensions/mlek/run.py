"""Runs models on Arm's image with ExecuTorch, and records them like runs of any other board.

The plugin ``mlek`` of ``etharness.targets``: the runner of boards whose target names it.

Nothing in the image logs events. A plugin of QEMU counts the instructions of ExecuTorch's functions
(the extension ``probes``), so the trace has what ExecuTorch's own tracer would have logged.
"""

from __future__ import annotations

import dataclasses
import hashlib
import logging
import shutil
from collections.abc import Callable, Iterator, Sequence
from fractions import Fraction
from pathlib import Path
from typing import Final

from msgspec.structs import replace

from harness.analyze.placement import quality_of_run
from harness.config.board import Board
from harness.decode.ed00_writer import write_ed00
from harness.decode.program import Method, Tensor
from harness.errors import UsageError
from harness.extensions.mlek.image import (
    DISTRIBUTION,
    EXECUTORCH,
    PACKAGE_REMEDY,
    find_image,
    package_version,
)
from harness.extensions.mlek.machine import MOST_INPUT, execute
from harness.files import display_path
from harness.link.messages import TensorInfo
from harness.records.result import TargetRecord, TensorRecord
from harness.records.trace import ClockDomain, Trace, stored_bytes
from harness.runs.device import (
    read_inputs,
    save_output,
    save_references,
    save_trace,
    tensor_to_bytes,
)
from harness.runs.directory import RunDirectory, from_clock_domain
from harness.runs.loading import describe_model, require_runnable
from harness.runs.request import RunRequest, unfinished_result
from harness.runs.run import RunPlan, RunRecorder
from harness.runs.source import EvaluatedRun

_log = logging.getLogger(__name__)

RUNTIME: Final = EXECUTORCH.runtime
KERNELS: Final = "its portable, quantized and Cortex-M kernels (CMSIS-NN)"
"""How results name whose code runs: ``ExecuTorch of Arm's kit 26.03 with its ... kernels``."""

_OF_THE_FIRMWARE: Final = (
    *("flash", "baud", "placed", "stream", "trace_limit", "energy", "counters", "steps"),
    "dataset",
)
_OF_THE_LOG: Final = ("values", "profile", "when_full", "state")


def needed_programs(_board: Board) -> list[tuple[str, str | None, str]]:
    """Return name, path (None: not installed) and remedy of the programs that it needs."""
    compiler = next(filter(shutil.which, ("cc", "gcc", "clang")), "cc")
    return [(compiler, shutil.which(compiler), "apt-get install gcc")]


def needed_package(_board: Board) -> tuple[str, str | None, str]:
    """Return name, version (None: not installed) and remedy of the package with the image."""
    return DISTRIBUTION, package_version(), PACKAGE_REMEDY


def run_on_image(plan: RunPlan, ended: Callable[[EvaluatedRun], None]) -> EvaluatedRun:
    """Run a model on the image, and write a run directory.

    Raises:
        UsageError: The image is not installed or another one, or the request asks for what the
            image cannot do.
        TargetError: ExecuTorch refused the model or failed.
    """
    _refuse_options(plan.request, plan.board)
    image = find_image()
    if plan.test_sets:
        raise UsageError(
            f"{display_path(plan.request.model)} is a bundled program, which {plan.board.name} "
            "does not run",
            hint="run the .pte file that was bundled, with --input and --reference",
        )
    return _ImageRun(plan, RunDirectory.create(plan.request.output), image).finished(ended)


def _refuse_options(request: RunRequest, board: Board) -> None:
    plain = {field.name: field.default for field in dataclasses.fields(RunRequest)}
    given = [
        f"--{name.replace('_', '-')}"
        for name in (*_OF_THE_FIRMWARE, *_OF_THE_LOG)
        if getattr(request, name) != plain[name]
    ]
    if given:
        raise UsageError(
            f"{board.name} runs an image that nobody here builds, without a link and without a "
            f"tracer: {', '.join(given)} cannot be set",
            hint="leave out these options",
        )


class _ImageRun(RunRecorder):
    """A run on the image, in progress."""

    def __init__(self, plan: RunPlan, directory: RunDirectory, image: Path) -> None:
        self._image = image
        settings = replace(plan.request.settings, runtime="executorch", kernels=KERNELS)
        super().__init__(
            plan, directory, unfinished_result(plan.request, plan.board, plan.time_scales, settings)
        )

    def another(self, plan: RunPlan, directory: RunDirectory) -> _ImageRun:
        """Return a further run of the same kind."""
        return _ImageRun(plan, directory, self._image)

    def execute(self) -> Trace:
        """Run the model, and save its inputs, its outputs, its memory and its trace."""
        plan, request, board = self.plan, self.plan.request, self.plan.board
        require_runnable(plan.model, request.method_name, board, request)
        method = _runnable_method(plan)
        inputs = _tensors(method, method.inputs, "input", request)
        outputs = _tensors(method, method.outputs, "output", request)
        self.update(
            reference=save_references(
                self.directory, plan.references, len(outputs), request.rtol, request.atol
            ),
            target=_describe_image(board, self._image),
            model=describe_model(request, plan.model, board),
        )
        sent = self._save_inputs(inputs)
        done = execute(
            board,
            self._image,
            plan.model.data,
            method,
            sent,
            sum(tensor.nbytes for tensor in outputs),
            request.runs,
            self.console.extend,
            lambda count: plan.stages("running", count, request.runs),
        )
        if done.report.printing:
            _log.warning(
                "kernels print while they execute, so the instructions of their operators are "
                "those of printing, too: %s",
                ", ".join(done.report.printing),
            )
        assert self.result.model is not None
        self.update(
            runs_completed=request.runs,
            model=replace(
                self.result.model,
                planned_bytes=done.report.planned or 0,
                method_bytes=done.report.method or 0,
                temporary_bytes=done.report.temporary or 0,
                outputs=tuple(self._save_outputs(outputs, done.outputs)),
            ),
        )
        etdump = write_ed00(done.trace)
        trace, summary = save_trace(etdump, b"", done.trace.clocks, self.directory)
        self.update(trace=summary, clock_quality=quality_of_run(trace, ()))
        return trace

    def _save_inputs(self, tensors: Sequence[TensorInfo]) -> bytes:
        """Save the inputs, and return their bytes as the runner takes them."""
        request, saved, data = self.plan.request, [], b""
        for index, (array, tensor) in enumerate(
            zip(read_inputs(request.inputs, tensors, request.seed), tensors, strict=True)
        ):
            file = self.directory.write_tensor(f"inputs/{index}.npy", array)
            saved.append(TensorRecord(tensor.scalar_type, array.shape, array.nbytes, file))
            data += tensor_to_bytes(array, tensor)
        assert self.result.model is not None
        self.update(model=replace(self.result.model, inputs=tuple(saved)))
        return data

    def _save_outputs(self, tensors: Sequence[TensorInfo], data: bytes) -> Iterator[TensorRecord]:
        at = 0
        for index, tensor in enumerate(tensors):
            yield save_output(self.directory, index, tensor, data[at : at + tensor.nbytes])
            at += tensor.nbytes


def _runnable_method(plan: RunPlan) -> Method:
    """Return the method to run.

    Raises:
        UsageError: The runner would execute another one.
    """
    method, methods = plan.model.method(plan.request.method_name), plan.model.program.methods
    assert method is not None  # it has been checked
    if method.name != methods[0].name:
        raise UsageError(
            f"{plan.board.name} executes the first method of a program, {methods[0].name!r}, and "
            f"not {method.name!r}",
            hint="export a program with this method alone",
        )
    return method


def _tensors(
    method: Method, numbers: Sequence[int], what: str, request: RunRequest
) -> list[TensorInfo]:
    """Describe the inputs or outputs of a method.

    Raises:
        UsageError: The runner does not handle one of them.
    """
    found = []
    for index, number in enumerate(numbers):
        value, problem, remedy = method.values[number], "", f"make {what}s tensors"
        size = None
        if not isinstance(value, Tensor):
            problem = "is not a tensor"
        elif not value.sizes:
            problem = "has no dimension"
            remedy = "reshape it to one element in the model"
        elif (size := stored_bytes(value.scalar_type, value.sizes)) is None:
            problem = "has an unknown type"
        elif what == "output" and not (value.constant or value.offset >= 0):
            # ExecuTorch would write through a null pointer, over the code of the image.
            problem, remedy = "has no planned memory", "export with alloc_graph_output"
        if problem:
            raise UsageError(
                f"{display_path(request.model)}: {what} {index} {problem}, which the runner of "
                "Arm's kit does not handle",
                hint=remedy,
            )
        assert isinstance(value, Tensor)
        assert size is not None
        found.append(
            TensorInfo(
                scalar_type=value.scalar_type,
                nbytes=size,
                sizes=tuple(value.sizes),
                dim_order=tuple(value.dim_order),
            )
        )
    if (total := sum(tensor.nbytes for tensor in found)) > MOST_INPUT:
        raise UsageError(
            f"{display_path(request.model)} has {what}s of {total:,} bytes, the runner of Arm's "
            f"kit copies {MOST_INPUT:,}",
            hint="use smaller ones",
        )
    return found


def _clock(board: Board) -> ClockDomain:
    timer = board.timer
    return ClockDomain(timer.source, Fraction(timer.hz), timer.bits, monotonic=timer.monotonic)


def _describe_image(board: Board, image: Path) -> TargetRecord:
    """Return the record of the image: the digest of its file is its build id."""
    capacity = board.capacity
    return TargetRecord(
        board=board.name,
        cpu=board.cpu,
        build_id=hashlib.sha256(image.read_bytes()).hexdigest()[:12],
        link_version=0,
        mtu=0,
        clocks=(from_clock_domain(_clock(board)),),
        model_capacity=capacity.model if capacity else 0,
        arena_capacity=capacity.arena if capacity else 0,
        input_capacity=capacity.inputs if capacity else 0,
        trace_capacity=0,
        debug_capacity=0,
        probe_ticks=0,
        probe_pairs=0,
        operators=0,
        runtime=RUNTIME,
        kernels=KERNELS,
    )
