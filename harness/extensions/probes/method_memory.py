"""Reads a method of ExecuTorch from the memory of a halted board: outputs and allocators.

Layouts are those of 32-bit targets in releases 0.7 to 1.5 (``method.h``, ``evalue.h``,
``tensor_impl.h``, ``memory_manager.h``, ``memory_allocator.h``). Nothing in memory names its
release, so what is read is compared with the model's file before any of it is believed.
"""

from __future__ import annotations

import math
import struct
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

import numpy as np

from harness.decode.program import Method, Tensor
from harness.errors import ProbeError, UsageError
from harness.extensions.probes.memory import (
    Symbol,
    UnreadOutputsError,
    fits_declared,
    has_readable_outputs,
)
from harness.link.messages import TensorInfo
from harness.records.trace import NUMPY_TYPES

_METHOD: Final = struct.Struct("<8x 4x I 4x 8x II")
"""After the state and the program: memory manager; three pointers later number and address of
values."""
_VALUE: Final = struct.Struct("<I4xI4x")
"""Pointer to a tensor, and what the value is."""
_TENSOR_TAG: Final = 1
_TENSOR: Final = struct.Struct("<IIIIiiIb")
"""Pointers to sizes, order of dimensions, strides and elements; rank, elements, most, type."""
_MANAGER: Final = struct.Struct("<I4xI")
"""Allocators of the method and of temporary memory."""
_ALLOCATOR: Final = struct.Struct("<4xIIII")
"""After the pointer to functions: begin, end, next free byte, size."""
_MOST_POOL: Final = 1 << 30

Read = Callable[[int, int], bytes]


@dataclass(frozen=True, slots=True)
class PoolUse:
    """The memory of an allocator of ExecuTorch.

    Attributes:
        used: Bytes between its begin and the next free one.
        size: All its bytes.
    """

    used: int
    size: int


@dataclass(frozen=True, slots=True)
class LeftInMemory:
    """What an execution left in memory.

    Attributes:
        outputs: Type, shape and elements of its outputs.
        unread: Why there are none; "" if there are.
        pools: The allocators of its method, by name.
    """

    outputs: Sequence[tuple[TensorInfo, bytes]] = ()
    unread: str = "nothing was halted"
    pools: Mapping[str, PoolUse] = field(default_factory=dict)


def read_variables(
    variables: Sequence[Symbol], read: Read, method: Method | None
) -> list[tuple[TensorInfo, bytes]]:
    """Return variables as outputs: of the types of the model's outputs, else as bytes.

    Args:
        variables: The variables, in the order of the outputs.
        read: Reads memory of the halted board.
        method: The method from the model's file; None if it is not known.

    Raises:
        UsageError: An output does not fit its variable.
    """
    declared = [method.values[number] for number in method.outputs] if method is not None else []
    outputs = []
    for number, variable in enumerate(variables):
        tensor = declared[number] if number < len(declared) else None
        sizes: tuple[int, ...] = (variable.size,)
        order: tuple[int, ...] = (0,)
        kind = 0
        if isinstance(tensor, Tensor) and tensor.scalar_type in NUMPY_TYPES:
            sizes, kind, order = tensor.sizes, tensor.scalar_type, tensor.dim_order
        nbytes = math.prod(sizes) * np.dtype(NUMPY_TYPES[kind]).itemsize
        if not 0 < nbytes <= variable.size:
            raise UsageError(
                f"output {number} has {nbytes:,} bytes, and {variable.name} has {variable.size:,}",
                hint="name the variable that holds this output with --output-variable",
            )
        info = TensorInfo(scalar_type=kind, nbytes=nbytes, sizes=sizes, dim_order=order)
        outputs.append((info, read(variable.address, nbytes)))
    return outputs


def read_outputs_of(this: int, read: Read, method: Method) -> list[tuple[TensorInfo, bytes]]:
    """Return type, shape and elements of the outputs of a method's last execution.

    Args:
        this: Address of the ``Method``.
        read: Reads memory of the halted board.
        method: The method from the model's file.

    Raises:
        UnreadOutputsError: They are not where these releases have them, or are no tensors.
    """
    if not has_readable_outputs(method):
        raise UnreadOutputsError(f"an output of {method.name} is not a tensor")
    try:
        _, count, values = _METHOD.unpack(read(this, _METHOD.size))
        if count != len(method.values):
            raise _elsewhere(f"it has {count} values, the model {len(method.values)}")
        return [_read_value(values, read, method, number) for number in method.outputs]
    except ProbeError as error:
        raise _elsewhere(error.message) from error


def _read_value(values: int, read: Read, method: Method, number: int) -> tuple[TensorInfo, bytes]:
    declared = method.values[number]
    assert isinstance(declared, Tensor)
    tensor, tag = _VALUE.unpack(read(values + number * _VALUE.size, _VALUE.size))
    if tag != _TENSOR_TAG:
        raise _elsewhere(f"value {number} is no tensor")
    sizes_at, order_at, _, data, rank, elements, _, kind = _TENSOR.unpack(
        read(tensor, _TENSOR.size)
    )
    if (rank, kind) != (len(declared.sizes), declared.scalar_type):
        raise _elsewhere(f"value {number} has another type or rank")
    sizes = struct.unpack(f"<{rank}i", read(sizes_at, 4 * rank)) if rank else ()
    order = tuple(read(order_at, rank)) if rank else ()
    if not fits_declared(sizes, declared) or math.prod(sizes) != elements:
        raise _elsewhere(f"value {number} has the shape {sizes}")
    nbytes = elements * np.dtype(NUMPY_TYPES[kind]).itemsize
    info = TensorInfo(scalar_type=kind, nbytes=nbytes, sizes=sizes, dim_order=order)
    return info, read(data, nbytes) if nbytes else b""


def read_pools_of(this: int, read: Read) -> dict[str, PoolUse]:
    """Return the use of the method's allocators that are as ``MemoryAllocator`` has them.

    Args:
        this: Address of the ``Method``.
        read: Reads memory of the halted board.
    """
    pools = {}
    try:
        manager, _, _ = _METHOD.unpack(read(this, _METHOD.size))
        allocators = _MANAGER.unpack(read(manager, _MANAGER.size))
    except ProbeError:
        return {}
    for name, address in zip(("method", "temporary"), allocators, strict=True):
        try:
            begin, end, free, size = _ALLOCATOR.unpack(read(address, _ALLOCATOR.size))
        except ProbeError:
            continue
        if begin <= free <= end and end - begin == size < _MOST_POOL:
            pools[name] = PoolUse(free - begin, size)
    return pools


def _elsewhere(what: str) -> UnreadOutputsError:
    return UnreadOutputsError(
        f"the memory of Method is not as releases 0.7 to 1.5 have it: {what}",
        hint="read outputs from a variable with --output-variable",
    )


def pool_records(pools: Mapping[str, PoolUse]) -> dict[str, int]:
    """Return the use of allocators for a result, bytes."""
    records = {}
    for name, pool in pools.items():
        records[f"{name}_pool_used"] = pool.used
        records[f"{name}_pool_size"] = pool.size
    return records


def describe_pools(pools: Mapping[str, PoolUse]) -> str:
    """Return a sentence about allocators; "" without any."""
    parts = [f"{name} {pool.used:,} of {pool.size:,} bytes" for name, pool in pools.items()]
    return f"allocators at the end: {', '.join(parts)}" if parts else ""
