"""Firmware sends its log over the ITM, whose packets the host decodes.

QEMU has no ITM. Unicorn executes the image of a Cortex-M3, and its registers of the ITM are those
of the Armv7-M manual: a FIFO that is full at times, and packets that leave it.
"""

from __future__ import annotations

import subprocess
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

import pytest
import unicorn
from unicorn import arm_const as arm

from tests.conftest import CommandResult
from tests.support.executorch import FIRMWARE

pytestmark = pytest.mark.sim

PROGRAM = """
#include <string.h>
#include "etd_itm.h"

static uint8_t log_memory[1024];
static etd_tracer tracer;
uint8_t image[2048]; /* what was sent */
uint32_t image_size, sent;
static uint32_t now;

static uint32_t clock(void *context) {
    (void)context;
    return now += 5;
}

void run(void) {
    etd_tracer_init(&tracer, log_memory, sizeof log_memory, clock, NULL);
    for (uint32_t i = 0; i < 3; i++) {
        etd_create_event_block(&tracer, "Execute");
        for (uint32_t event = 0; event < 4 + i; event++) {
            etd_end_profiling(&tracer, ETD_SCOPE(&tracer, "layer"));
        }
        const uint32_t size = etd_log_read(&tracer, 0, image + image_size, etd_log_size(&tracer));
        if (etd_itm_send_log(&tracer, 5, 1000)) {
            image_size += size;
            sent++;
            etd_log_recycle(&tracer);
        }
    }
    for (;;) {
    }
}

void *memcpy(void *to, const void *from, size_t size) {
    for (size_t i = 0; i < size; i++) {
        ((volatile uint8_t *)to)[i] = ((const uint8_t *)from)[i];
    }
    return to;
}
void *memset(void *to, int byte, size_t size) {
    for (size_t i = 0; i < size; i++) {
        ((volatile uint8_t *)to)[i] = (uint8_t)byte;
    }
    return to;
}
void *memmove(void *to, const void *from, size_t size) {
    return memcpy(to, from, size); /* upwards, as it is used */
}
int memcmp(const void *a, const void *b, size_t size) {
    const uint8_t *left = a, *right = b;
    for (size_t i = 0; i < size; i++) {
        if (left[i] != right[i]) {
            return left[i] < right[i] ? -1 : 1;
        }
    }
    return 0;
}
int strncmp(const char *a, const char *b, size_t size) {
    return memcmp(a, b, size);
}
size_t strlen(const char *text) {
    size_t length = 0;
    while (text[length] != 0) {
        length++;
    }
    return length;
}
"""
CODE, RAM, STACK = 0x1000, 0x2000_0000, 0x2001_0000
ITM, SCS = 0xE000_0000, 0xE000_E000
TER, TCR, DEMCR = 0xE00, 0xE80, 0xDFC


@dataclass
class Itm:
    """The ITM behind its registers, with what its debugger has set.

    Attributes:
        pin: What has left the chip.
        busy: How often the FIFO is full when it is asked, after each word.
    """

    trcena: bool = True
    tcr: int = 1
    ter: int = 1 << 5
    busy: int = 2
    pin: bytearray = field(default_factory=bytearray)
    asked: int = 0
    refused: int = 0

    def read(self, _uc: object, offset: int, _size: int, _data: object) -> int:
        assert self.trcena, "registers of the ITM were read without TRCENA"
        if offset in (TER, TCR):
            return self.ter if offset == TER else self.tcr
        assert offset == 4 * 5
        self.asked += 1
        return int(self.busy >= 0 and self.asked > self.busy)

    def write(self, _uc: object, offset: int, size: int, value: int, _data: object) -> None:
        assert offset == 4 * 5
        assert size == 4
        assert 0 <= self.busy < self.asked, "a word was written to a full FIFO"
        self.asked = 0
        self.pin += bytes([5 << 3 | 3]) + value.to_bytes(4, "little")
        if len(self.pin) % 50 == 0:
            self.pin += b"\xc0\x85\x01" + b"\0\0\0\0\0\x80"  # a timestamp, and synchronization


