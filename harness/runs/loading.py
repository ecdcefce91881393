"""Models on boards: in the firmware image, or loaded by a connected device; and their test sets.

Whether the board can run a model is asked before its firmware is built, and again before the
upload, when the device has described itself. A refusal becomes an error of its owner.
"""

from __future__ import annotations

import logging
import re
from contextlib import suppress
from typing import Any

import msgspec
from msgspec.structs import replace

from harness.analyze.delegates import delegate_calls
from harness.analyze.workload import instruction_records, method_sections
from harness.check.fit import check_fit, check_loaded, fit_placed, operand_types, placed_capacity
from harness.config.board import Board, Capacity
from harness.decode.pte import ModelFile, is_bundled_program, linked_program, read_bundled_program
from harness.errors import DeviceRefusedError, FormatError, UsageError, did_you_mean
from harness.files import display_path, read_model
from harness.flash.plan import Stages
from harness.link.messages import ModelInfo, TargetInfo
from harness.link.session import Session
from harness.link.wire import Status
from harness.records.measurement import BUNDLED_KERNELS
from harness.records.result import BUNDLED_RUNTIME, DelegateCall, Model
from harness.runs.directory import TEST_SETS
from harness.runs.request import RunRequest
from harness.runs.source import HOST_CPU, test_set_name
from harness.target.build import PlacedModel


def bundled_model(whole: Model | None, model: Model | None) -> Model | None:
    """Return the record of a bundled program: of the method that needs most of the arena."""
    if model is None or (whole is not None and whole.arena_bytes >= model.arena_bytes):
        return whole
    return replace(model, method="", inputs=(), outputs=(), delegates=(), planned={}, chains=None)


def test_set_folder(method: str, index: int) -> str:
    """Return the run directory of a test set, relative to that of the whole.

    Methods with characters that a folder's name should not have get their code points instead.
    """
    name = re.sub(r"[^A-Za-z0-9_]", lambda found: f"%{ord(found[0]):x}", method)
    return f"{TEST_SETS}/{name}-{index}"


def read_model_file(request: RunRequest) -> ModelFile:
    """Read the model of a request; of a bundled program also the test sets that it runs.

    Raises:
        UsageError: The file is missing; or a bundled program has no test sets for the method, a
            test set does not fit it, or the request has inputs or references of its own.
        FormatError: A bundled program is damaged.
    """
    data = read_model(request.model)
    if not is_bundled_program(data):
        if request.data:
            data = linked_program(data, display_path(request.model), request.data)
        return ModelFile(request.model, data)
    name = display_path(request.model)
    if request.inputs or request.references or request.dataset:
        raise UsageError(
            f"{name} is a bundled program: its test sets have the inputs and the expected outputs",
            hint="omit --input, --reference and --dataset, or run the .pte file that was bundled",
        )
    try:
        bundled = read_bundled_program(data)
    except FormatError as error:
        raise FormatError(
            f"{name} is not a complete bundled program: {error.message}",
            hint=error.hint or "bundle it again, or copy it again and compare sizes",
        ) from error
    known = dict.fromkeys(each.method for each in bundled.test_sets)
    if not known:
        raise UsageError(
            f"{name} has no test sets",
            hint="bundle it with a MethodTestSuite, or run its .pte file",
        )
    if request.method is not None and request.method not in known:
        raise UsageError(
            f"{name} has no test sets for method {request.method!r}",
            hint=f"{did_you_mean(request.method, known)}methods with test sets: {', '.join(known)}",
        )
    chosen = tuple(each for each in bundled.test_sets if request.method in (None, each.method))
    program = linked_program(bundled.program, name, request.data)
    model = ModelFile(request.model, program, chosen)
    with suppress(FormatError):  # the run itself fails with it, and has a result
        _require_fitting(model)
    return model


def _require_fitting(model: ModelFile) -> None:
    """Check the numbers of inputs and outputs before anything is started."""
    name = display_path(model.path)
    for each in model.test_sets:
        method = model.program.method(each.method)
        if method is None:
            raise UsageError(
                f"{name}: the program has no method {each.method!r}, which test sets are for",
                hint="bundle the test sets with the program that they were made for",
            )
        for what, given, wanted in (
            ("inputs", each.inputs, method.inputs),
            ("outputs", each.expected, method.outputs),
        ):
            if len(given) != len(wanted):
                raise UsageError(
                    f"{name}: {test_set_name(each.method, each.index)} has {len(given)} {what}, "
                    f"the method has {len(wanted)}",
                    hint="bundle the test sets with the program that they were made for",
                )


_log = logging.getLogger(__name__)


def place_model(model: ModelFile, board: Board, *, upload: int = 0) -> PlacedModel:
    """Return a model to place in the image of a board's firmware.

    Args:
        model: The model.
        board: The board.
        upload: Bytes to keep as a buffer for uploads of other models.

    Raises:
        UsageError: It is not a model, or the board cannot run one of its methods.
    """
    methods = model.program.methods
    capacity = placed_capacity(methods, board, upload=upload)
    for method in methods:
        fit = fit_placed(method, methods, len(model.data), board)
        if fit is not None:
            fit.require(f"{display_path(model.path)} placed in flash")
    return PlacedModel(model.path.name, model.data, capacity)


