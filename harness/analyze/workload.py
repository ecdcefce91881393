"""Operators of a ``.pte``: operands, work in multiply-accumulates and bytes, and the roofline.

Operands have shapes, strides, types and scalars.

The roofline: an operator of M multiply-accumulates and B bytes of tensors takes at least M /
``macs_per_cycle`` and at least B / ``bytes_per_cycle`` cycles, whatever its code is (Williams,
Waterman and Patterson, Roofline, 2009). The rest of its measured cycles is overhead: loops,
addresses, requantization, stalls, and bytes that it moves more than once.

Estimates of the instructions that a CPU executes for a model are from measured coefficients, which
``benchmarks/instructions.py`` measures and fits for each CPU. The instructions of a call are a sum
over its features (`FEATURES`), each times a coefficient that is not negative. A fit minimizes
relative errors, so that short operators count as much as long ones.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from math import prod
from typing import Any, Final, Literal, TypeVar

import msgspec
import numpy as np

from harness.analyze.statistics import Operator
from harness.config.board import Board
from harness.decode.program import Call, Instruction, Method, Tensor, Value, ValueList
from harness.errors import FormatError
from harness.files import data_directory, decode_json
from harness.plugins import SECTIONS, load_plugin, plugin_names
from harness.records.measurement import BUNDLED_KERNELS
from harness.records.result import CoreRecord, DelegateCall
from harness.records.trace import (
    CYCLES,
    CallName,
    InstructionRecord,
    Kind,
    TensorValue,
    Trace,
    is_wrapper,
    stored_bytes,
    type_name,
)

_Section = TypeVar("_Section", bound=msgspec.Struct)


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
            # A kernel returns one tensor, or the members of a list.
            value, written = method.values[args[-1]], [args[-1]]
            if isinstance(value, ValueList) and value.numbers:
                written = [member for member in value.numbers if member >= 0]
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
    for number in _tensor_values(method, method.inputs):
        first[number] = -1
    for place, step in enumerate(steps):
        for number in _tensor_values(method, step.args):
            first.setdefault(number, place)
            last[number] = max(last.get(number, place), place)
    for begin, behind in _loops(method):
        for number, used in last.items():
            if first[number] < begin <= used < behind:
                last[number] = behind
    for number in _tensor_values(method, method.outputs):
        first.setdefault(number, end)
        last[number] = end
    return {number: (first[number], last.get(number, end)) for number in first}


def _tensor_values(method: Method, numbers: Sequence[int]) -> list[int]:
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


class Work(msgspec.Struct, frozen=True):
    """The work of calls of one operator or backend. Dynamic shapes count with their upper bounds.

    Attributes:
        operator: The operator of a kernel, such as ``aten::mm.out``; the backend of a delegate.
        delegated: Whether a delegate executes them.
        calls: Number of instructions.
        macs: Multiply-accumulates of convolutions and matrix products; 0 for other operators, null
            for a delegate (its own operators: ``MethodDocument.delegates``).
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


class Step(Work, frozen=True, kw_only=True):
    """The work of one instruction.

    Attributes:
        chain: Number of its chain.
        instruction: Its index in the chain, as in the trace's events.
        variant: The loop that its kernel takes if it has several, such as ``pointwise``,
            ``grouped`` or ``broadcast``; empty for the usual one.
        type: Type of its first tensor, and of its output if it converts: ``float32``,
            ``float32 to int64``.
        features: What its instructions depend on, in the order of `FEATURES`.
        dynamic: Whether these count with the upper bounds of a dynamic shape.
    """

    chain: int
    instruction: int
    variant: str = ""
    type: str = ""
    features: tuple[float, ...] = ()
    dynamic: bool = False

    @property
    def kind(self) -> str:
        """The operator with its variant."""
        return f"{self.operator} {self.variant}".rstrip()


def tensor_bytes(tensor: Tensor) -> int:
    """Return the size of a tensor in bytes, by its upper bounds if its shape is dynamic.

    Raises:
        FormatError: Its scalar type is unknown.
    """
    size = stored_bytes(tensor.scalar_type, tensor.sizes)
    if size is None:
        raise FormatError(f"unknown scalar type {tensor.scalar_type}", field="values")
    return size


