"""An image that copies itself at its start is the same firmware before that, where it is loaded."""

from __future__ import annotations

import socket
import subprocess
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from harness.extensions.mlek.image import TFLITE_MICRO, find_image
from harness.extensions.probes.memory import FirmwareElf
from tests.conftest import CommandResult
from tests.support.tracer_only import await_listener

pytestmark = pytest.mark.sim


@contextmanager
def at_reset(image: Path) -> Iterator[str]:
    """An emulated board that has not executed an instruction; yield its gdbserver."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
    command = ["qemu-system-arm", "-M", "mps3-an547", "-kernel", str(image), "-nodefaults"]
    command += ["-display", "none", "-S", "-gdb", f"tcp:127.0.0.1:{port}"]
    process = subprocess.Popen(command, stdin=subprocess.DEVNULL)
    try:
        await_listener(port, process)
        yield f"gdb://127.0.0.1:{port}"
    finally:
        process.terminate()
        process.wait(60)


def test_code_is_compared_where_it_is_loaded(
    etharness: Callable[..., CommandResult], tmp_path: Path
) -> None:
    image = find_image()
    moved = [each for each in FirmwareElf(image).samples if each.loaded_at != each.address]
    assert moved  # it runs at 0x11000000, and is loaded behind 0x70000000
    wanted = ("pull", "--board", "qemu-mps3-an547", "-o", tmp_path)
    with at_reset(image) as port:
        same = etharness(*wanted, "--port", port, "--elf", image)
    assert same.code == 4
    assert "the board has no initialized tracer" in same.err
    with at_reset(image) as port:
        other = etharness(*wanted, "--port", port, "--elf", find_image(TFLITE_MICRO))
    assert other.code == 4
    assert "the board does not run" in other.err
    assert "its memory differs at" in other.err
