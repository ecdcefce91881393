"""A model and the boards that it fits, on the terminal and as JSON."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import msgspec

from harness.analyze.instructions import InstructionModel
from harness.analyze.operands import Argument
from harness.analyze.planned_memory import PlannedPool, planned_pools
from harness.analyze.workload import Step, constant_bytes, method_steps
from harness.check.fit import Fit
from harness.decode.bundled_program import TestSet
from harness.decode.program import Method, Program
from harness.records.result import encode
from harness.report.instructions import EstimateDocument, describe_estimate, print_estimate
from harness.report.terminal import print_header, show_line, show_table
from harness.report.text import percent

if TYPE_CHECKING:
    from rich.console import Console


class WorkDocument(msgspec.Struct, frozen=True):
    """All instructions of a method with one operator or backend.

    Attributes:
        operator: The operator, such as ``aten::mm.out``, or the backend of a delegate.
        delegated: Whether a delegate executes them.
        calls: Number of instructions.
        macs: Multiply-accumulates; null for a delegate.
        elements: Elements of their outputs.
        bytes_read: Bytes of their input tensors.
        bytes_written: Bytes of their output tensors.
    """

    operator: str
    delegated: bool
    calls: int
    macs: int | None
    elements: int
    bytes_read: int
    bytes_written: int


class LiveTensorDocument(msgspec.Struct, frozen=True):
    """A tensor in planned memory, needed from instruction ``first`` to ``last``.

    -1 is before the first instruction; the number of instructions is after the last.
    """

    value: int
    offset: int
    size: int
    first: int
    last: int


class PlannedPoolDocument(msgspec.Struct, frozen=True):
    """A pool of planned memory: its size, and the most bytes needed at one instruction."""

    pool: int
    planned: int
    peak: int
    peak_at: int
    tensors: list[LiveTensorDocument]


class NeedDocument(msgspec.Struct, frozen=True):
    """Bytes that a model needs and a board has; ``shortfall`` are missing.

    ``needed`` is a lower bound if it is not ``exact``. ``available`` is null if unknown.
    """

    resource: str
    needed: int
    exact: bool
    available: int | None
    shortfall: int
    remedy: str


class PlacedFitDocument(msgspec.Struct, frozen=True):
    """Whether a method fits a board when the model is placed in the firmware image."""

    fits: bool | None
    needs: list[NeedDocument]


class FitDocument(msgspec.Struct, frozen=True):
    """Whether a method fits a board; null if nothing is missing, but not everything is known.

    ``kernels`` names the kernel library of its firmware. ``placed`` is null if firmware with the
    model in its image cannot be built. ``estimate`` is null if the board's CPU was not measured.
    """

    board: str
    runtime: str
    kernels: str
    fits: bool | None
    missing_operators: list[str] | None
    missing_backends: list[str]
    needs: list[NeedDocument]
    placed: PlacedFitDocument | None
    estimate: EstimateDocument | None


class MethodDocument(msgspec.Struct, frozen=True):
    """One method: its signature, work, memory and boards.

    Attributes:
        name: Name of the method.
        inputs: Its inputs as text, such as ``float32[1, 8]``; ``?`` marks upper bounds.
        outputs: Its outputs likewise.
        instructions: Number of instructions.
        macs: Multiply-accumulates outside of delegates.
        constant_bytes: Bytes of the constants that it uses.
        backends: Backends that it delegates to.
        operators: Its work by operator, in the order of first use.
        pools: Its planned memory.
        boards: Whether it fits each board.
        test_sets: Number of its test sets in a bundled program; null for a program alone.
    """

    name: str
    inputs: list[str]
    outputs: list[str]
    instructions: int
    macs: int
    constant_bytes: int
    backends: list[str]
    operators: list[WorkDocument]
    pools: list[PlannedPoolDocument]
    boards: list[FitDocument]
    test_sets: int | None = None


class ModelDocument(msgspec.Struct, frozen=True):
    """What ``etharness inspect --json`` prints; ``bytes`` is the size of the program."""

    model: str
    bytes: int
    methods: list[MethodDocument]


def describe_model(
    name: str,
    size: int,
    program: Program,
    fits: Sequence[Sequence[Fit]],
    instructions: Sequence[InstructionModel | None],
    test_sets: Sequence[TestSet] | None = None,
) -> ModelDocument:
    """Return the description of a model.

    Args:
        name: Its path as the user knows it.
        size: Bytes of the program.
        program: Its methods.
        fits: For each method, whether it fits each of the boards.
        instructions: The measured coefficients of each of the boards.
        test_sets: Those of a bundled program; None for a program alone.
    """
    names = [each.method for each in test_sets] if test_sets is not None else None
    methods = [
        _method(
            method, boards, instructions, names.count(method.name) if names is not None else None
        )
        for method, boards in zip(program.methods, fits, strict=True)
    ]
    return ModelDocument(name, size, methods)


def _method(
    method: Method,
    boards: Sequence[Fit],
    instructions: Sequence[InstructionModel | None],
    test_sets: int | None,
) -> MethodDocument:
    steps = method_steps(method)
    return MethodDocument(
        name=method.name,
        inputs=_texts(method, method.inputs),
        outputs=_texts(method, method.outputs),
        instructions=sum(map(len, method.chains)),
        macs=sum(step.macs or 0 for step in steps),
        constant_bytes=constant_bytes(method),
        backends=list(method.delegates),
        operators=_by_operator(steps),
        pools=list(map(_pool, planned_pools(method))),
        boards=[
            _fit(board, describe_estimate(steps, known))
            for board, known in zip(boards, instructions, strict=True)
        ],
        test_sets=test_sets,
    )


def model_document(model: ModelDocument) -> bytes:
    """Return the description as JSON."""
    return encode(model)


def print_model(
    console: Console, model: ModelDocument, *, reasons: bool = True, detailed: bool = False
) -> None:
    """Print the description.

    Args:
        console: Where to.
        model: The description.
        reasons: Say of each board why the model does not fit, and estimate its instructions.
        detailed: List the tensors of the planned memory.
    """
    show_line(console, f"{model.model}: {model.bytes:,} bytes", style="bold")
    for method in model.methods:
        show_line(console)
        _print_method(console, method, detailed=detailed)
        _print_boards(console, method.boards)
        shortfalls = _shortfalls(model.model, method.boards) if reasons else []
        for line in _missing(method.boards) + shortfalls:
            show_line(console, line)
        for board in method.boards if reasons else ():
            print_estimate(console, board.board, board.estimate)


def _print_method(console: Console, method: MethodDocument, *, detailed: bool) -> None:
    header = {
        "method": method.name,
        "inputs": ", ".join(method.inputs) or "none",
        "outputs": ", ".join(method.outputs) or "none",
        "instructions": f"{method.instructions:,}",
        "multiply-accumulates": f"{method.macs:,}",
        "constants": f"{method.constant_bytes:,} bytes",
    }
    if method.test_sets is not None:
        header["test sets"] = f"{method.test_sets:,}"
    if method.backends:
        header["delegates"] = f"{', '.join(method.backends)} (their work is not in the file)"
    print_header(console, header)
    rows = [
        (
            work.operator,
            f"{work.calls:,}",
            "" if work.macs is None else f"{work.macs:,}",
            percent(work.macs / method.macs) if work.macs and method.macs else "",
            f"{work.bytes_read:,}",
            f"{work.bytes_written:,}",
        )
        for work in method.operators
    ]
    headers = ("operator", "calls", "MACs", "share", "read [B]", "written [B]")
    show_table(console, headers, rows, numbers=range(1, 6))
    _print_pools(console, method, detailed=detailed)


def _print_pools(console: Console, method: MethodDocument, *, detailed: bool) -> None:
    rows = [
        (
            f"planned_{pool.pool}",
            f"{pool.planned:,}",
            f"{pool.peak:,}",
            "the start" if pool.peak_at < 0 else f"instruction {pool.peak_at}",
            f"{len(pool.tensors):,}",
        )
        for pool in method.pools
    ]
    headers = ("planned memory", "size [B]", "peak [B]", "at", "tensors")
    show_table(console, headers, rows, numbers=(1, 2, 4))
    if not detailed:
        return
    tensors = [
        (f"planned_{pool.pool}", *(f"{n:,}" for n in msgspec.structs.astuple(tensor)))
        for pool in method.pools
        for tensor in pool.tensors
    ]
    columns = ("pool", "value", "offset", "size [B]", "from instruction", "to instruction")
    show_table(console, columns, tensors, numbers=range(1, 6))


def _print_boards(console: Console, boards: Sequence[FitDocument]) -> None:
    words = {True: "yes", False: "NO", None: "not known"}
    rows = [
        (
            *(board.board, words[board.fits]),
            *(_room(need) for need in board.needs),
            "-" if board.placed is None else words[board.placed.fits],
            board.kernels,
        )
        for board in boards
    ]
    needs = [f"{need.resource} [B]" for need in boards[0].needs] if boards else []
    headers = ("board", "fits", *needs, "fits placed in flash", "kernels")
    show_table(console, headers, rows, numbers=range(2, 2 + len(needs)))


def _room(need: NeedDocument) -> str:
    least = "" if need.exact else "at least "
    of = "" if need.available is None else f" of {need.available:,}"
    return f"{least}{need.needed:,}{of}"


def _missing(boards: Sequence[FitDocument]) -> list[str]:
    """Return a line for each operator and backend that boards lack."""
    lacking: dict[str, list[str]] = {}
    for board in boards:
        for name in board.missing_operators or ():
            lacking.setdefault(f"no kernel for {name}", []).append(board.board)
        for name in board.missing_backends:
            lacking.setdefault(f"no backend {name}", []).append(board.board)
    return [f"{what}: {', '.join(names)}" for what, names in lacking.items()]


def _shortfalls(model: str, boards: Sequence[FitDocument]) -> list[str]:
    """Return a line for each board's shortfall of memory, with what would help."""
    lines = []
    for board in boards:
        lines += [_shortfall(board.board, need) for need in board.needs if need.shortfall]
        if board.placed is None or board.fits is not False:
            continue
        if board.placed.fits:
            command = f"etharness build --board {board.board} --model {model}"
            lines.append(f"{board.board}: fits when it is placed in flash: `{command}`")
        placed = f"{board.board}, placed in flash"
        lines += [_shortfall(placed, need) for need in board.placed.needs if need.shortfall]
    return lines


