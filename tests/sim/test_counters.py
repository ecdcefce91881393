"""Hardware counters of simulated cores: QEMU's, and CV32E40P's from its RTL."""

from __future__ import annotations

import socket
from collections.abc import Callable, Iterator
from fractions import Fraction
from functools import cache
from itertools import pairwise
from pathlib import Path

import numpy as np
import numpy.typing as npt
import pytest

import harness
from harness import (
    NO_COUNT,
    RunOptions,
    Session,
    Subject,
    Trace,
    UsageError,
    build_firmware,
    durations,
    start_target,
)
from harness.runs.device import pull_trace
from harness.runs.directory import RunDirectory
from harness.runs.source import load_source
from tests.conftest import MODELS, CommandResult
from tests.support.fake_ppk2 import FakePpk2
from tests.support.rtl import QEMU, board_file
from tests.support.stateful import unpacked

pytestmark = pytest.mark.sim
MODEL = MODELS / "small_int8.pte"
RUNS = 2
BRANCHES = ("cycles", "instret", "branches", "branches_taken", "compressed", "load_stall")
Measure = Callable[..., harness.Run]


@pytest.fixture(scope="module")
def measure(tmp_path_factory: pytest.TempPathFactory) -> Measure:
    @cache
    def run(board: str | Path, counters: tuple[str, ...], number: int = 0) -> harness.Run:
        del number  # asks for another process
        output = tmp_path_factory.mktemp("counters") / "run"
        return harness.run(MODEL, board=board, runs=RUNS, counters=counters, output=output)

    return run


def counts(trace: Trace, name: str) -> npt.NDArray[np.int64]:
    """The counts of one counter, of events that have counts."""
    number = [counter.name for counter in trace.counters].index(name)
    return np.asarray(trace.counts[trace.counts[:, 0] != NO_COUNT, number])


def own_name(trace: Trace) -> list[str | None]:
    return [trace.text(int(name)) for name in trace.name[trace.counts[:, 0] != NO_COUNT]]


def test_on_qemu_counts_are_instructions_less_the_reading_of_the_counters(
    measure: Measure, tmp_path: Path
) -> None:
    """With -icount both counters and the clock count instructions.

    The clock is read outside of the counters, so every event has more ticks than counts, by the
    same number: what lies between these readings.
    """
    run = measure("qemu-riscv32-virt", ("cycles", "instret"))
    trace = run.trace
    cycles, instret = counts(trace, "cycles"), counts(trace, "instret")
    ticks = durations(trace)[trace.counts[:, 0] != NO_COUNT].astype(np.int64)
    assert (cycles == instret).all()
    assert len(set((ticks - instret).tolist())) == 1
    assert 0 < ticks[0] - instret[0] < 100
    # Without its overhead, an operator counts the same whatever else is counted beside.
    plain = measure("qemu-riscv32-virt", ("instret",)).trace
    kernels = [i for i, name in enumerate(own_name(trace)) if str(name).startswith("native_call")]
    for one, other in ((trace, plain), (plain, trace)):
        assert own_name(one) == own_name(other)
    net = [
        counts(each, "instret")[kernels]
        - next(counter.overhead for counter in each.counters if counter.name == "instret")
        for each in (trace, plain)
    ]
    assert net[0].tolist() == net[1].tolist()
    # An event that reads the counters costs more ticks than one without, and the result says so.
    assert run.result is not None
    assert run.result.trace is not None
    assert run.result.target is not None
    target, summary = run.result.target, run.result.trace
    [measured] = trace.empty_events
    assert (summary.probe_ticks, summary.probe_pairs) == (measured.ticks, measured.count)
    assert measured.cost > 2 * Fraction(target.probe_ticks, target.probe_pairs)
    # The counters were read around eight of these nine events, with a part of their own reading.
    assert trace.counters[0].overhead < measured.cost <= trace.counters[0].parent_overhead
    # A run directory has the counters, too.
    assert run.directory is not None
    loaded = harness.load(run.directory).trace
    assert loaded == trace
    assert loaded.empty_events == trace.empty_events
    assert [each.overhead for each in loaded.counters] == [each.overhead for each in trace.counters]


