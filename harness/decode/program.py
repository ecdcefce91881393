"""Program: the methods of a ``.pte`` file, without the data of constants."""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import IntEnum
from typing import Literal


class Dynamism(IntEnum):
    """Dynamism of a tensor's shape; numbers as in ``schema/program.fbs``."""

    STATIC = 0
    BOUND = 1
    UNBOUND = 2


class Call(IntEnum):
    """Kind of instruction; numbers as in ``schema/program.fbs``."""

    KERNEL = 1
    DELEGATE = 2
    MOVE = 3
    JUMP_FALSE = 4
    FREE = 5


@dataclass(frozen=True, slots=True)
class Tensor:
    """A tensor with its memory plan.

    Attributes:
        scalar_type: ExecuTorch's number (``schema/scalar_type.fbs``).
        sizes: Elements per dimension; upper bounds for a dynamic shape.
        dim_order: Dimensions from the outermost to the innermost in memory.
        dynamism: Whether ``sizes`` can change.
        constant: Its data is constant, and stored in the file or outside it by name.
        pool: Number of its planned memory (``Method.planned``); 0 if it is not planned.
        offset: Byte offset in that pool; -1 if it is not planned.
        initial_state: A mutable buffer that is initialized from the file.
        name: Its fully qualified name; "" if the file has none.
        data: Number of its bytes in the file, which tensors can share; 0 without.
        states: Number of the table of initial states that has its bytes.
        named: Its data is found by its name, in this file or in a ``.ptd`` file.
        external: It is named, and its data is not in this file.
        storage_offset: Elements before its first one.
        device: Kind of the memory that it is in; 0 is the CPU's.
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
    data: int = 0
    states: int = 0
    named: bool = False
    external: bool = False
    storage_offset: int = 0
    device: int = 0

    @property
    def strides(self) -> tuple[int, ...]:
        """Strides in elements, per dimension, computed as in ExecuTorch.

        A dimension of size 0 counts as 1, so that the other strides stay nonzero.
        """
        strides = [0] * len(self.sizes)
        step = 1
        for dimension in reversed(self.dim_order):
            strides[dimension] = step
            step *= max(self.sizes[dimension], 1)
        return tuple(strides)


ListKind = Literal["", "int", "bool", "double", "tensor", "optional tensor"]
"""Types of lists in ExecuTorch's schema."""


@dataclass(frozen=True, slots=True)
class ValueList:
    """A list of integers, floats, bools, tensors or optional tensors.

    Attributes:
        items: The items.
        numbers: Value numbers of the items, -1 for a missing tensor; empty for floats and bools,
            which are not values of the method.
        kind: The schema's type of the list, which an empty one has, too; "" if it is not known.
    """

    items: tuple[Tensor | int | float | bool | None, ...]
    numbers: tuple[int, ...] = ()
    kind: ListKind = field(default="", compare=False)


Value = Tensor | ValueList | int | float | bool | str | None
"""A value of a method."""


@dataclass(frozen=True, slots=True)
class Instruction:
    """A step of a chain.

    Attributes:
        call: Kind of instruction.
        name: For a kernel ``operator.overload``, such as ``aten::relu.out``; for a delegate the
            name of its backend; otherwise "".
        args: Value numbers. A kernel's outputs come last, followed by its return value: its single
            output again, or a list of all. A move has source and target.
        target: For a delegate its number in the method; for a jump the instruction to go to;
            otherwise -1.
    """

    call: Call
    name: str
    args: tuple[int, ...]
    target: int = -1


@dataclass(frozen=True, slots=True)
class Method:
    """One method.

    Attributes:
        name: Name, such as ``forward``.
        values: Values by number.
        inputs: Value numbers of its inputs.
        outputs: Value numbers of its outputs.
        chains: Instructions per chain; an event's instruction id is an index into its chain.
        delegates: Backend names, per delegate.
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
        """Return the instruction for an event's chain and instruction id, or None.

        Events outside of instructions, such as ``Method::execute``, have chain -1 and instruction
        id 0.
        """
        if not 0 <= chain < len(self.chains) or not 0 <= index < len(self.chains[chain]):
            return None
        return self.chains[chain][index]


@dataclass(frozen=True, slots=True)
class CompiledDelegate:
    """What the compiler of a backend made of a part of a method.

    Attributes:
        backend: Name of the backend.
        blob: Its bytes, whose format only the backend knows.
        specs: The options that it was compiled with, by key.
        named: The data with a name in its program, which the blob may refer to.
    """

    backend: str
    blob: bytes
    specs: dict[str, bytes]
    named: dict[str, bytes] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Program:
    """A file's methods.

    Attributes:
        methods: In the order of the file.
    """

    methods: tuple[Method, ...]

    def method(self, name: str) -> Method | None:
        """Return the method with this name, or None."""
        return next((method for method in self.methods if method.name == name), None)
