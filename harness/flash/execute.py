"""Runs the commands of flashing tools: a deadline, a log that stays, and what a failure means."""

from __future__ import annotations

import os
import re
import time
import weakref
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Final

from harness.capped import CappedBuffer, CappedFile
from harness.errors import FlashError, InfrastructureError
from harness.flash.output_patterns import Sign, sign_of
from harness.flash.tool import FlashStep, Tool
from harness.target.process_group import (
    ProcessGroup,
    ProgramEnd,
    bound_to_us,
    ended_with,
    run_program,
)

_READ: Final = 200_000
"""Bytes of output that are looked at; what matters comes last."""

_LAST_LINES: Final = 6
_VERSION_S: Final = 20.0
_VERSION: Final = re.compile(r"\bv?(\d+(?:\.\d+)+[\w.+-]*)")
_TOOLS_LANGUAGE: Final = {"LC_ALL": "C.UTF-8", "NO_COLOR": "1", "TERM": "dumb", "COLUMNS": "200"}
"""So that what tools say can be recognised."""


class Log:
    """The log of a flashing: every command and what it printed, of that the head and the tail.

    Attributes:
        path: The file, which is begun anew.
    """

    def __init__(self, path: Path) -> None:
        """Begin it.

        Raises:
            OSError: It cannot be written.
        """
        self.path = path
        path.parent.mkdir(parents=True, exist_ok=True)
        self._file = CappedFile(path)
        # Also when a flashing ends early, and nobody closes it.
        self.close = weakref.finalize(self, self._file.close)

    def write(self, data: bytes) -> None:
        """Add what a command printed."""
        self._file.write(data)

    def note(self, text: str) -> None:
        """Add a line of ours.

        Raises:
            OSError: Something could not be written, now or before.
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
        name: The tool's.
        steps: The commands.
        log: Where what they print is added.
        timeout_s: How long they may take together, seconds.
        directory: Where they run: some tools read settings from where they are.
        took: Seconds by stage, to which theirs are added.

    Raises:
        FlashError: One failed, also one that said so only by what it printed, or took too long.
        InfrastructureError: A file that it needs cannot be written.
    """
    deadline = time.monotonic() + timeout_s
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
                f"{name} had not ended after {timeout_s:g} s, while it was to {step.stage}: "
                f"{_words(_text(ended))}{ended.remains}",
                hint=f"its log is {log.path}; is the board stuck? A power cycle may help, or "
                "`timeout_s` in [flash] of the board file",
            )
        _judge(name, step, ended.code, _text(ended), log)


def version_of(tool: Tool[Any], program: str) -> str:
    """What a tool says its version is; "" if it does not."""
    if tool.version is None:
        return ""
    try:
        done = run_program([program, *tool.version], _VERSION_S, env=os.environ | _TOOLS_LANGUAGE)
    except OSError as error:
        return f"does not run: {error}"
    if done.code is None:
        return f"does not run: had not ended after {_VERSION_S:g} s"
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
            bound_to_us(step.argv), stdout=keep, cwd=directory, env=os.environ | _TOOLS_LANGUAGE
        )
    except OSError as error:
        raise FlashError(
            f"cannot start {step.argv[0]}: {error.strerror}",
            hint="install it again",
            again=False,
        ) from error
    try:
        in_time = group.wait(timeout_s)
    finally:
        # Also what a tool that has ended has started: a server that stays would keep the probe.
        code = group.end()
    if group.complaint:
        log.note(group.complaint)
    log.note(f"exit status {code}")
    return ProgramEnd(code if in_time else None, output.kept, b"", group.complaint)


def _text(ended: ProgramEnd) -> str:
    return ended.stdout.decode("utf-8", errors="replace").replace("\r", "\n")


def _judge(name: str, step: FlashStep, code: int, output: str, log: Log) -> None:
    denied = bool(step.denial and re.search(step.denial, output))
    proved = not step.proof or re.search(step.proof, output) is not None
    if code == 0 and proved and not denied:
        return
    sign = sign_of(output)
    if code:
        how = ended_with(code)
    else:
        how = "exited with status 0, but " + ("said that it failed" if denied else "did not finish")
    what = f"{sign.what} ({how})" if sign else how
    raise FlashError(
        f"{name} could not {step.stage}: {what}; it said: {_words(output, sign)}",
        hint=f"{sign.hint}; the log is {log.path}" if sign else f"its log is {log.path}",
        again=sign is None or sign.again,
    )


def _write(path: Path, content: bytes) -> None:
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content)
    except OSError as error:
        raise InfrastructureError(f"cannot write {path}: {error.strerror}") from error


def _words(output: str, sign: Sign | None = None) -> str:
    """The last that was said, and the line that tells most, where that stands before."""
    # Colours and what moves the cursor are no words.
    plain = ("".join(filter(str.isprintable, line)).strip() for line in output.splitlines())
    lines = [line for line in plain if line]
    last = lines[-_LAST_LINES:]
    if sign and (telling := sign.line("\n".join(lines))) and telling not in last:
        last = [telling, "...", *last]
    return " | ".join(last) or "nothing"
