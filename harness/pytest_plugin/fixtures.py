"""Fixtures: the board, the unit, an open session to it, and finished runs."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    import os

    from harness.api import Run
    from harness.config.board import Board
    from harness.link.session import Session
    from harness.pytest_plugin.cases import Case, CaseUnit
    from harness.pytest_plugin.running import Runs
    from harness.records.trace import Trace


@pytest.fixture(scope="session")
def _etharness_runs(pytestconfig: pytest.Config, tmp_path_factory: pytest.TempPathFactory) -> Runs:
    """Runs of this session, each executed once."""
    from harness.pytest_plugin.cases import project_of
    from harness.pytest_plugin.options import settings_of
    from harness.pytest_plugin.running import Runs
    from harness.runs.baseline import history_of

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
    from harness.pytest_plugin.kept import console_of
    from harness.pytest_plugin.options import settings_of
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
