"""Models on boards: in the firmware image, or loaded by a connected device.

What a board lacks is asked before the upload. A refusal becomes an error of its owner.
"""

from __future__ import annotations

import logging
from pathlib import Path

from harness.check.fit import bundled_operators, missing_operators
from harness.check.placement import fit_placed, placed_capacity
from harness.config.board import Board, SerialTarget
from harness.decode.program import Method
from harness.decode.pte import read_program
from harness.errors import DeviceRefusedError, FormatError, TargetError, UsageError
from harness.files import display_path
from harness.lab.flash_plan import Stages
from harness.link.session import Session
from harness.link.values import ModelInfo, TargetInfo
from harness.link.wire import Status
from harness.runs.request import RunRequest
from harness.target.build import PlacedModel

_log = logging.getLogger(__name__)


def check_placeable(request: RunRequest, board: Board) -> None:
    """Refuse to place a model in firmware that a run does not build.

    Raises:
        UsageError: The firmware is on the board already, or comes as an image.
    """
    kept = isinstance(board.target, SerialTarget) and request.flash is None
    if request.placed and (kept or (request.flash and request.flash.image)):
        raise UsageError(
            f"cannot place the model: this run does not build the firmware of {board.name}",
            hint="flash the board with --flash and without --image; a board whose firmware has the "
            "model already needs no --placed",
        )


def place_model(path: Path, data: bytes, board: Board, *, upload: int = 0) -> PlacedModel:
    """Return a model to place in the image of a board's firmware.

    Args:
        path: The ``.pte`` file, for its name and for messages.
        data: Its bytes.
        board: The board.
        upload: Bytes to keep as a buffer for uploads of other models.

    Raises:
        UsageError: It is not a model, or does not fit the board.
    """
    try:
        methods = read_program(data).methods
    except FormatError as error:
        raise UsageError(f"{display_path(path)}: {error.message}", hint=error.hint) from error
    capacity = placed_capacity(methods, board, upload=upload)
    for method in methods:
        found = fit_placed(method, methods, len(data), board)
        for need in found.needs if found is not None else ():
            if need.shortfall:
                raise UsageError(
                    f"{display_path(path)} does not fit {board.name} when it is placed: "
                    f"{need.resource}: {need.shortfall:,} bytes are missing",
                    hint=need.remedy,
                )
    return PlacedModel(path.name, data, capacity)


def load_model(
    session: Session,
    info: TargetInfo,
    board: Board,
    request: RunRequest,
    program: bytes,
    method: Method | None,
    stages: Stages,
) -> ModelInfo:
    """Have a device load a method; upload the program unless the device holds it already.

    Args:
        session: The conversation with the device.
        info: The device's description of itself.
        board: Its board file.
        request: Names the model file and the method.
        program: The ``.pte`` file.
        method: What the host could read of the method; None if it could not.
        stages: Called to report progress.

    Raises:
        TargetError: The program is too large, or needs operators that the device lacks.
        UsageError: The program has no such method.
        FormatError: The device found it damaged.
    """
    check_room(info, board, program, request.model)
    _check_operators(info, board, method, request.model)
    try:
        loaded = session.load_model(
            program,
            method=request.method_name,
            progress=lambda done, total: stages("uploading", done, total),
        )
    except DeviceRefusedError as error:
        if error.status == Status.NO_METHOD:
            raise UsageError(
                f"cannot run {request.model}: {error.message}",
                hint="select another method with --method",
            ) from error
        if error.status == Status.BAD_PROGRAM:
            raise FormatError(
                f"{request.model} is not a complete ExecuTorch program: {error.message}",
                offset=error.detail if error.executorch_error is None else None,
                hint="export it again, or copy it again and compare sizes",
            ) from error
        raise
    _log.info("loaded %s, %d bytes", request.model, len(program))
    return loaded


def check_room(info: TargetInfo, board: Board, model: bytes, path: Path) -> None:
    """Refuse a model that is larger than the board's buffer for uploads.

    Raises:
        TargetError: It is too large, and is not in the board's firmware.
    """
    if len(model) <= info.model_capacity or info.holds(model):
        return
    build = f"`etharness build --board {board.name} --model {display_path(path)}`"
    if info.placed is not None:
        room = f"of up to {info.model_capacity:,} bytes" if info.model_capacity else "of no model"
        raise TargetError(
            f"cannot upload {display_path(path)} ({len(model):,} bytes) to {info.board}: its "
            f"firmware holds {info.placed.name} in flash and takes uploads {room}",
            hint=f"flash firmware with this model, from {build}; or flash firmware without a model",
        )
    raise TargetError(
        f"{display_path(path)} is too large for {info.board}: {len(model)} bytes, its limit is "
        f"{info.model_capacity} bytes",
        hint=f"place the model in flash: {build}" if board.build and board.capacity else "",
    )


def _check_operators(info: TargetInfo, board: Board, method: Method | None, path: Path) -> None:
    """Refuse a model with operators that the board lacks, all of them at once.

    Firmware with a selection of the bundled kernels, or with ExecuTorch's, checks by itself: it
    reports how many operators it has, not which.

    Raises:
        TargetError: Operators are missing.
    """
    available = bundled_operators()
    if method is None or board.links_executorch or info.operators != len(available):
        return
    if missing := missing_operators(method, available):
        raise TargetError(
            f"{info.board} has no kernel for {', '.join(missing)}, which "
            f"{display_path(path)} calls",
            hint="`etharness inspect` shows which boards a model fits",
        )
