"""What runs leave: kept for tests that failed, dropped for the others."""

from __future__ import annotations

import hashlib
import re
import shutil
from collections.abc import Iterable
from pathlib import Path
from typing import Final

import pytest

from harness.pytest_plugin.options import settings_of

_REPORTED: Final = "etharness_runs"
"""The attribute of a report that says which runs its test used; workers send it along."""

_LONGEST_NAME: Final = 120

_LAST_LINES: Final = 20
"""Lines of a board's console that a failed test shows."""


class Used:
    """What a test has looked at.

    Attributes:
        directories: Of its runs.
        verdicts: Those that were failures, as text.
        console: What the board printed in a session with it.
    """

    def __init__(self) -> None:
        """It has looked at nothing."""
        self.directories: list[Path] = []
        self.verdicts: list[str] = []
        self.console = bytearray()

    def tell(self, report: pytest.TestReport) -> None:
        """Let a report say which runs they were."""
        setattr(report, _REPORTED, [str(directory) for directory in self.directories])

    def describe(self, item: pytest.Item, error: BaseException | None) -> str:
        """Say of a failed test what checks said, unless it has, and where its runs are.

        They are copied when the user wants that.
        """
        there = [directory for directory in self.directories if directory.is_dir()]
        lines = [text for text in self.verdicts if text != str(error)]
        said = "\n".join([str(error), *lines])
        lines += [line for path in there if (line := f"kept in: {path}") not in said]
        lines += _printed(self.console)
        artifacts = settings_of(item.config).artifacts
        if artifacts is not None and there:
            lines.append(f"copied to: {copy_to(artifacts, item.nodeid, there)}")
        return "\n".join(lines)


_USED = pytest.StashKey[Used]()


def console_of(item: pytest.Item) -> bytearray:
    """Where the text goes that a board prints in a test."""
    return item.stash.setdefault(_USED, Used()).console


def use(item: pytest.Item, directory: Path) -> None:
    """Note that a test looks at a run."""
    used = item.stash.setdefault(_USED, Used())
    if directory not in used.directories:
        used.directories.append(directory)


def fail(item: pytest.Item, verdict: str) -> None:
    """Note that a test looks at a verdict that is a failure."""
    used = item.stash.setdefault(_USED, Used())
    if verdict not in used.verdicts:
        used.verdicts.append(verdict)


def used_by(item: pytest.Item) -> Used | None:
    """What a test has looked at; None for one that is not about runs."""
    return item.stash.get(_USED, None)


def copy_to(artifacts: Path, nodeid: str, directories: Iterable[Path]) -> Path:
    """Copy what runs left to a directory with the name of the test, and return that."""
    name = re.sub(r"[^\w.\[\]=-]+", "-", nodeid).strip("-")
    if len(name) > _LONGEST_NAME:
        name = f"{name[:_LONGEST_NAME]}-{hashlib.sha256(nodeid.encode()).hexdigest()[:8]}"
    place = artifacts / name
    for directory in directories:
        copy = place / directory.name
        shutil.rmtree(copy, ignore_errors=True)
        shutil.copytree(directory, copy)
    return place


def _printed(console: bytearray) -> list[str]:
    """The last lines of what a board printed."""
    from harness.formatting import printable

    lines = console.decode(errors="surrogateescape").splitlines()[-_LAST_LINES:]
    return [f"the board printed: {printable(line)}" for line in lines]


class Ledger:
    """A plugin that drops at the end the runs that no failed test has looked at."""

    def __init__(self) -> None:
        """No test has looked at any."""
        self._used: set[str] = set()
        self._failed: set[str] = set()

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        """Note what a test has used."""
        directories = getattr(report, _REPORTED, ())
        self._used.update(directories)
        if report.failed:
            self._failed.update(directories)

    @pytest.hookimpl(trylast=True)
    def pytest_sessionfinish(self) -> None:
        """Remove what no failed test has looked at."""
        for name in self._used - self._failed:
            shutil.rmtree(name, ignore_errors=True)
            Path(f"{name}.lock").unlink(missing_ok=True)
