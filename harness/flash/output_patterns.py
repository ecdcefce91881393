"""What the output of flashing tools means: patterns, what has happened, and what to do about it.

Most are of several tools, so there is one list for all. The first that fits counts: causes stand
before their consequences.
"""

from __future__ import annotations

import re
from typing import Final, NamedTuple


class Sign(NamedTuple):
    """A pattern in a tool's output.

    Attributes:
        pattern: What is looked for, whatever its case.
        what: What has happened, as the end of "TOOL failed: ".
        hint: What to do about it.
        again: Whether the same may succeed when it is tried again.
    """

    pattern: str
    what: str
    hint: str
    again: bool = False

    def line(self, output: str) -> str:
        """The first line of an output that has the pattern; "" if none has."""
        search = re.compile(self.pattern, re.IGNORECASE).search
        return next((line.strip() for line in output.splitlines() if search(line)), "")


_UDEV: Final = (
    "give your user the right to use it: a udev rule for its VID:PID (docs/flashing.md), "
    "or the group dialout for a serial port"
)
_PLUG: Final = (
    "is it plugged in and does the board have power? `lsusb` shows what is there; "
    "select it with --probe VID:PID:Serial"
)

SIGNS: Final = (
    Sign(
        r"permission denied|LIBUSB_ERROR_ACCESS|insufficient permissions|access denied|"
        r"cannot open device.*\[-3\]|check your permissions",
        "this user may not use the probe or the port",
        _UDEV,
    ),
    Sign(
        r"LIBUSB_ERROR_BUSY|resource busy|already in use|"
        r"claim(ing)? (the )?interface|could not be locked|port is busy(?! or)|"
        r"device or resource busy|Unable to match requested speed.*busy",
        "another program is using the probe or the port",
        "end other debuggers, monitors and IDEs that use it",
        again=True,
    ),
    Sign(
        r"readout.?protect|read.?out protection|RDP level|flash is (read|write).?protected|"
        r"\bAPPROTECT\b|device is (secured|locked)|(chip|target) is locked|is read protected|"
        r"write.?protected|Got NACK from device on command 0x(11|31|43|44)",
        "the chip is locked against reading or writing",
        "unlock it, which erases everything on it: with the tool's own mass erase or recover "
        "command; this is never done by itself",
    ),
    Sign(
        r"MIS-MATCHED|verif\w* (failed|error|mismatch)|failed to verify|"
        r"checksum mismatch|contents differ|flash (content|verification) .*(differ|failed)|"
        r"did(n't| not) match the|\bdiffer: (char|byte)",
        "what was read back is not what was written",
        "try again; when it happens often, shorten the cable, lower the speed of the probe, "
        "or the flash is worn out",
        again=True,
    ),
    Sign(
        r"no (connected )?(debug )?(probes?|programmers?|emulators?)\b|"
        r"couldn'?t find any ST-?Link|"
        r"unable to find a matching CMSIS-DAP|No J-Link device found|"
        r"No DFU capable USB device|no (accessible )?RP\S* devices? (in BOOTSEL mode )?"
        r"(was|were) found|no probes? (was|were) found|No target device available|"
        r"Cannot connect to J-Link|connecting to J-Link via USB\.\.\. *FAILED|"
        r"unable to open ftdi|no device found|Error: open failed",
        "no probe is connected, or not the one that was asked for",
        _PLUG,
    ),
    Sign(
        r"Cannot handle device|could not open port|Could not open /|"
        r"No such file or directory: '/dev|port .*does(n't| not) exist",
        "the serial port cannot be opened",
        "is the adapter plugged in? `ls /dev/serial/by-id` shows what there is",
        again=True,
    ),
    Sign(
        r"Failed to init device|failed to connect to ESP|No serial data received|"
        r"wrong boot mode|Failed to synchronize",
        "the board's bootloader does not answer on the serial port",
        "start the bootloader: hold BOOT while the board is reset, or have the board file say how "
        "the lines DTR and RTS do it; is it the right port?",
        again=True,
    ),
    Sign(
        r"(unexpected|wrong|unknown|mismatch\w*) (chip|device|idcode|target|part|core)\b|"
        r"idcode.*(mismatch|unexpected)|target type .* not (found|recognized)|"
        r"UNEXPECTED idcode|expected \d+ of \d+|This chip is .* not|chip .* not (found|supported)|"
        r"Unknown device|not a valid device|is not supported by|unknown chip",
        "the chip is not the one that the board file names",
        "is it the right board? `[flash.options.TOOL]` of its board file says which chip to expect",
    ),
    Sign(
        r"target voltage|VTref|no power|could not power|target not (halted|examined|responding)|"
        r"init mode failed|unable to connect to the target|Cannot connect to target|"
        r"No ACK|SWD (fault|DP)|could not (stop|halt)|"
        r"(Unexpected|unable to get) (core|idcode|debug)|No target detected|"
        r"Failed to (enter|read) .*(SWD|core id)|core.?id",
        "the probe does not reach the chip",
        "does the board have power, and is its debug connector plugged in? Firmware that sleeps or "
        "uses the debug pins needs connecting under reset",
        again=True,
    ),
    Sign(
        r"Connection refused|Connection timed out|could not connect:|Remote connection closed|"
        r"Remote communication error|Ignoring packet error|Reply contains invalid|"
        r"Remote failure reply|not being run|Truncated register",
        "the gdbserver is not there, or has ended",
        "is it running, at the address the board file says? What it printed tells more",
        again=True,
    ),
    Sign(
        r"No space left|not enough space|out of (range|space)|too (large|big)|does not fit|"
        r"outside (of )?(the )?(flash|memory)|no flash bank|region .* overflow",
        "the image does not fit into the chip, or not at its address",
        "is the image of this board? Its addresses must be in the chip's flash",
    ),
    Sign(
        r"Read-only file system|Input/output error|Transport endpoint|No such device|"
        r"Stale file handle|not a directory|cannot create regular file",
        "the board's drive vanished, or takes nothing",
        "unplug it, plug it in again, and see that it is mounted",
        again=True,
    ),
)


def sign_of(output: str) -> Sign | None:
    """What a tool's output means; None if nothing in it is known."""
    return next((sign for sign in SIGNS if sign.line(output)), None)
