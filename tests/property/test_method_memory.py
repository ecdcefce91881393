"""Outputs of a method that are read from memory: any shape, and memory that was overwritten."""

from __future__ import annotations

import math
import struct
from types import SimpleNamespace
from typing import Any, NamedTuple

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from harness import Call, Dynamism, Instruction, Method, ProbeError, TargetError, Tensor
from harness.extensions.probes.memory import Symbol, find_methods, read_outputs
from harness.testing import device_log_format as fmt

BASE = 0x2000_0000
TRACER, METHOD, NAME, OUTPUTS, VALUES, TENSOR, DATA = (BASE + 0x200 * at for at in range(7))
FLOAT = 6


class Loaded(NamedTuple):
    """A method, and the memory in which it is loaded; `noise` precedes it in its variable."""

    method: Method
    memory: bytearray
    elf: Any
    sizes: tuple[int, ...]

    def read(self, address: int, size: int) -> bytes:
        if not BASE <= address <= address + size <= BASE + len(self.memory):
            raise ProbeError(f"no memory at {address:#x}")
        return bytes(self.memory[address - BASE :][:size])


@st.composite
def loaded(draw: st.DrawFn) -> Loaded:
    bounds = tuple(draw(st.lists(st.integers(0, 4), max_size=3)))
    sizes = tuple(draw(st.integers(0, bound)) for bound in bounds)
    order = tuple(draw(st.permutations(range(len(bounds)))))
    before = draw(st.integers(0, 3))
    nbytes = 4 * math.prod(sizes)
    output = Tensor(FLOAT, bounds, order, Dynamism.BOUND)
    chain = (Instruction(Call.KERNEL, "aten::relu.out", (0, 1, 1)),)
    method = Method("forward", (None,) * before + (output,), (), (before,), (chain,), (), ())
    memory = bytearray(draw(st.binary(min_size=0xE00, max_size=0xE00)))

    def put(address: int, data: bytes) -> None:
        memory[address - BASE : address - BASE + len(data)] = data

    put(NAME, b"forward\0")
    put(OUTPUTS, struct.pack("<I", before))
    put(
        *(METHOD + 4 * draw(st.integers(0, 8)),),
        struct.pack(
            "<14I2I",
            *(TRACER, NAME, VALUES, 1, 2, 3, OUTPUTS, before + 1, 1, 1, 0, 0, 7, 0),
            *(0, 1),
        ),
    )
    value = struct.pack("<BxxxxxxxI", fmt.METHOD_VALUE_TENSOR, TENSOR)
    put(VALUES + before * fmt.METHOD_VALUE_SIZE, value)
    put(TENSOR, struct.pack("<4I", DATA, 0, nbytes, 4 * math.prod(bounds)))
    put(TENSOR + fmt.TensorField.SIZES, struct.pack(f"<{len(sizes)}i", *sizes))
    put(TENSOR + fmt.TensorField.DIM_ORDER, bytes(order))
    put(TENSOR + fmt.TensorField.NDIM, bytes([len(bounds), FLOAT]))
    elf = SimpleNamespace(variables=[Symbol("method", METHOD, 0x200), Symbol("flag", TRACER, 4)])
    return Loaded(method, memory, elf, sizes)


@given(loaded())
def test_outputs_of_any_shape_are_read(device: Loaded) -> None:
    [address] = find_methods(device.elf, device.read, {TRACER}, device.method)
    [(info, data)] = read_outputs(address, device.read, device.method)
    assert (info.scalar_type, info.sizes) == (FLOAT, device.sizes)
    assert info.nbytes == len(data) == 4 * math.prod(device.sizes)
    assert data == device.read(DATA, len(data))


@given(loaded(), st.sampled_from([TRACER + 4, 0]))
def test_a_method_of_another_tracer_is_not_found(device: Loaded, tracer: int) -> None:
    assert find_methods(device.elf, device.read, {tracer}, device.method) == []


@given(loaded())
def test_another_model_is_not_found(device: Loaded) -> None:
    method = device.method
    others = (
        Method("backward", method.values, (), method.outputs, method.chains, (), ()),
        Method("forward", (*method.values, 1), (), method.outputs, method.chains, (), ()),
        Method("forward", method.values, (), (), method.chains, (), ()),
        Method("forward", method.values, (), method.outputs, (*method.chains,) * 2, (), ()),
    )
    for other in others:
        assert find_methods(device.elf, device.read, {TRACER}, other) == []


@given(loaded(), st.sampled_from(["kind", "type", "rank", "size", "capacity", "pointer"]))
def test_memory_that_was_overwritten_is_no_output(device: Loaded, damage: str) -> None:
    [address] = find_methods(device.elf, device.read, {TRACER}, device.method)
    place, value = {
        "kind": (VALUES + device.method.outputs[0] * fmt.METHOD_VALUE_SIZE, 0),
        "type": (TENSOR + fmt.TensorField.DTYPE, 99),
        "rank": (TENSOR + fmt.TensorField.NDIM, 9),
        "size": (TENSOR + fmt.TensorField.SIZES, 0xFF),
        "capacity": (TENSOR + fmt.TensorField.CAPACITY, 0),
        "pointer": (TENSOR + fmt.TensorField.DATA + 3, 0),
    }[damage]
    assume(damage != "size" or device.sizes)
    assume(damage not in ("capacity", "pointer") or math.prod(device.sizes))
    device.memory[place - BASE] = value
    with pytest.raises((TargetError, ProbeError)):
        read_outputs(address, device.read, device.method)
