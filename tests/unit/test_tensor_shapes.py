"""Logged tensors of impossible shapes: refused when they are read, before memory is taken."""

from __future__ import annotations

import tracemalloc

import numpy as np
import pytest

from harness import (
    DebugValue,
    FormatError,
    TensorValue,
    Trace,
    ValueType,
    read_dumps,
    read_log,
    tensor_array,
    write_ed00,
)
from tests.support.logs import CompactLog
from tests.support.traces import EventSpec, RunSpec, trace_of

Shape = tuple[tuple[int, ...], tuple[int, ...]]

IMPOSSIBLE: dict[str, Shape] = {
    "2 sizes, but 1 strides": ((2, 3), (3,)),
    "0 sizes, but 1 strides": ((), (1,)),
    "17 dimensions, more than 16": ((1,) * 17, (1,) * 17),
    "negative size": ((-1,), (1,)),
    "impossibly large": ((2**45,), (1,)),
    "impossibly large: sizes (0, 1099511627776, 2)": ((0, 2**40, 2), (1, 1, 1)),
    "stride below 1 in (0,)": ((2**31 - 1,), (0,)),
    "stride below 1 in (4, -1)": ((2, 4), (4, -1)),
    "elements overlap": ((2**15, 2**15), (1, 1)),
}


def logged(shape: Shape) -> Trace:
    value = DebugValue(TensorValue(6, *shape, 0), ValueType.TENSOR)
    return trace_of(RunSpec([EventSpec("kernel", 0, 1), EventSpec(value=value)]))


def refused(data: bytes, shape: Shape) -> FormatError:
    """The error of reading the file; the array is refused, too."""
    with pytest.raises(FormatError, match="invalid tensor"):
        tensor_array(TensorValue(6, *shape, 0), bytes(64))
    with pytest.raises(FormatError) as caught:
        read_dumps(data)
    return caught.value


@pytest.mark.attack(
    "Files", "a tensor of an ETDump with an impossible shape", "refused before memory is allocated"
)
@pytest.mark.parametrize(("why", "shape"), IMPOSSIBLE.items(), ids=IMPOSSIBLE)
def test_an_impossible_tensor_in_a_dump_is_refused_before_memory_is_taken(
    why: str, shape: Shape
) -> None:
    data = write_ed00(logged(shape))
    refused(data, shape)  # imports what it needs
    tracemalloc.start()
    error = refused(data, shape)
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert why in error.message
    assert error.field == "Tensor.sizes"
    assert peak < 1_000_000
    found = read_dumps(data, salvage=True)
    assert len(found.dumps[0].trace) == 1, "the profile event is kept"
    assert len(found.damage) == 1


@pytest.mark.parametrize(
    ("sizes", "strides"),
    [((), ()), ((1, 1), (0, 2**62)), ((2, 3), (1, 2)), ((2, 2), (100, 3)), ((0, 5), (5, 1))],
)
def test_any_other_tensor_is_read(sizes: tuple[int, ...], strides: tuple[int, ...]) -> None:
    trace = logged((sizes, strides))
    [dump] = read_dumps(write_ed00(trace)).dumps
    assert dump.trace.debug_values == trace.debug_values
    assert tensor_array(TensorValue(6, sizes, strides, 0), bytes(2000)).shape == sizes


@pytest.mark.attack("Files", "a tensor of a device log with an impossible shape", "refused")
@pytest.mark.parametrize(
    ("sizes", "strides", "nbytes", "why"),
    [
        ((2**31 - 1,), (0,), 4, "stride below 1"),
        ((2**15, 2**15), (1, 1), 4, "elements overlap"),
        ((2, 2), (2, 1), 8, "does not match the sizes"),
    ],
)
def test_an_impossible_tensor_in_a_log_is_refused(
    sizes: tuple[int, ...], strides: tuple[int, ...], nbytes: int, why: str
) -> None:
    sound = read_log(CompactLog().block("Execute").tensor(6, (2, 2), (2, 1), 16).image())
    assert sound.debug_values[0].value == TensorValue(6, (2, 2), (2, 1), -1)
    log = CompactLog().block("Execute").tensor(6, sizes, strides, nbytes)
    with pytest.raises(FormatError, match=why):
        read_log(log.image())


def test_elements_are_where_the_strides_say() -> None:
    buffer = np.arange(8, dtype=np.float32).tobytes()
    array = tensor_array(TensorValue(6, (2, 2), (1, 4), 8), buffer)
    np.testing.assert_array_equal(array, [[2, 6], [3, 7]])