def method_steps(method: Method, *, loops: bool = True) -> list[Step]:
    """Return the work of every kernel and delegate of a method, in the order of the file.

    Args:
        method: The method.
        loops: Say which loop each kernel takes, and how often: what estimates need.

    Raises:
        FormatError: A tensor has an unknown type, or an operator the arguments of another one.
    """
    steps = []
    for (chain, index), found in method_arguments(method).items():
        if found.instruction.call not in (Call.KERNEL, Call.DELEGATE):
            continue
        try:
            steps.append(_step(chain, index, found, loops=loops))
        except (IndexError, TypeError, ValueError):
            what = f"{found.instruction.name} (chain {chain}, instruction {index})"
            raise FormatError(
                f"the arguments of {what} are not those of this operator", field="args"
            ) from None
    return steps


def _step(chain: int, index: int, found: Arguments, *, loops: bool) -> Step:
    delegated = found.instruction.call is Call.DELEGATE
    inputs, outputs = (list(_tensors(group)) for group in (found.inputs, found.outputs))
    step = Step(
        chain=chain,
        instruction=index,
        operator=found.instruction.name,
        delegated=delegated,
        calls=1,
        macs=None if delegated else _macs(found, inputs, outputs),
        elements=sum(prod(tensor.sizes) for tensor in outputs),
        bytes_read=sum(map(tensor_bytes, inputs)),
        bytes_written=sum(map(tensor_bytes, outputs)),
        dynamic=any(tensor.dynamism for tensor in (*inputs, *outputs)),
    )
    if delegated or not loops:
        return step
    return msgspec.structs.replace(
        step,
        variant=_variant(found, inputs, outputs),
        type=_type(found, inputs, outputs),
        features=_features(found, inputs, outputs),
    )


FEATURES: Final = (
    *("call", "mac", "element", "first", "other", "row", "row_read", "inner"),
    *("left_of_4", "left_of_16", "area"),
)
"""What instructions depend on: the call itself; multiply-accumulates, without those that kernels
skip outside of an image; elements of the outputs, of the first input and of the other inputs; rows
of adjacent elements in the outputs and in the first input; steps of the innermost loop of pools,
orders and distances, and taps of convolutions; and, in depthwise layers, the multiply-accumulates
of the channels left of blocks of 4 and 16; areas of a convolution's outputs with the same taps."""


def _features(found: Arguments, inputs: list[Tensor], outputs: list[Tensor]) -> tuple[float, ...]:
    elements = [prod(tensor.sizes) for tensor in inputs]
    part, areas = _inside(found, inputs, outputs)
    macs = _macs(found, inputs, outputs) * part
    depthwise = _base_name(found) == "quantized_depthwise_conv2d" and macs
    channels = inputs[1].sizes[-1] if depthwise else 1
    return (
        1.0,
        float(macs),
        float(sum(prod(tensor.sizes) for tensor in outputs)),
        float(sum(elements[:1])),
        float(sum(elements[1:])),
        sum(map(_rows, outputs)),
        sum(map(_rows, inputs[:1])),
        _inner(found, inputs, outputs) * part,
        *(macs * (channels % block) / channels if depthwise else 0.0 for block in (4, 16)),
        areas,
    )


def _inside(found: Arguments, inputs: list[Tensor], outputs: list[Tensor]) -> tuple[float, float]:
    """Return the part of a convolution's taps that is in its image, where kernels skip others.

    And the number of areas of outputs that have the same taps.
    """
    name, part, areas = _base_name(found), 1.0, 1.0
    variant = _variant(found, inputs, outputs) if name in _CONVOLUTIONS else "transposed"
    all_taps = name == "quantized_conv2d" and variant in ("", "pointwise")
    if all_taps or "transpose" in f"{name} {variant}":
        return 1.0, 0.0
    images = (t.sizes[1:-1] if _is_last(found) else t.sizes[2:] for t in (inputs[0], outputs[0]))
    kernel = inputs[1].sizes[2:] if name == "convolution" else inputs[1].sizes[1:-1]
    steps = (getattr(found.inputs[place].value, "items", ()) for place in (3, 4, 5))
    for size, count, taps, stride, padding, dilation in zip(*images, kernel, *steps, strict=False):
        firsts = np.arange(count) * stride - padding
        places = np.add.outer(firsts, np.arange(taps) * dilation)
        used = (places >= 0) & (places < size)
        part *= float(np.mean(used)) if used.size else 1.0
        areas *= 1 + int(np.count_nonzero((used[1:] != used[:-1]).any(axis=1)))
    return part, areas


def _rows(tensor: Tensor) -> float:
    """Return the number of rows of adjacent elements."""
    sizes = zip(tensor.sizes, tensor.strides, strict=True)
    return prod(tensor.sizes) / next((n for n, stride in sizes if stride == 1 and n > 1), 1)


