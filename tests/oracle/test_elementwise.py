"""Elementwise kernels against PyTorch, on generated shapes, layouts and values."""

from __future__ import annotations

import ctypes as ct
from typing import Any

import numpy as np
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from tests.oracle.strategies import Shape, floats, ints, oracle, ordered, seeds, shapes
from tests.support.aten_operators import UNARY as MORE_FUNCTIONS
from tests.support.kernels import Array, Out, Tensor, run
from tests.support.operators import COMPARISONS, FUNCTIONS
from tests.support.torch_calls import check as check_call

torch = pytest.importorskip("torch")
pytestmark = pytest.mark.oracle
RELATIVE = 1e-6


@st.composite
def broadcast_shapes(draw: st.DrawFn) -> tuple[Shape, Shape, Shape]:
    """Two shapes and what they broadcast to."""
    full = draw(shapes(1, 5))
    parts = []
    for _ in range(2):
        kept = full[draw(st.integers(0, len(full))) :]
        parts.append(tuple(draw(st.sampled_from([1, size])) for size in kept))
    return *parts, np.broadcast_shapes(*parts)


def compare(found: Array, expected: Any) -> None:
    np.testing.assert_allclose(found, expected.numpy(), rtol=RELATIVE, atol=1e-7)


@oracle
@given(broadcast_shapes(), st.data(), st.sampled_from(["add", "sub", "mul", "div"]))
def test_binary(
    etstub: ct.CDLL, shape: tuple[Shape, Shape, Shape], data: st.DataObject, name: str
) -> None:
    dtypes = [np.float32] if name == "div" else [np.float32, np.int32, np.int64]
    dtype = data.draw(st.sampled_from(dtypes))
    make = floats if dtype == np.float32 else ints
    a, b = (make(data.draw(seeds), part, dtype) for part in shape[:2])
    orders = [data.draw(ordered(len(part))) for part in shape]
    alpha: dict[str, Any] = {}
    if name in ("add", "sub"):
        alpha["alpha"] = data.draw(st.sampled_from([1, -3, 2.5] if make is floats else [1, -3]))
    expected = getattr(torch, name)(torch.from_numpy(a), torch.from_numpy(b), **alpha)
    found = run(
        etstub,
        f"aten::{name}",
        Tensor(a, orders[0]),
        Tensor(b, orders[1]),
        *alpha.values(),
        Out(shape[2], dtype, orders[2]),
    )
    if dtype == np.float32:
        compare(found, expected)
    else:
        np.testing.assert_array_equal(found, expected.numpy())


UNARY: dict[str, list[list[Any]]] = {
    "relu": [[]],
    "sigmoid": [[]],
    "tanh": [[]],
    "hardtanh": [[-1.0, 1.0], [0, 6]],
    "clamp": [[None, 0.5], [-1, None], [-0.25, 3.0], [2.0, -2.0]],
    "leaky_relu": [[0.01], [2]],
    "gelu": [["none"], ["tanh"]],
    "elu": [[1, 1, 1], [1.67, 1.05, 1], [0.5, 1, 2.0]],
    **{name: [[]] for name in (*FUNCTIONS, *MORE_FUNCTIONS)},
}


@oracle
@given(shapes(0, 5), st.data(), st.sampled_from(sorted(UNARY)))
def test_unary(etstub: ct.CDLL, shape: Shape, data: st.DataObject, name: str) -> None:
    extra = data.draw(st.sampled_from(UNARY[name]))
    order = data.draw(ordered(len(shape)))
    x = np.asarray(floats(data.draw(seeds), shape) * 5, np.float32)
    operator = getattr(torch.ops.aten, name).default
    tensor = torch.from_numpy(x)
    named = {"approximate": extra[0]} if name == "gelu" else {}
    expected = operator(tensor, **named) if named else operator(tensor, *extra)
    found = run(etstub, f"aten::{name}", Tensor(x, order), *extra, Out(shape, order=order))
    # Where the result is near zero, PyTorch's vectorized functions and libm cancel differently.
    np.testing.assert_allclose(found, expected.numpy(), rtol=1e-5, atol=1e-6)


