"""Program: what a ``.pte`` file says about its methods, without the bytes of constants."""

from __future__ import annotations

from dataclasses import dataclass
from enum import IntEnum


class Dynamism(IntEnum):
    """What may change about a tensor's shape; numbers as in ``schema/program.fbs``."""

    STATIC = 0
    BOUND = 1
    UNBOUND = 2


class Call(IntEnum):
    """What an instruction does; numbers as in ``schema/program.fbs``."""

    KERNEL = 1
    DELEGATE = 2
    MOVE = 3
    JUMP_FALSE = 4
    FREE = 5


@dataclass(frozen=True, slots=True)
class Tensor:
    """A tensor as it was planned.

    Attributes:
        scalar_type: ExecuTorch's number (``schema/scalar_type.fbs``).
        sizes: Elements per dimension; of a dynamic shape, the largest.
        dim_order: Dimensions from the outermost to the innermost in memory.
        dynamism: What may change about ``sizes``.
        constant: Its data are in the file, or outside it by name, and do not change.
        pool: Number of the planned memory it lies in (``Method.planned``), 0 when nothing is
            planned.
        offset: Byte offset in that pool, -1 when nothing is planned.
        initial_state: A mutable buffer that begins with data from the file.
        name: Its fully qualified name, or "" when the file has none.
    """

    scalar_type: int
    sizes: tuple[int, ...]
    dim_order: tuple[int, ...]
    dynamism: Dynamism = Dynamism.STATIC
    constant: bool = False
    pool: int = 0
    offset: int = -1
    initial_state: bool = False
    name: str = ""

    @property
    def strides(self) -> tuple[int, ...]:
        """Elements between neighbours, per dimension, as ExecuTorch derives them.

        A dimension without elements counts as one, so that the others keep their distance.
        """
        strides = [0] * len(self.sizes)
        step = 1
        for dimension in reversed(self.dim_order):
            strides[dimension] = step
            step *= max(self.sizes[dimension], 1)
        return tuple(strides)


@dataclass(frozen=True, slots=True)
class ValueList:
    """A list of integers, floats, bools, or tensors that may be missing.

    Attributes:
        items: What is in it.
        numbers: Numbers of the values that the items are, -1 for a missing one; of floats and
            bools, which are no values of their own, none.
    """

    items: tuple[Tensor | int | float | bool | None, ...]
    numbers: tuple[int, ...] = ()


Value = Tensor | ValueList | int | float | bool | str | None
"""A value of a method."""


@dataclass(frozen=True, slots=True)
class Instruction:
    """A step of a chain.

    Attributes:
        call: What it does.
        name: Of a kernel, ``operator.overload``, such as ``aten::relu.out``; of a delegate, the
            backend's; else "".
        args: Numbers of its values. A kernel's outputs come last, and what it returns behind
            them: its one output again, or a list of all. A move's are source and target.
        target: Of a delegate, its number among the method's; of a jump, the instruction it leads
            to; else -1.
    """

    call: Call
    name: str
    args: tuple[int, ...]
    target: int = -1


@dataclass(frozen=True, slots=True)
class Method:
    """One method.

    Attributes:
        name: Such as ``forward``.
        values: By number.
        inputs: Numbers of its inputs.
        outputs: Numbers of its outputs.
        chains: Instructions per chain; an event's instruction id is an index into its chain.
        delegates: Names of the backends, per delegate.
        planned: Bytes of planned memory, by pool; pool 0 does not exist.
    """

    name: str
    values: tuple[Value, ...]
    inputs: tuple[int, ...]
    outputs: tuple[int, ...]
    chains: tuple[tuple[Instruction, ...], ...]
    delegates: tuple[str, ...]
    planned: tuple[int, ...]

    def instruction(self, chain: int, index: int) -> Instruction | None:
        """The instruction that an event's chain and instruction id mean; None when there is none.

        Events outside of instructions, such as ``Method::execute``, have no chain (-1), though
        their instruction id is 0.
        """
        if not 0 <= chain < len(self.chains) or not 0 <= index < len(self.chains[chain]):
            return None
        return self.chains[chain][index]


@dataclass(frozen=True, slots=True)
class Program:
    """A file's methods.

    Attributes:
        methods: In the order of the file.
    """

    methods: tuple[Method, ...]

    def method(self, name: str) -> Method | None:
        """The method of this name, if there is one."""
        return next((method for method in self.methods if method.name == name), None)