def _shortfall(where: str, need: NeedDocument) -> str:
    return f"{where}: {need.resource}: {need.shortfall:,} bytes are missing; {need.remedy}"


def _texts(method: Method, numbers: Sequence[int]) -> list[str]:
    return [Argument(number, method.values[number]).text for number in numbers]


def _by_operator(steps: Sequence[Step]) -> list[WorkDocument]:
    names = dict.fromkeys((step.operator, step.delegated) for step in steps)
    return [
        WorkDocument(
            operator=operator,
            delegated=delegated,
            calls=len(alike),
            macs=None if delegated else sum(step.macs or 0 for step in alike),
            elements=sum(step.elements for step in alike),
            bytes_read=sum(step.bytes_read for step in alike),
            bytes_written=sum(step.bytes_written for step in alike),
        )
        for operator, delegated in names
        for alike in [[s for s in steps if (s.operator, s.delegated) == (operator, delegated)]]
    ]


def _pool(pool: PlannedPool) -> PlannedPoolDocument:
    tensors = [
        LiveTensorDocument(tensor.value, tensor.offset, tensor.size, tensor.first, tensor.last)
        for tensor in pool.tensors
    ]
    return PlannedPoolDocument(pool.pool, pool.planned, pool.peak, pool.peak_at, tensors)


def _fit(found: Fit, estimate: EstimateDocument | None) -> FitDocument:
    missing, placed = found.missing_operators, found.placed
    return FitDocument(
        board=found.board,
        runtime=found.runtime,
        kernels=found.kernels,
        fits=found.fits,
        missing_operators=None if missing is None else list(missing),
        missing_backends=list(found.missing_backends),
        needs=_needs(found),
        placed=None if placed is None else PlacedFitDocument(placed.fits, _needs(placed)),
        estimate=estimate,
    )


def _needs(found: Fit) -> list[NeedDocument]:
    return [
        NeedDocument(
            need.resource, need.needed, need.exact, need.available, need.shortfall, need.remedy
        )
        for need in found.needs
    ]