REALS, NUMBERS = (np.float32,), (np.float32, np.int32, np.int64)
ALL = (*NUMBERS, np.bool_)
PAIRS: dict[str, tuple[type, ...]] = {
    **{f"{name}.Tensor": ALL for name in COMPARISONS},
    "logical_and": ALL,
    "logical_or": ALL,
    "maximum": NUMBERS,
    "minimum": NUMBERS,
    "pow.Tensor_Tensor": REALS,
}
WITH_SCALAR: dict[str, tuple[type, ...]] = {
    **{f"{name}.Scalar": ALL for name in COMPARISONS},
    **{f"{name}.Scalar": NUMBERS for name in ("add", "mul", "rsub", "sub")},
    "div.Scalar": REALS,
    "pow.Tensor_Scalar": REALS,
}


def few(seed: int, shape: Shape, dtype: type) -> Array:
    """Numbers that are often the same, and some of them no number."""
    values = [-1.5, -1, 0, 0.5, 2, np.nan] if dtype == np.float32 else [-2, -1, 0, 1, 2**31 - 1]
    return np.asarray(np.random.default_rng(seed).choice(values, shape)).astype(dtype)


def check(library: ct.CDLL, operator: str, out: Out, *arguments: Any) -> None:
    """Compare with what the functional operator of the name and overload returns."""
    name, _, overload = operator.partition(".")
    function = getattr(getattr(torch.ops.aten, name), overload or "default")
    plain = [value.data if isinstance(value, Tensor) else value for value in arguments]
    tensors = [
        torch.from_numpy(value) if isinstance(value, np.ndarray) else value for value in plain
    ]
    expected = function(*tensors).numpy()
    assert expected.dtype == out.dtype
    whole = f"aten::{name}.{overload}_out" if overload else f"aten::{name}.out"
    found = run(library, whole, *arguments, out)
    np.testing.assert_allclose(found, expected, rtol=1e-5)


@oracle
@given(broadcast_shapes(), st.data(), st.sampled_from(sorted(PAIRS)))
def test_pairs(
    etstub: ct.CDLL, shape: tuple[Shape, Shape, Shape], data: st.DataObject, name: str
) -> None:
    dtype = data.draw(st.sampled_from(PAIRS[name]))
    orders = [data.draw(ordered(len(part))) for part in shape]
    pair = [
        Tensor(few(data.draw(seeds), part, dtype), order)
        for part, order in zip(shape[:2], orders[:2], strict=True)
    ]
    same = name in ("maximum", "minimum", "pow.Tensor_Tensor")
    check(etstub, name, Out(shape[2], dtype if same else np.bool_, orders[2]), *pair)


@oracle
@given(shapes(0, 5), st.data(), st.sampled_from(sorted(WITH_SCALAR)))
def test_with_a_number(etstub: ct.CDLL, shape: Shape, data: st.DataObject, name: str) -> None:
    dtype = data.draw(st.sampled_from(WITH_SCALAR[name]))
    numbers: dict[type, list[Any]] = {np.float32: [0.5, -1.5, 2, True], np.bool_: [True, False, 0]}
    number = data.draw(st.sampled_from(numbers.get(dtype, [0, -1, 7, True])))
    scaled = name.split(".")[0] in ("add", "rsub", "sub")
    alpha = [data.draw(st.sampled_from([1, -3]))] if scaled else []
    orders = [data.draw(ordered(len(shape))) for _ in range(2)]
    x = Tensor(few(data.draw(seeds), shape, dtype), orders[0])
    truth = name.split(".")[0] in COMPARISONS
    check(etstub, name, Out(shape, np.bool_ if truth else dtype, orders[1]), x, number, *alpha)


@oracle
@given(shapes(0, 5), st.data(), st.sampled_from(["abs", "neg", "logical_not"]))
def test_unary_of_any_type(etstub: ct.CDLL, shape: Shape, data: st.DataObject, name: str) -> None:
    truth = name == "logical_not"
    dtype = data.draw(st.sampled_from(ALL if truth else NUMBERS))
    orders = [data.draw(ordered(len(shape))) for _ in range(2)]
    x = Tensor(few(data.draw(seeds), shape, dtype), orders[0])
    check(etstub, name, Out(shape, np.bool_ if truth else dtype, orders[1]), x)


