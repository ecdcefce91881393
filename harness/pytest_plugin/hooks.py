"""Hooks that pytest calls."""

from __future__ import annotations

from collections.abc import Generator
from itertools import dropwhile, takewhile
from pathlib import Path
from typing import Final

import pytest

# pytest offers no other way to shorten a traceback.
from _pytest._code.code import TerminalRepr, Traceback

import harness
from harness import __version__
from harness.errors import ChecksFailedError, HarnessError
from harness.pytest_plugin.kept import Ledger, used_by
from harness.pytest_plugin.options import MARKER, add_options, settings_of

_CASE: Final = "_etharness_case"

_OURS = Path(harness.__file__).parent


def pytest_addoption(parser: pytest.Parser) -> None:
    """Declare options and ini values."""
    add_options(parser)


def pytest_configure(config: pytest.Config) -> None:
    """Declare the marker; register the removal of run directories of passed tests."""
    config.addinivalue_line("markers", MARKER)
    # Workers of pytest-xdist send their reports to the process that removes.
    if not (settings_of(config).keep or hasattr(config, "workerinput")):
        config.pluginmanager.register(Ledger(), "etharness-ledger")


def pytest_report_header(config: pytest.Config) -> str | None:
    """Return version and boards, with -v or if the command line names boards."""
    settings = settings_of(config)
    if config.get_verbosity() <= 0 and not settings.named_on_command_line:
        return None
    boards = ", ".join(settings.boards) or "as tests or [tool.etharness] say, or native"
    ports = ", ".join(filter(None, (port for _, port in settings.ports)))
    return f"etharness: {__version__}, boards: {boards}{f', ports: {ports}' if ports else ''}"


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """Create a test for each of its boards and models."""
    if _CASE in metafunc.fixturenames:
        from harness.pytest_plugin.cases import parametrize

        parametrize(metafunc)


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Deselect tests of boards that the command line does not name."""
    if not settings_of(config).named_on_command_line:
        return
    left_out = [item for item in items if _left_out(item)]
    if left_out:
        items[:] = [item for item in items if not _left_out(item)]
        config.hook.pytest_deselected(items=left_out)


def _left_out(item: pytest.Item) -> bool:
    call = getattr(item, "callspec", None)
    return call is not None and getattr(call.params.get(_CASE), "left_out", False)


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(
    item: pytest.Item, call: pytest.CallInfo[None]
) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """Show errors of this package without its frames; add where runs of a failed test are."""
    report = yield
    error = call.excinfo.value if call.excinfo is not None else None
    ours = isinstance(error, HarnessError) and not isinstance(error, ChecksFailedError)
    ours = ours and not item.config.getoption("fulltrace")
    if report.failed and call.excinfo is not None and ours:
        report.longrepr = readable(item, call.excinfo)
    used = used_by(item)
    if used is None:
        return report
    used.tell(report)
    if report.failed and (text := used.describe(item, error)):
        report.sections.append(("etharness", text))
    return report


def readable(item: pytest.Item, excinfo: pytest.ExceptionInfo[BaseException]) -> str | TerminalRepr:
    """Return an error of this package for the test's author: without frames of this package.

    Returns:
        The ``longrepr`` of a test report.
    """
    error = excinfo.value
    assert isinstance(error, HarnessError)
    hint = f"try: {error.hint}" if error.hint else ""
    theirs = [
        *takewhile(
            lambda entry: not _is_ours(entry.path),
            dropwhile(lambda entry: _is_pytests(entry.path), excinfo.traceback),
        )
    ]
    if not theirs:
        return "\n  ".join(filter(None, [f"{type(error).__name__}: {error.message}", hint]))
    if hint and hint not in getattr(error, "__notes__", ()):
        error.add_note(hint)
    excinfo.traceback = Traceback(theirs)
    short = item.config.getoption("tbstyle") in ("short", "line", "native", "no")
    return excinfo.getrepr(style="short" if short else "long", chain=False, tbfilter=False)


def _is_ours(path: Path | str) -> bool:
    return Path(path).is_relative_to(_OURS)


def _is_pytests(path: Path | str) -> bool:
    parts = Path(path).parts
    return "_pytest" in parts or "pluggy" in parts
