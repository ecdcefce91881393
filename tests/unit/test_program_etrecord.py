"""ETRecords, and the symbols of events."""

from __future__ import annotations

import subprocess
import sys
import zipfile
from pathlib import Path
from typing import Any
from zipfile import ZIP_DEFLATED, ZipFile

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from harness import EtrecordNode, EventSymbols, FormatError, Module, UsageError, read_etrecord
from harness.inspector.etrecord import as_tuple, read_graph
from harness.inspector.inspector import time_of_module
from harness.inspector.symbols import event_symbols, module_times, symbol_table
from tests.conftest import MODELS
from tests.support.records import EDGE, graph, node, write_record
from tests.support.traces import EventSpec, RunSpec, trace_of

NODES = [
    node("mul", "aten.mul.Tensor", 1, "", "encoder", "encoder.layers.1"),
    node("add", "aten.add.Tensor", 1, "", "encoder", "encoder.layers.1"),
    node("relu", "aten.relu.default", 2, "", "encoder", "encoder.layers.12"),
    node("tanh", "aten.tanh.default", 3, "", "head"),
    node("lost", "aten.abs.default", None),
    {"name": "item", "target": "_operator.getitem", "metadata": {}},
]
FILES: dict[str, Any] = {
    "debug_handle_map": {"forward": {"0": 1, "1": [2, 3], "5": None, "12": 3}},
    "delegate_map": {
        "forward": {"1": {"name": "Npu", "delegate_map": {"2": [2], "12": 3, "a_2": [3, 2]}}}
    },
    "instruction_id_to_num_outs_map": {"forward": {"1": 2}},
    "export_graph_id": 77,
    f"{EDGE}/forward": graph(NODES),
    f"{EDGE}/forward_state_dict": b"\x80",
    "exported_program": graph(
        [{"name": "a", "target": "torch.ops.aten.mul.Tensor", "metadata": {}}]
    ),
}


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return write_record(tmp_path / "etrecord.bin", FILES)


def test_maps_and_graphs_are_read(path: Path) -> None:
    record = read_etrecord(path)
    method = record.methods["forward"]
    assert method.handles == {0: 1, 1: (2, 3), 12: 3}
    assert [as_tuple(handles) for handles in method.handles.values()] == [(1,), (2, 3), (3,)]
    assert method.delegates[1].name == "Npu"
    assert method.delegates[1].handles == {"2": (2,), "12": 3, "a_2": (3, 2)}
    assert method.outputs == {1: 2}
    assert record.export_graph_id == 77
    edge = record.edge["forward"]
    assert [item.name for item in edge] == ["mul", "add", "relu", "tanh", "lost"]
    assert edge[3] == EtrecordNode(
        "tanh",
        "aten.tanh.default",
        3,
        "File of tanh",
        (
            Module("L__self__", "", "Class[, (int,)]"),
            Module("L__self__head", "head", "Class[head, (int,)]"),
        ),
    )
    assert edge[4].modules is edge[4].debug_handle is None
    assert record.graphs == ("exported_program",)
    assert read_graph(path, "exported_program")[0].op == "mul.Tensor"
    with pytest.raises(UsageError, match="no graph 'nothing'"):
        read_graph(path, "nothing")


def find(path: Path, *event: Any) -> EventSymbols | None:
    return symbol_table(read_etrecord(path)).find(*event)


def test_events_find_their_operators(path: Path) -> None:
    found = find(path, 0, 0, "native_call_mul.out")
    assert found is not None
    assert found.op_types == ("aten.mul.Tensor", "aten.add.Tensor")
    assert found.stack_traces == {"mul": "File of mul", "add": "File of add"}
    assert [module.path for module in found.module] == ["", "encoder", "encoder.layers.1"]
    call = find(path, 0, 1, "DELEGATE_CALL")
    assert call is not None
    assert (call.handles, call.backend, call.outputs) == ((2, 3), "Npu", 2)
    assert [module.path for module in call.module] == [""]
    other = find(path, 0, 1, "OPERATOR_CALL")
    assert other is not None
    assert other.backend is None


def test_events_outside_of_instructions_have_no_operators(path: Path) -> None:
    assert find(path, -1, 0, "init of a delegate", 2) is None
    assert find(path, 0, 7, "native_call_mul.out") is None


def test_delegate_ids_are_found_exactly(path: Path) -> None:
    expected: dict[int | str, Any] = {
        2: (2,),
        12: 3,
        "2": (2,),
        "a_2": (3, 2),
        "xa_2": None,
        22: None,
    }
    for identifier, handles in expected.items():
        found = find(path, 0, 1, "", identifier)
        assert found is not None
        assert (found.handles, found.backend) == (handles, "Npu"), identifier
    unmapped = find(path, 0, 0, "", 2)
    assert unmapped is not None
    assert (unmapped.handles, unmapped.backend) == (1, None)


