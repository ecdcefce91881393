"""stm32flash, at an imitation of the bootloader in the ROM of an STM32 (ST's AN3155)."""

from __future__ import annotations

import os
import pty
import select
import threading
import tty
from collections.abc import Callable, Iterator
from functools import reduce
from operator import xor
from pathlib import Path

import pytest

from harness import FlashError, Image, Segment
from tests.support.flash import IMAGE, installed, job_of, run_job

pytestmark = pytest.mark.sim

ACK, NACK = 0x79, 0x1F
GET, GET_VERSION, GET_ID, READ, GO, WRITE, ERASE = 0x00, 0x01, 0x02, 0x11, 0x21, 0x31, 0x43
EXTENDED_ERASE = 0x44
SYNC = 0x7F
VERSION = 0x31
PRODUCT = 0x0421
"""STM32F446."""

FLASH = 0x0800_0000
SIZE = 512 * 1024


class Stm32Bootloader:
    """Answers stm32flash.

    Attributes:
        port: Path of the terminal.
        flash: What is in the chip's flash.
        started_at: The address that GO was told; None before.
        silent: Answer nothing.
        protected: Refuse reading and writing, as a chip with readout protection does.
        spoil: Changes a piece that is written, given its address and bytes.
    """

    def __init__(self) -> None:
        self._ours, theirs = pty.openpty()
        tty.setraw(theirs)
        self._theirs = theirs  # open, so that the terminal outlives each program that uses it
        self.port = os.ttyname(theirs)
        self.flash = bytearray(b"\xff" * SIZE)
        self.started_at: int | None = None
        self.silent = False
        self.protected = False
        self.spoil: Callable[[int, bytes], bytes] = lambda _, data: data
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._serve, daemon=True)
        self._thread.start()

    def __enter__(self) -> Stm32Bootloader:
        return self

    def __exit__(self, *_: object) -> None:
        self._ended.set()
        self._thread.join()
        os.close(self._ours)
        os.close(self._theirs)

    def _serve(self) -> None:
        while not self._ended.is_set():
            byte = self._read(1)
            if not byte or self.silent:
                continue
            if byte[0] == SYNC:
                self._say(ACK)
                continue
            check = self._read(1)
            if not check or byte[0] ^ check[0] != 0xFF:
                self._say(NACK)
                continue
            self._command(byte[0])

    def _command(self, command: int) -> None:
        if command in (READ, GO, WRITE, EXTENDED_ERASE) and self.protected:
            self._say(NACK)
        elif command == GET:
            known = [
                GET,
                GET_VERSION,
                GET_ID,
                READ,
                GO,
                WRITE,
                EXTENDED_ERASE,
                0x63,
                0x73,
                0x82,
                0x92,
            ]
            self._say(ACK, len(known), VERSION, *known, ACK)
        elif command == GET_VERSION:
            self._say(ACK, VERSION, 0, 0, ACK)
        elif command == GET_ID:
            self._say(ACK, 1, *PRODUCT.to_bytes(2, "big"), ACK)
        elif command == READ:
            self._say(ACK)
            place = self._address()
            count = self._read(2)
            self._say(ACK)
            self._send(bytes(self.flash[place : place + count[0] + 1]))
        elif command == WRITE:
            self._say(ACK)
            place = self._address()
            count = self._read(1)[0] + 1
            data = self._read(count)
            check = self._read(1)[0]
            if reduce(xor, data, count - 1) != check:
                self._say(NACK)
                return
            self.flash[place : place + count] = self.spoil(FLASH + place, data)
            self._say(ACK)
        elif command == EXTENDED_ERASE:
            self._say(ACK)
            self._erase()
        elif command == GO:
            self._say(ACK)
            self.started_at = FLASH + self._address()
        else:
            self._say(NACK)

    def _address(self) -> int:
        raw = self._read(5)
        address = int.from_bytes(raw[:4], "big")
        good = reduce(xor, raw) == 0 and FLASH <= address < FLASH + SIZE
        self._say(ACK if good else NACK)
        return address - FLASH if good else 0

    def _erase(self) -> None:
        count = int.from_bytes(self._read(2), "big")
        if count >= 0xFFF0:
            self._read(1)
            self.flash[:] = b"\xff" * SIZE
        else:
            pages = self._read(2 * (count + 1))
            self._read(1)
            for at in range(0, len(pages), 2):
                page = int.from_bytes(pages[at : at + 2], "big")
                begin, end = _sector(page)
                self.flash[begin:end] = b"\xff" * (end - begin)
        self._say(ACK)

    def _say(self, *values: int) -> None:
        self._send(bytes(values))

    def _send(self, data: bytes) -> None:
        while data:
            data = data[os.write(self._ours, data) :]

    def _read(self, count: int) -> bytes:
        """So many bytes, fewer when it is over."""
        data = b""
        while len(data) < count and not self._ended.is_set():
            ready, _, _ = select.select([self._ours], [], [], 0.05)
            if ready:
                data += os.read(self._ours, count - len(data))
        return data


