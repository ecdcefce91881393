"""Checks which flashing tools of boards are installed on this machine."""

from __future__ import annotations

from collections.abc import Iterable

from harness.config.board import Board
from harness.flash.execute import version_of
from harness.flash.tools import find_tool
from harness.target.doctor import ProgramFinding


def examine(boards: Iterable[Board]) -> list[ProgramFinding]:
    """Look for all tools that can flash ``boards``; a board needs only one of its tools."""
    findings: dict[str, ProgramFinding] = {}
    for board in boards:
        for name in board.flash.order if board.flash else ():
            if name not in findings:
                tool = find_tool(name, f"board {board.name}")
                missing = tool.missing()
                path = tool.programs[0].find() if tool.programs else None
                version = None if missing else (path and version_of(tool, path)) or "installed"
                findings[name] = ProgramFinding(name, version, missing or "")
            findings[name].needed_by.append(board.name)
    return list(findings.values())
