"""What ``etharness doctor`` prints."""

from __future__ import annotations

from harness.cli.command import OutputOptions
from harness.printing import counted
from harness.report.terminal import show_line, show_table
from harness.target.doctor import ProgramFinding

FINDINGS = list[ProgramFinding]
"""The document of ``doctor --json``."""

_MOST_BOARDS = 3
"""Boards of a tool that are named by default (-v names all)."""


def show_programs(findings: list[ProgramFinding], output: OutputOptions, title: str = "") -> None:
    """Print a table of tools, and below it how to install those that are missing."""
    missing = "missing" if title else "MISSING"
    rows = [
        (
            "ok" if finding.version else missing,
            finding.tool,
            finding.version or "",
            _names_of_boards(finding.needed_by, every=output.verbosity > 0),
        )
        for finding in findings
    ]
    headers = ("", "tool", "version", "for" if title else "needed by")
    console = output.console()
    show_table(console, headers, rows, title=title)
    for finding in findings:
        if not finding.version:
            show_line(console, f"{missing}: {finding.tool}: {finding.remedy}")
    show_line(console)


def _names_of_boards(names: list[str], *, every: bool) -> str:
    """Return the names of a few boards, or how many there are."""
    if every or len(names) <= _MOST_BOARDS:
        return ", ".join(names)
    return counted(len(names), "board")
