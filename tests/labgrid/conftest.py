"""A coordinator for each test: a fake one always, the real one where labgrid is installed."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.support.labgrid import (
    VENV,
    Coordinator,
    FakeCoordinator,
    RealCoordinator,
    real_coordinator,
)


@pytest.fixture(scope="session")
def running(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RealCoordinator]:
    with real_coordinator(tmp_path_factory.mktemp("labgrid")) as started:
        yield started


@pytest.fixture
def real(running: RealCoordinator, monkeypatch: pytest.MonkeyPatch) -> RealCoordinator:
    monkeypatch.setenv("ETHARNESS_LABGRID", str(VENV / "labgrid-client"))
    monkeypatch.setenv("LG_COORDINATOR", running.address)
    running.free()
    return running


@pytest.fixture
def fake(tmp_path, monkeypatch: pytest.MonkeyPatch) -> FakeCoordinator:
    made = FakeCoordinator(tmp_path, monkeypatch)
    monkeypatch.setenv("LG_COORDINATOR", made.address)
    return made


@pytest.fixture(params=["fake", pytest.param("real", marks=pytest.mark.labgrid)])
def coordinator(request: pytest.FixtureRequest) -> Coordinator:
    made: Coordinator = request.getfixturevalue(request.param)
    return made
