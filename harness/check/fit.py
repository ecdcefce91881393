"""Whether a board can run a model, before anything is built, flashed or uploaded.

The arena is predicted as the bundled C runtime lays it out (``src/runtime/memory.c``): each piece
is rounded up to 16 bytes. Tests compare the prediction with measured runs.

A model placed in the firmware image is used where it lies, so the firmware needs no RAM for an
upload. The inputs of the model get the bytes that they need, the arena gets the rest.

A device's description of a loaded model has to agree with the program, because it decides how much
memory the host takes for inputs and outputs.

What the bundled runtime and its kernels refuse is read from their own tables: types and limits of
the runtime from its headers (``etd_runtime.h``, ``etd_server.h``), the types that kernels take from
``operators.def``. Tests compare the answers with the code of the device.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cache
from math import prod
from typing import TYPE_CHECKING, Final, Protocol, cast

import msgspec
from msgspec.structs import replace

from harness.analyze.workload import InstructionEstimate, tensor_bytes
from harness.check.executorch_memory import runtime_memory
from harness.config.board import Board, Capacity, NativeTarget
from harness.decode.program import (
    Call,
    Dynamism,
    Instruction,
    Method,
    Program,
    Tensor,
    Value,
    ValueList,
)
from harness.errors import TargetError, UsageError
from harness.files import data_directory
from harness.formatting import printable
from harness.plugins import KERNELS, load_plugin
from harness.records.measurement import BUNDLED_KERNELS
from harness.records.result import BUNDLED_RUNTIME
from harness.records.trace import BFLOAT16, NUMPY_TYPES, STORED_AS, type_name

if TYPE_CHECKING:
    from harness.link.messages import ModelInfo, TargetInfo, TensorInfo


_ALIGNMENT: Final = 16

_MOST_REASONS: Final = 4
"""Most reasons in an error; ``etharness inspect`` prints all."""

_BACKENDS: Final = {
    "XnnpackBackend": "XNNPACK is for phones and PCs: export without the partitioner, "
    "`to_edge_transform_and_lower(program)`",
}
"""Remedies for delegates to well-known backends."""


class Refusal(msgspec.Struct, frozen=True):
    """Why a board cannot run a method, and what would help ("" if nothing is known)."""

    reason: str
    remedy: str


class MadeFor(msgspec.Struct, frozen=True):
    """For which Cortex-M cores a method was exported, as its program shows.

    Attributes:
        cores: The cores, such as ``cortex-m55``; empty if the program fits no known core.
        sets: Their instruction sets, of ``no DSP``, ``DSP`` and ``MVE``.
        text: Both for people; "any core" if nothing in the program depends on the core.
    """

    cores: tuple[str, ...]
    sets: tuple[str, ...]
    text: str


class CoreExports(Protocol):
    """What the extension ``executorch`` knows of CMSIS-NN; the plugin ``cmsis-nn``."""

    def made_for(self, method: Method) -> MadeFor | None:
        """Return for which cores a method was exported; None if it needs no CMSIS-NN."""

    def misfits(self, method: Method, cpu: str) -> Iterator[Refusal]:
        """Yield why CMSIS-NN on a core cannot run a method that was exported for others."""


def core_exports() -> CoreExports | None:
    """Return what is known of exports for Cortex-M cores; None without the extension."""
    return cast("CoreExports | None", load_plugin(KERNELS, "cmsis-nn"))


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


class Need(msgspec.Struct, frozen=True):
    """Bytes that a model needs, and what the board has.

    Attributes:
        resource: ``model``, ``arena``, ``inputs`` or ``image``.
        needed: Bytes; a lower bound if it is not ``exact``.
        exact: Whether ``needed`` is exact.
        available: Bytes that the board has; null if its board file does not say.
        shortfall: Missing bytes; 0 if it fits, or if the board file does not say.
        remedy: What would help if it does not fit.
    """

    resource: str
    needed: int
    exact: bool
    available: int | None
    shortfall: int
    remedy: str

    @property
    def text(self) -> str:
        """The need, and what there is."""
        least = "" if self.exact else "at least "
        room = "unknown" if self.available is None else f"{self.available:,} available"
        return f"{self.resource}: {least}{self.needed:,} bytes needed, {room}"


def memory_need(
    resource: str, needed: int, available: int | None, exact: bool, remedy: str
) -> Need:
    """Compare a need with what is ``available``."""
    shortfall = 0 if available is None else max(0, needed - available)
    return Need(resource, needed, exact, available, shortfall, remedy)


class PlacedFit(msgspec.Struct, frozen=True):
    """Whether a method fits a board when the model is placed in the firmware image."""

    fits: bool | None
    needs: tuple[Need, ...]


class Fit(msgspec.Struct, frozen=True):
    """Whether one method of a model fits one board.

    Attributes:
        board: Name of the board.
        runtime: The runtime of its firmware.
        kernels: The kernel library of its firmware, if it is built here.
        fits: False if anything is missing; null if nothing is, but not everything is known.
        missing_operators: Operators without a kernel, sorted; null if the runtime's are not known.
        missing_backends: Backends of delegates that the firmware does not link, sorted.
        lacks: What the board's firmware lacks for the method or refuses of it, apart from memory,
            as far as it is known.
        needs: Its needs of memory.
        placed: Whether it fits when it is placed in the firmware image; null if not examined, or
            if such firmware cannot be built.
        estimate: Estimated instructions; null if not estimated, or if the board's CPU was not
            measured.
    """

    board: str
    runtime: str
    kernels: str
    fits: bool | None
    missing_operators: tuple[str, ...] | None
    missing_backends: tuple[str, ...]
    lacks: tuple[Refusal, ...]
    needs: tuple[Need, ...]
    placed: PlacedFit | None
    estimate: InstructionEstimate | None

    def require(self, model: str) -> None:
        """Raise an error if the board cannot run the method.

        Args:
            model: The model's file, for the message.

        Raises:
            UsageError: It cannot; the error has the reasons and what would help.
        """
        short = [need for need in self.needs if need.shortfall]
        reasons = [*self.lacks, *(Refusal(need.text, need.remedy) for need in short)]
        if not reasons:
            return
        texts = [refusal.reason for refusal in reasons[:_MOST_REASONS]]
        if len(reasons) > _MOST_REASONS:
            texts.append(f"and {len(reasons) - _MOST_REASONS} more (`etharness inspect`)")
        remedies = [refusal.remedy for refusal in reasons if refusal.remedy]
        if self.placed is not None and short:
            missing = [need.text for need in self.placed.needs if need.shortfall]
            if self.placed.fits is not False:
                build = f"`etharness build --board {self.board} --model {model}`"
                remedies = [f"place the model in flash: `--placed`, or firmware from {build}"]
            elif missing:
                texts.append(f"nor with the model in flash: {', '.join(missing)}")
        raise UsageError(
            f"{self.board} cannot run {model}: {'; '.join(texts)}",
            hint="; ".join(dict.fromkeys("; ".join(remedies).split("; "))),
        )


def arena_need(method: Method, sizes: RuntimeSizes) -> tuple[int, int, int]:
    """Return the bytes of the arena that the C runtime takes for a method.

    Returns:
        The bytes of the structures that describe the method, those of its tensors (planned memory,
        and inputs and outputs without), and those of float32 copies of 16-bit tensors, for the
        call that needs most (``float32_copies.c``). Backends of delegates take more, which only
        they know.
    """
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
    interface = [method.values[number] for number in (*method.inputs, *method.outputs)]
    unplanned = [
        _aligned(_bytes(value))
        for value in interface
        if isinstance(value, Tensor)
        and not (value.offset >= 0 or value.constant or value.initial_state)
    ]
    of_tensors = sum(map(_aligned, method.planned[1:])) + sum(unplanned)
    copies = 0
    for chain in method.chains:
        for instruction in chain:
            room = 0
            for number in set(instruction.args):
                value = method.values[number]
                if isinstance(value, Tensor) and value.scalar_type in _STORED:
                    room += _aligned(2 * _bytes(value))
            if room > copies and instruction.name in _on_copies():
                copies = room
    return sum(_aligned(prod(piece)) for piece in pieces), of_tensors, copies


def staged_bytes(method: Method) -> int:
    """Return the bytes in which the server stages the inputs of an execution (``store.c``).

    Each begins at a multiple of 16 bytes; one with a dynamic shape brings its sizes.
    """
    used = 0
    for number in method.inputs:
        value = method.values[number]
        if isinstance(value, Tensor):
            sizes = 4 * len(value.sizes) if value.dynamism else 0
            used = _aligned(used) + _bytes(value) + -_bytes(value) % 4 + sizes
    return used


def fit(
    method: Method,
    model_bytes: int,
    board: Board,
    *,
    bundled: bool | None = None,
    executorch: bool | None = None,
) -> Fit:
    """Return whether a board can run a method of a model.

    Args:
        method: The method.
        model_bytes: Size of the model's file; 0 if the board's firmware has it.
        board: The board.
        bundled: Whether its firmware has the bundled runtime and kernels; if not, it may have any
            backends, too. By default firmware that is built here has them, and has no others.
        executorch: Whether its firmware has ExecuTorch's runtime, and CMSIS-NN on Cortex-M. By
            default the board file decides.
    """
    if executorch is None:
        executorch = board.links_executorch or bool(board.runner)
    sizes = SIZES_64 if isinstance(board.target, NativeTarget) else SIZES_32
    structures, of_tensors, copies = arena_need(method, sizes)
    memory = runtime_memory(method) if board.runner else None
    needed = {
        "model": (model_bytes, True, "use a smaller or a quantized network"),
        "arena": (
            of_tensors
            + (memory.method if memory and executorch else 0)
            + (0 if executorch else structures + copies),
            not method.delegates and not executorch,
            "use a smaller or a quantized network; raise ETD_ARENA_CAPACITY in its port.cmake",
        ),
        "inputs": (
            staged_bytes(method),
            True,
            "use smaller inputs; raise ETD_INPUT_CAPACITY in its port.cmake",
        ),
    }
    needs = tuple(
        memory_need(name, size, getattr(board.capacity, name, None), exact, remedy)
        for name, (size, exact, remedy) in needed.items()
    )
    # Firmware that is built elsewhere may have any kernels and backends.
    built_here = board.build is not None and bundled is not False
    known = built_here and not executorch if bundled is None else bundled
    called = _called(method, Call.KERNEL)
    operators = tuple(sorted(called - operand_types().keys())) if known else None
    backends = _called(method, Call.DELEGATE) - frozenset(board.backends) if built_here else ()
    lacks = []
    if operators:
        names = ", ".join(map(printable, operators))
        lacks.append(Refusal(f"no kernel for {names}", "replace the operator in the model"))
    for name in sorted(backends):
        remedy = _BACKENDS.get(name, f"export without the partitioner of {name}")
        lacks.append(Refusal(f"no backend {printable(name)}", remedy))
    lacks += refusals(method) if known else ()
    if executorch and (exports := core_exports()) is not None:
        lacks += exports.misfits(method, board.cpu)
    return Fit(
        board=board.name,
        runtime="ExecuTorch" if executorch else BUNDLED_RUNTIME,
        kernels="ExecuTorch's" if executorch else BUNDLED_KERNELS if known else "not known",
        fits=_fits(operators, lacks, needs),
        missing_operators=operators,
        missing_backends=tuple(sorted(backends)),
        lacks=tuple(lacks),
        needs=needs,
        placed=None,
        estimate=None,
    )


def _fits(
    operators: Sequence[str] | None, lacks: Sequence[Refusal], needs: Sequence[Need]
) -> bool | None:
    if lacks or any(need.shortfall for need in needs):
        return False
    known = all(need.exact and need.available is not None for need in needs)
    return True if known and operators is not None else None


def _called(method: Method, call: Call) -> frozenset[str]:
    return frozenset(
        instruction.name
        for chain in method.chains
        for instruction in chain
        if instruction.call is call
    )


def _bytes(tensor: Tensor) -> int:
    """Return the bytes of a tensor; 0 for an unknown type, which ``refusals`` reports."""
    return tensor_bytes(tensor) if tensor.scalar_type in STORED_AS else 0


def _aligned(size: int) -> int:
    return -(-size // _ALIGNMENT) * _ALIGNMENT


FIRMWARE_CODE: Final = 192 * 1024
"""Bytes of code and constants that the firmware of a Cortex-M board takes at most."""


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


def check_fit(
    program: Program,
    method: Method,
    model_bytes: int,
    board: Board,
    model: str,
    *,
    bundled: bool | None = None,
    executorch: bool | None = None,
) -> None:
    """Raise an error if a board cannot run a method that is uploaded; ``model`` is its file.

    Raises:
        UsageError: It cannot; the error has the reasons, and says whether placing the model helps.
    """
    found = fit(method, model_bytes, board, bundled=bundled, executorch=executorch)
    if any(need.shortfall for need in found.needs):
        found = examine(program, method, model_bytes, board, bundled=bundled, executorch=executorch)
    found.require(model)


def examine(
    program: Program,
    method: Method,
    model_bytes: int,
    board: Board,
    *,
    code_bytes: int | None = None,
    bundled: bool | None = None,
    executorch: bool | None = None,
) -> Fit:
    """Return whether a board can run a method of a program, uploaded or placed in its flash.

    Args:
        program: The program.
        method: The method.
        model_bytes: Size of the program's file; 0 if the board's firmware has it.
        board: The board.
        code_bytes: Size of the board's firmware without a model; None if it is not built.
        bundled: As for ``fit``.
        executorch: As for ``fit``.
    """
    image = fit_placed(method, program.methods, model_bytes, board, code_bytes)
    placed = None if image is None else PlacedFit(image.fits, image.needs)
    found = fit(method, model_bytes, board, bundled=bundled, executorch=executorch)
    return replace(found, placed=placed)


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
        replace(need, remedy="use a smaller or a quantized network, or smaller inputs")
        for need in found.needs
    )
    needs = (*_image(model_bytes, board, code_bytes), arena, inputs)
    return replace(found, needs=needs, fits=_fits(found.missing_operators, found.lacks, needs))


def _image(model_bytes: int, board: Board, code_bytes: int | None) -> Iterator[Need]:
    """Yield the bytes of the image with its model; a process of this host has no limit."""
    if board.memory is None:
        return
    room = board.memory.code or board.memory.ram
    code = FIRMWARE_CODE if code_bytes is None else code_bytes
    # The image has only the model's operators, so it is smaller than firmware with all of them.
    every = board.capacity is not None and board.capacity.model > 0
    exact = every and model_bytes + code <= room
    needed = model_bytes + code if exact else model_bytes
    yield memory_need("image", needed, room, exact, "use a smaller or a quantized network")


def check_loaded(info: TargetInfo, method: Method | None, loaded: ModelInfo) -> None:
    """Check what a device reports of a model that it has loaded.

    Args:
        info: The device's description of itself.
        method: The method in the program; None if the host cannot read it.
        loaded: The device's description of the model.

    Raises:
        TargetError: It contradicts the program, or the device's own capacity.
    """
    for contradiction in _contradictions(info, method, loaded):
        raise TargetError(
            f"{info.board}: the device reports {contradiction}",
            hint="its memory or firmware is damaged, or its runtime has a defect: reset the board "
            "and run again, or flash it again",
        )


def _contradictions(info: TargetInfo, method: Method | None, loaded: ModelInfo) -> Iterator[str]:
    planned, arena = loaded.planned_bytes, info.arena_capacity
    if arena and planned + loaded.method_bytes > arena:
        yield (
            f"{planned:,} planned and {loaded.method_bytes:,} method bytes of the model, but an "
            f"arena of {arena:,} bytes"
        )
    if method is None:
        staged = sum(tensor.nbytes for tensor in loaded.inputs)
        if info.input_capacity and staged > info.input_capacity:
            yield f"inputs of {staged:,} bytes, but room for {info.input_capacity:,} bytes"
        return
    least = sum(method.planned)
    if planned < least:
        yield f"{planned:,} planned bytes, but the program plans {least:,} bytes"
    _, of_tensors, copies = arena_need(method, SIZES_32)
    most = of_tensors + copies
    if not method.delegates and info.runtime == BUNDLED_RUNTIME and planned > most:
        yield f"{planned:,} planned bytes, but the program needs {most:,} bytes"
    yield from _of_tensors("input", method, method.inputs, loaded.inputs)
    yield from _of_tensors("output", method, method.outputs, loaded.outputs)


def _of_tensors(
    kind: str, method: Method, numbers: Sequence[int], reported: Sequence[TensorInfo]
) -> Iterator[str]:
    if len(numbers) != len(reported):
        yield f"{len(reported)} {kind}s, but the program has {len(numbers)}"
        return
    for index, (number, found) in enumerate(zip(numbers, reported, strict=True)):
        tensor = method.values[number]
        if not isinstance(tensor, Tensor):
            continue
        known = (tensor.scalar_type, tensor.sizes, tensor.dim_order, tensor_bytes(tensor))
        if known != (found.scalar_type, found.sizes, found.dim_order, found.nbytes):
            yield (
                f"{kind} {index} as {_text(found.scalar_type, found.sizes, found.dim_order)} of "
                f"{found.nbytes:,} bytes, but the program has "
                f"{_text(*known[:3])} of {known[3]:,} bytes"
            )


def _text(scalar_type: int, sizes: Sequence[int], dim_order: Sequence[int]) -> str:
    usual = list(dim_order) == list(range(len(dim_order)))
    order = "" if usual else f" in the order {', '.join(map(str, dim_order))}"
    return f"{type_name(scalar_type)}[{', '.join(map(str, sizes))}]{order}"


_MOST_OUTPUTS: Final = 255
"""COMMIT's answer counts them in a byte."""

