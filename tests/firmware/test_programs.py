"""What the C runtime makes of programs that no exporter wrote for the fixtures."""

from __future__ import annotations

import ctypes as ct
import math
import operator
from collections.abc import Callable

import numpy as np
import pytest

from tests.support.kernels import scalar
from tests.support.programs import ProgramBuilder
from tests.support.runtime import RuntimeFailure, load

VALUES = np.array([1, -2, 3, -4], np.float32)
Build = Callable[[ProgramBuilder], object]


def relu_program(**tensor: object) -> bytes:
    """Applies relu to an input of four floats; ``tensor`` changes the input."""
    program = ProgramBuilder([0, 64])
    x = program.tensor((4,), **{"memory": (1, 0), **tensor})
    y = program.tensor((4,), memory=(1, 16))
    program.call("aten::relu", x, y)
    return program.finish([x], [y])


def failure(library: ct.CDLL, file: bytes) -> RuntimeFailure:
    with pytest.raises(RuntimeFailure) as caught:
        load(library, file).execute()
    return caught.value


def test_a_program_without_extended_header(etstub: ct.CDLL) -> None:
    np.testing.assert_array_equal(load(etstub, relu_program()).run(VALUES), [1, 0, 3, 0])


def test_several_planned_buffers(etstub: ct.CDLL) -> None:
    program = ProgramBuilder([0, 16, 0, 20])
    x = program.tensor((4,), memory=(1, 0))
    y = program.tensor((4,), memory=(3, 4))
    program.call("aten::relu", x, y)
    loaded = load(etstub, program.finish([x], [y]))
    np.testing.assert_array_equal(loaded.run(VALUES), [1, 0, 3, 0])
    assert loaded.method.planned_bytes == 16 + 32


@pytest.mark.parametrize(
    ("tensor", "message"),
    [
        ({"dynamism": 2}, "dynamic shape without a bound"),
        ({"storage_offset": 1}, "storage offset"),
        ({"scalar_type": 9}, "scalar type"),  # complex64
        ({"location": 1, "name": "layer.weight"}, "data outside the program (.ptd): layer.weight"),
    ],
)
def test_what_is_not_supported_is_named(
    etstub: ct.CDLL, tensor: dict[str, object], message: str
) -> None:
    refused = failure(etstub, relu_program(**tensor))
    assert refused.status == "UNSUPPORTED_FEATURE"
    assert message in refused.message


@pytest.mark.parametrize(
    ("tensor", "message"),
    [
        ({"memory": (1, 52)}, "memory_offset"),
        ({"memory": (1, 2)}, "not aligned"),
        ({"memory": (0, 0)}, "memory_id"),
        ({"memory": (2, 0)}, "memory_id"),
        ({"memory": None, "constant": 5}, "data_buffer_idx"),
        ({"constant": 1}, "mutable_data_segments"),
        ({"memory": None, "constant": 0x7FFFFFFF}, "data_buffer_idx"),
        ({"dim_order": [1]}, "dim_order"),
        ({"dim_order": [0, 0]}, "dim_order"),
    ],
)
def test_what_contradicts_itself_is_named(
    etstub: ct.CDLL, tensor: dict[str, object], message: str
) -> None:
    refused = failure(etstub, relu_program(**tensor))
    assert refused.status == "BAD_PROGRAM"
    assert message in refused.message


@pytest.mark.attack("Files", "a `.pte` file with absurd sizes, on the device", "refused")
@pytest.mark.parametrize("shape", [(1 << 31,), (1 << 16, 1 << 16), (0, 1 << 30, 2)])
def test_absurd_sizes_are_refused(etstub: ct.CDLL, shape: tuple[int, ...]) -> None:
    program = ProgramBuilder([0, 64])
    size = [s - (1 << 32) if s >= 1 << 31 else s for s in shape]
    program.tensor(size, memory=(1, 0))
    refused = failure(etstub, program.finish())
    assert (refused.status, refused.message) == ("BAD_PROGRAM", "sizes: too large")


def test_an_input_is_no_constant(etstub: ct.CDLL) -> None:
    program = ProgramBuilder()
    refused = failure(etstub, program.finish([program.constant(VALUES)]))
    assert (refused.status, refused.message) == ("UNSUPPORTED_FEATURE", "input: is a constant")


