"""What operators were given: joined from the .pte, or logged."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from pathlib import Path

import pytest

from harness import (
    DebugValue,
    Method,
    NotComparableError,
    Program,
    TensorValue,
    Trace,
    export_trace,
    read_program,
    write_ed00,
)
from harness.analyze.blocks import executed_methods
from tests.conftest import MODELS, CommandResult
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


Texts = tuple[list[str], list[str]]


def arguments(trace: Trace, method: Method) -> list[Texts | None]:
    """Inputs and outputs of each event, as a timeline of the model shows them."""
    document = json.loads(export_trace(trace, "kineto", None, method).data)
    rows = {
        event["args"]["Ev Idx"]: event["args"]
        for event in document["traceEvents"]
        if "Ev Idx" in event.get("args", {})
    }
    found: list[Texts | None] = []
    for row in range(len(trace)):
        known = rows.get(row, {})
        texts = [known[key].split(", ") if known.get(key) else [] for key in ("inputs", "outputs")]
        found.append((texts[0], texts[1]) if "operator" in known else None)
    return found


def test_inputs_and_outputs_are_told_apart() -> None:
    events: list[Row] = [
        ("native_call_relu.out", 0, 0, None),
        ("DELEGATE_CALL", 0, 1, None),
        ("native_call_add.out", 0, 2, None),
    ]
    bound = "float32[8]?"
    assert arguments(trace_of(events), small_program().methods[0]) == [
        ([bound], [bound]),
        ([bound], [bound]),
        ([bound, bound, "1"], [bound]),
    ]


def test_an_operator_in_place_keeps_its_input() -> None:
    builder = ProgramBuilder([0, 64])
    x, y = builder.tensor((4,), memory=(1, 0)), builder.tensor((3,), memory=(1, 16))
    builder.call("aten::copy_", x, y, x, overload="")
    builder.move(x, y)
    builder.jump_if_false(builder.value("bool", ("u8", 1)), 0)
    builder.free(x)
    method = read_program(builder.finish([x, y], [x])).methods[0]
    names = ("native_call_copy_", "move", "jump", "free")
    found = arguments(
        trace_of([(name, 0, number, None) for number, name in enumerate(names)]), method
    )
    first, second = "float32[4]", "float32[3]"
    assert found == [
        ([first, second], [first]),
        ([first], [second]),
        (["True"], []),
        ([first], []),
    ]


def test_events_get_the_arguments_of_their_instruction() -> None:
    method = small_program().methods[0]
    events: list[Row] = [
        ("native_call_relu.out", 0, 0, None),
        ("OPERATOR_CALL", 0, 0, None),
        ("DELEGATE_CALL", 0, 1, None),
        ("Method::execute", -1, 0, None),
    ]
    found = arguments(trace_of(events, events), method)
    assert found[0] == found[4]
    assert found[0] is not None
    assert found[2] is not None
    # What is around operators and executes no instruction itself has none.
    assert found[1] is found[3] is None


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
    assert found[0] == (["float32[8]?"], ["float32[3]"])
    assert found[3] == (["float32[3]"], ["float32[5]"])
    assert found[6] == (["float32[3]", "float32[5]", "1"], ["float32[8]?"])
    # The next run has logged nothing.
    assert found[8] == (["float32[8]?"], ["float32[8]?"])


def test_a_list_that_was_logged_as_one_value_is_divided() -> None:
    method = small_program().methods[0]
    tensors = DebugValue((TensorValue(6, (2,), (1,), 0),), 6)
    found = arguments(
        trace_of([("native_call_add.out", 0, 2, None), (None, 0, 2, tensors)]), method
    )
    assert found[0] is not None
    assert found[0][1] == ["float32[2]"]


def test_values_that_fit_no_arguments_are_left_alone() -> None:
    method = small_program().methods[0]
    events: list[Row] = [("DELEGATE_CALL", 0, 1, None), (None, 0, 1, logged(3))]
    assert arguments(trace_of(events), method)[0] == (["float32[8]?"], ["float32[8]?"])


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


@pytest.fixture
def exported(
    etharness: Callable[..., CommandResult], tmp_path: Path
) -> Callable[..., CommandResult]:
    """Export a trace with a model of two methods, and perhaps the name of one."""

    def export(trace: Trace, method: str = "") -> CommandResult:
        (tmp_path / "trace.etdp").write_bytes(write_ed00(trace))
        named = ["--method", method] if method else []
        model = ("--model", MODELS / "methods.pte")
        words = ("export", tmp_path / "trace.etdp", "-f", "kineto", *model)
        return etharness(*words, *named, "--force", "-o", tmp_path / "trace.json")

    return export


def test_the_method_is_found_by_its_operators_or_named(
    exported: Callable[..., CommandResult], tmp_path: Path
) -> None:
    forward = trace_of([("native_call_sigmoid.out", 0, 5, None)])
    assert exported(forward).code == 0
    assert "aten::sigmoid.out" in (tmp_path / "trace.json").read_text()
    for trace, method, code, said in (
        (forward, "encode", 3, "no execution of the trace is of method 'encode'"),
        (trace_of([("native_call_relu.out", 0, 2, None)]), "", 2, "several"),
        (trace_of([("native_call_tanh.out", 0, 0, None)]), "", 3, "not of any method"),
        (forward, "decode", 2, "method 'decode' not found"),
    ):
        found = exported(trace, method)
        assert (found.code, said in found.err) == (code, True), found.err


def test_each_execution_has_its_own_method(exported: Callable[..., CommandResult]) -> None:
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
    both = exported(trace_of(forward, encode))
    assert (both.code, "executions of several methods" in both.err) == (2, True), both.err
    with pytest.raises(NotComparableError, match="execution 2 of the trace"):
        executed_methods(trace_of(loading, forward, [("DELEGATE_CALL", 0, 0, None)]), program)
