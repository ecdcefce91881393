"""Checks which programs that boards need are installed on this machine."""

from __future__ import annotations

import shutil
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from typing import cast

from harness.config.board import Board, QemuTarget, SerialTarget
from harness.plugins import TARGETS, extension_remedy, load_plugin
from harness.target.build import TargetExtension, compiler_for, find_cmake
from harness.target.process_group import run_program
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

    Unlike ``find_programs``, this asks no program for its version. Boards on serial ports
    need none.
    """
    if isinstance(board.target, SerialTarget):
        return []
    libraries = [(item.tool, item.version, item.remedy) for item in _libraries(board)]
    needs = [*_needs(board), *libraries]
    return [f"{tool} ({remedy})" for tool, path, remedy in needs if path is None]


def _needs(board: Board) -> list[tuple[str, str | None, str]]:
    """Return name, path (None: not installed) and remedy of the programs that ``board`` needs."""
    needs: list[tuple[str, str | None, str]] = []
    if board.build is not None:
        compiler, package = compiler_for(board.build.preset)
        needs = [
            ("cmake", find_cmake(), "pip install 'etdump-harness[build]'"),
            (compiler, shutil.which(compiler), f"apt-get install {package}"),
        ]
    if isinstance(board.target, QemuTarget):
        system = board.target.system
        needs.append((system, shutil.which(system), f"apt-get install {package_of(system)}"))
    for _, extension in _extensions(board):
        needs += extension.needed_programs(board) if extension else []
    return needs


def _libraries(board: Board) -> Iterator[ProgramFinding]:
    """Look for what is no program: the ExecuTorch that a board links, the RTL of its core."""
    for name, extension in _extensions(board):
        absent = f"extension {name}", None, extension_remedy(name)
        yield ProgramFinding(*(extension.needed_package(board) if extension else absent))


def _extensions(board: Board) -> Iterator[tuple[str, TargetExtension | None]]:
    """Yield name and plugin (None: deleted) of the extensions that a board needs."""
    if board.runner:
        yield board.runner, cast("TargetExtension | None", load_plugin(TARGETS, board.runner))
    if board.simulator:
        yield "simulators", cast("TargetExtension | None", load_plugin(TARGETS, board.simulator))
    if board.links_executorch:
        yield "executorch", cast("TargetExtension | None", load_plugin(TARGETS, "executorch"))


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