def require_runnable(model: ModelFile, name: str, board: Board, request: RunRequest) -> None:
    """Check that a board can run a method, before anything is built or started.

    Args:
        model: The model.
        name: Name of the method.
        board: The board.
        request: Says whether the firmware is built here; if not, that of a board with a ``runner``
            is known, and others describe themselves.

    Raises:
        UsageError: The program has no such method, or the board cannot run it.
        FormatError: The program cannot be read.
    """
    method = model.program.method(name)
    if method is None:
        names = [each.name for each in model.program.methods]
        raise UsageError(
            f"{display_path(model.path)} has no method {name!r}",
            hint=f"{did_you_mean(name, names)}select one with --method: {', '.join(names)}",
        )
    if not request.placed and (request.builds_firmware(board) or board.runner):
        check_fit(model.program, method, len(model.data), board, display_path(model.path))


def load_model(
    session: Session,
    info: TargetInfo,
    board: Board,
    model: ModelFile,
    name: str,
    stages: Stages,
) -> ModelInfo:
    """Have a device load a method; upload the program unless the device holds it already.

    Args:
        session: The conversation with the device.
        info: The device's description of itself.
        board: Its board file.
        model: The model.
        name: Name of the method.
        stages: Called to report progress.

    Raises:
        TargetError: The device describes another model than the program.
        UsageError: The program has no such method, or the board cannot run it.
        FormatError: The device found it damaged.
    """
    check_device(info, board, model, name)
    try:
        loaded = session.load_model(
            model.data,
            digest=model.digest,
            method=name,
            progress=lambda done, total: stages("uploading", done, total),
        )
    except DeviceRefusedError as error:
        if error.status == Status.NO_METHOD:
            raise UsageError(
                f"cannot run {model.path}: {error.message}",
                hint="select another method with --method",
            ) from error
        if error.status == Status.BAD_PROGRAM:
            raise FormatError(
                f"{model.path} is not a complete ExecuTorch program: {error.message}",
                offset=error.detail if error.executorch_error is None else None,
                hint="export it again, or copy it again and compare sizes",
            ) from error
        raise
    check_loaded(info, model.method(name), loaded)
    _log.info("loaded %s, %d bytes", model.path, len(model.data))
    return loaded


def check_device(info: TargetInfo, board: Board, model: ModelFile, name: str) -> None:
    """Refuse a method ``name`` that a device cannot run, by its description of itself.

    Firmware with a selection of the bundled kernels, or with others, checks by itself: it reports
    how many operators it has, not which.

    Raises:
        UsageError: The device cannot run it.
    """
    file, nbytes = display_path(model.path), len(model.data)
    holds = info.holds(model.digest)
    if info.placed is not None and not holds and nbytes > info.model_capacity:
        build = f"`etharness build --board {board.name} --model {file}`"
        room = f"of up to {info.model_capacity:,} bytes" if info.model_capacity else "of no model"
        raise UsageError(
            f"cannot upload {file} ({nbytes:,} bytes) to {info.board}: its firmware holds "
            f"{info.placed.name} in flash and takes uploads {room}",
            hint=f"flash firmware with this model, from {build}; or flash firmware without a model",
        )
    method = model.method(name)
    if method is None:
        return  # the device names those that it has
    bundled = info.kernels == BUNDLED_KERNELS and info.operators == len(operand_types())
    capacity = Capacity(
        info.model_capacity,
        info.arena_capacity,
        info.input_capacity,
        info.trace_capacity,
        info.debug_capacity,
    )
    described = replace(board, capacity=capacity)
    size = 0 if holds else nbytes
    executorch = info.runtime not in ("", BUNDLED_RUNTIME)
    check_fit(model.program, method, size, described, file, bundled=bundled, executorch=executorch)


def describe_model(request: RunRequest, model: ModelFile, board: Board) -> Model:
    """Return what a file says of the program that runs; inputs, outputs and memory are added."""
    method = model.method(request.method_name)
    delegates: tuple[DelegateCall, ...] = ()
    sections: dict[str, Any] = {}
    if method is not None and method.delegates:
        delegates = delegate_calls(model.data, method)
    if delegates or board.cpu != HOST_CPU:
        sections = method_sections(method, [board.cpu], delegates)
    pools = method.planned if method is not None else ()
    planned = {f"planned_{pool}": pools[pool] for pool in range(1, len(pools))}
    return Model(
        file=display_path(model.path),
        sha256=model.digest.hex(),
        nbytes=len(model.data),
        planned_bytes=sum(planned.values()),
        method_bytes=0,
        method=request.method_name,
        delegates=delegates,
        planned=planned,
        chains=instruction_records(method),
        inputs=(),
        outputs=(),
        name=request.name or msgspec.UNSET,
        sections=sections or msgspec.UNSET,
        data=tuple(str(file) for file in request.data) or msgspec.UNSET,
    )
