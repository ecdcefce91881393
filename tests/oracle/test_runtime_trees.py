"""Call trees of what ExecuTorch's own runtime logs."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import pytest

pytest.importorskip("executorch.extension.pybindings", reason="needs torch and executorch")

from harness import Kind, Subject, merged_tree, read_ed00
from tests.support.dumps import record

if TYPE_CHECKING:
    from tests.support.exported import Exported

pytestmark = pytest.mark.oracle
RUNS = 3


@pytest.mark.parametrize("values", [False, True])
@pytest.mark.parametrize("model", ["portable_model", "xnnpack_model"])
def test_every_event_is_within_the_scope_that_the_runtime_opened_around_it(
    model: str, values: bool, tmp_path: Path, request: pytest.FixtureRequest
) -> None:
    exported: Exported = request.getfixturevalue(model)
    trace = read_ed00(record(exported, tmp_path, RUNS, values=values).etdump_path.read_bytes())
    tree = Subject(trace).tree
    delegated = (trace.kind == Kind.PROFILE) & (trace.delegate_str >= 0)
    assert delegated.any() == (model == "xnnpack_model")
    assert (trace.kind == Kind.DEBUG).any() == values
    # XNNPACK's own events come in steps of a microsecond; of all others the place is certain.
    assert not tree.ambiguous[~delegated].any()
    for row, parent in enumerate(tree.parent.tolist()):
        around = None if parent < 0 else trace.text(trace.name[parent])
        name = trace.text(trace.name[row])
        if delegated[row]:
            assert around == "DELEGATE_CALL"
        elif trace.kind[row] == Kind.DEBUG:
            assert around is None or around.startswith("native_call_") or around.endswith("_CALL")
        elif name is not None and name.startswith("native_call_"):
            assert around == "OPERATOR_CALL"
        elif name is not None and name.endswith("_CALL"):
            assert around == "Method::execute"
        else:
            expected = {"Method::init": "Program::load_method"}
            assert around == expected.get(str(name))
        if parent >= 0 and trace.chain[row] >= 0 and around != "Method::execute":
            assert trace.instruction[parent] == trace.instruction[row]
    nodes = merged_tree(tree)
    executed = [node for node in nodes if node.block == "Execute" and node.delegate_str is None]
    assert {node.count for node in executed} == {RUNS}
