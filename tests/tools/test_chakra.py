"""Chakra's tools take its file, and find the graph that was meant."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("chakra", reason="needs the tools that read exports")

from harness import Method, Trace, draw, export_trace, read_ed00, read_program, with_width
from harness.extensions.exports.execution_trace import MESSAGES, GraphNode, graph
from tests.conftest import FIXTURES, MODELS
from tests.support.exports import delegated_trace
from tests.support.protobuf import as_sent, fields_of
from tests.support.wrapping import RECORDED as WRAPPED

pytestmark = pytest.mark.tools


def recorded() -> tuple[Trace, Method | None]:
    """What ExecuTorch logged, with the model."""
    trace = read_ed00((FIXTURES / "kws_f32_executorch.etdp").read_bytes())
    return trace, read_program((MODELS / "kws_f32.pte").read_bytes()).method("forward")


def without_model() -> tuple[Trace, Method | None]:
    return delegated_trace(), None


def wrapped() -> tuple[Trace, Method | None]:
    """A recording on a 32-bit counter that wrapped."""
    return with_width(read_ed00(WRAPPED.read_bytes()), 32), None


def of_unknown_width() -> tuple[Trace, Method | None]:
    """The same taken for one of a counter that does not wrap."""
    return read_ed00(WRAPPED.read_bytes()), None


CASES = pytest.mark.parametrize("case", [recorded, without_model, wrapped, of_unknown_width])
Case = Callable[[], tuple[Trace, Method | None]]


def tool(name: str, *arguments: str | Path) -> None:
    """Run one of Chakra's commands."""
    program = Path(sys.executable).parent / f"chakra_{name}"
    command = [program, *map(str, arguments)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=600)
    assert done.returncode == 0, done.stderr


def decoded(file: Path) -> list[Any]:
    """The nodes of a file, by the wheel's own messages."""
    from chakra.schema.protobuf.et_def_pb2 import GlobalMetadata, Node
    from chakra.src.third_party.utils.protolib import decodeMessage, openFileRd

    with openFileRd(str(file)) as stream:
        assert decodeMessage(stream, GlobalMetadata())
        nodes = []
        while decodeMessage(stream, node := Node()):
            nodes.append(node)
    return nodes


def fed(nodes: list[Any]) -> list[int]:
    """Ids in the order in which a feeder issues them: each when all that it needs is done."""
    waiting = {node.id: set(node.data_deps) for node in nodes}
    order: list[int] = []
    while ready := sorted(id_ for id_, needs in waiting.items() if not needs):
        for id_ in ready:
            del waiting[id_]
        for needs in waiting.values():
            needs.difference_update(ready)
        order += ready
    assert not waiting, "nodes wait for each other, or for some that are not there"
    return order


def attributes(node: Any) -> dict[str, Any]:
    return {attr.name: getattr(attr, attr.WhichOneof("value")) for attr in node.attr}


def ours(case: Case) -> list[GraphNode]:
    trace, method = case()
    return graph(draw(trace, method, wrappers=True), method)


@CASES
def test_the_protobuf_file_is_the_graph(case: Case, tmp_path: Path) -> None:
    trace, method = case()
    file = tmp_path / "x.et"
    file.write_bytes(export_trace(trace, "chakra", method=method).data)
    nodes, wanted = decoded(file), ours(case)[1:]
    assert [node.id for node in nodes] == [node.id for node in wanted]
    for node, mine in zip(nodes, wanted, strict=True):
        assert (node.name, tuple(node.data_deps)) == (mine.name, mine.data_deps)
        assert list(node.ctrl_deps) == ([mine.parent] if mine.record else [])
        found = attributes(node)
        assert (found["start_ns"], found["duration_ns"]) == (mine.start, mine.duration)
        assert node.duration_micros <= mine.duration // 1000
    assert sorted(fed(nodes)) == [node.id for node in wanted]


@CASES
def test_jsonizer_and_visualizer_take_the_protobuf_file(case: Case, tmp_path: Path) -> None:
    import networkx

    trace, method = case()
    file, text, drawn = (tmp_path / name for name in ("x.et", "x.json", "x.graphml"))
    file.write_bytes(export_trace(trace, "chakra", method=method).data)
    tool("jsonizer", "--input_filename", file, "--output_filename", text)
    names = [document.get("name") for document in documents(text.read_text())][1:]
    assert names == [node.name for node in ours(case)[1:]]
    tool("visualizer", "--input_filename", file, "--output_filename", drawn)
    edges = {(int(a), int(b)) for a, b in networkx.read_graphml(drawn).edges}
    wanted = {(need, node.id) for node in ours(case)[1:] for need in node.data_deps}
    wanted |= {(node.parent, node.id) for node in ours(case)[1:] if node.record}
    assert edges == wanted


def documents(text: str) -> list[dict[str, Any]]:
    """The JSON objects that stand one behind the other."""
    decoder, found, at = json.JSONDecoder(), [], 0
    while at < len(text):
        document, at = decoder.raw_decode(text, at)
        found.append(document)
    return found


def test_data_dependencies_are_those_of_the_model() -> None:
    nodes = {node.id: node for node in ours(recorded)}
    kernels = [node for node in nodes.values() if node.schema]
    assert kernels
    for kernel in kernels:
        tensors = {value[0] for value in kernel.inputs.values if isinstance(value, list)}
        for need in kernel.data_deps:
            if need != kernel.parent:
                written = {value[0] for value in nodes[need].outputs.values}
                assert tensors & written
    producers = [set(kernel.data_deps) - {kernel.parent} for kernel in kernels]
    assert sum(map(bool, producers)) >= len(kernels) - 2 * 3  # a first operator needs only inputs


def test_messages_are_chakras() -> None:
    from chakra.schema.protobuf import et_def_pb2

    for name, fields in MESSAGES.items():
        message = et_def_pb2.DESCRIPTOR.message_types_by_name[name]
        assert as_sent(fields, MESSAGES).items() <= fields_of(message).items(), name
