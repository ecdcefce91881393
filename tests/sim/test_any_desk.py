"""The commands without what Windows and macOS lack (``tests/support/desk``)."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np
import pytest

from tests.conftest import MODELS, CommandResult
from tests.support.desk import Desk, board_behind_tcp
from tests.support.tracer_only import build_tracer_only, gdbserver

# The runs of a history are compared with one another.
pytestmark = [
    pytest.mark.sim,
    pytest.mark.uncounted,
    pytest.mark.usefixtures("steady_clocks"),
]

MODEL = MODELS / "small_int8.pte"
BOARD = """\
schema = 1
name = "native"
description = "a board on a port of another host"
cpu = "host"
timer = {{ source = "CLOCK_MONOTONIC", bits = 32, hz = 1_000_000_000 }}
build = {{ preset = "native" }}
target = {{ kind = "serial" }}
flash = {{ order = ["command"], options = {{ command = {{ write = {write} }} }} }}
"""
FLASHER = "import shutil, sys; shutil.copy(*sys.argv[1:])"


@pytest.fixture(scope="module")
def port(steady_clocks: None) -> Iterator[str]:
    with board_behind_tcp() as address:
        yield address


@pytest.fixture(scope="module")
def desk(tmp_path_factory: pytest.TempPathFactory, port: str) -> Desk:
    folder = tmp_path_factory.mktemp("desk")
    write = json.dumps([sys.executable, "-c", FLASHER, "{image}", str(folder / "flashed")])
    (folder / "native.toml").write_text(BOARD.format(write=write))
    return Desk(folder, com3=port.removeprefix("socket://"))


@pytest.fixture(scope="module")
def run(desk: Desk, port: str) -> Path:
    """A run directory made there."""
    code, out, err = desk.etharness(
        *("run", "--board", "native.toml", "--port", port, "--model", MODEL, "--runs", "3"),
        *("--values", "outputs", "-o", "run", "--report", "run.html"),
    )
    assert (code, err) == (0, ""), out + err
    assert "PASS" in out
    assert (desk.folder / "run.html").read_text(encoding="utf-8").startswith("<!doctype html>")
    return desk.folder / "run"


def test_what_is_taken_away(desk: Desk) -> None:
    taken = "import os, sys, harness.cli; print([hasattr(os, n) for n in ('killpg', 'pread')])"
    assert desk.python("-c", taken).out == "[False, False]\n"
    code, _, err = desk.python("-c", "import fcntl")
    assert code == 1
    assert "ModuleNotFoundError" in err
    code, _, err = desk.python("-c", "open('/proc/self/stat')")
    assert "FileNotFoundError" in err
    code, _, err = desk.python("-c", "open('12:30', 'w')")
    assert "no such name on Windows" in err


def test_pull(desk: Desk, port: str, run: Path) -> None:
    code, out, err = desk.etharness(
        *("pull", "--board", "native.toml", "--port", port, "-o", "pulled")
    )
    assert (code, err) == (0, ""), out + err
    assert (desk.folder / "pulled/trace.etdp").exists()


def test_a_serial_port(desk: Desk) -> None:
    (desk.folder / "units.toml").write_text(
        'schema = 1\n[[unit]]\nid = "desk-1"\nboard = "native.toml"\n'
        'port = { vid = 0x0483, pid = 0x374E, serial = "0024", interface = 2 }\n'
    )
    listed = desk.etharness("lab", "ports", "--units", "units.toml")
    assert "COM3" in listed.out, listed.err
    assert "desk-1" in listed.out
    for where in (["--board", "native.toml", "--port", "COM3"], ["--unit", "desk-1"]):
        folder = f"serial{len(where)}"
        more = ["--units", "units.toml"] if where[0] == "--unit" else []
        code, out, err = desk.etharness(
            *("run", *where, *more, "--model", MODEL, "--runs", "2", "-o", folder)
        )
        assert (code, err) == (0, ""), out + err
        assert "PASS" in out
    code, _, err = desk.etharness("pull", "--board", "native.toml", "--port", "COM4", "-o", "no")
    assert code == 75
    assert "cannot open the serial port COM4" in err


def test_a_probe(desk: Desk, tmp_path: Path) -> None:
    given = np.zeros((1, 16), np.float32)
    image = build_tracer_only(tmp_path, model="small_int8.pte", given=given, executions=2)
    with gdbserver(image, tmp_path, idle=True) as address:
        code, out, err = desk.etharness(
            *("pull", "--board", "qemu-mps2-an385", "--port", address, "--elf", image),
            *("-o", "probe"),
        )
    assert (code, err) == (0, ""), out + err
    assert (desk.folder / "probe/trace.etdp").exists()


def test_flash(desk: Desk, port: str, run: Path, etharness: Callable[..., CommandResult]) -> None:
    image = desk.folder / "native.elf"
    assert etharness("build", "--board", "native", "-o", image).code == 0
    code, out, err = desk.etharness(
        *("flash", "--board", "native.toml", "--port", port, "--image", image)
    )
    assert (code, err) == (0, ""), out + err
    assert (desk.folder / "flashed").read_bytes() == image.read_bytes()


@pytest.mark.parametrize(
    "arguments",
    [
        ["decode", "run"],
        ["check", "run"],
        ["compare", "run", "run"],
        ["compare", "run", "run", "--values"],
        ["inspect", str(MODEL)],
        ["report", "run", "-o", "again.html"],
        ["report", "run", "-o", "again.xml"],
        ["export", "run", "--format", "perfetto", "-o", "trace.json"],
        ["export", "run", "--format", "csv", "-o", "table.csv"],
        ["history", "add", "run", "--history", "results.db"],
        ["boards"],
        ["lab", "who"],
    ],
    ids=" ".join,
)
def test_a_command(desk: Desk, run: Path, arguments: list[str]) -> None:
    code, out, err = desk.etharness(*arguments)
    assert code == 0, out + err
    if "-o" in arguments:
        assert (desk.folder / arguments[-1]).stat().st_size > 0
    else:
        assert out


def test_a_history(desk: Desk, port: str) -> None:
    arguments = ["run", "--board", "native.toml", "--port", port, "--model", str(MODEL)]
    arguments += ["--history", "runs.db", "--session", "one"]
    for name in ("first", "second"):
        code, out, err = desk.etharness(*arguments, "-o", name, "--baseline", "last:20")
        assert code == 0, out + err
    code, out, err = desk.etharness("history", "show", "--history", "runs.db")
    assert code == 0, out + err
    assert "small_int8" in out


def test_the_inspector(desk: Desk, run: Path) -> None:
    program = """
