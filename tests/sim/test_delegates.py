"""The example backend on boards: events on a clock of their own, and firmware without it."""

from __future__ import annotations

import json
import struct
from fractions import Fraction
from pathlib import Path

import numpy as np
import pytest

import harness
from firmware_stub.models.npu.job import Command, Cost, decode
from harness import (
    NO_NAME,
    DeviceRefusedError,
    Kind,
    Region,
    Steadiness,
    Subject,
    Trace,
    durations,
    host_times,
    operator_statistics,
    read_ed00,
    tensor_from_bytes,
    tensor_to_bytes,
)
from harness.analyze.ticks import calls_around
from tests.conftest import FIXTURES, MODELS
from tests.support.boards import started

pytestmark = pytest.mark.sim
BOARDS = ["native", "qemu-mps2-an385"]
RUNS = 3
NPU = 1
NONE = -1

# What one execution logs: name, chain, instruction, integer and string delegate id.
EVENTS = {
    "npu_int": [
        (None, 0, 0, 0, None),
        (None, 0, 0, 1, None),
        ("DELEGATE_CALL", 0, 0, NONE, None),
        ("native_call_sigmoid.out", 0, 1, NONE, None),
        ("OPERATOR_CALL", 0, 1, NONE, None),
        (None, 0, 2, 0, None),
        (None, 0, 2, 1, None),
        (None, 0, 2, 2, None),
        ("DELEGATE_CALL", 0, 2, NONE, None),
        ("native_call__softmax.out", 0, 3, NONE, None),
        ("OPERATOR_CALL", 0, 3, NONE, None),
        ("Method::execute", -1, 0, NONE, None),
    ],
    "npu_str": [
        (None, 0, 0, NONE, "0:linear"),
        ("DELEGATE_CALL", 0, 0, NONE, None),
        ("native_call_tanh.out", 0, 1, NONE, None),
        ("OPERATOR_CALL", 0, 1, NONE, None),
        (None, 0, 2, NONE, "0:linear"),
        (None, 0, 2, NONE, "1:add"),
        (None, 0, 2, NONE, "2:relu"),
        ("DELEGATE_CALL", 0, 2, NONE, None),
        ("native_call_mean.out", 0, 3, NONE, None),
        ("OPERATOR_CALL", 0, 3, NONE, None),
        ("Method::execute", -1, 0, NONE, None),
    ],
}

on_boards = pytest.mark.parametrize("board", BOARDS)
of_models = pytest.mark.parametrize("model", sorted(EVENTS))


def commands(model: str) -> list[tuple[Command, Cost]]:
    """What one execution has the NPU do, with its cost, from the jobs in the file."""
    parts = (MODELS / f"{model}.pte").read_bytes().split(b"ENPU")[1:]
    jobs = [decode(b"ENPU" + part) for part in parts]
    return [(command, job.cost(command)) for job in jobs for command in job.commands]


def run(board: str, model: str, directory: Path) -> harness.Run:
    return harness.run(MODELS / f"{model}.pte", board=board, runs=RUNS, output=directory / "run")


def described(trace: Trace, first: int, count: int) -> list[tuple[object, ...]]:
    return [
        (
            trace.text(int(trace.name[row])),
            int(trace.chain[row]),
            int(trace.instruction[row]),
            int(trace.delegate_int[row]),
            trace.text(int(trace.delegate_str[row])),
        )
        for row in range(first, first + count)
        if trace.kind[row] == Kind.PROFILE
    ]


@on_boards
@of_models
def test_each_command_is_an_event_of_the_call_it_belongs_to(
    board: str, model: str, tmp_path: Path
) -> None:
    outcome = run(board, model, tmp_path)
    trace = outcome.trace
    executions = [block for block in trace.blocks if block.name == "Execute"]
    assert len(executions) == RUNS
    for block in executions:
        assert described(trace, block.first, block.count) == EVENTS[model]
    kept = read_ed00((tmp_path / "run" / "trace.etdp").read_bytes())
    for block in kept.blocks[1:]:
        assert described(kept, block.first, block.count) == EVENTS[model]


