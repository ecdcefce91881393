"""What operators were given: joined from the .pte, or logged."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from harness import (
    DebugValue,
    Method,
    NotComparableError,
    Program,
    TensorValue,
    Trace,
    UsageError,
    read_program,
)
from harness.analyze.blocks import blocks_of, executed_methods, find_method
from harness.analyze.workload import Arguments, event_arguments, method_arguments
from tests.conftest import MODELS
from tests.support import traces
from tests.support.programs import ProgramBuilder
from tests.support.traces import EventSpec, RunSpec

Row = tuple[str | None, int, int, DebugValue | None]


def trace_of(*blocks: Sequence[Row]) -> Trace:
    """A trace with the given name, chain, instruction and logged value per event."""
    return traces.trace_of(
        *(
            RunSpec([EventSpec(name, 0, 0, *place, value=value) for name, *place, value in block])
            for block in blocks
        )
    )


def logged(*sizes: int) -> DebugValue:
    return DebugValue(TensorValue(6, sizes, (1,) * len(sizes), 0), 5)


def small_program() -> Program:
    """Two kernels and a delegate; every tensor has a bound of 8 elements."""
    builder = ProgramBuilder([0, 4096])
    x, y, z, w = (builder.tensor((8,), memory=(1, 64 * number), dynamism=1) for number in range(4))
    one = builder.value("int", ("i64", 1))
    builder.call("aten::relu", x, y, y)
    builder.delegate("Npu", y, z)
    builder.call("aten::add", y, z, one, w, builder.tensors(w))
    return read_program(builder.finish([x], [w]))


def texts(found: Arguments | None) -> tuple[list[str], list[str]]:
    assert found is not None
    return [item.text for item in found.inputs], [item.text for item in found.outputs]


def arguments(trace: Trace, method: Method) -> list[Arguments | None]:
    return event_arguments(trace, blocks_of(trace, method))


def test_inputs_and_outputs_are_told_apart() -> None:
    static = method_arguments(small_program().methods[0])
    bound = "float32[8]?"
    assert texts(static[0, 0]) == ([bound], [bound])
    assert texts(static[0, 1]) == ([bound], [bound])
    assert texts(static[0, 2]) == ([bound, bound, "1"], [bound])


def test_an_operator_in_place_keeps_its_input() -> None:
    builder = ProgramBuilder([0, 64])
    x, y = builder.tensor((4,), memory=(1, 0)), builder.tensor((4,), memory=(1, 16))
    builder.call("aten::copy_", x, y, x, overload="")
    builder.move(x, y)
    builder.jump_if_false(builder.value("bool", ("u8", 1)), 0)
    builder.free(x)
    static = method_arguments(read_program(builder.finish([x, y], [x])).methods[0])
    numbers = {
        place: ([item.number for item in found.inputs], [item.number for item in found.outputs])
        for place, found in static.items()
    }
    assert numbers == {
        (0, 0): ([x, y], [x]),
        (0, 1): ([x], [y]),
        (0, 2): ([2], []),
        (0, 3): ([x], []),
    }


def test_events_get_the_arguments_of_their_instruction() -> None:
    method = small_program().methods[0]
    events: list[Row] = [
        ("native_call_relu.out", 0, 0, None),
        ("OPERATOR_CALL", 0, 0, None),
        ("DELEGATE_CALL", 0, 1, None),
        ("Method::execute", -1, 0, None),
    ]
    found = arguments(trace_of(events, events), method)
    assert found[0] is found[1] is found[4]
    assert found[2] is not None
    assert found[2].instruction.name == "Npu"
    assert found[3] is None


def test_logged_sizes_replace_bounds_from_then_on_within_a_run() -> None:
    method = small_program().methods[0]
    events: list[Row] = [
        ("native_call_relu.out", 0, 0, None),
        (None, 0, 0, logged(3)),
        ("OPERATOR_CALL", 0, 0, None),
        ("DELEGATE_CALL", 0, 1, None),
        (None, 0, 1, logged(3)),
        (None, 0, 1, logged(5)),
        ("native_call_add.out", 0, 2, None),
        ("OPERATOR_CALL", 0, 2, None),
    ]
    found = arguments(trace_of(events, events[:1]), method)
    assert texts(found[0]) == (["float32[8]?"], ["float32[3]"])
    assert texts(found[2]) == texts(found[0])
    assert texts(found[3]) == (["float32[3]"], ["float32[5]"])
    assert texts(found[6]) == (["float32[3]", "float32[5]", "1"], ["float32[8]?"])
    assert found[6] is not None
    assert found[6].inputs[0].strides == (1,)
    # The next run has logged nothing.
    assert texts(found[8]) == (["float32[8]?"], ["float32[8]?"])


def test_a_list_that_was_logged_as_one_value_is_divided() -> None:
    method = small_program().methods[0]
    tensors = DebugValue((TensorValue(6, (2,), (1,), 0),), 6)
    found = arguments(
        trace_of([("native_call_add.out", 0, 2, None), (None, 0, 2, tensors)]), method
    )
    assert texts(found[0])[1] == ["float32[2]"]


def test_values_that_fit_no_arguments_are_left_alone() -> None:
    method = small_program().methods[0]
    events: list[Row] = [("DELEGATE_CALL", 0, 1, None), (None, 0, 1, logged(3))]
    assert texts(arguments(trace_of(events), method)[0]) == (["float32[8]?"], ["float32[8]?"])


def test_another_models_trace_is_refused() -> None:
    method = small_program().methods[0]
    events: list[Row] = [
        ("native_call_relu.out", 0, 0, None),
        ("native_call_relu.out", 0, 2, None),
        ("native_call_relu.out", 0, 1, None),
        ("native_call_relu.out", 0, 7, None),
    ]
    with pytest.raises(NotComparableError, match=r"\(3 differ\)"):
        arguments(trace_of(events), method)


def test_the_method_is_found_by_its_operators_or_named() -> None:
    program = read_program((MODELS / "methods.pte").read_bytes())
    forward = trace_of([("native_call_sigmoid.out", 0, 5, None)])
    assert find_method(program, forward).name == "forward"
    with pytest.raises(NotComparableError, match="no execution of the trace is of method 'encode'"):
        find_method(program, forward, "encode")
    with pytest.raises(UsageError, match="several"):
        find_method(program, trace_of([("native_call_relu.out", 0, 2, None)]))
    with pytest.raises(NotComparableError, match="not of any method"):
        find_method(program, trace_of([("native_call_tanh.out", 0, 0, None)]))
    with pytest.raises(UsageError, match="method 'decode' not found"):
        find_method(program, forward, "decode")


def test_each_execution_has_its_own_method() -> None:
    program = read_program((MODELS / "methods.pte").read_bytes())
    encode, forward = (
        [
            (f"native_call_{step.name.partition('::')[2]}", 0, number, None)
            for number, step in enumerate(program.methods[index].chains[0])
        ]
        for index in (0, 1)
    )
    loading: list[Row] = [("Method::init", -1, 0, None)]
    trace = trace_of(loading, forward, encode, forward[:1], forward)
    names = [found and found.name for found in executed_methods(trace, program, "forward")]
    assert names == [None, *(program.methods[index].name for index in (1, 0, 1, 1))]
    with pytest.raises(UsageError, match="executions of several methods"):
        find_method(program, trace_of(forward, encode))
    with pytest.raises(NotComparableError, match="execution 2 of the trace"):
        executed_methods(trace_of(loading, forward, [("DELEGATE_CALL", 0, 0, None)]), program)