@pytest.mark.parametrize("planned", [False, True])
def test_named_data_are_constants_or_initial_states(etstub: ct.CDLL, planned: bool) -> None:
    program = ProgramBuilder([0, 64])
    program.name("layer.bias", bytes(8))
    program.name("layer.weight", VALUES.tobytes())
    memory = (1, 32) if planned else None
    x = program.tensor((4,), memory=memory, location=1, name="layer.weight")
    y = program.tensor((4,), memory=(1, 0))
    program.call("aten::relu", x, y)
    program.call("aten::add", x, x, program.value("int", ("i64", 1)), x)
    loaded = load(etstub, program.finish([], [y]))
    if planned:
        np.testing.assert_array_equal(loaded.run(), [1, 0, 3, 0])
        np.testing.assert_array_equal(loaded.run(), [2, 0, 6, 0])
    else:
        with pytest.raises(RuntimeFailure, match=r"aten::add\.out"):
            loaded.execute()


def test_mutable_buffers_begin_with_their_state_and_keep_what_they_get(etstub: ct.CDLL) -> None:
    program = ProgramBuilder([0, 64])
    segment = program.segment(bytes(16) + VALUES.tobytes())
    one = program.value("int", ("i64", 1))
    total = program.tensor((4,), memory=(1, 0), constant=1)
    fresh = program.tensor((4,), memory=(1, 16))
    x = program.tensor((4,), memory=(1, 32))
    for buffer in (total, fresh):
        program.call("aten::add", buffer, x, one, buffer)
    loaded = load(etstub, program.finish([x], [total, fresh], (segment, [16])))
    for executions in (1, 2, 3):
        np.testing.assert_array_equal(loaded.run(VALUES), VALUES * (1 + executions))
        fresh_now = np.frombuffer(loaded.output(1), np.float32)
        np.testing.assert_array_equal(fresh_now, VALUES * executions)


@pytest.mark.parametrize(
    ("offset", "message"), [(20, "constant: outside its segment"), (1 << 40, "outside its segment")]
)
def test_a_state_outside_its_segment_is_refused(etstub: ct.CDLL, offset: int, message: str) -> None:
    program = ProgramBuilder([0, 64])
    segment = program.segment(bytes(32))
    total = program.tensor((4,), memory=(1, 0), constant=1)
    refused = failure(etstub, program.finish([], [total], (segment, [offset])))
    assert refused.status == "BAD_PROGRAM"
    assert message in refused.message


def test_unplanned_inputs_and_outputs_get_memory(etstub: ct.CDLL) -> None:
    program = ProgramBuilder()
    x, y = program.tensor((4,)), program.tensor((4,))
    program.call("aten::relu", x, y)
    file = program.finish([x], [y])
    loaded = load(etstub, file)
    np.testing.assert_array_equal(loaded.run(VALUES), [1, 0, 3, 0])
    assert loaded.method.planned_bytes == 2 * VALUES.nbytes
    exact = load(etstub, file, arena_size=loaded.needed)
    np.testing.assert_array_equal(exact.run(VALUES), [1, 0, 3, 0])
    with pytest.raises(RuntimeFailure) as caught:
        load(etstub, file, arena_size=loaded.needed - 1)
    assert (caught.value.status, caught.value.detail) == ("OUT_OF_MEMORY", loaded.needed)


def test_a_delegate_is_named(etstub: ct.CDLL) -> None:
    program = ProgramBuilder()
    program.delegate("XnnpackBackend")
    refused = failure(etstub, program.finish())
    assert refused.status == "UNSUPPORTED_FEATURE"
    assert refused.message == "no backend XnnpackBackend in this firmware"


@pytest.mark.parametrize(
    ("build", "message"),
    [
        (lambda p: p.call("aten::relu", p.value("null")), "too few arguments"),
        (lambda p: p.call("aten::relu", 0, 99), "args: no such value"),
        (lambda p: p.tensors(99), "items: no such value"),
        (lambda p: p.jump_if_false(p.value("bool", ("u8", 1)), 5), "destination_instruction"),
        (lambda p: p.jump_if_false(9, 0), "cond_value_index"),
        (lambda p: p.move(0, 9), "move_"),
        (lambda p: p.free(9), "value_index"),
    ],
)
def test_damaged_instructions_are_named(etstub: ct.CDLL, build: Build, message: str) -> None:
    program = ProgramBuilder()
    build(program)
    refused = failure(etstub, program.finish())
    assert refused.status == "BAD_PROGRAM"
    assert message in refused.message