def _sector(number: int) -> tuple[int, int]:
    """Where a sector of an STM32F4 begins and ends: four of 16 KiB, one of 64, then of 128."""
    sizes = [16] * 4 + [64] + [128] * 3
    begin = sum(sizes[:number]) * 1024
    return begin, begin + sizes[number] * 1024


@pytest.fixture
def bootloader() -> Iterator[Stm32Bootloader]:
    with Stm32Bootloader() as device:
        yield device


def stm32flash(directory: Path, device: Stm32Bootloader, **told: object) -> str:
    program = installed("stm32flash")
    # A pseudo-terminal has no parity, and the tool insists on what it has set.
    told = {"mode": "8n1", "port": device.port, **told}
    job = job_of("stm32flash", directory, program=program, **told)
    return run_job("stm32flash", job, timeout_s=20)


def test_stm32flash_writes_verifies_and_starts(tmp_path: Path, bootloader: Stm32Bootloader) -> None:
    log = stm32flash(tmp_path, bootloader)
    data = IMAGE.segments[0].data
    assert bootloader.flash[: len(data)] == data
    assert bootloader.started_at == FLASH
    assert "Wrote and verified" in log


def test_stm32flash_writes_at_the_image_s_own_address(
    tmp_path: Path, bootloader: Stm32Bootloader
) -> None:
    """Behind a bootloader of one's own, which is left alone."""
    bootloader.flash[:4096] = b"\x55" * 4096
    image = Image(IMAGE.path, IMAGE.format, (Segment(FLASH + 0x4000, b"application." * 100),), "")
    stm32flash(tmp_path, bootloader, image=image)
    assert bootloader.flash[0x4000 : 0x4000 + 1200] == image.segments[0].data
    assert bootloader.flash[:4096] == b"\x55" * 4096
    assert bootloader.started_at == FLASH + 0x4000


def test_stm32flash_notices_a_byte_that_is_not_kept(
    tmp_path: Path, bootloader: Stm32Bootloader
) -> None:
    bootloader.spoil = lambda at, data: bytes(data[:-1]) + bytes([data[-1] ^ 1])
    with pytest.raises(FlashError, match="the flash differs from the image") as caught:
        stm32flash(tmp_path, bootloader)
    assert caught.value.retryable
    assert bootloader.started_at is None


def test_stm32flash_says_that_a_chip_is_locked(tmp_path: Path, bootloader: Stm32Bootloader) -> None:
    bootloader.protected = True
    with pytest.raises(FlashError, match="the chip is locked") as caught:
        stm32flash(tmp_path, bootloader)
    assert not caught.value.retryable
    assert "never done automatically" in caught.value.hint


def test_stm32flash_says_that_nobody_answers(tmp_path: Path, bootloader: Stm32Bootloader) -> None:
    bootloader.silent = True
    with pytest.raises(FlashError, match="bootloader does not answer") as caught:
        stm32flash(tmp_path, bootloader)
    assert "hold BOOT" in caught.value.hint
    assert "Failed to init device" in (tmp_path / "flash.log").read_text()


def test_stm32flash_says_that_the_port_is_gone(tmp_path: Path) -> None:
    program = installed("stm32flash")
    job = job_of("stm32flash", tmp_path, program=program, port=str(tmp_path / "ttyUSB0"))
    with pytest.raises(FlashError, match="the serial port cannot be opened"):
        run_job("stm32flash", job)
