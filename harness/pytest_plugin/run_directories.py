"""Run directories of tests: kept for failed tests, removed for the others."""

from __future__ import annotations

import hashlib
import re
import shutil
from collections.abc import Iterable
from pathlib import Path
from typing import Final

import pytest

from harness.printing import printable, without_commands
from harness.pytest_plugin.options import settings_of

_REPORTED: Final = "etharness_runs"
"""Attribute of a test report: the run directories that its test used; xdist workers send it."""

_LONGEST_NAME: Final = 120

_LAST_LINES: Final = 20
"""Console lines of the board shown for a failed test."""


class Used:
    """Runs that a test used.

    Attributes:
        directories: Their run directories.
        verdicts: Texts of failed verdicts.
        console: Text that the board printed during a session.
    """

    def __init__(self) -> None:
        """Start with no runs."""
        self.directories: list[Path] = []
        self.verdicts: list[str] = []
        self.console = bytearray()

    def tell(self, report: pytest.TestReport) -> None:
        """Record the runs in a test report."""
        setattr(report, _REPORTED, [str(directory) for directory in self.directories])

    def describe(self, item: pytest.Item, error: BaseException | None) -> str:
        """Return the failed verdicts that the error does not show, and where the runs are.

        Run directories are copied if there is a folder for artifacts.
        """
        existing = [directory for directory in self.directories if directory.is_dir()]
        lines = [text for text in self.verdicts if text != str(error)]
        shown = "\n".join([str(error), *lines]).splitlines()
        lines += [line for path in existing if (line := f"kept in: {path}") not in shown]
        lines += _printed(self.console)
        artifacts = settings_of(item.config).artifacts
        if artifacts is not None and existing:
            lines.append(f"copied to: {copy_to(artifacts, item.nodeid, existing)}")
        return without_commands("\n".join(lines))


_USED = pytest.StashKey[Used]()


def console_of(item: pytest.Item) -> bytearray:
    """Return the buffer for the text that a board prints during a test."""
    return item.stash.setdefault(_USED, Used()).console


def use(item: pytest.Item, directory: Path) -> None:
    """Record that a test uses a run."""
    used = item.stash.setdefault(_USED, Used())
    if directory not in used.directories:
        used.directories.append(directory)


def fail(item: pytest.Item, verdict: str) -> None:
    """Record that a test uses a failed verdict."""
    used = item.stash.setdefault(_USED, Used())
    if verdict not in used.verdicts:
        used.verdicts.append(verdict)


def used_by(item: pytest.Item) -> Used | None:
    """Return the runs that a test used; None for a test without runs."""
    return item.stash.get(_USED, None)


def copy_to(artifacts: Path, nodeid: str, directories: Iterable[Path]) -> Path:
    """Copy run directories to a folder named after the test, and return it."""
    name = re.sub(r"[^\w.\[\]=-]+", "-", nodeid).strip("-")
    if len(name) > _LONGEST_NAME:
        name = f"{name[:_LONGEST_NAME]}-{hashlib.sha256(nodeid.encode()).hexdigest()[:8]}"
    folder = artifacts / name
    for directory in directories:
        copy = folder / directory.name
        shutil.rmtree(copy, ignore_errors=True)
        shutil.copytree(directory, copy)
    return folder


def _printed(console: bytearray) -> list[str]:
    """Return the last lines that a board printed."""
    lines = console.decode(errors="surrogateescape").splitlines()[-_LAST_LINES:]
    return [f"the board printed: {printable(line)}" for line in lines]


class Ledger:
    """A plugin that removes, at the end, the run directories that no failed test used."""

    def __init__(self) -> None:
        """Start without any test."""
        self._used: set[str] = set()
        self._failed: set[str] = set()

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        """Record the runs that a test used."""
        directories = getattr(report, _REPORTED, ())
        self._used.update(directories)
        if report.failed:
            self._failed.update(directories)

    @pytest.hookimpl(trylast=True)
    def pytest_sessionfinish(self) -> None:
        """Remove the run directories that no failed test used."""
        for name in self._used - self._failed:
            shutil.rmtree(name, ignore_errors=True)
            Path(f"{name}.lock").unlink(missing_ok=True)
