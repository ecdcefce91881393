"""Slices are called by operator and instruction, and executions are found."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import astuple
from pathlib import Path

from harness import (
    Drawing,
    EtrecordNode,
    EventSymbols,
    Module,
    draw,
    read_etrecord,
    read_log,
    read_program,
)
from harness.inspector.symbols import event_symbols, symbol_table
from tests.conftest import MODELS, CommandResult
from tests.support.exports import CPU, delegated_trace
from tests.support.logs import CompactLog


def titles(drawing: Drawing) -> dict[str, str]:
    """Titles by exact name."""
    return {drawing.name(n): drawing.titles[n].text for n in range(len(drawing))}


def test_operators_have_their_instruction_and_delegates_are_told_from_them() -> None:
    assert titles(draw(delegated_trace(), wrappers=True)) == {
        "Method::init": "Method::init",
        "Method::execute": "Method::execute",
        "DELEGATE_CALL": "DELEGATE_CALL #0",
        "[0]": "delegate: [0]",
        "matmul": "matmul",
        "OPERATOR_CALL": "OPERATOR_CALL",
        "native_call_sigmoid.out": "sigmoid #1",
    }


def test_the_model_or_its_record_names_the_backend() -> None:
    trace = delegated_trace()
    method = read_program((MODELS / "npu_int.pte").read_bytes()).method("forward")
    symbols = event_symbols(trace, symbol_table(read_etrecord(MODELS / "npu_int.etrecord")))
    by_model, by_record = draw(trace, method), draw(trace, symbols=symbols)
    assert by_model.titles == by_record.titles
    found = titles(by_model)
    assert found["DELEGATE_CALL"] == "SimulatedNpu #0"
    assert found["[0]"] == "SimulatedNpu: [0]"
    assert found["matmul"] == "SimulatedNpu: matmul"


def test_modules_are_arguments_where_they_are_known() -> None:
    log = CompactLog().block("Execute").profile("native_call_addmm.out", 1, 5, instruction=3)
    trace = read_log(log.image(), [CPU])
    stack = Module("L__self__", "", "Net"), Module("L__self___fc_0", "fc.0", "torch.nn.Linear")
    node = EtrecordNode("aten_addmm_default", "aten.addmm.default", 7, None, stack)
    drawing = draw(trace, symbols=[EventSymbols(7, (node,))])
    assert drawing.titles[0].text == "addmm #3"
    assert drawing.titles[0].kind == "linear"
    arguments = drawing.arguments(0)
    assert arguments["name"] == "native_call_addmm.out"
    assert (arguments["module"], arguments["module_type"]) == ("fc.0", "torch.nn.Linear")


def test_loading_and_executions_are_phases() -> None:
    assert tuple(map(astuple, draw(delegated_trace()).phases)) == (
        ("loading", 0, 0, 13750),
        ("execution 1", 0, 38750, 58750),
        ("execution 2", 0, 70000, 90000),
        ("execution 3", 0, 101250, 121250),
    )


def test_an_execution_without_its_scope_reaches_as_far_as_its_events() -> None:
    log = CompactLog().block("Execute").profile("native_call_a.out", 80, 160)
    log.profile("Method::execute", 0, 240, chain=-1)
    log.block("Execute").profile("native_call_a.out", 320, 400)
    log.profile("native_call_b.out", 400, 800, instruction=1)
    log.block("Execute").profile("read_inputs", 900, 1000, chain=-1)
    assert tuple(map(astuple, draw(read_log(log.image(), [CPU])).phases)) == (
        ("execution 1", 0, 0, 3000),
        ("execution 2", 0, 4000, 10000),
    )


def test_the_command_takes_an_etrecord(
    etharness: Callable[..., CommandResult], tmp_path: Path
) -> None:
    from harness import write_ed00

    dump, out = tmp_path / "x.etdp", tmp_path / "x.json"
    dump.write_bytes(write_ed00(delegated_trace(), allocation_events=False))
    arguments = ("export", dump, "-f", "kineto", "-o", out, "--clock-hz", "8e7")
    found = etharness(*arguments, "--etrecord", MODELS / "npu_int.etrecord")
    assert found.code == 0, found.err
    names = {event["name"] for event in json.loads(out.read_text())["traceEvents"]}
    assert {"SimulatedNpu #0", "sigmoid #1", "execution 3"} <= names
