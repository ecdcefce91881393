"""Fixtures of the contract suite; skips contracts of an extension whose folder has been deleted."""

from __future__ import annotations

from importlib.util import find_spec
from pathlib import Path

import pytest

from tests.contract.desk import Command, Desk, build_chosen_times
from tests.contract.native_device import build_native


@pytest.fixture(scope="session")
def native_image(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The image of the native firmware."""
    return build_native(tmp_path_factory.mktemp("native"))


def pytest_runtest_setup(item: pytest.Item) -> None:
    """Skip a test of an extension that is not there (tests/packaging/test_extensions.py)."""
    for mark in item.iter_markers("extension"):
        if find_spec(f"harness.extensions.{mark.args[0]}") is None:
            pytest.skip(f"the extension {mark.args[0]} has been deleted")


@pytest.fixture(scope="session")
def chosen_times(shared: Path) -> Path:
    """A library that replaces the clock of the native firmware by times of our choice."""
    return build_chosen_times(shared)


@pytest.fixture
def desk(
    tmp_path: Path, etharness: Command, chosen_times: Path, monkeypatch: pytest.MonkeyPatch
) -> Desk:
    monkeypatch.setenv("LD_PRELOAD", str(chosen_times))
    monkeypatch.setenv("CHOSEN_TIMES", str(tmp_path / "factors"))
    monkeypatch.setenv("ETHARNESS_BASELINE_DIR", str(tmp_path / "kept"))
    desk = Desk(tmp_path, etharness)
    desk.live_quiet_nights()
    return desk