_MOST_BYTES: Final = (1 << 31) - 1
"""Bytes of a tensor (``tensor.c``)."""

_REDUCED: Final = "export the model in float32 (`model.float()`), or quantize it to int8"
_TYPE_REMEDIES: Final = {"float16": _REDUCED, "bfloat16": _REDUCED, "float64": _REDUCED}
_OTHER_TYPE: Final = "convert it to a supported type before the export"
_EXPORT_AGAIN: Final = "export the model again"


@dataclass(frozen=True, slots=True)
class RuntimeLimits:
    """What the bundled runtime can load.

    Attributes:
        scalar_types: Supported scalar types of tensors, ExecuTorch's numbers.
        dimensions: Most dimensions of a tensor.
        inputs: Most inputs of a method.
    """

    scalar_types: frozenset[int]
    dimensions: int
    inputs: int


@dataclass(frozen=True, slots=True)
class _Operands:
    """Operands of a kernel that have one type, one of ``types``; those ``optional`` may be None."""

    places: tuple[int, ...]
    optional: frozenset[int]
    types: frozenset[int]


_Signature = tuple[_Operands, ...]


@cache
def runtime_limits() -> RuntimeLimits:
    """Return the limits of the bundled runtime."""
    headers = data_directory("firmware_stub") / "include"
    runtime = (headers / "etd_runtime.h").read_text()
    types = re.search(r"enum \{([^}]*\bETD_BYTE\b[^}]*)\}", runtime)
    dimensions = re.search(r"#define ETD_MAX_DIMS (\d+)", runtime)
    inputs = re.search(
        r"#define ETD_SERVER_MAX_INPUTS (\d+)", (headers / "etd_server.h").read_text()
    )
    assert types is not None
    assert dimensions is not None
    assert inputs is not None
    numbers = frozenset(map(int, re.findall(r"= (\d+)", types[1])))
    return RuntimeLimits(numbers, int(dimensions[1]), int(inputs[1]))


