"""Simulators that a command in the board file starts: ``kind = "command"`` (docs/simulators.md)."""

from __future__ import annotations

import contextlib
import re
import shutil
import socket
import tempfile
import weakref
from collections.abc import Callable
from pathlib import Path
from typing import Final

from harness.config.board import Board, CommandTarget
from harness.errors import HarnessError, UsageError
from harness.link.transports import EmulatedUart, open_serial
from harness.target.build import Firmware
from harness.target.process_group import run_program
from harness.target.start import ProcessTarget, await_link, start_connected, start_printing

_HOST: Final = "127.0.0.1"
_BAUD: Final = 115_200
"""A pseudo-terminal ignores its rate."""

_VERSION_LIMIT_S: Final = 10.0

_WAYS: Final = {
    "{connect}": "connect",
    "{connect_port}": "connect",
    "{listen}": "listen",
    "{listen_port}": "listen",
    "{pty}": "pty",
}
"""How the link comes about, by the placeholder of its address."""

_PLACEHOLDER: Final = re.compile(r"\{(?:image|here|connect|connect_port|listen|listen_port|pty)\}")


def _target(board: Board) -> CommandTarget:
    assert isinstance(board.target, CommandTarget)
    return board.target


def _filled(board: Board, argv: tuple[str, ...], values: dict[str, str]) -> list[str]:
    """Return a command with its placeholders replaced; other braces stay as they are."""
    if any("{here}" in word for word in argv):
        values = {**values, "{here}": str(board.file.parent)}
    return [_PLACEHOLDER.sub(lambda found: values.get(found[0], found[0]), word) for word in argv]


def needed_programs(board: Board) -> list[tuple[str, str | None, str]]:
    """Return name, path (None: not installed) and remedy of the program that starts it."""
    target = _target(board)
    program = _filled(board, target.argv[:1], {})[0]
    path = program if program == "{image}" else shutil.which(program)
    return [(program, path, target.install or f"install {program}")]


def needed_package(board: Board) -> tuple[str, str | None, str]:
    """Return name, version (None: not installed) and remedy of the simulator."""
    target = _target(board)
    name = f"the simulator of {board.name}"
    if not target.version:
        return name, "not known: the board file has no target.version", target.install
    try:
        done = run_program(_filled(board, target.version, {}), _VERSION_LIMIT_S)
    except OSError:
        return name, None, target.install
    if done.code != 0:
        return name, None, target.install
    lines = done.stdout.decode(errors="replace").strip().splitlines()
    return name, next(iter(lines), "unknown"), target.install


def start(board: Board, firmware: Firmware) -> ProcessTarget:
    """Start the command with an image, and open the link as its placeholder says.

    Without a placeholder for the link, the command prints ``link: PATH``, a pseudo-terminal.

    Raises:
        UsageError: The program is not installed, or ``argv`` asks for two kinds of links.
        TargetError: The program ended, or printed no link.
        InfrastructureError: It cannot be started, or opened no link in time.
    """
    argv = _target(board).argv
    placeholders = _PLACEHOLDER.findall(" ".join(argv))
    ways = {_WAYS[each] for each in placeholders if each in _WAYS}
    if len(ways) > 1:
        raise UsageError(
            f"board {board.name}: target.argv has placeholders of several kinds of links: "
            f"{', '.join(sorted(ways))}",
            hint="leave one: {connect}, {listen} or {pty}",
        )
    what = str(firmware.image)
    values = {"{image}": what}
    if shutil.which(program := _filled(board, argv[:1], values)[0]) is None:
        raise UsageError(
            f"board {board.name} needs {program}, which is not installed",
            hint=_target(board).install or f"install {program}, or correct target.argv",
        )
    name = f"{Path(program).name} ({board.name})"

    def command(address: str) -> list[str]:
        port = address.rpartition(":")[2]
        return _filled(
            board,
            argv,
            values
            | dict.fromkeys(("{connect}", "{listen}", "{pty}"), address)
            | dict.fromkeys(("{connect_port}", "{listen_port}"), port),
        )

    match next(iter(ways), ""):
        case "connect":
            child = start_connected(name, command, board)
        case "listen":
            child = _start_listening(name, command, board)
        case "pty":
            child = _start_with_pty(name, command, board)
        case _:
            return start_printing(name, command(""), board, what)
    child.description = f"{what} in {name}, process {child.pid}"
    return child


def _start_listening(name: str, command: Callable[[str], list[str]], board: Board) -> ProcessTarget:
    """Start a simulator that listens for its UART at a free port, and connect to it."""
    with socket.create_server((_HOST, 0)) as server:
        port = server.getsockname()[1]
    connected: list[socket.socket] = []

    def listens() -> bool:
        with contextlib.suppress(OSError):
            connected.append(socket.create_connection((_HOST, port)))
        return bool(connected)

    child = ProcessTarget(name, command(f"{_HOST}:{port}"))
    await_link(child, listens, board.deadlines.boot_s, f"UART at {_HOST}:{port}")
    return child.linked(EmulatedUart(connected[0]), name)


def _start_with_pty(name: str, command: Callable[[str], list[str]], board: Board) -> ProcessTarget:
    """Start a simulator that makes a link to the pseudo-terminal of its UART, and open that."""
    folder = tempfile.mkdtemp(prefix="etharness-")
    path = Path(folder, "uart")
    try:
        child = ProcessTarget(name, command(str(path)))
        weakref.finalize(child, shutil.rmtree, folder, ignore_errors=True)
        await_link(child, path.exists, board.deadlines.boot_s, f"pseudo-terminal {path}")
        try:
            transport = open_serial(str(path), _BAUD)
        except HarnessError:
            child.close()
            raise
    except HarnessError:
        shutil.rmtree(folder, ignore_errors=True)
        raise
    return child.linked(transport, name)