@pytest.mark.parametrize(("condition", "expected"), [(1, [1, 0, 3, 0]), (0, [0, 0, 0, 0])])
@pytest.mark.parametrize("boxed", [False, True])
def test_a_false_condition_jumps(
    etstub: ct.CDLL, condition: int, expected: list[float], boxed: bool
) -> None:
    program = ProgramBuilder([0, 64])
    x = program.tensor((4,), memory=(1, 0))
    y = program.tensor((4,), memory=(1, 16))
    if boxed:
        decide = program.constant(np.array([True, bool(condition)]))
    else:
        decide = program.value("bool", ("u8", condition))
    program.jump_if_false(decide, 2)
    program.call("aten::relu", x, y)
    program.free(x)
    loaded = load(etstub, program.finish([x], [y]))
    np.testing.assert_array_equal(loaded.run(VALUES), expected)


@pytest.mark.attack("Files", "a program with an endless loop", "the execution ends with an error")
def test_an_endless_jump_runs_out_of_budget(etstub: ct.CDLL) -> None:
    program = ProgramBuilder()
    program.jump_if_false(program.value("bool", ("u8", 0)), 0)
    refused = failure(etstub, program.finish())
    assert refused.status == "KERNEL_FAILED"
    assert "budget" in refused.message


def test_a_move_makes_one_value_another(etstub: ct.CDLL) -> None:
    program = ProgramBuilder([0, 64])
    x = program.tensor((4,), memory=(1, 0))
    y = program.tensor((4,), memory=(1, 16))
    z = program.tensor((4,), memory=(1, 32))
    program.call("aten::relu", x, y)
    program.move(y, z)
    np.testing.assert_array_equal(load(etstub, program.finish([x], [z])).run(VALUES), [1, 0, 3, 0])


def test_moves_that_would_change_what_was_checked_are_refused(etstub: ct.CDLL) -> None:
    program = ProgramBuilder([0, 64])
    x = program.tensor((4,), memory=(1, 0))
    program.move(program.tensor((8,), memory=(1, 0)), program.tensor((4,), memory=(1, 32)))
    assert "different sizes" in failure(etstub, program.finish([x])).message

    program = ProgramBuilder([0, 64])
    x = program.tensor((4,), memory=(1, 0))
    program.move(program.constant(VALUES), x)
    assert failure(etstub, program.finish([x])).status == "UNSUPPORTED_FEATURE"


def test_a_constant_is_no_output(etstub: ct.CDLL) -> None:
    program = ProgramBuilder()
    x = program.constant(VALUES)
    program.call("aten::relu", x, x)
    loaded = load(etstub, program.finish([], [x]))
    with pytest.raises(RuntimeFailure, match="aten::relu"):
        loaded.execute()


def test_an_instruction_that_fails_is_numbered(etstub: ct.CDLL) -> None:
    program = ProgramBuilder([0, 64])
    x = program.tensor((4,), memory=(1, 0))
    y = program.tensor((4,), memory=(1, 16))
    program.call("aten::relu", x, y)
    program.call("aten::relu", x, program.value("null"))
    refused = failure(etstub, program.finish([x], [y]))
    assert (refused.status, refused.detail) == ("KERNEL_FAILED", 1)


def dynamic_program(bound: int, out_bound: int) -> bytes:
    """Applies relu to at most ``bound`` floats, into an output of at most ``out_bound``."""
    program = ProgramBuilder([0, 128])
    x = program.tensor((bound,), memory=(1, 0), dynamism=1)
    y = program.tensor((out_bound,), memory=(1, 64), dynamism=1)
    program.call("aten::relu", x, y)
    return program.finish([x], [y])


def test_outputs_follow_their_inputs(etstub: ct.CDLL) -> None:
    loaded = load(etstub, dynamic_program(6, 6))
    for values in (VALUES[:2], VALUES, VALUES[:0], VALUES):
        assert loaded.resize(0, values.shape)
        np.testing.assert_array_equal(loaded.run(values), np.maximum(values, 0))
    for sizes in ((7,), (-1,), (1 << 30,)):
        assert not loaded.resize(0, sizes)


