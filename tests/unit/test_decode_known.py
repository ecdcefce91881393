"""``etharness decode`` with an ETRecord and a model beside the trace."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from harness import write_ed00
from tests.conftest import FIXTURES, MODELS, CommandResult
from tests.support.documents import document
from tests.support.records import EDGE, graph, node, write_record
from tests.support.traces import EventSpec, RunSpec, trace_of

TRACE, MODEL = FIXTURES / "kws_f32_executorch.etdp", MODELS / "kws_f32.pte"
MANY = 10_007
Command = Callable[..., CommandResult]


def decoded(etharness: Command, *arguments: Any) -> Any:
    """The document of a command, which follows its schema."""
    return document("decode", etharness("decode", TRACE, *arguments, "--json").out)


@pytest.fixture
def etrecord(tmp_path: Path) -> Path:
    """A record of the trace's 31 instructions: two of them in each of 16 modules."""
    nodes = [node(f"op_{n}", "aten.relu.default", n + 1, "", f"layers.{n // 2}") for n in range(31)]
    files: dict[str, Any] = {
        "debug_handle_map": {"forward": {str(n): n + 1 for n in range(31)}},
        f"{EDGE}/forward": graph(nodes),
    }
    return write_record(tmp_path / "etrecord.bin", files)


def test_operators_show_where_they_come_from_and_what_they_get(
    etharness: Command, etrecord: Path
) -> None:
    result = etharness("decode", TRACE, "--etrecord", etrecord, "--model", MODEL)
    assert result.code == 0
    (first,) = (line for line in result.out.splitlines() if line.startswith("mean #"))
    assert "aten.relu.default" in first
    assert "layers.13" in first
    assert "float32[1, 64, 25, 5], [2, 3], False, None" in first
    assert "stack" not in result.out


def test_more_shows_stack_traces(etharness: Command, etrecord: Path) -> None:
    result = etharness("decode", TRACE, "--etrecord", etrecord, "-v")
    assert "native_call_convolution.out (instruction 0): op_0\n  File of op_0\n" in result.out
    assert "OPERATOR_CALL (instruction" not in result.out


def test_modules_sum_to_all_operators(etharness: Command, etrecord: Path) -> None:
    found = decoded(etharness, "--etrecord", etrecord, "--by", "module")
    kernels = [op for op in found["operators"] if op["name"].startswith("native_call_")]
    (whole,) = (item for item in found["modules"] if item["path"] == "")
    assert whole["total_ns"] == pytest.approx(sum(op["ns"]["total"] for op in kernels))
    assert whole["own_ns"] == 0
    parts = [item for item in found["modules"] if item["path"]]
    assert len(parts) == 16
    assert sum(item["own_ns"] for item in parts) == pytest.approx(whole["total_ns"])
    printed = etharness("decode", TRACE, "--etrecord", etrecord, "--by", "module")
    assert "Modules of Execute" in printed.out
    assert "layers.15" in printed.out


def test_documents_hold_origins_and_arguments(etharness: Command, etrecord: Path) -> None:
    operators = decoded(etharness, "--etrecord", etrecord, "--model", MODEL)["operators"]
    found = {(op["name"], op["instruction"]): op for op in operators}
    kernel = found["native_call_relu.out", 2]
    assert kernel["origin"] == {
        "op_types": ["aten.relu.default"],
        "module": "layers.1",
        "backend": None,
        "debug_handles": [3],
        "stack_traces": {"op_2": "File of op_2"},
    }
    assert kernel["arguments"] == {
        "inputs": ["float32[1, 64, 25, 5]"],
        "outputs": ["float32[1, 64, 25, 5]"],
    }
    outer = found["Method::execute", 0]
    assert outer["origin"] is outer["arguments"] is None


