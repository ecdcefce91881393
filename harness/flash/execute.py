"""Runs the commands of flashing tools: a deadline, a log that stays, and what a failure means."""

from __future__ import annotations

import contextlib
import os
import re
import signal
import subprocess
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any, Final

from harness.errors import FlashError, InfrastructureError
from harness.flash.signs import Sign, sign_of
from harness.flash.tool import Step, Tool
from harness.target.process import bound_to_us

_READ: Final = 200_000
"""Bytes of output that are looked at; what matters comes last."""

_LAST_LINES: Final = 6
_VERSION_S: Final = 20.0
_VERSION: Final = re.compile(r"\bv?(\d+(?:\.\d+)+[\w.+-]*)")
_TOOLS_LANGUAGE: Final = {"LC_ALL": "C.UTF-8", "NO_COLOR": "1", "TERM": "dumb", "COLUMNS": "200"}
"""So that what tools say can be recognised."""


@dataclass(slots=True)
class Log:
    """The log of a flashing: every command and all it printed.

    Attributes:
        path: The file, which is begun anew.
    """

    path: Path

    def __post_init__(self) -> None:
        self.path.parent.mkdir(parents=True, exist_ok=True)
        self.path.write_bytes(b"")

    def note(self, text: str) -> None:
        """Add a line of ours."""
        with self.path.open("ab") as file:
            file.write(f"# {text}\n".encode(errors="backslashreplace"))


def run_steps(
    name: str,
    steps: Sequence[Step],
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
            code, output = _run(step, log, deadline - began, directory)
        except subprocess.TimeoutExpired:
            raise FlashError(
                f"{name} had not ended after {timeout_s:g} s, while it was to {step.stage}: "
                f"{_words(_read_from(log.path, 0))}",
                hint=f"its log is {log.path}; is the board stuck? A power cycle may help, or "
                "`timeout_s` in [flash] of the board file",
            ) from None
        finally:
            took[step.stage] = round(took.get(step.stage, 0.0) + time.monotonic() - began, 3)
        _judge(name, step, code, output, log)


def version_of(tool: Tool[Any], program: str) -> str:
    """What a tool says its version is; "" if it does not."""
    if tool.version is None:
        return ""
    try:
        done = subprocess.run(
            [program, *tool.version],
            capture_output=True,
            stdin=subprocess.DEVNULL,
            timeout=_VERSION_S,
            check=False,
            env=os.environ | _TOOLS_LANGUAGE,
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        return f"does not run: {error}"
    text = (done.stdout + done.stderr).decode(errors="replace")
    found = _VERSION.search(text)
    return found[1] if found else ""


def _run(step: Step, log: Log, timeout_s: float, directory: Path) -> tuple[int, str]:
    log.note(" ".join(step.argv))
    begin = log.path.stat().st_size
    with log.path.open("ab") as file:
        try:
            process = _start(step.argv, file, directory)
        except OSError as error:
            raise FlashError(
                f"cannot start {step.argv[0]}: {error.strerror}",
                hint="install it again",
                again=False,
            ) from error
        try:
            code = process.wait(max(0.0, timeout_s))
        finally:
            _end_group(process)
    log.note(f"exit status {code}")
    return code, _read_from(log.path, begin)


def _start(argv: Sequence[str], output: IO[bytes], directory: Path) -> subprocess.Popen[bytes]:
    return subprocess.Popen(
        bound_to_us(argv),
        stdin=subprocess.DEVNULL,
        stdout=output,
        stderr=subprocess.STDOUT,
        cwd=directory,
        env=os.environ | _TOOLS_LANGUAGE,
        start_new_session=True,
    )


def _end_group(process: subprocess.Popen[bytes]) -> None:
    """End what is left of it, with what it started: a server that stays would keep the probe."""
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.killpg(process.pid, signal.SIGKILL)
    process.wait()


def _judge(name: str, step: Step, code: int, output: str, log: Log) -> None:
    denied = bool(step.denial and re.search(step.denial, output))
    proved = not step.proof or re.search(step.proof, output) is not None
    if code == 0 and proved and not denied:
        return
    sign = sign_of(output)
    if code < 0:
        how = f"was killed by {signal.Signals(-code).name}"
    elif code:
        how = f"exited with status {code}"
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


def _read_from(path: Path, begin: int) -> str:
    with path.open("rb") as file:
        file.seek(max(begin, path.stat().st_size - _READ))
        text = file.read().decode("utf-8", errors="replace")
    return "\n".join(line for line in text.replace("\r", "\n").split("\n") if line[:1] != "#")


def _words(output: str, sign: Sign | None = None) -> str:
    """The last that was said, and the line that tells most, where that stands before."""
    # Colours and what moves the cursor are no words.
    plain = ("".join(filter(str.isprintable, line)).strip() for line in output.splitlines())
    lines = [line for line in plain if line]
    last = lines[-_LAST_LINES:]
    if sign and (telling := sign.line("\n".join(lines))) and telling not in last:
        last = [telling, "...", *last]
    return " | ".join(last) or "nothing"
