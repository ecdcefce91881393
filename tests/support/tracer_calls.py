"""Calls of the tracer that a test may make, in any order."""

from __future__ import annotations

from hypothesis import strategies as st

from tests.support.tracer import FIXED_NAMES
from tests.support.tracer_model import tensor_bytes

I32 = st.integers(-(2**31), 2**31 - 1)
U32 = st.integers(0, 2**32 - 1)
U64 = st.integers(0, 2**64 - 1)
CHAIN = st.one_of(st.sampled_from([-1, 0, 1, -(2**15), 2**15 - 1, 2**15]), I32)
HANDLE = st.one_of(st.sampled_from([0, 1, 2**16 - 1, 2**16]), U32)
NAME = st.one_of(
    st.none(),
    st.sampled_from([b"", b"a", b"b", b"Execute", b"native_call_relu.out"]),
    st.binary(max_size=300).map(lambda name: name.replace(b"\0", b".")),
)
METADATA = st.one_of(st.none(), st.binary(max_size=50))
PATTERN = st.sampled_from(
    [b"", b"*", b"**", b"a", b"a*", b"*a", b"*relu*", b"native*", b"*.out", b"Execute"]
)
FILTER = st.tuples(
    st.lists(PATTERN, max_size=3), st.one_of(st.none(), st.tuples(I32, I32).map(sorted))
)
SIZES = st.lists(st.integers(0, 2), max_size=5)


@st.composite
def tensors(draw: st.DrawFn) -> tuple[int, list[int], bytes | None]:
    """Scalar type, sizes, and as many bytes as these take, or None for a tensor without data."""
    scalar_type, sizes = draw(st.integers(0, 44)), draw(SIZES)
    nbytes = tensor_bytes(scalar_type, sizes)
    return scalar_type, sizes, draw(st.none() | st.binary(min_size=nbytes, max_size=nbytes))


TENSOR = tensors()
VALUE = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(-(2**63), 2**63 - 1),
    st.floats(),
    TENSOR,
    st.lists(TENSOR, max_size=3),
)
CALL = st.one_of(
    st.tuples(st.just("block"), NAME),
    st.tuples(st.just("bundled"), I32),
    st.tuples(st.just("chain"), CHAIN, HANDLE),
    st.tuples(st.just("start"), NAME, CHAIN, HANDLE),
    st.tuples(st.just("start"), NAME, CHAIN, HANDLE),
    st.tuples(st.just("start_fixed"), st.sampled_from(FIXED_NAMES), CHAIN, HANDLE),
    st.tuples(st.just("end"), st.integers(0, 3)),
    st.tuples(st.just("end"), st.integers(0, 3)),
    st.tuples(st.just("start_delegate"), NAME, I32),
    st.tuples(st.just("end_delegate"), st.integers(0, 3), METADATA),
    st.tuples(st.just("log_delegate"), NAME, I32, st.integers(0, 254), U32, U32, METADATA),
    st.tuples(st.just("intern"), NAME),
    st.tuples(st.just("allocator"), NAME),
    st.tuples(st.just("clock"), st.just(0), U32, U64),
    st.tuples(st.just("switch"), st.integers(0, 3), NAME, U32),
    st.tuples(st.just("mark"), NAME),
    st.tuples(st.just("sample"), NAME, st.one_of(I32, st.floats(width=32))),
    st.tuples(st.just("allocation"), st.sampled_from([1, 2, 2**16 - 1, 2**16]), U32, U32),
    st.tuples(st.just("free"), st.integers(0, 3), U32, U32),
    st.tuples(st.just("level"), st.integers(0, 1)),
    st.tuples(st.just("filter"), st.one_of(st.none(), FILTER)),
    st.tuples(st.just("failure"), st.integers(0, 3), U32),
    st.tuples(st.just("recycle")),
    st.tuples(st.just("when_full"), st.integers(0, 1)),
    st.tuples(st.just("paused"), st.sampled_from([False, False, True])),
    st.tuples(st.just("debug"), st.integers(0, 2)),
    st.tuples(st.just("debug"), st.just(2)),
    st.tuples(st.just("value"), st.integers(0, 1), VALUE),
    st.tuples(st.just("value"), st.just(0), VALUE),
    st.tuples(st.just("delegate_value"), NAME, I32, VALUE),
)