@on_boards
@of_models
def test_events_of_the_npu_last_as_long_as_its_cost_model_says(
    board: str, model: str, tmp_path: Path
) -> None:
    outcome = run(board, model, tmp_path)
    trace, clocks = outcome.trace, outcome.trace.clocks
    assert [clock.bits for clock in clocks] == [32, 24]
    assert clocks[NPU].hz == clocks[0].hz * Fraction(3, 8)
    rows = np.flatnonzero(trace.clock == NPU)
    costs = [cost for _, cost in commands(model)]
    assert durations(trace)[rows].tolist() == [cost.cycles for cost in costs] * RUNS
    metadata = [struct.pack("<II", cost.macs, cost.nbytes) for cost in costs]
    assert [trace.metadata_of(int(row)) for row in rows] == metadata * RUNS
    assert (trace.name[rows] == NO_NAME).all()
    assert (trace.start[rows] < 2**24).all()
    assert (trace.end[rows] < 2**24).all()

    kept = read_ed00((tmp_path / "run" / "trace.etdp").read_bytes())
    ours = np.flatnonzero((kept.delegate_int != NONE) | (kept.delegate_str != NO_NAME))
    assert (kept.end - kept.start)[ours].tolist() == durations(trace)[rows].tolist()


@on_boards
@of_models
def test_each_call_takes_temporary_memory_and_gives_it_back(
    board: str, model: str, tmp_path: Path
) -> None:
    outcome = run(board, model, tmp_path)
    (temporary,) = (a for a in Subject(outcome.trace).allocators if a.name == "temporary")
    parts = (MODELS / f"{model}.pte").read_bytes().split(b"ENPU")[1:]
    wishes = [wish for part in parts if (wish := decode(b"ENPU" + part).scratch_size) > 0]
    assert temporary.count == RUNS * len(wishes) > 0
    assert temporary.largest_bytes == temporary.peak_bytes == max(wishes)
    assert (temporary.total_bytes, temporary.failures) == (0, 0)

    trace = outcome.trace
    held = Subject(trace).memory
    assert not any(item.unmatched or item.overlapping for item in held.allocators)
    at_peak = [piece for piece in held.peak_pieces if piece.allocator.name == "temporary"]
    assert [piece.size for piece in at_peak] == [max(wishes)]
    assert {trace.text(trace.name[piece.during]) for piece in at_peak} == {"DELEGATE_CALL"}
    assert all(piece.freed >= 0 for piece in at_peak)


@on_boards
@of_models
def test_the_call_lasts_longer_than_what_the_npu_did_in_it(
    board: str, model: str, tmp_path: Path
) -> None:
    trace = run(board, model, tmp_path).trace
    operators = operator_statistics(trace, "Execute")
    assert {op.clock.name for op in operators if op.name == ""} == {"simulated NPU"}
    for call in (op for op in operators if op.name == "DELEGATE_CALL"):
        within = [op for op in operators if op.clock is not call.clock]
        inside = sum(op.ns.total for op in within if op.instruction == call.instruction)
        assert 0 < inside <= call.ns.total

    tree = Subject(trace).tree
    assert not tree.ambiguous.any()
    for row in np.flatnonzero(trace.kind == Kind.PROFILE).tolist():
        name, parent = trace.text(trace.name[row]), int(tree.parent[row])
        around = None if parent < 0 else trace.text(trace.name[parent])
        if name is None or name.startswith("native_call_"):
            assert around == ("DELEGATE_CALL" if name is None else "OPERATOR_CALL")
            assert trace.instruction[parent] == trace.instruction[row]
        elif name.endswith("_CALL"):
            assert around == "Method::execute"
            assert tree.own[row] <= tree.total[row]


