"""Real crashes of simulated boards: what the harness says, and what gdb saw."""

from __future__ import annotations

import json
import os
import signal
from collections.abc import Callable
from pathlib import Path

import pytest

import harness
from harness import Kind, Region, RestartedError, Session, build_firmware
from harness.decode.pte import ModelFile
from harness.runs.loading import place_model
from harness.testing import Reset
from tests.conftest import MODELS, NATIVE_PRESET, CommandResult
from tests.support.boards import Bench, native_board, once, started
from tests.support.debugger import Debugger
from tests.support.documents import document
from tests.support.examples import sampled

pytestmark = pytest.mark.sim
Etharness = Callable[..., CommandResult]

MODEL = MODELS / "small_int8.pte"
KERNEL = "native_call_quantized_linear.out"
RUNS = 20
STOPS = 4
"""The kernel is instruction 1 and 2: this is the latter, in the second execution."""

UNDEFINED = {"arm": "set *(short *)$pc = 0xde00", "riscv": "set *(short *)$pc = 0"}
FAULTS = {
    "qemu-microbit": "HardFault",
    "qemu-lm3s6965evb": "HardFault (undefined instruction)",
    "qemu-mps2-an385": "HardFault (undefined instruction)",
    "qemu-mps2-an386": "HardFault (undefined instruction)",
    "qemu-mps2-an500": "HardFault (undefined instruction)",
    "qemu-mps2-an505": "HardFault (undefined instruction)",
    "qemu-mps3-an547": "HardFault (undefined instruction)",
    "qemu-netduinoplus2": "HardFault (undefined instruction)",
    "qemu-riscv32-virt": "trap 2 (illegal instruction)",
}
GDB_NAMES = {
    "arm": {f"R{i}": f"r{i}" for i in (0, 1, 2, 3, 12)} | {"LR": "lr", "PC": "pc", "SP": "sp"},
    "riscv": {"PC": "pc", "RA": "ra", "SP": "sp"},
}


def core_of(board: str) -> str:
    return "riscv" if "riscv" in board else "arm"


def crash(
    board: str, directory: Path, then: str, counters: tuple[str, ...] = ()
) -> tuple[RestartedError, Debugger]:
    """Run, with gdb doing something to the board in a kernel."""
    debugger = Debugger(board, directory, "quantized_linear", stops=STOPS, then=then)
    with pytest.raises(RestartedError) as caught:
        harness.run(
            MODEL, board=debugger.board_file, runs=RUNS, output=directory / "run", counters=counters
        )
    return caught.value, debugger


@pytest.mark.parametrize("board", sampled(FAULTS, "qemu-mps2-an385"))
def test_a_fault_names_operator_execution_line_and_registers(
    board: str, tmp_path: Path, etharness: Etharness
) -> None:
    counters = ("instret", "cycles") if core_of(board) == "riscv" else ()
    error, debugger = crash(board, tmp_path, UNDEFINED[core_of(board)], counters)
    where = f"{FAULTS[board]} in {KERNEL} (instruction 2), execution 2 of {RUNS}"
    assert error.exit_code == 4
    assert error.message.startswith(f"{board}: the board restarted by itself: {where}, at ")
    assert "at quantized_linear at cortex_m_linear.c:" in error.message

    result = document("result", (tmp_path / "run" / "result.json").read_text())
    assert (result["exit_code"], result["runs_completed"]) == (4, 1)
    assert result["failure"]["message"] == error.message
    kept = document("postmortem", (tmp_path / "run" / "postmortem.json").read_text())
    seen = debugger.registers()
    for name, its in GDB_NAMES[core_of(board)].items():
        assert kept["registers"][name] == seen[its], name
    assert [event["name"] for event in kept["open"]] == ["Method::execute", "OPERATOR_CALL", KERNEL]
    assert [event["instruction"] for event in kept["last_events"]][-2:] == [1, 1]
    assert {item["name"] for item in kept["allocators"]} == {"method", "planned_1"}
    assert 0 < kept["stack_used"] < kept["stack_size"]
    assert kept["damage"] == []

    code, out, _ = etharness("postmortem", tmp_path / "run", "--json")
    assert code == 0
    assert json.loads(out) == kept
    code, out, _ = etharness("decode", tmp_path / "run" / "trace.etlog", "--json")
    assert code == 0
    assert document("decode", out)["events"] > 0
    trace = harness.load(tmp_path / "run").trace
    assert tuple(counter.name for counter in trace.counters) == counters
    if counters:
        assert (trace.counts[trace.kind == Kind.PROFILE] > 0).all()


