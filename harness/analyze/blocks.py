"""Blocks of a trace: execution or not, cold or warm, event sequence, and the method that each ran.

The method follows from the instructions that the events of a block name.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import Any, Final

import numpy as np
import numpy.typing as npt

from harness.decode.program import Call, Instruction, Method, Program
from harness.errors import NotComparableError, UsageError
from harness.formatting import KERNEL_EVENT
from harness.records.trace import DELEGATE_CALL, EXECUTION, LOADING, OPERATOR_CALL, Kind, Trace

_TABLE_FACTOR = 4
"""Possible numbers per row up to which a lookup table is faster than sorting."""

_MAX_CODE = 2**62
"""Codes stay below this to avoid overflow."""


def equal_rows(keys: Sequence[npt.NDArray[Any]]) -> npt.NDArray[np.int64]:
    """Return a number for each row, equal for rows with equal keys.

    Args:
        keys: One or more columns of integers, each of shape (n,).

    Returns:
        Numbers from 0, without gaps, in ascending order of the keys, shape (n,).
    """
    count = len(keys[0])
    codes, span = np.zeros(count, np.int64), 1
    if not count:
        return codes
    for key in keys:
        low = int(key.min())
        width = int(key.max()) - low + 1
        if width > _TABLE_FACTOR * count:
            values, numbers = np.unique(key, return_inverse=True)
            width = len(values)
        else:
            numbers = key.astype(np.int64) - low
        if span > _MAX_CODE // width:
            codes, span = _without_gaps(codes, span)
        codes, span = codes * width + numbers, span * width
    return _without_gaps(codes, span)[0]


def _without_gaps(codes: npt.NDArray[np.int64], span: int) -> tuple[npt.NDArray[np.int64], int]:
    """Renumber codes below ``span`` without gaps, and return how many numbers there are."""
    if span > _TABLE_FACTOR * len(codes):
        values, numbers = np.unique(codes, return_inverse=True)
        return numbers, len(values)
    there = np.zeros(span, np.int64)
    there[codes] = 1
    numbers = np.cumsum(there) - 1
    return numbers[codes], int(numbers[-1]) + 1


def in_groups(
    numbers: npt.NDArray[np.int64],
) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.int64]]:
    """Sort rows into groups of equal numbers.

    Args:
        numbers: Small numbers as from ``equal_rows``, shape (n,).

    Returns:
        The order of rows, shape (n,), with groups in order of first occurrence and rows of a group
        in their own order; and the index in it at which each group begins.
    """
    first = np.zeros(int(numbers.max(initial=-1)) + 1, np.int64)
    first[numbers[::-1]] = np.arange(len(numbers))[::-1]  # the last write wins
    seen = first[numbers]
    order = np.argsort(seen, kind="stable")
    return order, np.flatnonzero(np.diff(seen[order], prepend=-1))


def running_maximum(
    values: npt.NDArray[np.int64], first: npt.NDArray[np.bool_]
) -> npt.NDArray[np.int64]:
    """Return the running maximum within each group, shape (n,).

    Args:
        values: Consecutive groups of values, shape (n,).
        first: True at the first value of each group, including index 0.
    """
    distinct, ranks = np.unique(values, return_inverse=True)
    # Offset the ranks of each group above those of all groups before it.
    floor = np.cumsum(first) * len(distinct)
    return np.asarray(distinct[np.maximum.accumulate(ranks + floor) - floor])


_Bools = npt.NDArray[np.bool_]


@dataclass(frozen=True, slots=True)
class BlockRun:
    """One block.

    Attributes:
        order: Index of the block in the trace.
        name: Its name.
        tracer: Number of its tracer; 0 for a block without events.
        index: Number of earlier blocks with this name and tracer.
        signature: Order of the first block with the same name and the same sequence of profile
            events, compared by the ``SIGNATURE`` columns. ExecuTorch's Inspector splits blocks of
            one name by this signature.
        events: Number of its events.
        executes: Whether a method was executed in it.
        cold: Whether it is the first execution after loading; other executions are warm.
    """

    order: int
    name: str
    tracer: int
    index: int
    signature: int
    events: int
    executes: bool
    cold: bool


SIGNATURE: Final = ("name", "chain", "instruction", "delegate_int", "delegate_str", "clock")
"""Columns that are equal for repeats of one event."""


def block_numbers(trace: Trace) -> npt.NDArray[np.int64]:
    """Return the block number of every event, shape (n,)."""
    return np.repeat(np.arange(len(trace.blocks)), [block.count for block in trace.blocks])


def block_names(trace: Trace) -> tuple[list[str], npt.NDArray[np.int64]]:
    """Return the distinct block names by first occurrence, and each event's index into them."""
    names = list(dict.fromkeys(block.name for block in trace.blocks))
    number = {name: index for index, name in enumerate(names)}
    of_block = np.array([number[block.name] for block in trace.blocks], np.int64)
    return names, of_block[block_numbers(trace)]


