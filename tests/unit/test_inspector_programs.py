"""The Inspector with ETRecord objects: numeric gaps, programs, references."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any

import numpy as np
import pytest

from harness import DebugValue, TensorValue, UsageError, write_ed00
from harness.inspector import Inspector
from harness.inspector.comparators import compare_runs
from tests.support.traces import EventSpec, RunSpec, trace_of


# Stand-ins for exported programs and ETRecord objects, which need torch to be real. What the
# real ones do is shown in ``tests/oracle/test_inspector_same.py``.
class Tensor(np.ndarray):
    """An array that has what is used of a torch tensor; equal only to itself, as a key."""

    __hash__ = object.__hash__

    def _itself(self) -> Tensor:
        return self

    detach = clone = cpu = double = _itself

    def numpy(self) -> np.ndarray:
        return np.asarray(self)


def tensor(*values: float) -> Tensor:
    return np.array(values, np.float32).view(Tensor)


@dataclass(eq=False)
class Node:
    """A node of a graph, and the value it has when the graph is executed."""

    name: str
    value: Any = None
    handle: int | None = None
    op: str = "call_function"
    origin: tuple[str, int] | None = None
    target: Any = None
    meta: dict[str, Any] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.target = SimpleNamespace(__name__=f"aten.{self.name}")
        self.meta["stack_trace"] = f"File of {self.name}"
        if self.handle is not None:
            self.meta["debug_handle"] = self.handle
        if self.origin is not None:
            name, graph_id = self.origin
            self.meta["from_node"] = [SimpleNamespace(name=name, graph_id=graph_id, from_node=[])]


class Program:
    """An exported program; also what its ``module()`` returns."""

    def __init__(self, nodes: Sequence[Node]) -> None:
        self.graph = SimpleNamespace(nodes=[Node("x", op="placeholder"), *nodes])
        self.graph_module = self

    def module(self) -> Program:
        return self


class Interpreter:
    """Executes a graph: every node has its value."""

    def __init__(self, graph: Program) -> None:
        self.graph = graph.graph

    def run(self, *_: Any, enable_io_processing: bool = True) -> None:
        for node in self.graph.nodes:
            self.run_node(node)

    def run_node(self, node: Node) -> Any:
        return node.value


def install_torch(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let ``import torch`` find the stand-ins."""
    torch, fx = ModuleType("torch"), ModuleType("torch.fx")
    torch.__dict__.update(Tensor=Tensor, fx=fx)
    fx.__dict__.update(Interpreter=Interpreter)
    monkeypatch.setitem(__import__("sys").modules, "torch", torch)
    monkeypatch.setitem(__import__("sys").modules, "torch.fx", fx)


def record_of(
    edge: Any,
    handles: Mapping[Any, Any],
    *,
    exported: Program | None = None,
    delegates: Mapping[Any, Any] | None = None,
    outputs: Mapping[Any, int] | None = None,
    graphs: Mapping[str, Program] | None = None,
    references: Any = None,
    inputs: Any = ((1,),),
) -> Any:
    """An ETRecord object of the method ``forward``."""
    return SimpleNamespace(
        edge_dialect_program=edge,
        exported_program=exported,
        export_graph_id=7,
        graph_map=graphs,
        _debug_handle_map={"forward": handles},
        _delegate_map={"forward": delegates or {}},
        _instruction_id_to_num_outs_map={"forward": outputs or {}},
        _reference_outputs=references,
        _representative_inputs=inputs,
    )


pytest.importorskip("pandas", reason="needs the extra 'inspector'")
pytestmark = pytest.mark.filterwarnings("ignore:values are computed with")


@pytest.fixture(autouse=True)
def torch(monkeypatch: pytest.MonkeyPatch) -> None:
    install_torch(monkeypatch)


class Logged:
    """Values in a debug buffer, in the order in which they are logged."""

    def __init__(self, directory: Path) -> None:
        self.path = directory / "debug.bin"
        self.data = b""

    def value(self, instruction: int, *elements: float, output: bool = False) -> EventSpec:
        array = np.array(elements, np.float32)
        stored = TensorValue(6, array.shape, (1,), len(self.data))
        self.data += array.tobytes()
        return EventSpec(value=DebugValue(stored, 5, output), instruction=instruction)

    def inspect(self, events: list[EventSpec], etrecord: Any, **options: Any) -> Inspector:
        self.path.write_bytes(self.data)
        data = write_ed00(trace_of(RunSpec(events)))
        return Inspector(
            etdump_data=data,
            etrecord=etrecord,
            debug_buffer_path=self.path,
            tensors="numpy",
            **options,
        )


@pytest.fixture
def logged(tmp_path: Path) -> Logged:
    return Logged(tmp_path)