@oracle
@given(broadcast_shapes(), st.data(), st.sampled_from([*ALL, np.int8, np.float64]))
def test_where(
    etstub: ct.CDLL, shape: tuple[Shape, Shape, Shape], data: st.DataObject, dtype: type
) -> None:
    parts = data.draw(st.permutations([*shape[:2], ()]))
    orders = [data.draw(ordered(len(part))) for part in (*parts, shape[2])]
    condition = Tensor(few(data.draw(seeds), parts[0], np.bool_), orders[0])
    pair = [
        Tensor(np.asarray(few(data.draw(seeds), part, np.int32) % 100).astype(dtype), order)
        for part, order in zip(parts[1:], orders[1:3], strict=True)
    ]
    check(etstub, "where.self", Out(shape[2], dtype, orders[3]), condition, *pair)


@oracle
@given(broadcast_shapes(), st.data(), st.sampled_from(["and", "or", "xor"]))
def test_bits(
    etstub: ct.CDLL, shape: tuple[Shape, Shape, Shape], data: st.DataObject, name: str
) -> None:
    dtype = data.draw(st.sampled_from([np.int8, np.uint8, np.int32, np.int64, np.bool_]))
    a, b = (ints(data.draw(seeds), part, dtype) for part in shape[:2])
    tensors = torch.from_numpy(a), torch.from_numpy(b)
    operator, number = getattr(torch.ops.aten, f"bitwise_{name}"), data.draw(st.integers(0, 1))
    check_call(etstub, f"aten::bitwise_{name}.Tensor_out", [a, b], operator.Tensor(*tensors), data)
    expected = operator.Scalar(tensors[0], number)
    if expected.dtype == tensors[0].dtype:
        check_call(etstub, f"aten::bitwise_{name}.Scalar_out", [a, number], expected, data)
    check_call(etstub, "aten::bitwise_not.out", [a], torch.bitwise_not(tensors[0]), data)


@oracle
@given(
    shapes(0, 4),
    st.data(),
    st.sampled_from(COMPARISONS),
    st.sampled_from([-2.5, 0.0, 3.0, 2.5, 1e30, float("-inf"), float("nan")]),
)
def test_integers_compared_with_floats(
    etstub: ct.CDLL, shape: Shape, data: st.DataObject, name: str, number: float
) -> None:
    dtype = data.draw(st.sampled_from([np.int8, np.uint8, np.int16, np.int32, np.int64, np.bool_]))
    rng = np.random.default_rng(data.draw(seeds))
    x = np.asarray(rng.integers(0 if dtype in (np.uint8, np.bool_) else -4, 5, shape), dtype)
    expected = getattr(torch, name)(torch.from_numpy(x), number)
    check_call(etstub, f"aten::{name}.Scalar_out", [x, number], expected, data)
    expected = getattr(torch, name)(torch.from_numpy(x), 3)
    check_call(etstub, f"aten::{name}.Scalar_out", [x, 3], expected, data)


@oracle
@given(broadcast_shapes(), st.data(), st.sampled_from(["left", "right"]))
def test_shifts(
    etstub: ct.CDLL, shape: tuple[Shape, Shape, Shape], data: st.DataObject, direction: str
) -> None:
    """Also by distances that C leaves undefined: below zero, and beyond the number of bits."""
    dtype = data.draw(st.sampled_from([np.int8, np.uint8, np.int32, np.int64]))
    a = ints(data.draw(seeds), shape[0], dtype)
    low = 0 if dtype == np.uint8 else -3
    distances = np.random.default_rng(data.draw(seeds)).integers(low, 70, shape[1])
    b, number = np.asarray(distances, dtype), data.draw(st.integers(low, 70))
    tensors = torch.from_numpy(a), torch.from_numpy(b)
    shift = getattr(torch.ops.aten, f"bitwise_{direction}_shift")
    expected = shift.Tensor(*tensors), shift.Tensor_Scalar(tensors[0], number)
    python = f"aten::__{direction[0]}shift__"
    for name, suffix in ((f"aten::bitwise_{direction}_shift", "Tensor_"), (python, "")):
        check_call(etstub, f"{name}.Tensor_out", [a, b], expected[0], data)
        check_call(etstub, f"{name}.{suffix}Scalar_out", [a, number], expected[1], data)