def test_methods_are_told_apart(tmp_path: Path) -> None:
    graphs = {
        f"{EDGE}/{name}": graph([node(name, f"aten.{name}.default", 1)]) for name in ("a", "b")
    }
    maps = {"debug_handle_map": {"a": {"0": 1}, "b": {"0": 1}}}
    record = read_etrecord(write_record(tmp_path / "both", {**graphs, **maps}))
    for name in ("a", "b"):
        found = symbol_table(record, name).find(0, 0)
        assert found is not None
        assert found.op_types == (f"aten.{name}.default",)
    for wrong in (None, "c"):
        with pytest.raises(UsageError):
            symbol_table(record, wrong)
    lone = write_record(tmp_path / "lone", maps)
    with pytest.raises(UsageError, match="no edge dialect graph"):
        symbol_table(read_etrecord(lone), "a")


def test_the_oldest_records_have_one_graph_without_a_method(tmp_path: Path) -> None:
    files = {"debug_handle_map": {"forward": {"0": 1}}, EDGE: graph(NODES)}
    assert len(read_etrecord(write_record(tmp_path / "old", files)).edge["forward"]) == 5


@pytest.mark.parametrize(
    ("changes", "field"),
    [
        ({"debug_handle_map": b"{"}, "debug_handle_map"),
        ({"debug_handle_map": {"forward": {"0": "x"}}}, "debug_handle_map"),
        ({"debug_handle_map": None}, "debug_handle_map"),
        ({"delegate_map": []}, "delegate_map"),
        ({f"{EDGE}/forward": {"graph_module": {}}}, f"{EDGE}/forward"),
        ({f"{EDGE}/forward": graph([node("a", "b.c", 1, "x,y")])}, f"{EDGE}/forward"),
        (
            {f"{EDGE}/forward": graph([{**NODES[0], "metadata": {"debug_handle": "x"}}])},
            f"{EDGE}/forward",
        ),
    ],
)
def test_damage_is_refused_by_the_file_it_is_in(
    tmp_path: Path, changes: dict[str, Any], field: str
) -> None:
    path = write_record(tmp_path / "etrecord.bin", {**FILES, **changes})
    with pytest.raises(FormatError) as caught:
        read_etrecord(path)
    assert caught.value.field == field


def test_graphs_may_hold_infinity(tmp_path: Path) -> None:
    # The bound of a clamp, as the exporter writes it.
    nodes = [{**node, "inputs": [float("-inf"), float("nan")]} for node in NODES]
    path = write_record(tmp_path / "etrecord.bin", {**FILES, f"{EDGE}/forward": graph(nodes)})
    expected = read_etrecord(write_record(tmp_path / "finite.bin", FILES))
    assert read_etrecord(path).edge == expected.edge
    maps = b'{"forward": {"0": 1, "1": [2, 3], "5": null, "x": NaN}}'
    broken = write_record(tmp_path / "broken.bin", {**FILES, "debug_handle_map": maps})
    with pytest.raises(FormatError) as caught:
        read_etrecord(broken)
    assert caught.value.field == "debug_handle_map"


def test_other_files_are_refused(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="no such file"):
        read_etrecord(tmp_path / "nothing")
    (tmp_path / "text").write_text("text")
    with pytest.raises(FormatError, match="zip"):
        read_etrecord(tmp_path / "text")
    with pytest.raises(FormatError, match="ETRECORD_V0"):
        read_etrecord(write_record(tmp_path / "zip", FILES, identifier=False))


@pytest.mark.attack(
    "Files", "an ETRecord that inflates to far more than its stated size", "refused"
)
def test_a_file_that_unpacks_to_more_than_it_can_hold_is_refused(tmp_path: Path) -> None:
    with ZipFile(tmp_path / "bomb", "w", ZIP_DEFLATED) as archive:
        archive.writestr("ETRECORD_V0", "")
        archive.writestr("debug_handle_map", b" " * 10_000_000)
    with pytest.raises(FormatError, match="too many for the size"):
        read_etrecord(tmp_path / "bomb")


@pytest.mark.attack("Files", "any damage of an ETRecord", "read, or exit code 2")
@given(data=st.data())
def test_a_damaged_record_is_read_or_refused(
    tmp_path_factory: pytest.TempPathFactory, data: st.DataObject
) -> None:
    damaged = bytearray((MODELS / "npu_str.etrecord").read_bytes())
    for _ in range(data.draw(st.integers(1, 4))):
        damaged[data.draw(st.integers(0, len(damaged) - 1))] = data.draw(st.integers(0, 255))
    path = tmp_path_factory.getbasetemp() / "damaged.etrecord"
    path.write_bytes(bytes(damaged[: data.draw(st.none() | st.integers(0, len(damaged)))]))
    try:
        read_etrecord(path)
    except FormatError:
        return


