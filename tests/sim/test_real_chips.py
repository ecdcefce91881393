"""Images of real boards on models of their chips, register by register, from reset to outputs."""

from __future__ import annotations

import struct
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import harness
from harness import (
    NO_COUNT,
    LinkError,
    Region,
    RestartedError,
    RunOptions,
    SerialTarget,
    Session,
    read_image,
    read_log,
    tensor_from_bytes,
    tensor_to_bytes,
)
from harness.extensions.postmortem.crash import fetch
from harness.target.build import image_size
from harness.testing import Reset
from tests.conftest import MODELS
from tests.support.boards import once
from tests.support.chips.core import Chip, ChipError, ChipTransport
from tests.support.chips.nrf import ArduinoNano33, MicrobitV1, MicrobitV2, Nrf52840Dk
from tests.support.chips.registers import Registers
from tests.support.chips.rp2350 import Rp2350
from tests.support.chips.stm32f4 import Stm32F446
from tests.support.chips.stm32h7 import REVISION_V, REVISION_Y, Stm32H743
from tests.support.real_images import image_path, real_image

pytestmark = [pytest.mark.sim, pytest.mark.uncounted]

CHIPS: dict[str, Any] = {
    "arduino-nano-33": ArduinoNano33,
    "microbit-v1": MicrobitV1,
    "microbit-v2": MicrobitV2,
    "nrf52840dk": Nrf52840Dk,
    "nucleo-f446re": Stm32F446,
    "nucleo-h743zi": Stm32H743,
    "rpi-pico2": Rp2350,
}
RUNS_NO_MODEL = {"nucleo-h743zi"}
"""Unicorn's Cortex-M7 lacks 64-bit floating point, with which the image reads a model."""

DEADLINE_S = 20.0
IMAGE_DEFINITION = struct.pack("<5I", 0xFFFFDED3, 0x10210142, 0x1FF, 0, 0xAB123579)
"""RP2350 datasheet, section 5.9.5.1."""


def session_with(chip: Chip) -> Session:
    return Session(ChipTransport(chip), deadline_s=DEADLINE_S)


@pytest.mark.parametrize("name", CHIPS)
def test_the_image_lies_where_the_chip_looks_for_it(name: str) -> None:
    board = harness.Board.load(name)
    firmware, chip = real_image(name), CHIPS[name]
    [flash, *rams] = chip.memories
    image = read_image(firmware.image)
    assert image.address == chip.vectors
    assert image.segments[-1].end <= flash.start + flash.size
    stack, reset = struct.unpack_from("<2I", image.segments[0].data)
    assert any(ram.start < stack <= ram.start + ram.size for ram in rams)
    assert stack % 8 == 0
    assert flash.start <= reset < flash.start + flash.size
    assert reset & 1
    vectors = 4 * (16 + chip.irq + 1)
    assert chip.vectors % (1 << (vectors - 1).bit_length()) == 0  # Armv7-M B3.2.5, VTOR
    size, memory = image_size(firmware), board.memory
    assert memory is not None
    assert memory.code is not None
    assert size.text + size.data <= memory.code == flash.start + flash.size - chip.vectors
    kept = (
        0x2_0000 if name == "nucleo-h743zi" else 0
    )  # the DTCM, which the board file does not count
    assert size.data + size.bss <= memory.ram + kept


def test_the_boot_rom_of_the_rp2350_finds_what_it_starts() -> None:
    assert IMAGE_DEFINITION in read_image(image_path("rpi-pico2")).segments[0].data[:4096]


@pytest.mark.parametrize("name", CHIPS)
def test_the_firmware_starts_and_says_what_its_board_file_says(name: str) -> None:
    board = harness.Board.load(name)
    chip = CHIPS[name](image_path(name))
    info = session_with(chip).hello(DEADLINE_S)
    assert (info.board, info.cpu) == (board.name, board.cpu)
    [clock] = info.clocks
    assert (clock.name, clock.bits, clock.hz) == (
        board.timer.source,
        board.timer.bits,
        board.timer.hz,
    )
    assert chip.timer_hz == board.timer.hz
    # On a busy host the chip had work until its answer came; afterwards it has none.
    assert any(not chip.advance() for _ in range(10_000)), "it never comes to rest"
    assert chip.sleeps > 0


@pytest.mark.parametrize("name", sorted(CHIPS.keys() - RUNS_NO_MODEL))
def test_a_network_on_the_chip_gives_the_references_outputs(name: str) -> None:
    chip = CHIPS[name](image_path(name))
    session = session_with(chip)
    session.hello(DEADLINE_S)
    fixture = np.load(MODELS.parents[1] / "tests/fixtures/small_int8.npz")
    model = session.load_model((MODELS / "small_int8.pte").read_bytes())
    restarts = chip.restarts
    for given, expected in zip(fixture["inputs"], fixture["outputs"], strict=True):
        session.set_input(0, tensor_to_bytes(given, model.inputs[0]))
        session.run(1, timeout_s=DEADLINE_S)
        output = tensor_from_bytes(session.read(Region.OUTPUT), model.outputs[0])[0]
        assert output.tobytes() == expected.tobytes()
        restarts += 1
        assert chip.restarts == restarts
    assert session.statistics.retries == session.statistics.corrupt.total() == 0


