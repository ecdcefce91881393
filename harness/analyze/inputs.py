"""What each operator was given and gave: shapes, strides, types and scalars, from the ``.pte``.

An event says which instruction of which chain it belongs to; the file says what that instruction
takes. Where the trace has logged values these replace what the file says, as a dynamic shape is
known only then.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

import numpy as np

from harness.decode.program import Call, Instruction, Method, Program, Tensor, Value, ValueList
from harness.errors import NotComparableError, UsageError
from harness.records.scalar_types import type_name
from harness.records.trace import Kind, TensorValue, Trace

_KERNEL_EVENT = "native_call_"
"""What ExecuTorch calls the event of a kernel, in front of the operator's name."""


@dataclass(frozen=True, slots=True)
class Argument:
    """An argument of an instruction.

    Attributes:
        number: Number of the value among the method's.
        value: What the file says of it.
        logged: The tensor that was logged for it in this run, with its true sizes; None when the
            trace has none.
    """

    number: int
    value: Value
    logged: TensorValue | None = None

    @property
    def sizes(self) -> tuple[int, ...] | None:
        """Of a tensor, as logged or else as planned; None of anything else."""
        if self.logged is not None:
            return self.logged.sizes
        return self.value.sizes if isinstance(self.value, Tensor) else None

    @property
    def strides(self) -> tuple[int, ...] | None:
        """Likewise."""
        if self.logged is not None:
            return self.logged.strides
        return self.value.strides if isinstance(self.value, Tensor) else None

    @property
    def text(self) -> str:
        """In a few characters: ``float32[1, 8]``, ``3``; with ``?`` when sizes are only bounds."""
        if isinstance(self.value, Tensor):
            bound = "?" if self.value.dynamism and self.logged is None else ""
            return _tensor_text(self.value, self.sizes or ()) + bound
        if isinstance(self.value, ValueList):
            return f"[{', '.join(_item_text(item) for item in self.value.items)}]"
        return str(self.value)


@dataclass(frozen=True, slots=True)
class Arguments:
    """What an instruction takes and what it writes, each in the order of the file.

    Attributes:
        instruction: The instruction.
        inputs: What it takes.
        outputs: What it writes; of an operator that returns several tensors, each of them. Of a
            delegate these are the arguments that nothing has set before.
    """

    instruction: Instruction
    inputs: tuple[Argument, ...]
    outputs: tuple[Argument, ...]


Place = tuple[int, int]
"""Chain and instruction id."""


def method_arguments(method: Method) -> dict[Place, Arguments]:
    """Inputs and outputs of every instruction, as the file has them."""
    known = {*method.inputs}
    for number, value in enumerate(method.values):
        if not isinstance(value, Tensor) or value.constant or value.initial_state:
            known.add(number)
    found = {}
    for chain, instructions in enumerate(method.chains):
        for index, instruction in enumerate(instructions):
            given, written = _divide(method, instruction, known)
            known.update(written)
            found[chain, index] = Arguments(
                instruction,
                tuple(Argument(number, method.values[number]) for number in given),
                tuple(Argument(number, method.values[number]) for number in written),
            )
    return found


def event_arguments(trace: Trace, method: Method) -> list[Arguments | None]:
    """Inputs and outputs of every event's instruction, shape (n,).

    None for events that belong to no instruction of the method, as those without a chain.
    Repeats share one object unless logged values tell them apart.

    Raises:
        NotComparableError: The trace names other operators than the method has.
    """
    wrong = disagreements(trace, method)
    if wrong:
        raise NotComparableError(
            f"{wrong} events are of other operators than method {method.name!r} has in their place",
            hint="give the model, and the method, that the trace is of",
        )
    static = method_arguments(method)
    places = list(zip(trace.chain.tolist(), trace.instruction.tolist(), strict=True))
    found: list[Arguments | None] = [static.get(place) for place in places]
    for block in trace.blocks:
        rows = slice(block.first, block.first + block.count)
        if (trace.kind[rows] == Kind.DEBUG).any():
            found[rows] = _with_logged(trace, range(*rows.indices(len(trace))), found[rows])
    return found


def disagreements(trace: Trace, method: Method) -> int:
    """How many events of kernels name another operator than the method has in their place."""
    kernels = np.array([name.startswith(_KERNEL_EVENT) for name in trace.names] + [False])
    rows = np.flatnonzero((trace.kind == Kind.PROFILE) & kernels[trace.name])
    if not len(rows):
        return 0
    columns = [trace.chain[rows], trace.instruction[rows], trace.name[rows].astype(np.int64)]
    distinct, counts = np.unique(np.stack(columns, axis=1), axis=0, return_counts=True)
    return sum(
        count
        for (chain, index, name), count in zip(distinct.tolist(), counts.tolist(), strict=True)
        if not _is_of(trace.names[name], method.instruction(chain, index))
    )