@cache
def operand_types() -> dict[str, tuple[_Signature, ...]]:
    """Return the operators of the bundled kernels, with the types of their tensors.

    ``operators.def`` describes the notation.
    """
    listed = (data_directory("firmware_stub") / "src/kernels/operators.def").read_text()
    lines = re.findall(r'^ETD_OPERATOR\("([^"]+)", \w+, "([^"]*)"\)$', listed, re.MULTILINE)
    return {
        name: tuple(tuple(_operands(signature)) for signature in text.split(" | ") if signature)
        for name, text in lines
    }


@cache
def _on_copies() -> frozenset[str]:
    """Return the operators that run on copies of their tensors of 16 bits: those with a star."""
    listed = (data_directory("firmware_stub") / "src/kernels/operators.def").read_text()
    return frozenset(re.findall(r'^ETD_OPERATOR\("([^"]+)".*\*', listed, re.MULTILINE))


_NUMBERS: Final = {type_name(number): number for number in NUMPY_TYPES}
_STORED: Final = frozenset({_NUMBERS["float16"], BFLOAT16})


def _operands(signature: str) -> Iterator[_Operands]:
    for text in signature.split(", "):
        numbers, names = text.split(": ")
        types = (
            runtime_limits().scalar_types
            if names == "any"
            else frozenset(_NUMBERS[name.rstrip("*")] for name in names.split())
        )
        types |= {BFLOAT16} if _NUMBERS["float16"] in types else frozenset()
        for group in numbers.split():
            members = group.split("=")
            places = tuple(int(member.rstrip("?")) for member in members)
            optional = frozenset(
                place for place, member in zip(places, members, strict=True) if "?" in member
            )
            yield _Operands(places, optional, types)


