"""The work of a model, from its ``.pte`` alone: multiply-accumulates, bytes moved, constants."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from math import prod

import msgspec
import numpy as np

from harness.analyze.operands import Argument, Arguments, method_arguments
from harness.decode.program import Call, Instruction, Method, Tensor, ValueList
from harness.errors import FormatError
from harness.records.instruction import CallName, InstructionRecord
from harness.records.scalar_types import STORED_AS


@dataclass(frozen=True, slots=True)
class Step:
    """The work of one instruction. Dynamic shapes count with their upper bounds.

    Attributes:
        chain: Number of its chain.
        instruction: Its index in the chain, as in the trace's events.
        operator: The operator of a kernel, such as ``aten::mm.out``; the backend of a delegate.
        delegated: Whether a delegate executes it.
        macs: Multiply-accumulates of convolutions and matrix products; 0 for other operators, None
            for a delegate, whose work is not in the file.
        elements: Elements of its outputs.
        bytes_read: Bytes of its input tensors.
        bytes_written: Bytes of its output tensors.
        constant_bytes: The part of ``bytes_read`` that is constant, such as weights.
        variant: Kind of a convolution that takes another loop: ``depthwise``, ``pointwise`` or
            ``transposed``; empty for others.
    """

    chain: int
    instruction: int
    operator: str
    delegated: bool
    macs: int | None
    elements: int
    bytes_read: int
    bytes_written: int
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
    if tensor.scalar_type not in STORED_AS:
        raise FormatError(f"unknown scalar type {tensor.scalar_type}", field="values")
    return prod(tensor.sizes) * np.dtype(STORED_AS[tensor.scalar_type]).itemsize


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
                macs=None if call is Call.DELEGATE else _macs(found, inputs, outputs),
                elements=sum(prod(tensor.sizes) for tensor in outputs),
                bytes_read=sum(map(tensor_bytes, inputs)),
                bytes_written=sum(map(tensor_bytes, outputs)),
                constant_bytes=sum(tensor_bytes(tensor) for tensor in inputs if tensor.constant),
                variant="" if call is Call.DELEGATE else _variant(found, inputs),
            )
        )
    return steps


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
