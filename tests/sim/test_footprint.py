"""What tracer and link take of a Cortex-M3: what the project promises, measured."""

from __future__ import annotations

import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.conftest import ROOT, CommandResult
from tests.support.documents import document

pytestmark = pytest.mark.sim

BOARD = "qemu-mps2-an385"
TRACER_TEXT = 4352
TRACER_AND_LINK_TEXT = 10240
TRACER_RAM = 512


def test_tracer_and_link_are_small(etharness: Callable[..., CommandResult]) -> None:
    built = document("build", etharness("build", "--board", BOARD, "--json").out)
    size = {part["part"]: part for part in built["sizes"]}
    assert 0 < size["tracer"]["text"] <= TRACER_TEXT
    link = sum(size[part]["text"] for part in ("link", "serial"))
    assert 0 < link <= TRACER_AND_LINK_TEXT - size["tracer"]["text"]
    # All the memory it uses is the caller's: its state and its buffers.
    assert size["tracer"]["data"] + size["tracer"]["bss"] == 0


def test_the_tracers_state_is_small(tmp_path: Path) -> None:
    source, compiled = tmp_path / "state.c", tmp_path / "state.o"
    source.write_text('#include "etd_tracer.h"\nchar state[sizeof(etd_tracer)];\n')
    include = ROOT / "firmware_stub/include"
    command = ["arm-none-eabi-gcc", "-mcpu=cortex-m3", "-mthumb", "-std=c11", f"-I{include}"]
    subprocess.run([*command, "-fno-common", "-c", source, "-o", compiled], check=True)
    listed = subprocess.run(
        ["arm-none-eabi-nm", "-S", compiled], check=True, capture_output=True, text=True
    ).stdout
    [size] = [int(line.split()[1], 16) for line in listed.splitlines() if line.endswith(" state")]
    assert 0 < size <= TRACER_RAM
