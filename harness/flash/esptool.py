"""esptool 5: the ROM bootloader of Espressif's chips, over a serial port."""

from __future__ import annotations

from typing import ClassVar

from harness.config.board import Strict, Word
from harness.flash.image import ImageFormat
from harness.flash.tool import RESET, VERIFY, WRITE, FlashStep, Job, Tool, ToolProgram


class EsptoolOptions(Strict, frozen=True):
    """``chip`` in esptool's spelling; ``baud`` for writing; ``offset`` is the start of the
    application in the flash; ``before`` and ``after`` are esptool's reset modes.
    """

    chip: Word
    offset: int = 0x1_0000
    baud: int = 460_800
    before: Word = "default-reset"
    after: Word = "hard-reset"


class Esptool(Tool[EsptoolOptions]):
    """Converts an ELF file to an application image; a ``.bin`` must be one, or a merged image."""

    name = "esptool"
    programs = (ToolProgram("esptool", "pip install 'etdump-harness[flash]'"),)
    formats: ClassVar = (ImageFormat.ELF, ImageFormat.BIN)
    options_type = EsptoolOptions
    version = ("version",)
    needs_port = True

    def commands(self, job: Job[EsptoolOptions]) -> tuple[FlashStep, ...]:
        """Convert, write, compare, and reset as set in the board file."""
        options, port = job.options, job.needed_port()
        image = job.image_as(*self.formats)
        path, steps = image.path, []
        if image.format is ImageFormat.ELF:
            path = job.work / f"{image.path.stem}.app.bin"
            make = ("--chip", options.chip, "elf2image", "--output", str(path), str(image.path))
            steps.append(FlashStep("convert", (job.program, *make)))

        def call(after: str, *what: str) -> tuple[str, ...]:
            line = ("--port", port, "--baud", str(options.baud))
            resets = ("--before", options.before, "--after", after)
            return (job.program, "--chip", options.chip, *line, *resets, *what)

        at = (hex(options.offset), str(path))
        written = r"Hash of data verified"
        steps.append(FlashStep(WRITE, call("no-reset", "write-flash", *at), {}, written))
        if job.verify:
            matched = r"Verification successful"
            steps.append(FlashStep(VERIFY, call("no-reset", "verify-flash", *at), {}, matched))
        steps.append(FlashStep(RESET, call(options.after, "read-mac")))
        return tuple(steps)