def test_an_output_does_not_outgrow_its_bound(etstub: ct.CDLL) -> None:
    loaded = load(etstub, dynamic_program(6, 3))
    assert loaded.resize(0, (3,))
    np.testing.assert_array_equal(loaded.run(VALUES[:3]), [1, 0, 3])
    assert loaded.resize(0, (4,))
    with pytest.raises(RuntimeFailure, match=r"aten::relu\.out: .* shape or layout"):
        loaded.execute()


def test_a_view_shares_memory_and_may_not_outgrow_it(etstub: ct.CDLL) -> None:
    program = ProgramBuilder([0, 128])
    x = program.tensor((4,), memory=(1, 0))
    large = program.tensor((8,), memory=(1, 32))
    view = program.tensor((2, 4), dynamism=1)
    program.call("executorch_prim::et_view", x, program.integers(2, -1), view, overload="default")
    program.call("aten::relu", view, view)
    program.call("aten::view_copy", large, program.integers(2, 4), view)
    loaded = load(etstub, program.finish([x], [x]))
    with pytest.raises(RuntimeFailure, match=r"aten::view_copy\.out: invalid output size"):
        loaded.run(VALUES)
    np.testing.assert_array_equal(np.frombuffer(loaded.output(0), np.float32), [1, 0, 3, 0])


@pytest.mark.parametrize(
    ("sizes", "shape", "reason"),
    [
        ((3, -1), (2, 2), "size"),
        ((-1, -1), (2, 2), "size"),
        ((2, 3), (2, 2), "size"),
        ((-2, 2), (2, 2), "size"),
        ((2, 2), (4,), "output size"),
        ((1 << 40, 2), (2, 2), "size"),
    ],
)
def test_views_of_another_size_are_refused(
    etstub: ct.CDLL, sizes: tuple[int, ...], shape: tuple[int, ...], reason: str
) -> None:
    program = ProgramBuilder([0, 64])
    x = program.tensor((4,), memory=(1, 0))
    view = program.tensor(shape, memory=(1, 0))
    program.call("executorch_prim::et_view", x, program.integers(*sizes), view, overload="default")
    refused = failure(etstub, program.finish([x], [view]))
    assert refused.message == f"executorch_prim::et_view.default: invalid {reason}"


def test_a_view_of_a_constant_is_no_output(etstub: ct.CDLL) -> None:
    program = ProgramBuilder([0, 64])
    fixed, view = program.constant(VALUES), program.tensor((2, 2), memory=(1, 0))
    sizes = program.integers(2, 2)
    program.call("executorch_prim::et_view", fixed, sizes, view, overload="default")
    program.call("aten::relu", view, view)
    assert "aten::relu" in failure(etstub, program.finish([], [view])).message


PRIMS: dict[str, Callable[..., object]] = {
    "add": operator.add,
    "sub": operator.sub,
    "mul": operator.mul,
    "floordiv": operator.floordiv,
    "truediv": operator.truediv,
    "mod": operator.mod,
    "eq": operator.eq,
    "ge": operator.ge,
    "gt": operator.gt,
    "le": operator.le,
    "lt": operator.lt,
    "sym_max": max,
    "sym_min": min,
    "neg": operator.neg,
    "ceil": math.ceil,
    "round": round,
    "trunc": math.trunc,
    "sym_int": int,
    "sym_float": float,
    "sym_not": operator.not_,
}
UNARY_PRIMS = {"neg", "ceil", "round", "trunc", "sym_int", "sym_float", "sym_not"}
NUMBERS = [0, 3, -3, 2.5, -2.5, 7, 1 << 30, True]


