"""What tracer and link take of a Cortex-M3: what the project promises, measured."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from harness.config.board import load_board
from harness.files import data_directory
from harness.target.build import build_firmware, firmware_sizes

pytestmark = pytest.mark.sim

BOARD = "qemu-mps2-an385"
TRACER_TEXT = 4096
TRACER_AND_LINK_TEXT = 10240
TRACER_RAM = 512


def test_tracer_and_link_are_small() -> None:
    board, _ = load_board(BOARD)
    parts = firmware_sizes(build_firmware(board))
    size = {part.part: part for part in parts}
    assert 0 < size["tracer"].text <= TRACER_TEXT
    link = sum(size[part].text for part in ("link", "serial"))
    assert 0 < link <= TRACER_AND_LINK_TEXT - size["tracer"].text
    # All the memory it uses is the caller's: its state and its buffers.
    assert size["tracer"].data + size["tracer"].bss == 0


def test_the_tracers_state_is_small(tmp_path: Path) -> None:
    source, compiled = tmp_path / "state.c", tmp_path / "state.o"
    source.write_text('#include "etd_tracer.h"\nchar state[sizeof(etd_tracer)];\n')
    include = data_directory("firmware_stub") / "include"
    command = ["arm-none-eabi-gcc", "-mcpu=cortex-m3", "-mthumb", "-std=c11", f"-I{include}"]
    subprocess.run([*command, "-fno-common", "-c", source, "-o", compiled], check=True)
    listed = subprocess.run(
        ["arm-none-eabi-nm", "-S", compiled], check=True, capture_output=True, text=True
    ).stdout
    [size] = [int(line.split()[1], 16) for line in listed.splitlines() if line.endswith(" state")]
    assert 0 < size <= TRACER_RAM
