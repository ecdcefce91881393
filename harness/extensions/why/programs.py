"""A program as it is compared: each instruction with its tensors, arguments and constants.

From a ``.pte`` file everything is known. Of a run whose file is not at hand, its result has the
operators with types and shapes.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cache
from math import prod
from pathlib import Path
from typing import Final

import numpy as np

from harness.analyze.counterparts import ProgramOutline
from harness.analyze.workload import (
    Argument,
    InstructionModel,
    instruction_records,
    method_arguments,
    method_steps,
    tensor_bytes,
)
from harness.check.fit import core_exports
from harness.decode.program import Call, Method, Tensor, Value, ValueList
from harness.formatting import operator_title, short_operator_name
from harness.records.result import DelegateCall, DelegateWork
from harness.records.trace import CallName, InstructionRecord, type_name

CHANNELS_LAST: Final = "channels_last"
CONTIGUOUS: Final = "contiguous"

_BOUNDS: Final = ("activation_min", "activation_max")
_SCALES: Final = re.compile(r"scale|offset|zero_point|multiplier|shift|diff_min|lut|^pad_value$")
_NO_SCALES: Final = ("scale_factors", "scale_grad_by_freq")

FAMILIES: Final = {
    "convolution": "convolution conv1d conv2d conv_transpose2d quantized_conv2d quantized_conv "
    "quantized_conv2d_nhwc quantized_depthwise_conv2d quantized_depthwise_conv2d_nhwc "
    "quantized_transpose_conv2d quantized_transpose_conv2d_nhwc",
    "linear": "linear addmm mm quantized_linear",
    "matmul": "bmm matmul quantized_batch_matmul",
    "activation": "relu relu6 hardtanh clamp hardsigmoid hardswish leaky_relu elu "
    "quantized_activation minimum maximum sigmoid tanh",
    "batch norm": "_native_batch_norm_legit_no_training native_batch_norm batch_norm",
    "softmax": "_softmax softmax",
    "average": "mean avg_pool2d _adaptive_avg_pool2d quantized_avg_pool2d "
    "quantized_avg_pool2d_nhwc",
    "maximum": "max_pool2d_with_indices quantized_max_pool2d quantized_max_pool2d_nhwc amax",
    "add": "add quantized_add",
    "mul": "mul quantized_mul",
    "div": "div quantized_div",
    "pad": "pad constant_pad_nd",
    "view": "view_copy et_view unsqueeze_copy squeeze_copy expand_copy",
    "layout": "permute_copy transpose transpose_copy t_copy _clone_dim_order clone _to_copy "
    "_to_dim_order_copy",
    "quantize": "quantize_per_tensor quantize_per_channel dequantize_per_tensor "
    "dequantize_per_channel",
}
"""Operators that do the same work, or together one thing, by short names."""

_FAMILY: Final = {
    name.lstrip("_"): family for family, names in FAMILIES.items() for name in names.split()
}


def family_of(name: str) -> str:
    """Return what kind of work an operator does; its short name if it is of no family."""
    short = short_operator_name(name)
    return _FAMILY.get(short, short)


@cache
def argument_names() -> Mapping[str, Sequence[str]]:
    """Return the names of the arguments of operators, without outputs.

    They are from the schemas of PyTorch and ExecuTorch; the tests beside ExecuTorch compare them.
    """
    lines = Path(__file__).with_name("arguments.txt").read_text(encoding="utf-8").splitlines()
    return {name: names for name, *names in map(str.split, lines)}


@dataclass(frozen=True, slots=True)
class Operand:
    """A tensor of an instruction.

    Attributes:
        number: Its value number, which tells tensors apart.
        dtype: Its type.
        sizes: Elements per dimension.
        layout: ``channels_last``, ``contiguous`` or a dim order; "" if unknown.
        constant: Whether its data is in the file.
        digest: Digest of its data; "" if it has none, or if it is unknown.
    """

    number: int
    dtype: str
    sizes: tuple[int, ...]
    layout: str = ""
    constant: bool = False
    digest: str = ""

    @property
    def elements(self) -> int:
        """Number of its elements."""
        return prod(self.sizes)


@dataclass(frozen=True, slots=True)
class ComparedInstruction:
    """An instruction as it is compared.

    Attributes:
        chain: Its chain.
        index: Its number in the chain.
        name: Its operator, or the backend of a delegate call.
        call: What it does: a kernel, a delegate call, or something without an event.
        inputs: Its tensors that were computed before, or given.
        outputs: Its outputs.
        weights: Its constant tensors, by the name of the argument.
        scales: Scales, zero points, multipliers and shifts, by name; those of constant tensors as
            text that tells them apart.
        bounds: Bounds of a fused activation, by name.
        arguments: All other arguments that are no tensors, such as padding, by name.
        channels: How many scales its weights have; 0 if unknown.
        scratch: Bytes of scratch memory.
        blob: Digest of what a delegate executes; "" if it is no delegate, or if it is unknown.
        blob_bytes: Bytes of it.
        work: What a delegate does, as a decoder of its blob found; None if it is unknown.
        text: Types and shapes, as results record them.
        estimate: Estimated instructions of the CPU; None if unknown.
    """

    chain: int
    index: int
    name: str
    call: str
    inputs: tuple[Operand, ...]
    outputs: tuple[Operand, ...]
    weights: Mapping[str, Operand] = field(default_factory=dict)
    scales: Mapping[str, str] = field(default_factory=dict)
    bounds: Mapping[str, str] = field(default_factory=dict)
    arguments: Mapping[str, str] = field(default_factory=dict)
    channels: int = 0
    scratch: int = 0
    blob: str = ""
    blob_bytes: int = 0
    work: DelegateWork | None = None
    text: str = ""
    estimate: float | None = None

    @property
    def title(self) -> str:
        """Its short name and number, such as ``quantized_conv2d #5``."""
        return operator_title(self.name or self.call, self.index)

    @property
    def delegated(self) -> bool:
        """Whether a delegate executes it."""
        return self.call == "delegate"

    @property
    def digests(self) -> dict[str, str]:
        """Digests of its constant tensors, by the name of the argument."""
        return {name: item.digest or str(item.sizes) for name, item in self.weights.items()}

    @property
    def details(self) -> str:
        """All that is compared of it beside types and shapes: equal texts for equal operators."""
        parts = (self.digests, self.scales, self.bounds, self.arguments)
        return repr([self.blob, *(sorted(part.items()) for part in parts)])

    @property
    def amounts(self) -> dict[str, int]:
        """How much a delegate does: of what its decoder found, else the bytes of its blob."""
        work = self.work
        if work is None or not work.operators:
            return {"blob": self.blob_bytes}
        traffic = [n for op in work.operators for n in (*op.read.values(), *op.written.values())]
        return {
            "MACs": sum(op.macs for op in work.operators),
            "operations": len(work.operators),
            "bytes of weights": sum(op.weight_bytes for op in work.operators),
            "bytes read and written": sum(traffic),
            "bytes of scratch memory": work.scratch_bytes,
        }


