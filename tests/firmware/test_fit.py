"""What the host says about a program is what the device's loader and kernels do with it."""

from __future__ import annotations

import ctypes as ct
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import harness
from harness import FormatError, Region, UsageError, read_program
from harness.check.fit import SIZES_64, arena_need, fit, operand_types, refusals, runtime_limits
from harness.records.trace import NUMPY_TYPES, type_name
from harness.testing import Status
from tests.firmware.test_registry import LIST
from tests.support.c_server import CServer
from tests.support.calls import fresh
from tests.support.kernels import one_call
from tests.support.operand_types import NONE, TYPES, Operands, is_taken, measured, sound_calls
from tests.support.operators import CALLS
from tests.support.programs import ProgramBuilder
from tests.support.runtime import DTYPES, RuntimeFailure, load

NATIVE = harness.Board.load("native")
SCALAR_TYPES = range(45)
"""All of ExecuTorch's, and some beyond."""

LOADED = {*DTYPES.values(), 15}  # and bfloat16, which NumPy does not have
TYPED = [operator for operator, signatures in operand_types().items() if signatures]


def host_takes(file: bytes) -> bool:
    """Whether the host lets the board run the program."""
    try:
        method = read_program(file).methods[0]
    except FormatError:
        return False
    found = fit(method, len(file), NATIVE)
    try:
        found.require("model.pte")
    except UsageError:
        assert found.fits is False
        return False
    assert found.fits is not False
    return True


def device_takes(library: ct.CDLL, file: bytes) -> bool:
    """Whether the device commits the program and executes it."""
    if CServer(library, model=1 << 16).upload(Region.MODEL, 0, file)[0] != Status.OK:
        return False
    try:
        load(library, file).execute()
    except RuntimeFailure:
        return False
    return True


def listed(operator: str) -> str:
    """What the table says about an operator."""
    line = next(
        line
        for line in LIST.read_text().splitlines()
        if line.startswith(f'ETD_OPERATOR("{operator}"')
    )
    return line.split('"')[3]


@pytest.mark.long
@pytest.mark.parametrize("operator", CALLS)
def test_the_table_lists_all_that_the_kernels_take(etstub: ct.CDLL, operator: str) -> None:
    """A new type of a kernel is one to write into operators.def."""
    assert listed(operator).replace("*", "") == measured(etstub, operator)


def test_the_table_has_every_kernel_and_every_type() -> None:
    assert sorted(operand_types()) == sorted(CALLS)
    assert runtime_limits().scalar_types == LOADED


@pytest.mark.long
@pytest.mark.parametrize("operator", TYPED)
def test_an_operator_takes_the_types_that_the_host_says(etstub: ct.CDLL, operator: str) -> None:
    """A sound call, and each in which one or all tensors of a type have another."""
    calls = [Operands.of(arguments) for arguments in sound_calls(operator)]
    sound = calls[0].types
    changed = {(*sound[:i], name, *sound[i + 1 :]) for i in range(len(sound)) for name in TYPES}
    changed |= {(name,) * len(sound) for name in TYPES if name != NONE}
    for types in sorted(changed):
        method = read_program(one_call(operator, fresh(next(calls[0].calls(types))))).methods[0]
        taken = any(is_taken(etstub, operator, operands, types) for operands in calls)
        assert (not refusals(method)) == taken, types


@pytest.mark.parametrize("operator", TYPED)
def test_host_and_device_reserve_the_same_for_copies(etstub: ct.CDLL, operator: str) -> None:
    """With tensors of float16 in place of float32: copies are for kernels that are marked so."""
    operands = Operands.of(sound_calls(operator)[0])
    types = tuple("float16" if name == "float32" else name for name in operands.types)
    file = one_call(operator, fresh(next(operands.calls(types))))
    device = load(etstub, file).method.copies_bytes
    assert arena_need(read_program(file).methods[0], SIZES_64)[2] == device
    if "float16" in types:
        assert (device > 0) == ("float16*" in listed(operator))


@pytest.mark.parametrize("operator", ["aten::bmm.out", "aten::convolution.out"])
def test_a_refusal_names_operator_tensor_and_types(operator: str) -> None:
    operands = Operands.of(sound_calls(operator)[0])
    types = ("float64", *operands.types[1:])
    (call, *_) = operands.calls(types)
    (refusal,) = refusals(read_program(one_call(operator, fresh(call))).methods[0])
    assert refusal.reason.startswith(f"{operator}: constant 1") or "float64" in refusal.reason
    assert "its kernel takes " in refusal.reason
    assert refusal.remedy