@pytest.mark.long
def test_counts_of_rtl_hold_the_identities_of_the_core(measure: Measure) -> None:
    run = measure("rtl-cv32e40p", BRANCHES)
    assert run.passed
    trace = run.trace
    found = {name: counts(trace, name) for name in BRANCHES}
    assert (found["cycles"] >= found["instret"]).all()
    assert (found["branches"] >= found["branches_taken"]).all()
    assert (found["compressed"] <= found["instret"]).all()
    assert (found["branches"] + found["load_stall"] <= found["cycles"]).all()
    assert all(each.any() for each in found.values())
    tree = Subject(trace).tree
    for row in range(len(trace)):
        children = tree.children(row)
        if trace.counts[row, 0] != NO_COUNT and len(children):
            inner = np.where(trace.counts[children] == NO_COUNT, 0, trace.counts[children])
            assert (inner.sum(axis=0) <= trace.counts[row]).all()


@pytest.mark.long
def test_counts_of_rtl_are_the_same_in_every_execution_and_process(measure: Measure) -> None:
    first, second = (measure("rtl-cv32e40p", BRANCHES, number).trace for number in range(2))
    assert (first.counts == second.counts).all()
    names = own_name(first)
    ends = [at + 1 for at, name in enumerate(names) if name == "Method::execute"]
    begin = names.index("Program::load_method") + 1
    rows = first.counts[first.counts[:, 0] != NO_COUNT]
    executions = [rows[a:b].tolist() for a, b in pairwise([begin, *ends])]
    assert len(executions) == RUNS
    assert executions == [executions[0]] * RUNS


@pytest.mark.long
def test_operators_retire_the_instructions_that_qemu_counts(
    measure: Measure, tmp_path: Path
) -> None:
    """The same image, whatever else is counted beside; what an empty event counts is taken off."""
    qemu = board_file(tmp_path, "rtl-cv32e40p", QEMU)
    runs = [
        measure("rtl-cv32e40p", BRANCHES).trace,
        measure("rtl-cv32e40p", ("instret",)).trace,
        measure(qemu, ("instret",)).trace,
    ]
    net = []
    for trace in runs:
        [counter] = [each for each in trace.counters if each.name == "instret"]
        kernels = [str(name).startswith("native_call") for name in own_name(trace)]
        net.append((counts(trace, "instret")[kernels] - counter.overhead).tolist())
    assert net[0] == net[1] == net[2]
    assert len(net[0]) == 7 * RUNS


def test_the_event_counters_of_the_core_are_absent_on_qemu(tmp_path: Path) -> None:
    board = board_file(tmp_path, "rtl-cv32e40p", QEMU)
    with pytest.raises(UsageError) as caught:
        harness.run(MODEL, board=board, counters="load_stall", output=tmp_path / "run")
    assert (caught.value.hint or "").endswith("it has cycles, instret")


@pytest.mark.long
def test_more_counters_than_the_core_has_take_several_runs(
    etharness: Callable[..., CommandResult], tmp_path: Path, measure: Measure
) -> None:
    names = (*BRANCHES, "loads", "stores", "jumps")
    model = ("--board", "rtl-cv32e40p", "--model", MODEL, "--runs", RUNS)
    command = ("run", *map(str, model), "--counters", ",".join(names), "-o", tmp_path / "run")
    refused = etharness(*command)
    assert refused.code == 2
    assert "at most 8 counters, 8 of them selectable" in refused.err
    assert "--counter-passes" in refused.err

    passes: list[bool] = []

    def play() -> Iterator[bytes]:
        passes.append((tmp_path / "run/pass2.etlog").exists())
        yield from meter.idle()

    meter = FakePpk2(play)
    energy = ("--energy", f"ppk2:{meter.port}", "--volts", "3.3")
    done = etharness(*command, "--counter-passes", *energy)
    meter.close()
    assert done.code == 0
    assert passes == [True]  # the meter records the last of the passes, whose times are kept
    assert "counters in 2 passes: cycles differ by at most 0.00% in an execution" in done.out
    loaded = load_source(tmp_path / "run")
    assert loaded.result is not None
    assert loaded.result.trace is not None
    assert loaded.result.trace.passes is not None
    assert loaded.result.trace.passes.execution_difference == 0
    assert loaded.result.trace.passes.unmatched_events == 0
    # The counts are those of a run that reads as many counters as each pass.
    single = measure("rtl-cv32e40p", names[:8]).trace
    for name in names[:8]:
        assert counts(loaded.trace, name)[2:].tolist() == counts(single, name)[2:].tolist()
    assert (counts(loaded.trace, "loads") + counts(loaded.trace, "stores")).all()


