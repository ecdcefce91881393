"""Operands of every operator from the ``.pte``: shapes, strides, types, scalars, and tensor ids.

Ids are assigned as by the PyTorch profiler. An address does not identify a tensor: freed memory is
reused, and a tensor may move. So each lifetime at an address is a storage of its own, and storages
that held the same tensor share its id.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterator, Sequence
from dataclasses import dataclass, replace

from harness.decode.program import Call, Instruction, Method, Tensor, Value, ValueList
from harness.records.trace import Kind, TensorValue, Trace, type_name


@dataclass(frozen=True, slots=True)
class Argument:
    """An argument of an instruction.

    Attributes:
        number: Number of the value in the method.
        value: The value in the file.
        logged: The tensor logged for it in this run, with its actual sizes; None without one.
    """

    number: int
    value: Value
    logged: TensorValue | None = None

    @property
    def sizes(self) -> tuple[int, ...] | None:
        """Sizes of a tensor, as logged, otherwise as planned; None for other values."""
        if self.logged is not None:
            return self.logged.sizes
        return self.value.sizes if isinstance(self.value, Tensor) else None

    @property
    def strides(self) -> tuple[int, ...] | None:
        """Strides of a tensor, as logged, otherwise as planned; None for other values."""
        if self.logged is not None:
            return self.logged.strides
        return self.value.strides if isinstance(self.value, Tensor) else None

    @property
    def text(self) -> str:
        """Short text: ``float32[1, 8]``, ``3``; with ``?`` if the sizes are upper bounds."""
        if isinstance(self.value, Tensor):
            bound = "?" if self.value.dynamism and self.logged is None else ""
            return _tensor_text(self.value, self.sizes or ()) + bound
        if isinstance(self.value, ValueList):
            return f"[{', '.join(_item_text(item) for item in self.value.items)}]"
        return str(self.value)


@dataclass(frozen=True, slots=True)
class Arguments:
    """Inputs and outputs of an instruction, in the order of the file.

    Attributes:
        instruction: The instruction.
        inputs: Its inputs.
        outputs: Its outputs; all tensors of an operator that returns several. Outputs of a delegate
            are the arguments that have no value before.
    """

    instruction: Instruction
    inputs: tuple[Argument, ...]
    outputs: tuple[Argument, ...]


Place = tuple[int, int]
"""Chain and instruction id."""


def method_arguments(method: Method) -> dict[Place, Arguments]:
    """Return inputs and outputs of every instruction, from the file alone."""
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


def event_arguments(trace: Trace, methods: Sequence[Method | None]) -> list[Arguments | None]:
    """Return inputs and outputs of every event's instruction, shape (n,).

    None for events outside the method's instructions, such as those without a chain. Repeats share
    one object unless their logged values differ.

    Args:
        trace: The trace.
        methods: The method of each block, as from ``executed_methods``.
    """
    static = {id(method): method_arguments(method) for method in methods if method is not None}
    found: list[Arguments | None] = [None] * len(trace)
    for block, method in zip(trace.blocks, methods, strict=True):
        if method is None:
            continue
        rows = slice(block.first, block.first + block.count)
        places = zip(trace.chain[rows].tolist(), trace.instruction[rows].tolist(), strict=True)
        of_method = static[id(method)]
        given = [of_method.get(place) for place in places]
        if (trace.kind[rows] == Kind.DEBUG).any():
            given = _with_logged(trace, range(*rows.indices(len(trace))), given)
        found[rows] = given
    return found


def _divide(
    method: Method, instruction: Instruction, known: set[int]
) -> tuple[Sequence[int], Sequence[int]]:
    """Return the value numbers of an instruction's inputs and outputs."""
    args = instruction.args
    match instruction.call:
        case Call.KERNEL if args:
            written = _members(method, args[-1])
            given = list(args[:-1])
            # Outputs come last; an in-place operator has its output first.
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
    """Return the numbers of the tensors that a kernel returns: one, or the members of a list."""
    value = method.values[number]
    if isinstance(value, ValueList) and value.numbers:
        return [member for member in value.numbers if member >= 0]
    return [number]


def _with_logged(
    trace: Trace, rows: range, found: list[Arguments | None]
) -> list[Arguments | None]:
    """Return the arguments of one block's events, with the tensors logged in it.

    Values are logged after the events of their instruction, so rows are first grouped by execution
    of an instruction; a repeated instruction is the next iteration of a loop.
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
    """Yield the consecutive rows of each execution of an instruction."""
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
    """Return the tensors that one execution of an instruction logged, by value number.

    A kernel logs its outputs, a delegate all its arguments. With another number of values they
    cannot be assigned, and the result is empty.
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