def find_method(program: Program, trace: Trace, name: str | None = None) -> Method:
    """The method that a trace is of: the one named, or the only one whose operators it has.

    Raises:
        UsageError: There is no such method, or several fit.
    """
    names = ", ".join(method.name for method in program.methods)
    if name is not None:
        method = program.method(name)
        if method is None:
            raise UsageError(f"the model has no method {name!r}", hint=f"its methods: {names}")
        return method
    fitting = [method for method in program.methods if not disagreements(trace, method)]
    if len(fitting) != 1:
        what = "none of the model's methods fits" if not fitting else "several methods fit"
        raise UsageError(f"{what} the trace", hint=f"choose one of {names}")
    return fitting[0]


def _is_of(event: str, instruction: Instruction | None) -> bool:
    if instruction is None or instruction.call is not Call.KERNEL:
        return False
    return instruction.name.rpartition("::")[2] == event.removeprefix(_KERNEL_EVENT)


def _divide(
    method: Method, instruction: Instruction, known: set[int]
) -> tuple[Sequence[int], Sequence[int]]:
    """Numbers of what an instruction takes and of what it writes."""
    args = instruction.args
    match instruction.call:
        case Call.KERNEL if args:
            written = _members(method, args[-1])
            given = list(args[:-1])
            # Outputs stand at the end; an operator that works in place has its output first.
            while given and (given[-1] in written or given[-1] == args[-1]):
                given.pop()
            return given, written
        case Call.DELEGATE:
            return [n for n in args if n in known], [n for n in args if n not in known]
        case Call.MOVE:
            return args[:1], args[1:]
        case _:
            return args, ()


def _members(method: Method, number: int) -> list[int]:
    """The numbers of the tensors that a kernel returns: a tensor's own, or a list's members."""
    value = method.values[number]
    if isinstance(value, ValueList) and value.numbers:
        return [member for member in value.numbers if member >= 0]
    return [number]


def _with_logged(
    trace: Trace, rows: range, found: list[Arguments | None]
) -> list[Arguments | None]:
    """The arguments of one block's events with the tensors logged in it, as far as there are any.

    A value is logged after its instruction's events. So instructions are told apart first: those
    whose place comes again are a loop's next repeat.
    """
    latest: dict[int, TensorValue] = {}
    result = list(found)
    for group in _instructions(trace, rows):
        static = found[group[0] - rows.start]
        if static is None:
            continue
        inputs = _fill(static.inputs, latest)
        latest.update(_logged(trace, group, static))
        filled = replace(static, inputs=inputs, outputs=_fill(static.outputs, latest))
        for row in group:
            result[row - rows.start] = static if filled == static else filled
    return result


def _instructions(trace: Trace, rows: range) -> Iterator[list[int]]:
    """Rows that stand one behind the other and belong to one execution of an instruction."""
    group: list[int] = []
    logged = False
    chains, instructions = trace.chain, trace.instruction
    for row in rows:
        debug = trace.kind[row] == Kind.DEBUG
        same = group and (
            chains[row] == chains[group[0]] and instructions[row] == instructions[group[0]]
        )
        if group and (not same or (logged and not debug)):
            yield group
            group, logged = [], False
        group.append(row)
        logged |= bool(debug)
    if group:
        yield group


def _logged(trace: Trace, rows: list[int], static: Arguments) -> dict[int, TensorValue]:
    """The tensors that one execution of an instruction logged, by number of value.

    A kernel logs what it returns, a delegate all its arguments. Where the number of values is
    another one, nothing says which is which.
    """
    values = [
        trace.debug_values[trace.debug[row]]
        for row in rows
        if trace.debug[row] >= 0 and trace.delegate_int[row] == -1 and trace.delegate_str[row] == -1
    ]
    contents = [value.value for value in values if not value.output]
    if static.instruction.call is Call.DELEGATE:
        numbers = static.instruction.args
    else:
        numbers = tuple(output.number for output in static.outputs)
        if len(contents) == 1 and isinstance(contents[0], tuple):
            contents = [*contents[0]]
    if len(contents) != len(numbers):
        return {}
    pairs = zip(numbers, contents, strict=True)
    return {number: value for number, value in pairs if isinstance(value, TensorValue)}


def _fill(arguments: tuple[Argument, ...], logged: dict[int, TensorValue]) -> tuple[Argument, ...]:
    return tuple(
        replace(item, logged=logged[item.number]) if item.number in logged else item
        for item in arguments
    )


def _tensor_text(tensor: Tensor, sizes: Sequence[int]) -> str:
    return f"{type_name(tensor.scalar_type)}[{', '.join(map(str, sizes))}]"


def _item_text(item: Tensor | float | bool | None) -> str:
    return _tensor_text(item, item.sizes) if isinstance(item, Tensor) else str(item)
