"""OpenOCD, pyOCD and J-Link as servers: their gdbservers, and the link through their RTT ports."""

from __future__ import annotations

import json
import os
import select
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple

import numpy as np
import pytest

import harness
from harness import build_firmware, start_target
from harness.extensions.probes.debug_probe import open_probe
from harness.extensions.probes.memory import FirmwareElf
from harness.testing import Transport
from tests.conftest import ROOT, CommandResult
from tests.sim.test_rtt import BOARD as RTT_BOARD
from tests.support.examples import sampled
from tests.support.flash import TOOLS_OF_PIP, installed
from tests.support.ser2net import free_port
from tests.support.tracer_only import BOARD, await_listener, build_tracer_only, gdbserver

JTAG_ADAPTER = (
    "adapter driver remote_bitbang",
    "remote_bitbang host 127.0.0.1",
    "transport select jtag",
    "jtag newtap board cpu -irlen 4 -expected-id 0x4ba00477",
    "dap create board.dap -chain-position board.cpu",
    "target create board.cpu cortex_m -dap board.dap",
    "cortex_m reset_config sysresetreq",
    "telnet_port disabled",
    "tcl_port disabled",
)
"""What a board's configuration file says."""


@contextmanager
def adapter(server: str, log: Path) -> Iterator[int]:
    """Run an adapter for a simulated board; yield its TCP port."""
    with log.open("wb") as errors:
        process = subprocess.Popen(
            [sys.executable, ROOT / "tests/support/jtag_board.py", server],
            env={**os.environ, "PYTHONPATH": str(ROOT)},
            stdout=subprocess.PIPE,
            stderr=errors,
        )
    try:
        assert process.stdout is not None
        yield int(process.stdout.readline())
    finally:
        process.terminate()
        process.communicate(timeout=60)


@contextmanager
def openocd(server: str, directory: Path, rtt: tuple[int, int] | None = None) -> Iterator[str]:
    """Run OpenOCD at the board behind a gdbserver; yield the address of its own gdbserver.

    ``rtt``: address of a control block, and the TCP port on which to serve it.
    """
    port = free_port()
    with adapter(server, directory / "adapter.log") as wires:
        lines = [*JTAG_ADAPTER, f"remote_bitbang port {wires}", f"gdb_port {port}", "init"]
        if rtt is not None:
            lines += [f'rtt setup {rtt[0]:#x} 72 "SEGGER RTT"', "rtt start"]
            lines += ["rtt polling_interval 1", f"rtt server start {rtt[1]} 0"]
        command = [installed("openocd"), *(part for line in lines for part in ("-c", line))]
        with _serving(command, directory / "openocd.log", port, *(rtt or ())[1:]):
            yield f"gdb://127.0.0.1:{port}"


@contextmanager
def pyocd(server: str, directory: Path, rtt: tuple[int, int] | None = None) -> Iterator[str]:
    """Run pyOCD at the board behind a gdbserver; yield the address of its own gdbserver.

    ``rtt``: as for `openocd`.
    """
    port = free_port()
    command = [
        *(TOOLS_OF_PIP / "python", ROOT / "tests/support/pyocd_board.py", server, "pyocd"),
        *("gdbserver", "--persist", "--connect", "attach", "--target", "cortex_m"),
        *("--port", port, "--telnet-port", free_port(), "--no-wait"),
    ]
    if rtt is not None:
        config = directory / "pyocd.yaml"
        config.write_text(
            f"rtt: [{{control-block: {{address: {rtt[0]}}}, "
            f"channel: [{{number: 0, mode: server, port: {rtt[1]}}}]}}]\n"
        )
        command += ["--config", config]
    with _serving(command, directory / "pyocd.log", port, *(rtt or ())[1:]):
        yield f"gdb://127.0.0.1:{port}"


@contextmanager
def _serving(command: Sequence[object], log: Path, *ports: int) -> Iterator[None]:
    """Run a server until the block ends; the block begins when it listens to its ports."""
    with log.open("wb") as output:
        process = subprocess.Popen(
            [*map(str, command)],
            env={**os.environ, "PYTHONPATH": str(ROOT)},
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=output,
        )
    try:
        for port in ports:
            await_listener(port, process)
        yield
    finally:
        process.terminate()
        process.wait(60)


pytestmark = pytest.mark.sim
Etharness = Callable[..., CommandResult]

SERVERS = {"openocd": openocd, "pyocd": pyocd}
RUNS = 3
GREETING = b"SEGGER J-Link V7.94 - Real time terminal output\r\nProcess: app.elf\r\n"


class ServedBoard(NamedTuple):
    """A board behind a server: the addresses of its gdbserver and of its RTT port."""

    gdb: str
    rtt: str
    image: Path