def of_tensors(*, input_: bool = True, **tensor: Any) -> bytes:
    """A program with one tensor that goes in and comes out."""
    program = ProgramBuilder([0, 4096])
    program.name("here", bytes(4096))
    x = program.tensor(**{"shape": (4,), "memory": (1, 0)} | tensor)
    return program.finish([x] if input_ else [], [x])


@pytest.mark.parametrize("number", SCALAR_TYPES)
def test_both_load_the_same_types(etstub: ct.CDLL, number: int) -> None:
    file = of_tensors(scalar_type=number)
    assert host_takes(file) == device_takes(etstub, file) == (number in LOADED)
    if number not in LOADED:
        (refusal,) = refusals(read_program(file).methods[0])
        assert refusal.reason == (
            f"input 0 is {type_name(number)}, which the bundled kernels do not support"
        )


def tensors() -> st.SearchStrategy[dict[str, Any]]:
    """Fields of a tensor, mostly usual ones."""
    return st.fixed_dictionaries(
        {
            "shape": st.lists(st.integers(0, 3), max_size=10),
            "memory": st.sampled_from([(1, 0), (1, 64), (1, 0), (1, 2), (2, 0), (0, 0), None]),
        },
        optional={
            "scalar_type": st.sampled_from([*DTYPES.values(), *NUMPY_TYPES, 15, 99]),
            "dynamism": st.integers(0, 2),
            "storage_offset": st.integers(0, 1),
            "device": st.integers(0, 1),
        },
    )


def add_value(program: ProgramBuilder, draw: st.DrawFn) -> int:
    """Append a value of some kind, mostly a tensor."""
    others: list[Callable[[], int]] = [
        lambda: program.value("null"),
        lambda: program.value("int", ("i64", 1)),
        lambda: program.value("bool", ("u8", 1)),
        lambda: program.text("text"),
        lambda: program.constant(np.zeros(4, draw(st.sampled_from([*DTYPES])))),
        lambda: program.tensor((4,), location=1, name="here"),
        lambda: program.tensor((4,), location=1, name="elsewhere"),
    ]
    if kind := draw(st.integers(0, 15)):
        return program.tensor(**draw(tensors()) if kind < 5 else {"shape": (4,), "memory": (1, 0)})
    return draw(st.sampled_from(others))()


@st.composite
def programs(draw: st.DrawFn) -> bytes:
    """Programs whose values are tensors and others, and that move some and jump on some."""
    program = ProgramBuilder([0, draw(st.sampled_from([1 << 12, 128]))])
    program.name("here", bytes(64))
    values = [add_value(program, draw) for _ in range(draw(st.integers(1, 11)))]
    inputs = [value for value in values if draw(st.booleans())]
    for _ in range(draw(st.integers(0, 2))):
        program.move(draw(st.sampled_from(values)), draw(st.sampled_from(values)))
    if draw(st.booleans()):
        program.jump_if_false(draw(st.sampled_from(values)), draw(st.integers(0, 1)))
    return program.finish(inputs, values)


@given(file=programs())
def test_both_take_the_same_programs(etstub: ct.CDLL, file: bytes) -> None:
    assert host_takes(file) == device_takes(etstub, file)


@pytest.mark.parametrize("count", [1, 8, 9])
def test_both_take_as_many_inputs(etstub: ct.CDLL, count: int) -> None:
    program = ProgramBuilder([0, 64])
    inputs = [program.tensor((4,), memory=(1, 0)) for _ in range(count)]
    file = program.finish(inputs, inputs[:1])
    assert host_takes(file) == device_takes(etstub, file) == (count <= runtime_limits().inputs)


def test_what_a_jump_may_skip_is_not_judged(etstub: ct.CDLL) -> None:
    program = ProgramBuilder([0, 64])
    x = program.tensor((4,), np.float64, memory=(1, 0))
    program.jump_if_false(program.value("bool", ("u8", 0)), 2)
    program.call("aten::_softmax", x, program.value("int", ("i64", 0)), x, x)
    file = program.finish([x], [x])
    assert host_takes(file)
    assert device_takes(etstub, file)


def test_none_is_a_type_of_few_operands() -> None:
    assert NONE not in {name for text in map(listed, CALLS) for name in text.split()}