def _inner(found: Arguments, inputs: list[Tensor], outputs: list[Tensor]) -> float:
    """Return the steps of the innermost loop that neither elements nor products count."""
    name, given = _base_name(found), [argument.value for argument in found.inputs]
    if not inputs or not outputs:
        return 0.0
    elements = prod(outputs[0].sizes)
    if name in _CONVOLUTIONS and len(inputs) > 1:  # taps, each of the channels of a group
        channels = inputs[1].sizes[1 if name == "convolution" else -1]
        if name == "convolution" and given[6] is True and isinstance(given[8], int):
            channels = inputs[0].sizes[1] // max(given[8], 1)
        return _macs(found, inputs, outputs) / max(channels, 1)
    if "pool2d" in name and isinstance(given[1], ValueList) and "adaptive" not in name:
        return float(elements * prod(int(str(size)) for size in given[1].items))
    if name in ("sort", "topk"):  # heaps of what is kept
        kept = [n for n in outputs[0].sizes if n > 1] or [1]
        return elements * float(np.log2(max(*kept, 2)))
    return float(elements * inputs[0].sizes[-1]) if "dist_forward" in name else 0.0


def _type(found: Arguments, inputs: list[Tensor], outputs: list[Tensor]) -> str:
    converts = inputs and "to_" in found.instruction.name
    some = [*inputs[:1], *(outputs[:1] if converts or not inputs else ())]
    return " to ".join(dict.fromkeys(type_name(tensor.scalar_type) for tensor in some))


def work_by_operator(steps: Sequence[Step]) -> list[Work]:
    """Return the work of every operator and backend, in the order of first use."""
    names = dict.fromkeys((step.operator, step.delegated) for step in steps)
    return [
        Work(
            operator=operator,
            delegated=delegated,
            calls=len(alike),
            macs=None
            if delegated and None in [step.macs for step in alike]
            else sum(step.macs or 0 for step in alike),
            elements=sum(step.elements for step in alike),
            bytes_read=sum(step.bytes_read for step in alike),
            bytes_written=sum(step.bytes_written for step in alike),
        )
        for operator, delegated in names
        for alike in [[s for s in steps if (s.operator, s.delegated) == (operator, delegated)]]
    ]


def instruction_records(
    method: Method | None,
) -> tuple[tuple[InstructionRecord, ...], ...] | None:
    """Return the instructions of a method with their work, per chain; None without a method."""
    if method is None:
        return None
    try:
        work = {(step.chain, step.instruction): step for step in method_steps(method, loops=False)}
    except FormatError:
        work = {}  # as of a tensor of unknown type; the instructions are known nevertheless
    operands = {place: _operands(of) for place, of in method_arguments(method).items()}
    recorded = []
    for number, chain in enumerate(method.chains):
        records = []
        for index, step in enumerate(chain):
            call = msgspec.convert(step.call.name.lower(), CallName)
            record = InstructionRecord(
                call, step.name, step.target, operands=operands[number, index]
            )
            done = work.get((number, index))
            if done is not None and not done.delegated:
                record = msgspec.structs.replace(
                    record,
                    macs=done.macs or 0,
                    bytes_read=done.bytes_read,
                    bytes_written=done.bytes_written,
                )
            records.append(record)
        recorded.append(tuple(records))
    return tuple(recorded)


def method_sections(
    method: Method | None, cpus: Sequence[str] = ("*",), calls: Sequence[DelegateCall] = ()
) -> dict[str, Any]:
    """Return what extensions know of a method, by their names; for these CPUs.

    ``calls`` are its calls of delegates, with what is known of their work.
    """
    if method is None:
        return {}
    plugins: dict[str, Any] = {name: load_plugin(SECTIONS, name) for name in plugin_names(SECTIONS)}
    found = {name: plugin.describe(method, cpus, calls) for name, plugin in plugins.items()}
    return {name: msgspec.to_builtins(said) for name, said in found.items() if said is not None}


def read_section(found: Any, kind: type[_Section], name: str, words: str) -> _Section:
    """Return what an extension said of a method, also from the document in the result of a run.

    Args:
        found: What it said, or its document.
        kind: Its type.
        name: Name of the extension's section.
        words: What errors call it.

    Raises:
        FormatError: The document is invalid.
    """
    try:
        return found if isinstance(found, kind) else msgspec.convert(found, kind)
    except msgspec.ValidationError as error:
        raise FormatError(
            f"the run's {words} is invalid: {error}",
            field=f"model.sections.{name}",
            hint="run the model again; result.json was edited, or another version wrote it",
        ) from None


