"""Whether a model fits a board, before anything is built, flashed or uploaded.

The arena is predicted as the bundled C runtime lays it out (``src/runtime/memory.c``): each piece
is rounded up to 16 bytes. Tests compare the prediction with measured runs.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass
from functools import cache
from math import prod
from typing import Final

from harness.analyze.workload import tensor_bytes
from harness.config.board import Board, NativeTarget
from harness.decode.program import Call, Method, Tensor
from harness.files import data_directory
from harness.records.measurement import BUNDLED_KERNELS
from harness.records.result import BUNDLED_RUNTIME

_ALIGNMENT: Final = 16


@dataclass(frozen=True, slots=True)
class RuntimeSizes:
    """Bytes of the C runtime's structures (``loader.h``, ``etd_kernel.h``, ``delegates.h``)."""

    value: int
    tensor: int
    chain: int
    instruction: int
    buffer: int
    delegate: int
    temporary: int


SIZES_32: Final = RuntimeSizes(16, 92, 8, 20, 8, 8, 32)
SIZES_64: Final = RuntimeSizes(24, 104, 8, 32, 16, 16, 40)
"""With pointers of 32 and of 64 bits."""


@dataclass(frozen=True, slots=True)
class ArenaNeed:
    """Bytes of the arena that a method takes.

    Attributes:
        method: The structures that describe the method.
        planned: Planned memory, all pools.
        unplanned: Inputs and outputs without planned memory.
        exact: False with delegates: their backends take more, which only they know.
    """

    method: int
    planned: int
    unplanned: int
    exact: bool

    @property
    def total(self) -> int:
        """All of it; a lower bound if it is not exact."""
        return self.method + self.planned + self.unplanned


@dataclass(frozen=True, slots=True)
class Need:
    """One need of a model, and what the board has.

    Attributes:
        resource: ``model``, ``arena``, or ``inputs``.
        needed: Bytes; a lower bound if ``exact`` is False.
        available: Bytes that the board has; None if its board file does not say.
        exact: Whether ``needed`` is exact.
        remedy: What would help if it does not fit.
    """

    resource: str
    needed: int
    available: int | None
    exact: bool
    remedy: str

    @property
    def shortfall(self) -> int:
        """Missing bytes; 0 if it fits, or if the board file does not say."""
        return max(0, self.needed - self.available) if self.available is not None else 0


@dataclass(frozen=True, slots=True)
class Fit:
    """Whether one method of a model fits one board.

    Attributes:
        board: Name of the board.
        runtime: The runtime of its firmware.
        kernels: The kernel library of its firmware, if it is built here.
        missing_operators: Operators without a kernel, sorted; None if the runtime's are not known.
        missing_backends: Backends of delegates that the firmware does not link, sorted.
        needs: Its needs of memory.
        placed: Whether it fits when it is placed in the firmware image; None if not examined, or if
            such firmware cannot be built.
    """

    board: str
    runtime: str
    kernels: str
    missing_operators: tuple[str, ...] | None
    missing_backends: tuple[str, ...]
    needs: tuple[Need, ...]
    placed: Fit | None = None

    @property
    def fits(self) -> bool | None:
        """False if anything is missing; None if nothing is, but not everything is known."""
        if self.missing_operators or self.missing_backends:
            return False
        if any(need.shortfall for need in self.needs):
            return False
        known = all(need.exact and need.available is not None for need in self.needs)
        return True if known and self.missing_operators is not None else None


@cache
def bundled_operators() -> frozenset[str]:
    """Return the operators of the bundled C kernels, such as ``aten::add.out``."""
    listed = data_directory("firmware_stub") / "src/kernels/operators.def"
    return frozenset(re.findall(r'^ETD_OPERATOR\("([^"]+)"', listed.read_text(), re.MULTILINE))


def missing_operators(method: Method, available: Iterable[str]) -> tuple[str, ...]:
    """Return the operators of a method that are not ``available``, sorted."""
    return tuple(sorted(_called(method, Call.KERNEL) - frozenset(available)))


def arena_need(method: Method, sizes: RuntimeSizes) -> ArenaNeed:
    """Return the bytes of the arena that the C runtime takes for a method."""
    tensors = sum(isinstance(value, Tensor) for value in method.values)
    instructions = sum(map(len, method.chains))
    pieces = [
        (len(method.values), sizes.value),
        (tensors, sizes.tensor),
        (len(method.chains), sizes.chain),
        (instructions, sizes.instruction),
        (len(method.planned), sizes.buffer),
    ]
    if method.delegates:
        pieces += [(len(method.delegates), sizes.delegate), (1, sizes.temporary)]
    unplanned = [
        _aligned(tensor_bytes(value))
        for number in (*method.inputs, *method.outputs)
        if isinstance(value := method.values[number], Tensor) and _is_unplanned(value)
    ]
    return ArenaNeed(
        method=sum(_aligned(prod(piece)) for piece in pieces),
        planned=sum(map(_aligned, method.planned[1:])),
        unplanned=sum(unplanned),
        exact=not method.delegates,
    )


def staged_bytes(method: Method) -> int:
    """Return the bytes in which the server stages the inputs of an execution (``server_model.c``).

    Each begins at a multiple of 16 bytes; one with a dynamic shape brings its sizes.
    """
    used = 0
    for number in method.inputs:
        value = method.values[number]
        if isinstance(value, Tensor):
            sizes = 4 * len(value.sizes) if value.dynamism else 0
            used = _aligned(used) + tensor_bytes(value) + -tensor_bytes(value) % 4 + sizes
    return used


def fit(method: Method, model_bytes: int, board: Board) -> Fit:
    """Return whether a method of a model of ``model_bytes`` bytes fits a board."""
    executorch = board.links_executorch
    sizes = SIZES_64 if isinstance(board.target, NativeTarget) else SIZES_32
    arena = arena_need(method, sizes)
    model_room, arena_room, input_room = (
        (None, None, None)
        if board.capacity is None
        else (board.capacity.model, board.capacity.arena, board.capacity.inputs)
    )
    needs = (
        Need("model", model_bytes, model_room, True, "use a smaller or a quantized network"),
        Need(
            "arena",
            arena.planned + arena.unplanned if executorch else arena.total,
            arena_room,
            arena.exact and not executorch,
            "quantize it, use smaller inputs, or raise ETD_ARENA_CAPACITY in its port.cmake",
        ),
        Need(
            "inputs",
            staged_bytes(method),
            input_room,
            True,
            "use smaller inputs, or raise ETD_INPUT_CAPACITY in its port.cmake",
        ),
    )
    # Firmware that is built elsewhere may have any kernels and backends.
    known = board.build is not None and not executorch
    backends = _called(method, Call.DELEGATE) - frozenset(board.backends)
    return Fit(
        board=board.name,
        runtime="ExecuTorch" if executorch else BUNDLED_RUNTIME,
        kernels="ExecuTorch's" if executorch else BUNDLED_KERNELS if known else "not known",
        missing_operators=missing_operators(method, bundled_operators()) if known else None,
        missing_backends=tuple(sorted(backends)) if board.build is not None else (),
        needs=needs,
    )


def _called(method: Method, call: Call) -> frozenset[str]:
    return frozenset(
        instruction.name
        for chain in method.chains
        for instruction in chain
        if instruction.call is call
    )


def _is_unplanned(tensor: Tensor) -> bool:
    return tensor.offset < 0 and not tensor.constant and not tensor.initial_state


def _aligned(size: int) -> int:
    return -(-size // _ALIGNMENT) * _ALIGNMENT
