"""The link through a debug probe: rings of our own in SEGGER's control block."""

from __future__ import annotations

import json
import os
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

import harness
from harness import PortError, build_firmware, open_port
from harness.extensions.probes.memory import FirmwareElf
from tests.conftest import CommandResult
from tests.support.flash import TOOLS_OF_PIP
from tests.support.tracer_only import gdbserver

pytestmark = pytest.mark.sim

ROOT = Path(__file__).parents[2]
BOARD = """
schema = 1
name = "mps2-an385-rtt"
description = "Arm MPS2 with AN385, the link through a debug probe"
cpu = "cortex-m3"
timer = { source = "CMSDK timer 0", bits = 32, hz = 25_000_000, emulated = true }
build = { preset = "mps2-an385-rtt" }
target = { kind = "serial" }
deadlines = { boot_s = 20, request_s = 20, execute_s = 60 }
"""


@pytest.fixture(scope="module")
def board(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("board") / "mps2-an385-rtt.toml"
    path.write_text(BOARD)
    return path


@pytest.fixture(scope="module")
def image(board: Path) -> Path:
    return build_firmware(harness.Board.load(board)).image


def test_a_model_runs_over_memory_alone(
    etharness: Callable[..., CommandResult], board: Path, image: Path, tmp_path: Path
) -> None:
    """Halts for polling change no tick: two boards that are polled at other moments agree."""
    block = FirmwareElf(image).variable("_SEGGER_RTT").address
    queries = {"exact": f"address={block:#x}", "search": f"address={block & ~0xFFF:#x}&size=8192"}
    for name, query in queries.items():
        with gdbserver(image, tmp_path) as server:
            result = etharness(
                *("run", "--board", board, "--model", "small_int8", "--runs", "3", "--json"),
                *("--port", f"rtt+{server}?{query}", "-o", tmp_path / name),
            )
        assert result.code == 0, result.err
        record = json.loads(result.out)
        assert record["runs_completed"] == 3
        assert record["link"]["retries"] == 0
    logs = [(tmp_path / name / "trace.etlog").read_bytes() for name in queries]
    assert logs[0] == logs[1]


@pytest.mark.attack(
    "Link and servers", "a probe on a board without RTT", "an error that reports it"
)
@pytest.mark.long
def test_memory_without_a_control_block(image: Path, tmp_path: Path) -> None:
    with gdbserver(image, tmp_path) as server:
        for query in ("address=0x20000000", "address=0x0&size=4096"):
            with pytest.raises(PortError, match="no RTT control block at 0x"):
                open_port(f"rtt+{server}?{query}", 115_200)


def test_pyocds_own_host_speaks_with_our_rings(image: Path, tmp_path: Path) -> None:
    block = FirmwareElf(image).variable("_SEGGER_RTT").address
    script = ROOT / "tests/support/pyocd_rtt.py"
    with gdbserver(image, tmp_path) as server:
        done = subprocess.run(
            [TOOLS_OF_PIP / "python", script, server, hex(block & ~0xFFF)],
            env={**os.environ, "PYTHONPATH": str(ROOT)},
            capture_output=True,
            text=True,
            timeout=600,
            check=False,
        )
    assert done.returncode == 0, done.stderr
    rings, greeting, taken = done.stdout.splitlines()
    assert rings == "etdump 4096 etdump 4096"
    assert greeting.startswith("etdump stub ")
    assert greeting.endswith(" on mps2-an385-rtt")
    assert taken == "200 True"
