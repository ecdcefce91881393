"""Our reader of ETRecords against ExecuTorch's, for records that its exporter wrote."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("executorch.devtools", reason="needs torch and executorch")

from executorch.devtools.etrecord import parse_etrecord
from executorch.devtools.inspector._inspector_utils import (
    create_debug_handle_to_op_node_mapping,
    gen_graphs_from_etrecord,
)

from harness import ETRecord, read_etrecord
from harness.inspector.symbols import SymbolTable, symbol_table
from tests.conftest import MODELS
from tests.support.exported import Exported, export_methods

pytestmark = [pytest.mark.oracle, pytest.mark.filterwarnings("ignore")]


@pytest.fixture(scope="module", params=["portable", "xnnpack", "npu_int", "npu_str"])
def path(request: pytest.FixtureRequest, portable_model: Exported, xnnpack_model: Exported) -> Path:
    match request.param:
        case "portable":
            return portable_model.etrecord
        case "xnnpack":
            return xnnpack_model.etrecord
        case name:
            return MODELS / f"{name}.etrecord"


def as_json(handles: Any) -> Any:
    return [*handles] if isinstance(handles, tuple) else handles


def maps(record: ETRecord, method: str) -> tuple[dict[str, Any], ...]:
    """What ExecuTorch keeps as JSON has it."""
    ours = record.methods[method]
    return (
        {str(n): as_json(handles) for n, handles in ours.handles.items()},
        {
            str(n): {
                "name": delegate.name,
                "delegate_map": {key: as_json(value) for key, value in delegate.handles.items()},
            }
            for n, delegate in ours.delegates.items()
        },
        {str(n): count for n, count in ours.outputs.items()},
    )


def test_maps_are_executorchs(path: Path) -> None:
    record, theirs = read_etrecord(path), parse_etrecord(str(path))
    handles, delegates, outputs = maps(record, "forward")
    assert handles == theirs._debug_handle_map["forward"]
    assert delegates == theirs._delegate_map["forward"]
    assert outputs == theirs._instruction_id_to_num_outs_map["forward"]
    assert record.export_graph_id == theirs.export_graph_id


def test_operators_stack_traces_and_modules_are_executorchs(path: Path) -> None:
    graphs = gen_graphs_from_etrecord(parse_etrecord(str(path)))
    mapping = create_debug_handle_to_op_node_mapping(graphs["edge_dialect_graph_module"])
    ours: dict[int, list[Any]] = {}
    for node in read_etrecord(path).edge["forward"]:
        if node.debug_handle is not None:
            ours.setdefault(node.debug_handle, []).append(node)
    assert ours.keys() == mapping.keys()
    assert len(ours) > 4
    for handle, nodes in mapping.items():
        for node, theirs in zip(ours[handle], nodes, strict=True):
            # ExecuTorch's graph appends an underscore, for TensorBoard.
            assert f"{node.name}_" == theirs.name
            assert node.op == theirs.op
            assert node.stack_trace == theirs.metadata.get("stack_trace")
            stack = {module.key: (module.path, module.type) for module in node.modules or ()}
            assert stack == theirs.metadata["nn_module_stack"]


def test_every_method_has_its_own_symbols(tmp_path: Path) -> None:
    record = read_etrecord(export_methods(tmp_path).etrecord)
    theirs = parse_etrecord(str(record.path))
    for method, op in (("double", "aten.relu.default"), ("gate", "aten.sigmoid.default")):
        assert maps(record, method)[0] == theirs._debug_handle_map[method]
        table: SymbolTable = symbol_table(record, method)
        found = table.find(0, 0)
        assert found is not None
        assert found.op_types == (op,)
