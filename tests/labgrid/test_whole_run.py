"""A whole run by way of labgrid: a board's firmware behind an exporter's ser2net."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

import harness
from harness import build_firmware, find_unit
from harness.extensions.lab.labgrid import hold_place
from harness.target.start import ProcessTarget
from tests.conftest import CommandResult
from tests.support.boards import KWS
from tests.support.labgrid import VENV, RealCoordinator, holder_at, real_coordinator
from tests.support.nights import written_plan

BOARD = """\
schema = 1
name = "native"
description = "a board of another host: the firmware as a process, on a terminal"
cpu = "host"
timer = { source = "CLOCK_MONOTONIC", bits = 32, hz = 1_000_000_000 }
build = { preset = "native" }
target = { kind = "serial" }
deadlines = { boot_s = 30, request_s = 5, execute_s = 60 }
"""
UNITS = """\
schema = 1
[[unit]]
id = "far"
board = "native.toml"
lease = "labgrid"
match = { board = "terminal" }
"""
PLAN = """\
schema = 1
output = "out"
repeats = 2
history = "runs.sqlite"
[[board]]
board = "native.toml"
units = ["far"]
[[model]]
file = "small_int8.pte"
runs = 2
"""

pytestmark = pytest.mark.labgrid


@pytest.fixture
def far(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[RealCoordinator]:
    """A coordinator whose place ``tty`` is a board on a terminal of this host."""
    image = build_firmware(harness.Board.load("native")).image
    firmware = ProcessTarget("the board", [str(image)])
    try:
        assert firmware.wait_for(lambda: b"link: " in firmware.output(), 30)
        terminal = firmware.output().split()[1].decode()
        with real_coordinator(tmp_path, terminal) as running:
            monkeypatch.setenv("ETHARNESS_LABGRID", str(VENV / "labgrid-client"))
            monkeypatch.setenv("LG_COORDINATOR", running.address)
            (tmp_path / "native.toml").write_text(BOARD)
            (tmp_path / "units.toml").write_text(UNITS)
            monkeypatch.chdir(tmp_path)
            yield running
    finally:
        firmware.close()


def test_a_run_on_a_board_of_another_host(
    far: RealCoordinator, etharness: Callable[..., CommandResult]
) -> None:
    done = etharness("run", "--unit", "far", "--model", KWS, "--runs", "2", "-o", "out")
    assert done.code == 0, done.err
    result = json.loads(Path("out/result.json").read_text())
    assert result["unit"] == "tty"
    assert result["port"].startswith("rfc2217://127.0.0.1:")
    assert result["runs_completed"] == 2
    assert holder_at(far, "tty") == ""


def test_a_night_on_a_board_of_another_host(
    far: RealCoordinator, etharness: Callable[..., CommandResult], tmp_path: Path
) -> None:
    """It holds the place throughout, and the processes that it starts use what it holds."""
    written_plan(tmp_path, PLAN)
    done = etharness("nightly", "plan.toml", "--json")
    assert done.code == 0, done.out + done.err
    night = json.loads(done.out)
    assert night["counts"]["pass"] == 2
    assert [(unit["unit"], unit["state"]) for unit in night["units"]] == [("far", "well")]
    assert "tty" in etharness("history", "list", "--history", "runs.sqlite").out
    assert holder_at(far, "tty") == ""


def test_a_ser2net_that_ended_is_told_and_started_again_by_the_next(far: RealCoordinator) -> None:
    unit = find_unit("far")
    with hold_place(unit, 0) as held:
        far.kill_ser2net()
        address = held.port
    with hold_place(unit, 0) as held:
        assert held.port != address