@pytest.mark.long
def test_each_pass_of_counters_is_a_sequence_of_its_own(tmp_path: Path) -> None:
    """From the first state, so that both passes compute, and cost, the same."""
    program, steps = unpacked("stream", tmp_path)
    names = (*BRANCHES, "loads", "stores", "jumps")
    run = harness.run(
        *(program,),
        board="rtl-cv32e40p",
        steps=steps,
        counters=names,
        counter_passes=True,
        output=tmp_path / "run",
    )
    assert (run.verdict.exit_code, run.result.runs_completed) == (0, 6)
    assert run.result.trace is not None
    assert run.result.trace.passes is not None
    assert run.result.trace.passes.execution_difference == 0
    assert [counter.name for counter in run.trace.counters] == [*names]
    assert sum(block.name == "Execute" for block in run.trace.blocks) == 6


def test_a_counter_that_the_board_lacks_is_named_with_those_it_has(
    etharness: Callable[..., CommandResult], tmp_path: Path
) -> None:
    command = ("run", "--board", "qemu-riscv32-virt", "--model", MODEL, "-o", tmp_path / "run")
    wrong = etharness(*command, "--counters", "cycels,load_stall")
    assert wrong.code == 2
    assert "qemu-riscv32-virt has no hardware counter 'cycels'" in wrong.err
    assert "it has cycles, instret" in wrong.err


@pytest.mark.parametrize("board", ["native", "qemu-mps2-an386", "qemu-mps3-an547"])
def test_a_board_without_counters_says_so(
    board: str, etharness: Callable[..., CommandResult], tmp_path: Path
) -> None:
    """The firmware of the AN547 looks for a PMU, and QEMU's reads 0."""
    command = ("run", "--board", board, "--model", MODEL, "-o", tmp_path / "run")
    refused = etharness(*command, "--counters", "cycles")
    assert refused.code == 2
    assert f"{board} has no hardware counter 'cycles'" in refused.err
    assert "its firmware offers none" in refused.err


def test_link_and_debug_probe_pull_the_same_counts(
    etharness: Callable[..., CommandResult], tmp_path: Path
) -> None:
    board = harness.Board.load("qemu-riscv32-virt")
    path = board.file
    with socket.create_server(("127.0.0.1", 0)) as server:
        number = server.getsockname()[1]
    text = path.read_text().replace('"shift=0"', f'"shift=0", "-gdb", "tcp:127.0.0.1:{number}"')
    file = tmp_path / f"{board.name}.toml"
    file.write_text("\n".join(row for row in text.splitlines() if not row.startswith("budget")))
    described = harness.Board.load(file)
    firmware = build_firmware(described)
    with start_target(described, firmware) as target:
        session = Session(target.transport, deadline_s=20)
        info = session.hello(20)
        loaded = session.load_model(MODEL.read_bytes())
        session.set_input(0, bytes(loaded.inputs[0].nbytes))
        numbers = session.counters().numbers(("instret", "cycles"))
        session.run(RUNS, RunOptions(counters=numbers), timeout_s=60)
        pull_trace(session, info, RunDirectory.create(tmp_path / "link"))
        port = ("--port", f"gdb://127.0.0.1:{number}", "--elf", firmware.image)
        probed = etharness("pull", "--board", file, *port, "-o", tmp_path / "probe")
        assert probed.code == 0, probed.err
    logs = [tmp_path / way / "trace.etlog" for way in ("link", "probe")]
    assert logs[0].read_bytes() == logs[1].read_bytes()
    trace = harness.load(tmp_path / "probe").trace
    assert (counts(trace, "instret") == counts(trace, "cycles")).all()
    assert len(counts(trace, "instret")) > 7 * RUNS
    assert "Hardware counters (median)" in probed.out
