"""A model, the boards that it fits and its estimated instructions, on the terminal and as JSON."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import msgspec
from msgspec.structs import replace

from harness.analyze.delegates import delegate_calls
from harness.analyze.memory import PlannedPool, planned_pools
from harness.analyze.workload import (
    Argument,
    InstructionEstimate,
    InstructionModel,
    Work,
    constant_bytes,
    estimate_method,
    method_sections,
    method_steps,
    work_by_operator,
)
from harness.check.executorch_memory import RuntimeMemory, runtime_memory
from harness.check.fit import Fit, MadeFor, Need, Refusal, core_exports
from harness.decode.program import Method, Program
from harness.decode.pte import TestSet
from harness.records.result import DelegateCall
from harness.report.delegates import delegate_table
from harness.report.description import describe_sections
from harness.report.run import print_table
from harness.report.terminal import print_header, show_line, show_table
from harness.report.words import few, percent

if TYPE_CHECKING:
    from rich.console import Console


def print_estimate(console: Console, board: str, estimate: InstructionEstimate | None) -> None:
    """Print the estimate for a board, or that there is none."""
    if estimate is None:
        show_line(console, f"{board}: no estimate of instructions: its CPU was not measured")
        return
    rows = [
        (
            item.operator,
            f"{item.calls:,}",
            "not measured" if item.instructions is None else f"{item.instructions:,}",
            percent(_share(item.instructions, estimate.instructions)),
            percent(item.error),
            percent(item.worst_error),
        )
        for item in estimate.operators
    ]
    headers = ("operator", "calls", "instructions", "share", "median error", "worst error")
    title = f"Estimated instructions on {board} ({estimate.cpu}, {estimate.kernels})"
    show_table(console, headers, rows, title=title, numbers=range(1, 6))
    least = "at least " if estimate.unknown else "at most " if estimate.dynamic else "about "
    line = f"{board}: {least}{estimate.instructions:,} instructions per execution"
    if estimate.median_error is not None:
        line += (
            f"; {estimate.networks} networks that were not fitted were off by "
            f"{percent(estimate.median_error)} (median), {percent(estimate.worst_error)} (worst)"
        )
    show_line(console, line)
    show_line(console, f"measured on {estimate.measured_on}; instructions are not cycles")
    if estimate.unknown:
        show_line(console, f"not measured: {', '.join(estimate.unknown)}")
    show_line(console)


def _share(part: int | None, whole: int) -> float | None:
    return None if part is None or not whole else part / whole


class MethodDocument(msgspec.Struct, frozen=True):
    """One method: its signature, work, memory and boards.

    Attributes:
        name: Name of the method.
        inputs: Its inputs as text, such as ``float32[1, 8]``; ``?`` marks upper bounds.
        outputs: Its outputs likewise.
        instructions: Number of instructions.
        macs: Multiply-accumulates, with those of delegates whose work is known.
        constant_bytes: Bytes of the constants that it uses.
        backends: Backends that it delegates to.
        delegates: Its calls of delegates, with what is known of their work.
        operators: Its work by operator, in the order of first use.
        pools: Its planned memory.
        boards: Whether it fits each board.
        test_sets: Number of its test sets in a bundled program; null for a program alone.
        made_for: The Cortex-M cores that it was exported for; null without operators of CMSIS-NN.
        executorch: What ExecuTorch's runtime needs for it on a 32-bit core, for ``--runtime
            executorch``; null otherwise, and with delegates, whose backends take memory, too.
        sections: What extensions say of a method, by their names (``schema/NAME.schema.json``);
            absent if they say nothing.
    """

    name: str
    inputs: list[str]
    outputs: list[str]
    instructions: int
    macs: int
    constant_bytes: int
    backends: list[str]
    delegates: list[DelegateCall]
    operators: list[Work]
    pools: list[PlannedPool]
    boards: list[Fit]
    test_sets: int | None = None
    made_for: MadeFor | None = None
    executorch: RuntimeMemory | None = None
    sections: dict[str, Any] | msgspec.UnsetType = msgspec.UNSET


class ModelDocument(msgspec.Struct, frozen=True):
    """What ``etharness inspect --json`` prints; ``bytes`` is the size of the program."""

    model: str
    bytes: int
    methods: list[MethodDocument]


def describe_model(
    name: str,
    data: bytes,
    program: Program,
    fits: Sequence[Sequence[Fit]],
    instructions: Sequence[InstructionModel | None],
    test_sets: Sequence[TestSet] | None = None,
    *,
    executorch: bool = False,
) -> ModelDocument:
    """Return the description of a model.

    Args:
        name: Its path as the user knows it.
        data: The program.
        program: Its methods.
        fits: For each method, whether it fits each of the boards.
        instructions: The measured coefficients of each of the boards.
        test_sets: Those of a bundled program; None for a program alone.
        executorch: State the memory of ExecuTorch's runtime.
    """
    names = [each.method for each in test_sets] if test_sets is not None else None
    methods = [
        _method(
            *(method, delegate_calls(data, method), boards, instructions),
            names.count(method.name) if names is not None else None,
        )
        for method, boards in zip(program.methods, fits, strict=True)
    ]
    if executorch:
        memories = map(runtime_memory, program.methods)
        methods = [
            replace(method, executorch=memory)
            for method, memory in zip(methods, memories, strict=True)
        ]
    return ModelDocument(name, len(data), methods)


def _method(
    method: Method,
    delegates: Sequence[DelegateCall],
    boards: Sequence[Fit],
    instructions: Sequence[InstructionModel | None],
    test_sets: int | None,
) -> MethodDocument:
    counted = {(call.chain, call.instruction): call.macs for call in delegates}
    steps = [
        replace(step, macs=counted.get((step.chain, step.instruction), step.macs))
        for step in method_steps(method)
    ]
    exports, cpus = core_exports(), sorted({known.cpu for known in instructions if known})
    return MethodDocument(
        name=method.name,
        inputs=_texts(method, method.inputs),
        outputs=_texts(method, method.outputs),
        instructions=sum(map(len, method.chains)),
        macs=sum(step.macs or 0 for step in steps),
        constant_bytes=constant_bytes(method),
        backends=list(method.delegates),
        delegates=list(delegates),
        operators=work_by_operator(steps),
        pools=planned_pools(method),
        boards=[
            replace(board, estimate=estimate_method(steps, known))
            for board, known in zip(boards, instructions, strict=True)
        ],
        test_sets=test_sets,
        made_for=exports.made_for(method) if exports is not None else None,
        sections=method_sections(method, cpus, delegates) or msgspec.UNSET,
    )


def print_model(
    console: Console,
    model: ModelDocument,
    *,
    reasons: bool = True,
    detailed: bool = False,
    executorch: bool = False,
) -> None:
    """Print the description.

    Args:
        console: Where to.
        model: The description.
        reasons: Say of each board why the model does not fit, and estimate its instructions.
        detailed: List the tensors of the planned memory.
        executorch: Print the memory of ExecuTorch's runtime.
    """
    show_line(console, f"{model.model}: {model.bytes:,} bytes", style="bold")
    for method in model.methods:
        show_line(console)
        _print_method(console, method, detailed=detailed)
        if executorch:
            _print_executorch(console, method.executorch)
        _print_boards(console, method.boards)
        lines = _missing(method.boards)
        lines += _shortfalls(model.model, method.boards) if reasons else []
        for line in [*lines, ""] if lines and reasons else lines:
            show_line(console, line)
        for board in method.boards if reasons else ():
            print_estimate(console, board.board, board.estimate)


def _print_method(console: Console, method: MethodDocument, *, detailed: bool) -> None:
    unread = dict.fromkeys(call.backend for call in method.delegates if call.macs is None)
    without = f", without those of {', '.join(unread)}" if unread else ""
    header = {
        "method": method.name,
        "inputs": ", ".join(method.inputs) or "none",
        "outputs": ", ".join(method.outputs) or "none",
        "instructions": f"{method.instructions:,}",
        "multiply-accumulates": f"{method.macs:,}{without}",
        "constants": f"{method.constant_bytes:,} bytes",
    }
    if method.test_sets is not None:
        header["test sets"] = f"{method.test_sets:,}"
    if method.made_for is not None:
        header["exported for"] = method.made_for.text
    if method.backends:
        header["delegates"] = ", ".join(method.backends)
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
    for table in describe_sections(method.sections or {})[1]:
        print_table(console, table)
    work = [delegate_table(call, detailed=detailed) for call in method.delegates]
    for table in work:
        print_table(console, table)
    if work and not work[-1].rows:
        show_line(console)
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


def _print_executorch(console: Console, memory: RuntimeMemory | None) -> None:
    """Print what ExecuTorch's runtime needs."""
    if memory is None:
        show_line(
            console, "ExecuTorch's memory is not known: backends of delegates take memory, too"
        )
        return
    rows = [
        ("method", f"{memory.method:,}", "exact: structures of the method, in its allocator"),
        ("planned", f"{memory.planned:,}", "exact: all pools, which the application provides"),
        ("temporary", f"{memory.temporary:,}", "exact: to load, and for `topk`"),
    ]
    if memory.scratch:
        rows.append(("scratch", f"{memory.scratch:,}", "of CMSIS-NN, a part of planned"))
    title = "ExecuTorch's runtime on a 32-bit core"
    show_table(console, ("memory", "size [B]", ""), rows, title=title, numbers=(1,))
    show_line(console, f"kernels: {', '.join(memory.kernels) or 'none'}")
    show_line(console)


def _print_boards(console: Console, boards: Sequence[Fit]) -> None:
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


def _room(need: Need) -> str:
    least = "" if need.exact else "at least "
    of = "" if need.available is None else f" of {need.available:,}"
    return f"{least}{need.needed:,}{of}"


def _missing(boards: Sequence[Fit]) -> list[str]:
    """Return lines for everything that the firmware of boards lacks, with what would help."""
    lacking: dict[Refusal, list[str]] = {}
    for board in boards:
        for refusal in board.lacks:
            lacking.setdefault(refusal, []).append(board.board)
    lines = []
    for refusal, names in lacking.items():
        lines.append(f"{refusal.reason}: {few(names)}")
        lines += [f"  try: {refusal.remedy}"] if refusal.remedy else []
    return lines


def _shortfalls(model: str, boards: Sequence[Fit]) -> list[str]:
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


def _shortfall(where: str, need: Need) -> str:
    return f"{where}: {need.resource}: {need.shortfall:,} bytes are missing; {need.remedy}"


def _texts(method: Method, numbers: Sequence[int]) -> list[str]:
    return [Argument(number, method.values[number]).text for number in numbers]