from harness.inspector import Inspector
inspector = Inspector(etdump_path="run/trace.etdp")
print(len(inspector.event_blocks), len(inspector.to_dataframe()) > 3)
"""
    code, out, err = desk.python("-c", program)
    assert (code, err) == (0, "")
    assert out.endswith(" True\n")


def test_the_pytest_plugin(desk: Desk, port: str) -> None:
    tests = desk.folder / "test_model.py"
    tests.write_text(
        f"""
import pytest

@pytest.mark.etharness(model={str(MODEL)!r}, runs=2)
def test_small(etharness_run):
    etharness_run.check()
    assert len(etharness_run.trace) > 3
"""
    )
    code, out, err = desk.python(
        *("-m", "pytest", "-p", "harness.pytest_plugin", "--basetemp", "temporary", "-q", tests),
        *("--etharness-board", "native.toml", "--etharness-port", port, "--etharness-strict"),
    )
    assert code == 0, out + err
    assert "1 passed" in out


@pytest.mark.parametrize("board", ["native", "qemu-mps2-an385", "rtl-ibex"])
def test_what_needs_linux(desk: Desk, board: str) -> None:
    code, _, err = desk.etharness("run", "--board", board, "--model", MODEL)
    assert code == 2
    assert f"error: board {board}, which runs on this host, needs Linux, and this is Windows" in err


def test_labgrid_needs_linux(desk: Desk) -> None:
    (desk.folder / "units.toml").write_text(
        'schema = 1\nunit = [{ id = "far", board = "native.toml", lease = "labgrid" }]\n'
    )
    code, _, err = desk.etharness("run", "--unit", "far", "--model", MODEL)
    assert code == 2
    assert "error: labgrid needs Linux, and this is Windows" in err