@oracle
@given(broadcast_shapes(), st.data())
def test_bounds_by_tensors(
    etstub: ct.CDLL, shape: tuple[Shape, Shape, Shape], data: st.DataObject
) -> None:
    dtype = data.draw(st.sampled_from([np.float32, np.int8, np.int64]))
    make = floats if dtype == np.float32 else ints
    x, low, high = (make(data.draw(seeds), part, dtype) for part in (*shape[:2], shape[0]))
    if dtype == np.float32 and x.size:
        x.flat[0], low.flat[-1] = np.nan, data.draw(st.sampled_from([0.0, np.nan, np.inf]))
    bounds = data.draw(st.sampled_from([(low, high), (low, None), (None, low)]))
    tensors = [None if bound is None else torch.from_numpy(bound) for bound in bounds]
    expected = torch.clamp(torch.from_numpy(x), *tensors)
    check_call(etstub, "aten::clamp.Tensor_out", [x, *bounds], expected, data)


@oracle
@given(shapes(1, 4), st.data())
def test_gates_and_logits(etstub: ct.CDLL, shape: Shape, data: st.DataObject) -> None:
    dim = data.draw(st.integers(-len(shape), len(shape) - 1))
    doubled = list(shape)
    doubled[dim] *= 2
    x = floats(data.draw(seeds), doubled)
    expected = torch.nn.functional.glu(torch.from_numpy(x), dim)
    check_call(etstub, "aten::glu.out", [x, dim], expected, data)
    probabilities = np.asarray(np.random.default_rng(data.draw(seeds)).random(shape), np.float32)
    epsilon = data.draw(st.sampled_from([None, 0.0, 0.125]))
    expected = torch.logit(torch.from_numpy(probabilities), epsilon)
    check_call(etstub, "aten::logit.out", [probabilities, epsilon], expected)
    base = data.draw(st.sampled_from([0.5, 2.0, 3]))
    exponents = floats(data.draw(seeds), shape)
    expected = torch.pow(base, torch.from_numpy(exponents))
    check_call(etstub, "aten::pow.Scalar_out", [base, exponents], expected, data)
    expected = torch.exp2(torch.from_numpy(exponents))
    check_call(etstub, "aten::exp2.out", [exponents], expected, data)


@oracle
@given(broadcast_shapes(), st.data(), st.sampled_from([np.int32, np.int64]), st.integers(0, 70))
def test_powers_of_integers(
    etstub: ct.CDLL,
    shape: tuple[Shape, Shape, Shape],
    data: st.DataObject,
    dtype: type,
    exponent: int,
) -> None:
    """They wrap, and negative exponents leave 0 of all but 1 and -1."""
    rng = np.random.default_rng(data.draw(seeds))
    a, b = (np.asarray(rng.integers(-4, 5, part), dtype) for part in shape[:2])
    tensors = torch.from_numpy(a), torch.from_numpy(b)
    check_call(etstub, "aten::pow.Tensor_Tensor_out", [a, b], torch.pow(*tensors), data)
    expected = torch.pow(tensors[0], exponent)
    check_call(etstub, "aten::pow.Tensor_Scalar_out", [a, exponent], expected, data)
    expected = torch.pow(3, tensors[1].abs())
    check_call(etstub, "aten::pow.Scalar_out", [3, np.asarray(np.abs(b))], expected, data)


DIVISIONS: dict[str, list[Any]] = {
    "fmod.Tensor": [],
    "remainder.Tensor": [],
    "floor_divide.": [],
    "div.Tensor_mode": ["floor"],
    "div.Tensor_mode ": ["trunc"],
}


@oracle
@given(broadcast_shapes(), st.data(), st.sampled_from(sorted(DIVISIONS)))
def test_divisions(
    etstub: ct.CDLL, shape: tuple[Shape, Shape, Shape], data: st.DataObject, name: str
) -> None:
    dtype = data.draw(st.sampled_from(NUMBERS))
    values = [-3, -2, -1, 1, 2, 7] if dtype != np.float32 else [-2.5, -1, -0.5, 0, 0.75, 2, 6]
    seed = data.draw(seeds)
    a = few(seed, shape[0], dtype)
    b = np.asarray(np.random.default_rng(seed).choice(values, shape[1])).astype(dtype)
    mode = DIVISIONS[name]
    base, _, overload = name.strip().partition(".")
    named = {"rounding_mode": mode[0]} if mode else {}
    function = getattr(getattr(torch.ops.aten, base), overload or "default")
    expected = function(torch.from_numpy(a), torch.from_numpy(b), **named)
    out = {"Tensor_mode": "out_mode", "": "out"}.get(overload, f"{overload}_out")
    check_call(etstub, f"aten::{base}.{out}", [a, b, *mode], expected, data)


