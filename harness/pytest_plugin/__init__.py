"""The pytest plugin: tests that run models on boards and assert on the results (docs/pytest.md).

Every pytest of its environment loads it, so it imports only pytest and the standard library; the
first test that requests a fixture imports the rest.

Examples:
    >>> import pytest
    >>> from harness.pytest_plugin import us
    >>> @pytest.mark.etharness(board="qemu-mps2-an385", model="kws_int8.pte", runs=5)
    ... def test_kws(etharness_run):
    ...     etharness_run.check(budget="budget.toml")
    ...     assert etharness_run.slowest("native_call_*conv*").p50 < 9_000 * us
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterator
from itertools import dropwhile, takewhile
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import pytest

# pytest offers no other way to shorten a traceback.
from _pytest._code.code import TerminalRepr, Traceback

import harness
from harness import __version__
from harness.duration import Duration, ms, ns, s, us
from harness.errors import ChecksFailedError, HarnessError
from harness.printing import printable, without_commands
from harness.pytest_plugin.options import MARKER, add_options, settings_of
from harness.pytest_plugin.run_directories import Ledger, used_by

if TYPE_CHECKING:
    import os

    from harness.api import Run
    from harness.config.board import Board
    from harness.link.session import Session
    from harness.pytest_plugin.running import Case, CaseUnit, Runs
    from harness.records.trace import Trace

__all__ = ["Duration", "ms", "ns", "s", "us"]

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
        from harness.pytest_plugin.running import parametrize

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


@pytest.fixture(scope="session")
def _etharness_runs(pytestconfig: pytest.Config, tmp_path_factory: pytest.TempPathFactory) -> Runs:
    """Runs of this session, each executed once."""
    from harness.pytest_plugin.options import settings_of
    from harness.pytest_plugin.running import Runs, project_of
    from harness.runs.history import history_of

    settings = settings_of(pytestconfig)
    base = tmp_path_factory.getbasetemp()
    # Workers of pytest-xdist have a directory each within one that they share.
    shared = base.parent if hasattr(pytestconfig, "workerinput") else base
    against = history_of(settings.history or project_of(settings).history, settings.baseline)
    return Runs(shared / "etharness", settings.wait_s, against)


@pytest.fixture
def _etharness_case(request: pytest.FixtureRequest) -> Case:
    """The unit and the model of this test."""
    case: Case | None = getattr(request, "param", None)
    if case is None:
        pytest.fail("etharness fixtures must be arguments of the test or its fixtures", False)
    if case.unable:
        pytest.fail(case.unable, pytrace=False)
    request.node.user_properties += [
        ("etharness_board", case.unit.board.name),
        ("etharness_unit", case.unit.name),
    ]
    return case


@pytest.fixture
def etharness_unit(_etharness_case: Case) -> CaseUnit:
    """The board that this test runs on: its type, its name, its port."""
    return _etharness_case.unit


@pytest.fixture
def etharness_board(etharness_unit: CaseUnit) -> Board:
    """The type of board that this test runs on."""
    return etharness_unit.board


@pytest.fixture
def etharness_session(
    request: pytest.FixtureRequest, etharness_unit: CaseUnit
) -> Iterator[Session]:
    """An open session with the board, started for this test and forgotten after it."""
    from harness.pytest_plugin.options import settings_of
    from harness.pytest_plugin.run_directories import console_of
    from harness.pytest_plugin.running import open_session

    wait_s = settings_of(request.config).wait_s
    with open_session(etharness_unit, wait_s, console_of(request.node)) as session:
        yield session


@pytest.fixture
def etharness_profile(
    request: pytest.FixtureRequest, _etharness_case: Case, _etharness_runs: Runs
) -> Callable[..., Run]:
    """Run a model on this test's board: ``etharness_profile(model, runs=5)``, once per session."""
    from harness.pytest_plugin.running import profile

    def run(model: str | os.PathLike[str] | None = None, **options: Any) -> Run:
        return profile(request.node, _etharness_runs, _etharness_case, model, options)

    return run


@pytest.fixture
def etharness_run(etharness_profile: Callable[..., Run]) -> Run:
    """The finished run of this test's model on its board."""
    return etharness_profile()


@pytest.fixture
def etharness_trace(etharness_run: Run) -> Trace:
    """The trace of this test's run."""
    return etharness_run.trace


def readable(item: pytest.Item, excinfo: pytest.ExceptionInfo[BaseException]) -> str | TerminalRepr:
    """Return an error of this package for the test's author: without frames of this package.

    Returns:
        The ``longrepr`` of a test report.
    """
    error = excinfo.value
    assert isinstance(error, HarnessError)
    hint = without_commands(f"try: {printable(error.hint)}") if error.hint else ""
    theirs = [
        *takewhile(
            lambda entry: not _is_ours(entry.path),
            dropwhile(lambda entry: _is_pytests(entry.path), excinfo.traceback),
        )
    ]
    if not theirs:
        return "\n  ".join(filter(None, [f"{type(error).__name__}: {error}", hint]))
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