def refusals(method: Method) -> tuple[Refusal, ...]:
    """Return why the bundled runtime or its kernels refuse a method; one of each kind.

    Operators without a kernel, backends and memory are not examined here.
    """
    found: dict[object, Refusal] = {}
    loaded = [*_of_signature(method)]
    # What the loader refuses of tensors (``tensor.c``), inputs and outputs first.
    for number in dict.fromkeys((*method.inputs, *method.outputs, *range(len(method.values)))):
        value = method.values[number]
        if isinstance(value, Tensor):
            loaded += (
                (kind, f"{_name(method, number)} {text}", remedy)
                for kind, text, remedy in _of_tensor(method, value)
            )
    # What cannot be loaded never comes to a kernel.
    for kind, reason, remedy in loaded or _of_instructions(method):
        found.setdefault(kind, Refusal(reason, remedy))
    return tuple(found.values())


_Found = Iterator[tuple[object, str, str]]
"""What is refused, as a key of which one refusal is enough; the reason, and the remedy."""


def _of_signature(method: Method) -> _Found:
    """Yield what the server refuses of inputs and outputs (``store.c``)."""
    for what, numbers, most in (
        ("inputs", method.inputs, runtime_limits().inputs),
        ("outputs", method.outputs, _MOST_OUTPUTS),
    ):
        if len(numbers) > most:
            reason = f"it has {len(numbers)} {what}, the limit is {most}"
            yield what, reason, f"combine {what} into one tensor"
    for what, numbers, remedy in (
        ("input", method.inputs, "make it a tensor, or export the model with a fixed value"),
        ("output", method.outputs, "return tensors only"),
    ):
        for index, number in enumerate(numbers):
            value = method.values[number]
            if not isinstance(value, Tensor):
                yield (what, index), f"{what} {index} is {_kind(value)}, not a tensor", remedy
            elif what == "input" and value.constant:
                yield (what, index), f"input {index} is a constant", _EXPORT_AGAIN
    unplanned = {
        number: _bytes(value)
        for number in (*method.inputs, *method.outputs)
        if isinstance(value := method.values[number], Tensor)
        and not (value.constant or value.offset >= 0)
    }
    for number in unplanned if not any(unplanned.values()) else ():
        reason = f"{_name(method, number)} is empty and has no planned memory"
        yield "empty", reason, "remove it from the model"


