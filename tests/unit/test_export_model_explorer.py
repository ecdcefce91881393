"""Node data of Model Explorer: a time for each instruction of the graph."""

from __future__ import annotations

import json

import pytest

from harness.decode.device_log import read_log
from harness.decode.pte import read_program
from harness.errors import UsageError
from harness.export.formats import export
from harness.records.result import RunIdentity
from tests.conftest import MODELS
from tests.support.exports import CPU, delegated_trace
from tests.support.logs import CompactLog


def test_an_instruction_has_the_median_time_of_its_kernel_or_delegate() -> None:
    method = read_program((MODELS / "npu_int.pte").read_bytes()).method("forward")
    exported = export(
        delegated_trace(), "model-explorer", method=method, identity=RunIdentity(board="m3")
    )
    graph = json.loads(exported.data)["forward"]
    # 970 and 490 ticks of 80 MHz
    assert graph["results"] == {"forward_0_0": {"value": 12.125}, "forward_0_1": {"value": 6.125}}
    assert graph["name"] == "median time on m3 [us]"
    assert [step["stop"] for step in graph["gradient"]] == [0, 1]
    assert exported.notes == ()


def test_the_median_is_of_all_executions() -> None:
    log = CompactLog()
    for ticks in (80, 8_000, 160):
        log.block("Execute").profile("native_call_a.out", 0, ticks, chain=2, instruction=7)
    exported = export(read_log(log.image(), [CPU]), "model-explorer")
    assert json.loads(exported.data)["forward"]["results"] == {"forward_2_7": {"value": 2.0}}
    assert exported.notes == ("the graph is assumed to be 'forward' without --model",)


def test_a_trace_without_times_of_instructions_is_refused() -> None:
    log = CompactLog().block("Default").profile("Method::init", 0, 80, chain=-1)
    with pytest.raises(UsageError, match="no instruction of the trace has a time"):
        export(read_log(log.image(), [CPU]), "model-explorer")
