"""Lines that translate bytes: each is named as such, and damage at random is not."""

from __future__ import annotations

import os
import select
import socket
import subprocess
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

import harness
from harness import build_firmware
from tests.conftest import MODELS, CommandResult
from tests.sim.test_remote_ports import BOARD
from tests.support.examples import sampled

Etharness = Callable[..., CommandResult]
Translation = Callable[[bytes], bytes]
pytestmark = [pytest.mark.sim, pytest.mark.extension("lines")]

MODEL = MODELS / "kws_int8.pte"


def replaced(was: bytes, becomes: bytes) -> Translation:
    return lambda data: data.replace(was, becomes)


LINES: dict[str, tuple[Translation, str, str]] = {
    "crlf": (replaced(b"\n", b"\r\n"), "translates LF to CR LF", "LF (0x0A)"),
    "icrnl": (replaced(b"\r", b"\n"), "translates CR to LF", "CR (0x0D)"),
    "inlcr": (replaced(b"\n", b"\r"), "translates LF to CR", "LF (0x0A)"),
    "igncr": (replaced(b"\r", b""), "drops CR (0x0D)", "CR (0x0D)"),
    "xon": (
        lambda data: data.translate(None, b"\x11\x13"),
        "drops XON (0x11)",
        "XON (0x11)",
    ),
    "telnet": (replaced(b"\xff", b"\xff\xff"), "doubles 0xFF", "0xFF"),
    "seven": (lambda data: bytes(byte & 0x7F for byte in data), "drops the eighth bit", "eighth"),
    "nul": (replaced(b"\0", b""), "drops NUL (0x00)", ""),
}
"""What a line does, what is said of it on the way from the board, and of it on the way there."""


@contextmanager
def translated(there: Translation, back: Translation) -> Iterator[str]:
    """The address of a native board behind a server that translates in either direction."""
    firmware = build_firmware(harness.Board.load("native"))
    with (
        subprocess.Popen([firmware.image], stdout=subprocess.PIPE, text=True) as process,
        socket.create_server(("127.0.0.1", 0)) as server,
    ):
        assert process.stdout is not None
        terminal = process.stdout.readline().removeprefix("link: ").strip()
        uart = os.open(terminal, os.O_RDWR | os.O_NOCTTY)

        def serve() -> None:
            line = server.accept()[0]
            with line:
                while True:
                    for ready in select.select([line, uart], [], [])[0]:
                        if ready == uart:
                            line.sendall(back(os.read(uart, 4096)))
                        elif data := line.recv(4096):
                            os.write(uart, there(data))
                        else:
                            return

        thread = threading.Thread(target=serve, daemon=True)
        thread.start()
        yield f"socket://127.0.0.1:{server.getsockname()[1]}"
        process.terminate()
        thread.join(10)
        os.close(uart)


def unchanged(data: bytes) -> bytes:
    return data


def run(etharness: Etharness, folder: Path, address: str) -> CommandResult:
    board = folder / "native.toml"
    board.write_text(BOARD)
    command = ("run", "--board", board, "--port", address, "--model", MODEL, "--runs", "20")
    return etharness(*command, "-o", folder / "run")


@pytest.mark.parametrize("kind", sampled(LINES, "crlf", "xon", "nul"))
def test_what_a_line_does_to_answers_is_named(
    kind: str, etharness: Etharness, tmp_path: Path
) -> None:
    back, says, _ = LINES[kind]
    with translated(unchanged, back) as address:
        code, _, err = run(etharness, tmp_path, address)
    assert code == 2, err
    assert f"native: the port {says}" in err
    assert "raw mode" in err


@pytest.mark.parametrize("kind", sampled(sorted(set(LINES) - {"nul"}), "icrnl"))
def test_what_a_line_does_to_requests_is_named(
    kind: str, etharness: Etharness, tmp_path: Path
) -> None:
    there, _, byte = LINES[kind]
    with translated(there, unchanged) as address:
        code, _, err = run(etharness, tmp_path, address)
    assert code == 2, err
    assert f"{byte}" in err
    assert "on the way to the board; it has to pass all bytes unchanged" in err
