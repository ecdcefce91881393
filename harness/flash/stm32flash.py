"""stm32flash: the ROM bootloader of STM32, over a serial port (ST's AN3155)."""

from __future__ import annotations

from typing import ClassVar

from harness.config.board import Strict, Word
from harness.flash.image import ImageFormat
from harness.flash.tool import FlashStep, Job, Tool, ToolProgram


class Stm32FlashOptions(Strict, frozen=True):
    """``baud`` of the bootloader; ``gpio`` is the DTR and RTS sequence for ``-i``; ``mode`` is
    bits, parity and stop bits of the line, by default 8e1; ``address`` is the load address of a
    flat image.
    """

    baud: int = 115_200
    gpio: str = ""
    mode: Word = ""
    address: int | None = None


class Stm32Flash(Tool[Stm32FlashOptions]):
    """Writes a flat image to its address, reads it back, and starts it."""

    name = "stm32flash"
    programs = (ToolProgram("stm32flash", "apt-get install stm32flash"),)
    formats: ClassVar = (ImageFormat.BIN,)
    options_type = Stm32FlashOptions
    version = None
    needs_port = True

    def commands(self, job: Job[Stm32FlashOptions]) -> tuple[FlashStep, ...]:
        """Return one call with a flat image: its HEX parser silently drops records."""
        image = job.image_as(*self.formats)
        address = job.image.address
        argv = [job.program, "-b", str(job.options.baud)]
        if job.options.mode:
            argv += ["-m", job.options.mode]
        if job.options.gpio:
            argv += ["-i", job.options.gpio, "-R"]
        argv += ["-w", str(image.path), "-S", hex(address), *(("-v",) if job.verify else ())]
        argv += ["-g", hex(address), job.needed_port()]
        stage = "write, verify, reset" if job.verify else "write, reset"
        proof = r"Wrote and verified address" if job.verify else r"Wrote address"
        return (FlashStep(stage, tuple(argv), image.files, proof + r".*\(100\.00%\)[ \w]*Done"),)
