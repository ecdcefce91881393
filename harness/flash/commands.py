"""The flashing tools of the core: gdb, also for simulated boards, and commands of a board file."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path
from typing import Annotated, Final

import msgspec
from msgspec.structs import replace

from harness.config.board import Strict
from harness.errors import UsageError, did_you_mean
from harness.files import resolve_word
from harness.flash.image import ImageFormat
from harness.flash.probes import CMSIS_DAP, ESP_JTAG, FTDI, J_LINK, ST_LINK
from harness.flash.tool import (
    RESET,
    VERIFY,
    WRITE,
    FlashStep,
    FlatImageOptions,
    Job,
    Tool,
    ToolProgram,
)

_PLACEHOLDER: Final = re.compile(r"\{(\w*)\}")


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
    """gdb with any gdbserver: OpenOCD's, J-Link's, pyOCD's, QEMU's, a Black Magic Probe.

    Loads an ELF file, compares the board's memory with it, and starts the firmware.
    """

    name = "gdb"
    programs = (
        ToolProgram(
            "gdb-multiarch", "apt-get install gdb-multiarch", ("arm-none-eabi-gdb", "riscv32-gdb")
        ),
    )
    formats = (ImageFormat.ELF,)

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
        argv = (job.program, "-nx", "-batch", "-x", str(path), str(image.path))
        denial = r"MIS-MATCHED|did(n't| not) match|[Ll]oad failed"
        files = {path: "\n".join([*script, ""]).encode()}
        return (FlashStep(job.stages, argv, files, r"(?m)^flashed$", denial),)


class CommandOptions(FlatImageOptions, frozen=True):
    """Commands as program and arguments, run without a shell.

    ``write`` is required, ``verify`` and ``reset`` are optional. Words may contain {image}, {port},
    {probe} (VID:PID:Serial), {serial} (the probe's), {address} (of the image) and {board}.
    ``formats`` are the accepted image formats, preferred first; ``proof`` is a pattern that must
    match the output of ``write``.
    """

    write: Annotated[tuple[str, ...], msgspec.Meta(min_length=1)]
    verify: tuple[str, ...] = ()
    reset: tuple[str, ...] = ()
    formats: Annotated[tuple[ImageFormat, ...], msgspec.Meta(min_length=1)] = (
        ImageFormat.ELF,
        ImageFormat.BIN,
    )
    proof: str = ""


class CustomCommand(Tool[CommandOptions]):
    """Runs the commands from the board file, for boards that no other tool supports.

    Verifies only with a ``verify`` command.
    """

    name = "command"
    programs = ()
    formats = tuple(ImageFormat)
    version = None
    probes = (*CMSIS_DAP, *ST_LINK, *J_LINK, *FTDI, *ESP_JTAG)

    def resolve_paths(self, options: CommandOptions, folder: Path) -> CommandOptions:
        """Resolve words such as ``./flash.sh``."""
        words = {name: getattr(options, name) for name in ("write", "verify", "reset")}
        return replace(
            options,
            **{name: tuple(resolve_word(w, folder) for w in argv) for name, argv in words.items()},
        )

    def commands(self, job: Job[CommandOptions]) -> tuple[FlashStep, ...]:
        """Return the commands with their placeholders replaced."""
        options = job.options
        image = job.image_as(*options.formats)

        def filled(argv: tuple[str, ...]) -> tuple[str, ...]:
            return tuple(
                _PLACEHOLDER.sub(lambda match: _value(match[1], job, str(image.path)), word)
                for word in argv
            )

        steps = [FlashStep(WRITE, filled(options.write), image.files, options.proof)]
        if job.verify and options.verify:
            steps.append(FlashStep(VERIFY, filled(options.verify)))
        if options.reset:
            steps.append(FlashStep(RESET, filled(options.reset)))
        return tuple(steps)

    def named_programs(self, options: CommandOptions) -> tuple[ToolProgram, ...]:
        """Return the first words of the commands."""
        lines = (options.write, options.verify, options.reset)
        return tuple(
            ToolProgram(argv[0], f"no program {argv[0]}, which [flash.options.command] names")
            for argv in lines
            if argv and not _PLACEHOLDER.search(argv[0])
        )

    def reads_back(self, options: CommandOptions) -> bool:
        """Whether there is a ``verify`` command."""
        return bool(options.verify)


def _value(name: str, job: Job[CommandOptions], image: str) -> str:
    probe = job.probe
    values: dict[str, Callable[[], str]] = {
        "image": lambda: image,
        "port": job.needed_port,
        "probe": lambda: probe.selector if probe else "",
        "serial": lambda: job.probe_serial,
        "address": lambda: hex(job.image.address),
        "board": lambda: job.board,
    }
    if name not in values:
        known = ", ".join(f"{{{word}}}" for word in values)
        raise UsageError(
            f"the flash command of board {job.board} has an unknown placeholder {{{name}}}",
            hint=f"{did_you_mean(name, tuple(values))}known: {known}",
        )
    if name in ("probe", "serial") and probe is None:
        raise UsageError(
            f"the flash command of board {job.board} contains {{{name}}}, and no probe is "
            "connected or given",
            hint="use --probe VID:PID:Serial",
        )
    return values[name]()
