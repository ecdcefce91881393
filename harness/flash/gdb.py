"""gdb with any gdbserver: OpenOCD's, J-Link's, pyOCD's, QEMU's, a Black Magic Probe."""

from __future__ import annotations

from typing import Annotated, ClassVar

import msgspec

from harness.config.board import Strict
from harness.errors import UsageError
from harness.flash.image import ImageFormat
from harness.flash.tool import FlashStep, Job, Tool, ToolProgram

Server = Annotated[str, msgspec.Meta(pattern=r"\A([\w/:[][\w./:@[\]-]*)?\Z")]
"""Address of a gdbserver, which becomes a part of a line of a script; "" for none."""


class GdbOptions(Strict, frozen=True):
    """Address of the gdbserver, and additional gdb commands.

    ``server`` is an argument of ``target remote``: host:port, a socket or a device. ``before`` and
    ``after`` are gdb commands around ``load``; ``after`` has to reset the board.
    """

    server: Server = ""
    before: tuple[str, ...] = ()
    after: tuple[str, ...] = ("monitor reset",)


class Gdb(Tool[GdbOptions]):
    """Loads an ELF file, compares the board's memory with it, and starts the firmware."""

    name = "gdb"
    programs = (
        ToolProgram(
            "gdb-multiarch", "apt-get install gdb-multiarch", ("arm-none-eabi-gdb", "riscv32-gdb")
        ),
    )
    formats: ClassVar = (ImageFormat.ELF,)
    options_type = GdbOptions

    def commands(self, job: Job[GdbOptions]) -> tuple[FlashStep, ...]:
        """Return one gdb call with a script, which stops at the first command that fails."""
        server = job.server or job.options.server
        if not server:
            raise UsageError(
                f"no gdbserver address for board {job.board}",
                hint='set `server = "localhost:3333"` in [flash.options.gdb] of the board file',
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
            # gdb has cached the registers from before the reset.
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