def runs(trace: Trace, *, without: Collection[str] = ()) -> list[BlockRun]:
    """Return the blocks of ``trace``.

    Args:
        trace: The trace.
        without: Names of events to ignore in signatures.
    """
    executed, cold = executions(trace)
    counts = [name not in without for name in trace.names] + [True]
    profile = np.flatnonzero((trace.kind == Kind.PROFILE) & np.array(counts)[trace.name])
    codes = equal_rows([getattr(trace, column)[profile] for column in SIGNATURE])
    bounds = np.searchsorted(profile, [block.first for block in trace.blocks] + [len(trace)])
    seen: dict[tuple[str, bytes], int] = {}
    indices: Counter[tuple[int, str]] = Counter()
    found = []
    for order, (block, (first, behind)) in enumerate(
        zip(trace.blocks, pairwise(bounds.tolist()), strict=True)
    ):
        signature = seen.setdefault((block.name, codes[first:behind].tobytes()), order)
        tracer = int(trace.tracer[block.first]) if block.count else 0
        index = indices[tracer, block.name]
        indices[tracer, block.name] += 1
        flags = bool(executed[order]), bool(cold[order])
        found.append(BlockRun(order, block.name, tracer, index, signature, block.count, *flags))
    return found


def executions(trace: Trace) -> tuple[_Bools, _Bools]:
    """Return per block whether it executes a method, and whether it is the cold execution.

    A block executes a method if it has a ``Method::execute`` event. If no block has one, as with a
    filter, blocks with profile events but no loading events count. The cold execution is the first
    after loading; if runs or chunks of the log are missing, no execution counts as cold.
    """
    numbers, profile = block_numbers(trace), trace.kind == Kind.PROFILE
    loads, executes, busy = (
        np.bincount(numbers[rows], minlength=len(trace.blocks)) > 0
        for rows in (profile & trace.named(*LOADING), profile & trace.named(EXECUTION), profile)
    )
    if not executes.any():
        executes = busy & ~loads
    known = not (trace.losses.runs or trace.losses.chunks)
    fresh: dict[int, bool] = {}
    cold = np.zeros(len(trace.blocks), np.bool_)
    rows = zip(trace.blocks, loads.tolist(), executes.tolist(), strict=True)
    for order, (block, loaded, executed) in enumerate(rows):
        tracer = int(trace.tracer[block.first]) if block.count else 0
        first = loaded or fresh.get(tracer, True)
        cold[order] = executed and known and first
        fresh[tracer] = first and not executed
    return executes, cold


FULL_LOG_HINT: Final = "use --stream"
"""How a run gets a complete log that does not fit on the device."""


def full_log(trace: Trace, requested: int | None = None) -> str:
    """Return when the log was full, such as ``full in execution 7 of 20``; "" if it was not.

    Args:
        trace: The trace.
        requested: Number of executions that the run asked for, if known.
    """
    if not trace.full:
        return ""
    kinds = trace.kind[np.isin(trace.tracer, trace.full)]
    if len(kinds) and (kinds >= Kind.TASK).all():
        return f"full in tracer {trace.full[0]}, which logs no executions"
    number = trace.names.index(EXECUTION) if EXECUTION in trace.names else len(trace.names)
    executions = trace.tracer[(trace.kind == Kind.PROFILE) & (trace.name == number)]
    done = min(int(np.count_nonzero(executions == tracer)) for tracer in trace.full)
    of = "" if requested is None else f" of {requested:,}"
    if requested is not None and done >= requested:
        return f"full after execution {done:,}{of}"
    if not done and len(trace.blocks) < 2:
        return "full while the model was loaded"
    return f"full in execution {done + 1:,}{of}"