def _of_tensor(method: Method, tensor: Tensor) -> _Found:
    """Yield what the loader refuses of one tensor; reasons without its name."""
    limits = runtime_limits()
    if tensor.scalar_type not in limits.scalar_types:
        name = type_name(tensor.scalar_type)
        text = f"is {name}, which the bundled kernels do not support"
        yield ("type", name), text, _TYPE_REMEDIES.get(name, _OTHER_TYPE)
        return
    if len(tensor.sizes) > limits.dimensions:
        yield (
            "dimensions",
            f"has {len(tensor.sizes)} dimensions, the limit is {limits.dimensions}",
            "reshape it in the model to fewer dimensions",
        )
    if tensor.dynamism is Dynamism.UNBOUND:
        text = "has a dynamic shape without an upper bound"
        yield "unbound", text, "give `Dim` a `max` when exporting"
    if tensor.storage_offset:
        yield "offset", "begins within a storage", _EXPORT_AGAIN
    if tensor.device:
        yield "device", "is in the memory of another device", "export it for the CPU"
    item = STORED_AS[tensor.scalar_type]().itemsize
    # As the loader computes it, sizes of 0 count as 1.
    if prod(max(size, 1) for size in tensor.sizes) * item > _MOST_BYTES:
        yield "size", f"has more than {_MOST_BYTES:,} bytes", "use smaller tensors"
    if tensor.external:
        yield (
            "external",
            "has its data in a .ptd file",
            "give that file with --data, or export the model with its constants in the .pte file "
            "(without `external_constants`)",
        )
    if tensor.offset >= 0 and not (
        0 < tensor.pool < len(method.planned)
        and tensor.offset + _bytes(tensor) <= method.planned[tensor.pool]
        and tensor.offset % item == 0
    ):
        yield "pool", "is outside of its planned memory", _EXPORT_AGAIN


