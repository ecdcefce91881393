"""The same network over every wire: the same events, and operators that take as long."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

import harness
from harness import Kind, Trace, build_firmware, durations
from harness.extensions.probes.memory import FirmwareElf
from tests.conftest import ROOT
from tests.sim.test_rtt import BOARD as RTT_BOARD
from tests.sim.test_semihosting import SEMIHOSTING, simulate
from tests.support.examples import sampled
from tests.support.flash import TOOLS_OF_PIP
from tests.support.tracer_only import BOARD, build_tracer_only, gdbserver

pytestmark = pytest.mark.sim

MODEL = "kws_int8"
EXECUTIONS = 3
WATCHDOG = 5
"""Ticks of looking for a watchdog between 16 operators."""


@pytest.fixture(scope="module")
def over_uart(tmp_path_factory: pytest.TempPathFactory) -> harness.Run:
    """The network over the UART of the board's own firmware."""
    output = tmp_path_factory.mktemp("uart") / "run"
    return harness.run(MODEL, board=BOARD, runs=EXECUTIONS, output=output)


def build(over_uart: harness.Run, folder: Path, *more: str | Path) -> Path:
    """Build firmware with the tracer and no link, with the model and input of that run."""
    assert over_uart.directory is not None
    given = np.load(over_uart.directory / "inputs/0.npy")
    return build_tracer_only(
        folder, model=f"{MODEL}.pte", given=given, executions=EXECUTIONS, more=more
    )


@pytest.fixture(scope="module")
def image(over_uart: harness.Run, tmp_path_factory: pytest.TempPathFactory) -> Path:
    return build(over_uart, tmp_path_factory.mktemp("firmware"))


def by_gdbserver(over_uart: harness.Run, image: Path, folder: Path) -> Trace:
    with gdbserver(image, folder, stopped=True) as port:
        run = harness.run(
            *(MODEL, BOARD),
            **{"port": port, "elf": image, "until": "inference_done", "runs": EXECUTIONS},
            output=folder / "run",
        )
    assert run.passed
    # The probe has read the outputs, too.
    [output], [expected] = run.outputs, over_uart.outputs
    assert output.tobytes() == expected.tobytes()
    assert (output.dtype, output.shape) == (expected.dtype, expected.shape)
    return run.trace


def by_pyocd(over_uart: harness.Run, image: Path, folder: Path) -> Trace:
    """pyOCD's own code finds, resets, halts and reads a simulated board as it does a real one."""
    with gdbserver(image, folder, idle=True) as server:
        command = [TOOLS_OF_PIP / "python", ROOT / "tests/support/pyocd_board.py", server]
        wanted = ["--board", BOARD, "--elf", image, "--port", "pyocd://board1?target=cortex_m"]
        command += ["etharness", "pull", *wanted, "-o", folder / "pulled", "then"]
        command += ["run", *wanted, "--model", MODEL, "--reset", "reset halt"]
        command += ["--until", "inference_done", "--runs", str(EXECUTIONS), "-o", folder / "run"]
        done = subprocess.run(
            command,
            env={**os.environ, "PYTHONPATH": str(ROOT)},
            capture_output=True,
            text=True,
            timeout=600,
            check=False,
        )
    assert done.returncode == 0, done.stderr
    run = harness.load(folder / "run")
    assert run.outputs[0].tobytes() == over_uart.outputs[0].tobytes()
    assert run.operator("Method::execute").count == EXECUTIONS
    return harness.load(folder / "pulled").trace


def by_rtt(over_uart: harness.Run, image: Path, folder: Path) -> Trace:
    board = folder / "mps2-an385-rtt.toml"
    board.write_text(RTT_BOARD)
    firmware = build_firmware(harness.Board.load(board)).image
    block = FirmwareElf(firmware).variable("_SEGGER_RTT").address
    with gdbserver(firmware, folder) as server:
        run = harness.run(
            *(MODEL, board),
            **{"port": f"rtt+{server}?address={block:#x}", "runs": EXECUTIONS},
            output=folder / "run",
        )
    assert run.passed
    assert run.outputs[0].tobytes() == over_uart.outputs[0].tobytes()
    return run.trace


def by_semihosting(over_uart: harness.Run, image: Path, folder: Path) -> Trace:
    done = simulate(build(over_uart, folder, *SEMIHOSTING), folder)
    assert done.returncode == 0, done.stderr
    return harness.load(folder / "trace.etlog", clock_hz=25_000_000).trace


def operators(trace: Trace) -> dict[str, list[tuple[str, int, int]]]:
    """Name, instruction and ticks of each event, by the name of its block and its number."""
    ticks = durations(trace)
    return {
        f"{block.name} {number}": [
            (trace.names[trace.name[row]], int(trace.instruction[row]), int(ticks[row]))
            for row in range(block.first, block.first + block.count)
            if trace.kind[row] == Kind.PROFILE
        ]
        for number, block in enumerate(trace.blocks)
    }


WIRES = (by_gdbserver, by_pyocd, by_rtt, by_semihosting)


@pytest.mark.parametrize("wire", sampled(WIRES, by_gdbserver, by_rtt))
def test_a_wire_carries_the_trace_of_the_uart(
    wire: Callable[[harness.Run, Path, Path], Trace],
    over_uart: harness.Run,
    image: Path,
    tmp_path: Path,
) -> None:
    found_all, expected = operators(wire(over_uart, image, tmp_path)), operators(over_uart.trace)
    assert found_all.keys() == expected.keys()
    assert len(expected) == 1 + EXECUTIONS
    for block, events in expected.items():
        found = found_all[block]
        assert [event[:2] for event in found] == [event[:2] for event in events]
        if block.startswith("Execute"):
            # The counter has a tick per 40 instructions, and another phase in another firmware.
            # Between operators, firmware with a server also asks whether its port has a watchdog.
            for ours, theirs in zip(found, events, strict=True):
                tolerance = WATCHDOG if ours[0] == "Method::execute" else 1
                assert abs(ours[2] - theirs[2]) <= tolerance, (ours, theirs)
