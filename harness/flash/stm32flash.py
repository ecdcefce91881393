"""stm32flash: the bootloader in the ROM of STM32, over a serial port (ST's AN3155)."""

from __future__ import annotations

from typing import ClassVar

from harness.config.board import Strict
from harness.flash.image import ImageFormat
from harness.flash.tool import FlashStep, Job, Tool, ToolProgram


class Stm32FlashOptions(Strict, frozen=True):
    """``baud`` of the bootloader; ``gpio`` is how DTR and RTS start it and end it, as of ``-i``;
    ``mode`` is bits, parity and stop bits of the line, 8e1 unless it is told; ``address`` is where
    a flat image belongs.
    """

    baud: int = 115_200
    gpio: str = ""
    mode: str = ""
    address: int | None = None


class Stm32Flash(Tool[Stm32FlashOptions]):
    """Writes a flat image at its address, reads it back, and starts it."""

    name = "stm32flash"
    programs = (ToolProgram("stm32flash", "apt-get install stm32flash"),)
    formats: ClassVar = (ImageFormat.BIN,)
    options_type = Stm32FlashOptions
    version = None
    needs_port = True

    def commands(self, job: Job[Stm32FlashOptions]) -> tuple[FlashStep, ...]:
        """One call. Its own parser of HEX files would not say what it leaves out."""
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
