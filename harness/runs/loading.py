"""Loads a model on a connected device; a refusal becomes an error of its owner."""

from __future__ import annotations

import logging

from harness.check.fit import bundled_operators, missing_operators
from harness.config.board import Board
from harness.decode.program import Method
from harness.errors import DeviceRefusedError, FormatError, TargetError, UsageError
from harness.files import display_path
from harness.lab.flash_plan import Stages
from harness.link.session import Session
from harness.link.values import ModelInfo, TargetInfo
from harness.link.wire import Status
from harness.runs.request import RunRequest

_log = logging.getLogger(__name__)


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
    if len(program) > info.model_capacity:
        raise TargetError(
            f"{request.model} is too large for {info.board}: {len(program)} bytes, "
            f"its limit is {info.model_capacity} bytes"
        )
    _check_operators(info, board, request, method)
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
                offset=error.detail,
                hint="export it again, or copy it again and compare sizes",
            ) from error
        raise
    _log.info("loaded %s, %d bytes", request.model, len(program))
    return loaded


def _check_operators(
    info: TargetInfo, board: Board, request: RunRequest, method: Method | None
) -> None:
    """Refuse a model with operators that the board lacks, all of them at once.

    Firmware with a selection of the bundled kernels, or with ExecuTorch's, checks by itself:
    it reports how many operators it has, not which.
    """
    available = bundled_operators()
    executorch = board.build is not None and board.build.executorch
    if method is None or executorch or info.operators != len(available):
        return
    if missing := missing_operators(method, available):
        raise TargetError(
            f"{info.board} has no kernel for {', '.join(missing)}, which "
            f"{display_path(request.model)} calls",
            hint="`etharness inspect` shows which boards a model fits",
        )
