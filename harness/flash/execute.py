"""Runs the commands of flashing tools, with a timeout and a log, and explains their failures."""

from __future__ import annotations

import os
import re
import shutil
import time
import weakref
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Final

from harness.capped import CappedBuffer, CappedFile
from harness.errors import FlashError, InfrastructureError, UsageError
from harness.flash.output_patterns import Sign, find_sign
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
        # Closes the file even if a flashing ends early without close().
        self.close = weakref.finalize(self, self._file.close)

    def write(self, data: bytes) -> None:
        """Append output of a command."""
        self._file.write(data)

    def note(self, text: str) -> None:
        """Append a line of ours.

        Raises:
            OSError: This or an earlier write failed.
        """
        self.write(f"# {text}\n".encode(errors="backslashreplace"))
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
        began = time.monotonic()
        try:
            ended = _run(step, log, deadline - began, directory)
        finally:
            took[step.stage] = round(took.get(step.stage, 0.0) + time.monotonic() - began, 3)
        if ended.code is None:
            raise FlashError(
                f'{name} timed out after {timeout_s:g} s in the stage "{step.stage}"; its output: '
                f"{_last_lines(_text(ended))}{ended.remains}",
                hint=f"see {log.path}; power-cycle the board, or raise `timeout_s` in [flash] of "
                "the board file",
            )
        _check_success(name, step, ended.code, _text(ended), log)


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
    found = _VERSION.search(done.output)
    return found[1] if found else ""


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
