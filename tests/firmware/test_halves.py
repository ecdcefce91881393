"""float16 and bfloat16, which kernels convert to float32 and back."""

from __future__ import annotations

import ctypes as ct

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from tests.support.kernels import Array, Out, run
from tests.support.programs import ProgramBuilder
from tests.support.runtime import load

COPY = "dim_order_ops::_to_dim_order_copy"
EVERY = np.arange(1 << 16, dtype=np.uint16)
BFLOAT16 = 15
floats = st.lists(st.integers(0, (1 << 32) - 1), min_size=1, max_size=200)


def converted(library: ct.CDLL, x: Array, before: int, after: int) -> Array:
    """Elements copied from a tensor of one scalar type to one of the other, as they are stored."""
    program = ProgramBuilder([0, 8 * x.size])
    stored = np.int16 if after == BFLOAT16 else np.float32
    source = program.tensor(x.shape, x.dtype, memory=(1, 0), scalar_type=before)
    target = program.tensor(x.shape, stored, memory=(1, 4 * x.size), scalar_type=after)
    program.call(COPY, source, program.value("bool", ("u8", 0)), program.value("null"), target)
    return load(library, program.finish([source], [target])).run(x, dtype=stored)


def test_every_float16_is_read(etstub: ct.CDLL) -> None:
    halves = EVERY.view(np.float16)
    found = run(etstub, COPY, halves, False, None, Out(halves.shape))
    np.testing.assert_array_equal(found, halves.astype(np.float32))


@given(floats)
def test_floats_round_to_the_nearest_float16(etstub: ct.CDLL, bits: list[int]) -> None:
    near = EVERY[1:0x7C00].view(np.float16).astype(np.float32)  # halfway between two, too
    ties = (near[:-1] + near[1:])[np.asarray(bits) % (near.size - 1)] / 2
    x = np.concatenate([np.asarray(bits, np.uint32).view(np.float32), ties])
    found = run(etstub, COPY, x, False, None, Out(x.shape, np.float16))
    with np.errstate(over="ignore"):
        np.testing.assert_array_equal(found, x.astype(np.float16))


def test_every_bfloat16_is_read(etstub: ct.CDLL) -> None:
    found = converted(etstub, EVERY.view(np.int16), BFLOAT16, 6)
    np.testing.assert_array_equal(found, (EVERY.astype(np.uint32) << 16).view(np.float32))


@given(floats)
def test_floats_round_to_the_nearest_bfloat16(etstub: ct.CDLL, bits: list[int]) -> None:
    """Ties go to the even one: the upper half of the sum of the bits and just below a half."""
    x = np.asarray([*bits, *(b & 0xFFFF0000 | 0x8000 for b in bits)], np.uint32)
    x = x[~np.isnan(x.view(np.float32))]
    found = converted(etstub, x.view(np.float32), 6, BFLOAT16).view(np.uint16)
    expected = (x.astype(np.uint64) + 0x7FFF + (x >> 16 & 1)) >> 16
    np.testing.assert_array_equal(found, expected.astype(np.uint16))
