"""Values that debug events log."""

from __future__ import annotations

import struct
from dataclasses import dataclass
from math import prod
from typing import Final

LARGEST_RANK: Final = 16
"""Largest number of dimensions of a tensor, as in ExecuTorch (``kTensorDimensionLimit``)."""

LARGEST_NUMEL: Final = 1 << 40
"""Largest number of elements that a logged tensor can have: no debug buffer has more bytes."""


@dataclass(frozen=True, slots=True)
class TensorValue:
    """A logged tensor: where its bytes are in the debug buffer, and their shape.

    Attributes:
        scalar_type: ExecuTorch's number (``schema/scalar_type.fbs``).
        sizes: Elements per dimension.
        strides: Strides in elements, per dimension.
        offset: Byte offset in the debug buffer; -1 if the target had no room for the bytes, or the
            tensor is empty.
    """

    scalar_type: int
    sizes: tuple[int, ...]
    strides: tuple[int, ...]
    offset: int

    @property
    def lost(self) -> bool:
        """True if its bytes were lost."""
        return self.offset < 0 and 0 not in self.sizes

    @property
    def defect(self) -> str:
        """Why no tensor has these sizes and strides; "" if one can.

        Elements of a tensor do not share memory, so its size in memory bounds their number.
        """
        sizes, strides = self.sizes, self.strides
        if len(sizes) != len(strides):
            return f"{len(sizes)} sizes, but {len(strides)} strides"
        if len(sizes) > LARGEST_RANK:
            return f"{len(sizes)} dimensions, more than {LARGEST_RANK}"
        if min(sizes, default=0) < 0:
            return f"negative size in {sizes}"
        if prod(max(size, 1) for size in sizes) > LARGEST_NUMEL:
            return f"impossibly large: sizes {sizes}"
        steps = [(size, step) for size, step in zip(sizes, strides, strict=True) if size > 1]
        if min((step for _, step in steps), default=1) < 1:
            return f"stride below 1 in {strides}"
        reach = 1 + sum((size - 1) * step for size, step in steps)
        return f"elements overlap: sizes {sizes}, strides {strides}" if reach < prod(sizes) else ""


@dataclass(frozen=True, slots=True)
class DebugValue:
    """The value a debug event logged.

    Attributes:
        value: A tensor, a list of tensors, a number, a bool, or None for Null.
        type: ETDump's ValueType number, which tells Float from Double.
        output: True when it is an output of the program.
    """

    value: TensorValue | tuple[TensorValue, ...] | float | int | bool | None
    type: int
    output: bool | None = None

    @property
    def lost(self) -> bool:
        """True if bytes of it were lost."""
        tensors = self.value if isinstance(self.value, tuple) else (self.value,)
        return any(isinstance(tensor, TensorValue) and tensor.lost for tensor in tensors)

    def same(self, other: DebugValue) -> bool:
        """Equality with floats compared bit by bit: nan equals itself, -0.0 is not 0.0."""
        mine, yours = self.value, other.value
        if isinstance(mine, float) and isinstance(yours, float):
            equal = struct.pack("<d", mine) == struct.pack("<d", yours)
        else:
            equal = mine == yours
        return equal and (self.type, self.output) == (other.type, other.output)
