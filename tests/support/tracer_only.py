"""Firmware with a tracer and no link, and QEMU with a gdbserver to run it."""

from __future__ import annotations

import socket
import subprocess
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

import numpy as np

import harness
from harness import build_firmware
from tests.conftest import MODELS, ROOT

BOARD = "qemu-mps2-an385"
SOURCE = Path(__file__).parent / "tracer_only"


def build_tracer_only(
    directory: Path,
    *,
    model: str,
    given: np.ndarray,
    executions: int,
    more: Sequence[str | Path] = (),
) -> Path:
    """Build the firmware with a model and its input, from objects of the board's own.

    ``more`` are further arguments of the compiler.
    """
    stub = ROOT / "firmware_stub"
    firmware = build_firmware(harness.Board.load(BOARD))
    built = firmware.directory / "CMakeFiles/rooms.dir"
    sources = sorted(path.relative_to(stub) for path in (stub / "src").rglob("*.c"))
    # The folder keeps objects of files that are gone.
    objects = [path for source in sources if (path := built / f"{source}.obj").exists()]
    assert len(objects) > 50
    (directory / "input.bin").write_bytes(given.tobytes())
    image = directory / "tracer_only.elf"
    ports = stub / "ports"
    command = [
        *("arm-none-eabi-gcc", "-mthumb", "-mcpu=cortex-m3", "-std=c11", "-Os", "-g", "-Wall"),
        *("-Wextra", "-Werror", "-nostartfiles", "-Wl,--gc-sections", "-Wl,--entry=reset"),
        *(f"-L{ports / 'cortex_m'}", f"-T{ports / 'mps2/mps2.ld'}", f"-I{stub / 'include'}"),
        *(f'-DMODEL="{MODELS / model}"', f'-DINPUT="{directory / "input.bin"}"'),
        *(f"-DEXECUTIONS={executions}u", str(SOURCE / "tracer_only.c"), *map(str, more)),
        *(*map(str, objects), "-lm", "-o", str(image)),
    ]
    subprocess.run(command, check=True, timeout=600)
    return image


@contextmanager
def gdbserver(
    image: Path, directory: Path, *, stopped: bool = False, idle: bool = False
) -> Iterator[str]:
    """Run an image under QEMU, which counts instructions; yield the address of its gdbserver.

    ``stopped``: it does not run before a debugger says so. ``idle``: wait until it sleeps.
    """
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
    command = [
        *("qemu-system-arm", "-M", "mps2-an385", "-kernel", str(image), "-icount", "shift=0"),
        *("-display", "none", "-monitor", "none", "-nodefaults", "-serial", "none"),
        *("-gdb", f"tcp:127.0.0.1:{port}", *(["-S"] if stopped else [])),
    ]
    with (directory / "qemu.log").open("wb") as log:
        process = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=log, stderr=log)
    try:
        await_listener(port, process)
        if idle:
            await_idle(process.pid)
        yield f"gdb://127.0.0.1:{port}"
    finally:
        process.terminate()
        process.wait(60)


def await_listener(port: int, process: subprocess.Popen[bytes]) -> None:
    """Wait until a port of this host is listened to, without connecting, which halts a board."""
    deadline = time.monotonic() + 120
    wanted = f":{port:04X} 00000000:0000 0A"
    while wanted not in Path("/proc/net/tcp").read_text():
        assert process.poll() is None, process.args
        assert time.monotonic() < deadline
        time.sleep(0.01)


def await_idle(pid: int) -> None:
    """Wait until a process has used no processor time for a while."""
    deadline = time.monotonic() + 60
    used = None
    while (now := Path(f"/proc/{pid}/stat").read_text().split()[13:15]) != used:
        assert time.monotonic() < deadline
        used = now
        time.sleep(0.5)
