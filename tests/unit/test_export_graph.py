"""Execution traces: nodes, what they hang on, and operands from the model."""

from __future__ import annotations

import io
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from harness import (
    Method,
    NotComparableError,
    Tensor,
    Trace,
    Value,
    ValueList,
    draw,
    export_trace,
    read_ed00,
    read_program,
)
from harness.analyze.workload import Argument
from harness.extensions.exports.execution_trace import GraphNode, graph
from harness.extensions.exports.kineto import TensorNumbers, planned_ids, profiler_inputs
from tests.conftest import FIXTURES, MODELS, CommandResult
from tests.support.exports import delegated_trace

OPERATOR_SCOPE = 0
PROCESS = "[pytorch|profiler|execution_trace|process]"
THREAD = "[pytorch|profiler|execution_trace|thread]"
USER_SCOPE = 7

DUMP = FIXTURES / "kws_f32_executorch.etdp"
MODEL = MODELS / "kws_f32.pte"


@pytest.fixture(scope="module")
def recorded() -> Trace:
    return read_ed00(DUMP.read_bytes())


@pytest.fixture(scope="module")
def method() -> Method:
    found = read_program(MODEL.read_bytes()).method("forward")
    assert found is not None
    return found


def nodes_of(trace: Trace, method: Method | None = None) -> list[GraphNode]:
    return graph(draw(trace, method, wrappers=True), method)


def test_what_a_node_depends_on_comes_first(recorded: Trace, method: Method) -> None:
    for nodes in (nodes_of(recorded, method), nodes_of(recorded), nodes_of(delegated_trace())):
        assert [node.id for node in nodes] == list(range(1, len(nodes) + 1))
        assert [node.name for node in nodes[:2]] == [PROCESS, THREAD]
        for node in nodes[1:]:
            assert node.parent < node.id
            assert all(need < node.id for need in node.data_deps)


def test_scopes_are_of_operators_or_around_them(recorded: Trace) -> None:
    for node in nodes_of(recorded)[2:]:
        inside = node.name.startswith(("native_call", "OPERATOR_CALL"))
        assert node.scope == (OPERATOR_SCOPE if inside else USER_SCOPE)


def test_without_a_model_each_event_needs_the_one_before() -> None:
    nodes = nodes_of(delegated_trace())
    assert [node.data_deps for node in nodes[2:]] == [(node.id - 1,) for node in nodes[2:]]
    assert not any(node.schema or node.inputs.values for node in nodes)


def test_delegates_run_on_streams_and_others_on_threads() -> None:
    nodes = nodes_of(delegated_trace())
    assert {node.name for node in nodes if node.stream is not None} == {"[0]", "matmul"}
    call = next(node for node in nodes if node.name == "DELEGATE_CALL")
    assert call.own == call.duration  # a delegate's own clock takes nothing from it
    execute = next(node for node in nodes if node.name == "Method::execute")
    assert execute.own < execute.duration


def test_operators_need_what_wrote_their_inputs(recorded: Trace, method: Method) -> None:
    nodes = nodes_of(recorded, method)
    kernels = [node for node in nodes if node.schema]
    assert len(kernels) == 3 * len(method.chains[0])
    ids = {node.id for node in nodes}
    for kernel in kernels:
        assert kernel.parent in kernel.data_deps
        tensors = {value[0] for value in kernel.inputs.values if isinstance(value, list)}
        for need in set(kernel.data_deps) - {kernel.parent}:
            assert tensors & {value[0] for value in nodes[need - 1].outputs.values}
        for value, type_ in zip(kernel.inputs.values, kernel.inputs.types, strict=True):
            if type_.startswith("Tensor("):
                assert not {value[0], value[1]} & ids  # one counter numbers all of them
                assert value[2:] == [0, value[3], 4, "cpu"]
    # The first of each execution depends on no other execution's.
    for execution in range(3):
        first = kernels[execution * len(method.chains[0])]
        assert first.data_deps == (first.parent,)


def test_what_a_delegate_gave_is_needed_by_what_takes_it() -> None:
    method = read_program((MODELS / "npu_int.pte").read_bytes()).method("forward")
    nodes = {node.id: node for node in nodes_of(delegated_trace(), method)}
    calls = [node for node in nodes.values() if node.schema == "SimulatedNpu"]
    assert [node.name for node in calls] == ["DELEGATE_CALL"] * 3
    for call in calls:
        assert set(call.inputs.types) == set(call.outputs.types) == {"Tensor(float)"}
        jobs = [node for node in nodes.values() if node.parent == call.id]
        assert [job.name for job in jobs] == ["[0]", "matmul"]
        assert [job.data_deps for job in jobs] == [(call.id,), (call.id, jobs[0].id)]
        takes = [node for node in nodes.values() if call.id in node.data_deps and node.schema]
        assert [node.schema for node in takes] == ["aten::sigmoid.out"]
        assert takes[0].inputs.values[0] in call.outputs.values


