"""SEGGER's J-Link Commander."""

from __future__ import annotations

from typing import ClassVar

from harness.config.board import Strict, Word
from harness.errors import UsageError
from harness.flash.image import ImageFormat
from harness.flash.probes import J_LINK
from harness.flash.tool import FlashStep, Job, Tool, ToolProgram


class JLinkOptions(Strict, frozen=True):
    """``device`` is SEGGER's name of the chip; ``interface`` SWD or JTAG; ``speed`` in kHz;
    ``address`` is the load address of a flat image.
    """

    device: Word
    interface: Word = "SWD"
    speed: int = 4000
    address: int | None = None


class JLink(Tool[JLinkOptions]):
    """Runs a script. It can exit with 0 after a failure, so its output has to prove success."""

    name = "jlink"
    programs = (ToolProgram("JLinkExe", "see https://www.segger.com/downloads/jlink", ("JLink",)),)
    formats: ClassVar = (ImageFormat.HEX, ImageFormat.BIN)
    options_type = JLinkOptions
    version = None
    selects_probe = True
    probes = J_LINK

    def commands(self, job: Job[JLinkOptions]) -> tuple[FlashStep, ...]:
        """Return one call with a script: reset, write, compare every piece, run."""
        options = job.options
        image = job.image_as(*self.formats)
        pieces = {
            job.work / f"piece-{segment.address:08x}.bin": segment.data
            for segment in (job.image.segments if job.verify else ())
        }
        where = f", {job.image.address:#x}" if image.format is ImageFormat.BIN else ""
        script = ["r", "h", f"loadfile {_plain(str(image.path))}{where}"]
        for segment, path in zip(job.image.segments, pieces, strict=False):
            script.append(f"verifybin {_plain(str(path))}, {segment.address:#x}")
        script += ["r", "g", "qc"]
        path = job.work / "load.jlink"
        files = {**image.files, **pieces, path: "".join(f"{line}\n" for line in script).encode()}
        argv = [job.program, "-NoGui", "1", "-ExitOnError", "1", "-AutoConnect", "1"]
        argv += ["-Device", options.device, "-If", options.interface]
        argv += ["-Speed", str(options.speed)]
        if serial := job.probe_serial:
            # J-Link serial numbers are decimal; on USB they are padded with zeros.
            argv += ["-USB", serial.lstrip("0") or "0"]
        argv += ["-CommandFile", str(path)]
        proof = r"(?s)Downloading file.*O\.K\..*" + r"Verify successful\..*" * len(pieces)
        denial = (
            r"(?i)Verify failed|\*{2,} ?Error|Error while programming|Failed to (download|open)|"
            r"Cannot connect|Could not (connect|open|find)|Unknown command|Unspecified error"
        )
        stage = "write, verify, reset" if job.verify else "write, reset"
        return (FlashStep(stage, tuple(argv), files, proof, denial),)


def _plain(path: str) -> str:
    if "," in path or '"' in path or not path.isprintable():
        raise UsageError(
            f"J-Link Commander does not support the path {path!r}",
            hint="use a path without commas, quotes and control characters",
        )
    return f'"{path}"' if " " in path else path
