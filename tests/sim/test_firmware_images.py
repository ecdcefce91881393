"""Images of firmware that cross compilers made are read as their own tools read them."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

import harness
from harness import build_firmware, read_image
from tests.conftest import CommandResult
from tests.support.real_images import real_image

pytestmark = pytest.mark.sim


@pytest.mark.parametrize(
    ("board", "toolchain"),
    [
        ("qemu-netduinoplus2", "arm-none-eabi-"),
        ("qemu-mps3-an547", "arm-none-eabi-"),
        ("qemu-riscv32-virt", "riscv64-unknown-elf-"),
    ],
)
def test_objcopy_makes_the_same_of_our_firmware(tmp_path: Path, board: str, toolchain: str) -> None:
    firmware = build_firmware(harness.Board.load(board))
    image = read_image(firmware.image)
    assert image.build_id() == firmware.build_id
    for kind in ("binary", "ihex"):
        made = tmp_path / f"made.{kind}"
        command = [f"{toolchain}objcopy", "-O", kind, str(firmware.image), str(made)]
        subprocess.run(command, check=True)
    assert image.as_bin() == (tmp_path / "made.binary").read_bytes()
    assert read_image(tmp_path / "made.ihex").segments == image.segments


def test_headers_within_a_segment_are_not_written_to_the_board(tmp_path: Path) -> None:
    """The linker may put the file's own headers into the first segment, below the first section."""
    (tmp_path / "a.c").write_text("void _start(void) { for (;;) {} }\n")
    elf = tmp_path / "a.elf"
    link = ["-nostdlib", "-Wl,-Ttext=0x8000100", "-Wl,-z,max-page-size=0x1000"]
    subprocess.run(["arm-none-eabi-gcc", *link, "-o", elf, tmp_path / "a.c"], check=True)
    headers = subprocess.run(
        ["arm-none-eabi-readelf", "-lW", elf], check=True, capture_output=True, text=True
    )
    assert "0x000000 0x08000000" in headers.stdout, headers.stdout
    assert read_image(elf).address == 0x8000100


@pytest.mark.attack(
    "Flashing", "a downloaded image of another board", "exit code 2 before anything is written"
)
@pytest.mark.parametrize("form", ["elf", "hex"])
def test_a_downloaded_image_is_for_its_board_alone(
    etharness: Callable[..., CommandResult], tmp_path: Path, form: str
) -> None:
    """In either format that a release has of it, under any name."""
    firmware = real_image("microbit-v2")
    image = tmp_path / f"downloaded.{form}"
    content = read_image(firmware.image)
    image.write_bytes(firmware.image.read_bytes() if form == "elf" else content.as_hex())
    flash = ["flash", "--image", image, "--port", "/dev/ttyACM0", "--dry-run", "--json"]
    code, out, err = etharness(*flash, "--board", "microbit-v2")
    assert code == 0, err
    assert json.loads(out)["build_id"] == firmware.build_id
    code, _, err = etharness(*flash, "--board", "nrf52840dk")
    assert code == 2
    assert "not firmware of board nrf52840dk, but of microbit-v2; nothing was written" in err