def test_the_examples_are_read_without_torch() -> None:
    code = (
        "import sys; from pathlib import Path;"
        "from harness.inspector.etrecord import read_etrecord;"
        "from harness.inspector.symbols import symbol_table;"
        "found = symbol_table(read_etrecord(Path(sys.argv[1]))).find(0, 2, 'x', 1);"
        "assert found.op_types == ('aten.add.Tensor',), found;"
        "assert 'torch' not in sys.modules"
    )
    path = MODELS / "npu_int.etrecord"
    subprocess.run([sys.executable, "-c", code, str(path)], check=True)


EVENTS = [
    EventSpec("native_call_mul.out"),
    EventSpec("OPERATOR_CALL"),
    EventSpec("npu", instruction=1, delegate="2"),
    EventSpec("npu", instruction=1, delegate="12"),
    EventSpec("DELEGATE_CALL", instruction=1),
    EventSpec("native_call_tanh.out", instruction=12),
    EventSpec("Method::execute", chain=-1),
]


def test_symbols_of_every_event(path: Path) -> None:
    events = [*EVENTS[:3], EventSpec(allocated=64), *EVENTS[4:]]
    trace = trace_of(RunSpec(events), RunSpec(EVENTS))
    found = event_symbols(trace, symbol_table(read_etrecord(path)))
    assert found[0] is found[7]
    assert found[6] is found[3] is None
    assert [item and item.handles for item in found[7:14]] == [1, 1, (2,), 3, (2, 3), 3, None]


def test_every_instruction_counts_once_in_its_module(path: Path) -> None:
    trace = trace_of(RunSpec(EVENTS), RunSpec(EVENTS))
    symbols = event_symbols(trace, symbol_table(read_etrecord(path)))
    times = np.array([10.0, 11.0, 30.0, 20.0, 70.0, 5.0, 99.0] * 2)
    found = module_times(trace, symbols, times)
    assert {item.path: (item.own, item.total) for item in found} == {
        "": (40.0, 170.0),
        "encoder": (0.0, 80.0),
        "encoder.layers.1": (20.0, 20.0),
        "encoder.layers.12": (60.0, 60.0),
        "head": (50.0, 50.0),
    }
    assert time_of_module(found, "layers.1") == time_of_module(found, "encoder.layers.1") == 20.0
    assert time_of_module(found, "L__self__encoder") == 80.0
    assert time_of_module(found, "") == 170.0
    assert time_of_module(found, "layers.2") == 0.0


def test_a_call_is_one_piece_when_what_is_inside_took_longer(path: Path) -> None:
    trace = trace_of(RunSpec(EVENTS))
    symbols = event_symbols(trace, symbol_table(read_etrecord(path)))
    times = np.array([10.0, 11.0, 60.0, 20.0, 70.0, 5.0, 99.0])
    found = {item.path: item.own for item in module_times(trace, symbols, times)}
    assert found == {"": 70.0, "encoder": 0.0, "encoder.layers.1": 10.0, "head": 5.0}


@given(times=st.lists(st.integers(0, 1000), min_size=14, max_size=14))
def test_nothing_is_counted_twice_or_lost(
    tmp_path_factory: pytest.TempPathFactory, times: list[int]
) -> None:
    path = tmp_path_factory.getbasetemp() / "etrecord.bin"
    if not path.exists():
        write_record(path, FILES)
    trace = trace_of(RunSpec(EVENTS), RunSpec(EVENTS))
    symbols = event_symbols(trace, symbol_table(read_etrecord(path)))
    found = module_times(trace, symbols, np.array(times, np.float64))
    once = sum(times[base + n] for base in (0, 7) for n in (0, 4, 5))
    assert sum(item.own for item in found) == once == time_of_module(found, "")


def test_events_of_delegates_count_by_themselves_without_their_call(path: Path) -> None:
    trace = trace_of(
        RunSpec([EventSpec("npu", instruction=1, delegate=name) for name in ("2", "nowhere")])
    )
    symbols = event_symbols(trace, symbol_table(read_etrecord(path)))
    found = module_times(trace, symbols, np.array([3.0, 4.0]))
    assert {item.path: item.own for item in found if item.own} == {
        "encoder.layers.12": 3.0,
        "": 4.0,
    }
    assert [item.modules for item in found if item.own == 4.0] == [()]


def test_names_that_are_no_utf8_are_refused(tmp_path: Path) -> None:
    path = tmp_path / "record.bin"
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("\u00e4", b"")  # a name that is UTF-8, as its flag says
    path.write_bytes(path.read_bytes().replace("\u00e4".encode(), b"\xff\xff"))
    with pytest.raises(FormatError, match="not an ETRecord"):
        read_etrecord(path)
