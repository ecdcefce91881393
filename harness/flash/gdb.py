"""gdb with any gdbserver: OpenOCD's, J-Link's, pyOCD's, QEMU's, a Black Magic Probe."""

from __future__ import annotations

from typing import ClassVar

from harness.config.board import Strict
from harness.errors import UsageError
from harness.flash.image import ImageFormat
from harness.flash.tool import FlashStep, Job, Tool, ToolProgram


class GdbOptions(Strict, frozen=True):
    """How to reach the gdbserver and what to tell it.

    ``server`` is what ``target remote`` takes: host:port, a socket or a device. ``before`` and
    ``after`` are gdb commands around the loading; those after it are to reset the board.
    """

    server: str = ""
    before: tuple[str, ...] = ()
    after: tuple[str, ...] = ("monitor reset",)


class Gdb(Tool[GdbOptions]):
    """Loads an ELF file, compares what is in the board's memory with it, and lets it run."""

    name = "gdb"
    programs = (
        ToolProgram(
            "gdb-multiarch", "apt-get install gdb-multiarch", ("arm-none-eabi-gdb", "riscv32-gdb")
        ),
    )
    formats: ClassVar = (ImageFormat.ELF,)
    options_type = GdbOptions

    def commands(self, job: Job[GdbOptions]) -> tuple[FlashStep, ...]:
        """One script, which stops at the first command that fails."""
        server = job.server or job.options.server
        if not server:
            raise UsageError(
                f"gdb is not told where the gdbserver of board {job.board} is",
                hint='say `server = "localhost:3333"` in [flash.options.gdb] of the board file',
            )
        image = job.image_as(ImageFormat.ELF)
        script = [
            "set pagination off",
            "set confirm off",
            "set style enabled off",
            "set remotetimeout 20",
            f"target extended-remote {server}",
            *job.options.before,
            "load",
            *(("compare-sections",) if job.verify else ()),
            *job.options.after,
            # What gdb knows of the registers is from before the reset.
            "maintenance flush register-cache",
            "echo flashed\\n",
            "detach",
        ]
        path = job.work / "load.gdb"
        argv = (job.program, "-nx", "-batch", "-x", str(path))
        return (
            FlashStep(
                "write, verify, reset" if job.verify else "write, reset",
                (*argv, str(image.path)),
                {path: "".join(f"{line}\n" for line in script).encode()},
                proof=r"(?m)^flashed$",
                denial=r"MIS-MATCHED|did(n't| not) match|[Ll]oad failed",
            ),
        )