def kernel(
    instruction: int, name: str = "native_call_a.out", delegate: int | None = None
) -> EventSpec:
    return EventSpec(name, 0, 1, 0, instruction, delegate)


EDGE = Program(
    [
        Node("a", tensor(1, 2), 1, origin=("first", 7)),
        Node("b", tensor(3, 4), 2, origin=("first", 7)),
        Node("getitem", tensor(0, 0), 2, origin=("first", 7)),
        Node("c", tensor(5, 6), 3, origin=("second", 7)),
    ]
)


def test_an_operators_value_is_compared_with_the_programs(logged: Logged) -> None:
    record = record_of(EDGE, {0: 1, "1": (2, 3), 9: [3]})
    events = [
        kernel(0),
        logged.value(0, 1, 5),
        EventSpec("OPERATOR_CALL", 0, 2),
        kernel(1),
        logged.value(1, 5, 6),
    ]
    inspector = logged.inspect(events, record)
    with pytest.warns(UserWarning, match="edge dialect"):
        table = inspector.calculate_numeric_gap("mse")
    assert [*table["aot_debug_handle"]] == [(1,), (2, 3)]
    assert [*table["gap"]] == [[4.5], [0.0]]
    assert [*table["aot_ops"]] == [["a"], ["b", "c"]]
    assert [*table["runtime_ops"]] == [["native_call_a.out"], ["native_call_a.out"]]
    assert table["stacktraces"][1] == {"b": "File of b", "c": "File of c"}


def test_handles_that_overlap_are_one_value_the_last(logged: Logged) -> None:
    record = record_of(EDGE, {0: (1, 2), 1: (2, 3)})
    forward = [kernel(0), logged.value(0, 9, 9), kernel(1), logged.value(1, 5, 7)]
    for events in (forward, [*forward[2:], *forward[:2]]):
        table = logged.inspect(events, record).calculate_numeric_gap(
            "L1", reference_graph="edge_dialect_exported_program"
        )
        assert [*table["aot_debug_handle"]] == [(1, 2, 3)]
        assert [*table["gap"]] == [[1.0]]


def test_a_call_is_left_out_where_its_operators_were_logged(logged: Logged) -> None:
    delegates = {0: {"name": "Npu", "delegate_map": {0: (1,), 1: 2}}}
    record = record_of(EDGE, {0: (1, 2)}, delegates=delegates)
    inner = logged.value(0, 1, 2)
    events = [
        kernel(0, "", 0),
        EventSpec(value=inner.value, instruction=0, delegate=0),
        kernel(0, "DELEGATE_CALL"),
        logged.value(0, 8, 8),
    ]
    table = logged.inspect(events, record).calculate_numeric_gap("MSE")
    assert [*table["aot_debug_handle"]] == [(1,)]
    assert [*table["gap"]] == [[0.0]]


def test_several_outputs_are_told_apart(logged: Logged) -> None:
    # Of a call with two outputs, each belongs to one of the last handles.
    record = record_of(EDGE, {0: (1, 2, 3)}, outputs={0: 2})
    call = [kernel(0, "DELEGATE_CALL"), logged.value(0, 3, 4), logged.value(0, 5, 6)]
    table = logged.inspect(call, record).calculate_numeric_gap("MSE")
    assert [*table["gap"]] == [[0.0], [0.0]]
    # Of an operator that logged several, the one of the same shape.
    single = [kernel(0), logged.value(0, 5, 6), logged.value(0, 1, 2, 3)]
    table = logged.inspect(single, record_of(EDGE, {0: 3})).calculate_numeric_gap("MSE")
    assert [*table["gap"]] == [[0.0]]
    # Or the last, where nothing tells.
    twice = [kernel(0), logged.value(0, 1, 1), logged.value(0, 5, 6)]
    table = logged.inspect(twice, record_of(EDGE, {0: 3})).calculate_numeric_gap("MSE")
    assert [*table["gap"]] == [[0.0]]


def test_what_has_no_counterpart_is_left_out(logged: Logged) -> None:
    several = Program([Node("split", [tensor(1), tensor(2)], 1), Node("rest", 3.0, 2)])
    events = [kernel(0), logged.value(0, 1), kernel(1), kernel(2), logged.value(2, 7)]
    table = logged.inspect(events, record_of(several, {0: 1, 1: 2, 2: 5})).calculate_numeric_gap(
        "L1"
    )
    assert len(table) == 0
    one = Program([Node("split", [tensor(1)], 1)])
    table = logged.inspect(events, record_of(one, {0: 1})).calculate_numeric_gap("L1")
    assert [*table["gap"]] == [[0.0]]


def exported() -> Program:
    return Program(
        [
            Node("first", tensor(3, 4)),
            Node("unused", tensor(0)),
            Node("later", tensor(5, 6), origin=("second", 7)),
        ]
    )


