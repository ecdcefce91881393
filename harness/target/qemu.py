"""QEMU target: an emulated machine with its first UART on a TCP connection to us.

A socket, because on a pseudo-terminal QEMU's UARTs sometimes held back the last byte of a frame.
"""

from __future__ import annotations

import shutil
import socket
from collections.abc import Callable
from pathlib import Path

from harness.config.board import Board, QemuTarget
from harness.errors import InfrastructureError, UsageError
from harness.link.transports import EmulatedUart
from harness.target.build import Firmware
from harness.target.process import ChildProcess, ProcessTarget


def start_qemu(board: Board, machine: QemuTarget, firmware: Firmware) -> ProcessTarget:
    """Start the image on an emulated machine.

    Raises:
        UsageError: QEMU is not installed.
        InfrastructureError: QEMU cannot be started, or ended at once.
    """
    return _start(board, machine, ("-kernel", str(firmware.image)), str(firmware.image))


def start_empty(board: Board, machine: QemuTarget, gdbserver: Path) -> ProcessTarget:
    """Start an emulated machine with empty memory that waits for a debugger.

    Args:
        board: The board type.
        machine: Its QEMU settings.
        gdbserver: Path of the socket to create for the debugger.

    Raises:
        UsageError: QEMU is not installed.
        InfrastructureError: QEMU cannot be started, or ended at once.
    """
    waiting = ("-S", "-gdb", f"unix:path={gdbserver},server=on,wait=off")
    return _start(board, machine, waiting, "empty memory", gdbserver)


def _start(
    board: Board,
    machine: QemuTarget,
    contents: tuple[str, ...],
    what: str,
    gdbserver: Path | None = None,
) -> ProcessTarget:
    program = shutil.which(machine.system)
    if program is None:
        raise UsageError(
            f"board {board.name} needs {machine.system}, which is not installed",
            hint=f"on Debian or Ubuntu: apt-get install {package_of(machine.system)}",
        )
    with socket.create_server(("127.0.0.1", 0), backlog=1) as server:
        host, port = server.getsockname()
        command = [
            *(program, "-M", machine.machine, *contents),
            *("-display", "none", "-monitor", "none", "-nodefaults"),
            *("-serial", f"tcp:{host}:{port},nodelay=on"),
            *machine.arguments,
        ]
        child = ChildProcess(f"{machine.system} ({board.name})", command)
        connection = _accept(server, child, board.deadlines.boot_s)
    if gdbserver is not None:  # QEMU opens it after its UART
        try:
            _await(child, gdbserver.exists, board.deadlines.boot_s, "gdbserver")
        except InfrastructureError:
            connection.close()
            raise
    description = f"{what} on {machine.machine} ({machine.system}, process {child.pid})"
    return ProcessTarget(child, EmulatedUart(connection), description)


def _accept(server: socket.socket, child: ChildProcess, timeout_s: float) -> socket.socket:
    """Wait for QEMU to connect; it connects before it runs the machine."""
    accepted: list[socket.socket] = []

    def connected() -> bool:
        try:
            accepted.append(server.accept()[0])
        except BlockingIOError:
            return False
        return True

    server.setblocking(False)
    _await(child, connected, timeout_s, "UART")
    return accepted[0]


def _await(child: ChildProcess, done: Callable[[], bool], timeout_s: float, what: str) -> None:
    """Wait until QEMU has opened its UART or gdbserver; end QEMU on timeout."""
    if child.wait_for(done, timeout_s):
        return
    reason = child.describe_end() or f"{child.name} did not open its {what} within {timeout_s:g} s"
    child.close()
    raise InfrastructureError(reason)


def package_of(system: str) -> str:
    """Return the Debian package of a QEMU program; a package contains several architectures."""
    architecture = system.removeprefix("qemu-system-")
    groups = {"arm": "arm", "aarch64": "arm", "x86_64": "x86", "i386": "x86"}
    return f"qemu-system-{groups.get(architecture, 'misc')}"
