"""The C runtime through ctypes: the structures of etd_runtime.h and what tests do with them."""

from __future__ import annotations

import ctypes as ct
import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from tests.support.mirrors import INCLUDE, mirrors, room_for

ARENA_SIZE = 1 << 20
ALIGNMENT = 16
MAX_DIMS = 8
DTYPES: dict[np.dtype[Any], int] = {np.dtype(np.uint8): 0, np.dtype(np.int8): 1}
DTYPES |= {np.dtype(np.int16): 2}
DTYPES |= {np.dtype(np.int32): 3, np.dtype(np.int64): 4}
DTYPES |= {
    np.dtype(np.float16): 5,
    np.dtype(np.float32): 6,
    np.dtype(np.float64): 7,
    np.dtype(np.bool_): 11,
}


@mirrors("etd_error.h", "etd_error")
class Error(ct.Structure):
    _fields_ = [("status", ct.c_uint8), ("detail", ct.c_uint32), ("message", ct.c_char * 80)]


@mirrors("etd_runtime.h", "etd_program")
class Program(ct.Structure):
    _fields_ = [
        ("data", ct.c_void_p),
        ("size", ct.c_uint32),
        ("program_size", ct.c_uint32),
        ("segment_base", ct.c_uint32),
        ("root", ct.c_uint32),
    ]


@mirrors("etd_runtime.h", "etd_tensor")
class Tensor(ct.Structure):
    _fields_ = [
        ("data", ct.c_void_p),
        ("bounds", ct.c_void_p),
        ("nbytes", ct.c_uint32),
        ("capacity", ct.c_uint32),
        ("sizes", ct.c_int32 * MAX_DIMS),
        ("strides", ct.c_int32 * MAX_DIMS),
        ("dim_order", ct.c_uint8 * MAX_DIMS),
        ("ndim", ct.c_uint8),
        ("dtype", ct.c_uint8),
        ("constant", ct.c_bool),
    ]


@mirrors("etd_runtime.h", "etd_method")
class Method(ct.Structure):
    _fields_ = [
        ("tracer", ct.c_void_p),
        ("name", ct.c_char_p),
        ("values", ct.c_void_p),
        ("instructions", ct.c_void_p),
        ("chains", ct.c_void_p),
        ("inputs", ct.c_void_p),
        ("outputs", ct.c_void_p),
        ("value_count", ct.c_uint32),
        ("instruction_count", ct.c_uint32),
        ("chain_count", ct.c_uint32),
        ("between", ct.c_void_p),
        ("between_context", ct.c_void_p),
        ("instruction_budget", ct.c_uint32),
        ("execute_name", ct.c_uint16),
        ("input_count", ct.c_uint32),
        ("output_count", ct.c_uint32),
        ("method_bytes", ct.c_uint32),
        ("planned_bytes", ct.c_uint32),
        ("delegates", ct.c_void_p),
        ("temporary", ct.c_void_p),
        ("delegate_count", ct.c_uint32),
        ("delegate_bytes", ct.c_uint32),
        ("executing", ct.c_void_p),
        ("executing_context", ct.c_void_p),
        ("copies", ct.c_void_p),
        ("copies_bytes", ct.c_uint32),
    ]


TICKS = ct.CFUNCTYPE(ct.c_uint32, ct.c_void_p)
"""``etd_ticks_fn``."""

Tracer = room_for("etd_tracer.h", "etd_tracer", 1024)


STATUSES = {
    int(number, 16): name
    for name, number in re.findall(
        r"ETD_LINK_STATUS_(\w+) = (0x\w+)", (INCLUDE / "etd_link_wire.h").read_text()
    )
}
"""Names of statuses, as the header has them."""


class RuntimeFailure(Exception):
    """What the runtime said: its status, detail and message."""

    def __init__(self, error: Error) -> None:
        self.status = STATUSES[error.status]
        self.detail: int = error.detail
        self.message: str = error.message.decode("utf-8", "replace")
        super().__init__(f"{self.message} (status {self.status}, detail {self.detail})")


class Memory:
    """Zeroed bytes at an aligned address."""

    def __init__(self, size: int) -> None:
        self._buffer = (ct.c_uint8 * (size + ALIGNMENT))()
        self.address = -(-ct.addressof(self._buffer) // ALIGNMENT) * ALIGNMENT
        self.size = size

    def write(self, data: bytes) -> None:
        ct.memmove(self.address, data, len(data))

    def read(self) -> bytes:
        return ct.string_at(self.address, self.size)


def call(library: ct.CDLL, function: str, *arguments: object) -> None:
    """Call a function whose last argument is an etd_error, and raise what it reports."""
    error = Error()
    implementation = getattr(library, function)
    implementation.restype = ct.c_uint8
    if implementation(*arguments, ct.byref(error)):
        raise RuntimeFailure(error)


@dataclass
class Loaded:
    """A loaded method, with the memory it lives in."""

    library: ct.CDLL
    file: Memory
    arena: Memory
    method: Method

    @property
    def needed(self) -> int:
        return self.method.method_bytes + self.method.planned_bytes

    @property
    def planned(self) -> bytes:
        """What is in the planned memory."""
        size = self.method.planned_bytes - self.method.copies_bytes
        return ct.string_at(self.arena.address + self.method.method_bytes, size)

    def _tensor(self, function: str, index: int) -> Tensor:
        find = getattr(self.library, function)
        find.restype = ct.POINTER(Tensor)
        return find(ct.byref(self.method), index).contents

    def run(
        self, *inputs: npt.NDArray[np.generic], dtype: npt.DTypeLike = np.float32
    ) -> npt.NDArray[np.generic]:
        """Write the inputs, execute, return the first output, flat."""
        for index, value in enumerate(inputs):
            tensor = self._tensor("etd_method_input", index)
            assert tensor.nbytes == value.nbytes
            ct.memmove(tensor.data, value.tobytes(), value.nbytes)
        self.execute()
        return np.frombuffer(self.output(0), dtype)

    def resize(self, index: int, sizes: Sequence[int]) -> bool:
        """Give an input of dynamic shape its sizes."""
        resize = self.library.etd_method_resize_input
        resize.restype = ct.c_bool
        return bool(resize(ct.byref(self.method), index, (ct.c_int32 * len(sizes))(*sizes)))

    def output(self, index: int) -> bytes:
        """What is in an output's memory."""
        tensor = self._tensor("etd_method_output", index)
        return ct.string_at(tensor.data, tensor.nbytes)

    def execute(self) -> None:
        call(self.library, "etd_method_execute", ct.byref(self.method))


def load(
    library: ct.CDLL, file: bytes, *, arena_size: int = ARENA_SIZE, tracer: Tracer | None = None
) -> Loaded:
    """Open a .pte file and load its method ``forward``."""
    memory, arena = Memory(len(file)), Memory(arena_size)
    memory.write(file)
    program, method = Program(), Method()
    address = ct.c_void_p(memory.address)
    call(library, "etd_program_open", ct.byref(program), address, len(file))
    call(
        library,
        "etd_method_load",
        ct.byref(method),
        ct.byref(program),
        b"forward",
        ct.c_void_p(arena.address),
        arena_size,
        None if tracer is None else ct.byref(tracer),
    )
    return Loaded(library, memory, arena, method)