SPECIAL = np.array(
    [0.0, 1e-45, 1e-38, 0.1, 0.3, 0.5, 1.0, 2.5, 3.0, 16777216.0, 1e30, 3.4028235e38, np.inf],
    np.float32,
)
SPECIAL = np.concatenate([SPECIAL, -SPECIAL, np.array([np.nan], np.float32)])


@pytest.mark.parametrize("name", [*sorted(DIVISIONS), "div.Tensor", "div.Tensor_mode  "])
@pytest.mark.parametrize("by_scalar", [False, True])
def test_divisions_of_special_numbers(etstub: ct.CDLL, name: str, *, by_scalar: bool) -> None:
    """Every pair of infinities, NaN, zeros of both signs, the smallest and the largest numbers."""
    mode = DIVISIONS.get(name, [None] if "mode" in name else [])
    base, _, overload = name.strip().partition(".")
    if by_scalar and overload:  # floor_divide by a number has no kernel
        overload = overload.replace("Tensor", "Scalar")
    function = getattr(getattr(torch.ops.aten, base), overload or "default")
    named = {"rounding_mode": mode[0]} if mode else {}
    out = {"": "out", "Tensor_mode": "out_mode"}.get(overload, f"{overload}_out")
    operator = f"aten::{base}.{'out' if (base, overload) == ('div', 'Tensor') else out}"
    for divisor in SPECIAL:
        b = float(divisor) if "Scalar" in overload else np.full(len(SPECIAL), divisor)
        other = torch.from_numpy(b) if isinstance(b, np.ndarray) else b
        expected = function(torch.from_numpy(SPECIAL), other, **named).numpy()
        found = run(etstub, operator, SPECIAL, b, *mode, Out(SPECIAL.shape, np.float32))
        if base in ("fmod", "remainder") and divisor != 0 and np.isfinite(divisor):
            # PyTorch's vector code gives NaN if the quotient overflows; C's remainder is exact.
            with np.errstate(over="ignore"):
                decided = ~np.isinf(SPECIAL / divisor) | np.isinf(SPECIAL)
            found, expected = found[decided], expected[decided]
        np.testing.assert_array_equal(found, expected, err_msg=f"{name} by {divisor}")
        numbers = ~np.isnan(expected)
        np.testing.assert_array_equal(np.signbit(found)[numbers], np.signbit(expected)[numbers])


@oracle
@given(shapes(1, 4), st.data(), st.sampled_from([np.int8, np.uint8, np.int32, np.int64]))
def test_clamping_integers(etstub: ct.CDLL, shape: Shape, data: st.DataObject, dtype: type) -> None:
    x = ints(data.draw(seeds), shape, dtype)
    limits = [data.draw(st.one_of(st.none(), st.integers(0, 100))) for _ in range(2)]
    assume(limits != [None, None])
    order = data.draw(ordered(len(shape)))
    expected = torch.clamp(torch.from_numpy(x), *limits).numpy()
    found = run(etstub, "aten::clamp", Tensor(x, order), *limits, Out(shape, dtype, order))
    np.testing.assert_array_equal(found, expected)


@oracle
@given(shapes(0, 5), st.data(), st.sampled_from(["isnan", "isinf"]))
def test_special_numbers(etstub: ct.CDLL, shape: Shape, data: st.DataObject, name: str) -> None:
    values = [-np.inf, np.inf, np.nan, 0.0, -1.5]
    rng = np.random.default_rng(data.draw(seeds))
    x = np.asarray(rng.choice(values, shape), np.float32)
    check_call(etstub, f"aten::{name}.out", [x], getattr(torch, name)(torch.from_numpy(x)), data)


@oracle
@given(broadcast_shapes(), st.data())
def test_angles(etstub: ct.CDLL, shape: tuple[Shape, Shape, Shape], data: st.DataObject) -> None:
    a, b = (floats(data.draw(seeds), part) for part in shape[:2])
    expected = torch.atan2(torch.from_numpy(a), torch.from_numpy(b))
    check_call(etstub, "aten::atan2.out", [a, b], expected, data)
