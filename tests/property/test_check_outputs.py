"""Outputs beside their references: the same elements differ as NumPy and Python's integers say."""

from __future__ import annotations

import re
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as arrays

from harness import Check, ModelOutput, Subject, evaluate
from harness.extensions.web.html.run import output_facts
from tests.support.examples import examples
from tests.support.reported import SMALL

FLOATS = st.sampled_from([np.float16, np.float32, np.float64])
INTEGERS = st.sampled_from(
    [np.uint8, np.int8, np.int16, np.int32, np.int64, np.uint16, np.uint32, np.uint64, np.bool_]
)
SIGNALING = np.array([0x7F800001], np.uint32).view(np.float32)
"""A signaling NaN, which raises a warning when it is converted."""
TOLERANCE = st.sampled_from([0.0, 1e-6, 1e-3, 0.5])


def compared(
    value: Any, reference: Any, rtol: float | None = None, atol: float | None = None
) -> Check:
    output = ModelOutput("outputs/0.npy", np.asarray(value), np.asarray(reference), (rtol, atol))
    verdict = evaluate(Subject(SMALL, outputs=(output,)))
    [found] = [check for check in verdict.checks if check.code == "I11"]
    return found


@st.composite
def pairs(draw: st.DrawFn, dtypes: st.SearchStrategy[Any]) -> tuple[Any, Any]:
    """An array and another one that is mostly the same."""
    dtype, shape = draw(dtypes), draw(arrays.array_shapes(min_dims=0, min_side=1, max_side=4))
    one = draw(arrays.arrays(dtype, shape))
    other = draw(arrays.arrays(dtype, shape))
    return one, np.where(draw(arrays.arrays(np.bool_, shape)), one, other)


@given(pair=pairs(FLOATS), rtol=TOLERANCE, atol=TOLERANCE)
@settings(max_examples=examples(150))
def test_floats_differ_where_numpy_says_so(pair: tuple[Any, Any], rtol: float, atol: float) -> None:
    value, reference = pair
    wide = [item.astype(np.float64) for item in pair]
    with np.errstate(all="ignore"):
        differs = ~np.isclose(*wide, rtol=rtol, atol=atol, equal_nan=True)
    check = compared(value, reference, rtol, atol)
    assert check.measured == differs.sum()
    assert check.passed == (not differs.any())
    if differs.any():
        first = [int(index) for index in np.argwhere(differs)[0]]
        said = check.reason.partition(f"first {first}: ")[2].partition(", expected")[0]
        np.testing.assert_equal(value.dtype.type(said), value[tuple(first)])


@given(pair=pairs(INTEGERS), atol=st.sampled_from([None, 1.0, 1000.0]))
@settings(max_examples=examples(150))
def test_integers_are_exact_unless_a_tolerance_is_given(
    pair: tuple[Any, Any], atol: float | None
) -> None:
    value, reference = pair
    off = [abs(int(a) - int(b)) for a, b in zip(value.ravel(), reference.ravel(), strict=True)]
    check = compared(value, reference, atol=atol)
    assert check.measured == sum(item > (atol or 0) for item in off)
    if not check.passed:
        worst = re.search(r"worst (\[[\d, ]*\])", check.reason)
        assert worst is not None
        place = np.ravel_multi_index(
            [int(number) for number in re.findall(r"\d+", worst[1])], value.shape
        )
        assert off[place] == pytest.approx(max(off))


@pytest.mark.parametrize(
    ("dtype", "allowed"), [(np.float16, 0.01), (np.float32, 1e-4), (np.float64, 1e-9)]
)
def test_a_floating_point_type_allows_for_its_roundings(dtype: type, allowed: float) -> None:
    reference = np.full(3, 1, dtype)
    assert compared((reference + dtype(allowed)).astype(dtype), reference).passed
    check = compared((reference + dtype(3 * allowed)).astype(dtype), reference)
    assert (check.passed, check.measured, check.unit) == (False, 3.0, "elements")


def test_other_shapes_and_types_are_failures_with_a_reason() -> None:
    check = compared(np.zeros((2, 3), np.float32), np.zeros(6, np.float32))
    assert (check.passed, check.measured) == (False, None)
    assert check.reason == "the output is float32[2, 3], the reference is float32[6]"
    assert not compared(np.zeros(2, np.int8), np.zeros(2, np.uint8)).passed
    assert compared(np.zeros((0, 2), np.int8), np.zeros((0, 2), np.int8)).passed
    assert compared(np.float32(1), np.float32(1)).passed


@pytest.mark.parametrize(
    ("value", "reference", "text"),
    [
        (np.array([b"x"]), np.array([1], np.int8), "it is |S1, the reference is int8"),
        (np.array([1], "M8[s]"), np.array([1], np.int64), "it is datetime64[s], the reference is "),
        (SIGNALING, np.array([np.inf], np.float32), "at most"),
    ],
)
@pytest.mark.filterwarnings("error")
def test_outputs_of_other_types_are_reported_without_a_difference(
    value: np.ndarray, reference: np.ndarray, text: str
) -> None:
    subject = Subject(SMALL, outputs=(ModelOutput("outputs/0.npy", value, reference),))
    assert text in output_facts(subject, None)[0]["off"]
