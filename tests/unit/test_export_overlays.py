"""Times on the graphs of Model Explorer and Netron: one for each instruction."""

from __future__ import annotations

import json

import pytest

from harness import RunIdentity, UsageError, export_trace, read_log, read_program
from tests.conftest import MODELS
from tests.support.exports import CPU, delegated_trace
from tests.support.logs import CompactLog


def test_an_instruction_has_the_median_time_of_its_kernel_or_delegate() -> None:
    method = read_program((MODELS / "npu_int.pte").read_bytes()).method("forward")
    exported = export_trace(
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
    exported = export_trace(read_log(log.image(), [CPU]), "model-explorer")
    assert json.loads(exported.data)["forward"]["results"] == {"forward_2_7": {"value": 2.0}}
    assert exported.notes == ("the graph is assumed to be 'forward' without --model",)


def test_a_trace_without_times_of_instructions_is_refused() -> None:
    log = CompactLog().block("Default").profile("Method::init", 0, 80, chain=-1)
    with pytest.raises(UsageError, match="no instruction of the trace has a time"):
        export_trace(read_log(log.image(), [CPU]), "model-explorer")


def test_netron_has_times_at_the_values_that_instructions_compute() -> None:
    method = read_program((MODELS / "npu_int.pte").read_bytes()).method("forward")
    assert method is not None
    identity = RunIdentity(board="m3", model="npu_int.pte", commit="c0ffee")
    exported = export_trace(delegated_trace(), "netron", method=method, identity=identity)
    data = json.loads(exported.data)
    assert data["signature"] == "netron:attachment"
    delegate, kernel = data["metrics"]
    first, second = method.chains[0][:2]
    assert (delegate["kind"], delegate["target"]) == ("value", str(first.args[-1]))
    assert (delegate["name"], delegate["value"]) == ("SimulatedNpu #0", "12.125 us, 66.4 %")
    assert (kernel["target"], kernel["value"]) == (str(second.args[-1]), "6.125 us, 33.6 %")
    facts = {fact["name"]: fact["value"] for fact in data["metadata"]}
    assert {fact["target"] for fact in data["metadata"]} == {"forward"}
    assert facts["instructions together"] == "18.250 us"
    assert (facts["board"], facts["commit"]) == ("m3", "c0ffee")


def test_netron_names_the_first_of_several_outputs() -> None:
    """A list of outputs has a number, which is no value of Netron's; its items are."""
    method = read_program((MODELS / "kws_f32.pte").read_bytes()).method("forward")
    assert method is not None
    number, norm = next(
        (n, step) for n, step in enumerate(method.chains[0]) if "batch_norm" in step.name
    )
    log = CompactLog().block("Execute").profile("n", 0, 80, chain=0, instruction=number)
    exported = export_trace(read_log(log.image(), [CPU]), "netron", method=method)
    [metric] = json.loads(exported.data)["metrics"]
    assert metric["target"] == str(norm.args[-4])


def test_netron_needs_the_model() -> None:
    with pytest.raises(UsageError, match="the model is not known") as caught:
        export_trace(delegated_trace(), "netron")
    assert caught.value.hint == "give it with --model"
