"""picotool: the USB bootloaders of RP2040 and RP2350."""

from __future__ import annotations

from typing import ClassVar

from harness.config.board import Strict
from harness.flash.image import ImageFormat
from harness.flash.probes import RP_BOOT
from harness.flash.tool import FlashStep, Job, Tool, ToolProgram


class PicotoolOptions(Strict, frozen=True):
    """``force``: ask running firmware to start the bootloader, if it supports that; ``address`` is
    the load address of a flat image.
    """

    force: bool = False
    address: int | None = None


class Picotool(Tool[PicotoolOptions]):
    """Loads, verifies and starts the firmware in one call."""

    name = "picotool"
    programs = (ToolProgram("picotool", "see https://github.com/raspberrypi/picotool/releases"),)
    formats: ClassVar = (ImageFormat.ELF, ImageFormat.UF2, ImageFormat.BIN)
    options_type = PicotoolOptions
    version = ("version",)
    selects_probe = True
    probes = RP_BOOT
    bootloader = True

    def commands(self, job: Job[PicotoolOptions]) -> tuple[FlashStep, ...]:
        """Return one call."""
        image = job.image_as(*self.formats)
        argv = [job.program, "load", *(("-v",) if job.verify else ()), "-x", str(image.path)]
        argv += ["-t", image.format]
        if image.format is ImageFormat.BIN:
            argv += ["-o", hex(job.image.address)]
        if job.options.force:
            argv.append("-f")
        if serial := job.probe_serial:
            argv += ["--ser", serial]
        stage = "write, verify, reset" if job.verify else "write, reset"
        proof = "OK" if job.verify else ""
        return (FlashStep(stage, tuple(argv), image.files, proof),)
