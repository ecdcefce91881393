"""Values that the tracer logs: what is in the log, what is lost, and what is left of a tensor."""

from __future__ import annotations

import ctypes as ct

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from harness import (
    DebugValue,
    FormatError,
    Losses,
    TensorValue,
    Trace,
    ValueType,
    left_out,
    read_ed00,
    read_log,
    tensor_array,
    write_ed00,
)
from harness.records.trace import NUMPY_TYPES, STORED_AS
from harness.testing import device_log_format as log_format
from tests.support.tracer import CTracer, LoggedTensor, LoggedValue

BFLOAT16 = 15

OUTPUTS, INTERMEDIATE = 1, 2


def tracer_with(library: ct.CDLL, debug: int, level: int = INTERMEDIATE) -> CTracer:
    tracer = CTracer(library, 4096, debug)
    tracer.call("set_debug_level", level)
    tracer.call("create_event_block", b"Execute")
    return tracer


def log(tracer: CTracer, value: object, *, output: bool = False) -> None:
    logged = value if isinstance(value, LoggedValue) else LoggedValue.of(value)
    tracer.call("log_evalue", int(output), ct.byref(logged))


def array_value(array: np.ndarray, scalar_type: int) -> LoggedValue:
    """A tensor with the array's own strides."""
    steps = [step // array.itemsize for step in array.strides]
    dims = ct.c_int32 * array.ndim
    memory = array.tobytes("A")
    value = LoggedValue.of((scalar_type, list(array.shape), memory))
    value.content.tensor = LoggedTensor(
        memory, len(memory), dims(*array.shape), dims(*steps), array.ndim, scalar_type
    )
    value.memory = memory
    return value


def only(trace: Trace) -> DebugValue:
    [value] = trace.debug_values
    return value


@pytest.mark.parametrize("order", ["C", "F"])
@pytest.mark.parametrize("scalar_type", sorted(NUMPY_TYPES))
def test_a_tensor_of_every_type_comes_back(etstub: ct.CDLL, scalar_type: int, order: str) -> None:
    generator = np.random.default_rng(scalar_type)
    dtype = np.dtype(NUMPY_TYPES[scalar_type]).newbyteorder("<")
    array = np.asarray(generator.integers(0, 100, (2, 3, 4)) * 0.5, order=order).astype(dtype)
    tracer = tracer_with(etstub, 1024)
    log(tracer, np.int32(0).item())
    log(tracer, array_value(array, scalar_type))
    value = read_log(tracer.image()).debug_values[1]
    assert isinstance(value.value, TensorValue)
    assert value.value.scalar_type == scalar_type
    found = tensor_array(value.value, tracer.debug_bytes())
    assert found.dtype == array.dtype
    assert np.array_equal(found, array)


@given(st.lists(st.integers(0, 2**16 - 1), min_size=1, max_size=8))
def test_no_bit_of_a_bfloat16_is_lost(etstub: ct.CDLL, bits: list[int]) -> None:
    stored = np.array(bits, np.uint16)
    tracer = tracer_with(etstub, 64)
    log(tracer, array_value(stored, BFLOAT16))
    value = only(read_log(tracer.image())).value
    assert isinstance(value, TensorValue)
    found = tensor_array(value, tracer.debug_bytes())
    assert found.dtype == np.float32
    assert np.array_equal(found.view(np.uint32) >> 16, stored)
    assert not np.any(found.view(np.uint32) & 0xFFFF)


@pytest.mark.parametrize("scalar_type", sorted(STORED_AS))
def test_a_tensor_without_dimensions_is_an_array_without(etstub: ct.CDLL, scalar_type: int) -> None:
    stored = np.array(1).astype(STORED_AS[scalar_type])
    tracer = tracer_with(etstub, 64)
    log(tracer, array_value(stored, scalar_type))
    value = only(read_log(tracer.image())).value
    assert isinstance(value, TensorValue)
    found = tensor_array(value, tracer.debug_bytes())
    assert isinstance(found, np.ndarray)
    assert found.shape == ()
    expected = stored.astype(np.uint32) << 16 if scalar_type == BFLOAT16 else stored
    assert found.tobytes() == expected.tobytes()


@pytest.mark.parametrize("scalar_type", sorted(set(STORED_AS) - set(NUMPY_TYPES) - {BFLOAT16}))
def test_types_that_numpy_has_not_come_as_they_are_stored(
    etstub: ct.CDLL, scalar_type: int
) -> None:
    stored = np.arange(6).astype(STORED_AS[scalar_type])
    tracer = tracer_with(etstub, 64)
    log(tracer, array_value(stored, scalar_type))
    value = only(read_log(tracer.image())).value
    assert isinstance(value, TensorValue)
    assert np.array_equal(tensor_array(value, tracer.debug_bytes()), stored)


def test_a_full_debug_buffer_loses_bytes_and_nothing_else(etstub: ct.CDLL) -> None:
    tracer = tracer_with(etstub, 40)
    for number in range(3):
        log(tracer, (6, [4], bytes([number + 1]) * 16))
    log(tracer, (1, [3], b"abc"))  # what still fits is kept
    log(tracer, [(1, [1], b"d"), (1, [9], b"too large")])
    trace = read_log(tracer.image())
    assert trace.losses == Losses(values=2)
    assert [value.lost for value in trace.debug_values] == [False, False, True, False, True]
    places = [value.value.offset for value in trace.debug_values[:4]]  # type: ignore[union-attr]
    assert places == [0, log_format.PAYLOAD_ALIGNMENT, -1, 2 * log_format.PAYLOAD_ALIGNMENT]
    assert [len(value.value.sizes) for value in trace.debug_values[:4]] == [1] * 4  # type: ignore[union-attr]
    with pytest.raises(FormatError, match="debug buffer was full"):
        tensor_array(trace.debug_values[2].value, tracer.debug_bytes())  # type: ignore[arg-type]
    # An ED00 file cannot say that bytes are lost: Inspector would show others.
    kept = read_ed00(write_ed00(trace))
    assert left_out(trace).lost_values == len(trace) - len(kept) == 2


def test_without_a_debug_buffer_shapes_are_logged(etstub: ct.CDLL) -> None:
    tracer = tracer_with(etstub, 0)
    log(tracer, (6, [2, 3], bytes(24)))
    log(tracer, (6, [0, 3], b""))
    trace = read_log(tracer.image())
    assert trace.losses == Losses(values=1)
    assert [value.value.sizes for value in trace.debug_values] == [(2, 3), (0, 3)]  # type: ignore[union-attr]
    empty = trace.debug_values[1].value
    assert isinstance(empty, TensorValue)
    assert tensor_array(empty, b"").shape == (0, 3)


def test_levels_choose_by_role(etstub: ct.CDLL) -> None:
    for level, expected in ((0, []), (OUTPUTS, [2]), (INTERMEDIATE, [1, 2, 3])):
        tracer = tracer_with(etstub, 64, level)
        log(tracer, 1)
        log(tracer, 2, output=True)
        logged = LoggedValue.of(3)
        tracer.call("log_intermediate_output_delegate", b"npu", -1, ct.byref(logged))
        trace = read_log(tracer.image())
        assert [value.value for value in trace.debug_values] == expected
        assert not trace.losses.any


def test_every_kind_of_output_is_marked_as_one(etstub: ct.CDLL) -> None:
    values = [None, 5, 2.5, True, (6, [1], bytes(4)), [(6, [1], bytes(4))]]
    tracer = tracer_with(etstub, 256)
    for value in values:
        log(tracer, value, output=True)
    trace = read_log(tracer.image())
    assert [value.output for value in trace.debug_values] == [True] * len(values)
    types = [ValueType.NULL, ValueType.INT, ValueType.DOUBLE, ValueType.BOOL]
    types += [ValueType.TENSOR, ValueType.TENSOR_LIST]
    assert [value.type for value in trace.debug_values] == types


def test_the_filter_judges_what_delegates_log(etstub: ct.CDLL) -> None:
    tracer = tracer_with(etstub, 64)
    tracer.set_filter([b"keep*"], [3, 5])
    for name, number in ((b"keep me", -1), (b"not me", -1), (None, 4), (None, 6)):
        logged = LoggedValue.of(number)
        tracer.call("log_intermediate_output_delegate", name, number, ct.byref(logged))
    log(tracer, 7)  # the runtime's own values are not filtered, as in ExecuTorch
    trace = read_log(tracer.image())
    assert [value.value for value in trace.debug_values] == [-1, 4, 7]
    assert trace.delegate_int.tolist() == [-1, 4, -1]
    assert trace.filtered_events == 2


def test_a_value_tells_when_it_was_logged_and_where_it_belongs(etstub: ct.CDLL) -> None:
    tracer = tracer_with(etstub, 64)
    tracer.call("set_chain_debug_handle", 2, 70_000)
    log(tracer, 1)
    tracer.call("set_chain_debug_handle", -1, 0)
    log(tracer, 2, output=True)
    trace = read_log(tracer.image())
    assert trace.chain.tolist() == [2, -1]
    assert trace.instruction.tolist() == [70_000, 0]
    assert np.all(trace.end > trace.start)
    assert left_out(trace).value_times == 2


def test_a_list_that_no_record_can_count_is_dropped(etstub: ct.CDLL) -> None:
    tracer = CTracer(etstub, 1 << 22)
    tracer.call("set_debug_level", INTERMEDIATE)
    log(tracer, [(6, [], b"")] * 70_000)
    log(tracer, 1)
    trace = read_log(tracer.image())
    assert trace.losses == Losses(values=1)
    assert only(trace).value == 1