@contextmanager
def with_link(image: Path, folder: Path) -> Iterator[tuple[str, int]]:
    """Run firmware with the link; yield QEMU's gdbserver, and the address of the control block.

    Servers look for the block once, so it has to be there.
    """
    block = FirmwareElf(image).variable("_SEGGER_RTT").address
    with gdbserver(image, folder) as simulator:
        deadline = time.monotonic() + 600
        with open_probe(simulator) as probe:
            while not probe.read(block, 16).startswith(b"SEGGER RTT\0"):
                assert time.monotonic() < deadline
                probe.resume()
                time.sleep(0.01)
                probe.halt()
        yield simulator, block


@pytest.fixture(scope="module")
def board(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("board") / "mps2-an385-rtt.toml"
    path.write_text(RTT_BOARD)
    return path


@pytest.fixture(scope="module", params=sampled(SERVERS, "openocd"))
def served(
    request: pytest.FixtureRequest, board: Path, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[ServedBoard]:
    """Firmware with the link behind a real server."""
    folder = tmp_path_factory.mktemp("server")
    image = build_firmware(harness.Board.load(board)).image
    port = free_port()
    server = SERVERS[request.param]
    with (
        with_link(image, folder) as (simulator, block),
        server(simulator, folder, (block, port)) as gdb,
    ):
        yield ServedBoard(gdb, f"socket://127.0.0.1:{port}", image)


def run_model(etharness: Etharness, board: Path, port: str, output: Path) -> bytes:
    """Run a model over a port; return the log."""
    result = etharness(
        *("run", "--board", board, "--model", "small_int8", "--runs", str(RUNS), "--json"),
        *("--port", port, "-o", output),
    )
    assert result.code == 0, result.err
    record = json.loads(result.out)
    assert record["runs_completed"] == RUNS
    assert record["link"]["retries"] == 0
    return (output / "trace.etlog").read_bytes()


def test_a_servers_rtt_port_carries_the_link_and_its_gdbserver_reads_the_same_log(
    etharness: Etharness, board: Path, served: ServedBoard, tmp_path: Path
) -> None:
    by_link = run_model(etharness, board, served.rtt, tmp_path / "link")
    wanted = ("--board", board, "--elf", served.image, "--port", served.gdb)
    result = etharness("pull", *wanted, "-o", tmp_path / "probe")
    assert result.code == 0, result.err
    assert (tmp_path / "probe/trace.etlog").read_bytes() == by_link
    # The probe has let the board run: the link goes on.
    again = ("pull", "--board", board, "--port", served.rtt, "-o", tmp_path / "again")
    result = etharness(*again)
    assert result.code == 0, result.err
    assert (tmp_path / "again/trace.etlog").read_bytes() == by_link


@pytest.fixture(scope="module")
def tracer_only(tmp_path_factory: pytest.TempPathFactory) -> Path:
    directory = tmp_path_factory.mktemp("firmware")
    given = np.zeros((1, 49, 10, 1), np.float32)
    return build_tracer_only(directory, model="kws_int8.pte", given=given, executions=RUNS)


def test_a_gdbserver_that_halts_for_each_access_carries_the_link(
    etharness: Etharness, board: Path, tmp_path: Path
) -> None:
    image = build_firmware(harness.Board.load(board)).image
    with (
        with_link(image, tmp_path) as (simulator, block),
        openocd(simulator, tmp_path) as gdb,
    ):
        run_model(etharness, board, f"rtt+{gdb}?address={block:#x}", tmp_path / "out")


@pytest.mark.parametrize("name", sampled(SERVERS, "openocd"))
@pytest.mark.long
def test_breakpoints_and_resets_of_a_server(
    etharness: Etharness, tracer_only: Path, name: str, tmp_path: Path
) -> None:
    wanted = ("--board", BOARD, "--elf", tracer_only, "--port")
    until = ("--reset", "reset halt", "--until", "inference_done")
    with gdbserver(tracer_only, tmp_path, idle=True) as simulator:
        assert etharness("pull", *wanted, simulator, "-o", tmp_path / "qemu").code == 0
        with SERVERS[name](simulator, tmp_path) as port:
            pulled = etharness("pull", *wanted, port, "-o", tmp_path / "pulled")
            assert pulled.code == 0, pulled.err
            logs = [(tmp_path / at / "trace.etlog").read_bytes() for at in ("qemu", "pulled")]
            assert logs[0] == logs[1]
            ran = etharness(
                *("run", *wanted, port, "--model", "kws_int8", "--runs", "2", *until),
                *("-o", tmp_path / "run"),
            )
            assert ran.code == 0, ran.err
            assert harness.load(tmp_path / "run").operator("Method::execute").count == 2
            wrong = etharness("pull", *wanted, port, "--reset", "restart", "-o", tmp_path / "no")
            assert wrong.code == 75
            assert "refused the command 'restart'" in wrong.err


TIMER = ("--counter", "0x40000004:32:down", "--counter-hz", "25000000")
"""The timer of the emulated board, of which our own tracer reads the same register."""
KERNELS = ("quantized_conv2d", "quantized_depthwise_conv2d", "quantized_linear")


@pytest.mark.parametrize("name", sampled(SERVERS, "openocd"))
@pytest.mark.long
def test_operators_of_unmodified_firmware_are_followed_through_a_server(
    etharness: Etharness, tracer_only: Path, name: str, tmp_path: Path
) -> None:
    functions = [word for kernel in KERNELS for word in ("--at", kernel)]
    with (
        gdbserver(tracer_only, tmp_path, idle=True) as simulator,
        SERVERS[name](simulator, tmp_path) as port,
    ):
        result = etharness(
            *("trace", tracer_only, "--board", BOARD, "--port", port, "--reset", "reset halt"),
            *(*functions, "--execution", "etd_method_execute", "--runs", "2"),
            *(*TIMER, "-o", tmp_path / "run"),
        )
        assert result.code == 0, result.err
        assert "empty intervals and subtracted; it varied by" in result.out
        # It lets the board run to its end.
        wanted = ("--board", BOARD, "--elf", tracer_only, "--port", port, "-o", tmp_path / "pulled")
        assert etharness("pull", *wanted).code == 0
    run = harness.load(tmp_path / "run")
    assert run.operator("Method::execute").count == 2
    rows = run.trace
    assert rows is not None
    names = [rows.text(number) for number in rows.name[:11].tolist()]
    convolution, depthwise, linear = KERNELS
    pairs = [depthwise, convolution] * 4
    assert names == [depthwise, *pairs, linear, "Method::execute"]
    link = json.loads((tmp_path / "run/result.json").read_bytes())["link"]
    assert link["stops"] == 2 * (2 + 2 * 10) + 8


@pytest.mark.long
def test_operators_of_unmodified_firmware_are_followed_by_pyocd(
    tracer_only: Path, tmp_path: Path
) -> None:
    functions = [word for kernel in KERNELS for word in ("--at", kernel)]
    with gdbserver(tracer_only, tmp_path, idle=True) as simulator:
        command = [
            *(TOOLS_OF_PIP / "python", ROOT / "tests/support/pyocd_board.py", simulator),
            *("etharness", "trace", tracer_only, "--board", BOARD, "--reset", "reset halt"),
            *("--port", "pyocd://board1?target=cortex_m", *functions, *TIMER),
            *("--execution", "etd_method_execute", "-o", tmp_path / "run"),
        ]
        done = subprocess.run(
            [*map(str, command)],
            env={**os.environ, "PYTHONPATH": str(ROOT)},
            capture_output=True,
            text=True,
            timeout=600,
            check=False,
        )
    assert done.returncode == 0, done.stderr
    assert "empty intervals and subtracted; it varied by" in done.stdout
    operators = harness.load(tmp_path / "run").trace
    assert operators is not None
    assert len(operators) == 11


@contextmanager
def jlink(board: Transport, deaf_s: float) -> Iterator[str]:
    """Serve a board as J-Link does at its port 19021; yield the address.

    It sends a text first. What comes within `deaf_s` it takes for its own configuration.
    """
    ended = threading.Event()

    def serve(listener: socket.socket) -> None:
        client, _ = listener.accept()
        with client:
            client.sendall(GREETING)
            hears_at = time.monotonic() + deaf_s
            while not ended.is_set():
                client.sendall(board.read(0))
                if select.select([client], [], [], 0.001)[0]:
                    data = client.recv(65536)
                    if not data:
                        return
                    if time.monotonic() >= hears_at:
                        board.write(data, 5)

    with socket.create_server(("127.0.0.1", 0)) as listener:
        thread = threading.Thread(target=serve, args=(listener,))
        thread.start()
        try:
            yield f"socket://127.0.0.1:{listener.getsockname()[1]}"
        finally:
            ended.set()
            thread.join()


@pytest.mark.attack(
    "Link and servers",
    "an RTT server that sends a greeting but does not listen at first",
    "the request is repeated until it answers",
)
@pytest.mark.parametrize("deaf_s", sampled([0.1, 0.6], 0.1))
def test_a_server_that_greets_and_is_deaf_at_first(
    etharness: Etharness, deaf_s: float, tmp_path: Path
) -> None:
    described = harness.Board.load("native")
    file = described.file
    text = file.read_text().replace('kind = "native"', 'kind = "serial"')
    (tmp_path / "native.toml").write_text(text.replace("budget =", "time_scales = {} #"))
    with (
        start_target(described, build_firmware(described)) as target,
        jlink(target.transport, deaf_s) as port,
    ):
        result = etharness(
            *("run", "--board", tmp_path / "native.toml", "--model", "small_int8", "--json"),
            *("--port", port, "-o", tmp_path / "out"),
        )
    assert result.code == 0, result.err
    assert json.loads(result.out)["runs_completed"] == 1
    # The greeting is text of the console, not damage.
    assert (tmp_path / "out/console.log").read_bytes().startswith(GREETING.splitlines()[0])
