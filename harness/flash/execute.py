"""Runs the commands of flashing tools, with a timeout and a log, and explains their failures."""

from __future__ import annotations

import os
import re
import shutil
import time
import weakref
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final, NamedTuple

from harness.errors import FlashError, InfrastructureError, UsageError
from harness.files import CappedBuffer, CappedFile
from harness.flash.tool import FlashStep, Tool
from harness.target.process_group import (
    ProcessGroup,
    ProgramEnd,
    exit_text,
    run_program,
    with_death_signal,
)

_READ: Final = 200_000
"""Bytes of output to search for patterns, from the end."""

_LAST_LINES: Final = 6
_VERSION_S: Final = 20.0
_VERSION: Final = re.compile(r"\bv?(\d+(?:\.\d+)+[\w.+-]*)")
_TOOLS_LANGUAGE: Final = {"LC_ALL": "C.UTF-8", "NO_COLOR": "1", "TERM": "dumb", "COLUMNS": "200"}
"""Environment for predictable output: English, no colors."""


class Log:
    """The log of a flashing: every command and its output, limited to head and tail.

    Attributes:
        path: The log file.
    """

    def __init__(self, path: Path) -> None:
        """Create or truncate the file.

        Raises:
            OSError: The file cannot be written.
        """
        self.path = path
        path.parent.mkdir(parents=True, exist_ok=True)
        self._file = CappedFile(path)
        self._within_line = False
        # Closes the file even if a flashing ends early without close().
        self.close = weakref.finalize(self, self._file.close)

    def write(self, data: bytes) -> None:
        """Append output of a command."""
        self._file.write(data)
        if data:
            self._within_line = not data.endswith(b"\n")

    def note(self, text: str) -> None:
        """Append a line of ours.

        Raises:
            OSError: This or an earlier write failed.
        """
        begin = "\n" if self._within_line else ""  # a program may be ended within a line
        self.write(f"{begin}# {text}\n".encode(errors="backslashreplace"))
        if self._file.error is not None:
            raise self._file.error


def run_steps(
    name: str,
    steps: Sequence[FlashStep],
    log: Log,
    timeout_s: float,
    directory: Path,
    took: dict[str, float],
) -> None:
    """Run the commands of a tool, one after the other.

    Args:
        name: Name of the tool.
        steps: The commands.
        log: Log for their output.
        timeout_s: Timeout for all commands together, seconds.
        directory: Working directory; some tools read settings from it.
        took: Seconds by stage; the durations of these commands are added.

    Raises:
        UsageError: A program, or a file that it needs, does not exist.
        FlashError: A command failed, by its exit status or by its output, or timed out.
        InfrastructureError: An input file of a command cannot be written.
    """
    deadline = time.monotonic() + timeout_s
    for program in dict.fromkeys(step.argv[0] for step in steps):
        # A board that was written and cannot be verified is worse than one that was not touched.
        if shutil.which(directory / program if "/" in program else program) is None:
            raise UsageError(
                f"{name} cannot flash: {program} not found; nothing was written",
                hint="install it, or correct its path in the board file",
            )
    for step in steps:
        for path, content in step.files.items():
            _write(path, content)
        with timed(step.stage, took):
            ended = _run(step, log, deadline - time.monotonic(), directory)
        if ended.code is None:
            raise FlashError(
                f'{name} timed out after {timeout_s:g} s in the stage "{step.stage}"; its output: '
                f"{_last_lines(_text(ended))}{ended.remains}",
                hint=f"see {log.path}; power-cycle the board, or raise `timeout_s` in [flash] of "
                "the board file",
            )
        _check_success(name, step, ended.code, _text(ended), log)


@contextmanager
def timed(stage: str, took: dict[str, float]) -> Iterator[None]:
    """Add the time that this takes to that of its stage, seconds."""
    began = time.monotonic()
    try:
        yield
    finally:
        took[stage] = round(took.get(stage, 0.0) + time.monotonic() - began, 3)


def version_of(tool: Tool[Any], program: str) -> str:
    """Return the version that a tool reports; "" if it reports none."""
    if tool.version is None:
        return ""
    try:
        done = run_program([program, *tool.version], _VERSION_S, env=os.environ | _TOOLS_LANGUAGE)
    except OSError as error:
        return f"does not run: {error}"
    if done.code is None:
        return f"does not run: timed out after {_VERSION_S:g} s"
    match = _VERSION.search(done.output)
    return match[1] if match else ""


def _run(step: FlashStep, log: Log, timeout_s: float, directory: Path) -> ProgramEnd:
    log.note(" ".join(step.argv))
    output = CappedBuffer(0, _READ)

    def keep(data: bytes) -> None:
        output.extend(data)
        log.write(data)

    try:
        group = ProcessGroup(
            with_death_signal(step.argv),
            stdout=keep,
            cwd=directory,
            env=os.environ | _TOOLS_LANGUAGE,
        )
    except OSError as error:
        raise FlashError(
            f"cannot start {step.argv[0]}: {error.strerror}",
            hint="install it again",
            retryable=False,
        ) from error
    try:
        in_time = group.wait(timeout_s)
    finally:
        # Also ends children of a tool that has exited: a leftover server would keep the probe busy.
        code = group.end()
    if group.leftover:
        log.note(group.leftover)
    log.note(f"exit status {code}")
    return ProgramEnd(code if in_time else None, output.kept, b"", group.leftover)


def _text(ended: ProgramEnd) -> str:
    return ended.stdout.decode("utf-8", errors="replace").replace("\r", "\n")


def _check_success(name: str, step: FlashStep, code: int, output: str, log: Log) -> None:
    denied = bool(step.denial and re.search(step.denial, output))
    proved = not step.proof or re.search(step.proof, output) is not None
    if code == 0 and proved and not denied:
        return
    sign = find_sign(output)
    if code:
        how = exit_text(code)
    else:
        how = "exited with status 0, but " + (
            "reported a failure" if denied else "its output has no sign of success"
        )
    cause = f"{sign.what} ({how})" if sign else how
    message = (
        f'{name} failed in the stage "{step.stage}": {cause}; its output: '
        f"{_last_lines(output, sign)}"
    )
    hint = f"{sign.hint}; the log is {log.path}" if sign else f"see {log.path}"
    if sign is not None and sign.usage:
        raise UsageError(message, hint=hint)
    raise FlashError(message, hint=hint, retryable=sign is None or sign.retryable)


def _write(path: Path, content: bytes) -> None:
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content)
    except OSError as error:
        raise InfrastructureError(f"cannot write {path}: {error.strerror}") from error


def _last_lines(output: str, sign: Sign | None = None) -> str:
    """Return the last lines of an output, preceded by the line that matches ``sign``."""
    # Without colors and other control sequences.
    plain = ("".join(filter(str.isprintable, line)).strip() for line in output.splitlines())
    lines = [line for line in plain if line]
    last = lines[-_LAST_LINES:]
    if sign and (matching := sign.line("\n".join(lines))) and matching not in last:
        last = [matching, "...", *last]
    return " | ".join(last) or "(empty)"


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
"""Patterns of all tools, as most apply to several. The first match counts: causes come before their
consequences."""


def find_sign(output: str) -> Sign | None:
    """Return the first pattern that matches a tool's output, or None."""
    return next((sign for sign in SIGNS if sign.line(output)), None)