@dataclass(frozen=True, slots=True)
class TensorReference:
    """An access to an address: an operator's argument, an allocation or a free.

    Attributes:
        address: Address and device of the storage, or any other key unique to its location.
        tensor: Address or number of the operator's tensor; None for an allocation or a free.
        freed: Whether the storage ends here.
    """

    address: Hashable
    tensor: Hashable | None = None
    freed: bool = False


@dataclass(frozen=True, slots=True)
class Ids:
    """Ids of a storage and its tensor.

    Attributes:
        storage: Number of the storage, from 1.
        tensor: Number of the tensor, from 0; None if no operator used a tensor in this storage.
    """

    storage: int
    tensor: int | None


def unique_ids(references: Sequence[TensorReference]) -> list[Ids]:
    """Return the ids of storages and tensors.

    Args:
        references: Arguments at the start of operators, and allocations, in order of time.

    Returns:
        Ids per reference. Tensors are numbered in the order of their first storage.
    """
    storages = _storages(references)
    first: dict[Hashable, int] = {}  # storage in which a tensor was seen first
    pairs = set()
    for reference, storage in zip(references, storages, strict=True):
        if reference.tensor is not None:
            earlier = first.setdefault(reference.tensor, storage)
            pairs.add((min(earlier, storage), max(earlier, storage)))
    tensors: dict[int, int] = {}
    count = 0
    for lower, higher in sorted(pairs):
        if lower not in tensors:
            tensors[lower] = count
            count += 1
        tensors.setdefault(higher, tensors[lower])
    return [Ids(storage, tensors.get(storage)) for storage in storages]


def _storages(references: Sequence[TensorReference]) -> list[int]:
    """Return the storage number of each reference: a new one per address after each free."""
    current: dict[Hashable, int] = {}
    count = 0
    found = []
    for reference in references:
        if reference.address not in current:
            count += 1
            current[reference.address] = count
        found.append(current[reference.address])
        if reference.freed:
            del current[reference.address]
    return found


def lifetimes(method: Method) -> dict[int, tuple[int, int]]:
    """Return the first and the last instruction that needs each used tensor, by value number.

    Instructions are indices into all of the method's: -1 for a tensor that exists before the first,
    the number of all of them for one that is needed afterwards.

    Inputs, constants and buffers exist before the first instruction; outputs and mutable buffers
    are needed after the last. Tensors carried through a loop live until its end, members of a list
    as long as the list.
    """
    steps = [step for chain in method.chains for step in chain]
    end = len(steps)
    first: dict[int, int] = {}
    last: dict[int, int] = {}
    for number, value in enumerate(method.values):
        if isinstance(value, Tensor) and (value.constant or value.initial_state):
            first[number], last[number] = -1, end
    for number in _tensors(method, method.inputs):
        first[number] = -1
    for place, step in enumerate(steps):
        for number in _tensors(method, step.args):
            first.setdefault(number, place)
            last[number] = max(last.get(number, place), place)
    for begin, behind in _loops(method):
        for number, used in last.items():
            if first[number] < begin <= used < behind:
                last[number] = behind
    for number in _tensors(method, method.outputs):
        first.setdefault(number, end)
        last[number] = end
    return {number: (first[number], last.get(number, end)) for number in first}


def _tensors(method: Method, numbers: Sequence[int]) -> list[int]:
    """Return the numbers of the tensors among some values, including members of lists."""
    found = []
    for number in numbers:
        value = method.values[number]
        if isinstance(value, Tensor):
            found.append(number)
        elif isinstance(value, ValueList):
            items = zip(value.items, value.numbers, strict=False)
            found += [inner for item, inner in items if isinstance(item, Tensor)]
    return found


def _loops(method: Method) -> list[tuple[int, int]]:
    """Return the first and last instruction of every loop (backward jump), innermost first."""
    found, base = [], 0
    for chain in method.chains:
        for index, step in enumerate(chain):
            if step.call is Call.JUMP_FALSE and step.target <= index:
                found.append((base + step.target, base + index))
        base += len(chain)
    return sorted(found, key=lambda loop: loop[1] - loop[0])


def planned_ids(method: Method) -> dict[int, Ids]:
    """Return the ids of the tensors of a method, by value number.

    An address in planned memory is a pool and an offset; it is freed at the end of the last
    lifetime there.
    """
    alive = lifetimes(method)
    moments = []
    for number, (first, last) in alive.items():
        moments += [(first, 0, number), (last, 1, number)]
    there: dict[Hashable, int] = {}
    references, numbers = [], []
    for _, ending, number in sorted(moments):
        address = _address(method, number)
        there[address] = there.get(address, 0) + (-1 if ending else 1)
        references.append(
            TensorReference(address, number, freed=bool(ending) and not there[address])
        )
        numbers.append(number)
    return dict(zip(numbers, unique_ids(references), strict=True))


def _address(method: Method, number: int) -> Hashable:
    value = method.values[number]
    if isinstance(value, Tensor) and value.pool > 0 and value.offset >= 0:
        return value.pool, value.offset
    return number