@pytest.mark.parametrize("name", [name for name, chip in CHIPS.items() if chip.dwt])
def test_cores_with_a_dwt_offer_its_counters(name: str) -> None:
    """On the model all counters count the same, and those that are 8 bits wide wrap."""
    chip = CHIPS[name](image_path(name))
    session = session_with(chip)
    info = session.hello(DEADLINE_S)
    offered = session.counters()
    names = ["cycles", "cpi", "exception", "sleep", "lsu", "fold"]
    assert [counter.name for counter in offered.counters] == names
    assert [counter.bits for counter in offered.counters] == [32, 8, 8, 8, 8, 8]
    offered.check_at_once(names, info.board)
    if name in RUNS_NO_MODEL:
        return
    model = session.load_model((MODELS / "small_int8.pte").read_bytes())
    session.set_input(0, bytes(model.inputs[0].nbytes))
    options = RunOptions(counters=offered.numbers(["lsu", "cycles"]))
    session.run(1, options, timeout_s=DEADLINE_S)
    trace = read_log(session.read(Region.TRACE), info.clocks)
    lsu, cycles = trace.counts[trace.counts[:, 0] != NO_COUNT].T
    assert len(cycles) > 10
    assert (cycles > 0).all()
    assert cycles.max() > 255 >= lsu.max()


def test_a_core_without_a_dwt_offers_no_counters() -> None:
    session = session_with(MicrobitV1(image_path("microbit-v1")))
    session.hello(DEADLINE_S)
    assert session.counters().counters == ()


@pytest.mark.parametrize("name", CHIPS)
def test_the_line_can_have_every_rate_of_the_board_file(name: str) -> None:
    board = harness.Board.load(name)
    assert isinstance(board.target, SerialTarget)
    chip = CHIPS[name](image_path(name))
    session = session_with(chip)
    offered = session.hello(DEADLINE_S).bauds
    assert set(board.target.bauds) <= set(offered)
    for baud in offered:
        assert session.raise_baud([baud]) == baud
        assert session.status() is not None
        assert chip.baud == pytest.approx(baud, rel=0.02)


def test_an_overrun_between_state_and_data_is_counted_and_does_not_hang_the_chip() -> None:
    chip = Stm32F446(image_path("nucleo-f446re"))
    session = session_with(chip)
    session.hello(DEADLINE_S)
    for losses in (1, 2, 3):
        chip.lose_next = True
        assert session.status() is not None  # again, as its request was incomplete
        assert not chip.lose_next
        assert not chip.overrun
        assert session.statistics.overruns == losses


@pytest.mark.parametrize("name", CHIPS)
def test_the_firmware_starts_again_when_it_is_told_to(name: str) -> None:
    chip = CHIPS[name](image_path(name))
    session = session_with(chip)
    session.hello(DEADLINE_S)
    session.reset(Reset.REBOOT)
    assert session.hello(DEADLINE_S).board == name
    assert chip.resets == 1


@pytest.mark.parametrize("name", sorted(CHIPS.keys() - RUNS_NO_MODEL))
def test_what_was_running_is_known_after_a_reset_and_why_there_was_one(name: str) -> None:
    chip = CHIPS[name](image_path(name))
    session = session_with(chip)
    session.hello(DEADLINE_S)
    model = session.load_model((MODELS / "small_int8.pte").read_bytes())
    session.set_input(0, bytes(model.inputs[0].nbytes))
    with pytest.raises(RestartedError):
        session.run(1000, timeout_s=DEADLINE_S, progress=once(chip.reset, at=3))
    session.hello(DEADLINE_S)
    found = fetch(session)
    assert found is not None
    tells = name not in ("microbit-v1", "rpi-pico2")
    assert (found.found.count, found.found.completed >= 3) == (1000, True)
    assert found.document.reset_reasons == (("the firmware",) if tells else ())


@pytest.mark.parametrize(("revision", "mended"), [(REVISION_Y, 1), (REVISION_V, 0)])
def test_only_the_old_stm32h743_is_mended(revision: int, mended: int) -> None:
    chip = Stm32H743(image_path("nucleo-h743zi"), revision=revision)
    session_with(chip).hello(DEADLINE_S)
    assert chip.registers["AXI_TARG7_FN_MOD"] == mended


class OnOtherPins(MicrobitV2):
    send_pin = 7


class WithoutTheInterrupt(Stm32F446):
    irq = 37


class WithoutTheCrystal(Nrf52840Dk):
    def settle(self) -> None:
        super().settle()
        self.registers["EVENTS_HFCLKSTARTED"] = 0


class WithAnotherCrystal(Rp2350):
    crystal = 25_000_000


@pytest.mark.parametrize(
    ("name", "chip", "said"),
    [
        ("microbit-v2", OnOtherPins, "sends on another pin"),
        ("nucleo-f446re", WithoutTheInterrupt, "silent for"),
        ("nrf52840dk", WithoutTheCrystal, "silent for"),
        ("rpi-pico2", WithAnotherCrystal, "the PLL cannot do 3125000000 Hz"),
        ("nucleo-h743zi", Stm32F446, "UC_ERR"),
    ],
)
def test_an_image_does_not_start_on_another_chip(name: str, chip: Any, said: str) -> None:
    path: Path = image_path(name)
    with pytest.raises((ChipError, LinkError, AssertionError), match=said):
        session_with(chip(path)).hello(DEADLINE_S)


def test_registers_refuse_what_the_manual_does_not_describe() -> None:
    registers = Registers()
    registers.add(0x100, "CTRL", 0x0F, fixed=0x10, reset=0x20)
    registers.write(0x100, 4, 0x3A)
    assert registers["CTRL"] == 0x2A
    with pytest.raises(AssertionError, match="writes 0x6a to CTRL: bits 0x40 are reserved"):
        registers.write(0x100, 4, 0x6A)
    with pytest.raises(AssertionError, match="reads 0x104, where no register is described"):
        registers.read(0x104, 4)
    with pytest.raises(AssertionError, match="writes 1 bytes at 0x100"):
        registers.write(0x100, 1, 0)
