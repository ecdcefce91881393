"""Finds the programs that boards need on this machine."""

from __future__ import annotations

import shutil
from collections.abc import Iterable
from dataclasses import dataclass, field
from importlib.metadata import version

from harness.config.board import Board, QemuTarget, SerialTarget
from harness.target.build import (
    EXECUTORCH_REMEDY,
    compiler_for,
    cxx_compiler,
    find_cmake,
    find_executorch,
)
from harness.target.process_group import run_program
from harness.target.qemu import package_of

_DEADLINE_S = 10.0


@dataclass(slots=True)
class ProgramFinding:
    """A program that boards need: its version, or None and what to do about it."""

    tool: str
    version: str | None
    remedy: str
    needed_by: list[str] = field(default_factory=list)


def examine(boards: Iterable[Board]) -> list[ProgramFinding]:
    """Look for everything that building and starting ``boards`` needs."""
    findings: dict[str, ProgramFinding] = {}
    for board in boards:
        for tool, path, remedy in _needs(board):
            if tool not in findings:
                findings[tool] = ProgramFinding(tool, _version(path), remedy)
            findings[tool].needed_by.append(board.name)
        if board.build is not None and board.build.executorch:
            installed = version("executorch") if find_executorch() else None
            wheel = ProgramFinding("executorch", installed, EXECUTORCH_REMEDY)
            findings.setdefault(wheel.tool, wheel).needed_by.append(board.name)
    return list(findings.values())


def lacking(board: Board) -> list[str]:
    """Say what this machine lacks to build and start ``board``, each with its remedy.

    No program is started for it, unlike for ``examine``. A board on a port is built nowhere here.
    """
    if isinstance(board.target, SerialTarget):
        return []
    needs = [*_needs(board)]
    if board.build is not None and board.build.executorch:
        found = find_executorch()
        needs.append(("executorch", str(found) if found else None, EXECUTORCH_REMEDY))
    return [f"{tool} ({remedy})" for tool, path, remedy in needs if path is None]


def _needs(board: Board) -> list[tuple[str, str | None, str]]:
    """Programs that ``board`` needs: the name of each, its path if it is here, and its remedy."""
    if board.build is None:
        return []
    compiler, package = compiler_for(board.build.preset)
    needs = [
        ("cmake", find_cmake(), "pip install 'etdump-harness[build]'"),
        (compiler, shutil.which(compiler), f"apt-get install {package}"),
    ]
    if isinstance(board.target, QemuTarget):
        system = board.target.system
        needs.append((system, shutil.which(system), f"apt-get install {package_of(system)}"))
    if board.build.executorch:
        cxx = cxx_compiler()
        needs.append((cxx, shutil.which(cxx), "apt-get install g++"))
    return needs


def _version(path: str | None) -> str | None:
    """First line that the program prints about its version; None when it is not there."""
    if path is None:
        return None
    try:
        done = run_program([path, "--version"], _DEADLINE_S)
    except OSError as error:
        return f"does not run: {error}"
    if done.code is None:
        return f"does not run: had not ended after {_DEADLINE_S:g} s"
    said = (done.stdout or done.stderr).decode(errors="replace")
    return next(iter(said.strip().splitlines()), "unknown")