def test_executions_follow_each_other(recorded: Trace, method: Method) -> None:
    executions = [node for node in nodes_of(recorded, method) if node.name == "Method::execute"]
    assert executions[1].data_deps == (executions[0].id,)
    assert executions[2].data_deps == (executions[1].id,)


def test_another_models_trace_is_refused(method: Method) -> None:
    pytest.importorskip("google.protobuf")
    with pytest.raises(NotComparableError, match="execution 1 of the trace is not of method"):
        export_trace(delegated_trace(), "chakra", method=method)


def operand(value: Value) -> tuple[Any, Any, str, Any]:
    found = TensorNumbers(None, 100).operands([Argument(7, value)])
    return found.values[0], found.shapes[0], found.types[0], found.strides[0]


PLANNED = Tensor(1, (2, 3), (1, 0), pool=1, offset=64)


@pytest.mark.parametrize(
    ("value", "spelt"),
    [
        (PLANNED, ([100, 101, 0, 6, 1, "cpu"], [2, 3], "Tensor(signed char)", [1, 2])),
        (Tensor(22, (4,), (0,)), ([100, 101, 0, 4, 2, "cpu"], [4], "Tensor(bits16)", [1])),
        (3, (3, [], "Int", [])),
        (True, (True, [], "Bool", [])),
        (0.5, (0.5, [], "Double", [])),
        (float("-inf"), ("-inf", [], "Double", [])),
        ("none", ("none", [], "String", [])),
        (None, ("<None>", [], "None", [])),
        (ValueList((1, 2), (3, 4)), ([1, 2], [[], []], "GenericList[Int,Int]", [[], []])),
        (ValueList((0.5, True)), ([0.5, True], [[], []], "GenericList[Double,Bool]", [[], []])),
    ],
)
def test_operands_are_spelt_as_pytorch_does(value: Value, spelt: tuple[Any, ...]) -> None:
    assert operand(value) == spelt


def test_concrete_values_are_spelt_as_the_profiler_does() -> None:
    listed = ValueList((PLANNED, PLANNED), (1, 2))
    values: list[Value] = [PLANNED, listed, 1.0, 1e-10, 0.25, float("inf"), True, 7, "mean", None]
    found = profiler_inputs(
        TensorNumbers(None, 1).operands([Argument(number, v) for number, v in enumerate(values)])
    )
    concrete = ["", "", "1.", "1e-10", "0.25", "inf", "True", "7", "", ""]
    assert found["Concrete Inputs"] == concrete
    assert found["Input type"] == ["signed char", "TensorList", *["Scalar"] * 6, "", ""]
    assert found["Input Dims"] == [[2, 3], [[2, 3], [2, 3]], *[[]] * 8]


def test_tensors_share_a_storage_only_where_one_lies_at_a_time(method: Method) -> None:
    ids = planned_ids(method)
    numbers = TensorNumbers(method, 1)
    found = numbers.operands([Argument(number, method.values[number]) for number in ids])
    storages = [value[1] for value in found.values]
    assert len({value[0] for value in found.values}) == len(ids)
    assert len(set(storages)) == len({stay.storage for stay in ids.values()})
    again = numbers.operands([Argument(number, method.values[number]) for number in ids])
    assert again.values == found.values


def test_a_delegates_track_is_called_as_the_model_says(
    etharness: Callable[..., CommandResult], tmp_path: Path
) -> None:
    trace = delegated_trace()
    npu = read_program((MODELS / "npu_int.pte").read_bytes()).method("forward")
    assert npu is not None
    assert draw(trace, npu).tracks[1].name == "operators in SimulatedNpu #0"
    arguments = ("--model", MODEL, "--method", "forward", "-o", tmp_path / "x.json")
    code, out, err = etharness("export", DUMP, "-f", "chakra", *arguments)
    assert code == 0
    assert "chakra" in out
    assert err == ""


def test_what_is_unknown_without_a_model_is_said(recorded: Trace) -> None:
    (note,) = export_trace(recorded, "chakra").notes
    assert "--model" in note


def test_chakras_nodes_are_busy_only_with_their_own_time() -> None:
    pytest.importorskip("google.protobuf")
    from google.protobuf import proto

    from harness.extensions.exports.execution_trace import MESSAGES
    from harness.extensions.exports.perfetto import messages

    types = messages("test_chakra", MESSAGES)
    stream = io.BytesIO(export_trace(delegated_trace(), "chakra").data)
    found = [proto.parse_length_prefixed(types["GlobalMetadata"], stream)]
    while node := proto.parse_length_prefixed(types["Node"], stream):
        found.append(node)
    nodes = nodes_of(delegated_trace())[1:]
    assert len(found) == 1 + len(nodes)
    for message, node in zip(found[1:], nodes, strict=True):
        assert (message.id, message.name) == (node.id, node.name)
        busy = node.duration if node.stream is not None else node.own
        assert message.duration_micros == (busy // 1000 if node.record else 0)
