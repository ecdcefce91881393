"""dfu-util with ST's DfuSe bootloader, and others that know addresses as it does."""

from __future__ import annotations

from typing import ClassVar

from harness.config.board import Strict
from harness.flash import usb
from harness.flash.image import ImageFormat
from harness.flash.tool import RESET, VERIFY, WRITE, FlashStep, Job, Tool, ToolProgram


class DfuUtilOptions(Strict, frozen=True):
    """``vid`` and ``pid`` of the bootloader; ``alt`` is the memory that is the flash; ``address``
    is where a flat image belongs.
    """

    vid: int = 0x0483
    pid: int = 0xDF11
    alt: int = 0
    address: int | None = None


class DfuUtil(Tool[DfuUtilOptions]):
    """Writes, uploads the same range and compares the files, and starts the firmware.

    Which bootloader it is, its USB device says; that has the serial number of the chip.
    """

    name = "dfu-util"
    programs = (
        ToolProgram("dfu-util", "apt-get install dfu-util"),
        ToolProgram("cmp", "apt-get install diffutils"),
    )
    formats: ClassVar = (ImageFormat.BIN,)
    options_type = DfuUtilOptions
    selects_probe = True
    probes = usb.ST_DFU
    bootloader = True

    def commands(self, job: Job[DfuUtilOptions]) -> tuple[FlashStep, ...]:
        """Download, upload, compare, leave."""
        options, probe = job.options, job.probe
        image = job.image_as(*self.formats)
        address, size = hex(job.image.address), len(job.image.as_bin())
        vid, pid = (probe.vid, probe.pid) if probe else (options.vid, options.pid)
        serial = ("--serial", probe.serial) if probe and probe.serial else ()
        device = ("--device", f"{vid:04x}:{pid:04x}", *serial, "--alt", str(options.alt))
        back = job.work / "read-back.bin"

        def call(*what: str) -> tuple[str, ...]:
            return (job.program, *device, *what)

        write = call("--dfuse-address", address, "--download", str(image.path))
        done = "File downloaded successfully|Download done"
        steps = [FlashStep(WRITE, write, image.files, done)]
        if job.verify:
            read = call("--dfuse-address", f"{address}:{size}", "--upload", str(back))
            # It refuses to overwrite a file, such as one of an earlier attempt.
            steps.append(FlashStep(VERIFY, ("rm", "-f", str(back))))
            steps.append(FlashStep(VERIFY, read))
            steps.append(FlashStep(VERIFY, ("cmp", str(image.path), str(back))))
        # It leaves with whatever it does last: reading one byte does no harm.
        rest = job.work / "leave.bin"
        steps.append(FlashStep(RESET, ("rm", "-f", str(rest))))
        leave = call("--dfuse-address", f"{address}:4:leave", "--upload", str(rest))
        return (*steps, FlashStep(RESET, leave))