def test_the_exported_program_gets_the_handles_of_what_was_made_of_it(logged: Logged) -> None:
    edge = Program([EDGE.graph.nodes[2], EDGE.graph.nodes[4]])
    record = record_of(edge, {0: 2, 1: 3}, exported=exported())
    events = [kernel(0), logged.value(0, 3, 4), kernel(1), logged.value(1, 5, 7)]
    table = logged.inspect(events, record).calculate_numeric_gap("L1")
    assert [*table["aot_ops"]] == [["first"], ["later"]]
    assert [*table["gap"]] == [[0.0], [1.0]]


def test_an_exported_program_that_lacks_operators_is_refused_unless_that_is_allowed(
    logged: Logged,
) -> None:
    edge = Program([EDGE.graph.nodes[2], Node("new", tensor(0), 9)])
    record = record_of(edge, {0: 2}, exported=exported())
    inspector = logged.inspect([kernel(0), logged.value(0, 3, 5)], record)
    with pytest.raises(ValueError, match="validation"):
        inspector.calculate_numeric_gap("L1", reference_graph="exported_program")
    table = inspector.calculate_numeric_gap(
        "L1", disable_debug_handle_valdiation=True, reference_graph="exported_program"
    )
    assert [*table["aot_ops"]] == [["first"]]


def test_other_graphs_are_found_by_name(logged: Logged) -> None:
    later = Program([Node("whole", tensor(1), 1)])
    record = record_of({"forward": EDGE}, {0: 1}, graphs={"later/forward": later})
    events = [kernel(0), logged.value(0, 3)]
    inspector = logged.inspect(events, record, reference_graph_name="later/forward")
    assert inspector.event_blocks[0].events[0].op_types == ["aten.whole"]
    for name in ("later", "later/forward"):
        table = inspector.calculate_numeric_gap("L1", reference_graph=name)
        assert [*table["gap"]] == [[2.0]]
    with pytest.raises(ValueError, match="later/forward"):
        inspector.calculate_numeric_gap("L1", reference_graph="nothing")
    with pytest.raises(UsageError, match="no graph"):
        logged.inspect(events, record, reference_graph_name="nothing")
    assert inspector.get_exported_program() is EDGE
    assert inspector.get_exported_program("later/forward") is later
    assert inspector.get_exported_program("nothing") is None


def test_what_is_missing_for_a_gap_is_said(logged: Logged) -> None:
    events = [kernel(0), logged.value(0, 3)]
    inspector = logged.inspect(events, record_of(EDGE, {0: 1}, inputs=None))
    edge = "edge_dialect_exported_program"
    with pytest.raises(ValueError, match="MSE, L1, SNR"):
        inspector.calculate_numeric_gap("cosine", reference_graph=edge)
    with pytest.raises(ValueError, match="representative inputs"):
        inspector.calculate_numeric_gap("MSE", reference_graph=edge)
    with pytest.raises(UsageError, match="no edge dialect graph"):
        logged.inspect(events, record_of(None, {0: 1}))


def test_modules_of_an_object_are_those_of_its_nodes(logged: Logged) -> None:
    node = Node("a", tensor(1), 1)
    node.meta["nn_module_stack"] = {"L__self__": ("", "Net"), "L__self__a": ("a", Logged)}
    inspector = logged.inspect([kernel(0)], record_of(Program([node]), {0: 1}))
    assert inspector.event_blocks[0].events[0].module_hierarchy["a_"] == {
        "L__self__": ("", "Net"),
        "L__self__a": ("a", "tests.unit.test_inspector_programs.Logged"),
    }


def references() -> dict[str, Any]:
    return {"forward": [[tensor(0, 0)], [tensor(3, 3)]]}


def test_outputs_are_compared_run_by_run(logged: Logged) -> None:
    record = record_of(EDGE, {0: 1}, references=references())
    events = [kernel(0), logged.value(0, 3, 4, output=True)]
    inspector = logged.inspect(events, record, bundled_input_index=1)
    (found,) = compare_runs(inspector)
    assert (found.run, found.output) == (0, 0)
    assert found.metrics["mse"] == pytest.approx(0.5)
    for index in (None, 2):
        unknown = logged.inspect(events, record, bundled_input_index=index)
        assert unknown.event_blocks[0].reference_output is None
        with pytest.raises(UsageError, match="no run has both outputs"):
            compare_runs(unknown)


def test_elements_outside_of_the_buffer_are_missing(logged: Logged) -> None:
    event = logged.value(0, 1, 2)
    logged.data = b""
    with pytest.warns(UserWarning, match="1 logged tensors"):
        inspector = logged.inspect([kernel(0), event], record_of(EDGE, {0: 1}))
    assert isinstance(inspector.event_blocks[0].events[0].debug_data[0], TensorValue)