@pytest.fixture(scope="module")
def image(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("itm")
    (folder / "program.c").write_text(PROGRAM)
    sources = [
        folder / "program.c",
        FIRMWARE / "ports/itm/etd_itm.c",
        FIRMWARE / "src/link/crc32.c",
        *sorted((FIRMWARE / "src/tracer").glob("*.c")),
    ]
    command = [
        *("arm-none-eabi-gcc", "-mcpu=cortex-m3", "-mthumb", "-Os", "-std=c11", "-nostdlib"),
        *("-Wall", "-Wextra", "-Werror", "-fno-tree-loop-distribute-patterns", "-fno-builtin"),
        *("-ffunction-sections", "-Wl,--gc-sections", "-Wl,-e,run", f"-Wl,-Ttext={CODE:#x}"),
        *(f"-Wl,-Tbss={RAM:#x}", f"-Wl,-Tdata={RAM + 0x8000:#x}", f"-I{FIRMWARE / 'include'}"),
        f"-I{FIRMWARE / 'ports/itm'}",
    ]
    path = folder / "program.elf"
    subprocess.run([*command, *map(str, sources), "-o", str(path), "-lgcc"], check=True)
    return path


def variables(image: Path) -> dict[str, int]:
    listed = subprocess.run(["arm-none-eabi-nm", image], check=True, capture_output=True, text=True)
    rows = [line.split() for line in listed.stdout.splitlines()]
    return {name: int(address, 16) for address, _, name in rows}


def execute(image: Path, itm: Itm) -> tuple[bytes, int]:
    """Return the images that the program says were sent, and how many."""
    binary = image.with_suffix(".bin")
    command = ["arm-none-eabi-objcopy", "-O", "binary", "-R", ".bss", "-R", ".data"]
    subprocess.run([*command, image, binary], check=True)
    uc = unicorn.Uc(unicorn.UC_ARCH_ARM, unicorn.UC_MODE_THUMB | unicorn.UC_MODE_MCLASS)
    uc.ctl_set_cpu_model(arm.UC_CPU_ARM_CORTEX_M3)
    uc.mem_map(CODE, 0x1_0000)
    uc.mem_map(RAM, STACK - RAM)
    uc.mem_write(CODE, binary.read_bytes())
    uc.mmio_map(ITM, 0x1000, itm.read, None, itm.write, None)

    def core(_uc: object, offset: int, _size: int, _data: object) -> int:
        return int(itm.trcena) << 24 if offset == DEMCR else 0

    uc.mmio_map(SCS, 0x1000, core, None, lambda *_: None, None)
    names = variables(image)
    uc.reg_write(arm.UC_ARM_REG_SP, STACK)
    uc.emu_start(names["run"] | 1, 0, count=3_000_000)
    size, sent = (
        int.from_bytes(uc.mem_read(names[name], 4), "little") for name in ("image_size", "sent")
    )
    return bytes(uc.mem_read(names["image"], size)), sent


@pytest.mark.parametrize("busy", [0, 3])
def test_a_log_in_parts_is_what_the_firmware_sent(
    busy: int, image: Path, tmp_path: Path, etharness: Callable[..., CommandResult]
) -> None:
    itm = Itm(busy=busy)
    expected, sent = execute(image, itm)
    assert sent == 3
    (tmp_path / "capture.swo").write_bytes(itm.pin)
    (tmp_path / "log.etlog").write_bytes(expected)
    words = ("--clock-hz", "1e6", "--json")
    decoded = etharness("decode", str(tmp_path / "capture.swo"), *words)
    assert decoded.code == 0, decoded.err
    assert "layer" in decoded.out
    shown = etharness("decode", str(tmp_path / "log.etlog"), *words).out
    assert decoded.out.replace("capture.swo", "log.etlog") == shown


@pytest.mark.parametrize("itm", [Itm(trcena=False), Itm(tcr=0), Itm(ter=1), Itm(busy=-1)], ids=str)
def test_nothing_waits_for_a_trace_that_is_off(itm: Itm, image: Path) -> None:
    """Without TRCENA, ITMENA or the port's bit, or where the FIFO stays full."""
    assert execute(image, itm) == (b"", 0)
    assert itm.pin == b""
