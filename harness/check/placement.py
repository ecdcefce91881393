"""Models placed in the firmware image: the sizes of its buffers, and whether a model fits.

A placed model is used where it lies, so the firmware needs no RAM for an upload. The inputs of the
model get the bytes that they need, the arena gets the rest.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator, Sequence
from typing import Final

from msgspec.structs import replace

from harness.check.fit import Fit, Need, fit, staged_bytes
from harness.config.board import Board, Capacity
from harness.decode.program import Method
from harness.errors import UsageError

FIRMWARE_CODE: Final = 192 * 1024
"""Bytes of code and constants that the firmware of a Cortex-M board takes at most."""

_ALIGNMENT: Final = 16


def placed_capacity(methods: Sequence[Method], board: Board, *, upload: int = 0) -> Capacity:
    """Return the sizes of the buffers of firmware with a placed model.

    Args:
        methods: The methods of the model.
        board: The board.
        upload: Bytes to keep as a buffer for uploads of other models.

    Raises:
        UsageError: The board file does not say what sizes its firmware has, or they leave no arena.
    """
    usual = board.capacity
    if usual is None:
        raise UsageError(
            f"cannot place a model: {board.name} has no `capacity` in its board file",
            hint="add the table, with the sizes of its port.cmake (`etharness explain boards`)",
        )
    staged = max(map(staged_bytes, methods), default=0)
    inputs = max(usual.inputs, -(-staged // _ALIGNMENT) * _ALIGNMENT)
    arena = usual.model + usual.arena + usual.inputs - inputs - upload
    if arena <= 0:
        raise UsageError(
            f"cannot place a model on {board.name}: its inputs take {inputs:,} bytes and uploads "
            f"{upload:,}, which leaves no arena",
            hint="use smaller inputs, or a smaller buffer for uploads",
        )
    arena -= arena % _ALIGNMENT
    return replace(usual, model=upload, inputs=inputs, arena=arena)


def fit_placed(
    method: Method,
    methods: Sequence[Method],
    model_bytes: int,
    board: Board,
    code_bytes: int | None = None,
) -> Fit | None:
    """Return whether a method of a model fits a board when it is placed in the image.

    Args:
        method: The method.
        methods: All methods of the model.
        model_bytes: Size of the model's file.
        board: The board.
        code_bytes: Size of the board's firmware without a model; None if it is not built.

    Returns:
        The needs; None if firmware with a model cannot be built for this board.
    """
    if board.build is None or board.capacity is None:
        return None
    try:
        capacity = placed_capacity(methods, board)
    except UsageError:  # the inputs take all RAM
        capacity = replace(board.capacity, model=0, arena=0)
    found = fit(method, model_bytes, replace(board, capacity=capacity))
    # Its sizes are chosen for the model, so raising them is no remedy.
    _, arena, inputs = (
        dataclasses.replace(need, remedy="use a smaller or a quantized network, or smaller inputs")
        for need in found.needs
    )
    needs = (*_image(model_bytes, board, code_bytes), arena, inputs)
    return Fit(
        *(found.board, found.runtime, found.kernels),
        *(found.missing_operators, found.missing_backends, needs),
    )


def _image(model_bytes: int, board: Board, code_bytes: int | None) -> Iterator[Need]:
    """Yield the bytes of the image with its model; a process of this host has no limit."""
    if board.memory is None:
        return
    room = board.memory.code or board.memory.ram
    remedy = "use a smaller or a quantized network"
    if code_bytes is not None:
        yield Need("image", model_bytes + code_bytes, room, True, remedy)
    elif model_bytes + FIRMWARE_CODE <= room:
        yield Need("image", model_bytes + FIRMWARE_CODE, room, True, remedy)
    else:  # only a built firmware says
        yield Need("image", model_bytes, room, False, remedy)