def _operands(arguments: Arguments) -> str:
    """Return the types and shapes of the tensors of a kernel or a delegate call."""
    if arguments.instruction.call not in (Call.KERNEL, Call.DELEGATE):
        return ""
    given, written = (
        " ".join(_tensor_text(tensor, tensor.sizes) for tensor in _tensors(side))
        for side in (arguments.inputs, arguments.outputs)
    )
    return f"{given} -> {written}"


def constant_bytes(method: Method) -> int:
    """Return the bytes of the constants of a method, such as weights; shared ones count once."""
    constants = [value for value in method.values if isinstance(value, Tensor) and value.constant]
    distinct = {tensor.data or tensor.name: tensor for tensor in constants}
    return sum(map(tensor_bytes, distinct.values()))


def _tensors(arguments: Sequence[Argument]) -> Iterator[Tensor]:
    for argument in arguments:
        value = argument.value
        if isinstance(value, Tensor):
            yield value
        elif isinstance(value, ValueList):
            yield from (item for item in value.items if isinstance(item, Tensor))


def _macs(found: Arguments, inputs: list[Tensor], outputs: list[Tensor]) -> int:
    """Return the multiply-accumulates of an operator, 0 for those that have none.

    A convolution takes, for each element of its output, all weights of one output channel; a
    transposed one, for each element of its input, all weights of one input channel; a matrix
    product, for each element of its output, the length of the dimension that is summed.
    """
    name = _base_name(found)
    if not outputs or len(inputs) < 2:
        return 0
    elements = prod(outputs[0].sizes)
    data, weight = inputs[:2]
    if name == "quantized_transpose_conv2d" or (name == "convolution" and _is_true(found, 6)):
        return prod(data.sizes) * (prod(weight.sizes) // max(_channels(found, data), 1))
    if name in ("convolution", "quantized_conv2d"):
        return elements * (prod(weight.sizes) // max(weight.sizes[0], 1))
    if name == "quantized_depthwise_conv2d":  # weights are [1, height, width, channels]
        return elements * (prod(weight.sizes) // max(weight.sizes[-1], 1))
    if name in ("mm", "bmm", "matmul", "linear", "quantized_linear", "quantized_batch_matmul"):
        return elements * data.sizes[-1]
    if name == "addmm":  # the bias comes first
        return elements * weight.sizes[-1]
    return 0


def _variant(found: Arguments, inputs: list[Tensor], outputs: list[Tensor]) -> str:
    """Return the loop that a kernel takes for these arguments; empty for its usual one."""
    name = _base_name(found)
    if name in _CONVOLUTIONS and len(inputs) > 1:
        return _convolution(found, name, *inputs[:2])
    if name in _BROADCAST and len({prod(tensor.sizes) for tensor in (*inputs, *outputs)}) > 1:
        return "broadcast"
    if name == "pow" and len(found.inputs) > 1 and found.inputs[1].value == 2:
        return "of two"
    return ""


def _convolution(found: Arguments, name: str, data: Tensor, weight: Tensor) -> str:
    channels = _channels(found, data)
    if name == "convolution" and _is_true(found, 6):
        return "transposed"
    if name != "convolution" and channels > 1 and data.strides[-1 if _is_last(found) else 1] != 1:
        return "channels first"
    several = weight.sizes[0 if name == "convolution" else -1] > channels
    if name == "quantized_depthwise_conv2d":
        return "of one channel" if channels == 1 else "multiplied" if several else ""
    of_group = weight.sizes[1 if name == "convolution" else -1]
    if name != "quantized_transpose_conv2d" and of_group < channels:
        return "grouped" if of_group > 1 else "multiplied" if several else "depthwise"
    return "pointwise" if prod(weight.sizes[1:]) == channels else ""


_BROADCAST: Final = frozenset(
    (
        *("add", "sub", "mul", "div", "pow", "maximum", "minimum", "where", "fmod", "remainder"),
        *("eq", "ne", "lt", "le", "gt", "ge", "logical_and", "logical_or", "logical_xor", "atan2"),
        *("floor_divide", "quantized_add", "quantized_mul", "quantized_div"),
    )
)
_CONVOLUTIONS: Final = frozenset(
    ("convolution", "quantized_conv2d", "quantized_depthwise_conv2d", "quantized_transpose_conv2d")
)


def _base_name(found: Arguments) -> str:
    """Return the name of an operator without its library, overload and layout."""
    name = found.instruction.name.partition("::")[2].partition(".")[0]
    return name.removesuffix("_nhwc")


def _channels(found: Arguments, data: Tensor) -> int:
    """Return the channels of an image."""
    return data.sizes[-1 if _is_last(found) else min(1, len(data.sizes) - 1)]


def _is_last(found: Arguments) -> bool:
    """Return whether the operator names the channels last."""
    return found.instruction.name.partition(".")[0].endswith("_nhwc")


def _is_true(found: Arguments, position: int) -> bool:
    return len(found.inputs) > position and found.inputs[position].value is True


Bound = Literal["compute", "memory", "overhead"]

_EXPLAINED: Final = 0.5
"""Share of the cycles from which on the roof is what limits an operator, not its overhead."""


class RooflinePoint(msgspec.Struct, frozen=True):
    """An operator against what its core can do at most.

    Attributes:
        macs: Its multiply-accumulates.
        bytes: Bytes of its input and output tensors, each moved once.
        cycles: Median of its measured cycles.
        fewest_cycles: Cycles that the core needs at least for this work.
        bound: What limits it: ``compute`` or ``memory``, whichever needs more cycles, where these
            are half of the measured ones or more; else ``overhead``.
    """

    macs: int
    bytes: int
    cycles: float
    fewest_cycles: float
    bound: Bound

    @property
    def intensity(self) -> float:
        """Multiply-accumulates per byte."""
        return self.macs / self.bytes

    @property
    def macs_per_cycle(self) -> float:
        """Multiply-accumulates per measured cycle."""
        return self.macs / self.cycles

    @property
    def share(self) -> float:
        """Part of the measured cycles that the core needs at least; 1 is the roof."""
        return self.fewest_cycles / self.cycles


def roofline(
    operators: Iterable[Operator],
    chains: Sequence[Sequence[InstructionRecord]],
    core: CoreRecord,
) -> list[tuple[Operator, RooflinePoint]]:
    """Place every operator of known work and known cycles; in the order of ``operators``.

    Args:
        operators: Operators of executions.
        chains: Instructions of the program with their work, per chain.
        core: What the core can do at most.
    """
    found = []
    for operator in operators:
        work = _work(operator, chains)
        counts = operator.counters.get(CYCLES)
        if work is None or counts is None or not counts.p50:
            continue
        moved = work.bytes_read + work.bytes_written
        compute, memory = work.macs / core.macs_per_cycle, moved / core.bytes_per_cycle
        fewest = max(compute, memory)
        bound: Bound = "compute" if compute >= memory else "memory"
        if fewest < _EXPLAINED * counts.p50:
            bound = "overhead"
        point = RooflinePoint(work.macs, moved, counts.p50, fewest, bound)
        found.append((operator, point))
    return found


def _work(
    operator: Operator, chains: Sequence[Sequence[InstructionRecord]]
) -> InstructionRecord | None:
    """Return the instruction of a kernel's event, if its work is known."""
    if is_wrapper(operator.name) or operator.loading:
        return None
    chain = chains[operator.chain] if 0 <= operator.chain < len(chains) else ()
    delegated = operator.delegate_int != -1 or operator.delegate_str is not None
    if delegated or not 0 <= operator.instruction < len(chain):
        return None
    found = chain[operator.instruction]
    return found if found.call == "kernel" and found.bytes_read + found.bytes_written else None


class Coefficients(msgspec.Struct, frozen=True):
    """Instructions of one operator.

    Attributes:
        types: By `Step.type`, the instructions for each feature (`FEATURES`) that counts.
        samples: Number of calls that were fitted.
        typical: Median of their instructions per multiply-accumulate, or per element of the outputs
            of operators that have none; of calls that are large enough to tell.
        error: Median relative error of calls that were not fitted; null without such calls.
        worst_error: Largest of these errors.
    """

    types: dict[str, dict[str, float]]
    samples: int
    typical: float | None = None
    error: float | None = None
    worst_error: float | None = None

    def estimate(self, step: Step) -> float:
        """Return the instructions of one call; a type that was not measured counts as another."""
        usual = "int64" if "int" in step.type and "int64" in self.types else next(iter(self.types))
        terms = self.types.get(step.type) or self.types[usual]
        numbers = dict(zip(FEATURES, step.features, strict=True))
        return sum(factor * numbers[name] for name, factor in terms.items())


class MeasuredKernels(msgspec.Struct, frozen=True):
    """A kernel library whose instructions were counted.

    Attributes:
        cpu: Name of the CPU.
        kernels: The kernel library.
        measured_on: The emulated board, which counts instructions.
    """

    cpu: str
    kernels: str
    measured_on: str


class InstructionModel(MeasuredKernels, frozen=True):
    """Coefficients of the operators of a kernel library on one CPU, and how far off they were.

    Attributes:
        fitted: Networks that the coefficients were fitted on.
        held_out: Relative error of the sum of all calls with coefficients, for networks that were
            not.
        operators: Coefficients by operator, with its variant (``Step.kind``).
    """

    fitted: list[str]
    held_out: dict[str, float]
    operators: dict[str, Coefficients]

    @property
    def median_error(self) -> float | None:
        """Median relative error of the networks that were not fitted."""
        errors = [abs(error) for error in self.held_out.values()]
        return round(float(np.median(errors)), 4) if errors else None

    @property
    def worst_error(self) -> float | None:
        """Largest relative error of the networks that were not fitted."""
        return max(map(abs, self.held_out.values()), default=None)

    def estimate(self, step: Step) -> float | None:
        """Return the instructions of one call; None if its operator has no coefficients.

        And for float16 and bfloat16, in which the bundled kernels do not compute.
        """
        is_half = "float16" in step.type
        known = None if step.delegated or is_half else self.operators.get(step.kind)
        return known.estimate(step) if known is not None else None


class OperatorEstimate(msgspec.Struct, frozen=True):
    """Estimated instructions of all calls of an operator.

    Attributes:
        operator: The operator, with its variant such as ``depthwise``.
        calls: Number of calls.
        instructions: Their instructions together; null if the operator was not measured.
        error: Median relative error of single calls in networks that were not fitted; null if none
            of these calls the operator.
        worst_error: Largest of these errors.
    """

    operator: str
    calls: int
    instructions: int | None
    error: float | None
    worst_error: float | None


class InstructionEstimate(MeasuredKernels, frozen=True):
    """Estimated instructions of one execution on a CPU, and how far off such estimates were.

    Attributes:
        instructions: Instructions of all measured operators together.
        unknown: Operators that were not measured; ``instructions`` leaves them out.
        networks: Number of networks that were not fitted, for the errors.
        median_error: Median relative error of their sums; null without networks.
        worst_error: Largest of these errors.
        operators: The estimate by operator, most instructions first.
        dynamic: Whether shapes are dynamic, so that an execution takes at most so many.
    """

    instructions: int
    unknown: list[str]
    networks: int
    median_error: float | None
    worst_error: float | None
    operators: list[OperatorEstimate]
    dynamic: bool = False


def estimate_method(
    steps: Sequence[Step], model: InstructionModel | None
) -> InstructionEstimate | None:
    """Estimate a method; None without measured coefficients."""
    if model is None:
        return None
    kinds = dict.fromkeys(step.kind for step in steps)
    operators = [_estimate(kind, [s for s in steps if s.kind == kind], model) for kind in kinds]
    operators.sort(key=lambda item: -(item.instructions or 0))
    return InstructionEstimate(
        cpu=model.cpu,
        kernels=model.kernels,
        measured_on=model.measured_on,
        instructions=sum(item.instructions or 0 for item in operators),
        unknown=[item.operator for item in operators if item.instructions is None],
        networks=len(model.held_out),
        median_error=model.median_error,
        worst_error=model.worst_error,
        operators=operators,
        dynamic=any(step.dynamic for step in steps),
    )


def _estimate(kind: str, steps: Sequence[Step], model: InstructionModel) -> OperatorEstimate:
    known = model.operators.get(kind)
    estimates = [model.estimate(step) for step in steps]
    total = sum(value for value in estimates if value is not None)
    return OperatorEstimate(
        operator=kind,
        calls=len(steps),
        instructions=None if None in estimates else round(total),
        error=known.error if known else None,
        worst_error=known.worst_error if known else None,
    )


def instruction_model(board: Board) -> InstructionModel | None:
    """Return the measured coefficients for a board's CPU and kernels; None if there are none."""
    if board.build is None or board.links_executorch:
        return None
    return next((model for model in measured_models(board.cpu)), None)


def measured_models(cpu: str = "*") -> list[InstructionModel]:
    """Return the measured coefficients of a CPU, or of all."""
    files = sorted((data_directory("boards") / "instructions").glob(f"{cpu}.json"))
    models = [decode_json(file.read_bytes(), type_=InstructionModel) for file in files]
    return [model for model in models if model.kernels == BUNDLED_KERNELS]
