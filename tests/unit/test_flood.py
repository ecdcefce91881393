"""Ports that never stop: a command ends by its deadline, in bounded memory, and counts the rest."""

from __future__ import annotations

import json
import re
import socket
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import pytest

from harness.testing import frames
from tests.conftest import MODELS
from tests.support.examples import sampled
from tests.support.flash import record_of, serial_native, stand_in

HEAD_BYTES = 256 << 10
TAIL_BYTES = 1 << 20
CONSOLE = "console.log"

pytestmark = pytest.mark.slow

MOST_MB = 150
"""Of memory, with Python and NumPy."""

MEASURED = """
import re, sys
from pathlib import Path
from harness.cli import main
sys.argv[0] = "etharness"
try:
    main()
finally:
    # Not ru_maxrss, which begins with that of the process that has forked this one.
    [peak] = re.findall(r"VmHWM:\\s+(\\d+) kB", Path("/proc/self/status").read_text())
    Path("peak").write_text(str(int(peak) // 1024))
"""

FLOODS = {
    "text": b"an uncalibrated sensor says hello\r\n" * 30_000,
    "text that begins like a frame": b"\x01 and a line of text\r\n" * 50_000,
    "beginnings of frames": b"\x01\x00" * 500_000,
    "damaged frames": (b"\x00" + frames.cobs_encode(bytes(range(60))) + b"\x00") * 15_000,
    "one frame without an end": b"\x01" + b"\xe5" * 1_000_000,
}


@contextmanager
def flood(pieces: bytes, first: bytes = b"") -> Iterator[str]:
    """A port that sends as fast as it can whatever it hears; its address."""
    ended = threading.Event()

    def send(connection: socket.socket) -> None:
        with suppress(OSError), connection:
            connection.sendall(first)
            while not ended.is_set():
                connection.sendall(pieces)

    def serve() -> None:
        with suppress(OSError):
            while True:
                connection, _ = server.accept()
                connection.settimeout(5)
                threading.Thread(target=send, args=(connection,), daemon=True).start()

    with socket.create_server(("127.0.0.1", 0)) as server:
        threading.Thread(target=serve, daemon=True).start()
        try:
            yield f"socket://127.0.0.1:{server.getsockname()[1]}"
        finally:
            ended.set()


def measured(directory: Path, *arguments: str | Path) -> tuple[int, str, int]:
    """Exit code, errors and megabytes of a command."""
    command = [sys.executable, "-c", MEASURED, *map(str, arguments)]
    done = subprocess.run(
        command, cwd=directory, capture_output=True, text=True, check=False, timeout=600
    )
    return done.returncode, done.stderr, int((directory / "peak").read_text())


@pytest.fixture
def board(tmp_path: Path) -> Path:
    return serial_native(tmp_path, 'order = ["openocd"]')


@pytest.mark.attack(
    "Link and servers", "a board that prints endlessly", "exit code 75; memory use is bounded"
)
@pytest.mark.parametrize("kind", sampled(FLOODS, "text"))
def test_a_run_on_a_port_that_never_stops_ends_in_bounded_memory(
    board: Path, tmp_path: Path, kind: str
) -> None:
    model = MODELS / "small_int8.pte"
    # A board that is not there yet says how it begins.
    with flood(FLOODS[kind], b"boot loader 1.0\r\n") as port:
        arguments = ("run", "--board", board, "--port", port, "--model", model, "-o", "out")
        code, errors, peak = measured(tmp_path, *arguments)
    assert code == 75, errors
    assert "no answer to HELLO within 3 s; " in errors
    assert peak < MOST_MB
    result = json.loads((tmp_path / "out/result.json").read_text())
    console = (tmp_path / "out" / CONSOLE).read_bytes()
    assert console.startswith(b"boot loader 1.0\r\n")
    left_out, text = result["console_left_out"], result["link"]["text_bytes"]
    line = f"\n[{left_out} bytes left out]\n".encode() if left_out else b""
    assert line in console
    assert len(console) == text - left_out + len(line)
    assert len(console) < HEAD_BYTES + TAIL_BYTES + 100
    if kind.startswith("text"):
        assert console[-3_000:].count(b"\r\n") > 80


@pytest.mark.parametrize("command", sampled(["pull", "lab health", "postmortem"], "pull"))
def test_other_commands_end_on_such_a_port_too(board: Path, tmp_path: Path, command: str) -> None:
    with flood(FLOODS["text"]) as port:
        units = tmp_path / "units.toml"
        units.write_text(
            f'schema = 1\n[[unit]]\nid = "u"\nboard = "{board.name}"\nport = "{port}"\n'
        )
        unit = ("u",) if command == "lab health" else ("--unit", "u")
        code, errors, peak = measured(tmp_path, *command.split(), "--units", units, *unit)
    assert code == 75, errors
    assert peak < MOST_MB


@pytest.mark.attack(
    "Flashing",
    "a flashing tool that prints without end",
    "a log of bounded size; ended at its deadline",
)
def test_a_tool_that_never_stops_leaves_a_bounded_log(board: Path, tmp_path: Path) -> None:
    tool = stand_in(tmp_path, "endless", "echo begins; trap 'exit' TERM; yes 'erasing, sector 7'")
    text = board.read_text().partition("[flash]")[0]
    options = f'write = ["{tool}", "{{image}}"], formats = ["bin"]'
    flash = f'[flash]\norder = ["command"]\ntimeout_s = 5\noptions.command = {{ {options} }}\n'
    board.write_text(text + flash)
    (tmp_path / "i.bin").write_bytes(b"1")
    arguments = ("flash", "--board", board, "--image", "i.bin", "--no-identity", "--attempts", "1")
    code, errors, peak = measured(tmp_path, *arguments, "-o", "out")
    assert code == 75
    assert "timed out after 5 s" in errors
    assert "erasing, sector 7" in errors
    assert peak < MOST_MB
    log = (tmp_path / "out/flash.log").read_bytes()
    assert len(log) <= HEAD_BYTES + TAIL_BYTES
    assert log.startswith(f"# {tool} {tmp_path}/i.bin\nbegins\nerasing, sector 7\n".encode())
    [left_out] = re.findall(rb"\n\[(\d+) bytes left out\] *\n", log)
    assert int(left_out) > 0
    *_, last, status, failed = log.splitlines()
    assert b"erasing, sector 7".startswith(last), "it was ended within a line, or behind one"
    assert status == b"# exit status -9"
    assert b"attempt 1 failed" in failed
    assert record_of(tmp_path / "out")["failure"]["kind"] == "FlashError"