@pytest.mark.parametrize("name", PRIMS)
@pytest.mark.parametrize("a", NUMBERS)
def test_scalars_are_computed_as_python_computes_them(etstub: ct.CDLL, name: str, a: float) -> None:
    for b in NUMBERS[:1] if name in UNARY_PRIMS else NUMBERS:
        arguments = [a] if name in UNARY_PRIMS else [a, b]
        program = ProgramBuilder([0, 32])
        numbers = [scalar(program, value) for value in arguments]
        result = program.value("int", ("i64", 0))
        filled = program.tensor((), np.float64, memory=(1, 0))
        program.call(f"executorch_prim::{name}", *numbers, result, overload="Scalar")
        program.call("aten::scalar_tensor", result, filled)
        loaded = load(etstub, program.finish([], [filled]))
        whole = not any(isinstance(value, float) for value in arguments)
        if name in ("truediv", "floordiv", "mod") and b == 0:
            with pytest.raises(RuntimeFailure, match=r"division by zero|only integers"):
                loaded.execute()
        elif name in ("floordiv", "mod") and not whole:
            with pytest.raises(RuntimeFailure, match="only integers"):
                loaded.execute()
        else:
            assert loaded.run(dtype=np.float64)[0] == PRIMS[name](*arguments)


def test_a_program_asks_for_sizes_and_elements(etstub: ct.CDLL) -> None:
    program = ProgramBuilder([0, 72])
    x = program.tensor((3, 2), np.int64, memory=(1, 0))
    one = program.constant(np.array([[7]], np.int64))
    results = [program.value("int", ("i64", 0)) for _ in range(3)]
    last = program.value("int", ("i64", -1))
    program.call("aten::sym_size", x, last, results[0], overload="int")
    program.call("aten::sym_numel", x, results[1], overload="")
    program.call("aten::_local_scalar_dense", one, results[2], overload="")
    places = (48, 56, 64)
    outputs = [program.tensor((), np.int64, memory=(1, place)) for place in places]
    for result, output in zip(results, outputs, strict=True):
        program.call("aten::scalar_tensor", result, output)
    loaded = load(etstub, program.finish([], outputs))
    loaded.execute()
    found = [int.from_bytes(loaded.output(index), "little") for index in range(3)]
    assert found == [2, 6, 7]

    wrong = ProgramBuilder([0, 64])
    x = wrong.tensor((3, 2), np.int64, memory=(1, 0))
    wrong.call("aten::sym_numel", x, x, overload="")
    assert "not a number" in failure(etstub, wrong.finish([x], [x])).message


@pytest.mark.parametrize("name", ["floordiv", "mod"])
def test_integers_are_divided_by_an_overload_of_their_own(etstub: ct.CDLL, name: str) -> None:
    program = ProgramBuilder([0, 32])
    numbers = [scalar(program, value) for value in (-7, 3)]
    result = program.value("int", ("i64", 0))
    filled = program.tensor((), np.float64, memory=(1, 0))
    program.call(f"executorch_prim::{name}", *numbers, result, overload="int")
    program.call("aten::scalar_tensor", result, filled)
    found = load(etstub, program.finish([], [filled])).run(dtype=np.float64)
    assert found[0] == PRIMS[name](-7, 3)


@pytest.mark.parametrize("condition", [True, False, 0, 2.5])
def test_a_condition_chooses_between_numbers(etstub: ct.CDLL, condition: float) -> None:
    program = ProgramBuilder([0, 32])
    numbers = [scalar(program, value) for value in (condition, 7, -2.5)]
    result = program.value("int", ("i64", 0))
    filled = program.tensor((), np.float64, memory=(1, 0))
    program.call("executorch_prim::sym_ite", *numbers, result, overload="Scalar")
    program.call("aten::scalar_tensor", result, filled)
    found = load(etstub, program.finish([], [filled])).run(dtype=np.float64)
    assert found[0] == (7 if condition else -2.5)


def stacking(count: int) -> bytes:
    """A program that stacks rows, one call each, in a tensor with room for three of them."""
    program = ProgramBuilder([0, 32])
    stack = program.tensor((3, 2), memory=(1, 0), dynamism=1)
    for index in range(count):
        row = program.constant(np.array([index, -index], np.float32))
        number = scalar(program, index)
        program.call("executorch_prim::et_copy_index", stack, row, number, overload="tensor")
    return program.finish([], [stack])


def test_steps_of_a_loop_are_stacked(etstub: ct.CDLL) -> None:
    for count in (1, 2, 3):
        expected = [number for index in range(count) for number in (index, -index)]
        np.testing.assert_array_equal(load(etstub, stacking(count)).run(), expected)
    assert "no room for the item" in failure(etstub, stacking(4)).message
