"""Checks which programs that boards need are installed on this machine."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from importlib.metadata import version

from harness.config.board import Board, QemuTarget, RtlTarget, SerialTarget
from harness.target.build import compiler_for, find_cmake
from harness.target.executorch import (
    CROSS_COMPILER,
    CROSS_COMPILER_PACKAGE,
    INSTALLATION_REMEDY,
    PACKAGE_REMEDY,
    ROOT_VARIABLE,
    cxx_compiler,
    find_executorch,
    has_cross_library,
)
from harness.target.process_group import run_program
from harness.target.simulator import PACKAGE_REMEDY as RTL_REMEDY
from harness.target.simulator import PACKAGES, simulator_needs
from harness.target.start import package_of

_DEADLINE_S = 10.0


@dataclass(slots=True)
class ProgramFinding:
    """A program that boards need: its version (None: not installed) and how to install it."""

    tool: str
    version: str | None
    remedy: str
    needed_by: list[str] = field(default_factory=list)


def find_programs(boards: Iterable[Board]) -> list[ProgramFinding]:
    """Look for all programs needed to build and start ``boards``."""
    findings: dict[str, ProgramFinding] = {}
    for board in boards:
        for tool, path, remedy in _needs(board):
            if tool not in findings:
                findings[tool] = ProgramFinding(tool, _version(path), remedy)
            findings[tool].needed_by.append(board.name)
        for library in _libraries(board):
            findings.setdefault(library.tool, library).needed_by.append(board.name)
    return list(findings.values())


def missing_tools(board: Board) -> list[str]:
    """Return the missing programs for building and starting ``board``, with their remedies.

    Unlike ``find_programs``, this starts no program. Boards on serial ports need none.
    """
    if isinstance(board.target, SerialTarget):
        return []
    libraries = [(item.tool, item.version, item.remedy) for item in _libraries(board)]
    needs = [*_needs(board), *libraries]
    return [f"{tool} ({remedy})" for tool, path, remedy in needs if path is None]


def _needs(board: Board) -> list[tuple[str, str | None, str]]:
    """Return name, path (None: not installed) and remedy of the programs that ``board`` needs."""
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
    if isinstance(board.target, RtlTarget):
        needs += simulator_needs()
    if board.links_installed_executorch:
        cxx = shutil.which(CROSS_COMPILER) if has_cross_library() else None
        needs.append((CROSS_COMPILER, cxx, f"apt-get install {CROSS_COMPILER_PACKAGE}"))
    elif board.build.executorch:
        cxx = shutil.which(cxx_compiler())
        needs.append((cxx_compiler(), cxx, "apt-get install g++"))
    return needs


def _libraries(board: Board) -> Iterator[ProgramFinding]:
    """Look for what is no program: the ExecuTorch that a board links, the RTL of its core."""
    if board.links_executorch:
        yield _executorch_for(board)
    if isinstance(board.target, RtlTarget):
        package = PACKAGES[board.target.core]
        installed = version(package.distribution) if package.find() else None
        yield ProgramFinding(package.distribution, installed, RTL_REMEDY)


def _executorch_for(board: Board) -> ProgramFinding:
    """Look for the ExecuTorch that a board links, not into it."""
    if board.links_installed_executorch:
        root = os.environ.get(ROOT_VARIABLE) or None
        tool = f"ExecuTorch for {board.cpu}"
        return ProgramFinding(tool, root and f"in {root}", INSTALLATION_REMEDY)
    installed = version("executorch") if find_executorch() else None
    return ProgramFinding("executorch", installed, PACKAGE_REMEDY)


def _version(path: str | None) -> str | None:
    """Return the first line of the program's version output; None if it is not installed."""
    if path is None:
        return None
    try:
        done = run_program([path, "--version"], _DEADLINE_S)
    except OSError as error:
        return f"does not run: {error}"
    if done.code is None:
        return f"does not run: timed out after {_DEADLINE_S:g} s"
    output = (done.stdout or done.stderr).decode(errors="replace")
    return next(iter(output.strip().splitlines()), "unknown")