def _of_instructions(method: Method) -> _Found:
    """Yield what kernels refuse of instructions that every execution comes to."""
    for chain in method.chains:
        for index, instruction in enumerate(chain):
            match instruction.call:
                case Call.KERNEL:
                    yield from _of_kernel(method, instruction)
                case Call.MOVE:
                    yield from _of_move(method, index, instruction)
                case Call.JUMP_FALSE:
                    yield from _of_jump(method, index, instruction)
                    break  # what follows may never be executed


def _of_kernel(method: Method, instruction: Instruction) -> _Found:
    signatures = operand_types().get(instruction.name, ())
    if not signatures:
        return
    operator, args = instruction.name, instruction.args
    needed = 1 + max(place for operands in signatures[0] for place in operands.places)
    if len(args) < needed:
        reason = f"{operator} is called with {len(args)} of at least {needed} arguments"
        yield (operator, "arguments"), reason, _EXPORT_AGAIN
        return
    values = [method.values[number] for number in args]
    if any(_takes(signature, values) for signature in signatures):
        return
    places = sorted({place for operands in signatures[0] for place in operands.places})
    for place in places:
        taken = [each for signature in signatures for each in signature if place in each.places]
        if any(_takes_alone(operands, place, values[place]) for operands in taken):
            continue
        types = sorted({number for operands in taken for number in operands.types})
        kind = _kind(values[place])
        reason = (
            f"{operator}: {_name(method, args[place])} is {kind}, its kernel takes "
            f"{' or '.join(map(type_name, types))}"
        )
        yield (operator, place, kind), reason, _TYPE_REMEDIES.get(kind, _OTHER_TYPE)
        return
    kinds = ", ".join(_kind(values[place]) for place in places)
    yield (operator, kinds), f"{operator}: no kernel takes {kinds} together", _OTHER_TYPE