SCOPES: Final = {
    OPERATOR_CALL: Call.KERNEL,
    DELEGATE_CALL: Call.DELEGATE,
    "MOVE_CALL": Call.MOVE,
    "JF_CALL": Call.JUMP_FALSE,
    "FREE_CALL": Call.FREE,
}
"""Kinds of instructions by ExecuTorch's names of the scopes around them."""

_ANY, _OPERATOR = 0, -1
"""What an event says of its instruction besides a kind: nothing, or the operator of its kernel."""

_Claims = npt.NDArray[np.int64]
"""Chain, instruction, name and a kind (``Call``) or one of these, of distinct events, (n, 4)."""

_UNTRACED: Final = "executorch_prim::"
"""Operators on scalars, which no runtime traces."""


def executed_methods(
    trace: Trace, program: Program, name: str | None = None
) -> tuple[Method | None, ...]:
    """Return the method of each block of a trace.

    None for a block without events of instructions, such as that of loading. If several methods
    have all instructions of a block, it is of the one called ``name``, else of the only one that
    has no further instructions.

    Raises:
        NotComparableError: A block is of no method, or none is of the method called ``name``.
        UsageError: The method is unknown, or a block may be of several.
    """
    if name is not None and program.method(name) is None:
        names = ", ".join(method.name for method in program.methods)
        raise UsageError(f"method {name!r} not found in the model", hint=f"its methods are {names}")
    known: dict[bytes, Method] = {}
    found: list[Method | None] = []
    for claims in _claims_of_blocks(trace):
        key = claims.tobytes()
        if len(claims) and key not in known:
            execution = 1 + sum(method is not None for method in found)
            known[key] = _method_of(trace, claims, program, name, execution)
        found.append(known.get(key))
    executed = dict.fromkeys(method.name for method in found if method is not None)
    if name is not None and executed and name not in executed:
        raise NotComparableError(
            f"no execution of the trace is of method {name!r}, but of {', '.join(executed)}",
            hint="leave out --method, or give the model that the trace was recorded with",
        )
    return tuple(found)


def find_method(program: Program, trace: Trace, name: str | None = None) -> Method:
    """Return the only method that a trace has executions of, or the one called ``name``.

    Raises:
        NotComparableError: An execution is of no method, or none is of the method called ``name``.
        UsageError: The method is unknown, or several match or were executed.
    """
    executed = {method.name: method for method in executed_methods(trace, program, name) if method}
    if name is not None:
        executed = {name: executed.get(name) or _named(program, name)}
    candidates = executed or {method.name: method for method in program.methods}
    if len(candidates) != 1:
        problem = "the trace has executions of several methods" if executed else _SEVERAL
        raise UsageError(
            f"{problem}: {', '.join(candidates)}", hint="choose one of them with --method"
        )
    return next(iter(candidates.values()))


def blocks_of(trace: Trace, method: Method) -> tuple[Method | None, ...]:
    """Return ``method`` for each block that can be of it, and None for the others.

    Raises:
        NotComparableError: There are executions, but none is of the method.
    """
    fitting = tuple(
        method if len(claims) and not _differences(trace, claims, method) else None
        for claims in _claims_of_blocks(trace)
    )
    if not any(fitting):
        executed_methods(trace, Program((method,)))
    return fitting


def name_blocks(trace: Trace, methods: Sequence[Method | None]) -> Trace:
    """Return a trace with the method in the name of each block, if several methods ran.

    Args:
        trace: The trace.
        methods: The method of each block, as from ``executed_methods``; empty if unknown.
    """
    if len({method.name for method in methods if method is not None}) < 2:
        return trace
    blocks = tuple(
        block if method is None else replace(block, name=f"{block.name} {method.name}".strip())
        for block, method in zip(trace.blocks, methods, strict=True)
    )
    return replace(trace, blocks=blocks)


_SEVERAL: Final = "several methods match the trace"


