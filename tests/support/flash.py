"""Boards and programs for tests of flashing."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import msgspec
import pytest

import harness
from harness import Image, ImageFormat, Job, Segment, build_firmware, start_target
from harness.flash.execute import Log, run_steps
from harness.flash.plan import find_tool
from harness.target.start import ProcessTarget

ROOT = Path(__file__).parents[2]
TOOLS_OF_PIP = ROOT / ".venv-flash/bin"
"""Where ``tools/setup test`` puts flashing tools that come by pip."""

IMAGE = Image(
    Path("firmware.elf"), ImageFormat.ELF, (Segment(0x0800_0000, bytes(range(256)) * 40),), ""
)


def installed(program: str) -> str:
    """Path of a flashing tool that ``tools/setup test`` installs."""
    from harness.flash.tool import ToolProgram

    if (TOOLS_OF_PIP / program).exists():
        return str(TOOLS_OF_PIP / program)
    found = ToolProgram(program, "").find()
    if found is None:
        pytest.skip(f"{program} is not installed: tools/setup test")
    return found


def job_of(
    tool: str, directory: Path, *, image: Image = IMAGE, program: str = "", **told: Any
) -> Job[Any]:
    """A job; what is told is port, probe, verify, or an option of the tool."""
    own = {key: told.pop(key) for key in ("port", "probe", "verify") if key in told}
    return Job(
        board="b",
        image=image,
        work=directory / "work",
        options=msgspec.convert(told, find_tool(tool, "here").options_type),
        program=program or tool,
        **own,
    )


def run_job(tool: str, job: Job[Any], timeout_s: float = 30.0) -> str:
    """Do it, and return the log."""
    directory = job.work.parent
    log = Log(directory / "flash.log")
    chosen = find_tool(tool, "here")
    run_steps(tool, chosen.commands(job), log, timeout_s, directory, {})
    chosen.settle(job, timeout_s)
    return log.path.read_text()


def stand_in(directory: Path, name: str, script: str) -> str:
    """A program of this name that behaves as the script says; its path."""
    path = directory / name
    path.write_text(f"#!/bin/sh\n{script}\n")
    path.chmod(0o755)
    return str(path)


def serial_native(directory: Path, flash: str) -> Path:
    """A file for the native firmware as a board on a port, flashed as ``flash`` says."""
    text = (ROOT / "boards/native.toml").read_text()
    lines = [
        line for line in text.splitlines() if not line.startswith(("budget", "target", "deadlines"))
    ]
    path = directory / "native.toml"
    target = 'target = { kind = "serial" }\ndeadlines = { boot_s = 3, reopen_s = 1 }'
    path.write_text("\n".join([*lines, target, "[flash]", flash]))
    return path


@contextmanager
def running_native() -> Iterator[str]:
    """The native firmware, running by itself; yields its port."""
    board = harness.Board.load("native")
    with start_target(board, build_firmware(board)) as target:
        assert isinstance(target, ProcessTarget)
        target.transport.close()
        yield target.description.rpartition(" on ")[2]


def record_of(directory: Path) -> dict[str, Any]:
    document: dict[str, Any] = json.loads((directory / "flash.json").read_text())
    return document


def no_usb(monkeypatch: pytest.MonkeyPatch, directory: Path) -> None:
    """Have no USB device connected, whatever this machine has."""
    (directory / "no-usb").mkdir(exist_ok=True)
    monkeypatch.setenv("ETHARNESS_SYSROOT", os.fspath(directory / "no-usb"))