@pytest.mark.parametrize("board", ["qemu-microbit", "qemu-mps2-an385", "qemu-riscv32-virt"])
def test_a_reset_from_outside_in_a_run_names_the_operator_too(board: str, tmp_path: Path) -> None:
    """As by a watchdog or a button: no handler of ours runs."""
    error, _ = crash(board, tmp_path, "monitor system_reset")
    where = f"reset in {KERNEL} (instruction 2), execution 2 of {RUNS}"
    assert error.message == f"{board}: the board restarted by itself: {where}"
    kept = document("postmortem", (tmp_path / "run" / "postmortem.json").read_text())
    assert (kept["registers"], kept["places"]) == ({}, {})


def test_a_fault_with_the_model_in_flash_names_the_line(tmp_path: Path) -> None:
    board = "qemu-mps2-an386"
    description = harness.Board.load(board)
    placed = place_model(ModelFile(MODEL, MODEL.read_bytes()), description)
    image = build_firmware(description, placed).image
    stop = Debugger(
        *(board, tmp_path, "quantized_linear"), stops=STOPS, then=UNDEFINED["arm"], image=image
    )
    run = tmp_path / "run"
    with pytest.raises(RestartedError, match=r"at quantized_linear at cortex_m_linear\.c:"):
        harness.run(MODEL, board=stop.board_file, runs=RUNS, output=run, placed=True)


def test_an_access_to_nowhere_names_the_address(tmp_path: Path) -> None:
    error, _ = crash("qemu-mps2-an385", tmp_path, "set $r0 = 0xa0000000")
    assert "HardFault (bus error at a data access, at address 0xa000" in error.message


def test_a_stack_that_overflows_is_told_without_its_frame(tmp_path: Path) -> None:
    error, _ = crash("qemu-mps2-an385", tmp_path, "set $sp = &stack_bottom[4]")
    assert f" in {KERNEL} (instruction 2), execution 2 of {RUNS}" in error.message
    kept = document("postmortem", (tmp_path / "run" / "postmortem.json").read_text())
    assert "PC" not in kept["registers"]
    assert kept["registers"]["CFSR"] != 0


def crashed_native(bench: Bench) -> Session:
    """A native board that has crashed in a run, and a session that has noticed."""
    session = bench.session
    info = session.load_model(MODEL.read_bytes())
    session.set_input(0, bytes(info.inputs[0].nbytes))
    kill = once(lambda: os.kill(bench.target.pid, signal.SIGSEGV), at=3)
    with pytest.raises(RestartedError):
        session.run(1_000_000, timeout_s=30, progress=kill)
    return session


def test_a_crash_of_the_native_board_is_told_alike(tmp_path: Path, etharness: Etharness) -> None:
    with started("native") as bench:
        crashed_native(bench)
        bench.target.transport.close()
        path = bench.target.description.rpartition(" ")[2]
        arguments = ["postmortem", "--board", "native", "--port", path]
        code, out, err = etharness(*arguments, "-o", tmp_path / "saved")
        assert (code, err) == (0, "")
        assert out.startswith("crash     SIGSEGV ")
        assert "of 1000000" in out.splitlines()[0]
        again = etharness(*arguments, "--json")
        kept = document("postmortem", again.out)
        code, out, _ = etharness("postmortem", tmp_path / "saved", "--board", "native", "--json")
        assert json.loads(out) == kept
        etharness(*arguments, "--clear", "-q")
        assert "has no crash record" in etharness(*arguments).out


def test_a_run_after_a_crash_keeps_what_was_before(tmp_path: Path) -> None:
    with started(str(native_board(tmp_path, NATIVE_PRESET))) as bench:
        session = crashed_native(bench)
        assert session.hello(10).postmortem
        first = session.read(Region.POSTMORTEM)
        session.reset(Reset.REBOOT)
        assert session.hello(10).postmortem, "another reset does not lose it"
        session.load_model(MODEL.read_bytes())
        second = session.read(Region.POSTMORTEM)
        assert first[:64] == second[:64]


def test_a_board_killed_for_good_is_still_called_dead() -> None:
    with started("native") as bench:
        crashed_native(bench)
        os.kill(bench.target.pid, signal.SIGKILL)
        with pytest.raises(Exception, match="was killed by SIGKILL"):
            bench.session.hello(2)


def test_what_to_look_at_must_be_said(etharness: Etharness, tmp_path: Path) -> None:
    assert etharness("postmortem").code == 2
    assert etharness("postmortem", "--board", "native").code == 2
    code, _, err = etharness("postmortem", tmp_path)
    assert code == 2
    assert "postmortem.bin" in err
    (tmp_path / "junk").write_bytes(b"junk" * 100)
    code, _, err = etharness("postmortem", tmp_path / "junk")
    assert code == 2
    assert "is not a postmortem" in err
