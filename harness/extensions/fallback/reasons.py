"""Why a partitioner left an operator to the CPU, and what helps."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

import msgspec

from harness.analyze.workload import Arguments
from harness.decode.program import Tensor, Value, ValueList
from harness.records.trace import type_name


class FallbackReason(msgspec.Struct, frozen=True):
    """A rule of a partitioner that an operator does not meet.

    Attributes:
        rule: Its name; "" if the rule is not known.
        why: The rule, and what of the operator does not meet it.
        attempt: What to try in the export; "" if nothing is known.
        left: Part of the CPU's time that the delegate takes for the same. That of a few operators
            was measured, XNNPACK's on x86-64 (docs/fallback.md).
    """

    rule: str
    why: str
    attempt: str = ""
    left: float = 0.05


def unknown_rule(_facts: OperatorFacts) -> FallbackReason:
    """Return the reason for a backend whose partitioner is not known."""
    return FallbackReason("", "the rule is not known: rules of this backend are not built in")


SHAPES: Final = FallbackReason(
    "sizes",
    "it computes with sizes of tensors, which no delegate takes",
    "export static shapes",
)
"""Why operators such as ``aten::sym_size.int`` and ``executorch_prim::mul.Scalar`` are outside."""

_EXAMPLE: Final = ("add", "addmm", "linear", "mul", "relu")


def example_npu(facts: OperatorFacts) -> FallbackReason:
    """Return why the partitioner of the simulated NPU left an operator (docs/delegates.md)."""
    if facts.name not in _EXAMPLE:
        why = (
            f"the simulated NPU takes linear, relu, add and mul, not {facts.name.partition('.')[0]}"
        )
        return FallbackReason("operator", why)
    if facts.types != ["float32"] or facts.rank > 2:
        return FallbackReason("matrix", "the simulated NPU takes float32 of up to 2 dimensions")
    return unknown_rule(facts)


class OperatorFacts:
    """What rules ask of an operator.

    Attributes:
        name: Its name without a namespace and ``out``: ``mean``, ``pow.Tensor_Scalar``.
        tensors: Its input tensors, with the members of lists.
        distinct: Numbers of the values in its arguments; a tensor that is given twice counts once.
        outputs: Its output tensors.
        dequantized: All its inputs that are computed come from a dequantization.
        stored: Names of the types of its input tensors before their dequantization.
        border: An input of the method is among its inputs, or an output among its outputs.
        targets: What the delegates beside it were compiled for, by backend, as far as it is known.
    """

    def __init__(
        self,
        call: Arguments,
        producers: Mapping[int, Arguments],
        targets: Mapping[str, str],
        *,
        border: bool = False,
    ) -> None:
        self.border, self.targets = border, targets
        before = [producers[given.number] for given in call.inputs if given.number in producers]
        quantized = [found for found in before if "::dequantize" in found.instruction.name]
        self.dequantized = bool(before) and len(quantized) == len(before)
        self.values: list[Value] = [argument.value for argument in call.inputs]
        self.name = plain_name(call.instruction.name)
        self.tensors = [
            tensor
            for value in self.values
            for tensor in (value.items if isinstance(value, ValueList) else (value,))
            if isinstance(tensor, Tensor)
        ]
        self.distinct = {
            number
            for argument in call.inputs
            for number in (
                argument.value.numbers
                if isinstance(argument.value, ValueList)
                else (argument.number,)
            )
        }
        self.outputs = [
            argument.value for argument in call.outputs if isinstance(argument.value, Tensor)
        ]
        values = [found.inputs[0].value for found in quantized if found.inputs]
        self.stored = [
            type_name(value.scalar_type) for value in values if isinstance(value, Tensor)
        ] or self.types

    def value(self, position: int) -> Value:
        """Return an argument; None beyond the last."""
        return self.values[position] if position < len(self.values) else None

    def ints(self, position: int) -> tuple[int, ...]:
        """Return a list of integers; empty for any other argument."""
        value = self.value(position)
        if not isinstance(value, ValueList):
            return ()
        return tuple(item for item in value.items if type(item) is int)

    @property
    def sizes(self) -> tuple[int, ...]:
        """Sizes of the first input tensor; empty without one."""
        return self.tensors[0].sizes if self.tensors else ()

    @property
    def rank(self) -> int:
        """Dimensions of the first input tensor; 0 without one."""
        return len(self.sizes)

    @property
    def types(self) -> list[str]:
        """Names of the types of the input and the output tensors, each once."""
        tensors = [*self.tensors, *self.outputs]
        return [*dict.fromkeys(type_name(tensor.scalar_type) for tensor in tensors)]

    @property
    def dynamic(self) -> bool:
        """Whether the shape of an output can change."""
        return any(tensor.dynamism for tensor in self.outputs)


_OUT: Final = ("_out", ".out", "out")


def plain_name(name: str) -> str:
    """Return an operator's name without its namespace and the mark of its output argument.

    Examples:
        >>> plain_name("aten::mean.out"), plain_name("aten::pow.Tensor_Scalar_out")
        ('mean', 'pow.Tensor_Scalar')
    """
    short = name.rpartition("::")[2]
    base, _, overload = short.partition(".")
    for mark in _OUT:
        overload = overload.removesuffix(mark)
    return f"{base}.{overload}" if overload else base
