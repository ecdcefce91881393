"""The work of a model, from its ``.pte`` alone, and what it allows: multiply-accumulates, bytes.

The roofline: an operator of M multiply-accumulates and B bytes of tensors takes at least M /
``macs_per_cycle`` and at least B / ``bytes_per_cycle`` cycles, whatever its code is (Williams,
Waterman and Patterson, Roofline, 2009). The rest of its measured cycles is overhead: loops,
addresses, requantization, stalls, and bytes that it moves more than once.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from math import prod
from typing import Final, Literal

import msgspec

from harness.analyze.operands import Argument, Arguments, method_arguments
from harness.analyze.statistics import Operator
from harness.decode.program import Call, Instruction, Method, Tensor, ValueList
from harness.errors import FormatError
from harness.records.clock_domain import CYCLES
from harness.records.result import CoreRecord
from harness.records.signature import CallName, InstructionRecord
from harness.records.trace import OPERATOR_CALL, stored_bytes


class Work(msgspec.Struct, frozen=True):
    """The work of calls of one operator or backend. Dynamic shapes count with their upper bounds.

    Attributes:
        operator: The operator of a kernel, such as ``aten::mm.out``; the backend of a delegate.
        delegated: Whether a delegate executes them.
        calls: Number of instructions.
        macs: Multiply-accumulates of convolutions and matrix products; 0 for other operators, null
            for a delegate, whose work is not in the file.
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
        constant_bytes: The part of ``bytes_read`` that is constant, such as weights.
        variant: Kind of a convolution that takes another loop: ``depthwise``, ``pointwise`` or
            ``transposed``; empty for others.
    """

    chain: int
    instruction: int
    constant_bytes: int = 0
    variant: str = ""

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


def method_steps(method: Method) -> list[Step]:
    """Return the work of every kernel and delegate of a method, in the order of the file."""
    steps = []
    for (chain, index), found in method_arguments(method).items():
        call = found.instruction.call
        if call not in (Call.KERNEL, Call.DELEGATE):
            continue
        inputs, outputs = (list(_tensors(group)) for group in (found.inputs, found.outputs))
        steps.append(
            Step(
                chain=chain,
                instruction=index,
                operator=found.instruction.name,
                delegated=call is Call.DELEGATE,
                calls=1,
                macs=None if call is Call.DELEGATE else _macs(found, inputs, outputs),
                elements=sum(prod(tensor.sizes) for tensor in outputs),
                bytes_read=sum(map(tensor_bytes, inputs)),
                bytes_written=sum(map(tensor_bytes, outputs)),
                constant_bytes=sum(tensor_bytes(tensor) for tensor in inputs if tensor.constant),
                variant="" if call is Call.DELEGATE else _variant(found, inputs),
            )
        )
    return steps


def work_by_operator(steps: Sequence[Step]) -> list[Work]:
    """Return the work of every operator and backend, in the order of first use."""
    names = dict.fromkeys((step.operator, step.delegated) for step in steps)
    return [
        Work(
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


def instruction_records(
    method: Method | None,
) -> tuple[tuple[InstructionRecord, ...], ...] | None:
    """Return the instructions of a method with their work, per chain; None without a method."""
    if method is None:
        return None
    try:
        work = {(step.chain, step.instruction): step for step in method_steps(method)}
    except FormatError:
        work = {}  # as of a tensor of unknown type; the instructions are known nevertheless
    return tuple(
        tuple(_record(step, work.get((number, index))) for index, step in enumerate(chain))
        for number, chain in enumerate(method.chains)
    )


def _record(instruction: Instruction, work: Step | None) -> InstructionRecord:
    call = msgspec.convert(instruction.call.name.lower(), CallName)
    record = InstructionRecord(call, instruction.name, instruction.target)
    if work is None or work.delegated:
        return record
    return msgspec.structs.replace(
        record,
        macs=work.macs or 0,
        bytes_read=work.bytes_read,
        bytes_written=work.bytes_written,
    )


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
    name = found.instruction.name.partition("::")[2].partition(".")[0]
    if not outputs or len(inputs) < 2:
        return 0
    elements = prod(outputs[0].sizes)
    data, weight = inputs[:2]
    if name == "quantized_transpose_conv2d" or (name == "convolution" and _is_true(found, 6)):
        return prod(data.sizes) * (prod(weight.sizes) // max(data.sizes[1], 1))
    if name in ("convolution", "quantized_conv2d"):
        return elements * (prod(weight.sizes) // max(weight.sizes[0], 1))
    if name == "quantized_depthwise_conv2d":  # weights are [1, height, width, channels]
        return elements * (prod(weight.sizes) // max(weight.sizes[-1], 1))
    if name in ("mm", "bmm", "matmul", "linear", "quantized_linear", "quantized_batch_matmul"):
        return elements * data.sizes[-1]
    if name == "addmm":  # the bias comes first
        return elements * weight.sizes[-1]
    return 0


def _variant(found: Arguments, inputs: list[Tensor]) -> str:
    """Return the kind of a convolution; empty for other operators."""
    name = found.instruction.name.partition("::")[2].partition(".")[0]
    if name not in ("convolution", "quantized_conv2d") or len(inputs) < 2:
        return ""
    data, weight = inputs[:2]
    if name == "convolution" and _is_true(found, 6):
        return "transposed"
    channels = data.sizes[1] if len(data.sizes) > 1 else 1
    products = prod(weight.sizes[1:])
    if name == "convolution" and weight.sizes[1] == 1 and channels > 1:
        return "depthwise"
    return "pointwise" if products == channels else ""


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
    if operator.name == OPERATOR_CALL or operator.loading:
        return None
    if operator.delegate_int != -1 or operator.delegate_str is not None:
        return None
    if not 0 <= operator.chain < len(chains):
        return None
    if not 0 <= operator.instruction < len(chains[operator.chain]):
        return None
    found = chains[operator.chain][operator.instruction]
    return found if found.call == "kernel" and found.bytes_read + found.bytes_written else None
