"""Finds the loaded method in the memory of a device, and reads its outputs.

The bundled runtime keeps a method where the firmware has declared it (`etd_method`). It has no mark
of its own, so that firmware pays nothing for it. It is recognized by the address of its tracer and
by what the model's file says: its name, the numbers of its values and instructions, its outputs.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Iterator, Sequence

import numpy as np

from harness.decode import device_log_format as fmt
from harness.decode.device_log_format import MethodField, TensorField, ValueField
from harness.decode.firmware_elf import FirmwareElf
from harness.decode.program import Dynamism, Method, Tensor
from harness.decode.tracer_memory import Read
from harness.errors import ProbeError, TargetError
from harness.link.values import TensorInfo
from harness.records.scalar_types import NUMPY_TYPES

_METHOD_SIZE = MethodField.OUTPUT_COUNT + 4
_TENSOR_SIZE = TensorField.DTYPE + 1
_SEARCHED = 4096
"""Bytes at the start of a variable that are searched for a method; longer ones are buffers."""


def find_methods(
    elf: FirmwareElf, read: Read, tracers: Collection[int], method: Method
) -> list[int]:
    """Return the addresses at which this method is loaded and traced.

    Args:
        elf: The firmware.
        read: Reads memory.
        tracers: Addresses of the tracers.
        method: The method, from the model's file.
    """
    candidates = {item for item in elf.variables if item.size >= _METHOD_SIZE}
    found = set()
    for variable in candidates:
        data = read(variable.address, min(variable.size, _SEARCHED))
        for at in range(-variable.address % 4, len(data) - _METHOD_SIZE + 1, 4):
            if _word(data, at) in tracers and _is_method(data[at:], read, method):
                found.add(variable.address + at)
    return sorted(found)


def has_readable_outputs(method: Method) -> bool:
    """Whether all outputs of a method are tensors of types that arrays can have."""
    declared = [method.values[number] for number in method.outputs]
    return all(isinstance(one, Tensor) and one.scalar_type in NUMPY_TYPES for one in declared)


def read_outputs(address: int, read: Read, method: Method) -> list[tuple[TensorInfo, bytes]]:
    """Return type, shape and elements of each output of the method at an address.

    They are those of the last execution.

    Args:
        address: Its address.
        read: Reads memory.
        method: The method, from the model's file; with readable outputs.

    Raises:
        TargetError: An output is not as the model's file has it: the memory was overwritten.
    """
    values = _word(read(address, _METHOD_SIZE), MethodField.VALUES)
    return [
        _read_tensor(values + number * fmt.METHOD_VALUE_SIZE, read, method, number)
        for number in method.outputs
    ]


def _is_method(data: bytes, read: Read, method: Method) -> bool:
    counts = {
        MethodField.VALUE_COUNT: len(method.values),
        MethodField.INSTRUCTION_COUNT: sum(map(len, method.chains)),
        MethodField.INPUT_COUNT: len(method.inputs),
        MethodField.OUTPUT_COUNT: len(method.outputs),
    }
    if any(_word(data, field) != count for field, count in counts.items()):
        return False
    name = method.name.encode() + b"\0"
    outputs = b"".join(number.to_bytes(4, "little") for number in method.outputs)
    try:
        return (
            read(_word(data, MethodField.NAME), len(name)) == name
            and read(_word(data, MethodField.OUTPUTS), len(outputs)) == outputs
        )
    except ProbeError:  # pointers to nowhere
        return False


def _read_tensor(value: int, read: Read, method: Method, number: int) -> tuple[TensorInfo, bytes]:
    declared = method.values[number]
    field = read(value, fmt.METHOD_VALUE_SIZE)
    if field[ValueField.KIND] != fmt.METHOD_VALUE_TENSOR or not isinstance(declared, Tensor):
        raise TargetError(f"value {number} of the method is not a tensor in the board's memory")
    tensor = read(_word(field, ValueField.TENSOR), _TENSOR_SIZE)
    rank, element = len(declared.sizes), np.dtype(NUMPY_TYPES[declared.scalar_type]).itemsize
    sizes = tuple(_words(tensor, TensorField.SIZES, rank))
    order = tuple(tensor[TensorField.DIM_ORDER :][:rank])
    nbytes = _word(tensor, TensorField.NBYTES)
    if (
        (tensor[TensorField.NDIM], tensor[TensorField.DTYPE]) != (rank, declared.scalar_type)
        or order != declared.dim_order
        or not _fits(sizes, declared)
        or nbytes != math.prod(sizes) * element
        or nbytes > _word(tensor, TensorField.CAPACITY)
    ):
        raise TargetError(
            f"output {method.outputs.index(number)} is damaged: the board's memory does not have "
            "its type and shape",
            hint="the firmware may write beyond a variable",
        )
    data = read(_word(tensor, TensorField.DATA), nbytes) if nbytes else b""
    return TensorInfo(declared.scalar_type, sizes, nbytes, order), data


def _fits(sizes: Sequence[int], declared: Tensor) -> bool:
    """Whether a tensor can have these sizes."""
    if declared.dynamism == Dynamism.STATIC:
        return sizes == declared.sizes
    bounded = declared.dynamism == Dynamism.BOUND
    pairs = zip(sizes, declared.sizes, strict=True)
    return not bounded or all(size <= bound for size, bound in pairs)


def _word(data: bytes, at: int) -> int:
    return int.from_bytes(data[at : at + 4], "little")


def _words(data: bytes, at: int, count: int) -> Iterator[int]:
    return (_word(data, at + 4 * index) for index in range(count))
