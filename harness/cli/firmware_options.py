"""Options about the firmware: tools that flash it, and debug probes that look into it."""

from __future__ import annotations

from harness.cli.options import PROBE, FilePath, option, panel

flash_options = (
    option(
        "--image",
        metavar="FILE",
        type=FilePath(),
        help="Image to flash: ELF, Intel HEX, UF2 or .bin.  [default: the board's firmware, built "
        "here]",
    ),
    option(
        "--tool",
        metavar="NAME",
        help="Flashing tool.  [default: the first installed one that the board file lists]",
    ),
    option(
        "--probe",
        default="",
        metavar="PROBE",
        help="Debug probe as VID:PID:Serial, hexadecimal, or VID:PID if only one matches.  "
        "[default: the unit's, or the only one]",
    ),
)
"""Options about flashing, passed as ``image``, ``tool`` and ``probe``."""


probe_options = panel(
    PROBE,
    option(
        "--elf",
        metavar="FILE",
        type=FilePath(dir_okay=False),
        help="Firmware on the board, as linked, with its symbols; needed for gdb:// and pyocd://.",
    ),
    option(
        "--symbol",
        metavar="NAME",
        help="Variable that is, contains or points to the tracer.  [default: search all]",
    ),
    option(
        "--until",
        metavar="FUNCTION",
        help="Let the board run until it enters this function, and read the trace there.  "
        "[default: read when no event is open]",
    ),
    option(
        "--reset",
        metavar="COMMAND",
        help="Reset the board first by this command of the gdbserver: 'reset halt' (OpenOCD, "
        "pyOCD), 'reset' (J-Link) or 'system_reset' (QEMU).  [default: no reset]",
    ),
)
"""Options about debug probes, passed as ``elf``, ``symbol``, ``until`` and ``reset``."""
