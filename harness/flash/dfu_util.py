"""dfu-util, with ST's DfuSe bootloader and others with its address extension."""

from __future__ import annotations

from typing import ClassVar

from harness.config.board import Strict
from harness.flash.image import ImageFormat
from harness.flash.probes import ST_DFU
from harness.flash.tool import RESET, VERIFY, WRITE, FlashStep, Job, Tool, ToolProgram


class DfuUtilOptions(Strict, frozen=True):
    """``vid`` and ``pid`` of the bootloader; ``alt`` is the alternate setting of the flash;
    ``address`` is the load address of a flat image.
    """

    vid: int = 0x0483
    pid: int = 0xDF11
    alt: int = 0
    address: int | None = None


class DfuUtil(Tool[DfuUtilOptions]):
    """Writes, uploads the same range and compares the files, and starts the firmware.

    The bootloader is selected by its USB device, which reports the chip's serial number.
    """

    name = "dfu-util"
    programs = (
        ToolProgram("dfu-util", "apt-get install dfu-util"),
        ToolProgram("cmp", "apt-get install diffutils"),
    )
    formats: ClassVar = (ImageFormat.BIN,)
    options_type = DfuUtilOptions
    selects_probe = True
    probes = ST_DFU
    bootloader = True

    def commands(self, job: Job[DfuUtilOptions]) -> tuple[FlashStep, ...]:
        """Download, upload, compare, leave."""
        options, probe = job.options, job.probe
        image = job.image_as(*self.formats)
        address, size = hex(job.image.address), len(job.image.as_bin())
        vid, pid = (probe.vid, probe.pid) if probe else (options.vid, options.pid)
        serial = ("--serial", job.probe_serial) if job.probe_serial else ()
        device = ("--device", f"{vid:04x}:{pid:04x}", *serial, "--alt", str(options.alt))
        back = job.work / "read-back.bin"

        def call(*what: str) -> tuple[str, ...]:
            return (job.program, *device, *what)

        write = call("--dfuse-address", address, "--download", str(image.path))
        done = "File downloaded successfully|Download done"
        steps = [FlashStep(WRITE, write, image.files, done)]
        if job.verify:
            read = call("--dfuse-address", f"{address}:{size}", "--upload", str(back))
            # dfu-util refuses to overwrite a file, such as one from an earlier attempt.
            steps.append(FlashStep(VERIFY, ("rm", "-f", str(back))))
            steps.append(FlashStep(VERIFY, read))
            steps.append(FlashStep(VERIFY, ("cmp", str(image.path), str(back))))
        # `:leave` starts the firmware after a transfer, and a short upload changes nothing.
        rest = job.work / "leave.bin"
        steps.append(FlashStep(RESET, ("rm", "-f", str(rest))))
        leave = call("--dfuse-address", f"{address}:4:leave", "--upload", str(rest))
        return (*steps, FlashStep(RESET, leave))
