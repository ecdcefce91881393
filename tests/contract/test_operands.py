"""Each execution of a trace gets operands from the method that it ran, or the model is refused."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from pathlib import Path
from zipfile import ZipFile

import pytest

import harness
from harness.inspector import Inspector
from tests.contract import CASES

Etharness = Callable[..., tuple[int, str, str]]

TWO, TWO_METHODS = CASES / "two_methods.etdp", CASES / "two_methods.pte"
DELEGATED, UNDELEGATED = CASES / "delegated_only.etdp", CASES / "undelegated.pte"


def test_a_dump_of_two_methods(etharness: Etharness) -> None:
    """``enc`` is one call of a delegate, ``forward`` has fifteen operators."""
    code, out, err = etharness("decode", TWO, "--model", TWO_METHODS)
    assert code == 0, err
    rows = {line.split("  ")[0]: line for line in out.splitlines()}
    assert "float32[2, 16]" in rows["DELEGATE_CALL #0"]
    assert "float32[8, 8]" in rows["permute_copy #0"]


@pytest.mark.parametrize("view", [(), ("--tree",)])
def test_no_statistics_are_of_two_methods(etharness: Etharness, view: tuple[str, ...]) -> None:
    code, out, err = etharness("decode", TWO, "--model", TWO_METHODS, "--json", *view)
    assert code == 0, err
    found = {
        item["block"]: item["ticks"]["count"]
        for item in json.loads(out)["operators"]
        if item["name"] == "Method::execute"
    }
    assert found == {"Execute enc": 2, "Execute forward": 2}
    code, out, err = etharness("decode", DELEGATED, "--model", TWO_METHODS, "--json")
    assert code == 0, err
    assert {item["block"] for item in json.loads(out)["operators"]} == {"Default", "Execute"}


def test_events_of_delegates_need_a_delegate(etharness: Etharness) -> None:
    code, _, err = etharness("decode", DELEGATED, "--model", UNDELEGATED)
    assert code == 3
    assert "aten::permute_copy.out" in err
    assert "delegate" in err
    assert etharness("check", DELEGATED, "--model", UNDELEGATED)[0] == 3
    assert etharness("check", DELEGATED, "--model", "undelegated")[0] == 0  # a name for rules
    assert etharness("check", DELEGATED, "--model", TWO_METHODS)[0] == 0
    code, out, err = etharness("decode", DELEGATED, "--model", TWO_METHODS)
    assert code == 0, err
    assert "float32[2, 16]" in out


@pytest.mark.extension("bundles")
def test_a_bundle_rests_on_no_file_beside_it(
    etharness: Etharness, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    shutil.copy(TWO_METHODS, "net.pte")
    assert etharness("check", DELEGATED, "--model", "net.pte", "--report", "b.zip")[0] == 0
    shutil.copy(UNDELEGATED, "net.pte")
    code, _, err = etharness("replay", "b.zip")
    assert code == 0, err


@pytest.mark.parametrize("method", ["enc", "forward"])
def test_a_delegated_run_is_refused_for_another_method(etharness: Etharness, method: str) -> None:
    code, _, err = etharness("decode", DELEGATED, "--model", TWO_METHODS, "--method", method)
    assert code == (0 if method == "enc" else 3)
    assert ("no execution of the trace is of method 'forward'" in err) == (method == "forward")


@pytest.mark.extension("exports")
def test_an_export_of_two_methods(etharness: Etharness, tmp_path: Path) -> None:
    file = tmp_path / "times.json"
    given = ("export", TWO, "--model", TWO_METHODS, "--format", "netron", "-o", file)
    code, _, err = etharness(*given)
    assert code == 2
    assert "enc, forward" in err
    assert "--method" in err
    found = {}
    for method in ("enc", "forward"):
        code, _, err = etharness(*given, "--method", method, "--force")
        assert code == 0, err
        found[method] = [item["name"] for item in json.loads(file.read_text())["metrics"][:]]
    values = {name: len([item for item in items if "#" in item]) for name, items in found.items()}
    assert values == {"enc": 1, "forward": 15}


def test_the_python_interface_refuses_another_model(tmp_path: Path) -> None:
    run = harness.load(DELEGATED)
    with pytest.raises(harness.HarnessError, match="execution 1 of the trace is not of") as caught:
        run.export(tmp_path / "x.etdp", "ed00", model=UNDELEGATED)
    assert caught.value.exit_code == 3


def test_a_run_of_something_else_is_the_targets_fault(etharness: Etharness, tmp_path: Path) -> None:
    """As if the device had run another method than the one that the result records."""
    run = tmp_path / "run"
    code, _, err = etharness("run", "--board", "native", "--model", "small_int8", "-o", run)
    assert code == 0, err
    result = json.loads((run / "result.json").read_text())
    del result["files"], result["digest"]  # as in results of before they were recorded
    kernel = result["model"]["chains"][0][0]
    kernel["name"] = "aten::relu.out"
    (run / "result.json").write_text(json.dumps(result))
    code, out, _ = etharness("check", run)
    assert code == 4
    assert "I14" in out
    assert "is not of method 'forward'" in " ".join(out.split())


def etrecord(path: Path, methods: dict[str, list[str]], delegates: dict[str, dict]) -> Path:
    """An ETRecord of methods by their operators; instruction n has the debug handle n + 1."""
    handles = {
        name: {str(n): n + 1 for n in range(len(operators))} for name, operators in methods.items()
    }
    files: dict[str, object] = {"debug_handle_map": handles, "delegate_map": delegates}
    for name, operators in methods.items():
        nodes = [
            {
                "name": f"{name}_{n}",
                "target": f"executorch.exir.dialects.edge.ops.aten.{operator}.default",
                "metadata": {"debug_handle": str(n + 1)},
            }
            for n, operator in enumerate(operators)
        ]
        graph = {"graph_module": {"graph": {"nodes": nodes}}}
        files[f"edge_dialect_exported_program/{name}"] = graph
    with ZipFile(path, "w") as archive:
        archive.writestr("ETRECORD_V0", "")
        for file, content in files.items():
            archive.writestr(file, json.dumps(content))
    return path


FORWARD = ["permute_copy", "addmm", "permute_copy", "addmm", "permute_copy", "expand_copy"]
DELEGATE = {"enc": {"0": {"name": "XnnpackBackend", "delegate_map": {}}}}


@pytest.mark.parametrize("given", [{}, {"method": "forward"}, {"method": "enc"}])
def test_the_inspector_finds_the_method_of_each_block(tmp_path: Path, given: dict) -> None:
    """Also if one is named: the instructions of the record decide first."""
    record = etrecord(tmp_path / "r.bin", {"forward": FORWARD, "enc": ["linear"]}, DELEGATE)
    found = {}
    for block in Inspector(TWO, etrecord=record, **given).event_blocks:
        for event in block.events:
            found.setdefault(event.name, (event.op_types, event.delegate_backend_name))
    assert found["DELEGATE_CALL"] == (["aten.linear.default"], "XnnpackBackend")
    assert found["native_call_expand_copy.out"] == (["aten.expand_copy.default"], None)


def test_the_inspector_tells_methods_by_their_operators(tmp_path: Path) -> None:
    others = ["relu", *FORWARD[1:]]
    record = etrecord(tmp_path / "r.bin", {"other": others, "forward": FORWARD}, {})
    assert Inspector(TWO, etrecord=record, method="forward").method == "forward"
    same = etrecord(tmp_path / "s.bin", {"one": FORWARD, "two": FORWARD}, {})
    with pytest.raises(harness.HarnessError, match="several methods"):
        Inspector(TWO, etrecord=same)
