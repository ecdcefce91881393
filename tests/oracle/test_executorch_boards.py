"""ExecuTorch's own runtime behind our link: once under our tracer, once under its ETDumpGen."""

from __future__ import annotations

import json
import re
import signal
import subprocess
import time
from pathlib import Path

import numpy as np
import pytest

pytest.importorskip("executorch.devtools", reason="needs torch and executorch")

import torch
from executorch.backends.xnnpack.partition.xnnpack_partitioner import XnnpackPartitioner
from executorch.devtools import Inspector
from executorch.exir import to_edge_transform_and_lower

import harness
from harness import (
    STREAMING,
    Kind,
    Losses,
    Region,
    RunOptions,
    TargetError,
    TensorValue,
    Trace,
    build_firmware,
    read_log,
    tensor_array,
    without_repeated,
)
from harness.decode.device_log import split_chunk
from harness.extensions.executorch.linking import find_executorch
from harness.link.exchange import executorch_error_name
from harness.testing import wire
from harness.testing.fault_filter import FaultFilter, Faults
from tests.conftest import FIXTURES, MODELS
from tests.sim.test_cancel import Bench, Command
from tests.sim.test_models_on_boards import outputs, signatures
from tests.support.boards import started
from tests.support.executorch import Build
from tests.support.values import logged_tensors

pytestmark = pytest.mark.oracle
OURS, THEIRS = BOARDS = ("native-executorch", "native-executorch-etdumpgen")
STREAMED = 40
"""Executions whose log is many times as long as the buffer they get."""