@pytest.mark.parametrize(
    ("arguments", "code", "message"),
    [
        (["--by", "module"], 2, "--etrecord"),
        (["--model", MODELS / "nothing.pte"], 2, "not found"),
        (["--model", MODELS / "methods.pte"], 3, "not of any method of the model"),
        (
            ["--model", MODELS / "ad_f32.pte", "--method", "forward"],
            3,
            "native_call_convolution.out is instruction 0, which is aten::permute_copy.out",
        ),
        (["--model", MODEL, "--method", "encode"], 2, "method 'encode' not found"),
        (["--etrecord", MODEL], 2, "zip"),
        (["--source-time-scale", "cycles"], 2, "--target-time-scale cycles"),
        (["--source-time-scale", "us", "--clock-hz", "5"], 2, "--clock-hz"),
        (["--compare-results"], 2, "--bundled-input"),
    ],
)
def test_what_does_not_fit_is_said(
    etharness: Command, arguments: list[Any], code: int, message: str
) -> None:
    result = etharness("decode", TRACE, *arguments)
    assert result.code == code
    assert message in result.err


def test_time_scales_are_chosen(etharness: Command) -> None:
    default = decoded(etharness)["operators"][0]
    micro = decoded(etharness, "--source-time-scale", "us")["operators"][0]
    assert micro["ns"]["total"] == 1000 * default["ns"]["total"]
    assert "Operators in ms" in etharness("decode", TRACE, "--target-time-scale", "ms").out
    cycles = ["--source-time-scale", "cycles", "--target-time-scale", "cycles"]
    assert "Operators in ticks" in etharness("decode", TRACE, *cycles).out


def test_the_inspectors_table_is_written(
    etharness: Command, etrecord: Path, tmp_path: Path
) -> None:
    pytest.importorskip("pandas", reason="needs the extra 'inspector'")
    path = tmp_path / "table.tsv"
    assert etharness("decode", TRACE, "--tsv", path, "--etrecord", etrecord).code == 0
    header, *rows = path.read_text().splitlines()
    assert "avg (ms)" in header
    assert len(rows) == 2 + 32


def test_a_budget_limits_modules_that_the_record_knows(
    etharness: Command, etrecord: Path, tmp_path: Path
) -> None:
    budget = tmp_path / "budget.toml"
    rule = "[[module]]\nmodule = 'layers.1?'\nblock = '*'\n"
    budget.write_text(f"schema = 1\n{rule}limit_ms = 1_000\n")
    arguments = ["check", TRACE, "--budget", budget, "--json"]
    result = etharness(*arguments, "--etrecord", etrecord)
    checks = [item for item in document("check", result.out)["checks"] if item["code"] == "B07"]
    assert sorted(item["subject"] for item in checks) == [f"layers.{n}" for n in range(10, 16)]
    assert result.code == 0
    without = etharness(*arguments)
    (failed,) = (item for item in document("check", without.out)["checks"] if not item["passed"])
    assert (without.code, "(--etrecord)" in failed["reason"]) == (1, True)


def test_of_very_many_operators_the_largest_are_listed(etharness: Command, tmp_path: Path) -> None:
    events = [EventSpec("op", 0, 100 + n, 0, n) for n in range(MANY)]
    path = tmp_path / "trace.etdp"
    path.write_bytes(write_ed00(trace_of(RunSpec(events))))
    few = etharness("decode", path, "--top", "3").out.splitlines()
    assert [line.split()[0] for line in few[2:6]] == ["op", "op", "op", "..."]
    assert few[5].startswith("... 9,997 more (--top 10000)")
    result = etharness("decode", path, "--top", "10000")
    listed = [line.split()[1][1:] for line in result.out.splitlines() if line.startswith("op ")]
    assert listed == [str(n) for n in reversed(range(MANY - 10_000, MANY))]
    assert "and 7 faster operators; -v lists all" in result.out.splitlines()
    whole = etharness("decode", path, "-v")
    assert sum(line.startswith("op ") for line in whole.out.splitlines()) == MANY