def _takes(signature: _Signature, values: Sequence[Value]) -> bool:
    """Whether operands have the types of a signature."""
    return all(
        all(_takes_alone(operands, place, values[place]) for place in operands.places)
        and len(set().union(*(_types(values[place]) or () for place in operands.places))) <= 1
        for operands in signature
    )


def _takes_alone(operands: _Operands, place: int, value: Value) -> bool:
    if value is None:
        return place in operands.optional
    types = _types(value)
    return types is not None and types <= operands.types


def _types(value: Value) -> frozenset[int] | None:
    """Return the types of a tensor or of those in a list; None for another value."""
    match value:
        case Tensor():
            return frozenset({value.scalar_type})
        case ValueList() if all(item is None or isinstance(item, Tensor) for item in value.items):
            return frozenset(item.scalar_type for item in value.items if isinstance(item, Tensor))
        case _:
            return None


def _of_move(method: Method, index: int, instruction: Instruction) -> _Found:
    source, target = (method.values[number] for number in instruction.args)
    if instruction.args[1] in method.inputs:
        yield "move to input", f"instruction {index} moves a value to an input", _EXPORT_AGAIN
    elif _kind(source) != _kind(target):
        reason = f"instruction {index} moves {_kind(source)} to {_kind(target)}"
        yield "move", reason, _EXPORT_AGAIN


def _of_jump(method: Method, index: int, instruction: Instruction) -> _Found:
    condition = method.values[instruction.args[0]]
    if _kind(condition) not in (_kind(True), "bool"):
        reason = f"instruction {index} depends on {_kind(condition)}, not on a boolean"
        yield "jump", reason, _EXPORT_AGAIN


def _name(method: Method, number: int) -> str:
    """Return how a message names a value: ``input 0``, ``constant 'fc.weight'``, ``tensor 7``."""
    for what, numbers in (("input", method.inputs), ("output", method.outputs)):
        if number in numbers:
            return f"{what} {numbers.index(number)}"
    value = method.values[number]
    if isinstance(value, Tensor):
        what = "constant" if value.constant else "tensor"
        return f"{what} {value.name!r}" if value.name else f"{what} {number}"
    return f"value {number}"


def _kind(value: Value) -> str:
    match value:
        case Tensor():
            return type_name(value.scalar_type)
        case None:
            return "None"
        case bool():
            return "a boolean"
        case int():
            return "an integer"
        case float():
            return "a floating-point number"
        case str():
            return "a string"
        case ValueList():
            types = _types(value)
            return f"a list of {' and '.join(map(type_name, sorted(types)))}" if types else "a list"