@dataclass(frozen=True, slots=True)
class ProgramFacts:
    """A method as it is compared.

    Attributes:
        chains: Its instructions, per chain, without those that do no work.
        inputs: Its input tensors.
        planned: Bytes of planned memory, by pool from 1.
        plan: Pool and offset of each planned tensor; empty if unknown.
        complete: Whether it is from the file, so that layouts, arguments and data are known.
        cores: For which cores it was exported; "" if nothing depends on it, or if unknown.
        method: Its name; "" if unknown.
    """

    chains: tuple[tuple[ComparedInstruction, ...], ...]
    inputs: tuple[Operand, ...]
    planned: tuple[int, ...]
    plan: tuple[tuple[int, int], ...] = ()
    complete: bool = True
    cores: str = ""
    method: str = ""


def facts_of_method(
    method: Method,
    read: Callable[[Tensor], bytes | None],
    model: InstructionModel | None = None,
    delegates: Sequence[DelegateCall] = (),
    blobs: Sequence[bytes] = (),
) -> ProgramFacts:
    """Return a method as it is compared.

    Args:
        method: The method.
        read: Reads the bytes of its constants (``harness.decode.pte.constant_reader``).
        model: Coefficients for estimates of instructions; None for none.
        delegates: What the delegates do that it calls.
        blobs: What each of its delegates executes.
    """
    works = {(call.chain, call.instruction): call.work for call in delegates}
    steps = {(step.chain, step.instruction): step for step in method_steps(method)}
    records = instruction_records(method) or ()
    chains: list[list[ComparedInstruction]] = [[] for _ in method.chains]
    memory = _Memory(method)
    for (chain, index), found in method_arguments(method).items():
        if found.instruction.call not in (Call.KERNEL, Call.DELEGATE):
            continue
        step = steps[chain, index]
        written = [argument.number for argument in found.outputs]
        given = [one for one in found.inputs if not _lists(one.value, written)]
        parts = _Parts(found.instruction.name, given, read)
        blob = blobs[found.instruction.target] if (chain, index) in works else None
        chains[chain].append(
            ComparedInstruction(
                chain=chain,
                index=index,
                name=found.instruction.name,
                call=found.instruction.call.name.lower(),
                inputs=tuple(map(memory.source, parts.inputs)),
                outputs=tuple(
                    _operand(number, tensor) for number, tensor in _tensors(found.outputs)
                ),
                weights=parts.weights,
                scales=parts.scales,
                bounds=parts.bounds,
                arguments=parts.arguments,
                channels=parts.channels,
                scratch=parts.scratch,
                blob=_digest(blob),
                blob_bytes=len(blob or b""),
                work=works.get((chain, index)),
                text=records[chain][index].operands,
                estimate=None if model is None else model.estimate(step),
            )
        )
        memory.write(operand.number for operand in chains[chain][-1].outputs)
    exports = core_exports()
    made = exports.made_for(method) if exports is not None else None
    values = [value for value in method.values if isinstance(value, Tensor) and value.pool]
    return ProgramFacts(
        chains=tuple(map(tuple, chains)),
        inputs=tuple(
            _operand(number, value)
            for number in method.inputs
            if isinstance(value := method.values[number], Tensor)
        ),
        planned=method.planned[1:],
        plan=tuple((value.pool, value.offset) for value in values),
        cores=made.text if made is not None and made.cores else "",
        method=method.name,
    )