@pytest.fixture(scope="module")
def delegated(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A network whose linear layers run in XNNPACK, with a portable operator between them."""
    layers = (torch.nn.Linear(16, 32), torch.nn.ReLU(), torch.nn.Linear(32, 4))

    class Network(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.first, self.middle, self.last = layers

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return self.last(torch.cumsum(self.middle(self.first(x)), dim=1))

    program = torch.export.export(Network().eval(), (torch.randn(1, 16),))
    lowered = to_edge_transform_and_lower(program, partitioner=[XnnpackPartitioner()])
    path = tmp_path_factory.mktemp("model") / "delegated.pte"
    path.write_bytes(lowered.to_executorch().buffer)
    return path


def run(board: str, model: Path, directory: Path, runs: int = 3) -> harness.Run:
    return sound(harness.run(model, board=board, runs=runs, output=directory))


def sound(outcome: harness.Run) -> harness.Run:
    """What ExecuTorch itself logs passes every invariant, but for operators too short to tell."""
    assert outcome.result.verdict is not None
    checks = [check for check in outcome.result.verdict.checks if check.code.startswith("I")]
    assert {check.code for check in checks} >= {"I03", "I04", "I10", "I12"}
    assert [check for check in checks if not check.passed and check.code != "I05"] == []
    return outcome


def identities(trace: Trace) -> list[tuple[object, ...]]:
    """Every profile event by all that says what it is: names, delegate ids, chain, instruction."""
    return [
        (
            trace.text(int(trace.name[row])),
            trace.text(int(trace.delegate_str[row])),
            *(int(column[row]) for column in (trace.delegate_int, trace.chain, trace.instruction)),
        )
        for row in np.flatnonzero(trace.kind == Kind.PROFILE)
    ]


@pytest.mark.parametrize("board", BOARDS)
def test_the_events_are_those_that_executorch_recorded(board: str, tmp_path: Path) -> None:
    recorded = json.loads((FIXTURES / "kws_f32_signatures.json").read_text())
    outcome = run(board, MODELS / "kws_f32.pte", tmp_path / "run")
    assert signatures(outcome.trace) == recorded
    assert signatures(harness.load(tmp_path / "run").trace) == recorded
    assert outcome.result.verdict is not None
    assert outcome.result.verdict.passed
    assert outcome.result.trace is not None
    assert outcome.result.trace.dropped_events == 0
    assert outcome.result.target is not None
    assert outcome.result.target.operators > 100
    # The dump comes from the board as it is: then there is no log of ours.
    assert (tmp_path / "run" / "trace.etlog").exists() == (board == OURS)


@pytest.mark.parametrize("board", BOARDS)
def test_the_outputs_are_pytorchs(board: str) -> None:
    for output, expected in outputs(board, "kws_f32"):
        np.testing.assert_allclose(output, expected, rtol=0, atol=1e-4)


@pytest.mark.parametrize("board", BOARDS)
@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
def test_outputs_of_half_the_size_are_read(board: str, dtype: torch.dtype, tmp_path: Path) -> None:
    """Portable kernels take such types; bfloat16, which NumPy lacks, becomes float32."""

    class Halved(torch.nn.Module):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return torch.sigmoid(x.to(dtype))

    x = torch.randn(2, 3)
    program = to_edge_transform_and_lower(torch.export.export(Halved(), (x,)))
    model, given = tmp_path / "halved.pte", tmp_path / "x.npy"
    model.write_bytes(program.to_executorch().buffer)
    np.save(given, x.numpy())
    outcome = harness.run(model, board=board, runs=1, output=tmp_path / "run", inputs=(given,))
    [output] = outcome.result.model.outputs
    assert (output.sizes, output.nbytes) == ((2, 3), 12)
    found = np.load(tmp_path / "run" / output.file)
    assert found.dtype == (np.float16 if dtype is torch.float16 else np.float32)
    np.testing.assert_allclose(found, Halved()(x).float().numpy(), atol=4e-3)


@pytest.mark.parametrize("board", BOARDS)
def test_a_wholly_delegated_model_keeps_to_the_boards_own_budget(
    board: str, tmp_path: Path
) -> None:
    """No operator of its own, no allocation that is logged: a default budget needs neither."""
    network = torch.nn.Sequential(torch.nn.Linear(16, 32), torch.nn.ReLU(), torch.nn.Linear(32, 4))
    program = torch.export.export(network.eval(), (torch.randn(1, 16),))
    lowered = to_edge_transform_and_lower(program, partitioner=[XnnpackPartitioner()])
    model = tmp_path / "wholly.pte"
    model.write_bytes(lowered.to_executorch().buffer)
    outcome = run(board, model, tmp_path / "run")
    assert not [name for name in outcome.trace.names if name.startswith("native_call_")]
    assert outcome.result.verdict is not None
    assert [check for check in outcome.result.verdict.checks if check.failed] == []
    assert outcome.result.exit_code == 0
    stacks = [check for check in outcome.result.verdict.checks if check.code == "B04"]
    assert len(stacks) == (board == OURS), "ETDumpGen's file has no place for it"


@pytest.mark.parametrize("board", BOARDS)
@pytest.mark.parametrize("model", ["kws_f32", "methods", "state", "functions", "scalars"])
def test_the_default_budget_holds_for_models_with_operators(
    board: str, model: str, tmp_path: Path
) -> None:
    assert run(board, MODELS / f"{model}.pte", tmp_path / "run").result.exit_code == 0


def test_both_tracers_tell_the_same_of_a_delegated_model(delegated: Path, tmp_path: Path) -> None:
    ours = run(OURS, delegated, tmp_path / "ours")
    theirs = run(THEIRS, delegated, tmp_path / "theirs")
    assert identities(ours.trace) == identities(theirs.trace)
    assert [block.name for block in ours.trace.blocks] == ["Default", *["Execute"] * 3]
    inner = [name for _, name, *_ in identities(ours.trace) if name]
    assert len(inner) == 2 * 3
    assert all("Fully Connected" in str(name) for name in inner)
    # What ExecuTorch's own tool shows of our file is what it shows of theirs.
    shown = [
        [
            (block.name, [(event.name, event.is_delegated_op) for event in block.events])
            for block in Inspector(etdump_path=str(tmp_path / name / "trace.etdp")).event_blocks
        ]
        for name in ("ours", "theirs")
    ]
    assert shown[0] == shown[1]


@pytest.mark.parametrize("board", BOARDS)
def test_values_are_logged_as_on_the_c_runtime(board: str, tmp_path: Path) -> None:
    level, model = "intermediate", MODELS / "kws_f32.pte"
    found = {}
    for name in ("native", board):
        outcome = sound(
            harness.run(model, board=name, runs=3, output=tmp_path / name, values=level)
        )
        assert not outcome.trace.losses.any
        buffer = (tmp_path / name / "debug_buffer.bin").read_bytes()
        found[name] = logged_tensors(outcome.trace, buffer)
    assert len(found["native"]) > 20
    assert [value.kind for value in found[board]] == [value.kind for value in found["native"]]
    for theirs, ours in zip(found[board], found["native"], strict=True):
        np.testing.assert_allclose(theirs.array, ours.array, rtol=0, atol=1e-4)


@pytest.mark.parametrize("board", BOARDS)
def test_a_method_can_be_profiled_alone(board: str, tmp_path: Path) -> None:
    profile = "method"
    outcome = harness.run(
        MODELS / "kws_f32.pte", board=board, runs=2, output=tmp_path / "run", profile=profile
    )
    names = [str(name) for name, *_ in identities(outcome.trace)]
    assert names[-2:] == ["Method::execute"] * 2
    assert not [name for name in names if name.startswith(("native_call", "OPERATOR"))]


def test_a_missing_operator_is_named(tmp_path: Path) -> None:
    with pytest.raises(TargetError, match="cortex_m::quantize_per_tensor") as caught:
        run(OURS, MODELS / "kws_int8.pte", tmp_path / "run")
    assert "(ExecuTorch Error 0x14 OperatorMissing)" in str(caught.value)


def test_error_codes_have_the_names_that_executorch_gives_them() -> None:
    package = find_executorch()
    assert package is not None
    header = (package / "include/executorch/runtime/core/error.h").read_text()
    enum = header.split("enum class Error")[1].split("};")[0]
    theirs = {int(code, 16): name for name, code in re.findall(r"(\w+) = (0x\w+),", enum)}
    assert theirs.pop(0) == "Ok"
    assert set(theirs) == set(wire.ExecutorchError)
    for code, name in theirs.items():
        assert executorch_error_name(code) == f"ExecuTorch Error 0x{code:02x} {name}"


def test_the_adapter_records_every_call_or_counts_it(tmp_path: Path) -> None:
    build = Build(tmp_path)
    warnings = ("-Wall", "-Wextra", "-Werror")
    calls = build.compile(Path(__file__).with_name("event_tracer_calls.cpp"), *warnings)
    program = build.link([calls, *build.tracer()], "executorch_etdump")
    written = subprocess.run([program], check=True, capture_output=True)
    log, debug_buffer = split_chunk(written.stdout)
    trace = read_log(log)

    assert identities(trace) == [
        (None, None, -7, 2, 70000),
        (None, "layer", -1, 2, 70000),
        (None, None, 9, 0, 1),
        (None, None, 8, 0, 1),
        ("stored", None, -1, 2, 70000),
        ("given", None, -1, 1, 5),
    ]
    assert (int(trace.start[2]), int(trace.end[2])) == (100, 200)
    assert (int(trace.start[3]), int(trace.end[3])) == (0xFFFFFFF0, 0x10)
    assert trace.size[trace.kind == Kind.ALLOCATION].tolist() == [640]
    [block] = trace.blocks
    assert (block.name, block.bundled_input_index, block.allocators) == ("Execute", 3, ("heap",))

    values = trace.debug_values
    assert trace.losses == Losses(events=8, values=1)
    assert trace.filtered_events == 2
    assert [values[i].value for i in (0, 1, 4, 5, 6, 7)] == [2.5, 1 << 40, None, 1.5, True, 4]
    assert [bool(value.output) for value in values] == [False, True, False, True, *[False] * 6]
    assert [value.lost for value in values] == [False] * 9 + [True]
    half = np.array([[1, 3, 5], [2, 4, 6]], np.uint16).view(np.float16)
    kept = [values[2].value, *values[3].value, values[8].value]  # type: ignore[misc]
    for tensor in kept:
        assert isinstance(tensor, TensorValue)
        assert np.array_equal(tensor_array(tensor, debug_buffer), half)
    debug = np.flatnonzero(trace.kind == Kind.DEBUG)
    assert trace.delegate_int[debug].tolist() == [-1] * 6 + [9, 5, -1, -1]
    texts = [trace.text(int(name)) for name in trace.delegate_str[debug]]
    assert texts == ["early", *[None] * 4, "layer", None, None, "layer", "layer"]

    sunk, lost = read_log(written.stderr[written.stderr.index(b"ETLG") :]).debug_values
    assert isinstance(sunk.value, TensorValue)
    assert np.array_equal(tensor_array(sunk.value, bytes(160) + half.tobytes("F")), half)
    assert (sunk.lost, lost.lost) == (False, True)


@pytest.mark.parametrize("seed", range(4))
def test_a_log_streamed_between_executions_over_a_bad_line_is_whole(seed: int) -> None:
    """ExecuTorch's runtime and kernels, as a process of this host."""
    model = (MODELS / "kws_f32.pte").read_bytes()
    with started(OURS) as bench:
        info = bench.session.load_model(model)
        bench.session.set_input(0, bytes(info.inputs[0].nbytes))
        bench.session.run(STREAMED, timeout_s=30)
        whole = read_log(bench.session.read(Region.TRACE))
        proxy = FaultFilter(bench.target.transport, Faults(seed, flip=1e-4, drop=1e-4, delay=1e-4))
        session = bench.new_session(proxy, deadline_s=0.5)
        session.hello(10)
        options = RunOptions(stream=True, trace_limit=16384)
        outcome = session.run(STREAMED, options, timeout_s=30)
        last = session.read(Region.TRACE)
    streamed = read_log(b"".join(without_repeated(outcome.chunks, last)) + last)
    assert proxy.done > 0
    assert len(outcome.chunks) > 2
    assert not streamed.losses.any
    of_instructions = [row for row in identities(streamed) if row[0] not in STREAMING]
    assert of_instructions == identities(whole)


def test_ctrl_c_ends_a_run_after_its_execution(tmp_path: Path) -> None:
    build_firmware(harness.Board.load("native-executorch"))
    bench = Bench(tmp_path, ("--board", "native-executorch"), "kws_f32")
    run = bench.start_run("1000000", "out")
    time.sleep(1)
    run.signal(signal.SIGINT)
    code, _, err = run.end()
    assert (code, "the run has ended on the board" in err) == (130, True), err
    assert 0 < int(str(bench.result("out")["runs_completed"])) < 1_000_000
    decoded = Command(tmp_path, "decode", "out").end()
    assert decoded.code == 0, decoded.err