def contradiction(trace: Trace, method: Method) -> str:
    """Return why an execution of a trace is not of ``method``; "" if all can be."""
    try:
        executed_methods(trace, Program((method,)))
    except NotComparableError as error:
        return error.message
    return ""


def _named(program: Program, name: str) -> Method:
    return next(method for method in program.methods if method.name == name)


def _claims_of_blocks(trace: Trace) -> Iterator[_Claims]:
    """Yield what the events of each block say of instructions."""
    numbers = {name: number for number, name in enumerate(trace.names)}
    kernels = np.array([name.startswith(KERNEL_EVENT) for name in trace.names] + [False])
    profiled = trace.kind == Kind.PROFILE
    role = np.full(len(trace), _ANY, np.int64)
    role[profiled & kernels[trace.name]] = _OPERATOR
    for scope, call in SCOPES.items():
        role[profiled & (trace.name == numbers.get(scope, -2))] = call
    role[trace.delegated] = Call.DELEGATE
    columns = (trace.chain, trace.instruction, trace.name, role)
    table = np.stack([column.astype(np.int64) for column in columns], axis=1)
    distinct: dict[bytes, _Claims] = {}
    for block in trace.blocks:
        rows = table[block.first : block.first + block.count]
        rows = rows[rows[:, 0] >= 0]
        key = rows.tobytes()
        if key not in distinct:
            distinct[key] = np.unique(rows, axis=0)
        yield distinct[key]


def _method_of(
    trace: Trace, claims: _Claims, program: Program, name: str | None, execution: int
) -> Method:
    differences = {method.name: _differences(trace, claims, method) for method in program.methods}
    fitting = [method for method in program.methods if not differences[method.name]]
    if not fitting:
        nearest = name or min(differences, key=lambda other: len(differences[other]), default="")
        raise NotComparableError(
            _refusal(execution, nearest, differences.get(nearest, []), len(program.methods)),
            hint="give the model that the trace was recorded with",
        )
    for preferred in (
        [method for method in fitting if method.name == name],
        [method for method in fitting if _is_complete(claims, method)],
    ):
        fitting = preferred or fitting
    if len(fitting) != 1:
        raise UsageError(
            f"{_SEVERAL}: {', '.join(method.name for method in fitting)}",
            hint="choose one of them with --method",
        )
    return fitting[0]


def _differences(trace: Trace, claims: _Claims, method: Method) -> list[str]:
    """Return what the events name that the method does not have, a text each."""
    found = []
    for chain, index, name, role in claims.tolist():
        instruction = method.instruction(chain, index)
        event = trace.text(name) or ("a delegate's event" if role == Call.DELEGATE else "an event")
        if not _agrees(event, role, instruction):
            place = f"instruction {index}" + (f" of chain {chain}" if chain else "")
            found.append(f"{event} is {place}, which {_described(instruction)}")
    return found


def _agrees(event: str, role: int, instruction: Instruction | None) -> bool:
    if instruction is None:
        return False
    if role == _OPERATOR:
        operator, called = instruction.name.rpartition("::")[2], event.removeprefix(KERNEL_EVENT)
        # An ETRecord has operators without the overload of the kernel, or none.
        possible = ("", called, called.partition(".")[0])
        return instruction.call is Call.KERNEL and operator in possible
    return role in (_ANY, instruction.call)


def _described(instruction: Instruction | None) -> str:
    if instruction is None:
        return "does not exist"
    return f"is {instruction.name or instruction.call.name}"


def _is_complete(claims: _Claims, method: Method) -> bool:
    """Return whether the events name each instruction of a method that a runtime traces."""
    named = {(chain, index) for chain, index, *_ in claims.tolist()}
    return all(
        (chain, index) in named
        for chain, instructions in enumerate(method.chains)
        for index, step in enumerate(instructions)
        if step.call is Call.DELEGATE
        or (step.call is Call.KERNEL and not step.name.startswith(_UNTRACED))
    )


def _refusal(execution: int, nearest: str, differences: list[str], methods: int) -> str:
    subject = f"execution {execution} of the trace is not of "
    subject += f"method {nearest!r}" if methods == 1 else "any method of the model"
    if not differences:
        return subject
    among = "" if methods == 1 else f" in {nearest!r}"
    return f"{subject}: {differences[0]}{among} ({len(differences)} differ)"