class _Memory:
    """Which tensor was written last at each place of planned memory.

    Exporters leave views out: a tensor is then read that no instruction writes, at the place of
    another one.
    """

    def __init__(self, method: Method) -> None:
        """Begin with the inputs."""
        self._values = method.values
        self._written: set[int] = set()
        self._last: dict[tuple[int, int], int] = {}
        self.write(method.inputs)

    def write(self, numbers: Iterable[int]) -> None:
        """Note that these values were written."""
        for number in numbers:
            self._written.add(number)
            value = self._values[number]
            if isinstance(value, Tensor) and value.pool:
                self._last[value.pool, value.offset] = number

    def source(self, operand: Operand) -> Operand:
        """Return the operand with the number of the tensor that its data comes from."""
        value = self._values[operand.number]
        if operand.number in self._written or not isinstance(value, Tensor) or not value.pool:
            return operand
        number = self._last.get((value.pool, value.offset), operand.number)
        return replace(operand, number=number)


class _Parts:
    """The arguments of an instruction, each where it is compared."""

    def __init__(
        self, name: str, inputs: Sequence[Argument], read: Callable[[Tensor], bytes | None]
    ) -> None:
        """Sort the arguments of an operator by what they are."""
        self.inputs: list[Operand] = []
        self.weights: dict[str, Operand] = {}
        self.scales: dict[str, str] = {}
        self.bounds: dict[str, str] = {}
        self.arguments: dict[str, str] = {}
        self.channels = self.scratch = 0
        names = argument_names().get(name, ())
        for position, argument in enumerate(inputs):
            known = position < len(names)
            label = names[position] if known else f"argument {position}"
            scale = _SCALES.search(label) is not None and label not in _NO_SCALES
            value = argument.value
            if label.endswith("scratch") and isinstance(value, Tensor):
                self.scratch += tensor_bytes(value)
            elif isinstance(value, Tensor) and value.constant:
                data = read(value)
                if scale:
                    self._scale(label, value, data)
                else:
                    self.weights[label] = _operand(argument.number, value, data)
            elif tensors := [*_tensors([argument])]:
                self.inputs += [_operand(*item) for item in tensors]
            elif scale:
                self._scale(label, value, None)
            elif label in _BOUNDS:
                self.bounds[label] = argument.text
            elif label in ("bias", "kernel_sum", "dtype", "memory_format"):
                continue  # an absent tensor; a type or a format that the tensors have, too
            elif label == "dim_order" or value is None:
                continue
            else:
                self.arguments[label] = argument.text

    def _scale(self, label: str, value: Value, data: bytes | None) -> None:
        if isinstance(value, Tensor):
            text, count = _digest(data), value.sizes[0] if value.sizes else 1
            if data is not None and "multiplier" in label:
                count = len(np.unique(np.frombuffer(data, "<i4")))
        elif isinstance(value, ValueList):
            text, count = ", ".join(map(str, value.items)), len(value.items)
        else:
            text, count = str(value), 1
        self.scales[label] = text
        if "multiplier" in label:
            self.channels = count


