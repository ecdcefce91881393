"""Servers of debug probes at a simulated board: OpenOCD and pyOCD, with made-up adapters.

QEMU's gdbserver is behind the adapters. OpenOCD's JTAG and core code, pyOCD's session, and the
gdbservers and RTT servers of both run as with a real board.
"""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from tests.support.flash import ROOT, TOOLS_OF_PIP, installed
from tests.support.ser2net import free_port
from tests.support.tracer_only import await_listener

BOARD = (
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
        process.communicate(timeout=10)


@contextmanager
def openocd(server: str, directory: Path, rtt: tuple[int, int] | None = None) -> Iterator[str]:
    """Run OpenOCD at the board behind a gdbserver; yield the address of its own gdbserver.

    ``rtt``: address of a control block, and the TCP port on which to serve it.
    """
    port = free_port()
    with adapter(server, directory / "adapter.log") as wires:
        lines = [*BOARD, f"remote_bitbang port {wires}", f"gdb_port {port}", "init"]
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
        process.wait(10)
