"""Patterns in the output of flashing tools, with their cause and a hint.

Most patterns apply to several tools, so all tools share one list. The first match counts: causes
come before their consequences.
"""

from __future__ import annotations

import re
from typing import Final, NamedTuple


class Sign(NamedTuple):
    """A pattern in a tool's output.

    Attributes:
        pattern: Regular expression, case-insensitive.
        what: Cause of the failure, for the error message.
        hint: What to try.
        retryable: Whether a second attempt may succeed.
        usage: Whether the board file or the command line is wrong, not the hardware.
    """

    pattern: str
    what: str
    hint: str
    retryable: bool = False
    usage: bool = False

    def line(self, output: str) -> str:
        """Return the first line of an output that matches the pattern; "" without a match."""
        search = re.compile(self.pattern, re.IGNORECASE).search
        return next((line.strip() for line in output.splitlines() if search(line)), "")


_UDEV: Final = (
    "give your user access: with a udev rule for its VID:PID "
    "(`etharness explain flashing`), or with the "
    "group dialout for a serial port"
)
_PLUG: Final = (
    "check that it is plugged in and the board has power (`lsusb` lists USB devices); select it "
    "with --probe VID:PID:Serial"
)

SIGNS: Final = (
    Sign(
        r"permission denied|LIBUSB_ERROR_ACCESS|insufficient permissions|access denied|"
        r"cannot open device.*\[-3\]|check your permissions",
        "permission denied for the probe or the port",
        _UDEV,
    ),
    Sign(
        r"LIBUSB_ERROR_BUSY|resource busy|already in use|"
        r"claim(ing)? (the )?interface|could not be locked|port is busy(?! or)|"
        r"device or resource busy|Unable to match requested speed.*busy",
        "another program is using the probe or the port",
        "end other debuggers, monitors and IDEs that use it",
        retryable=True,
    ),
    Sign(
        r"readout.?protect|read.?out protection|RDP level|flash is (read|write).?protected|"
        r"\bAPPROTECT\b|device is (secured|locked)|(chip|target) is locked|is read protected|"
        r"write.?protected|Got NACK from device on command 0x(11|31|43|44)",
        "the chip is locked against reading or writing",
        "unlock it with the tool's own mass erase or recover command, which erases everything on "
        "it; this is never done automatically",
    ),
    Sign(
        r"MIS-MATCHED|verif\w* (failed|error|mismatch)|failed to verify|"
        r"checksum mismatch|contents differ|flash (content|verification) .*(differ|failed)|"
        r"did(n't| not) match the|\bdiffer: (char|byte)",
        "verification failed: the flash differs from the image",
        "try again; if this happens often, use a shorter cable or a lower probe speed; the flash "
        "may be worn out",
        retryable=True,
    ),
    Sign(
        r"no (connected )?(debug )?(probes?|programmers?|emulators?)\b|"
        r"couldn'?t find any ST-?Link|"
        r"unable to find a matching CMSIS-DAP|No J-Link device found|"
        r"No DFU capable USB device|no (accessible )?RP\S* devices? (in BOOTSEL mode )?"
        r"(was|were) found|no probes? (was|were) found|No target device available|"
        r"Cannot connect to J-Link|connecting to J-Link via USB\.\.\. *FAILED|"
        r"unable to open ftdi|no device found|Error: open failed",
        "no probe is connected, or not the selected one",
        _PLUG,
    ),
    Sign(
        r"Cannot handle device|could not open port|Could not open /|"
        r"No such file or directory: '/dev|port .*does(n't| not) exist",
        "the serial port cannot be opened",
        "check that the adapter is plugged in; `ls /dev/serial/by-id` lists the ports",
        retryable=True,
    ),
    Sign(
        r"Failed to init device|failed to connect to ESP|No serial data received|"
        r"wrong boot mode|Failed to synchronize",
        "the board's bootloader does not answer on the serial port",
        "start the bootloader: hold BOOT while the board is reset, or set in the board file how "
        "DTR and RTS start it; check the port",
        retryable=True,
    ),
    Sign(
        r"(unexpected|wrong|unknown|mismatch\w*) (chip|device|idcode|target|part|core)\b|"
        r"idcode.*(mismatch|unexpected)|target type .* not (found|recognized)|"
        r"UNEXPECTED idcode|expected \d+ of \d+|This chip is .* not|chip .* not (found|supported)|"
        r"Unknown device|not a valid device|is not supported by|unknown chip",
        "the chip is not the one in the board file",
        "check the board; the expected chip is in `[flash.options.TOOL]` of its board file",
    ),
    Sign(
        r"target voltage|VTref|no power|could not power|target not (halted|examined|responding)|"
        r"init mode failed|unable to connect to the target|Cannot connect to target|"
        r"No ACK|SWD (fault|DP)|could not (stop|halt)|"
        r"(Unexpected|unable to get) (core|idcode|debug)|No target detected|"
        r"Failed to (enter|read) .*(SWD|core id)|core.?id",
        "the probe cannot connect to the chip",
        "check the board's power and its debug connector; for firmware that sleeps or uses the "
        "debug pins, connect under reset",
        retryable=True,
    ),
    Sign(
        r"Connection refused|Connection timed out|could not connect:|Remote connection closed|"
        r"Remote communication error|Ignoring packet error|Reply contains invalid|"
        r"Remote failure reply|not being run|Truncated register",
        "no connection to the gdbserver",
        "check that it runs at the address in the board file, and read its output",
        retryable=True,
    ),
    Sign(
        r"No space left|not enough space|out of (range|space)|too (large|big)|does not fit|"
        r"outside (of )?(the )?(flash|memory)|no flash bank|region .* overflow",
        "the image does not fit into the chip's flash",
        "check that the image is for this board: its addresses must be in the flash",
    ),
    Sign(
        r"Read-only file system|Input/output error|Transport endpoint|No such device|"
        r"Stale file handle|not a directory|cannot copy to the drive",
        "the board's drive disappeared or cannot be written",
        "unplug it, plug it in again, and check that it is mounted",
        retryable=True,
    ),
    Sign(
        r"No such file or directory|Can't find \S+\.cfg|cannot find the file|file not found",
        "a file that the tool needs does not exist",
        "correct its path in `[flash.options.TOOL]` of the board file",
        usage=True,
    ),
)


def find_sign(output: str) -> Sign | None:
    """Return the first pattern that matches a tool's output, or None."""
    return next((sign for sign in SIGNS if sign.line(output)), None)