@of_models
def test_its_events_are_on_the_hosts_clock_within_their_calls(model: str, tmp_path: Path) -> None:
    outcome = run("native", model, tmp_path)
    result, trace = outcome.result, outcome.trace
    cpu, npu = result.clock_quality
    assert (cpu.reference, npu.reference) == ("host", "CLOCK_MONOTONIC")
    for quality in (cpu, npu):
        assert quality.events == quality.placed == quality.bounded > 0
        assert (quality.silent_wraps, quality.unsettled, quality.unknown) == (0, 0, "")
    assert cpu.rate_ppm == (0, 0)  # it is the same clock, as the board file says
    times = host_times(trace, result.pings, result.restart, Steadiness(Fraction(0)))
    began, ended = times.instants(NPU)
    rows, calls = calls_around(trace, NPU)
    assert (calls > rows).all()
    place = np.searchsorted(np.flatnonzero(trace.clock == 0), calls)
    call_began, call_ended = (instants for instants in times.instants())
    assert result.restart is not None
    after = next(ping for ping in result.pings if ping.epoch == result.restart.epoch)
    rounding = 5  # each step rounds its bounds outward, to ticks of 1 ns here
    assert (began.low >= call_began.low[place] - rounding).all()
    assert (ended.high <= call_ended.high[place] + rounding).all()
    assert (call_began.high > result.restart.host_before_ns).all()
    assert (call_ended.low < after.host_after_ns).all()
    assert (began.low <= ended.high).all()


@of_models
def test_the_counter_wraps_within_a_command_in_every_run(model: str, tmp_path: Path) -> None:
    trace = run("qemu-mps2-an385", model, tmp_path).trace
    rows = np.flatnonzero(trace.clock == NPU)
    assert np.count_nonzero(trace.start[rows] > trace.end[rows]) == 1


@on_boards
@of_models
def test_outputs_are_pytorchs(board: str, model: str) -> None:
    fixture = np.load(FIXTURES / f"{model}.npz")
    with started(board) as bench:
        info = bench.session.load_model((MODELS / f"{model}.pte").read_bytes())
        assert len(fixture["inputs"]) == 5
        for value, expected in zip(fixture["inputs"], fixture["outputs"], strict=True):
            bench.session.set_input(0, tensor_to_bytes(value, info.inputs[0]))
            bench.session.run(1, timeout_s=100)
            output = tensor_from_bytes(bench.session.read(Region.OUTPUT), info.outputs[0])
            np.testing.assert_allclose(output, expected, rtol=0, atol=1e-5)


def test_a_board_without_the_backend_names_it_before_anything_runs() -> None:
    with started("qemu-lm3s6965evb") as bench:
        assert bench.session.target is not None
        assert len(bench.session.target.clocks) == 1
        with pytest.raises(DeviceRefusedError, match="no backend SimulatedNpu in this firmware"):
            bench.session.load_model((MODELS / "npu_str.pte").read_bytes())
        # The board goes on: it takes the next model.
        assert bench.session.load_model((MODELS / "small_int8.pte").read_bytes()).inputs


@on_boards
def test_a_method_may_be_loaded_again_and_again(board: str) -> None:
    model, other = ((MODELS / f"{name}.pte").read_bytes() for name in ("npu_int", "npu_str"))
    sizes = set()
    with started(board) as bench:
        for _ in range(3):
            sizes.add(bench.session.load_model(model).method_bytes)
            bench.session.load_model(other)
    assert len(sizes) == 1


def test_reports_have_the_operators_outside_of_delegates(tmp_path: Path) -> None:
    """Each renderer, from the record of the run."""
    run = harness.run("npu_str", board="native", runs=RUNS, output=tmp_path / "run")
    title = f"2 calls of SimulatedNpu, 2 operators outside: means of {RUNS} executions"
    for suffix in ("md", "html"):
        page = run.report(tmp_path / f"report.{suffix}").read_text()
        assert title in page
        assert "the simulated NPU takes linear, relu, add and mul, not tanh" in page
    [found] = json.loads(run.report(tmp_path / "report.json").read_text())["runs"]
    parts = found["sections"]["fallback"]["parts"]
    assert [part["name"] for part in parts] == [
        "delegate",
        "other operators",
        "between instructions",
    ]
    assert sum(part["share"] for part in parts) == pytest.approx(1, abs=0.05)
    again = harness.load(tmp_path / "run").report(tmp_path / "again.json")
    assert json.loads(again.read_text())["runs"][0]["sections"] == found["sections"]