def _tensors(arguments: Sequence[Argument]) -> list[tuple[int, Tensor]]:
    """Return the tensors of arguments with their value numbers, those of lists, too."""
    found = []
    for argument in arguments:
        value = argument.value
        if isinstance(value, Tensor):
            found.append((argument.number, value))
        elif isinstance(value, ValueList):
            pairs = zip(value.numbers, value.items, strict=False)
            found += [(number, item) for number, item in pairs if isinstance(item, Tensor)]
    return found


def _lists(value: Value, numbers: Sequence[int]) -> bool:
    """Return whether a value is the list of some outputs: a kernel is given it twice."""
    return isinstance(value, ValueList) and [*value.numbers] == [*numbers]


def _operand(number: int, tensor: Tensor, data: bytes | None = None) -> Operand:
    if data is not None and tensor.sizes:
        # The same values in another dim order are the same constant.
        order = tensor.dim_order
        size = len(data) // max(prod(tensor.sizes), 1)
        shape = [tensor.sizes[dim] for dim in order]
        stored = np.frombuffer(data, f"V{size}" if size else "V1").reshape(shape)
        data = stored.transpose(np.argsort(order)).tobytes()
    return Operand(
        number,
        type_name(tensor.scalar_type),
        tensor.sizes,
        layout_of(tensor),
        tensor.constant,
        _digest(data),
    )


def _digest(data: bytes | None) -> str:
    return "" if data is None else hashlib.sha256(data).hexdigest()[:16]


def layout_of(tensor: Tensor) -> str:
    """Return how a tensor lies in memory; dimensions of one element say nothing of it."""
    order = [dim for dim in tensor.dim_order if tensor.sizes[dim] != 1]
    if order == sorted(order):
        return CONTIGUOUS
    last = [dim for dim in (0, *range(2, len(tensor.sizes)), 1) if tensor.sizes[dim] != 1]
    return CHANNELS_LAST if order == last else f"dim order {', '.join(map(str, tensor.dim_order))}"


_TENSOR: Final = re.compile(r"(\w+)\[([\d, ]*)\]")


def facts_of_records(
    chains: Sequence[Sequence[InstructionRecord]],
    planned: Sequence[int],
    delegates: Sequence[DelegateCall] = (),
) -> ProgramFacts:
    """Return a method as its result describes it: operators, types, shapes, work of delegates."""
    number = 0
    works = {(call.chain, call.instruction): call.work for call in delegates}
    latest: dict[str, int] = {}

    def operands(text: str, *, written: bool) -> tuple[Operand, ...]:
        nonlocal number
        found = []
        for match in _TENSOR.finditer(text):
            if written or match[0] not in latest:
                number += 1
                latest[match[0]] = number
            sizes = tuple(int(size) for size in match[2].split(",") if size.strip())
            found.append(Operand(latest[match[0]], match[1], sizes))
        return tuple(found)

    steps: list[tuple[ComparedInstruction, ...]] = []
    for place, chain in enumerate(chains):
        made = []
        for index, record in enumerate(chain):
            if record.call not in ("kernel", "delegate"):
                continue
            given, _, results = record.operands.partition(" -> ")
            inputs = operands(given, written=False)
            outputs = operands(results, written=True)
            made.append(
                ComparedInstruction(
                    *(place, index, record.name, record.call, inputs, outputs),
                    text=record.operands,
                    work=works.get((place, index)),
                )
            )
        steps.append(tuple(made))
    first = steps[0][0].inputs[:1] if steps and steps[0] else ()
    return ProgramFacts(tuple(steps), first, tuple(planned), complete=False)


def facts_of_outline(outline: ProgramOutline) -> ProgramFacts:
    """Return a method as a history describes it: operators, types and shapes."""
    chains = []
    for chain in outline.operands:
        records = []
        for text in chain:
            name, _, operands = text.partition(" ")
            call: CallName = "kernel" if "::" in name else "delegate"
            records.append(InstructionRecord(call if name else "move", name, operands=operands))
        chains.append(records)
    return facts_of_records(chains, ())
